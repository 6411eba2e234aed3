//! A model that is ready to rerank: tokenizer of pairs, cross-encoder, and what it is called.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::cross_encoder::{ClassificationHead, CrossEncoder};
use crate::encoder::Encoder;
use crate::error::Result;
use crate::folder::{RerankOverrides, RerankerFolder};
use crate::hub::Hub;
use crate::models;
use crate::pair_tokenizer::PairTokenizer;
use crate::source::Source;
use crate::weights::WeightsFile;

/// A loaded reranker. Cheap to clone: clones share the weights.
#[derive(Clone)]
pub struct RerankModel {
    pub(crate) tokenizer: Arc<PairTokenizer>,
    pub(crate) encoder: Arc<dyn Encoder>,
    name: Arc<str>,
    revision: Arc<str>,
    weights_sha256: Arc<str>,
    max_tokens: usize,
}

impl RerankModel {
    /// Loads a reranker from `source`, with the hub of the environment when it is a repository.
    ///
    /// Blocks while it downloads and reads: call it off the async threads. Memory peaks at about twice the weights.
    ///
    /// # Errors
    /// Everything in [`crate::Error`] but `Threads`; the message names the file and what to do.
    pub fn load(source: &Source, overrides: &RerankOverrides) -> Result<Self> {
        Self::load_folder(&source.folder(None)?, overrides)
    }

    /// As [`RerankModel::load`], with this hub.
    ///
    /// # Errors
    /// As [`RerankModel::load`].
    pub fn load_with(source: &Source, overrides: &RerankOverrides, hub: &Hub) -> Result<Self> {
        Self::load_folder(&source.folder(Some(hub))?, overrides)
    }

    fn load_folder(path: &Path, overrides: &RerankOverrides) -> Result<Self> {
        let folder = RerankerFolder::read(path, overrides)?;
        let tokenizer = PairTokenizer::read(&path.join("tokenizer.json"), folder.max_tokens, folder.config.vocabulary)?;
        let file = WeightsFile::read_verified(&path.join("model.safetensors"))?;
        let weights_sha256 = overrides.dtype.weights_sha256(file.sha256()).into();
        let weights = file.tensors()?;
        let head = ClassificationHead::load(&folder.config, &weights)?;
        let transformer = models::load(&folder.config, &weights, overrides.device, overrides.dtype)?;
        drop(file);
        let model = Self {
            tokenizer: Arc::new(tokenizer),
            encoder: Arc::new(CrossEncoder::new(transformer, head)),
            name: folder.name.into(),
            revision: folder.revision.into(),
            weights_sha256,
            max_tokens: folder.max_tokens,
        };
        tracing::info!(reranker = ?model, "reranker loaded");
        Ok(model)
    }

    /// The name in spans and answers: the repository, or the folder's own name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The commit hash when the model is a hub's snapshot, else empty.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// SHA-256 of the weights in lower-case hexadecimal.
    pub fn weights_sha256(&self) -> &str {
        &self.weights_sha256
    }

    /// Most tokens of a pair, special tokens included.
    pub fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// The tokenizer of pairs.
    pub fn tokenizer(&self) -> &PairTokenizer {
        &self.tokenizer
    }

    /// The cross-encoder: its vectors have one value, the raw logit.
    pub fn encoder(&self) -> &dyn Encoder {
        self.encoder.as_ref()
    }
}

impl fmt::Debug for RerankModel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RerankModel")
            .field("name", &self.name)
            .field("revision", &self.revision)
            .field("max_tokens", &self.max_tokens)
            .field("weights_sha256", &self.weights_sha256)
            .finish_non_exhaustive()
    }
}
