//! From a document to the records and parents that are made of it.

use std::sync::Arc;

use toller_core::error::{Error, Result};
use toller_core::{Document, Embeddings, Metadata, Models, RequestContext, Value};
use toller_ingest::{
    Format, HashAlgorithm, LoadOptions, LoadedDocument, SkipReason, Structure, charset_of, document_key, key, load,
};

use crate::cutting::{Cutter, OwnChunk, Piece};
use crate::generated::Writer;
use crate::parents::PARENT_KEY;
use crate::place::{LineCounter, Place, lines_spanned};
use crate::settings::{IndexSettings, Parents};
use crate::source_document::{Content, KIND_KEY, RelatedText, SourceDocument};
use crate::version::Version;

/// Name, in the metadata, of LangChain's id of the document.
const DOCUMENT_KEY: &str = "document_key";

/// What a document becomes.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    /// What is searched: chunks, and then texts that lead to the document.
    pub(crate) records: Vec<Document>,
    pub(crate) parents: Vec<Document>,
    /// What is wrong with parts of the document, such as a row of a table; the rest of it is here.
    pub(crate) faults: Vec<String>,
}

/// Why nothing can be made of a document.
#[derive(Debug)]
pub(crate) enum Unusable {
    /// There is no text in it.
    Empty,
    /// It cannot be read.
    Broken(String),
}

/// Prepares documents as the settings of a run say.
pub(crate) struct Preparation {
    load: LoadOptions,
    max_text_bytes: usize,
    chunks: Cutter,
    parents: ParentCut,
    writers: Vec<Writer>,
    document_key: Option<HashAlgorithm>,
}

/// How documents become parents.
enum ParentCut {
    None,
    Documents,
    Parts(Cutter),
}

/// A part of a document that chunks are cut from.
struct Whole {
    text: Arc<str>,
    /// Where it begins in the text of its document.
    start: Place,
    structure: Structure,
    /// For every record of it.
    metadata: Metadata,
    parent: Option<Document>,
}

impl Whole {
    /// Where a part of it stands in the text of its document. O(text).
    fn place_of(&self, chunk: &OwnChunk) -> Place {
        let line = LineCounter::new(&self.text).line_of(chunk.bytes.start);
        Place { chars: self.start.chars + chunk.chars.start, lines: self.start.lines + line - 1 }
    }
}

impl Preparation {
    /// # Errors
    /// `InvalidArgument` for settings of splitters; `FailedPrecondition` when they need what the model does not have.
    pub(crate) fn new(settings: &IndexSettings, model: Arc<dyn Embeddings>, models: &Models) -> Result<Self> {
        let parents = match &settings.parents {
            None => ParentCut::None,
            Some(Parents::Documents) => ParentCut::Documents,
            Some(Parents::Parts(cutting)) => {
                ParentCut::Parts(Cutter::new(cutting, Arc::clone(&model)).map_err(|fault| fault.within("parents"))?)
            }
        };
        let writers = settings.generated.iter().enumerate().map(|(index, texts)| {
            Writer::new(texts, models).map_err(|fault| fault.within(&format!("generated[{index}]")))
        });
        Ok(Self {
            load: settings.load.clone(),
            max_text_bytes: settings.max_text_bytes,
            chunks: Cutter::new(&settings.cutting, model)?,
            parents,
            writers: writers.collect::<Result<_>>()?,
            document_key: settings.document_key,
        })
    }

    /// Reads a document and cuts it. Work that takes long runs where it may block.
    ///
    /// # Errors
    /// What ends a run; what is wrong with the document is in the answer.
    pub(crate) async fn prepare(
        &self,
        context: &RequestContext,
        document: &Arc<SourceDocument>,
        version: &Version,
    ) -> Result<std::result::Result<Prepared, Unusable>> {
        if !document.related.is_empty() && matches!(self.parents, ParentCut::Parts(_)) {
            let fault =
                "related texts lead to a whole document, and its parents are parts of it; leave out parents.splitter";
            return Ok(Err(Unusable::Broken(fault.to_owned())));
        }
        let Loaded { format, documents, faults } = match self.loaded(document).await? {
            Ok(loaded) => loaded,
            Err(unusable) => return Ok(Err(unusable)),
        };
        let mut wholes = Vec::new();
        for loaded in documents {
            if let Err(fault) = self.add_wholes(context, &mut wholes, document, version, format, loaded).await? {
                return Ok(Err(Unusable::Broken(fault)));
            }
        }
        let cut_as = self.cut_as(format);
        let pieces = wholes.iter().map(|whole| Piece {
            text: Arc::clone(&whole.text),
            structure: whole.structure.clone(),
            format: cut_as,
        });
        let cut = match self.chunks.cut(context, pieces.collect()).await? {
            Ok(cut) => cut,
            Err(fault) => return Ok(Err(Unusable::Broken(fault))),
        };
        let mut drafts = Vec::new();
        for (whole, chunks) in wholes.iter().zip(cut) {
            if let Some(long) = chunks.iter().find(|chunk| chunk.text.len() > self.max_text_bytes) {
                let (bytes, most) = (long.text.len(), self.max_text_bytes);
                let fault = format!(
                    "a chunk of it has {bytes} bytes, over the {most} of limits.max_text_bytes; use a splitter that makes smaller ones"
                );
                return Ok(Err(Unusable::Broken(fault)));
            }
            let first = drafts.len();
            drafts.extend(drafts_of(whole, chunks, first));
            for writer in &self.writers {
                let texts = writer.write(context, &whole.text).await?;
                drafts.extend(
                    texts.into_iter().map(|text| draft_of_related(whole.metadata.clone(), whole.parent.as_ref(), text)),
                );
            }
        }
        let first = wholes.first();
        for related in &document.related {
            let metadata = first.map_or_else(|| metadata_of(document, format, None), |whole| whole.metadata.clone());
            drafts.push(draft_of_related(metadata, first.and_then(|whole| whole.parent.as_ref()), related.clone()));
        }
        if drafts.is_empty() {
            return Ok(Err(faults.into_iter().next().map_or(Unusable::Empty, Unusable::Broken)));
        }
        // With parts that could not be used the version is never whole, so that the next run tries, and tells, again.
        let total = drafts.len() + faults.len();
        let mut records = Vec::with_capacity(total);
        for (number, (page_content, metadata)) in drafts.into_iter().enumerate() {
            let id = version.record_id(number, total).map_err(|fault| Error::Internal(format!("an id {fault}")))?;
            records.push(Document { id, page_content, metadata });
        }
        let parents = wholes.into_iter().filter_map(|whole| whole.parent).collect();
        Ok(Ok(Prepared { records, parents, faults }))
    }

    /// What the texts of a format are: values that a mapping takes out of JSON are texts.
    fn cut_as(&self, format: Format) -> Format {
        match format {
            Format::Json | Format::JsonLines if self.load.json.content.is_some() => Format::Text,
            other => other,
        }
    }

    async fn loaded(&self, document: &Arc<SourceDocument>) -> Result<std::result::Result<Loaded, Unusable>> {
        let format = match document.format() {
            Ok(format) => format,
            Err(fault) => return Ok(Err(Unusable::Broken(fault))),
        };
        let mut options = self.load.clone();
        let bytes = match &document.content {
            Content::None => return Ok(Ok(Loaded { format, documents: Vec::new(), faults: Vec::new() })),
            Content::Text(text) => {
                options.charset = Some("utf-8".to_owned());
                text.clone().into_bytes()
            }
            Content::Bytes(bytes) => {
                options.charset = charset_of(&document.media_type).map(str::to_owned);
                bytes.clone()
            }
        };
        let reading = tokio::task::spawn_blocking(move || {
            let (mut documents, mut faults) = (Vec::new(), Vec::new());
            for part in load(format, bytes, &options)? {
                match part {
                    Ok(document) => documents.push(document),
                    Err(fault) => faults.push(fault.to_string()),
                }
            }
            Ok(Loaded { format, documents, faults })
        });
        match reading.await.map_err(|fault| Error::Internal(format!("reading a document ended: {fault}")))? {
            Ok(loaded) => Ok(Ok(loaded)),
            // Related texts may lead to a document without a text.
            Err(SkipReason::Empty) if !document.related.is_empty() => {
                Ok(Ok(Loaded { format, documents: Vec::new(), faults: Vec::new() }))
            }
            Err(SkipReason::Empty) => Ok(Err(Unusable::Empty)),
            Err(reason) => Ok(Err(Unusable::Broken(reason.to_string()))),
        }
    }

    /// What chunks are cut from: the document, or each of its parents.
    async fn add_wholes(
        &self,
        context: &RequestContext,
        wholes: &mut Vec<Whole>,
        document: &SourceDocument,
        version: &Version,
        format: Format,
        loaded: LoadedDocument,
    ) -> Result<std::result::Result<(), String>> {
        let mut metadata = metadata_of(document, format, Some(&loaded));
        if let Some(algorithm) = self.document_key {
            let mut hashed = document.metadata.clone();
            hashed.insert(key::SOURCE.to_owned(), Value::from(document.source.as_str()));
            let key = document_key(&loaded.text, &hashed, algorithm);
            metadata.insert(DOCUMENT_KEY.to_owned(), Value::from(key));
        }
        let text: Arc<str> = loaded.text.into();
        let whole = Whole { text, start: Place::default(), structure: loaded.structure, metadata, parent: None };
        match &self.parents {
            ParentCut::None => wholes.push(whole),
            ParentCut::Documents => {
                let parent = parent_of(version, wholes.len(), whole.text.as_ref(), whole.metadata.clone())?;
                wholes.push(Whole { parent: Some(parent), ..whole });
            }
            ParentCut::Parts(cutter) => {
                let format = self.cut_as(format);
                let piece = Piece { text: Arc::clone(&whole.text), structure: whole.structure.clone(), format };
                let cut = match cutter.cut(context, vec![piece]).await? {
                    Ok(cut) => cut,
                    Err(fault) => return Ok(Err(fault)),
                };
                for chunk in cut.into_iter().flatten() {
                    let start = whole.place_of(&chunk);
                    let mut metadata = whole.metadata.clone();
                    metadata.extend(chunk.metadata.clone());
                    let mut of_parent = metadata.clone();
                    of_parent.insert(key::START_INDEX.to_owned(), Value::from_count(start.chars));
                    let parent = parent_of(version, wholes.len(), &chunk.text, of_parent)?;
                    wholes.push(Whole {
                        structure: whole.structure.within(chunk.bytes.clone()),
                        text: chunk.text.into(),
                        start,
                        metadata,
                        parent: Some(parent),
                    });
                }
            }
        }
        Ok(Ok(()))
    }
}

/// A document as it was read.
struct Loaded {
    format: Format,
    /// Its pages, rows or records, or itself.
    documents: Vec<LoadedDocument>,
    /// What is wrong with those that could not be used.
    faults: Vec<String>,
}

/// A record without its id.
type Draft = (String, Metadata);

/// The chunks of a whole as records, numbered from `first`.
fn drafts_of(whole: &Whole, chunks: Vec<OwnChunk>, first: usize) -> impl Iterator<Item = Draft> + '_ {
    let mut lines = LineCounter::new(&whole.text);
    chunks.into_iter().zip(first..).map(move |(chunk, number)| {
        let first_line = whole.start.lines + lines.line_of(chunk.bytes.start);
        let mut metadata = whole.metadata.clone();
        metadata.extend(chunk.metadata);
        metadata.extend([
            (key::CHUNK.to_owned(), Value::from_count(number)),
            (key::START_INDEX.to_owned(), Value::from_count(whole.start.chars + chunk.chars.start)),
            (key::FIRST_LINE.to_owned(), Value::from_count(first_line)),
            (key::LAST_LINE.to_owned(), Value::from_count(first_line + lines_spanned(&chunk.text) - 1)),
        ]);
        if let Some(parent) = &whole.parent {
            metadata.insert(PARENT_KEY.to_owned(), Value::from(parent.id.as_str()));
        }
        (chunk.text, metadata)
    })
}

fn draft_of_related(mut metadata: Metadata, parent: Option<&Document>, related: RelatedText) -> Draft {
    metadata.insert(KIND_KEY.to_owned(), Value::from(related.kind));
    if let Some(parent) = parent {
        metadata.insert(PARENT_KEY.to_owned(), Value::from(parent.id.as_str()));
    }
    (related.text, metadata)
}

fn parent_of(version: &Version, number: usize, text: &str, metadata: Metadata) -> Result<Document> {
    let id = version.parent_id(number).map_err(|fault| Error::Internal(format!("an id {fault}")))?;
    Ok(Document { id, page_content: text.to_owned(), metadata })
}

/// What every record of a document carries: what its format knows, what the caller says, and what it is known by.
fn metadata_of(document: &SourceDocument, format: Format, loaded: Option<&LoadedDocument>) -> Metadata {
    let mut metadata = Metadata::from([(key::MEDIA_TYPE.to_owned(), Value::from(format.media_type()))]);
    if let Some(loaded) = loaded {
        metadata.extend(loaded.title.as_ref().map(|title| (key::TITLE.to_owned(), Value::from(title.as_str()))));
        metadata.extend(loaded.metadata.clone());
    }
    metadata.extend(document.metadata.clone());
    metadata.extend(document.title.as_ref().map(|title| (key::TITLE.to_owned(), Value::from(title.as_str()))));
    metadata.insert(key::SOURCE.to_owned(), Value::from(document.source.as_str()));
    metadata
}
