//! From a document to the records and parents that are made of it.

use std::ops::Range;
use std::sync::Arc;

use toller_core::error::{Error, Result};
use toller_core::{Document, Embeddings, Metadata, Models, RequestContext, Value};
use toller_ingest::{Format, LoadOptions, LoadedDocument, SkipReason, Structure, key, load};

use crate::cutting::{Cutter, OwnChunk, Piece};
use crate::generated::Writer;
use crate::parents::PARENT_KEY;
use crate::settings::{IndexSettings, Parents};
use crate::source_document::{Content, KIND_KEY, RelatedText, SourceDocument};
use crate::version::Version;

/// What a document becomes.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    /// What is searched: chunks, and then texts that lead to the document.
    pub(crate) records: Vec<Document>,
    pub(crate) parents: Vec<Document>,
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
    chunks: Cutter,
    parents: ParentCut,
    writers: Vec<Writer>,
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

/// A place in a text.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    chars: usize,
    /// Line ends before it.
    lines: usize,
}

impl Preparation {
    /// # Errors
    /// `InvalidArgument` for settings of splitters; `FailedPrecondition` when they need what the model does not have.
    pub(crate) fn new(settings: &IndexSettings, model: Arc<dyn Embeddings>, models: &Models) -> Result<Self> {
        let parents = match &settings.parents {
            None => ParentCut::None,
            Some(Parents::Documents) => ParentCut::Documents,
            Some(Parents::Parts(cutting)) => ParentCut::Parts(
                Cutter::new(cutting, Arc::clone(&model)).map_err(|fault| fault.within("parents"))?,
            ),
        };
        let writers = settings.generated.iter().enumerate().map(|(index, texts)| {
            Writer::new(texts, models).map_err(|fault| fault.within(&format!("generated[{index}]")))
        });
        Ok(Self {
            load: settings.load.clone(),
            chunks: Cutter::new(&settings.cutting, model)?,
            parents,
            writers: writers.collect::<Result<_>>()?,
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
            let fault = "related texts lead to a whole document, and its parents are parts of it; leave out parents.splitter";
            return Ok(Err(Unusable::Broken(fault.to_owned())));
        }
        let (format, loaded) = match self.loaded(document).await? {
            Ok(loaded) => loaded,
            Err(unusable) => return Ok(Err(unusable)),
        };
        let mut wholes = Vec::new();
        for loaded in loaded {
            self.add_wholes(context, &mut wholes, document, version, format, loaded).await?;
        }
        let pieces = wholes.iter().map(|whole| Piece {
            text: Arc::clone(&whole.text),
            structure: whole.structure.clone(),
            format,
            language: language_of(&whole.metadata),
        });
        let cut = match self.chunks.cut(context, pieces.collect()).await? {
            Ok(cut) => cut,
            Err(fault) => return Ok(Err(Unusable::Broken(fault))),
        };
        let mut drafts = Vec::new();
        for (whole, chunks) in wholes.iter().zip(cut) {
            let first = drafts.len();
            drafts.extend(drafts_of(whole, chunks, first));
            for writer in &self.writers {
                let texts = writer.write(context, &whole.text).await?;
                drafts.extend(texts.into_iter().map(|text| draft_of_related(whole.metadata.clone(), whole.parent.as_ref(), text)));
            }
        }
        let first = wholes.first();
        for related in &document.related {
            let metadata = first.map_or_else(|| metadata_of(document, format, None), |whole| whole.metadata.clone());
            drafts.push(draft_of_related(metadata, first.and_then(|whole| whole.parent.as_ref()), related.clone()));
        }
        if drafts.is_empty() {
            return Ok(Err(Unusable::Empty));
        }
        let total = drafts.len();
        let mut records = Vec::with_capacity(total);
        for (number, (page_content, metadata)) in drafts.into_iter().enumerate() {
            let id = version.record_id(number, total).map_err(|fault| Error::Internal(format!("an id {fault}")))?;
            records.push(Document { id, page_content, metadata });
        }
        Ok(Ok(Prepared { records, parents: wholes.into_iter().filter_map(|whole| whole.parent).collect() }))
    }

    async fn loaded(
        &self,
        document: &Arc<SourceDocument>,
    ) -> Result<std::result::Result<(Format, Vec<LoadedDocument>), Unusable>> {
        let format = match document.format() {
            Ok(format) => format,
            Err(fault) => return Ok(Err(Unusable::Broken(fault))),
        };
        let bytes = match &document.content {
            Content::None => return Ok(Ok((format, Vec::new()))),
            Content::Text(text) => text.clone().into_bytes(),
            Content::Bytes(bytes) => bytes.clone(),
        };
        let options = self.load.clone();
        let loaded = tokio::task::spawn_blocking(move || load(format, bytes, &options));
        match loaded.await.map_err(|fault| Error::Internal(format!("reading a document ended: {fault}")))? {
            Ok(loaded) => Ok(Ok((format, loaded))),
            // Related texts may lead to a document without a text.
            Err(SkipReason::Empty) if !document.related.is_empty() => Ok(Ok((format, Vec::new()))),
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
    ) -> Result<()> {
        let metadata = metadata_of(document, format, Some(&loaded));
        let text: Arc<str> = loaded.text.into();
        let whole = Whole {
            text,
            start: Place::default(),
            structure: loaded.structure,
            metadata,
            parent: None,
        };
        let number_of = |wholes: &Vec<Whole>| wholes.len();
        match &self.parents {
            ParentCut::None => wholes.push(whole),
            ParentCut::Documents => {
                let parent = parent_of(version, number_of(wholes), whole.text.as_ref(), whole.metadata.clone())?;
                wholes.push(Whole { parent: Some(parent), ..whole });
            }
            ParentCut::Parts(cutter) => {
                let piece = Piece {
                    text: Arc::clone(&whole.text),
                    structure: whole.structure.clone(),
                    format,
                    language: language_of(&whole.metadata),
                };
                let cut = cutter.cut(context, vec![piece]).await?.map_err(|fault| Error::invalid("parents", fault))?;
                for chunk in cut.into_iter().flatten() {
                    let start = place_of(&whole, &chunk);
                    let mut metadata = whole.metadata.clone();
                    metadata.extend(chunk.metadata.clone());
                    let mut of_parent = metadata.clone();
                    of_parent.insert(key::START_INDEX.to_owned(), integer(start.chars));
                    let parent = parent_of(version, number_of(wholes), &chunk.text, of_parent)?;
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
        Ok(())
    }
}

/// A record without its id.
type Draft = (String, Metadata);

/// The chunks of a whole as records, numbered from `first`.
fn drafts_of(whole: &Whole, chunks: Vec<OwnChunk>, first: usize) -> impl Iterator<Item = Draft> + '_ {
    let mut counted = Counted { bytes: 0, lines: 0 };
    chunks.into_iter().zip(first..).map(move |(chunk, number)| {
        let lines_before = counted.lines_before(&whole.text, chunk.bytes.start);
        let first_line = whole.start.lines + lines_before + 1;
        let mut metadata = whole.metadata.clone();
        metadata.extend(chunk.metadata);
        metadata.extend([
            (key::CHUNK.to_owned(), integer(number)),
            (key::START_INDEX.to_owned(), integer(whole.start.chars + chunk.chars.start)),
            (key::FIRST_LINE.to_owned(), integer(first_line)),
            (key::LAST_LINE.to_owned(), integer(first_line + lines_in(&chunk.text))),
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

fn language_of(metadata: &Metadata) -> Option<String> {
    match metadata.get(key::LANGUAGE) {
        Some(Value::String(language)) => Some(language.to_string()),
        _ => None,
    }
}

fn place_of(whole: &Whole, chunk: &OwnChunk) -> Place {
    let before = whole.text.get(..chunk.bytes.start).unwrap_or_default();
    Place { chars: whole.start.chars + chunk.chars.start, lines: whole.start.lines + line_ends(before) }
}

/// Line ends before places that only move forward, mostly.
struct Counted {
    bytes: usize,
    lines: usize,
}

impl Counted {
    /// O(bytes since the last place).
    fn lines_before(&mut self, text: &str, at: usize) -> usize {
        let Range { start, end } = self.bytes.min(at)..self.bytes.max(at);
        let between = line_ends(text.get(start..end).unwrap_or_default());
        self.lines = if at >= self.bytes { self.lines + between } else { self.lines.saturating_sub(between) };
        self.bytes = at;
        self.lines
    }
}

/// Line ends before the last character: a line end is on the line that it ends.
fn lines_in(text: &str) -> usize {
    line_ends(text.strip_suffix('\n').unwrap_or(text))
}

fn line_ends(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// No text in memory is as long as the largest 64-bit signed integer.
fn integer(count: usize) -> Value {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}
