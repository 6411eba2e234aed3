//! tokenizer.json: a text to token ids, cut to the longest input, with an honest count.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tokenizers::utils::truncation::TruncationParams;
use tokenizers::{PostProcessor as _, TruncationDirection};

use crate::error::{Error, Result};
use crate::long_text;
use crate::whole_text::WholeText;

/// A text as the model sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokenized {
    /// Token ids, special tokens included.
    pub ids: Vec<u32>,
    /// Was the text cut?
    pub truncated: bool,
}

/// Turns texts into token ids.
///
/// tokenizer.json may carry a truncation and a padding of its own (all-MiniLM-L6-v2 carries 128 and "always 128"): both are
/// replaced, as sentence-transformers does.
#[derive(Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// Most tokens of the text itself, without special tokens.
    content_tokens: usize,
    lower_case: bool,
}

impl Tokenizer {
    /// Reads the tokenizer.json at `path` for inputs of at most `max_tokens` tokens, special tokens included, and a model of
    /// `vocabulary` tokens. With `lower_case`, texts are lower-cased unless the tokenizer does it.
    ///
    /// # Errors
    /// [`Error::FileMissing`], [`Error::Io`] or [`Error::Tokenizer`] with the path; [`Error::Invalid`] when `max_tokens`
    /// leaves no room for the text.
    pub fn read(path: &Path, max_tokens: usize, vocabulary: usize, lower_case: bool) -> Result<Self> {
        let (mut inner, json) = read_file(path, vocabulary)?;
        let special_tokens = inner.get_post_processor().map_or(0, |processor| processor.added_tokens(false));
        let Some(content_tokens) = max_tokens.checked_sub(special_tokens).filter(|content| *content > 0) else {
            let problem = format!(
                "must be at least {}: the model adds {special_tokens} special tokens, got {max_tokens}",
                special_tokens + 1
            );
            return Err(Error::Invalid { field: "max_tokens", problem });
        };
        cut_after(&mut inner, content_tokens)
            .map_err(|problem| Error::Tokenizer { path: path.to_path_buf(), problem })?;
        let lower_case = lower_case && !json.get("normalizer").is_some_and(lower_cases);
        Ok(Self { inner, content_tokens, lower_case })
    }

    /// The ids of `instruction` + `text`. Linear in the bytes that the model reads.
    ///
    /// # Errors
    /// The tokenizer's own message; does not happen for BERT vocabularies, which have an unknown token.
    pub fn encode(&self, instruction: &str, text: &str) -> Result<Tokenized, String> {
        let joined = format!("{instruction}{text}");
        let input = if self.lower_case { joined.to_lowercase() } else { joined };
        let encoding = long_text::encode(&self.inner, &input, self.content_tokens + 1);
        let mut encoding = encoding.map_err(|error| error.to_string())?;
        let truncated = encoding.len() > self.content_tokens;
        encoding.truncate(self.content_tokens, 0, TruncationDirection::Right);
        let complete = match self.inner.get_post_processor() {
            Some(processor) => processor.process(encoding, None, true).map_err(|error| error.to_string())?,
            None => encoding,
        };
        Ok(Tokenized { ids: complete.get_ids().to_vec(), truncated })
    }

    /// A tokenizer of whole texts, which come after `instruction`. Copies the vocabulary.
    ///
    /// # Errors
    /// The tokenizer's own message.
    pub(crate) fn whole_text(&self, instruction: &str) -> Result<WholeText, String> {
        let mut inner = self.inner.clone();
        inner.with_truncation(None).map_err(|error| error.to_string())?;
        let taken = inner.encode(instruction, false).map_err(|error| error.to_string())?.len();
        let content_tokens = self.content_tokens.saturating_sub(taken).max(1);
        Ok(WholeText { inner, content_tokens, lower_case: self.lower_case })
    }
}

/// Reads the tokenizer.json at `path` for a model of `vocabulary` tokens.
pub(crate) fn read_file(path: &Path, vocabulary: usize) -> Result<(tokenizers::Tokenizer, Value)> {
    let fault = |problem: String| Error::Tokenizer { path: PathBuf::from(path), problem };
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let hint = "it holds the vocabulary in the form of the tokenizers library: fetch it into this folder";
            return Err(Error::FileMissing { path: path.to_path_buf(), hint });
        }
        Err(error) => return Err(Error::io(path, error)),
    };
    let json: Value = serde_json::from_slice(&bytes)
        .map_err(|error| Error::Json { path: path.to_path_buf(), reason: error.to_string() })?;
    let mut inner = tokenizers::Tokenizer::from_bytes(&bytes)
        .map_err(|error| fault(format!("is not a tokenizer that the tokenizers library knows: {error}")))?;

    let largest_id = inner.get_vocab(true).into_values().max().unwrap_or(0) as usize;
    if largest_id >= vocabulary {
        let problem = format!(
            "has token id {largest_id}, but vocab_size in config.json is {vocabulary}: the files do not belong together"
        );
        return Err(fault(problem));
    }
    // tokenizer.json may carry both.
    inner.with_padding(None);
    inner.with_truncation(None).map_err(|error| fault(error.to_string()))?;
    Ok((inner, json))
}

/// Cuts every text after `content_tokens` tokens and one: tokenising can stop early, and a cut still shows.
pub(crate) fn cut_after(inner: &mut tokenizers::Tokenizer, content_tokens: usize) -> Result<(), String> {
    let truncation = TruncationParams { max_length: content_tokens + 1, ..TruncationParams::default() };
    inner.with_truncation(Some(truncation)).map(|_| ()).map_err(|error| error.to_string())
}

/// Does this normalizer, or a part of it, lower-case?
fn lower_cases(normalizer: &Value) -> bool {
    match normalizer.get("type").and_then(Value::as_str) {
        Some("Lowercase") => true,
        Some("BertNormalizer") => normalizer.get("lowercase").and_then(Value::as_bool).unwrap_or(true),
        Some("Sequence") => {
            normalizer.get("normalizers").and_then(Value::as_array).is_some_and(|parts| parts.iter().any(lower_cases))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/tiny-bge/tokenizer.json");

    fn tiny(max_tokens: usize) -> Tokenizer {
        Tokenizer::read(Path::new(TINY), max_tokens, 12_000, true).unwrap()
    }

    #[test]
    fn the_instruction_is_put_before_the_text_as_it_is() {
        let tokenizer = tiny(512);
        assert_eq!(tokenizer.encode("query: ", "hello world"), tokenizer.encode("", "query: hello world"));
        assert_eq!(tokenizer.encode("que", "ry"), tokenizer.encode("", "query"));
    }

    #[test]
    fn a_cut_is_reported_exactly_at_the_limit() {
        let tokenizer = tiny(6);
        for (words, truncated) in [(0, false), (3, false), (4, false), (5, true), (500, true)] {
            let tokenized = tokenizer.encode("", &"the ".repeat(words)).unwrap();
            assert_eq!(tokenized.truncated, truncated, "{words} words");
            assert_eq!(tokenized.ids.len(), words.min(4) + 2, "{words} words");
            assert_eq!((tokenized.ids[0], tokenized.ids.last()), (101, Some(&102)), "special tokens survive the cut");
        }
    }

    #[test]
    fn awkward_texts_are_texts() {
        let tokenizer = tiny(512);
        assert_eq!(tokenizer.encode("", "").unwrap(), Tokenized { ids: vec![101, 102], truncated: false });
        let megabyte = tokenizer.encode("", &"x".repeat(1 << 20)).unwrap();
        assert_eq!(megabyte.ids, [101, 100, 102], "one word longer than the vocabulary's limit is one unknown token");
        assert!(!tokenizer.encode("", "a\u{0}b\u{1}c\u{7f}d\u{feff}").unwrap().ids.is_empty());
    }

    #[test]
    fn no_room_for_text_is_refused() {
        let error = Tokenizer::read(Path::new(TINY), 2, 12_000, true).unwrap_err();
        assert_eq!(error.to_string(), "max_tokens: must be at least 3: the model adds 2 special tokens, got 2");
        let error = Tokenizer::read(Path::new(TINY), 512, 11_999, true).unwrap_err().to_string();
        assert!(error.contains("has token id 11999, but vocab_size in config.json is 11999"), "{error}");
    }

    #[test]
    fn a_cased_tokenizer_is_lower_cased_when_the_model_asks() {
        let mut json: Value = serde_json::from_slice(&fs::read(TINY).unwrap()).unwrap();
        json["normalizer"]["lowercase"] = Value::Bool(false);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        fs::write(&path, json.to_string()).unwrap();
        let ids =
            |lower_case| Tokenizer::read(&path, 512, 12_000, lower_case).unwrap().encode("", "HELLO").unwrap().ids;
        assert_eq!(ids(true), tiny(512).encode("", "hello").unwrap().ids);
        assert_ne!(ids(false), ids(true));
    }
}
