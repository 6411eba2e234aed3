//! What a run is asked to do.

use std::time::Duration;

use serde::Serialize;
use toller_ingest::{DEFAULT_MAX_TEXT_BYTES, HashAlgorithm, LoadOptions, SplitterSpec, default_chunk_overlap};
use toller_store::RunConflict;

use crate::generated::GeneratedTexts;

/// Part of every hash; changed when the same documents are to be written in another way by a new version of this service.
const FORMAT: u32 = 2;

/// Which old documents a run removes at its commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cleanup {
    /// None but sources that are said to be gone.
    #[default]
    None,
    /// Older versions of the sources that came.
    Incremental,
    /// All that did not come.
    Full,
}

/// How documents are cut.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// By what the document is: code by its syntax, JSON by its values, all else by the joints of the text.
    Automatic {
        /// Most code points of a chunk; at least 1.
        chunk_size: usize,
        /// Most code points that a chunk repeats of the one before; at most the chunk size. None for the default.
        chunk_overlap: Option<usize>,
    },
    /// In this way.
    By(SplitterSpec),
}

/// How documents are cut, and what becomes of chunks that are too long.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cutting {
    /// The way.
    pub cut: Cut,
    /// Are chunks over the model's longest input split further, by tokens?
    pub split_overlong: bool,
}

impl Cutting {
    /// With every default filled in: what cuts alike is equal, whoever says it.
    fn resolved(&self) -> Self {
        let cut = match &self.cut {
            Cut::By(spec) => Cut::By(spec.resolved()),
            Cut::Automatic { chunk_size, chunk_overlap } => Cut::Automatic {
                chunk_size: *chunk_size,
                chunk_overlap: Some(chunk_overlap.unwrap_or_else(|| default_chunk_overlap(*chunk_size))),
            },
        };
        Self { cut, split_overlong: self.split_overlong }
    }
}

/// What a run is asked to do.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexSettings {
    /// Which old documents are removed.
    pub cleanup: Cleanup,
    /// Is nothing written, and only told what would be? No language model is asked, and nothing embedded but where a way of cutting needs it.
    pub dry_run: bool,
    /// May a full run without documents remove everything?
    pub allow_empty_full: bool,
    /// Is what did not change embedded and written, too?
    pub force: bool,
    /// What if another run is under way?
    pub conflict: RunConflict,
    /// How documents, or their parents, are cut into chunks.
    pub cutting: Cutting,
    /// How documents are cut into parents; none for no parents.
    pub parents: Option<Parents>,
    /// How files are read.
    pub load: LoadOptions,
    /// What a language model writes about documents.
    pub generated: Vec<GeneratedTexts>,
    /// How LangChain's id of a document is made, for the metadata; none for no such id.
    pub document_key: Option<HashAlgorithm>,
    /// How long parents stay whose children are gone; [`PARENT_GRACE`](crate::parents::PARENT_GRACE) where nothing else is wanted.
    pub parent_grace: Duration,
    /// Most bytes of a document.
    pub max_document_bytes: usize,
    /// Most bytes of a chunk, and of a parent.
    pub max_text_bytes: usize,
    /// Most bytes of the metadata of a chunk, what its format and splitter say of it included.
    pub max_metadata_bytes: usize,
}

/// The parents of chunks.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Parents {
    /// Whole documents.
    Documents,
    /// Parts of them.
    Parts(Cutting),
}

impl IndexSettings {
    /// What decides how a document is written, besides the document: two runs with the same digest, and the same model, write the
    /// same records.
    pub(crate) fn digest(&self) -> Result<String, serde_json::Error> {
        #[derive(Serialize)]
        struct Decides<'a> {
            format: u32,
            cutting: Cutting,
            parents: Option<Parents>,
            load: LoadOptions,
            generated: &'a [GeneratedTexts],
            document_key: Option<HashAlgorithm>,
        }

        serde_json::to_string(&Decides {
            format: FORMAT,
            cutting: self.cutting.resolved(),
            parents: self.parents.as_ref().map(|parents| match parents {
                Parents::Documents => Parents::Documents,
                Parents::Parts(cutting) => Parents::Parts(cutting.resolved()),
            }),
            // How much of a document is admitted does not decide how it is written.
            load: LoadOptions { max_text_bytes: DEFAULT_MAX_TEXT_BYTES, ..self.load.clone() },
            generated: &self.generated,
            document_key: self.document_key,
        })
    }
}
