//! What chunk sizes are counted in.

use std::fmt;
use std::sync::Arc;

use toller_core::Tokenizer;

use crate::error::Error;
use crate::token_places::TokenPlaces;

/// The unit of chunk sizes and overlaps.
#[derive(Clone, Default)]
pub(crate) enum Length {
    /// Unicode code points.
    #[default]
    CodePoints,
    /// Tokens of a model.
    Tokens(Arc<dyn Tokenizer>),
}

impl fmt::Debug for Length {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::CodePoints => "code points",
            Self::Tokens(_) => "tokens",
        })
    }
}

impl Length {
    /// What measures the parts of one text.
    pub(crate) fn measure(&self, text: &str) -> Result<Measure, Error> {
        Ok(match self {
            Self::CodePoints => Measure::CodePoints,
            Self::Tokens(tokenizer) => Measure::Tokens(TokenPlaces::new(tokenizer.as_ref(), text)?),
        })
    }
}

/// Measures the parts of one text: the length of a part is [`Self::until`] its end less [`Self::before`] its beginning.
///
/// A token that a cut goes through is of both parts, so that what is measured as short enough is.
pub(crate) enum Measure {
    /// In code points.
    CodePoints,
    /// In tokens.
    Tokens(TokenPlaces),
}

impl Measure {
    /// Units wholly before a place: byte `byte`, which `chars` code points are before. O(log text).
    pub(crate) fn before(&self, byte: usize, chars: usize) -> usize {
        match self {
            Self::CodePoints => chars,
            Self::Tokens(places) => places.ended_before(byte),
        }
    }

    /// Units that have begun before a place. O(log text).
    pub(crate) fn until(&self, byte: usize, chars: usize) -> usize {
        match self {
            Self::CodePoints => chars,
            Self::Tokens(places) => places.begun_before(byte),
        }
    }

    /// The first byte from which on, up to `byte`, there are at most `units`. O(units), O(log text) for tokens.
    pub(crate) fn back(&self, text: &str, byte: usize, units: usize) -> usize {
        match self {
            Self::CodePoints => {
                let before = text.get(..byte).unwrap_or_default();
                units.checked_sub(1).map_or(byte, |last| before.char_indices().rev().nth(last).map_or(0, |(at, _)| at))
            }
            Self::Tokens(_) if units == 0 => byte,
            Self::Tokens(places) => {
                let out_of_reach = places.begun_before(byte).saturating_sub(units);
                places.end_of(out_of_reach).map_or(byte, |end| end.min(byte))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token_places::tests::Words;

    #[test]
    fn a_cut_token_is_of_both_parts() {
        let measure = Length::Tokens(Arc::new(Words)).measure("abcd ef").unwrap();
        let length = |from: usize, to: usize| measure.until(to, to) - measure.before(from, from);
        assert_eq!((length(0, 7), length(0, 2), length(2, 4), length(4, 5), length(4, 6)), (2, 1, 1, 0, 1));
    }

    #[test]
    fn back_is_as_far_as_the_units_reach() {
        let text = "abcd éf gh";
        assert_eq!([0, 1, 3, 99].map(|units| Measure::CodePoints.back(text, 7, units)), [7, 5, 3, 0]);
        let measure = Length::Tokens(Arc::new(Words)).measure(text).unwrap();
        assert_eq!([0, 1, 2, 99].map(|units| measure.back(text, 9, units)), [9, 4, 0, 0]);
    }
}
