//! Declarations with every default filled in.

use super::SplitterSpec;
use super::parameters::{CharacterSpec, HeadingsSpec, RecursiveSpec, SentenceSpec, TokenSpec};
use crate::recursive::default_chunk_overlap;

impl SplitterSpec {
    /// The same with every default spelt out, so that declarations that say the same, one by a default and the other in words, are equal, and
    /// so is what is hashed of them. What depends on the model stays absent: the size of token windows, and an overlap that follows from it.
    ///
    /// ```
    /// use toller_ingest::SplitterSpec;
    ///
    /// let read = |json| serde_json::from_str::<SplitterSpec>(json);
    /// let by_default = read(r#"{"sentence": {"chunk_size": 200}}"#)?;
    /// let in_words = read(r#"{"sentence": {"chunk_size": 200, "chunk_overlap": 30}}"#)?;
    /// assert_ne!(by_default, in_words);
    /// assert_eq!(by_default.resolved(), in_words.resolved());
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn resolved(&self) -> Self {
        match self.clone() {
            Self::Recursive(spec) => Self::Recursive(RecursiveSpec {
                chunk_overlap: overlap(spec.chunk_overlap, Some(spec.chunk_size)),
                ..spec
            }),
            Self::Character(spec) => Self::Character(CharacterSpec {
                chunk_overlap: overlap(spec.chunk_overlap, Some(spec.chunk_size)),
                ..spec
            }),
            Self::Sentence(spec) => Self::Sentence(SentenceSpec {
                chunk_overlap: overlap(spec.chunk_overlap, Some(spec.chunk_size)),
                ..spec
            }),
            Self::Token(spec) => {
                Self::Token(TokenSpec { chunk_overlap: overlap(spec.chunk_overlap, spec.chunk_size), ..spec })
            }
            Self::Headings(HeadingsSpec { mut levels, strip_headings, inner }) => {
                levels.sort_by_key(|level| level.level);
                Self::Headings(HeadingsSpec { levels, strip_headings, inner: Box::new(inner.resolved()) })
            }
            // Their parameters have values where they are declared.
            other @ (Self::Whole {} | Self::Json(_) | Self::Semantic(_) | Self::Code(_)) => other,
        }
    }
}

fn overlap(declared: Option<usize>, chunk_size: Option<usize>) -> Option<usize> {
    declared.or_else(|| chunk_size.map(default_chunk_overlap))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> SplitterSpec {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn declarations_that_cut_alike_are_equal() {
        for (by_default, in_words) in [
            (
                r#"{"recursive": {}}"#,
                r#"{"recursive": {"chunk_size": 1000, "chunk_overlap": 150, "length": "characters", "separators": {"set": "prose"},
                    "keep_separator": "start", "strip_whitespace": true, "always_overlap": false}}"#,
            ),
            (r#"{"recursive": {"chunk_size": 200}}"#, r#"{"recursive": {"chunk_size": 200, "chunk_overlap": 30}}"#),
            (
                r#"{"recursive": {"chunk_size": 99, "length": "tokens"}}"#,
                r#"{"recursive": {"chunk_size": 99, "length": "tokens", "chunk_overlap": 14}}"#,
            ),
            (r#"{"character": {"chunk_size": 2000}}"#, r#"{"character": {"chunk_size": 2000, "chunk_overlap": 150}}"#),
            (r#"{"sentence": {"chunk_size": 1}}"#, r#"{"sentence": {"chunk_size": 1, "chunk_overlap": 0}}"#),
            (r#"{"token": {"chunk_size": 100}}"#, r#"{"token": {"chunk_size": 100, "chunk_overlap": 15}}"#),
            (
                r#"{"headings": {"levels": [{"level": 1, "name": "a"}, {"level": 2, "name": "b"}]}}"#,
                r#"{"headings": {"levels": [{"level": 2, "name": "b"}, {"level": 1, "name": "a"}],
                    "inner": {"recursive": {"chunk_overlap": 150}}}}"#,
            ),
            (r#"{"json": {}}"#, r#"{"json": {"chunk_size": 1000}}"#),
            (r#"{"semantic": {}}"#, r#"{"semantic": {"threshold": {"percentile": 95}, "buffer_size": 1}}"#),
            (r#"{"code": {"language": "go"}}"#, r#"{"code": {"language": "go", "chunk_size": 1000}}"#),
            (r#"{"whole": {}}"#, r#"{"whole": {}}"#),
        ] {
            let resolved = read(by_default).resolved();
            assert_eq!(resolved, read(in_words).resolved());
            assert_eq!(resolved.resolved(), resolved, "{by_default}");
            let json = |spec: &SplitterSpec| serde_json::to_string(spec).unwrap();
            assert_eq!(json(&resolved), json(&read(in_words).resolved()));
        }
    }

    #[test]
    fn what_differs_stays_different() {
        for (one, other) in [
            (r#"{"recursive": {"chunk_size": 200}}"#, r#"{"recursive": {"chunk_size": 200, "chunk_overlap": 0}}"#),
            (r#"{"token": {}}"#, r#"{"token": {"chunk_size": 512}}"#),
            (r#"{"headings": {}}"#, r#"{"headings": {"inner": {"whole": {}}}}"#),
        ] {
            assert_ne!(read(one).resolved(), read(other).resolved());
        }
        let by_model = read(r#"{"token": {}}"#);
        assert_eq!(by_model.resolved(), by_model, "the model says how long its windows are");
    }
}
