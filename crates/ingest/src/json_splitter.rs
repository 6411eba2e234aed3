//! JSON, cut between its values.

use toller_core::Value;

use crate::cascade::{Level, Merged, Rules, cascade};
use crate::error::Error;
use crate::json_outline::JsonOutline;
use crate::key::JSON_PATH;
use crate::length::Length;
use crate::recursive::{DEFAULT_CHUNK_SIZE, check_size};
use crate::separator::KeepSeparator;
use crate::splitter::{Chunk, Splitter};
use crate::strip::Strip;
use crate::structure::Structure;
use crate::title;

/// Cuts JSON between its values: the members of the outermost array or object first, those of the ones within only where a member is
/// longer than a chunk.
///
/// Chunks are parts of the source, so most of them are not JSON by themselves; [`JSON_PATH`] in their metadata says where they belong, cut at
/// [`crate::MAX_TITLE_BYTES`].
/// Every comma, key and bracket is in one of them. A chunk is longer than the chunk size only when one string or number is, with its key
/// and the brackets beside it: a scalar is never cut. Structure changes nothing.
///
/// LangChain's `RecursiveJsonSplitter` makes new JSON of the parts, cuts no arrays unless told to, and nothing below 50 characters.
///
/// Cost: O(text × depth of nesting), which is at most 128.
#[derive(Debug, Clone)]
pub struct JsonSplitter {
    rules: Rules,
}

impl JsonSplitter {
    /// Chunks of at most `chunk_size` code points, at least 1.
    ///
    /// # Errors
    /// When it is 0.
    pub fn new(chunk_size: usize) -> Result<Self, Error> {
        check_size(chunk_size, 0)?;
        let Self { rules } = Self::default();
        Ok(Self { rules: Rules { chunk_size, ..rules } })
    }

    /// The chunks, and the steps it took.
    fn run<'t>(&self, text: &'t str) -> Result<(Vec<Chunk<'t>>, u64), Error> {
        let outline = JsonOutline::new(text)?;
        let joints = outline.joints();
        let levels: Vec<Level<'_>> = joints.iter().map(|places| Level::Places(places)).collect();
        let (mut chunks, steps) = cascade(text, &levels, &self.rules)?;
        for chunk in &mut chunks {
            if let Some(pointer) = outline.pointer_within(&chunk.bytes) {
                chunk.metadata.insert(JSON_PATH.to_owned(), Value::from(title::bounded(&pointer).as_ref()));
            }
        }
        Ok((chunks, steps))
    }
}

impl Default for JsonSplitter {
    fn default() -> Self {
        let rules = Rules {
            chunk_size: DEFAULT_CHUNK_SIZE,
            chunk_overlap: 0,
            length: Length::CodePoints,
            keep_separator: KeepSeparator::Start,
            strip: Strip::Whitespace,
            merged: Merged::FittingStripped,
        };
        Self { rules }
    }
}

impl Splitter for JsonSplitter {
    /// # Errors
    /// [`Error::InvalidJson`] when the text is not JSON, or nested deeper than 128.
    fn split_structured<'t>(&self, text: &'t str, _structure: &Structure) -> Result<Vec<Chunk<'t>>, Error> {
        Ok(self.run(text)?.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(size: usize, text: &str) -> Vec<(String, String)> {
        let chunks = JsonSplitter::new(size).unwrap().split(text).unwrap();
        chunks
            .into_iter()
            .map(|chunk| {
                assert_eq!(text[chunk.bytes.clone()], *chunk.text);
                match chunk.metadata.get(JSON_PATH) {
                    Some(Value::String(pointer)) => (chunk.text.to_owned(), pointer.clone()),
                    other => panic!("{other:?}"),
                }
            })
            .collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(text, pointer)| ((*text).to_owned(), (*pointer).to_owned())).collect()
    }

    #[test]
    fn what_fits_is_whole() {
        assert_eq!(split(100, " {\"a\": [1, 2]}\n"), pairs(&[("{\"a\": [1, 2]}", "")]));
        assert_eq!(split(1, "7"), pairs(&[("7", "")]));
    }

    #[test]
    fn members_are_kept_together_where_they_fit() {
        let text = r#"{"name": "Toller", "coat": ["red", "white"], "books": [{"title": "One"}, {"title": "Two"}]}"#;
        let expected = [
            (r#"{"name": "Toller","#, "/name"),
            (r#""coat": ["red", "white"],"#, "/coat"),
            (r#""books": [{"title": "One"},"#, "/books/0"),
            (r#"{"title": "Two"}]}"#, "/books/1"),
        ];
        assert_eq!(split(28, text), pairs(&expected));
    }

    #[test]
    fn a_scalar_is_never_cut() {
        let text = r#"["aaaaaaaaaaaa", 1, 2]"#;
        assert_eq!(split(6, text), pairs(&[(r#"["aaaaaaaaaaaa","#, "/0"), ("1, 2]", "/1")]));
    }

    #[test]
    fn paths_of_long_keys_are_bounded_and_made_soon() {
        let started = std::time::Instant::now();
        for (key, path) in [
            ("k\\n".repeat(300_000), format!("/{}k…", "k\n".repeat(253))),
            ("\\u00e9".repeat(150_000), format!("/{}…", "é".repeat(254))),
            // It cannot be read in part, and is named as it is written.
            (format!("x{}", "\\udc15".repeat(150_000)), format!("/x{}\\ud…", "\\udc15".repeat(84))),
        ] {
            let text = format!(r#"{{"{key}": [{}0]}}"#, "1, ".repeat(20_000));
            let chunks = JsonSplitter::new(10).unwrap().split(&text).unwrap();
            assert!(chunks.len() > 4_000);
            assert!(
                chunks.iter().all(|chunk| chunk.metadata[JSON_PATH] == Value::from(path.as_str())),
                "{:?}",
                chunks[1].metadata
            );
        }
        assert!(started.elapsed() < std::time::Duration::from_secs(5), "{:?}", started.elapsed());
    }

    #[test]
    fn nothing_is_lost() {
        let text = r#"[{"é": [[1, 2, 3], {"deep": {"deeper": [true, false, null]}}]}, "👨‍👩", []]"#;
        for size in 1..text.chars().count() + 2 {
            let joined: String = split(size, text).into_iter().map(|(chunk, _)| chunk).collect();
            let without_spaces = |text: &str| text.replace(' ', "");
            assert_eq!(without_spaces(&joined), without_spaces(text), "size {size}");
        }
    }

    #[test]
    fn what_is_not_json_is_an_error() {
        let fault = JsonSplitter::default().split("{\"a\": 1,}").unwrap_err().to_string();
        assert!(fault.starts_with("not valid JSON: ") && fault.contains("line 1 column"), "{fault}");
        assert_eq!(JsonSplitter::new(0).unwrap_err().to_string(), "chunk_size: must be at least 1, got 0");
    }

    #[test]
    fn cost_is_linear_in_the_text() {
        for unit in [r#"{"a": [1, {"b": "text"}]}, "#, "1,", r#""x", "#] {
            let steps = |bytes: usize| {
                let text = format!("[{}0]", unit.repeat(bytes / unit.len()));
                JsonSplitter::new(20).unwrap().run(&text).unwrap().1
            };
            let (once, twice) = (steps(200_000), steps(400_000));
            assert!(twice <= once * 2 + once / 10, "{unit}: {once} steps for n, {twice} for 2n");
        }
    }
}
