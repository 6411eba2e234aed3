//! Cutting texts into chunks, where that may block, and with embeddings where the way of cutting needs them.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use toller_core::error::{Error, Result};
use toller_core::{EmbeddingRole, Embeddings, Metadata, Metric, RequestContext, Tokenizer, Vector};
use toller_ingest::{BuiltSplitter, Chunk, Error as Fault, Format, SplitterSpec, Structure, TokenLimit};

use crate::automatic;
use crate::patience::patiently;
use crate::settings::{Cut, Cutting};

/// Reason of the error when a way of cutting needs the model's tokenizer, and the model runs elsewhere.
pub const NO_TOKENIZER: &str = "NO_TOKENIZER";

/// Sentences that are embedded at once.
const SENTENCES: usize = 64;

/// Most bytes of the chunks of a document, as a multiple of its own: only chunks that repeat nearly all of the one before are over it.
const MAX_REPETITION: usize = 8;

/// Bytes of chunks that a document may have in any case.
const FREE_BYTES: usize = 1 << 20;

const TOO_REPETITIVE: &str = "its chunks would repeat it more than eight times; use a smaller chunk_overlap";

/// A text to be cut.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) text: Arc<str>,
    pub(crate) structure: Structure,
    pub(crate) format: Format,
}

/// A chunk that owns its text.
#[derive(Debug, Clone)]
pub(crate) struct OwnChunk {
    pub(crate) text: String,
    pub(crate) chars: Range<usize>,
    pub(crate) bytes: Range<usize>,
    pub(crate) metadata: Metadata,
}

/// The chunks of some pieces, aligned with them; or why one cannot be cut.
pub(crate) type Cuts = std::result::Result<Vec<Vec<OwnChunk>>, String>;

/// A way of cutting, bound to a model.
pub(crate) struct Cutter {
    cut: Cut,
    model: Arc<dyn Embeddings>,
    /// There when the way of cutting needs one.
    tokenizer: Option<Arc<dyn Tokenizer>>,
    limit: Option<TokenLimit>,
    /// What was built so far, by format where that decides.
    built: Mutex<HashMap<Option<Format>, Arc<BuiltSplitter>>>,
}

impl Cutter {
    /// # Errors
    /// `InvalidArgument` for what is out of its range; `FailedPrecondition` with [`NO_TOKENIZER`].
    pub(crate) fn new(cutting: &Cutting, model: Arc<dyn Embeddings>) -> Result<Self> {
        let needs_tokenizer = cutting.split_overlong
            || match &cutting.cut {
                Cut::Automatic { .. } => false,
                Cut::By(spec) => spec.needs_tokenizer(),
            };
        let tokenizer = if needs_tokenizer { Some(tokenizer_of(&model)?) } else { None };
        let limit = match (&tokenizer, &cutting.cut) {
            (Some(tokenizer), _) if cutting.split_overlong => Some(TokenLimit::new(Arc::clone(tokenizer))),
            // A window that is tokenised by itself may have a token more than it was cut for.
            (Some(tokenizer), Cut::By(SplitterSpec::Token(spec))) => {
                let most = spec.chunk_size.unwrap_or_else(|| tokenizer.max_text_tokens());
                Some(TokenLimit::new(Arc::clone(tokenizer)).max_tokens(most).map_err(invalid)?)
            }
            _ => None,
        };
        let cutter = Self { cut: cutting.cut.clone(), model, tokenizer, limit, built: Mutex::default() };
        // What is wrong with the settings is told before anything is read.
        cutter.splitter(Format::Text)?;
        Ok(cutter)
    }

    /// Cuts some texts. Embeds their sentences where the way of cutting needs that.
    ///
    /// # Errors
    /// What ends a run: a model that fails.
    pub(crate) async fn cut(&self, context: &RequestContext, pieces: Vec<Piece>) -> Result<Cuts> {
        let mut ready = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let splitter = self.splitter(piece.format)?;
            let sentences = match &*splitter {
                BuiltSplitter::Plain(_) => None,
                BuiltSplitter::Semantic(semantic) => {
                    let semantic = semantic.clone();
                    let text = Arc::clone(&piece.text);
                    let sentences = blocking(move || semantic.sentences(&text)).await?;
                    let vectors = self.embed(context, sentences.windows()).await?;
                    Some((sentences, vectors))
                }
            };
            ready.push((piece, splitter, sentences));
        }
        let limit = self.limit.clone();
        let text_splitter = match (&self.cut, self.splitter(Format::Text)?.as_ref()) {
            (Cut::Automatic { .. }, BuiltSplitter::Plain(plain)) => Some(Arc::clone(plain)),
            _ => None,
        };
        let cut = blocking(move || {
            let mut cuts = Vec::with_capacity(ready.len());
            let bytes: usize = ready.iter().map(|(piece, ..)| piece.text.len()).sum();
            let mut bytes_left = bytes.saturating_mul(MAX_REPETITION).saturating_add(FREE_BYTES);
            for (piece, splitter, sentences) in ready {
                let chunks = match (&*splitter, sentences) {
                    (BuiltSplitter::Plain(plain), _) => match plain.split_structured(&piece.text, &piece.structure) {
                        // A part of JSON, or JSON that is nested too deep, is a text like any other.
                        Err(Fault::InvalidJson(_)) if let Some(text) = &text_splitter => {
                            text.split_structured(&piece.text, &piece.structure)
                        }
                        other => other,
                    },
                    (BuiltSplitter::Semantic(semantic), Some((sentences, vectors))) => {
                        semantic.split(&piece.text, &sentences, &vectors)
                    }
                    (BuiltSplitter::Semantic(_), None) => Ok(Vec::new()),
                };
                let limited = chunks.and_then(|chunks| match &limit {
                    Some(limit) => limit.apply(chunks),
                    None => Ok(chunks),
                });
                let chunks = limited.map_err(|fault| fault.to_string())?;
                let of_chunks: usize = chunks.iter().map(|chunk| chunk.text.len()).sum();
                bytes_left = match bytes_left.checked_sub(of_chunks) {
                    Some(left) => left,
                    None => return Err(TOO_REPETITIVE.to_owned()),
                };
                cuts.push(chunks.into_iter().map(owned).collect());
            }
            Ok(cuts)
        });
        cut.await
    }

    fn splitter(&self, format: Format) -> Result<Arc<BuiltSplitter>> {
        let key = match self.cut {
            Cut::Automatic { .. } => Some(format),
            Cut::By(_) => None,
        };
        if let Some(built) = self.built.lock().get(&key) {
            return Ok(Arc::clone(built));
        }
        let spec = match &self.cut {
            Cut::Automatic { chunk_size, chunk_overlap } => automatic::spec_for(format, *chunk_size, *chunk_overlap),
            Cut::By(spec) => spec.clone(),
        };
        let built = Arc::new(spec.build(self.tokenizer.clone()).map_err(invalid)?);
        self.built.lock().insert(key, Arc::clone(&built));
        Ok(built)
    }

    async fn embed(&self, context: &RequestContext, windows: &[String]) -> Result<Vec<Vector>> {
        let mut vectors = Vec::with_capacity(windows.len());
        for some in windows.chunks(SENTENCES) {
            let ask = || self.model.embed(context, EmbeddingRole::Document, some.to_vec());
            for embedding in patiently(context, ask).await? {
                let vector = Vector::new(embedding.vector, Metric::Cosine);
                vectors.push(vector.map_err(|fault| Error::Internal(format!("the embedding of a sentence {fault}")))?);
            }
        }
        Ok(vectors)
    }
}

fn owned(chunk: Chunk<'_>) -> OwnChunk {
    OwnChunk { text: chunk.text.to_owned(), chars: chunk.chars, bytes: chunk.bytes, metadata: chunk.metadata }
}

/// A fault of settings, in the field that it names.
fn invalid(fault: Fault) -> Error {
    let text = fault.to_string();
    match text.split_once(": ") {
        Some((field, description)) => Error::invalid(field, description),
        None => Error::invalid("splitter", text),
    }
}

fn tokenizer_of(model: &Arc<dyn Embeddings>) -> Result<Arc<dyn Tokenizer>> {
    model.tokenizer().ok_or_else(|| Error::FailedPrecondition {
        reason: NO_TOKENIZER,
        message: format!(
            "cutting by tokens needs the tokenizer of {}, which runs elsewhere; use a splitter that counts characters, or run the model in this server",
            model.fingerprint().model
        ),
    })
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|fault| Error::Internal(format!("cutting a document ended: {fault}")))
}
