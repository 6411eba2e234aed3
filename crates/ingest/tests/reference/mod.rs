//! LangChain's `RecursiveCharacterTextSplitter` (langchain-text-splitters 1.1.3), written down as plainly as possible: strings,
//! vectors, no thought of cost. Every piece carries its characters with their places, so that joined chunks keep theirs.

use toller_ingest::KeepSeparator;
use unicode_segmentation::UnicodeSegmentation;

/// What a text is made of, and where it may be cut at all.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Unit {
    /// Code points, as in LangChain.
    CodePoints,
    /// Extended grapheme clusters.
    Graphemes,
}

/// What joins two merged pieces when separators are not kept.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Join {
    /// One separator, as in LangChain.
    Separator,
    /// What the source has there.
    Source,
}

pub(crate) struct Reference<'a> {
    pub(crate) chunk_size: usize,
    pub(crate) chunk_overlap: usize,
    pub(crate) separators: &'a [&'a str],
    pub(crate) is_regex: bool,
    pub(crate) keep: KeepSeparator,
    pub(crate) strip: bool,
    pub(crate) unit: Unit,
    pub(crate) join: Join,
}

/// Where a piece begins, and its text.
type Piece = (usize, String);

impl Reference<'_> {
    /// Chunks with where they begin, in code points.
    #[allow(dead_code)]
    pub(crate) fn split(&self, text: &str) -> Vec<Piece> {
        let source: Vec<char> = text.chars().collect();
        self.split_text(&source, (0, text.to_owned()), self.separators)
    }

    /// The same as LangChain's `CharacterTextSplitter`: cut once, at the only separator, and merged whatever the length.
    // Each test file has the reference of its own, and only one of them asks this.
    #[allow(dead_code)]
    pub(crate) fn split_once(&self, text: &str) -> Vec<Piece> {
        let source: Vec<char> = text.chars().collect();
        let separator = self.separators[0];
        let is_look_around = self.is_regex && ["(?=", "(?<=", "(?!", "(?<!"].iter().any(|l| separator.starts_with(l));
        let joint = if self.keep == KeepSeparator::No && !is_look_around { separator } else { "" };
        self.merge(&source, &self.cut(&source, &(0, text.to_owned()), separator), joint)
    }

    fn split_text(&self, source: &[char], piece: Piece, separators: &[&str]) -> Vec<Piece> {
        let mut chosen = *separators.last().unwrap();
        let mut rest: &[&str] = &[];
        for (index, separator) in separators.iter().enumerate() {
            if separator.is_empty() {
                chosen = separator;
                break;
            }
            if !self.matches(separator, &piece.1).is_empty() {
                chosen = separator;
                rest = &separators[index + 1..];
                break;
            }
        }
        let mut chunks = Vec::new();
        let mut good = Vec::new();
        let joint = if self.keep == KeepSeparator::No { chosen } else { "" };
        for part in self.cut(source, &piece, chosen) {
            if part.1.chars().count() < self.chunk_size {
                good.push(part);
                continue;
            }
            chunks.extend(self.merge(source, &std::mem::take(&mut good), joint));
            if rest.is_empty() {
                chunks.push(part);
            } else {
                chunks.extend(self.split_text(source, part, rest));
            }
        }
        chunks.extend(self.merge(source, &good, joint));
        chunks
    }

    /// Matches in code points of the piece.
    fn matches(&self, separator: &str, piece: &str) -> Vec<(usize, usize)> {
        let chars = |byte: usize| piece[..byte].chars().count();
        if self.is_regex {
            let regex = fancy_regex::Regex::new(separator).unwrap();
            regex.find_iter(piece).map(|found| found.unwrap()).map(|m| (chars(m.start()), chars(m.end()))).collect()
        } else {
            piece.match_indices(separator).map(|(at, text)| (chars(at), chars(at + text.len()))).collect()
        }
    }

    fn cut(&self, source: &[char], piece: &Piece, separator: &str) -> Vec<Piece> {
        let (begin, chars) = (piece.0, piece.1.chars().collect::<Vec<_>>());
        let bounds = self.bounds(source);
        let mut parts = Vec::new();
        let mut start = 0;
        let matches = if separator.is_empty() {
            (0..chars.len()).filter(|at| bounds.contains(&(begin + at))).map(|at| (at, at)).collect()
        } else {
            self.matches(separator, &piece.1)
        };
        let back = |at: usize| *bounds.iter().rfind(|bound| **bound <= begin + at).unwrap() - begin;
        let forth = |at: usize| *bounds.iter().find(|bound| **bound >= begin + at).unwrap() - begin;
        for (from, to) in matches {
            let (end, next) = match self.keep {
                KeepSeparator::Start => (back(from), back(from)),
                KeepSeparator::End => (forth(to), forth(to)),
                KeepSeparator::No => (back(from), forth(to)),
            };
            let end = end.max(start);
            parts.push((begin + start, chars[start..end].iter().collect()));
            start = next.max(end);
        }
        parts.push((begin + start, chars[start..].iter().collect()));
        parts.retain(|(_, text): &Piece| !text.is_empty());
        parts
    }

    /// Where the source may be cut, in code points.
    fn bounds(&self, source: &[char]) -> Vec<usize> {
        let text: String = source.iter().collect();
        match self.unit {
            Unit::CodePoints => (0..=source.len()).collect(),
            Unit::Graphemes => {
                let starts = text.grapheme_indices(true).map(|(at, _)| text[..at].chars().count());
                starts.chain([source.len()]).collect()
            }
        }
    }

    fn merge(&self, source: &[char], parts: &[Piece], separator: &str) -> Vec<Piece> {
        let chars = |text: &str| text.chars().count();
        let mut chunks = Vec::new();
        let mut current: Vec<&Piece> = Vec::new();
        let gap = |left: &Piece, right: &Piece| match self.join {
            Join::Separator => chars(separator),
            Join::Source => right.0 - (left.0 + chars(&left.1)),
        };
        let length = |current: &[&Piece]| {
            current.iter().map(|part| chars(&part.1)).sum::<usize>()
                + current.windows(2).map(|pair| gap(pair[0], pair[1])).sum::<usize>()
        };
        for part in parts {
            let with_part = |current: &[&Piece]| {
                length(current) + chars(&part.1) + current.last().map_or(0, |last| gap(last, part))
            };
            if with_part(&current) > self.chunk_size && !current.is_empty() {
                chunks.extend(self.chunk(source, &current, separator));
                while length(&current) > self.chunk_overlap
                    || (with_part(&current) > self.chunk_size && length(&current) > 0)
                {
                    current.remove(0);
                }
            }
            current.push(part);
        }
        chunks.extend(self.chunk(source, &current, separator));
        chunks
    }

    fn chunk(&self, source: &[char], parts: &[&Piece], separator: &str) -> Option<Piece> {
        let (first, last) = (parts.first()?, parts.last()?);
        let text: String = match self.join {
            Join::Separator => parts.iter().map(|part| part.1.as_str()).collect::<Vec<_>>().join(separator),
            Join::Source => source[first.0..last.0 + last.1.chars().count()].iter().collect(),
        };
        if !self.strip {
            return (!text.is_empty()).then_some((first.0, text));
        }
        let is_space = |c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
        let all: Vec<char> = text.chars().collect();
        let leading = all.iter().take_while(|c| is_space(**c)).count();
        if leading == all.len() {
            return None;
        }
        let trailing = all.iter().rev().take_while(|c| is_space(**c)).count();
        if self.unit == Unit::CodePoints {
            return Some((first.0 + leading, all[leading..all.len() - trailing].iter().collect()));
        }
        let bounds = self.bounds(source);
        let start = *bounds.iter().rfind(|bound| **bound <= first.0 + leading).unwrap();
        let end = *bounds.iter().find(|bound| **bound >= first.0 + all.len() - trailing).unwrap();
        Some((start, source[start..end].iter().collect()))
    }
}
