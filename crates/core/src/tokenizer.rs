//! How a model cuts text into tokens.

use std::ops::Range;

use crate::error::Result;

/// Cuts text into the tokens that a model counts.
pub trait Tokenizer: Send + Sync {
    /// Where each token of the text stands in it, in bytes, in the order of the text; special tokens and an instruction are left out,
    /// and nothing is cut off. O(text). A token that stands for nothing in the text has an empty range.
    ///
    /// # Errors
    /// `Internal` when the tokenizer fails.
    fn token_ranges(&self, text: &str) -> Result<Vec<Range<usize>>>;

    /// Most tokens of a text that the model sees in the document role, special tokens and instruction left out; at least 1.
    fn max_text_tokens(&self) -> usize;
}
