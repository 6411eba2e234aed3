//! Where records live, and the layer where text comes in.
//!
//! [`backends`] keep vectors and documents behind the traits of `toller-core`. [`Collections`] makes and finds collections,
//! and gives a [`CollectionHandle`] that turns text into vectors on the way in and queries into vectors on the way out,
//! guarded by the collection's fingerprint ([`guard`]). `conformance` (a cargo feature of that name) is the suite that
//! every backend passes: the definition of right.

pub mod backends;
pub mod collections;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod embedding;
pub mod error;
mod fence;
mod foundation;
pub mod guard;
pub mod handle;
pub mod keyword;
mod lifecycle;
mod made_id;
pub mod new_document;
pub mod operations;
mod pulse;
mod record;
pub mod reembed;
pub mod restore;
mod run_turn;
pub mod staging;
mod sweep_mark;
mod targets;

#[cfg(feature = "edge")]
pub use backends::edge::{EdgeConfig, EdgeError, EdgeStore};
pub use backends::memory::MemoryStore;
#[cfg(feature = "qdrant")]
pub use backends::qdrant::{QdrantConfig, QdrantError, QdrantStore};
pub use collections::{CollectionOptions, CollectionStats, CollectionUpdate, Collections, NewCollection, VectorSource};
pub use error::FileError;
pub use handle::{AddOptions, Added, CollectionHandle, TextUsage};
pub use new_document::NewDocument;
pub use operations::Operations;
pub use restore::{EncodedRetriever, Restore, RestoredNames, Restores};
pub use run_turn::{RunConflict, RunTurn};
pub use staging::Staging;
pub use sweep_mark::SweepMark;
