//! Embeddings that call out to another service, behind the same traits as the model in process. No candle here.
//!
//! [`pool`] spreads calls over the `Embedder` services of other Tollers, so that gateways without a model can share workers;
//! [`cached`] keeps the answers of any embeddings.

pub mod cached;
pub mod error;
pub mod pool;
mod reachable;
mod vectors;

pub use cached::{CachedEmbeddings, EmbeddingCache};
pub use error::ProviderError;
pub use pool::{
    PoolConfig, PoolConfigBuilder, PoolModel, PoolModelKind, PooledEmbeddings, PooledReranker, Resolve, SystemResolver,
    WorkerAddress, WorkerAddresses, WorkerCounts, WorkerPool,
};
pub use reachable::Reachable;
