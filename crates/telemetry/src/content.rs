//! Whether query texts, document texts and vectors may leave the process in spans.
//!
//! Off unless turned on: a trace backend is often open to more people than the data is. Where it is on, the four
//! `OPENINFERENCE_HIDE_*` variables still hide their part, which shows as `__REDACTED__`.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::names;

/// Most documents or texts of one span whose content is recorded; scores and ids in JSON cover all.
pub const MAX_RECORDED_ITEMS: usize = 32;

/// Longest text of one attribute in bytes; longer ones are cut at a character.
pub const MAX_RECORDED_BYTES: usize = 8 * 1024;

/// What may leave the process. The default is nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContentPolicy {
    /// Record content at all.
    pub record: bool,
    /// Hide query texts, where they are embedded too.
    pub hide_inputs: bool,
    /// Hide ids, texts and metadata of found documents.
    pub hide_outputs: bool,
    /// Hide embedded texts.
    pub hide_embeddings_text: bool,
    /// Hide vectors.
    pub hide_embeddings_vectors: bool,
}

/// The policy of this process, as [`ContentPolicy::to_bits`]. A cell and not an argument, since spans are made in every layer.
static CURRENT: AtomicU8 = AtomicU8::new(0);

impl ContentPolicy {
    /// The policy of the four `OPENINFERENCE_HIDE_*` variables (`true` or `1`, in any case, hides), read through `variable`.
    pub fn from_variables(record: bool, variable: impl Fn(&str) -> Option<String>) -> Self {
        let is_set = |name: &str| {
            variable(name).is_some_and(|value| value.trim() == "1" || value.trim().eq_ignore_ascii_case("true"))
        };
        Self {
            record,
            hide_inputs: is_set(names::ENV_HIDE_INPUTS),
            hide_outputs: is_set(names::ENV_HIDE_OUTPUTS),
            hide_embeddings_text: is_set(names::ENV_HIDE_EMBEDDINGS_TEXT),
            hide_embeddings_vectors: is_set(names::ENV_HIDE_EMBEDDINGS_VECTORS),
        }
    }

    /// The policy of this process.
    pub fn current() -> Self {
        Self::from_bits(CURRENT.load(Ordering::Relaxed))
    }

    /// Makes this the policy of the process, for spans recorded from now on.
    pub fn install(self) {
        CURRENT.store(self.to_bits(), Ordering::Relaxed);
    }

    fn to_bits(self) -> u8 {
        u8::from(self.record)
            | u8::from(self.hide_inputs) << 1
            | u8::from(self.hide_outputs) << 2
            | u8::from(self.hide_embeddings_text) << 3
            | u8::from(self.hide_embeddings_vectors) << 4
    }

    fn from_bits(bits: u8) -> Self {
        Self {
            record: bits & 1 != 0,
            hide_inputs: bits & 1 << 1 != 0,
            hide_outputs: bits & 1 << 2 != 0,
            hide_embeddings_text: bits & 1 << 3 != 0,
            hide_embeddings_vectors: bits & 1 << 4 != 0,
        }
    }
}

/// `text`, or the mark of a hidden one; cut to [`MAX_RECORDED_BYTES`] at a character.
pub(crate) fn shown(text: &str, hidden: bool) -> Cow<'_, str> {
    if hidden { Cow::Borrowed(names::values::REDACTED) } else { Cow::Borrowed(cut(text, MAX_RECORDED_BYTES)) }
}

/// The longest prefix of `text` of at most `most` bytes that ends at a character.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn variables_hide_when_true_or_one() {
        let policy = ContentPolicy::from_variables(true, |name| match name {
            names::ENV_HIDE_INPUTS => Some("TRUE".to_owned()),
            names::ENV_HIDE_OUTPUTS => Some(" 1 ".to_owned()),
            names::ENV_HIDE_EMBEDDINGS_TEXT => Some("false".to_owned()),
            _ => None,
        });
        let expected = ContentPolicy {
            record: true,
            hide_inputs: true,
            hide_outputs: true,
            hide_embeddings_text: false,
            hide_embeddings_vectors: false,
        };
        assert_eq!(policy, expected);
    }

    #[test]
    fn nothing_is_recorded_by_default() {
        assert!(!ContentPolicy::default().record);
        assert!(!ContentPolicy::from_variables(false, |_| None).record);
    }

    proptest! {
        #[test]
        fn bits_keep_every_flag(bits in 0_u8..32) {
            prop_assert_eq!(ContentPolicy::from_bits(bits).to_bits(), bits);
        }

        #[test]
        fn a_cut_text_is_a_prefix_within_the_limit(text in "\\PC{0,40}", most in 0_usize..80) {
            let prefix = cut(&text, most);
            prop_assert!(prefix.len() <= most && text.starts_with(prefix));
            prop_assert!(text.len() <= most || most - prefix.len() < 4);
        }
    }
}
