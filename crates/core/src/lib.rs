//! The map of Toller: plain types, the rules that every backend shares, and the traits of the four layers
//! (`Embeddings` → `VectorStore` → `Retriever` → composed `Retriever`).
//!
//! Nothing here does I/O, needs an async runtime, or knows protobuf. The rules are pure functions with their source
//! beside them: filters ([`filter`]), metrics ([`metric`]), relevance ([`relevance`]) and maximal marginal relevance
//! ([`mmr`]).

pub mod catalog;
pub mod collection;
pub mod collection_name;
pub mod context;
pub mod document;
pub mod document_store;
pub mod embeddings;
pub mod error;
pub mod filter;
pub mod fingerprint;
pub mod keyword;
pub mod language_model;
pub mod metric;
pub mod mmr;
pub mod models;
pub mod name;
pub mod operation;
pub mod quantization;
pub mod relevance;
pub mod reranker;
pub mod retriever;
pub mod score;
pub mod tokenizer;
pub mod value;
pub mod vector;
pub mod vector_space;
pub mod vector_store;

pub use catalog::Catalog;
pub use collection::{CollectionName, CollectionSpec, Durability};
pub use context::{Principal, RequestContext, Role, Tenant};
pub use document::{Document, DocumentId, Record};
pub use document_store::DocumentStore;
pub use embeddings::{EmbeddingRole, Embeddings};
pub use error::{Error, FieldViolation, Result};
pub use filter::Filter;
pub use fingerprint::Fingerprint;
pub use keyword::{KeywordParams, KeywordSearch, Language};
pub use language_model::{ChatMessage, ChatRole, LanguageModel};
pub use metric::Metric;
pub use models::Models;
pub use operation::{Operation, OperationKind, OperationState};
pub use quantization::{Quantization, QuantizationKind};
pub use relevance::RelevanceFunction;
pub use reranker::{RerankScore, Reranker};
pub use retriever::{Query, Retriever};
pub use score::{MatchedChild, ScoredDocument, SourceScore, TextSpan};
pub use tokenizer::Tokenizer;
pub use value::{Metadata, Value};
pub use vector::Vector;
pub use vector_space::{NamedVectors, VectorName, VectorSpace};
pub use vector_store::VectorStore;
