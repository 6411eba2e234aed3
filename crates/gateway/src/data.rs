//! The data of a gateway: the store that the configuration names, from its opening to its end.

use std::sync::Arc;

use toller_core::{Catalog, DocumentStore, VectorStore};
#[cfg(feature = "edge")]
use toller_store::EdgeStore;
use toller_store::MemoryStore;

use crate::config::{StoreBackend, StoreConfig};
use crate::data_folder::DataFolder;
use crate::error::GatewayError;

/// An open store.
pub(crate) struct Data {
    pub(crate) vectors: Arc<dyn VectorStore>,
    pub(crate) catalog: Arc<dyn Catalog>,
    pub(crate) documents: Arc<dyn DocumentStore>,
    /// Collections that were found, of all tenants.
    pub(crate) collections: u64,
    kept: Kept,
}

/// What is to be done with the store at the end.
enum Kept {
    Memory(MemoryStore),
    #[cfg(feature = "edge")]
    Edge(EdgeStore),
}

impl Data {
    /// Opens the store with what the last run left.
    pub(crate) async fn open(folder: &DataFolder, config: StoreConfig) -> Result<Self, GatewayError> {
        match config.backend {
            StoreBackend::Memory => Self::open_memory(folder).await,
            StoreBackend::Edge => Self::open_edge(folder, config).await,
        }
    }

    async fn open_memory(folder: &DataFolder) -> Result<Self, GatewayError> {
        refuse_other(&folder.edge_folder(), StoreBackend::Memory)?;
        let (path, file) = (folder.path().to_owned(), folder.dump_file());
        let (memory, collections) = blocking("loading the data", move || {
            let unfinished = MemoryStore::remove_unfinished_dumps(&path)?;
            if unfinished > 0 {
                tracing::warn!(unfinished, "an earlier process was killed while it dumped: its last writes are lost");
            }
            if !file.exists() {
                return Ok((MemoryStore::new(), 0));
            }
            let (memory, counts) = MemoryStore::load(&file)?;
            tracing::info!(file = %file.display(), collections = counts.collections, documents = counts.records, "data loaded");
            Ok((memory, counts.collections))
        })
        .await?;
        Ok(Self {
            vectors: Arc::clone(&memory.vectors) as Arc<dyn VectorStore>,
            catalog: Arc::clone(&memory.catalog) as Arc<dyn Catalog>,
            documents: Arc::clone(&memory.documents) as Arc<dyn DocumentStore>,
            collections,
            kept: Kept::Memory(memory),
        })
    }

    #[cfg(feature = "edge")]
    async fn open_edge(folder: &DataFolder, config: StoreConfig) -> Result<Self, GatewayError> {
        refuse_other(&folder.dump_file(), StoreBackend::Edge)?;
        let path = folder.edge_folder();
        let edge_config =
            toller_store::EdgeConfig { durability: config.durability.into(), ..toller_store::EdgeConfig::default() };
        let store = blocking("opening the data", move || Ok(EdgeStore::open(&path, edge_config)?)).await?;
        Ok(Self {
            vectors: Arc::clone(&store.vectors) as Arc<dyn VectorStore>,
            catalog: Arc::clone(&store.catalog) as Arc<dyn Catalog>,
            documents: Arc::clone(&store.documents) as Arc<dyn DocumentStore>,
            collections: store.vectors.collection_count() as u64,
            kept: Kept::Edge(store),
        })
    }

    #[cfg(not(feature = "edge"))]
    async fn open_edge(_: &DataFolder, _: StoreConfig) -> Result<Self, GatewayError> {
        Err(GatewayError::Setting {
            key: "store.backend".to_owned(),
            problem: "is \"edge\", which this program was built without: build it with the cargo feature edge, or set store.backend = \"memory\"".to_owned(),
        })
    }

    /// Leaves everything for the next run.
    pub(crate) async fn close(self, folder: &DataFolder) -> Result<(), GatewayError> {
        let Self { vectors, catalog, documents, kept, .. } = self;
        drop((vectors, catalog, documents));
        match kept {
            Kept::Memory(memory) => dump(memory, folder).await,
            #[cfg(feature = "edge")]
            Kept::Edge(store) => {
                blocking("closing the data", move || {
                    drop(store);
                    Ok(())
                })
                .await
            }
        }
    }
}

/// The folder holds what another backend left: starting beside it, with nothing, would look like a loss.
fn refuse_other(left: &std::path::Path, backend: StoreBackend) -> Result<(), GatewayError> {
    if !left.exists() {
        return Ok(());
    }
    let (name, other) = match backend {
        StoreBackend::Edge => ("edge", "memory"),
        StoreBackend::Memory => ("memory", "edge"),
    };
    Err(GatewayError::Setting {
        key: "store.backend".to_owned(),
        problem: format!(
            "is {name:?}, but {} holds what the backend {other:?} left: set store.backend = {other:?} to go on with it, or move it away to start with nothing",
            left.display()
        ),
    })
}

async fn dump(memory: MemoryStore, folder: &DataFolder) -> Result<(), GatewayError> {
    let file = folder.dump_file();
    blocking("dumping the data", move || {
        let counts = memory.dump(&file)?;
        tracing::info!(file = %file.display(), collections = counts.collections, documents = counts.records, "data dumped");
        Ok(())
    })
    .await
}

async fn blocking<T: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> Result<T, GatewayError> + Send + 'static,
) -> Result<T, GatewayError> {
    tokio::task::spawn_blocking(work).await.map_err(|fault| GatewayError::Internal(format!("{what}: {fault}")))?
}
