//! Embeddings and language models that call out to another service, behind the same traits as the model in process. No candle here.
//!
//! [`pool`] spreads calls over the `Embedder` services of other Tollers, so that gateways without a model can share workers;
//! [`openai`] asks services that speak OpenAI's protocol, for embeddings and for answers, and [`tei`] text-embeddings-inference;
//! [`cached`] keeps the answers of any embeddings.

mod budget;
pub mod cached;
pub mod error;
pub mod openai;
pub mod pool;
mod reachable;
mod retry;
pub mod tei;
mod vectors;

pub use cached::{CachedEmbeddings, EmbeddingCache};
pub use error::ProviderError;
pub use openai::{ChatConfig, EncodingFormat, OpenAiChat, OpenAiConfig, OpenAiEmbeddings};
pub use pool::{
    PoolConfig, PoolConfigBuilder, PoolModel, PoolModelKind, PooledEmbeddings, PooledReranker, Resolve, SystemResolver,
    WorkerAddress, WorkerAddresses, WorkerCounts, WorkerPool,
};
pub use reachable::Reachable;
pub use tei::{TeiConfig, TeiEmbeddings, TeiReranker};
