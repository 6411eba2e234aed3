//! How texts are indexed for keyword search.

use toller_core::{Error, KeywordParams, Language, Result};

use crate::v1;

/// Both directions of languages that are named alike.
macro_rules! languages {
    ($($language:ident),+ $(,)?) => {
        fn language_from_message(number: i32) -> Result<Language> {
            match v1::Language::try_from(number) {
                Ok(v1::Language::Unspecified) => Ok(Language::default()),
                $(Ok(v1::Language::$language) => Ok(Language::$language),)+
                Err(_) => Err(Error::invalid("language", format!("unknown value {number}"))),
            }
        }

        /// The message of a language.
        pub fn language_to_message(language: Language) -> v1::Language {
            match language {
                $(Language::$language => v1::Language::$language,)+
            }
        }
    };
}

languages!(
    None, Arabic, Basque, Catalan, Danish, Dutch, English, Finnish, French, German, Greek, Hungarian, Indonesian,
    Italian, Nepali, Norwegian, Portuguese, Romanian, Russian, Spanish, Swedish, Tamil, Turkish,
);

/// How a new collection is indexed; absent is the default index, none is no index.
///
/// # Errors
/// `InvalidArgument` for `language`: an unknown value, or any beside `disabled`.
pub fn keyword_from_message(message: Option<v1::KeywordIndex>) -> Result<Option<KeywordParams>> {
    let Some(v1::KeywordIndex { language, disabled }) = message else { return Ok(Some(KeywordParams::default())) };
    if disabled && language != i32::from(v1::Language::Unspecified) {
        return Err(Error::invalid("language", "must be absent where the keyword index is disabled"));
    }
    let params = KeywordParams { language: language_from_message(language)? };
    Ok((!disabled).then_some(params))
}

/// The message of a collection's index.
pub fn keyword_to_message(params: KeywordParams) -> v1::KeywordIndex {
    v1::KeywordIndex { language: language_to_message(params.language).into(), disabled: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(language: v1::Language, disabled: bool) -> Option<v1::KeywordIndex> {
        Some(v1::KeywordIndex { language: language.into(), disabled })
    }

    #[test]
    fn every_language_there_and_back() {
        for language in Language::ALL {
            let params = KeywordParams { language: *language };
            assert_eq!(keyword_from_message(Some(keyword_to_message(params))), Ok(Some(params)));
            let spelled = format!("LANGUAGE_{}", language.as_str().to_uppercase());
            assert_eq!(language_to_message(*language).as_str_name(), spelled);
        }
    }

    #[test]
    fn absent_is_english_and_disabled_is_none() {
        let english = Ok(Some(KeywordParams { language: Language::English }));
        assert_eq!(keyword_from_message(None), english);
        assert_eq!(keyword_from_message(index(v1::Language::Unspecified, false)), english);
        assert_eq!(keyword_from_message(index(v1::Language::Unspecified, true)), Ok(None));
    }

    #[test]
    fn contradictions_and_unknown_languages_are_refused() {
        let fault = keyword_from_message(index(v1::Language::French, true)).unwrap_err();
        assert_eq!(fault.to_string(), "language: must be absent where the keyword index is disabled");
        let fault = keyword_from_message(Some(v1::KeywordIndex { language: 99, disabled: false })).unwrap_err();
        assert_eq!(fault.to_string(), "language: unknown value 99");
    }
}
