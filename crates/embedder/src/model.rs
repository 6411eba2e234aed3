//! A model that is ready to embed: tokenizer, encoder and fingerprint.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use toller_core::Fingerprint;

use crate::encoder::{Encoder, PooledEncoder};
use crate::error::Result;
use crate::folder::{ModelFolder, Overrides};
use crate::hub::Hub;
use crate::models;
use crate::source::Source;
use crate::tokenizer::Tokenizer;
use crate::weights::WeightsFile;

/// The provider that fingerprints and spans of this crate name.
pub(crate) const PROVIDER: &str = "candle";

/// A loaded model. Cheap to clone: clones share the weights.
#[derive(Clone)]
pub struct Model {
    pub(crate) tokenizer: Arc<Tokenizer>,
    pub(crate) encoder: Arc<dyn Encoder>,
    pub(crate) fingerprint: Arc<Fingerprint>,
}

impl Model {
    /// Loads a model from `source`, with the hub of the environment when it is a repository.
    ///
    /// Blocks while it downloads and reads: call it off the async threads. Memory peaks at about twice the weights.
    ///
    /// # Errors
    /// Everything in [`crate::Error`] but `Threads`; the message names the file and what to do.
    pub fn load(source: &Source, overrides: &Overrides) -> Result<Self> {
        Self::load_folder(&source.folder(None)?, overrides)
    }

    /// As [`Model::load`], with this hub.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn load_with(source: &Source, overrides: &Overrides, hub: &Hub) -> Result<Self> {
        Self::load_folder(&source.folder(Some(hub))?, overrides)
    }

    /// As [`Model::load`], but computed in candle tensors on the CPU, whatever the device: slower, and what the packed encoder
    /// is compared with.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn load_in_tensors(source: &Source, overrides: &Overrides) -> Result<Self> {
        Self::load_folder_as(&source.folder(None)?, overrides, models::load_in_tensors)
    }

    fn load_folder(path: &Path, overrides: &Overrides) -> Result<Self> {
        Self::load_folder_as(path, overrides, models::load)
    }

    fn load_folder_as(path: &Path, overrides: &Overrides, load: models::Load) -> Result<Self> {
        let folder = ModelFolder::read(path, overrides)?;
        let tokenizer = Tokenizer::read(
            &path.join("tokenizer.json"),
            folder.max_tokens,
            folder.config.vocabulary,
            folder.lower_case,
        )?;

        let file = WeightsFile::read_verified(&path.join("model.safetensors"))?;
        let weights_sha256 = overrides.dtype.weights_sha256(file.sha256());
        let transformer = load(&folder.config, &file.tensors()?, overrides.device, overrides.dtype)?;
        drop(file);

        let fingerprint = Fingerprint {
            provider: PROVIDER.to_owned(),
            model: folder.name,
            revision: folder.revision,
            dimension: u32::try_from(folder.config.hidden).unwrap_or(u32::MAX),
            pooling: Some(folder.pooling),
            normalized: folder.normalize,
            query_instruction: folder.query_instruction,
            document_instruction: folder.document_instruction,
            max_tokens: u32::try_from(folder.max_tokens).unwrap_or(u32::MAX),
            weights_sha256,
        };
        tracing::info!(%fingerprint, "model loaded");
        Ok(Self {
            tokenizer: Arc::new(tokenizer),
            encoder: Arc::new(PooledEncoder { transformer, pooling: folder.pooling, normalize: folder.normalize }),
            fingerprint: Arc::new(fingerprint),
        })
    }

    /// A model of other parts: how another encoder gets the queue of [`crate::LocalEmbeddings`].
    pub fn from_parts(tokenizer: Tokenizer, encoder: Arc<dyn Encoder>, fingerprint: Fingerprint) -> Self {
        Self { tokenizer: Arc::new(tokenizer), encoder, fingerprint: Arc::new(fingerprint) }
    }

    /// What decides the vectors of this model.
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The encoder.
    pub fn encoder(&self) -> &dyn Encoder {
        self.encoder.as_ref()
    }
}

impl fmt::Debug for Model {
    /// The fingerprint, which says it all.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Model").field(&self.fingerprint).finish()
    }
}
