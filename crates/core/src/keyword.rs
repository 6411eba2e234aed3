//! Keyword search: what a collection is told about its texts, and what a search asks.
//!
//! The analysis of texts and the formula are in `toller-store` (its module `keyword`), the same for every backend.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::collection::CollectionName;
use crate::error::Error;
use crate::filter::Filter;

/// Reason of the error when a collection that keeps no keyword index is searched by keywords.
pub const KEYWORD_NOT_INDEXED: &str = "KEYWORD_NOT_INDEXED";

/// The leg that ranks by keywords.
pub const KEYWORD_SOURCE: &str = "keyword";

/// Declares the languages, each with its spelling.
macro_rules! languages {
    ($($(#[$doc:meta])* $variant:ident = $spelling:literal,)*) => {
        /// The language of a collection's texts: it decides on stop words and stems.
        ///
        /// Texts in other languages are found too, by the very words that stand in them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Language {
            $($(#[$doc])* $variant,)*
        }

        impl Language {
            /// Every language.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its spelling, such as `english`.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $spelling,)*
                }
            }
        }
    };
}

languages! {
    /// No stop words and no stems: every word counts, and counts as it is written.
    None = "none",
    /// Arabic.
    Arabic = "arabic",
    /// Basque.
    Basque = "basque",
    /// Catalan.
    Catalan = "catalan",
    /// Danish.
    Danish = "danish",
    /// Dutch.
    Dutch = "dutch",
    /// English.
    #[default]
    English = "english",
    /// Finnish.
    Finnish = "finnish",
    /// French.
    French = "french",
    /// German.
    German = "german",
    /// Greek.
    Greek = "greek",
    /// Hungarian.
    Hungarian = "hungarian",
    /// Indonesian.
    Indonesian = "indonesian",
    /// Italian.
    Italian = "italian",
    /// Nepali.
    Nepali = "nepali",
    /// Norwegian.
    Norwegian = "norwegian",
    /// Portuguese.
    Portuguese = "portuguese",
    /// Romanian.
    Romanian = "romanian",
    /// Russian.
    Russian = "russian",
    /// Spanish.
    Spanish = "spanish",
    /// Swedish.
    Swedish = "swedish",
    /// Tamil.
    Tamil = "tamil",
    /// Turkish.
    Turkish = "turkish",
}

impl fmt::Display for Language {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// How the texts of a collection are indexed for keyword search. Fixed when the collection is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct KeywordParams {
    /// The language of the texts.
    pub language: Language,
}

/// A search by keywords.
#[derive(Debug, Clone, Copy)]
pub struct KeywordSearch<'a> {
    /// What to look for. A text without a single term (empty, or stop words only) finds nothing.
    pub text: &'a str,
    /// Which records take part, decided before scoring.
    pub filter: Option<&'a Filter>,
    /// Most hits; exactly min(limit, matches) come back.
    pub limit: usize,
}

/// The error of a backend that is asked to search a collection without keyword parameters.
pub fn keyword_not_indexed(collection: &CollectionName) -> Error {
    Error::FailedPrecondition {
        reason: KEYWORD_NOT_INDEXED,
        message: format!(
            "collection \"{collection}\" was made without a keyword index; make a collection with one and add the documents to it"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_is_spelled_the_same_in_records_and_in_messages_for_people() {
        for language in Language::ALL {
            assert_eq!(serde_json::to_string(language).unwrap(), format!("\"{language}\""));
            let spelled = format!("{{\"language\":\"{language}\"}}");
            assert_eq!(serde_json::from_str::<KeywordParams>(&spelled).unwrap().language, *language);
        }
        assert_eq!(KeywordParams::default().language, Language::English);
    }
}
