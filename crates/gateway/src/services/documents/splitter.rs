//! Splitters, from their messages.

use toller_api::v1;
use toller_api::v1::splitter::Kind;
use toller_core::{Error, Result};
use toller_indexing::{Cut, Cutting};
use toller_ingest::{
    CharacterSpec, CodeSpec, DEFAULT_CHUNK_SIZE, DEFAULT_INTERQUARTILE_RANGES, DEFAULT_PERCENTILE,
    DEFAULT_STANDARD_DEVIATIONS, DistanceThreshold, HeadingName, HeadingsSpec, JsonSpec, KeepSeparator, Language,
    LengthUnit, RecursiveSpec, SemanticSpec, SentenceSpec, SeparatorsSpec, SplitterSpec, TokenSpec,
    default_heading_name,
};

use super::index_settings::named;

/// How documents are cut; faults are in `splitter`.
pub(super) fn cutting_from_message(message: Option<v1::Splitter>) -> Result<Cutting> {
    let v1::Splitter { kind, overlong } = message.unwrap_or_default();
    let split_overlong = match v1::OverlongChunks::try_from(overlong) {
        Ok(v1::OverlongChunks::Unspecified | v1::OverlongChunks::Warn) => false,
        Ok(v1::OverlongChunks::Split) => true,
        Err(_) => return Err(Error::invalid("splitter.overlong", format!("has the unknown value {overlong}"))),
    };
    let cut = match kind.unwrap_or_else(|| Kind::Automatic(v1::AutomaticSplitter::default())) {
        Kind::Automatic(message) => {
            let chunk_size = size(message.chunk_size);
            let chunk_overlap = message.chunk_overlap.map(|overlap| overlap as usize);
            // Its text splitter checks both.
            let text = SplitterSpec::Recursive(RecursiveSpec { chunk_size, chunk_overlap, ..RecursiveSpec::default() });
            text.validate().map_err(|fault| renamed(invalid(fault), "splitter.recursive", "splitter.automatic"))?;
            Cut::Automatic { chunk_size, chunk_overlap }
        }
        kind => {
            let spec = spec_from_message(kind).map_err(|fault| fault.within("splitter"))?;
            spec.validate().map_err(invalid)?;
            Cut::By(spec)
        }
    };
    Ok(Cutting { cut, split_overlong })
}

fn spec_from_message(kind: Kind) -> Result<SplitterSpec> {
    Ok(match kind {
        Kind::Automatic(_) | Kind::Whole(_) => SplitterSpec::Whole {},
        Kind::Recursive(message) => recursive(message).map_err(|fault| fault.within("recursive"))?,
        Kind::Character(message) => SplitterSpec::Character(CharacterSpec {
            chunk_size: size(message.chunk_size),
            chunk_overlap: message.chunk_overlap.map(|overlap| overlap as usize),
            separator: message.separator.unwrap_or_else(|| CharacterSpec::default().separator),
            is_separator_regex: message.is_separator_regex.unwrap_or(false),
            keep_separator: keep(message.keep_separator).map_err(|fault| fault.within("character"))?,
            strip_whitespace: message.strip_whitespace.unwrap_or(true),
            hard_limit: message.hard_limit.unwrap_or(true),
        }),
        Kind::Token(message) => SplitterSpec::Token(TokenSpec {
            chunk_size: message.chunk_size.map(|size| size as usize),
            chunk_overlap: message.chunk_overlap.map(|overlap| overlap as usize),
        }),
        Kind::Headings(message) => headings(message).map_err(|fault| fault.within("headings"))?,
        Kind::Json(message) => SplitterSpec::Json(JsonSpec { chunk_size: size(message.chunk_size) }),
        Kind::Sentence(message) => SplitterSpec::Sentence(SentenceSpec {
            chunk_size: size(message.chunk_size),
            chunk_overlap: message.chunk_overlap.map(|overlap| overlap as usize),
        }),
        Kind::Semantic(message) => semantic(message).map_err(|fault| fault.within("semantic"))?,
        Kind::Code(message) => {
            let language: Option<Language> = named(&message.language).map_err(|fault| fault.within("code"))?;
            let language = language.ok_or_else(|| {
                Error::invalid("code.language", "must be named; the automatic splitter takes that of each document")
            })?;
            SplitterSpec::Code(CodeSpec { language, chunk_size: size(message.chunk_size) })
        }
    })
}

fn recursive(message: v1::RecursiveSplitter) -> Result<SplitterSpec> {
    let language: Option<Language> = named(&message.language)?;
    let is_regex = message.is_separator_regex.unwrap_or(false);
    let separators = match (message.separators, language) {
        (separators, Some(_)) if !separators.is_empty() => {
            return Err(Error::invalid("language", "has separators of its own; leave out one of them"));
        }
        (_, Some(language)) => SeparatorsSpec::Language(language),
        (separators, None) if separators.is_empty() && is_regex => {
            return Err(Error::invalid("is_separator_regex", "is about separators, and there are none"));
        }
        (separators, None) if separators.is_empty() => SeparatorsSpec::default(),
        (separators, None) if is_regex => SeparatorsSpec::Expressions(separators),
        (separators, None) => SeparatorsSpec::Literals(separators),
    };
    let length = match v1::LengthUnit::try_from(message.length) {
        Ok(v1::LengthUnit::Unspecified | v1::LengthUnit::Characters) => LengthUnit::Characters,
        Ok(v1::LengthUnit::Tokens) => LengthUnit::Tokens,
        Err(_) => return Err(Error::invalid("length", format!("has the unknown value {}", message.length))),
    };
    Ok(SplitterSpec::Recursive(RecursiveSpec {
        chunk_size: size(message.chunk_size),
        chunk_overlap: message.chunk_overlap.map(|overlap| overlap as usize),
        length,
        separators,
        keep_separator: keep(message.keep_separator)?,
        strip_whitespace: message.strip_whitespace.unwrap_or(true),
        always_overlap: message.always_overlap.unwrap_or(false),
    }))
}

fn headings(message: v1::HeadingSplitter) -> Result<SplitterSpec> {
    let levels = if message.levels.is_empty() { (1..=6).collect() } else { message.levels };
    let named = levels.into_iter().map(|level| match u8::try_from(level) {
        Ok(level @ 1..=6) => Ok(HeadingName { level, name: default_heading_name(level) }),
        _ => Err(Error::invalid("levels", format!("must be 1 to 6, got {level}"))),
    });
    Ok(SplitterSpec::Headings(HeadingsSpec {
        levels: named.collect::<Result<_>>()?,
        strip_headings: message.strip_headings.unwrap_or(false),
        inner: Box::new(SplitterSpec::Recursive(RecursiveSpec {
            chunk_size: size(message.chunk_size),
            chunk_overlap: message.chunk_overlap.map(|overlap| overlap as usize),
            ..RecursiveSpec::default()
        })),
    }))
}

fn semantic(message: v1::SemanticSplitter) -> Result<SplitterSpec> {
    use v1::SemanticThreshold as Threshold;

    let amount = |default: f64| message.amount.unwrap_or(default);
    let threshold = match (Threshold::try_from(message.threshold), message.number_of_chunks) {
        (Err(_), _) => return Err(Error::invalid("threshold", format!("has the unknown value {}", message.threshold))),
        (Ok(Threshold::Unspecified), Some(_)) if message.amount.is_some() => {
            return Err(Error::invalid("amount", "is that of a threshold, and number_of_chunks is in its place"));
        }
        (Ok(Threshold::Unspecified), Some(chunks)) => DistanceThreshold::NumberOfChunks(chunks as usize),
        (Ok(_), Some(_)) => {
            return Err(Error::invalid("number_of_chunks", "is in the place of a threshold; leave out one of them"));
        }
        (Ok(Threshold::Unspecified | Threshold::Percentile), None) => {
            DistanceThreshold::Percentile(amount(DEFAULT_PERCENTILE))
        }
        (Ok(Threshold::StandardDeviation), None) => {
            DistanceThreshold::StandardDeviation(amount(DEFAULT_STANDARD_DEVIATIONS))
        }
        (Ok(Threshold::Interquartile), None) => DistanceThreshold::Interquartile(amount(DEFAULT_INTERQUARTILE_RANGES)),
        (Ok(Threshold::Gradient), None) => DistanceThreshold::Gradient(amount(DEFAULT_PERCENTILE)),
    };
    let defaults = SemanticSpec::default();
    Ok(SplitterSpec::Semantic(SemanticSpec {
        threshold,
        buffer_size: message.buffer_size.map_or(defaults.buffer_size, |size| size as usize),
        min_chunk_size: message.min_chunk_size.map_or(defaults.min_chunk_size, |size| size as usize),
    }))
}

fn size(given: Option<u32>) -> usize {
    given.map_or(DEFAULT_CHUNK_SIZE, |size| size as usize)
}

fn keep(keep: i32) -> Result<KeepSeparator> {
    match v1::KeepSeparator::try_from(keep) {
        Ok(v1::KeepSeparator::Unspecified | v1::KeepSeparator::Start) => Ok(KeepSeparator::Start),
        Ok(v1::KeepSeparator::End) => Ok(KeepSeparator::End),
        Ok(v1::KeepSeparator::No) => Ok(KeepSeparator::No),
        Err(_) => Err(Error::invalid("keep_separator", format!("has the unknown value {keep}"))),
    }
}

/// A fault of reading or cutting, in the field that it names.
pub(super) fn invalid(fault: toller_ingest::Error) -> Error {
    let text = fault.to_string();
    match text.split_once(": ") {
        Some((field, description)) => Error::invalid(field, description),
        None => Error::invalid("", text),
    }
}

/// The same fault, where it stands in this message.
fn renamed(fault: Error, from: &str, to: &str) -> Error {
    match fault {
        Error::InvalidArgument(mut violations) => {
            for violation in &mut violations {
                if let Some(rest) = violation.field.strip_prefix(from) {
                    violation.field = format!("{to}{rest}");
                }
            }
            Error::InvalidArgument(violations)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(kind: Kind) -> String {
        cutting_from_message(Some(v1::Splitter { kind: Some(kind), overlong: 0 })).unwrap_err().to_string()
    }

    #[test]
    fn faults_name_the_field_of_the_message() {
        let automatic = v1::AutomaticSplitter { chunk_size: Some(0), chunk_overlap: None };
        assert_eq!(fault(Kind::Automatic(automatic)), "splitter.automatic.chunk_size: must be at least 1, got 0");
        let code = v1::CodeSplitter::default();
        assert!(fault(Kind::Code(code)).starts_with("splitter.code.language: must be named"));
        let code = v1::CodeSplitter { language: "klingon".to_owned(), chunk_size: None };
        assert!(fault(Kind::Code(code)).starts_with("splitter.code.language: must be one of cpp, "));
        let headings = v1::HeadingSplitter { levels: vec![7], ..Default::default() };
        assert_eq!(fault(Kind::Headings(headings)), "splitter.headings.levels: must be 1 to 6, got 7");
        let recursive = v1::RecursiveSplitter { is_separator_regex: Some(true), ..Default::default() };
        assert!(fault(Kind::Recursive(recursive)).starts_with("splitter.recursive.is_separator_regex: "));
        let semantic = v1::SemanticSplitter { threshold: 1, number_of_chunks: Some(2), ..Default::default() };
        assert!(fault(Kind::Semantic(semantic)).starts_with("splitter.semantic.number_of_chunks: "));
        let character = v1::CharacterSplitter { keep_separator: 9, ..Default::default() };
        assert_eq!(fault(Kind::Character(character)), "splitter.character.keep_separator: has the unknown value 9");
    }

    #[test]
    fn presence_counts_and_not_falsiness() {
        let recursive =
            v1::RecursiveSplitter { chunk_overlap: Some(0), strip_whitespace: Some(false), ..Default::default() };
        let cutting = cutting_from_message(Some(v1::Splitter { kind: Some(Kind::Recursive(recursive)), overlong: 0 }));
        let Cut::By(SplitterSpec::Recursive(spec)) = cutting.unwrap().cut else { panic!("another splitter") };
        assert_eq!((spec.chunk_overlap, spec.strip_whitespace), (Some(0), false));
        let cutting = cutting_from_message(None).unwrap();
        let cut = Cut::Automatic { chunk_size: DEFAULT_CHUNK_SIZE, chunk_overlap: None };
        assert_eq!(cutting, Cutting { cut, split_overlong: false });
    }
}
