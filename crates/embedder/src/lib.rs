//! Text to vectors inside the process: models on candle, loaded from a folder or a Hugging Face repository.
//!
//! The way of a text: [`Source`] says where the model is, [`hub`] brings it to disk, [`folder`] reads what the
//! sentence-transformers files say about it, [`Tokenizer`] turns the text into token ids, an [`Encoder`] turns the ids into
//! a vector, and [`LocalEmbeddings`] puts the bounded queue and the threads of an [`Engine`] in front of it all, which is
//! one for every model of a process.
//!
//! ```no_run
//! use toller_embedder::{EmbedderConfig, LocalEmbeddings, Model, Overrides, Source};
//!
//! let source = Source::parse("BAAI/bge-small-en-v1.5")?;
//! let model = Model::load(&source, &Overrides::default())?;
//! let embeddings = LocalEmbeddings::start(model, EmbedderConfig::builder().build()?)?;
//! # Ok::<(), toller_embedder::Error>(())
//! ```

pub mod bench;
mod bge;
pub mod cpu;
mod cross_encoder;
mod device;
mod encoder;
pub mod engine;
mod error;
pub mod folder;
pub mod hub;
mod long_text;
mod model;
pub mod models;
mod packed;
mod pair_tokenizer;
mod pooling;
mod precision;
mod rerank_model;
mod source;
mod tokenizer;
mod weights;
mod whole_text;

pub use device::Device;
pub use encoder::{Checkpoint, EncodeError, Encoder, Sequence};
pub use engine::config::{EmbedderConfig, EmbedderConfigBuilder};
pub use engine::{Engine, LocalEmbeddings, LocalReranker};
pub use error::{Error, Result};
pub use folder::{Overrides, RerankOverrides};
pub use hub::Hub;
pub use hub::cache::CachedModel;
pub use model::Model;
pub use pair_tokenizer::{PairTokenizer, TokenizedPair, TokenizedQuery};
pub use precision::Precision;
pub use rerank_model::RerankModel;
pub use source::{Repository, Source};
pub use tokenizer::{Tokenized, Tokenizer};
