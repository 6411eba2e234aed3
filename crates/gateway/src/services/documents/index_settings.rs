//! What the first message of `Index` asks for, and its documents, in the terms of index runs.

use std::str::FromStr;

use toller_api::{convert, v1};
use toller_core::{Error, Result};
use toller_indexing::generated::{DEFAULT_QUESTIONS, MAX_QUESTIONS};
use toller_indexing::parents::PARENT_GRACE;
use toller_indexing::{
    Cleanup, Content, GeneratedKind, GeneratedTexts, IndexSettings, Parents, RelatedText, SourceDocument,
};
use toller_ingest::{CsvMapping, HashAlgorithm, HtmlOptions, JsonMapping, LoadOptions};
use toller_store::RunConflict;

use super::splitter::{cutting_from_message, invalid};
use crate::limits::Limits;

/// The settings of a run; paths of fields are those within the message.
pub(super) fn settings_from_message(message: v1::IndexBegin, limits: &Limits) -> Result<IndexSettings> {
    let cleanup = match v1::IndexCleanup::try_from(message.cleanup) {
        Ok(v1::IndexCleanup::Unspecified | v1::IndexCleanup::None) => Cleanup::None,
        Ok(v1::IndexCleanup::Incremental | v1::IndexCleanup::ScopedFull) => Cleanup::Incremental,
        Ok(v1::IndexCleanup::Full) => Cleanup::Full,
        Err(_) => return Err(unknown("cleanup", message.cleanup)),
    };
    if message.allow_empty_full && cleanup != Cleanup::Full {
        return Err(Error::invalid("allow_empty_full", "is about runs with cleanup FULL only"));
    }
    let conflict = match v1::IndexConflict::try_from(message.conflict) {
        Ok(v1::IndexConflict::Unspecified | v1::IndexConflict::Wait) => RunConflict::Wait,
        Ok(v1::IndexConflict::Refuse) => RunConflict::Refuse,
        Err(_) => return Err(unknown("conflict", message.conflict)),
    };
    let parents = match message.parents {
        None => None,
        Some(v1::ParentIndexing { splitter: None }) => Some(Parents::Documents),
        Some(v1::ParentIndexing { splitter }) => {
            let cutting = cutting_from_message(splitter).map_err(|fault| fault.within("parents"))?;
            Some(Parents::Parts(cutting))
        }
    };
    let generated = message.generated.into_iter().enumerate().map(|(index, texts)| {
        generated_from_message(texts).map_err(|fault| fault.within(&format!("generated[{index}]")))
    });
    let document_key = match v1::DocumentKey::try_from(message.document_key) {
        Ok(v1::DocumentKey::Unspecified) => None,
        Ok(v1::DocumentKey::Sha1) => Some(HashAlgorithm::Sha1),
        Ok(v1::DocumentKey::Sha256) => Some(HashAlgorithm::Sha256),
        Ok(v1::DocumentKey::Sha512) => Some(HashAlgorithm::Sha512),
        Ok(v1::DocumentKey::Blake2b) => Some(HashAlgorithm::Blake2b),
        Err(_) => return Err(unknown("document_key", message.document_key)),
    };
    Ok(IndexSettings {
        cleanup,
        dry_run: message.dry_run,
        allow_empty_full: message.allow_empty_full,
        force: message.force,
        conflict,
        cutting: cutting_from_message(message.splitter)?,
        parents,
        load: load_from_message(message.load, limits)?,
        generated: generated.collect::<Result<_>>()?,
        document_key,
        parent_grace: PARENT_GRACE,
        max_document_bytes: limits.max_document_bytes(),
        max_text_bytes: limits.max_text_bytes(),
        max_metadata_bytes: limits.max_metadata_bytes(),
    })
}

/// A document of a run; or what is wrong with it, for its source's problem.
pub(super) fn document_from_message(message: v1::SourceDocument, limits: &Limits) -> Result<SourceDocument, String> {
    let convert = || {
        let metadata = v1::MapValue { entries: message.metadata };
        let title_bytes = message.title.as_deref().unwrap_or_default().len();
        limits.check_metadata(prost::Message::encoded_len(&metadata) + title_bytes)?;
        let metadata = convert::metadata_from_message(metadata.entries)?;
        for (index, related) in message.related.iter().enumerate() {
            limits.check_text(|| format!("related[{index}].text"), &related.text)?;
        }
        let content = match message.content {
            None => Content::None,
            Some(v1::source_document::Content::Text(text)) => Content::Text(text),
            Some(v1::source_document::Content::Data(data)) => Content::Bytes(data),
        };
        let related = message.related.into_iter();
        Ok(SourceDocument {
            source: message.source,
            content,
            media_type: message.media_type,
            metadata,
            title: message.title,
            continued: message.continued,
            related: related.map(|related| RelatedText { kind: related.kind, text: related.text }).collect(),
        })
    };
    convert().map_err(|fault: Error| fault.to_string())
}

fn generated_from_message(message: v1::GeneratedTexts) -> Result<GeneratedTexts> {
    let kind = match v1::GeneratedKind::try_from(message.kind) {
        Ok(v1::GeneratedKind::Summary) if message.count.is_some() => {
            return Err(Error::invalid("count", "is for questions; there is one summary"));
        }
        Ok(v1::GeneratedKind::Summary) => GeneratedKind::Summary,
        Ok(v1::GeneratedKind::Questions) => {
            let count = message.count.unwrap_or(DEFAULT_QUESTIONS);
            if !(1..=MAX_QUESTIONS).contains(&count) {
                return Err(Error::invalid("count", format!("must be 1 to {MAX_QUESTIONS}, got {count}")));
            }
            GeneratedKind::Questions(count)
        }
        Ok(v1::GeneratedKind::Unspecified) => return Err(Error::invalid("kind", "must be SUMMARY or QUESTIONS")),
        Err(_) => return Err(unknown("kind", message.kind)),
    };
    let language_model = Some(message.language_model).filter(|name| !name.is_empty());
    Ok(GeneratedTexts { kind, language_model })
}

fn load_from_message(message: Option<v1::LoadOptions>, limits: &Limits) -> Result<LoadOptions> {
    let v1::LoadOptions { json, csv, html_main_content_only } = message.unwrap_or_default();
    let given = |text: String| Some(text).filter(|text| !text.is_empty());
    let json = json.unwrap_or_default();
    let csv = csv.unwrap_or_default();
    let mut delimiters = csv.delimiter.chars();
    let delimiter = delimiters.next();
    if delimiters.next().is_some() {
        return Err(Error::invalid("load.csv.delimiter", format!("must be one character, got {:?}", csv.delimiter)));
    }
    let options = LoadOptions {
        charset: None,
        max_text_bytes: limits.max_document_bytes(),
        json: JsonMapping {
            records: given(json.records),
            content: given(json.content),
            metadata: json.metadata.into_iter().collect(),
        },
        csv: CsvMapping { content: csv.content, metadata: csv.metadata, delimiter },
        html: HtmlOptions {
            main_content_only: html_main_content_only.unwrap_or(HtmlOptions::default().main_content_only),
        },
    };
    options.check().map_err(|fault| invalid(fault).within("load"))?;
    Ok(options)
}

fn unknown(field: &str, number: i32) -> Error {
    Error::invalid(field, format!("has the unknown value {number}"))
}

/// A name of an enumeration's; none for the empty one.
pub(super) fn named<T: FromStr<Err = toller_ingest::Error>>(name: &str) -> Result<Option<T>> {
    if name.is_empty() {
        return Ok(None);
    }
    name.parse().map(Some).map_err(invalid)
}
