//! From a text to its terms.

use toller_core::Language;

use super::fold::case_folded;
use super::language::{capital_i, is_stop_word, stem};
use super::segments::{Segment, each_segment};

/// Takes texts apart in one language; documents and queries the same way. Cheap to copy.
///
/// In this order:
///
/// 1. NFKC and full case folding, so that `Ｔｏｌｌ`, `TOLL` and `toll` are one word;
/// 2. words by Unicode's rules (UAX 29), cut at apostrophes; pairs of characters where a script has no spaces between words;
/// 3. stop words go, by the language's list;
/// 4. stems by the language's Snowball algorithm;
/// 5. accents go (in English before the stem).
///
/// Steps 3 and 4 are left out for [`Language::None`], and for pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Analyzer {
    language: Language,
}

impl Analyzer {
    /// An analyzer of texts in `language`.
    pub fn new(language: Language) -> Self {
        Self { language }
    }

    /// Hands on the terms of a text, one for each occurrence. O(length).
    ///
    /// ```
    /// use toller_core::Language;
    /// use toller_store::keyword::Analyzer;
    /// let mut terms = Vec::new();
    /// Analyzer::new(Language::English).each_term("The Cafés of 東京都", |term| terms.push(term.to_owned()));
    /// assert_eq!(terms, ["cafe", "東京", "京都"]);
    /// ```
    pub fn each_term(self, text: &str, mut take: impl FnMut(&str)) {
        let folded = case_folded(text, capital_i(self.language));
        each_segment(&folded, |segment| match segment {
            Segment::Pair(pair) => take(pair),
            Segment::Word(word) if is_stop_word(self.language, word) => {}
            Segment::Word(word) => {
                let stem = stem(self.language, word);
                // No stemmer should leave nothing of a word; if one does, the word itself is better than that.
                take(if stem.is_empty() { word } else { &stem });
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn terms(language: Language, text: &str) -> Vec<String> {
        let mut terms = Vec::new();
        Analyzer::new(language).each_term(text, |term| terms.push(term.to_owned()));
        terms
    }

    #[test]
    fn texts_that_mean_the_same_have_the_same_terms() {
        for (language, left, right) in [
            (Language::English, "The CATS are running!", "cat, run"),
            (Language::English, "hello,", "Hello"),
            (Language::English, "Naïve café", "naive cafes"),
            (Language::English, "the dog's don't", "dog"),
            (Language::English, "ＦＵＬＬ ﬁles", "full file"),
            (Language::French, "L'élève aujourd'hui", "eleve aujourd hui"),
            (Language::German, "Die Häuser der Straße", "HAUS STRASSE"),
            (Language::Turkish, "IŞIK İSTANBUL'DA", "ışık istanbul"),
            (Language::None, "ｶﾞｲﾄﾞ", "ガイド"),
        ] {
            assert_eq!(terms(language, left), terms(language, right), "{language}");
            assert!(!terms(language, left).is_empty());
        }
    }

    #[test]
    fn without_a_language_every_word_counts() {
        assert_eq!(terms(Language::None, "The Cats and the cat"), ["the", "cats", "and", "the", "cat"]);
    }

    #[test]
    fn stop_words_alone_leave_nothing() {
        assert_eq!(terms(Language::English, "To be, or not to be?"), [] as [&str; 0]);
        assert_eq!(terms(Language::English, ""), [] as [&str; 0]);
    }

    proptest! {
        /// Any text in any language: no panic, no empty term, and the case of ASCII letters (but for Turkish) makes no
        /// difference.
        #[test]
        fn any_text_can_be_taken_apart(
            text in prop_oneof![
                any::<String>(),
                "[a-zäöüßçéèñığåøæőžα-ωάέήίόύώа-яё' ]{0,80}",
                "[\u{621}-\u{652}\u{b80}-\u{bff}\u{900}-\u{97f} ]{0,40}",
            ],
            language in prop::sample::select(Language::ALL),
        ) {
            let found = terms(language, &text);
            prop_assert!(found.iter().all(|term| !term.is_empty()));
            if language != Language::Turkish {
                prop_assert_eq!(found, terms(language, &text.to_ascii_uppercase()));
            }
        }
    }
}
