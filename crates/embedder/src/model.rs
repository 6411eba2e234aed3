//! A model that is ready to embed: tokenizer, encoder and fingerprint.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use toller_core::Fingerprint;

use crate::encoder::{Encoder, PooledEncoder};
use crate::error::{Error, Result};
use crate::folder::bert_config::BertConfig;
use crate::folder::{ModelFolder, Overrides};
use crate::hub::{Hub, cache};
use crate::models::Transformer;
use crate::models::bert::Bert;
use crate::packed::PackedTransformer;
use crate::source::Source;
use crate::tokenizer::Tokenizer;
use crate::weights::{Weights, WeightsFile};

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
    /// Everything in [`Error`] but `Threads`; the message names the file and what to do.
    pub fn load(source: &Source, overrides: &Overrides) -> Result<Self> {
        match source {
            Source::Folder(path) => Self::load_folder(path, overrides),
            Source::Hub(_) => Self::load_with(source, overrides, &Hub::from_env()?),
        }
    }

    /// As [`Model::load`], with this hub.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn load_with(source: &Source, overrides: &Overrides, hub: &Hub) -> Result<Self> {
        match source {
            Source::Folder(path) => Self::load_folder(path, overrides),
            Source::Hub(repository) => Self::load_folder(&hub.snapshot(repository)?.folder, overrides),
        }
    }

    /// As [`Model::load`], computed in candle tensors instead of by the packed encoder: what the packed encoder is compared
    /// with.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn load_in_tensors(source: &Source, overrides: &Overrides) -> Result<Self> {
        match source {
            Source::Folder(path) => Self::load_folder_as(path, overrides, tensors),
            Source::Hub(repository) => {
                Self::load_folder_as(&Hub::from_env()?.snapshot(repository)?.folder, overrides, tensors)
            }
        }
    }

    fn load_folder(path: &Path, overrides: &Overrides) -> Result<Self> {
        Self::load_folder_as(path, overrides, packed)
    }

    fn load_folder_as(path: &Path, overrides: &Overrides, make: Make) -> Result<Self> {
        let folder = ModelFolder::read(path, overrides)?;
        let tokenizer = Tokenizer::read(
            &path.join("tokenizer.json"),
            folder.max_tokens,
            folder.config.vocabulary,
            folder.lower_case,
        )?;

        let weights_path = path.join("model.safetensors");
        let file = WeightsFile::read(&weights_path)?;
        let weights_sha256 = file.sha256();
        if let Some(promised) = cache::promised_sha256(&weights_path)
            && promised != weights_sha256
        {
            let problem =
                "does not have the content that the hub promised: delete the file and pull the model again".to_owned();
            return Err(Error::Weights { path: weights_path, problem });
        }
        let transformer = make(&folder.config, &file.tensors()?)?;
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

/// Makes a transformer from weights.
type Make = fn(&BertConfig, &Weights<'_>) -> Result<Box<dyn Transformer>>;

fn packed(config: &BertConfig, weights: &Weights<'_>) -> Result<Box<dyn Transformer>> {
    Ok(Box::new(PackedTransformer::load(config, weights)?))
}

fn tensors(config: &BertConfig, weights: &Weights<'_>) -> Result<Box<dyn Transformer>> {
    Ok(Box::new(Bert::load(config, weights)?))
}

impl fmt::Debug for Model {
    /// The fingerprint, which says it all.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Model").field(&self.fingerprint).finish()
    }
}
