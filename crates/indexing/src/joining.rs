//! Documents whose content comes in several parts.

use crate::source_document::SourceDocument;

/// What is wrong with a document, by the name of its source.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) source: String,
    pub(crate) message: String,
}

/// What a part leads to: a document that is whole, or faults, or nothing as yet.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    pub(crate) document: Option<SourceDocument>,
    pub(crate) faults: Vec<Fault>,
}

/// Puts the parts of documents together.
#[derive(Debug)]
pub(crate) struct Joiner {
    /// Of a document.
    max_bytes: usize,
    /// A document whose content goes on.
    unfinished: Option<SourceDocument>,
    /// The source of a document whose rest is passed over.
    passed_over: Option<String>,
}

impl Joiner {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, unfinished: None, passed_over: None }
    }

    /// Takes a document, or the next part of one.
    pub(crate) fn take(&mut self, document: SourceDocument) -> Joined {
        let mut joined = Joined::default();
        let (source, continued) = (document.source.clone(), document.continued);
        if self.passes_over(&source, continued) {
            return joined;
        }
        let whole = match self.unfinished.take_if(|whole| whole.source == source) {
            None => {
                joined.faults.extend(self.interrupted_by(&source));
                Ok(document)
            }
            Some(whole) => appended(whole, document),
        };
        let admitted = whole.and_then(|whole| match whole.content.as_bytes().len() {
            bytes if bytes > self.max_bytes => {
                Err(format!("larger than {} bytes (limits.max_document_bytes)", self.max_bytes))
            }
            _ => Ok(whole),
        });
        match admitted {
            Ok(whole) if continued => self.unfinished = Some(whole),
            Ok(whole) => joined.document = Some(whole),
            Err(message) => {
                self.passed_over = continued.then(|| source.clone());
                joined.faults.push(Fault { source, message });
            }
        }
        joined
    }

    /// Passes over a document, or a part of one, that nothing can be made of: what is wrong with one part is wrong with all.
    pub(crate) fn refuse(&mut self, source: &str, continued: bool, message: String) -> Vec<Fault> {
        if self.passes_over(source, continued) {
            return Vec::new();
        }
        self.unfinished.take_if(|whole| whole.source == source);
        let mut faults: Vec<Fault> = self.interrupted_by(source).into_iter().collect();
        self.passed_over = continued.then(|| source.to_owned());
        faults.push(Fault { source: source.to_owned(), message });
        faults
    }

    /// The source of a document whose rest is still to come.
    pub(crate) fn unfinished(&self) -> Option<&str> {
        self.unfinished.as_ref().map(|whole| whole.source.as_str())
    }

    /// Is it the rest of a document that is passed over?
    fn passes_over(&mut self, source: &str, continued: bool) -> bool {
        let is_rest = self.passed_over.take_if(|passed| passed.as_str() == source).is_some();
        if is_rest && continued {
            self.passed_over = Some(source.to_owned());
        }
        is_rest
    }

    fn interrupted_by(&mut self, source: &str) -> Option<Fault> {
        let whole = self.unfinished.take()?;
        let message = format!("its content goes on, and {source:?} came in its place");
        Some(Fault { source: whole.source, message })
    }
}

fn appended(mut whole: SourceDocument, rest: SourceDocument) -> Result<SourceDocument, String> {
    if !rest.only_goes_on(&whole) {
        return Err("what goes on with its content must have nothing but the source and content".to_owned());
    }
    whole.continued = rest.continued;
    whole.content.append(rest.content)?;
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use toller_core::Metadata;

    use super::*;
    use crate::source_document::Content;

    fn part(source: &str, text: &str, continued: bool) -> SourceDocument {
        SourceDocument {
            source: source.to_owned(),
            content: Content::Text(text.to_owned()),
            media_type: String::new(),
            metadata: Metadata::new(),
            title: None,
            continued,
            related: Vec::new(),
        }
    }

    /// What some parts lead to: texts by source, and faults.
    fn seen(joiner: &mut Joiner, parts: Vec<SourceDocument>) -> Vec<String> {
        let joined = parts.into_iter().map(|part| joiner.take(part));
        joined.flat_map(described).collect()
    }

    fn described(joined: Joined) -> Vec<String> {
        let text = |document: SourceDocument| {
            format!("{}: {}", document.source, String::from_utf8_lossy(document.content.as_bytes()))
        };
        let faults = joined.faults.into_iter().map(|fault| format!("[{}: {}]", fault.source, fault.message));
        faults.chain(joined.document.map(text)).collect()
    }

    #[test]
    fn parts_are_put_together() {
        let mut joiner = Joiner::new(10);
        let parts = vec![part("a", "1", true), part("a", "2", true), part("a", "3", false), part("b", "4", false)];
        assert_eq!(seen(&mut joiner, parts), ["a: 123", "b: 4"]);
        assert!(joiner.take(part("c", "1", true)).document.is_none());
        assert_eq!(joiner.unfinished(), Some("c"));
    }

    #[test]
    fn what_comes_in_place_of_the_rest_is_a_document_of_its_own() {
        let parts = vec![part("a", "1", true), part("b", "2", false)];
        let fault = "[a: its content goes on, and \"b\" came in its place]";
        assert_eq!(seen(&mut Joiner::new(10), parts), [fault, "b: 2"]);
    }

    #[test]
    fn the_rest_of_what_is_too_large_is_passed_over() {
        let parts = vec![part("a", "123", true), part("a", "45", true), part("a", "6", false), part("a", "7", false)];
        let fault = "[a: larger than 4 bytes (limits.max_document_bytes)]";
        assert_eq!(seen(&mut Joiner::new(4), parts), [fault, "a: 7"]);
    }

    #[test]
    fn nothing_is_made_of_a_document_whose_part_is_refused() {
        for before in [vec![], vec![part("a", "0", true)]] {
            let mut joiner = Joiner::new(10);
            assert!(seen(&mut joiner, before).is_empty());
            let faults = joiner.refuse("a", true, "bad".to_owned());
            assert_eq!(faults, [Fault { source: "a".to_owned(), message: "bad".to_owned() }]);
            assert!(joiner.refuse("a", true, "bad, too".to_owned()).is_empty(), "it is told once");
            let parts = vec![part("a", "1", true), part("a", "2", false), part("a", "3", false)];
            assert_eq!(seen(&mut joiner, parts), ["a: 3"]);
        }
        let mut joiner = Joiner::new(10);
        joiner.take(part("a", "0", true));
        let faults = joiner.refuse("b", false, "bad".to_owned());
        assert_eq!(faults.len(), 2, "the one that goes on does not");
        assert_eq!(seen(&mut joiner, vec![part("b", "1", false)]), ["b: 1"]);
    }
}
