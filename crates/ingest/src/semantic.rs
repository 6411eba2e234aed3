//! Cuts where the meaning changes, by the embeddings of neighbouring sentences.

use std::collections::HashMap;
use std::ops::Range;

use toller_core::{Metadata, Vector, metric};

use crate::distance_threshold::DistanceThreshold;
use crate::error::Error;
use crate::sentence_starts::sentence_starts;
use crate::span::SpanChunks;
use crate::splitter::Chunk;
use crate::strip::Strip;

/// Sentences on either side of a place that are embedded with the one beside it, unless set otherwise; LangChain's default.
pub const DEFAULT_BUFFER_SIZE: usize = 1;

/// Most sentences on either side.
pub const MAX_BUFFER_SIZE: usize = 16;

/// LangChain's `SemanticChunker` (langchain-experimental 0.4.2), in two phases, so that it needs no model: [`Self::sentences`] says
/// what to embed, and [`Self::split`] takes the vectors.
///
/// Each place between two sentences is judged by the cosine distance of what stands before it and what comes after: the sentence
/// beside the place, and `buffer_size` sentences more on that side, as many as there are. The two never share a sentence, so that the
/// first and the last place can be told as well as any other. (LangChain compares the windows around two neighbouring sentences, which
/// share most of their sentences, and of which the first is a part of the second.) Without a buffer the two are the same.
///
/// Chunks are parts of the source with exact offsets, whitespace between the sentences included. A text of one sentence is one chunk, and
/// one of none has none; no number of sentences is an error.
///
/// Cost: a vector for each sentence and `buffer_size` more, O(sentences × dimension + text); the embedded text is that of the
/// document times `buffer_size` + 1.
#[derive(Debug, Clone)]
pub struct SemanticSplitter {
    threshold: DistanceThreshold,
    buffer_size: usize,
    min_chunk_size: usize,
}

/// The sentences of a text, and what to embed of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SemanticSentences {
    starts: Vec<usize>,
    windows: Vec<String>,
    /// For each place between two sentences the windows before and after it.
    sides: Vec<(usize, usize)>,
    text_bytes: usize,
}

impl SemanticSentences {
    /// What to embed, in the role of documents: each once, in no order that matters. None when there are fewer than two sentences.
    pub fn windows(&self) -> &[String] {
        &self.windows
    }
}

impl SemanticSplitter {
    /// Cuts by `threshold`, with `buffer_size` sentences more on either side of a place, 0 to [`MAX_BUFFER_SIZE`]; chunks but the last
    /// have at least `min_chunk_size` code points, whitespace at their ends included.
    ///
    /// # Errors
    /// Names the parameter that is out of its range.
    pub fn new(threshold: DistanceThreshold, buffer_size: usize, min_chunk_size: usize) -> Result<Self, Error> {
        threshold.check()?;
        if buffer_size > MAX_BUFFER_SIZE {
            let fault = format!("must be at most {MAX_BUFFER_SIZE} sentences, got {buffer_size}");
            return Err(Error::invalid("buffer_size", fault));
        }
        Ok(Self { threshold, buffer_size, min_chunk_size })
    }

    /// First phase: the sentences, and the windows to embed. O(text × (`buffer_size` + 1)).
    pub fn sentences(&self, text: &str) -> SemanticSentences {
        let starts = sentence_starts(text);
        let mut windows = Vec::new();
        let mut known: HashMap<Range<usize>, usize> = HashMap::new();
        let mut window = |sentences: Range<usize>| {
            *known.entry(sentences).or_insert_with_key(|sentences| {
                let start = starts.get(sentences.start).copied().unwrap_or(text.len());
                let end = starts.get(sentences.end).copied().unwrap_or(text.len());
                windows.push(text.get(start..end).unwrap_or_default().trim().to_owned());
                windows.len() - 1
            })
        };
        let reach = self.buffer_size + 1;
        let sides = (1..starts.len())
            .map(|place| {
                let before = window(place.saturating_sub(reach)..place);
                (before, window(place..(place + reach).min(starts.len())))
            })
            .collect();
        SemanticSentences { starts, windows, sides, text_bytes: text.len() }
    }

    /// Second phase: the chunks, by the vectors of [`SemanticSentences::windows`], one for each and in their order.
    ///
    /// # Errors
    /// When the sentences are of another text, or there are not as many vectors as windows, or not all of one dimension.
    pub fn split<'t>(
        &self,
        text: &'t str,
        sentences: &SemanticSentences,
        vectors: &[Vector],
    ) -> Result<Vec<Chunk<'t>>, Error> {
        if sentences.text_bytes != text.len() {
            return Err(Error::Vectors("are of another text".to_owned()));
        }
        if vectors.len() != sentences.windows.len() {
            let fault = format!("must be one for each of {} windows, got {}", sentences.windows.len(), vectors.len());
            return Err(Error::Vectors(fault));
        }
        if let [first, rest @ ..] = vectors
            && let Some(other) = rest.iter().find(|vector| vector.dimension() != first.dimension())
        {
            let fault = format!("must have one dimension, got {} and {}", first.dimension(), other.dimension());
            return Err(Error::Vectors(fault));
        }
        let distances: Vec<f64> = sentences
            .sides
            .iter()
            .map(|(before, after)| match (vectors.get(*before), vectors.get(*after)) {
                (Some(before), Some(after)) => 1.0 - metric::cosine(before.as_slice(), after.as_slice()),
                _ => 0.0,
            })
            .collect();
        let cuts = self.threshold.cuts(&distances);
        let mut spans = SpanChunks::new(text, Strip::Whitespace);
        let (mut start, mut chars) = (0, 0);
        // A cut follows each sentence but the last; what is too short goes on into the next.
        for (pair, is_cut) in sentences.starts.windows(2).zip(cuts) {
            let [sentence, end] = *pair else { continue };
            chars += text.get(sentence..end).unwrap_or_default().chars().count();
            if is_cut && chars >= self.min_chunk_size {
                spans.push(start..end, Metadata::new());
                (start, chars) = (end, 0);
            }
        }
        spans.push(start..text.len(), Metadata::new());
        Ok(spans.finish())
    }
}

impl Default for SemanticSplitter {
    fn default() -> Self {
        Self { threshold: DistanceThreshold::default(), buffer_size: DEFAULT_BUFFER_SIZE, min_chunk_size: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toller_core::Metric;

    const TEXT: &str = "Dogs swim.  Dogs run.\nDogs dig. Stocks fell. Stocks rose.";

    /// The counts of dogs and of stocks.
    fn vectors(windows: &[String]) -> Vec<Vector> {
        let counts = |window: &String| {
            vec![window.matches("Dogs").count() as f32, window.matches("Stocks").count() as f32, 0.01]
        };
        windows.iter().map(|window| Vector::new(counts(window), Metric::Cosine).unwrap()).collect()
    }

    fn split(splitter: &SemanticSplitter, text: &str) -> Vec<String> {
        let sentences = splitter.sentences(text);
        let chunks = splitter.split(text, &sentences, &vectors(sentences.windows())).unwrap();
        for chunk in &chunks {
            assert_eq!(text[chunk.bytes.clone()], *chunk.text);
            assert_eq!(text[..chunk.bytes.start].chars().count(), chunk.chars.start);
        }
        chunks.into_iter().map(|chunk| chunk.text.to_owned()).collect()
    }

    #[test]
    fn cuts_where_the_subject_changes() {
        let expected = ["Dogs swim.  Dogs run.\nDogs dig.", "Stocks fell. Stocks rose."];
        for buffer_size in [0, 1, 2, 16] {
            let splitter = SemanticSplitter::new(DistanceThreshold::Percentile(90.0), buffer_size, 0).unwrap();
            assert_eq!(split(&splitter, TEXT), expected, "{buffer_size}");
        }
    }

    #[test]
    fn the_first_and_the_last_place_are_told_as_any_other() {
        let splitter = SemanticSplitter::default();
        for text in ["Stocks fell. Dogs dig. Dogs run. Dogs swim.", "Dogs dig. Dogs run. Dogs swim. Stocks fell."] {
            let chunks = split(&splitter, text);
            assert!(chunks.len() == 2 && chunks.contains(&"Stocks fell.".to_owned()), "{chunks:?}");
        }
    }

    #[test]
    fn windows_on_two_sides_share_no_sentence_and_are_embedded_once() {
        let splitter = SemanticSplitter::default();
        let sentences = splitter.sentences("A. B. C. D.");
        assert_eq!(sentences.windows(), ["A.", "B. C.", "A. B.", "C. D.", "D."]);
    }

    #[test]
    fn no_number_of_sentences_is_an_error() {
        let two = SemanticSplitter::new(DistanceThreshold::NumberOfChunks(2), 1, 0).unwrap();
        assert_eq!(split(&two, ""), [] as [&str; 0]);
        assert_eq!(split(&two, "Dogs."), ["Dogs."]);
        assert_eq!(split(&two, "Dogs dig. Stocks fell."), ["Dogs dig.", "Stocks fell."]);
        let gradient = SemanticSplitter::new(DistanceThreshold::Gradient(95.0), 1, 0).unwrap();
        assert_eq!(split(&gradient, "Dogs dig. Stocks fell."), ["Dogs dig. Stocks fell."]);
    }

    #[test]
    fn short_chunks_go_on_but_the_last() {
        let each = SemanticSplitter::new(DistanceThreshold::NumberOfChunks(9), 0, 20).unwrap();
        assert_eq!(split(&each, TEXT), ["Dogs swim.  Dogs run.", "Dogs dig. Stocks fell.", "Stocks rose."]);
    }

    #[test]
    fn vectors_are_those_of_the_windows() {
        let splitter = SemanticSplitter::default();
        let sentences = splitter.sentences(TEXT);
        let mut wrong = vectors(sentences.windows());
        let last = wrong.pop();
        let fault = splitter.split(TEXT, &sentences, &wrong).unwrap_err().to_string();
        assert_eq!(fault, "the vectors of a text's sentences must be one for each of 6 windows, got 5");
        wrong.push(Vector::new(vec![1.0], Metric::Cosine).unwrap());
        let fault = splitter.split(TEXT, &sentences, &wrong).unwrap_err().to_string();
        assert_eq!(fault, "the vectors of a text's sentences must have one dimension, got 3 and 1");
        wrong.pop();
        wrong.extend(last);
        let fault = splitter.split("Another text.", &sentences, &wrong).unwrap_err().to_string();
        assert_eq!(fault, "the vectors of a text's sentences are of another text");
    }

    #[test]
    fn parameters_are_checked_by_name() {
        let fault = SemanticSplitter::new(DistanceThreshold::default(), 17, 0).unwrap_err().to_string();
        assert_eq!(fault, "buffer_size: must be at most 16 sentences, got 17");
    }
}
