//! From documents to staged records: they are embedded in batches, some at a time, while the next ones are read and cut.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use toller_core::error::{Error, Result};
use toller_core::{Document, EmbeddingRole, Record, RequestContext, Vector};
use toller_store::CollectionHandle;
use toller_store::staging::Staging;
use tracing::{Instrument, warn};

use crate::progress::Board;

/// Most texts of one call of the model: many forward passes of a small model, and few enough that little is embedded again after a crash.
const BATCH_TEXTS: usize = 64;

/// Most bytes of one call; one longer text goes alone. About 500 tokens for each text of a full batch.
const BATCH_BYTES: usize = 128 << 10;

/// Calls on their way at a time: while one is staged, the model has the next two, and orders the texts of both by length.
const IN_FLIGHT: usize = 4;

/// Pause before a call is tried again where nobody said how long to wait; twice as long each time.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// How long a model may be out of reach before the run ends.
const GIVE_UP_AFTER: Duration = Duration::from_secs(120);

/// Documents on their way into the staging room.
pub(crate) struct Pipeline {
    line: Line,
    board: Board,
    batch: Vec<Waiting>,
    batch_bytes: usize,
    in_flight: JoinSet<Result<()>>,
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
        Self { line, board, batch: Vec::new(), batch_bytes: 0, in_flight: JoinSet::new() }
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

    /// Waits until everything is staged.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub(crate) async fn finish(&mut self) -> Result<()> {
        self.send().await?;
        while let Some(done) = self.in_flight.join_next().await {
            settled(done)?;
        }
        Ok(())
    }

    async fn send(&mut self) -> Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        while self.in_flight.len() >= IN_FLIGHT {
            if let Some(done) = self.in_flight.join_next().await {
                settled(done)?;
            }
        }
        let (line, board, batch) = (self.line.clone(), self.board.clone(), std::mem::take(&mut self.batch));
        self.batch_bytes = 0;
        self.in_flight.spawn(async move { line.stage(batch, &board).await }.in_current_span());
        Ok(())
    }
}

fn settled(done: std::result::Result<Result<()>, tokio::task::JoinError>) -> Result<()> {
    done.unwrap_or_else(|fault| Err(Error::Internal(format!("a batch of an index run ended: {fault}"))))
}

impl Line {
    async fn stage(&self, batch: Vec<Waiting>, board: &Board) -> Result<()> {
        let vectors = self.vectors(&batch, board).await?;
        let records = batch.into_iter().zip(vectors).map(|(waiting, vector)| Record::new(waiting.document, vector));
        self.staging.put(&self.context, records.collect()).await
    }

    /// A vector for each; equal texts are embedded once.
    async fn vectors(&self, batch: &[Waiting], board: &Board) -> Result<Vec<Vector>> {
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
        let embeddings = if texts.is_empty() { Vec::new() } else { self.embed(texts).await? };
        board.count(|progress| {
            progress.embedded += place_of.iter().flatten().count() as u64;
            progress.tokens += embeddings.iter().filter_map(|embedded| embedded.tokens).map(u64::from).sum::<u64>();
            let truncated = place_of.iter().flatten().filter_map(|place| embeddings.get(*place));
            progress.truncated += truncated.filter(|embedded| embedded.truncated).count() as u64;
        });
        let vectors = batch.iter().zip(place_of).map(|(waiting, place)| {
            let embedded = place.and_then(|place| embeddings.get(place)).map(|embedded| embedded.vector.clone());
            let vector = waiting.vector.clone().or(embedded);
            vector.ok_or_else(|| Error::Internal(format!("\"{}\" has no vector", waiting.document.id)))
        });
        vectors.collect()
    }

    /// Embeds texts; waits for a model that is busy or out of reach.
    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Embedded>> {
        let mut wait = FIRST_WAIT;
        let mut out_of_reach_since = None;
        loop {
            let model = self.collection.embeddings()?;
            let fault = match model.embed(&self.context, EmbeddingRole::Document, texts.clone()).await {
                Ok(embeddings) if embeddings.len() == texts.len() => {
                    let checked = embeddings.into_iter().map(|embedding| {
                        let vector = self.collection.document_vector(embedding.vector)?;
                        Ok(Embedded { vector, tokens: embedding.token_count, truncated: embedding.truncated })
                    });
                    return checked.collect();
                }
                Ok(embeddings) => {
                    let (got, wanted) = (embeddings.len(), texts.len());
                    return Err(Error::Internal(format!("the model gave {got} vectors for {wanted} texts")));
                }
                Err(fault) => fault,
            };
            let told = match &fault {
                Error::ResourceExhausted { retry_after, .. } => retry_after.unwrap_or(wait),
                Error::Unavailable(_)
                    if out_of_reach_since.get_or_insert_with(Instant::now).elapsed() < GIVE_UP_AFTER =>
                {
                    wait
                }
                _ => return Err(fault),
            };
            let pause = told.max(wait).min(LONGEST_WAIT);
            self.context.check("while an index run waited for its model")?;
            warn!(%fault, ?pause, "an index run waits for its model");
            tokio::time::sleep(pause).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }
}

/// What a model gave for a text.
struct Embedded {
    vector: Vector,
    tokens: Option<u32>,
    truncated: bool,
}
