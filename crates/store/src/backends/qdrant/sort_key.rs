//! Ids as numbers that sort like them: the server orders by numbers, and not by texts.
//!
//! The bytes of an id are cut into words of six, each a number below 2^48, which is exact wherever it passes through a double.
//! Ids that agree in all [`WORDS`] words are told apart when they are read.

use toller_core::DocumentId;

/// Words of an id that are kept; six times six bytes hold a UUID in letters.
pub(super) const WORDS: usize = 6;

/// Bytes of a word.
const BYTES: usize = 6;

/// The fields of the payload that hold the words.
pub(super) const FIELDS: [&str; WORDS] = ["id0", "id1", "id2", "id3", "id4", "id5"];

/// The words of an id; what it is too short for counts as zero bytes.
pub(super) fn words_of(id: &DocumentId) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    let mut bytes = id.as_str().bytes();
    for word in &mut words {
        for _ in 0..BYTES {
            *word = *word << 8 | u64::from(bytes.next().unwrap_or(0));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_sort_like_ids() {
        let long = "x".repeat(40);
        let mut ids = ["a", "B", "é", "aaaaaa", "aaaaaab", "aaaaaa\u{1}", "日本語", "a\u{0}", &long]
            .map(|id| DocumentId::new(id).unwrap());
        ids.sort();
        assert!(ids.is_sorted_by_key(words_of));
        assert!(words_of(&DocumentId::new("\u{10ffff}\u{10ffff}").unwrap()).iter().all(|word| *word < 1 << 48));
    }
}
