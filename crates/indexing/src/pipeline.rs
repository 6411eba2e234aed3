//! From documents to staged records: they are embedded in batches, some at a time, while the next ones are read and cut.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::task::JoinSet;
use toller_core::error::{Error, Result};
use toller_core::{Document, DocumentId, EmbeddingRole, Record, RequestContext, Vector};
use toller_store::CollectionHandle;
use toller_store::staging::Staging;
use tracing::Instrument;

use crate::patience::patiently;
use crate::progress::Board;

/// Most texts of one call of the model: many forward passes of a small model, and few enough that little is embedded again after a crash.
const BATCH_TEXTS: usize = 64;

/// Most bytes of one call; one longer text goes alone. About 500 tokens for each text of a full batch.
const BATCH_BYTES: usize = 128 << 10;

/// Calls on their way at a time: while one is staged, the model has the next two, and orders the texts of both by length.
const IN_FLIGHT: usize = 4;

/// A document that the model refused.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) id: DocumentId,
    /// What it said.
    pub(crate) fault: String,
}

/// Documents on their way into the staging room.
pub(crate) struct Pipeline {
    line: Line,
    board: Board,
    batch: Vec<Waiting>,
    batch_bytes: usize,
    in_flight: JoinSet<Result<Vec<Refused>>>,
    refused: Vec<Refused>,
}

/// What every batch needs.
#[derive(Clone)]
struct Line {
    collection: CollectionHandle,
    staging: Staging,
    context: RequestContext,
}

/// A document of the next batch.
struct Waiting {
    document: Arc<Document>,
    /// The vector that its text has already.
    vector: Option<Vector>,
}

impl Pipeline {
    pub(crate) fn new(collection: CollectionHandle, staging: Staging, context: RequestContext, board: Board) -> Self {
        let line = Line { collection, staging, context };
        Self { line, board, batch: Vec::new(), batch_bytes: 0, in_flight: JoinSet::new(), refused: Vec::new() }
    }

    /// Takes a document; waits while too many are on their way.
    ///
    /// # Errors
    /// The first fault of any batch: the run is over then.
    pub(crate) async fn push(&mut self, document: Document, vector: Option<Vector>) -> Result<()> {
        let bytes = document.page_content.len();
        if !self.batch.is_empty() && (self.batch.len() >= BATCH_TEXTS || self.batch_bytes + bytes > BATCH_BYTES) {
            self.send().await?;
        }
        self.batch_bytes += bytes;
        self.batch.push(Waiting { document: Arc::new(document), vector });
        Ok(())
    }

    /// Waits until everything is staged but what the model refused.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub(crate) async fn finish(&mut self) -> Result<Vec<Refused>> {
        self.send().await?;
        while let Some(done) = self.in_flight.join_next().await {
            self.refused.extend(settled(done)?);
        }
        Ok(std::mem::take(&mut self.refused))
    }

    async fn send(&mut self) -> Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        while self.in_flight.len() >= IN_FLIGHT {
            if let Some(done) = self.in_flight.join_next().await {
                self.refused.extend(settled(done)?);
            }
        }
        let (line, board, batch) = (self.line.clone(), self.board.clone(), std::mem::take(&mut self.batch));
        self.batch_bytes = 0;
        self.in_flight.spawn(async move { line.stage(batch, &board).await }.in_current_span());
        Ok(())
    }
}

fn settled<T>(done: std::result::Result<Result<T>, tokio::task::JoinError>) -> Result<T> {
    done.unwrap_or_else(|fault| Err(Error::Internal(format!("a batch of an index run ended: {fault}"))))
}

impl Line {
    /// Embeds and stages a batch but for the documents that the model refuses.
    async fn stage(&self, batch: Vec<Waiting>, board: &Board) -> Result<Vec<Refused>> {
        let vectors = self.vectors(&batch, board).await?;
        let (mut records, mut refused) = (Vec::with_capacity(batch.len()), Vec::new());
        for (Waiting { document, .. }, vector) in batch.into_iter().zip(vectors) {
            match vector {
                Ok(vector) => records.push(Record::new(document, vector)),
                Err(fault) => refused.push(Refused { id: document.id.clone(), fault }),
            }
        }
        self.staging.put(&self.context, records).await?;
        Ok(refused)
    }

    /// A vector for each, or why the model refuses its text; equal texts are embedded once.
    async fn vectors(&self, batch: &[Waiting], board: &Board) -> Result<Vec<Answer<Vector>>> {
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut texts = Vec::new();
        let place_of: Vec<Option<usize>> = batch
            .iter()
            .map(|waiting| {
                waiting.vector.is_none().then(|| {
                    let text = waiting.document.page_content.as_str();
                    *places.entry(text).or_insert_with(|| {
                        texts.push(text.to_owned());
                        texts.len() - 1
                    })
                })
            })
            .collect();
        let embedded = if texts.is_empty() { Vec::new() } else { self.embed(texts).await? };
        board.count(|progress| {
            let given = || place_of.iter().flatten().filter_map(|place| embedded.get(*place)?.as_ref().ok());
            progress.embedded += given().count() as u64;
            progress.truncated += given().filter(|embedded| embedded.truncated).count() as u64;
            progress.tokens += embedded.iter().flatten().filter_map(|one| one.tokens).map(u64::from).sum::<u64>();
        });
        let vectors = batch.iter().zip(place_of).map(|(waiting, place)| {
            let embedded = place.and_then(|place| embedded.get(place)).cloned();
            let vector = waiting.vector.clone().map(Ok).or(embedded.map(|answer| answer.map(|one| one.vector)));
            vector.ok_or_else(|| Error::Internal(format!("\"{}\" has no vector", waiting.document.id)))
        });
        vectors.collect()
    }

    /// Embeds texts; waits for a model that is busy or out of reach. Where the model refuses them together, each is asked for
    /// alone: one of them may be too long for it.
    ///
    /// # Errors
    /// What the model or the caller's deadline says; what the model says of every one of several texts is not about the texts.
    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Answer<Embedded>>> {
        let refusal = match self.embed_together(&texts).await {
            Err(Error::InvalidArgument(fault)) => Error::InvalidArgument(fault),
            other => return other.map(|embedded| embedded.into_iter().map(Ok).collect()),
        };
        let count = texts.len();
        let mut answers = Vec::with_capacity(count);
        for text in texts {
            match self.embed_together(&[text]).await {
                Ok(embedded) => answers.extend(embedded.into_iter().map(Ok)),
                Err(fault @ Error::InvalidArgument(_)) => answers.push(Err(fault.to_string())),
                Err(fault) => return Err(fault),
            }
        }
        if count > 1 && answers.iter().all(|answer| answer.is_err()) { Err(refusal) } else { Ok(answers) }
    }

    async fn embed_together(&self, texts: &[String]) -> Result<Vec<Embedded>> {
        let model = self.collection.embeddings()?;
        let ask = || model.embed(&self.context, EmbeddingRole::Document, texts.to_vec());
        let embeddings = patiently(&self.context, ask).await?;
        if embeddings.len() != texts.len() {
            let (got, wanted) = (embeddings.len(), texts.len());
            return Err(Error::Internal(format!("the model gave {got} vectors for {wanted} texts")));
        }
        let checked = embeddings.into_iter().map(|embedding| {
            let vector = self.collection.document_vector(embedding.vector)?;
            Ok(Embedded { vector, tokens: embedding.token_count, truncated: embedding.truncated })
        });
        checked.collect()
    }
}

/// What came of a text, or why the model refuses it.
type Answer<T> = std::result::Result<T, String>;

/// What a model gave for a text.
#[derive(Clone)]
struct Embedded {
    vector: Vector,
    tokens: Option<u32>,
    truncated: bool,
}
