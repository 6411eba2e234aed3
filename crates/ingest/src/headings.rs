//! Sections by their headings.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use toller_core::{Metadata, Value};

use crate::error::Error;
use crate::span::SpanChunks;
use crate::splitter::{Chunk, Splitter};
use crate::strip::Strip;
use crate::structure::{Heading, Structure};
use crate::title;

/// Levels of headings.
pub const HEADING_LEVELS: usize = 6;

/// Sections by the headings of the text's [`Structure`], whatever its format: LangChain's `MarkdownHeaderTextSplitter` and
/// `HTMLHeaderTextSplitter`.
///
/// A section goes from one heading to the next, and its chunks carry the titles above it in their metadata: `Header 1` to `Header 6`,
/// unless named otherwise, each cut at [`crate::MAX_TITLE_BYTES`]. A heading of level n ends those of level n and deeper. Headings of levels that have no name are text.
///
/// Bodies are the source's own, byte by byte. A heading without a body goes with the section below it: its title is in the metadata
/// there, and when headings are kept it begins that chunk. Where no deeper section follows, the heading itself is the chunk, stripped or
/// not, so that nothing is lost. Two sections never merge, not even when their titles are the same.
///
/// An inner splitter cuts sections further; its chunks carry the titles too.
///
/// Cost: O(text × levels of structure), plus that of the inner splitter.
#[derive(Clone)]
pub struct HeadingSplitter {
    names: [Option<String>; HEADING_LEVELS],
    strip_headings: bool,
    strip: Strip,
    inner: Option<Arc<dyn Splitter>>,
}

impl fmt::Debug for HeadingSplitter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("HeadingSplitter").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Default for HeadingSplitter {
    fn default() -> Self {
        Self {
            names: [1, 2, 3, 4, 5, 6].map(|level| Some(default_heading_name(level))),
            strip_headings: false,
            strip: Strip::Whitespace,
            inner: None,
        }
    }
}

/// The metadata name of a level's titles, unless set otherwise: `Header 1` to `Header 6`, as is usual with LangChain.
pub fn default_heading_name(level: u8) -> String {
    format!("Header {level}")
}

impl HeadingSplitter {
    /// Cuts at the headings of these levels only, and names their titles: pairs of a level, 1 to 6, and a name in the metadata.
    ///
    /// # Errors
    /// When there are none, a level is out of range or named twice, or a name is empty or of two levels.
    pub fn levels(mut self, levels: &[(u8, String)]) -> Result<Self, Error> {
        if levels.is_empty() {
            return Err(Error::invalid("levels", "must name at least one level"));
        }
        let mut names: [Option<String>; HEADING_LEVELS] = Default::default();
        for (level, name) in levels {
            if name.is_empty() {
                return Err(Error::invalid("levels", format!("level {level} must have a name that is not empty")));
            }
            if names.iter().flatten().any(|known| known == name) {
                return Err(Error::invalid("levels", format!("two levels have the name {name:?}")));
            }
            let index = usize::from(*level).checked_sub(1);
            match index.and_then(|index| names.get_mut(index)) {
                Some(free @ None) => *free = Some(name.clone()),
                Some(Some(_)) => return Err(Error::invalid("levels", format!("level {level} is named twice"))),
                None => return Err(Error::invalid("levels", format!("must be 1 to {HEADING_LEVELS}, got {level}"))),
            }
        }
        self.names = names;
        Ok(self)
    }

    /// Whether headings are left out of the text of chunks; they are not, unless set otherwise.
    #[must_use]
    pub fn strip_headings(mut self, strip: bool) -> Self {
        self.strip_headings = strip;
        self
    }

    /// Whether whitespace is taken off both ends of sections, and sections of nothing else are dropped; it is, unless set otherwise.
    #[must_use]
    pub fn strip_whitespace(mut self, strip: bool) -> Self {
        self.strip = Strip::whitespace(strip);
        self
    }

    /// What cuts sections further; sections are whole, unless set otherwise.
    #[must_use]
    pub fn inner(mut self, splitter: Arc<dyn Splitter>) -> Self {
        self.inner = Some(splitter);
        self
    }

    fn name(&self, level: u8) -> Option<&str> {
        self.names.get(usize::from(level).checked_sub(1)?)?.as_deref()
    }

    /// The sections with the titles above them, in order.
    fn sections(&self, text: &str, structure: &Structure) -> Vec<(Range<usize>, Metadata)> {
        let is_within = |heading: &&Heading| text.get(heading.bytes.clone()).is_some();
        let headings: Vec<&Heading> = structure
            .headings()
            .iter()
            .filter(|heading| self.name(heading.level).is_some())
            .filter(is_within)
            .collect();
        let mut sections = Vec::new();
        let mut above: Vec<&Heading> = Vec::new();
        sections.push((0..headings.first().map_or(text.len(), |first| first.bytes.start), Metadata::new()));
        // Where the headings began that have no body and go with the next section.
        let mut pending = None;
        for (index, heading) in headings.iter().enumerate() {
            let next = headings.get(index + 1);
            let end = next.map_or(text.len(), |next| next.bytes.start);
            above.retain(|title| title.level < heading.level);
            above.push(heading);
            let body = text.get(heading.bytes.end..end).unwrap_or_default();
            let has_body = !body.trim_matches(crate::whitespace::is_space).is_empty();
            let begin = pending.take().unwrap_or(heading.bytes.start);
            if !has_body && next.is_some_and(|next| next.level > heading.level) {
                pending = Some(begin);
                continue;
            }
            let start = match (self.strip_headings, has_body) {
                (true, true) => heading.bytes.end,
                (true, false) => heading.bytes.start,
                (false, _) => begin,
            };
            sections.push((start..end, self.titles(&above)));
        }
        sections
    }

    fn titles(&self, above: &[&Heading]) -> Metadata {
        above
            .iter()
            .filter_map(|heading| {
                Some((self.name(heading.level)?.to_owned(), Value::from(title::bounded(&heading.title).as_ref())))
            })
            .collect()
    }
}

impl Splitter for HeadingSplitter {
    fn split_structured<'t>(&self, text: &'t str, structure: &Structure) -> Result<Vec<Chunk<'t>>, Error> {
        let mut spans = SpanChunks::new(text, self.strip);
        for (bytes, titles) in self.sections(text, structure) {
            spans.push(bytes, titles);
        }
        let sections = spans.finish();
        let Some(inner) = &self.inner else { return Ok(sections) };
        let mut chunks = Vec::with_capacity(sections.len());
        for section in sections {
            let within = structure.within(section.bytes.clone());
            for mut chunk in inner.split_structured(section.text, &within)? {
                chunk.bytes = section.bytes.start + chunk.bytes.start..section.bytes.start + chunk.bytes.end;
                chunk.chars = section.chars.start + chunk.chars.start..section.chars.start + chunk.chars.end;
                chunk.metadata.extend(section.metadata.clone());
                chunks.push(chunk);
            }
        }
        Ok(chunks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markdown;
    use crate::recursive::RecursiveSplitter;

    fn split(splitter: &HeadingSplitter, text: &str) -> Vec<(String, String)> {
        let structure = markdown::outline(text).1;
        let chunks = splitter.split_structured(text, &structure).unwrap();
        chunks
            .into_iter()
            .map(|chunk| {
                assert_eq!(text[chunk.bytes.clone()], *chunk.text);
                assert_eq!(text[..chunk.bytes.start].chars().count(), chunk.chars.start);
                let titles = chunk.metadata.values().map(|title| match title {
                    Value::String(title) => title.clone(),
                    other => panic!("{other:?}"),
                });
                (chunk.text.to_owned(), titles.collect::<Vec<_>>().join(" > "))
            })
            .collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(text, titles)| ((*text).to_owned(), (*titles).to_owned())).collect()
    }

    #[test]
    fn sections_carry_the_titles_above_them() {
        let text = "# A\n\nintro\n\n## B\ntext b\n### C\ntext c\n## D\ntext d\n# E\ntext e";
        let splitter = HeadingSplitter::default().strip_headings(true);
        let expected =
            [("intro", "A"), ("text b", "A > B"), ("text c", "A > B > C"), ("text d", "A > D"), ("text e", "E")];
        assert_eq!(split(&splitter, text), pairs(&expected));
        let kept = split(&HeadingSplitter::default(), text);
        assert_eq!(kept[0], ("# A\n\nintro".to_owned(), "A".to_owned()));
    }

    #[test]
    fn bodies_are_the_sources_own() {
        let text = "# A\np1\n\np2\n\n```py\ndef f():\n\treturn\u{a0}1\n# no heading\n```\n";
        let body = "p1\n\np2\n\n```py\ndef f():\n\treturn\u{a0}1\n# no heading\n```";
        assert_eq!(split(&HeadingSplitter::default().strip_headings(true), text), pairs(&[(body, "A")]));
    }

    #[test]
    fn a_heading_without_a_body_is_not_lost() {
        let stripped = HeadingSplitter::default().strip_headings(true);
        assert_eq!(split(&stripped, "# A\n## B\n"), pairs(&[("## B", "A > B")]));
        assert_eq!(split(&stripped, "# A\n## B\nb\n# C\n"), pairs(&[("b", "A > B"), ("# C", "C")]));
        assert_eq!(split(&HeadingSplitter::default(), "# A\n## B\nb"), pairs(&[("# A\n## B\nb", "A > B")]));
        assert_eq!(split(&stripped, "# A\nx\n# A\ny"), pairs(&[("x", "A"), ("y", "A")]));
    }

    #[test]
    fn levels_without_a_name_are_text() {
        let only = HeadingSplitter::default().levels(&[(2, "h2".to_owned())]).unwrap();
        assert_eq!(split(&only, "# A\n## B\nb\n### C"), pairs(&[("# A", ""), ("## B\nb\n### C", "B")]));
    }

    #[test]
    fn html_sections_keep_their_chapter() {
        // What a loader makes of "<h1>Chapter 1</h1><p>Intro text.</p><h2>Section 1.1</h2><p>Section text.</p>".
        let text = "Chapter 1\n\nIntro text.\n\nSection 1.1\n\nSection text.";
        let heading = |level, title: &str| {
            let at = text.find(title).unwrap();
            Heading { level, title: title.to_owned(), bytes: at..at + title.len() }
        };
        let structure = Structure::default().with_headings(vec![heading(1, "Chapter 1"), heading(2, "Section 1.1")]);
        let chunks = HeadingSplitter::default().split_structured(text, &structure).unwrap();
        assert_eq!(chunks[1].text, "Section 1.1\n\nSection text.");
        assert_eq!(chunks[1].metadata.get("Header 1"), Some(&Value::from("Chapter 1")));
        assert_eq!(chunks[1].metadata.get("Header 2"), Some(&Value::from("Section 1.1")));
    }

    #[test]
    fn long_sections_are_cut_further() {
        let recursive = RecursiveSplitter::builder().chunk_size(12).chunk_overlap(0).build().unwrap();
        let splitter = HeadingSplitter::default().strip_headings(true).inner(Arc::new(recursive));
        let expected = [("é one two", "A"), ("three four", "A"), ("five", "B")];
        assert_eq!(split(&splitter, "# A\né one two three four\n# B\nfive"), pairs(&expected));
    }

    #[test]
    fn titles_are_bounded() {
        let text = format!("# {}\n\ntext", "x".repeat(1000));
        let chunks = split(&HeadingSplitter::default().strip_headings(true), &text);
        assert_eq!(chunks, pairs(&[("text", &format!("{}…", "x".repeat(509)))]));
    }

    #[test]
    fn levels_are_checked() {
        let pair = |level, name: &str| (level, name.to_owned());
        for (levels, fault) in [
            (vec![], "levels: must name at least one level"),
            (vec![pair(0, "a")], "levels: must be 1 to 6, got 0"),
            (vec![pair(7, "a")], "levels: must be 1 to 6, got 7"),
            (vec![pair(1, "a"), pair(1, "b")], "levels: level 1 is named twice"),
            (vec![pair(1, "a"), pair(2, "a")], "levels: two levels have the name \"a\""),
            (vec![pair(1, "")], "levels: level 1 must have a name that is not empty"),
        ] {
            assert_eq!(HeadingSplitter::default().levels(&levels).unwrap_err().to_string(), fault);
        }
    }
}
