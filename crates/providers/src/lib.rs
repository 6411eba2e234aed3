//! Embeddings that call out to another service, behind the same trait as the model in process. No candle here.
//!
//! [`toller`] calls the `Embedder` service of another Toller, so that gateways without a model can share one.

pub mod cached;
pub mod error;
pub mod toller;

pub use cached::{CachedEmbeddings, EmbeddingCache};
pub use error::ProviderError;
pub use toller::{TollerEmbeddings, TollerEmbeddingsConfig};
