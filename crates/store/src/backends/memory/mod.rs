//! Everything in RAM: exact search, documents and a catalogue, with a dump to one file and back.
//!
//! Vectors lie in rows of contiguous `f32` in copy-on-write blocks (`rows`), so that a search works on a snapshot and holds
//! no lock: it reads one consistent state, however long it takes. The lock of a collection is held by a reader while it
//! copies a pointer or looks up ids, and by a writer while it copies its batch into place; neither ever waits for a scan.
//! The price is that a write while a scan runs copies the blocks that it touches (512 KiB each), once per block and scan.
//!
//! Vectors of named spaces lie in columns of their own in the same blocks (`spaces`), as long as those of the main one.
//!
//! A collection with keyword parameters has an inverted index beside its rows (`postings`), changed under the same
//! lock. A keyword search takes the lists of its terms along with the snapshot, and lists are copied on write as blocks
//! are.
//!
//! Work that is longer than a fraction of a millisecond runs off the threads of the async runtime (`offload`), and looks
//! at the caller's deadline and cancellation once per block.

mod block;
mod catalog;
mod document_store;
mod dump;
mod dump_format;
mod kernel;
mod keyword_scan;
mod langchain;
mod load;
mod offload;
mod posting_list;
mod postings;
mod rows;
mod scan;
mod spaces;
mod table;
mod top_k;
mod vector_store;

use std::path::Path;
use std::sync::Arc;

pub use catalog::MemoryCatalog;
pub use document_store::MemoryDocumentStore;
pub use dump_format::DumpCounts;
pub use langchain::read_langchain_dump;
pub use vector_store::MemoryVectorStore;

use crate::error::FileError;

/// The three memory stores of one process, which are dumped and loaded together. Cheap to clone; clones share their data.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    /// Records by vector.
    pub vectors: Arc<MemoryVectorStore>,
    /// Documents by id.
    pub documents: Arc<MemoryDocumentStore>,
    /// Collection specs and stored retrievers.
    pub catalog: Arc<MemoryCatalog>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes everything into the file at `path`, replacing it; afterwards either the old file or the whole new one is
    /// there, also after a crash or power loss in between. The file can be read by its owner only.
    ///
    /// What it holds is one state of the store: writes that are made meanwhile are not in it, and do not wait for it.
    /// Blocks; call it off the async runtime. O(size of the data) time; memory for one line, besides the blocks that
    /// writes replace meanwhile.
    ///
    /// # Errors
    /// [`FileError::Io`]; then the old file is untouched.
    pub fn dump(&self, path: &Path) -> Result<DumpCounts, FileError> {
        dump::dump(self, path)
    }

    /// Removes what dumps into `folder` left when their process was killed, and returns how many files that were. Nobody may
    /// dump into the folder meanwhile.
    ///
    /// # Errors
    /// [`FileError::Io`].
    pub fn remove_unfinished_dumps(folder: &Path) -> Result<u64, FileError> {
        dump::remove_unfinished(folder)
    }

    /// Reads a file that [`Self::dump`] wrote, all of it or nothing.
    ///
    /// Blocks; call it off the async runtime. O(size of the file) time; memory for the data and one line.
    ///
    /// # Errors
    /// [`FileError`], with the line at fault.
    pub fn load(path: &Path) -> Result<(Self, DumpCounts), FileError> {
        load::load(path)
    }
}

#[cfg(test)]
mod conformance_tests {
    use std::sync::Arc;

    use toller_core::{Catalog, DocumentStore, VectorStore};

    use super::{MemoryCatalog, MemoryDocumentStore, MemoryVectorStore};

    crate::vector_store_conformance!(async { Arc::new(MemoryVectorStore::new()) as Arc<dyn VectorStore> });
    crate::document_store_conformance!(async { Arc::new(MemoryDocumentStore::new()) as Arc<dyn DocumentStore> });
    crate::catalog_conformance!(async { Arc::new(MemoryCatalog::new()) as Arc<dyn Catalog> });
}
