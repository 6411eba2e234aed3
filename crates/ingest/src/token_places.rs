//! Where the tokens of one text stand, put in order, so that lengths and cuts are questions of bisection.

use std::cell::Cell;
use std::ops::Range;

use toller_core::Tokenizer;

use crate::error::Error;

/// The tokens of a text: starts and ends both ascend, and lie between two characters.
///
/// Tokenizers may give empty ranges, ranges within a character (parts of its bytes) and ranges that overlap; the first are left
/// out, the second widened to the character.
pub(crate) struct TokenPlaces {
    ranges: Vec<Range<usize>>,
    /// The last answer: the next one is most often beside it.
    last: Cell<usize>,
}

impl TokenPlaces {
    /// Tokenises `text`. O(text).
    pub(crate) fn new(tokenizer: &dyn Tokenizer, text: &str) -> Result<Self, Error> {
        let given = tokenizer.token_ranges(text).map_err(|fault| Error::Tokenizer(Box::new(fault)))?;
        let (mut start, mut end) = (0, 0);
        let mut ranges = Vec::with_capacity(given.len());
        for range in given.into_iter().filter(|range| range.start < range.end) {
            start = start.max(text.floor_char_boundary(range.start));
            end = end.max(text.ceil_char_boundary(range.end)).max(start);
            ranges.push(start..end);
        }
        Ok(Self { ranges, last: Cell::new(0) })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.ranges.len()
    }

    /// How many lie wholly before byte `offset`. O(log(tokens between this and the last question)).
    pub(crate) fn ended_before(&self, offset: usize) -> usize {
        self.count_while(|token| token.end <= offset)
    }

    /// How many begin before byte `offset`. Costs as [`Self::ended_before`].
    pub(crate) fn begun_before(&self, offset: usize) -> usize {
        self.count_while(|token| token.start < offset)
    }

    /// How many tokens `is_before` is true of; it is of none after one that it is not true of.
    fn count_while(&self, is_before: impl Fn(&Range<usize>) -> bool) -> usize {
        let holds = |index: usize| self.ranges.get(index).is_some_and(&is_before);
        let (mut low, mut high) = (self.last.get(), self.last.get());
        let mut stride = 1;
        // Strides from the last answer that grow until the new one is between `low` and `high`.
        while holds(high) {
            low = high + 1;
            high = (high + stride).min(self.ranges.len());
            stride *= 2;
        }
        while low > 0 && !holds(low - 1) {
            high = low - 1;
            low = high.saturating_sub(stride);
            stride *= 2;
        }
        let count = low + self.ranges.get(low..high).unwrap_or_default().partition_point(&is_before);
        self.last.set(count);
        count
    }

    /// The byte at which the first `count` tokens are over; none when there are fewer. 0 for none of them.
    pub(crate) fn end_of(&self, count: usize) -> Option<usize> {
        count.checked_sub(1).map_or(Some(0), |last| self.ranges.get(last).map(|token| token.end))
    }

    /// The byte at which the first `count` tokens are over and no further one has begun; none when there are not more than that.
    pub(crate) fn cut_after(&self, count: usize) -> Option<usize> {
        let next = self.ranges.get(count)?.start;
        self.end_of(count).map(|end| end.min(next))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Runs of alphanumeric characters are tokens, in parts of at most four characters; so is every other character but whitespace.
    pub(crate) struct Words;

    impl Tokenizer for Words {
        fn token_ranges(&self, text: &str) -> toller_core::Result<Vec<Range<usize>>> {
            let mut ranges: Vec<Range<usize>> = Vec::new();
            let mut run = 0;
            for (at, character) in text.char_indices() {
                let end = at + character.len_utf8();
                let is_word = character.is_alphanumeric();
                match ranges.last_mut() {
                    Some(last) if is_word && run > 0 && run < 4 && last.end == at => {
                        last.end = end;
                        run += 1;
                    }
                    _ if !character.is_whitespace() => {
                        ranges.push(at..end);
                        run = usize::from(is_word);
                    }
                    _ => run = 0,
                }
            }
            Ok(ranges)
        }

        fn max_text_tokens(&self) -> usize {
            8
        }
    }

    /// A tokenizer with the ranges it is made of.
    pub(crate) struct Fixed(pub(crate) Vec<Range<usize>>);

    impl Tokenizer for Fixed {
        fn token_ranges(&self, _text: &str) -> toller_core::Result<Vec<Range<usize>>> {
            Ok(self.0.clone())
        }

        fn max_text_tokens(&self) -> usize {
            8
        }
    }

    #[test]
    fn tokens_are_counted_by_where_they_begin_and_end() {
        let places = TokenPlaces::new(&Words, "ab, cdefgh").unwrap();
        assert_eq!(places.count(), 4, "ab and , and cdef and gh");
        assert_eq!((places.ended_before(1), places.ended_before(2)), (0, 1));
        assert_eq!((places.begun_before(4), places.begun_before(5)), (2, 3));
        assert_eq!((places.cut_after(0), places.cut_after(2), places.cut_after(4)), (Some(0), Some(3), None));
    }

    #[test]
    fn the_order_of_questions_does_not_matter() {
        let text = "a ".repeat(100);
        let places = TokenPlaces::new(&Words, &text).unwrap();
        for offset in (0..=text.len()).chain((0..=text.len()).rev()).chain((0..1000).map(|n| n * 7919 % 201)) {
            assert_eq!(places.ended_before(offset), offset.div_ceil(2), "{offset}");
            assert_eq!(places.begun_before(offset), offset.div_ceil(2), "{offset}");
        }
    }

    #[test]
    fn ranges_are_put_in_order() {
        // Two parts of é, an empty range, and one that begins before the last has ended.
        let places = TokenPlaces::new(&Fixed(vec![0..1, 1..2, 2..2, 2..4, 3..5]), "éabc").unwrap();
        assert_eq!(places.ranges, [0..2, 0..2, 2..4, 3..5]);
        assert_eq!(places.cut_after(1), Some(0), "the second token is of the same character");
    }
}
