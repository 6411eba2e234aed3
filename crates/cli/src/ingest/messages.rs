//! From files to the messages of a run: small files together, large ones in parts.

use toller_api::v1;
use toller_api::v1::source_document::Content;

/// Most bytes of small files in one message.
const TOGETHER_BYTES: usize = 256 << 10;

/// Most bytes of a file in one message, far below the 16 MiB that servers take unless they are told otherwise.
const PART_BYTES: usize = 1 << 20;

/// Puts files and names into messages, in the order in which they come.
#[derive(Default)]
pub(crate) struct Packer {
    message: v1::IndexDocuments,
    /// Of its contents and names.
    bytes: usize,
}

impl Packer {
    /// Takes a file; gives the messages that are complete. O(bytes).
    pub(crate) fn add(&mut self, source: &str, data: Vec<u8>) -> Vec<v1::IndexDocuments> {
        let document = |data, continued| v1::SourceDocument {
            source: source.to_owned(),
            content: Some(Content::Data(data)),
            continued,
            ..Default::default()
        };
        let mut complete = self.make_room(source.len() + data.len());
        if data.len() <= PART_BYTES {
            self.bytes += source.len() + data.len();
            self.message.documents.push(document(data, false));
            return complete;
        }
        complete.extend(self.finish());
        let mut parts = data.chunks(PART_BYTES).peekable();
        while let Some(part) = parts.next() {
            let documents = vec![document(part.to_vec(), parts.peek().is_some())];
            complete.push(v1::IndexDocuments { documents, ..Default::default() });
        }
        complete
    }

    /// Takes the name of a source that could not be read: what is indexed of it stays.
    pub(crate) fn keep(&mut self, source: &str) -> Vec<v1::IndexDocuments> {
        let complete = self.make_room(source.len());
        self.bytes += source.len();
        self.message.kept_sources.push(source.to_owned());
        complete
    }

    /// Takes the name of a source that is gone: what is indexed of it goes.
    pub(crate) fn remove(&mut self, source: &str) -> Vec<v1::IndexDocuments> {
        let complete = self.make_room(source.len());
        self.bytes += source.len();
        self.message.removed_sources.push(source.to_owned());
        complete
    }

    /// What is left.
    pub(crate) fn finish(&mut self) -> Option<v1::IndexDocuments> {
        self.bytes = 0;
        let message = std::mem::take(&mut self.message);
        (message != v1::IndexDocuments::default()).then_some(message)
    }

    fn make_room(&mut self, bytes: usize) -> Vec<v1::IndexDocuments> {
        if self.bytes + bytes <= TOGETHER_BYTES {
            return Vec::new();
        }
        self.finish().into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sources, sizes and whether they go on, message by message.
    fn pack(files: &[(&str, usize)]) -> Vec<Vec<(String, u64, bool)>> {
        let mut packer = Packer::default();
        let mut messages: Vec<_> = files.iter().flat_map(|(source, size)| packer.add(source, vec![7; *size])).collect();
        messages.extend(packer.finish());
        let shape = |message: &v1::IndexDocuments| {
            let of = |document: &v1::SourceDocument| {
                let bytes = match &document.content {
                    Some(Content::Data(data)) => data.len() as u64,
                    other => panic!("{other:?}"),
                };
                (document.source.clone(), bytes, document.continued)
            };
            message.documents.iter().map(of).collect()
        };
        messages.iter().map(shape).collect()
    }

    #[test]
    fn small_files_go_together() {
        let half = TOGETHER_BYTES / 2 - 1;
        let messages = pack(&[("a", half), ("b", half), ("c", 1), ("d", 0)]);
        let sources: Vec<Vec<&str>> =
            messages.iter().map(|message| message.iter().map(|(source, ..)| source.as_str()).collect()).collect();
        assert_eq!(sources, [vec!["a", "b"], vec!["c", "d"]]);
        assert_eq!(pack(&[]), Vec::<Vec<_>>::new());
    }

    #[test]
    fn large_files_go_in_parts() {
        let name = |bytes, continued| ("big".to_owned(), bytes, continued);
        let part = PART_BYTES as u64;
        let messages = pack(&[("small", 5), ("big", 2 * PART_BYTES + 3), ("last", 1)]);
        assert_eq!(messages.len(), 5);
        assert_eq!(messages[1..4], [vec![name(part, true)], vec![name(part, true)], vec![name(3, false)]]);
        assert_eq!(pack(&[("big", PART_BYTES)]), [vec![name(part, false)]]);
    }

    #[test]
    fn names_fill_messages_too() {
        let mut packer = Packer::default();
        let name = "x".repeat(1000);
        let complete: usize = (0..1000).map(|_| packer.keep(&name).len() + packer.remove(&name).len()).sum();
        assert_eq!(complete, 2000 / (TOGETHER_BYTES / 1000));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn every_byte_is_sent_once_and_in_order(sizes in proptest::collection::vec(0_usize..3 << 20, 0..12)) {
            let names: Vec<String> = (0..sizes.len()).map(|number| number.to_string()).collect();
            let files: Vec<(&str, usize)> = names.iter().map(String::as_str).zip(sizes.iter().copied()).collect();
            let messages = pack(&files);
            prop_assert!(messages.iter().all(|message| message.iter().map(|(_, bytes, _)| bytes).sum::<u64>() <= PART_BYTES as u64));
            let mut whole: Vec<(String, u64)> = Vec::new();
            let mut goes_on = false;
            for (source, bytes, continued) in messages.into_iter().flatten() {
                match whole.last_mut() {
                    Some((last, sum)) if goes_on => {
                        prop_assert_eq!(&*last, &source);
                        *sum += bytes;
                    }
                    _ => whole.push((source, bytes)),
                }
                goes_on = continued;
            }
            prop_assert!(!goes_on);
            let expected: Vec<_> = files.iter().map(|(name, size)| ((*name).to_owned(), *size as u64)).collect();
            prop_assert_eq!(whole, expected);
        }
    }
}
