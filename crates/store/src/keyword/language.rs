//! What is particular to a language: its stems, its stop words, when its accents go.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use frostem::{Algorithm, Stemmer};
use toller_core::Language;

use super::fold::{CapitalI, case_folded, without_accents};
use super::segments::{Segment, each_segment};

/// Longest word that is stemmed, in bytes. Beyond it there are keys and encoded data but no words, and a stemmer's time
/// may grow with the square of the length.
const MAX_STEMMED_BYTES: usize = 128;

/// The Snowball algorithm of a language, and the code of its stop words (NLTK's lists, most of them Snowball's own).
fn algorithm_and_code(language: Language) -> Option<(Algorithm, &'static str)> {
    Some(match language {
        Language::None => return None,
        Language::Arabic => (Algorithm::Arabic, "ar"),
        Language::Basque => (Algorithm::Basque, "eu"),
        Language::Catalan => (Algorithm::Catalan, "ca"),
        Language::Danish => (Algorithm::Danish, "da"),
        Language::Dutch => (Algorithm::Dutch, "nl"),
        Language::English => (Algorithm::English, "en"),
        Language::Finnish => (Algorithm::Finnish, "fi"),
        Language::French => (Algorithm::French, "fr"),
        Language::German => (Algorithm::German, "de"),
        Language::Greek => (Algorithm::Greek, "el"),
        Language::Hungarian => (Algorithm::Hungarian, "hu"),
        Language::Indonesian => (Algorithm::Indonesian, "id"),
        Language::Italian => (Algorithm::Italian, "it"),
        Language::Nepali => (Algorithm::Nepali, "ne"),
        Language::Norwegian => (Algorithm::Norwegian, "no"),
        Language::Portuguese => (Algorithm::Portuguese, "pt"),
        Language::Romanian => (Algorithm::Romanian, "ro"),
        Language::Russian => (Algorithm::Russian, "ru"),
        Language::Spanish => (Algorithm::Spanish, "es"),
        Language::Swedish => (Algorithm::Swedish, "sv"),
        Language::Tamil => (Algorithm::Tamil, "ta"),
        Language::Turkish => (Algorithm::Turkish, "tr"),
    })
}

/// How the language makes capitals.
pub(super) fn capital_i(language: Language) -> CapitalI {
    if language == Language::Turkish { CapitalI::Turkish } else { CapitalI::Dotless }
}

/// The stem of a case-folded word, without accents.
///
/// Accents tell the endings of most languages apart, so they go after the stemmer has seen them. English has them in
/// loanwords only, and `résumés` shall meet `resumes`.
pub(super) fn stem(language: Language, word: &str) -> Cow<'_, str> {
    let Some((algorithm, _)) = algorithm_and_code(language).filter(|_| word.len() <= MAX_STEMMED_BYTES) else {
        return without_accents(word);
    };
    let stemmer = Stemmer::new(algorithm);
    if language == Language::English {
        return match without_accents(word) {
            Cow::Borrowed(plain) => stemmer.stem(plain),
            Cow::Owned(plain) => Cow::Owned(stemmer.stem(&plain).into_owned()),
        };
    }
    match stemmer.stem(word) {
        Cow::Borrowed(stem) => without_accents(stem),
        Cow::Owned(stem) => Cow::Owned(without_accents(&stem).into_owned()),
    }
}

/// Is a case-folded word too common to tell documents apart?
pub(super) fn is_stop_word(language: Language, word: &str) -> bool {
    STOP_WORDS.get(&language).is_some_and(|words| words.contains(word))
}

/// The stop words of each language, in the form in which words come.
static STOP_WORDS: LazyLock<HashMap<Language, HashSet<String>>> = LazyLock::new(|| {
    let with_stop_words = Language::ALL.iter().filter_map(|language| {
        let (_, code) = algorithm_and_code(*language)?;
        Some((*language, normal_stop_words(*language, stop_words::lookup(code)?)))
    });
    with_stop_words.collect()
});

/// Entries with an apostrophe are left out: words come in parts, and the lists have the parts that must go.
fn normal_stop_words(language: Language, listed: &[&str]) -> HashSet<String> {
    let mut words = HashSet::with_capacity(listed.len());
    for entry in listed {
        let folded = case_folded(entry, capital_i(language));
        each_segment(&folded, |segment| {
            if segment == Segment::Word(&folded) {
                words.insert(folded.clone());
            }
        });
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_has_stop_words() {
        for language in Language::ALL.iter().filter(|language| **language != Language::None) {
            assert!(STOP_WORDS.get(language).is_some_and(|words| words.len() > 40), "{language}");
        }
        for (language, word) in [
            (Language::English, "don"),
            (Language::French, "été"),
            (Language::German, "für"),
            (Language::Russian, "был"),
            (Language::Greek, "και"),
            (Language::Turkish, "çünkü"),
        ] {
            assert!(is_stop_word(language, word), "{word}");
            assert!(!is_stop_word(Language::None, word));
        }
    }

    #[test]
    fn stems_meet_in_every_language() {
        let pairs = [
            (Language::English, ["connections", "connected"]),
            (Language::English, ["résumés", "resume"]),
            (Language::Danish, ["hundene", "hunden"]),
            (Language::Dutch, ["katten", "kat"]),
            (Language::Finnish, ["talossa", "talon"]),
            (Language::French, ["continuellement", "continuelle"]),
            (Language::German, ["häuser", "haus"]),
            (Language::Greek, ["δρόμους", "δρόμος"]),
            (Language::Hungarian, ["házak", "ház"]),
            (Language::Italian, ["gatti", "gatto"]),
            (Language::Norwegian, ["bilene", "bil"]),
            (Language::Portuguese, ["livros", "livro"]),
            (Language::Romanian, ["florilor", "florile"]),
            (Language::Russian, ["книги", "книга"]),
            (Language::Spanish, ["canciones", "canción"]),
            (Language::Swedish, ["bilarna", "bilar"]),
            (Language::Turkish, ["evler", "evlerim"]),
        ];
        let stems = pairs.map(|(language, words)| (language, words.map(|word| stem(language, word))));
        let apart: Vec<_> = stems.iter().filter(|(_, [left, right])| left != right).collect();
        assert!(apart.is_empty(), "{apart:?}");
        assert_eq!(stem(Language::None, "cafés"), "cafes");
    }

    #[test]
    fn what_is_too_long_for_a_word_is_left_alone() {
        let long = "connections".repeat(100_000);
        assert_eq!(stem(Language::English, &long), long);
    }
}
