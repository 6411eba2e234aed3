//! Everything on disk, in this process: the engine qdrant-edge for vectors with their documents, and one transactional file for
//! the catalogue and for documents without vectors.
//!
//! Each collection has a folder, with a file that says what it holds (`description`), and is opened when it is first used
//! (`registry`, `slot`). Reads ask the engine on a bounded number of threads (`pool`). Writes wait for the collection's one
//! writer (`writer`), which acknowledges a group of them once it is durable. A third thread builds indexes beside both
//! (`indexer`), so that neither ever waits for one. Which records match, and in which order they come, is decided here and
//! not by the engine (`pushdown`, `search`).
//!
//! Many changes in one commit are written down first (`change_set`, `journal`), then made by the writer while others read
//! (`commit`, `unseen`), and finished by the next process if this one is killed.
//!
//! A disk that fills up is met before it is full: every write asks for room first (`disk_room`), reads and deletes have some set
//! aside (`reserve`).
//!
//! Where things are in the folder: `store.lock`, `records.redb`, `reserve`, and `collections/*/` with `collection.json`, `points/`,
//! and `changes` while a commit is under way.

mod catalog;
mod change_set;
mod collection_folder;
mod commit;
mod config;
#[cfg(test)]
mod cut_off;
mod database;
mod description;
mod disk_room;
mod document_store;
mod durable;
mod engine;
mod error;
mod indexer;
mod journal;
mod keywords;
mod lock;
mod open_collection;
mod point;
mod point_bytes;
mod pool;
#[cfg(test)]
mod power_loss;
mod pushdown;
mod registry;
mod reserve;
mod search;
mod shard;
mod size;
mod slot;
mod unseen;
mod vector_store;
mod writer;

use std::path::Path;
use std::sync::Arc;

pub use catalog::EdgeCatalog;
pub use config::EdgeConfig;
pub use document_store::EdgeDocumentStore;
pub use error::EdgeError;
pub use vector_store::EdgeVectorStore;

use database::Records;
use disk_room::DiskRoom;
use lock::FolderLock;
use pool::Pool;
use registry::Registry;

/// The file of the catalogue and of documents.
const RECORDS_FILE: &str = "records.redb";

/// The folder of the collections' folders.
const COLLECTIONS_FOLDER: &str = "collections";

/// The three stores of one folder. Cheap to clone; clones share their data. Its methods need a tokio runtime.
///
/// Dropping the last clone closes the collections, which blocks while what is not durable yet is made so.
#[derive(Debug, Clone)]
pub struct EdgeStore {
    /// Records by vector.
    pub vectors: Arc<EdgeVectorStore>,
    /// Documents by id.
    pub documents: Arc<EdgeDocumentStore>,
    /// Collection specs and stored retrievers.
    pub catalog: Arc<EdgeCatalog>,
}

impl EdgeStore {
    /// Opens the store in a folder, which is made where it is missing (for its owner only), with everything that was acknowledged before. One store
    /// at a time may have a folder open.
    ///
    /// Collections are opened when they are first used. Blocks; call it off the async runtime. O(number of collections).
    ///
    /// # Errors
    /// [`EdgeError`]: the folder is in use, cannot be used, is damaged, or was written by another version.
    pub fn open(folder: &Path, config: EdgeConfig) -> Result<Self, EdgeError> {
        durable::make_private_folder(folder)?;
        let lock = Arc::new(FolderLock::take(folder)?);
        let room = DiskRoom::of(folder);
        let records = Records::open(&folder.join(RECORDS_FILE), room.clone())?;
        let registry = Registry::open(folder.join(COLLECTIONS_FOLDER), config, lock, room)?;
        durable::sync_folder(folder)?;
        Ok(Self {
            vectors: Arc::new(EdgeVectorStore::new(registry, config, Pool::new())),
            documents: Arc::new(EdgeDocumentStore::new(records.clone())),
            catalog: Arc::new(EdgeCatalog::new(records)),
        })
    }
}

#[cfg(test)]
mod conformance_tests {
    use std::sync::Arc;

    use tempfile::{TempDir, tempdir};
    use toller_core::{Catalog, DocumentStore, Durability, VectorStore};

    use super::{EdgeConfig, EdgeStore};

    // A power loss cannot be had here, so that nobody need wait for the disk.
    fn open(folder: &TempDir) -> EdgeStore {
        let config = EdgeConfig { durability: Durability::Process, exact: true, ..EdgeConfig::default() };
        EdgeStore::open(folder.path(), config).unwrap()
    }

    async fn vectors(folder: &TempDir) -> Arc<dyn VectorStore> {
        open(folder).vectors
    }

    async fn documents(folder: &TempDir) -> Arc<dyn DocumentStore> {
        open(folder).documents
    }

    async fn catalog(folder: &TempDir) -> Arc<dyn Catalog> {
        open(folder).catalog
    }

    // A folder lives until the end of the statement that a case is.
    crate::vector_store_conformance!(vectors(&tempdir().unwrap()));
    crate::document_store_conformance!(documents(&tempdir().unwrap()));
    crate::catalog_conformance!(catalog(&tempdir().unwrap()));
}
