//! The collections: one shard of the engine each, in a folder of the collection's name.

use std::collections::HashMap;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use qdrant_edge as engine;
use tonic::Status;

/// Bytes of a file of the engine's log, which are taken from the disk at once.
const LOG_FILE_BYTES: usize = 4 << 20;

/// All collections.
#[derive(Debug)]
pub(crate) struct Shards {
    folder: PathBuf,
    shards: RwLock<HashMap<String, Arc<engine::EdgeShard>>>,
}

impl Shards {
    /// Those in a folder.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let mut shards = HashMap::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let shard = engine::EdgeShard::load(&entry.path(), None).map_err(io::Error::other)?;
            shards.insert(entry.file_name().to_string_lossy().into_owned(), Arc::new(shard));
        }
        Ok(Self { folder: folder.to_owned(), shards: RwLock::new(shards) })
    }

    /// A collection that is there.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<engine::EdgeShard>, Status> {
        let found = self.shards.read().get(name).cloned();
        found.ok_or_else(|| Status::not_found(format!("Not found: Collection `{name}` doesn't exist!")))
    }

    /// Is there a collection?
    pub(crate) fn has(&self, name: &str) -> bool {
        self.shards.read().contains_key(name)
    }

    /// The names of all.
    pub(crate) fn names(&self) -> Vec<String> {
        self.shards.read().keys().cloned().collect()
    }

    /// Makes a collection.
    pub(crate) fn create(
        &self,
        name: &str,
        dense: Vec<(String, engine::EdgeVectorParams)>,
        sparse: Vec<String>,
    ) -> Result<(), Status> {
        let mut shards = self.shards.write();
        if shards.contains_key(name) {
            return Err(Status::already_exists(format!("Wrong input: Collection `{name}` already exists!")));
        }
        let log = engine::WalOptions {
            segment_capacity: LOG_FILE_BYTES,
            segment_queue_len: 0,
            retain_closed: NonZeroUsize::MIN,
        };
        let mut config = engine::EdgeConfig::builder().wal_options(log);
        for (name, params) in dense {
            config = config.vector(name, params);
        }
        for name in sparse {
            config = config.sparse_vector(name, engine::EdgeSparseVectorParams::builder().build());
        }
        let folder = self.folder.join(name);
        std::fs::create_dir_all(&folder).map_err(|fault| Status::internal(fault.to_string()))?;
        let shard = engine::EdgeShard::new(&folder, config.build()).map_err(|fault| refused(&fault))?;
        shards.insert(name.to_owned(), Arc::new(shard));
        Ok(())
    }

    /// Removes a collection; was it there?
    pub(crate) fn delete(&self, name: &str) -> Result<bool, Status> {
        let removed = self.shards.write().remove(name);
        let was_there = removed.is_some();
        drop(removed);
        if was_there {
            std::fs::remove_dir_all(self.folder.join(name)).map_err(|fault| Status::internal(fault.to_string()))?;
        }
        Ok(was_there)
    }
}

/// An error of the engine as the server tells it.
pub(crate) fn refused(fault: &engine::OperationError) -> Status {
    use engine::OperationError as Fault;
    match fault {
        Fault::WrongVectorDimension { .. }
        | Fault::VectorNameNotExists { .. }
        | Fault::ValidationError { .. }
        | Fault::WrongSparse
        | Fault::WrongMulti
        | Fault::MissingRangeIndexForOrderBy { .. }
        | Fault::TypeError { .. } => Status::invalid_argument(format!("Wrong input: {fault}")),
        Fault::PointIdError { .. } => Status::not_found(fault.to_string()),
        _ => Status::internal(format!("Service internal error: {fault}")),
    }
}
