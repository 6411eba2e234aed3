//! Sections `embedding` and `rerank`: the default models and the named ones.

use std::fmt;

use serde::{Deserialize, Serialize};
use toller_core::fingerprint::Pooling;

/// Who computes vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmbeddingProvider {
    /// A model in this process.
    Candle,
    /// Embedding workers, or another Toller.
    Toller,
    /// A service that speaks OpenAI's protocol.
    Openai,
    /// A text-embeddings-inference server, over gRPC.
    Tei,
    /// Nobody: only collections with client vectors.
    None,
}

impl EmbeddingProvider {
    /// Its name in the configuration.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Candle => "candle",
            Self::Toller => "toller",
            Self::Openai => "openai",
            Self::Tei => "tei",
            Self::None => "none",
        }
    }
}

/// Who reranks where a request names no model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RerankProvider {
    /// A model in this process; none where no model is named.
    #[default]
    Candle,
    /// A text-embeddings-inference server, over gRPC.
    Tei,
}

/// What computes the models in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Device {
    /// The processor.
    Cpu,
    /// The first NVIDIA card.
    Cuda,
    /// Apple's graphics processor.
    Metal,
}

impl From<Device> for toller_embedder::Device {
    fn from(device: Device) -> Self {
        match device {
            Device::Cpu => Self::Cpu,
            Device::Cuda => Self::Cuda,
            Device::Metal => Self::Metal,
        }
    }
}

/// In how many bits the weights of a model in this process are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dtype {
    /// 32 bits.
    #[default]
    F32,
    /// 8 bits: faster, and a little less exact.
    Int8,
}

impl From<Dtype> for toller_embedder::Precision {
    fn from(dtype: Dtype) -> Self {
        match dtype {
            Dtype::F32 => Self::F32,
            Dtype::Int8 => Self::Int8,
        }
    }
}

/// Section `embedding`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EmbeddingConfig {
    /// Who computes vectors.
    pub provider: EmbeddingProvider,
    /// A hub repository or a local folder.
    pub model: String,
    /// Commit, tag or branch of the hub repository.
    pub revision: Option<String>,
    /// Put before every query, instead of the model's own.
    pub query_instruction: Option<String>,
    /// Put before every document, instead of the model's own.
    pub document_instruction: Option<String>,
    /// Pooling, instead of the model's own.
    pub pooling: Option<Pooling>,
    /// Scale vectors to unit length, instead of what the model's files say.
    pub normalize: Option<bool>,
    /// Most tokens of a text, special tokens included, instead of the model's own.
    pub max_tokens: Option<u32>,
    /// In how many bits the weights of its linear layers are kept.
    pub dtype: Dtype,
    /// What computes all models in this process.
    pub device: Device,
    /// Batches that run at the same time.
    pub workers: usize,
    /// Threads of all workers together; 0 is the CPU quota.
    pub threads: usize,
    /// Most tokens that wait.
    pub queue_tokens: usize,
    /// Most tokens of a forward pass.
    pub batch_tokens: usize,
    /// Most bytes of vectors that are kept to be given again; 0 keeps none.
    pub cache_bytes: u64,
    /// Shorter vectors, of a service that can make them.
    pub dimensions: Option<u32>,
    /// Address of the service that computes vectors, such as `http://embedder:7700`.
    pub address: Option<String>,
    /// Its API key.
    pub api_key: Option<String>,
    /// Models beside the default one.
    pub models: Vec<NamedModelConfig>,
}

impl Default for EmbeddingConfig {
    fn default() -> Self {
        Self {
            provider: EmbeddingProvider::Candle,
            model: "BAAI/bge-small-en-v1.5".to_owned(),
            revision: None,
            query_instruction: None,
            document_instruction: None,
            pooling: None,
            normalize: None,
            max_tokens: None,
            dtype: Dtype::F32,
            device: Device::Cpu,
            workers: 1,
            threads: 0,
            queue_tokens: 262_144,
            batch_tokens: 4096,
            cache_bytes: 64 << 20,
            dimensions: None,
            address: None,
            api_key: None,
            models: Vec::new(),
        }
    }
}

impl fmt::Debug for EmbeddingConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("EmbeddingConfig")
            .field("provider", &self.provider)
            .field("model", &self.model)
            .field("revision", &self.revision)
            .field("models", &self.models)
            .field("address", &self.address)
            .field("api_key", &self.api_key.as_ref().map(|_| "(hidden)"))
            .finish_non_exhaustive()
    }
}

/// An embedding model beside the default one: an entry of `embedding.models`. It shares threads and queue with the others.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedModelConfig {
    /// The name that requests use.
    pub name: String,
    /// A hub repository or a local folder.
    pub model: String,
    /// Commit, tag or branch of the hub repository.
    #[serde(default)]
    pub revision: Option<String>,
    /// Put before every query, instead of the model's own.
    #[serde(default)]
    pub query_instruction: Option<String>,
    /// Put before every document, instead of the model's own.
    #[serde(default)]
    pub document_instruction: Option<String>,
    /// Pooling, instead of the model's own.
    #[serde(default)]
    pub pooling: Option<Pooling>,
    /// Scale vectors to unit length, instead of what the model's files say.
    #[serde(default)]
    pub normalize: Option<bool>,
    /// Most tokens of a text, special tokens included, instead of the model's own.
    #[serde(default)]
    pub max_tokens: Option<u32>,
    /// In how many bits the weights of its linear layers are kept.
    #[serde(default)]
    pub dtype: Dtype,
}

/// Section `rerank`.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RerankConfig {
    /// Who reranks.
    pub provider: RerankProvider,
    /// The default reranker: a hub repository or a local folder; none for no default.
    pub model: Option<String>,
    /// Commit, tag or branch of the hub repository.
    pub revision: Option<String>,
    /// Most tokens of a pair, special tokens included, instead of the model's own.
    pub max_tokens: Option<u32>,
    /// In how many bits the weights of its linear layers are kept.
    pub dtype: Dtype,
    /// Address of the text-embeddings-inference server.
    pub address: Option<String>,
    /// Its API key.
    pub api_key: Option<String>,
    /// Rerankers beside the default one.
    pub models: Vec<NamedRerankerConfig>,
}

impl fmt::Debug for RerankConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RerankConfig")
            .field("provider", &self.provider)
            .field("model", &self.model)
            .field("models", &self.models)
            .field("address", &self.address)
            .field("api_key", &self.api_key.as_ref().map(|_| "(hidden)"))
            .finish_non_exhaustive()
    }
}

/// A reranker beside the default one: an entry of `rerank.models`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedRerankerConfig {
    /// The name that requests use.
    pub name: String,
    /// A hub repository or a local folder.
    pub model: String,
    /// Commit, tag or branch of the hub repository.
    #[serde(default)]
    pub revision: Option<String>,
    /// Most tokens of a pair, special tokens included, instead of the model's own.
    #[serde(default)]
    pub max_tokens: Option<u32>,
    /// In how many bits the weights of its linear layers are kept.
    #[serde(default)]
    pub dtype: Dtype,
}

impl EmbeddingConfig {
    /// Does a model of this section run in this process?
    pub(crate) fn has_local_model(&self) -> bool {
        self.provider == EmbeddingProvider::Candle || !self.models.is_empty()
    }
}

impl RerankConfig {
    /// Does a reranker run in this process?
    pub(crate) fn has_local_model(&self) -> bool {
        self.model.is_some() || !self.models.is_empty()
    }
}
