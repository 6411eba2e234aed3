//! From a document to the records and parents that are made of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt;
use futures::stream::{self, StreamExt, TryStreamExt};
use toller_core::error::{Error, Result};
use toller_core::value::metadata_bytes;
use toller_core::{Document, DocumentId, Embeddings, Metadata, Models, RequestContext, Value};
use toller_ingest::{
    Format, HashAlgorithm, LoadOptions, LoadedDocument, SkipReason, Structure, charset_of, document_key, key, load,
};

use crate::cutting::{Cutter, OwnChunk, Piece};
use crate::draft::{Draft, DraftPart};
use crate::generated::Writer;
use crate::place::{LineCounter, Place, lines_spanned};
use crate::settings::{IndexSettings, Parents};
use crate::source_document::{Content, RelatedText, SourceDocument};
use crate::version::Version;

/// Questions to language models at a time.
const QUESTIONS_AT_ONCE: usize = 4;

/// What a document becomes.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    /// What is searched: chunks, and then texts that lead to the document.
    pub(crate) drafts: Vec<Draft>,
    pub(crate) parents: Vec<Document>,
    /// What is wrong with parts of the document, such as a row of a table; the rest of it is here.
    pub(crate) faults: Vec<String>,
}

impl Prepared {
    /// How many records the ids count. With parts that could not be used it is more than there are: the version is never whole,
    /// so that the next run tries, and tells, again.
    pub(crate) fn total(&self) -> usize {
        self.drafts.len() + self.faults.len()
    }
}

/// Where texts come from that language models write.
#[derive(Debug)]
pub(crate) enum Written {
    /// The models are asked.
    Ask,
    /// Nobody is asked, and there are none.
    None,
    /// An earlier run that did not come to its end asked: what it got, by the number of the record.
    Found(BTreeMap<usize, RelatedText>),
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
    max_metadata_bytes: usize,
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
    metadata: Arc<Metadata>,
    parent: Option<Document>,
}

impl Whole {
    fn parent_id(&self) -> Option<DocumentId> {
        self.parent.as_ref().map(|parent| parent.id.clone())
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
            max_metadata_bytes: settings.max_metadata_bytes,
            chunks: Cutter::new(&settings.cutting, model)?,
            parents,
            writers: writers.collect::<Result<_>>()?,
            document_key: settings.document_key,
        })
    }

    /// Do language models write something of every document?
    pub(crate) fn has_writers(&self) -> bool {
        !self.writers.is_empty()
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
        written: Written,
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
        if let Err(fault) = self.check(&wholes, &cut) {
            return Ok(Err(Unusable::Broken(fault)));
        }
        let (asked, mut found) = match written {
            Written::None => (Vec::new(), BTreeMap::new()),
            Written::Found(found) => (Vec::new(), found),
            Written::Ask => match self.ask(context, &wholes).await? {
                Ok(asked) => (asked, BTreeMap::new()),
                Err(fault) => return Ok(Err(Unusable::Broken(fault))),
            },
        };
        let mut asked = asked.into_iter();
        let mut drafts = Vec::new();
        for (whole, chunks) in wholes.iter().zip(cut) {
            let first = drafts.len();
            drafts.extend(drafts_of(whole, chunks, first));
            let of_whole = asked.by_ref().take(self.writers.len()).flatten();
            let of_whole = of_whole.chain(found_from(&mut found, drafts.len()));
            let draft = |text| Draft::of_related(Arc::clone(&whole.metadata), whole.parent_id(), text);
            drafts.extend(of_whole.map(draft));
        }
        match related_of(document, format, &wholes) {
            Ok(related) => drafts.extend(related),
            Err(fault) => return Ok(Err(Unusable::Broken(fault))),
        }
        if drafts.is_empty() {
            return Ok(Err(faults.into_iter().next().map_or(Unusable::Empty, Unusable::Broken)));
        }
        let parents = wholes.into_iter().filter_map(|whole| whole.parent).collect();
        Ok(Ok(Prepared { drafts, parents, faults }))
    }

    /// Asks the language models about each whole, in its order; or says why one of them writes nothing.
    async fn ask(
        &self,
        context: &RequestContext,
        wholes: &[Whole],
    ) -> Result<std::result::Result<Vec<Vec<RelatedText>>, String>> {
        let questions = wholes.iter().flat_map(|whole| {
            self.writers.iter().map(move |writer| writer.write(context, Arc::clone(&whole.text)).boxed())
        });
        let questions: Vec<_> = questions.collect();
        let answers: Vec<_> = stream::iter(questions).buffered(QUESTIONS_AT_ONCE).try_collect().await?;
        Ok(answers.into_iter().collect())
    }

    /// What of the chunks or parents is too large to be kept and given back.
    fn check(&self, wholes: &[Whole], cut: &[Vec<OwnChunk>]) -> std::result::Result<(), String> {
        let (most, most_metadata) = (self.max_text_bytes, self.max_metadata_bytes);
        for (whole, chunks) in wholes.iter().zip(cut) {
            if let Some(long) = whole.parent.as_ref().filter(|parent| parent.page_content.len() > most) {
                let bytes = long.page_content.len();
                return Err(format!(
                    "a parent of it has {bytes} bytes, over the {most} of limits.max_text_bytes; cut parents with parents.splitter"
                ));
            }
            if let Some(long) = chunks.iter().find(|chunk| chunk.text.len() > most) {
                let bytes = long.text.len();
                return Err(format!(
                    "a chunk of it has {bytes} bytes, over the {most} of limits.max_text_bytes; use a splitter that makes smaller ones"
                ));
            }
            let shared = metadata_bytes(&whole.metadata);
            let of_chunks = chunks.iter().map(|chunk| metadata_bytes(&chunk.metadata)).max().unwrap_or(0);
            if shared + of_chunks > most_metadata {
                let bytes = shared + of_chunks;
                return Err(format!(
                    "its metadata has {bytes} bytes, over the {most_metadata} of limits.max_metadata_bytes; map less of it to metadata"
                ));
            }
        }
        Ok(())
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
            metadata.insert(key::DOCUMENT_KEY.to_owned(), Value::from(key));
        }
        let text: Arc<str> = loaded.text.into();
        let metadata = Arc::new(metadata);
        let whole = Whole { text, start: Place::default(), structure: loaded.structure, metadata, parent: None };
        match &self.parents {
            ParentCut::None => wholes.push(whole),
            ParentCut::Documents => {
                let parent = parent_of(version, wholes.len(), whole.text.as_ref(), Metadata::clone(&whole.metadata))?;
                wholes.push(Whole { parent: Some(parent), ..whole });
            }
            ParentCut::Parts(cutter) => {
                let format = self.cut_as(format);
                let piece = Piece { text: Arc::clone(&whole.text), structure: whole.structure.clone(), format };
                let cut = match cutter.cut(context, vec![piece]).await? {
                    Ok(cut) => cut,
                    Err(fault) => return Ok(Err(fault)),
                };
                let mut lines = LineCounter::new(&whole.text);
                for chunk in cut.into_iter().flatten() {
                    let start = Place { chars: chunk.chars.start, lines: lines.line_of(chunk.bytes.start) - 1 };
                    let mut metadata = Metadata::clone(&whole.metadata);
                    metadata.extend(chunk.metadata.clone());
                    let mut of_parent = metadata.clone();
                    of_parent.insert(key::START_INDEX.to_owned(), Value::from_count(start.chars));
                    let parent = parent_of(version, wholes.len(), &chunk.text, of_parent)?;
                    wholes.push(Whole {
                        structure: whole.structure.within(chunk.bytes.clone()),
                        text: chunk.text.into(),
                        start,
                        metadata: Arc::new(metadata),
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

/// The chunks of a whole as records, numbered from `first`.
fn drafts_of(whole: &Whole, chunks: Vec<OwnChunk>, first: usize) -> impl Iterator<Item = Draft> + '_ {
    let mut lines = LineCounter::new(&whole.text);
    chunks.into_iter().zip(first..).map(move |(chunk, number)| {
        let first_line = whole.start.lines + lines.line_of(chunk.bytes.start);
        let part = DraftPart::Chunk {
            number,
            start_index: whole.start.chars + chunk.chars.start,
            first_line,
            last_line: first_line + lines_spanned(&chunk.text) - 1,
            of_splitter: chunk.metadata,
        };
        Draft { text: chunk.text, shared: Arc::clone(&whole.metadata), parent: whole.parent_id(), part }
    })
}

/// The texts of some records that follow one another, from `first` on.
fn found_from(found: &mut BTreeMap<usize, RelatedText>, first: usize) -> Vec<RelatedText> {
    (first..).map_while(|number| found.remove(&number)).collect()
}

/// The caller's texts that lead to a document. They are about all of it, and lead to its one parent where it has parents.
fn related_of(document: &SourceDocument, format: Format, wholes: &[Whole]) -> std::result::Result<Vec<Draft>, String> {
    let (metadata, parent) = match wholes {
        _ if document.related.is_empty() => return Ok(Vec::new()),
        [whole] => (Arc::clone(&whole.metadata), whole.parent_id()),
        [first, ..] if first.parent.is_some() => {
            let parents = wholes.len();
            return Err(format!(
                "its related texts lead to one parent, and it has {parents}, one for each part of the file; leave out related, or parents"
            ));
        }
        _ => (Arc::new(metadata_of(document, format, None)), None),
    };
    let related = document.related.iter().cloned();
    Ok(related.map(|text| Draft::of_related(Arc::clone(&metadata), parent.clone(), text)).collect())
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
