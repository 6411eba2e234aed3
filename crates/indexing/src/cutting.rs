//! Cutting texts into chunks, where that may block, and with embeddings where the way of cutting needs them.

use std::ops::Range;
use std::sync::Arc;

use toller_core::error::{Error, Result};
use toller_core::{EmbeddingRole, Embeddings, Metadata, RequestContext, Tokenizer};
use toller_ingest::{BuiltSplitter, Chunk, Error as Fault, Format, Splitter, Structure};

use crate::automatic;
use crate::settings::{Cut, Cutting};

/// Reason of the error when a way of cutting needs the model's tokenizer, and the model runs elsewhere.
pub const NO_TOKENIZER: &str = "NO_TOKENIZER";

/// Sentences that are embedded at once.
const SENTENCES: usize = 64;

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
