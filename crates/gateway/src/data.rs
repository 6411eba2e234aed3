//! The data of a gateway: the store that the configuration names, from its opening to its end.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use toller_core::{Catalog, DocumentStore, VectorStore};
#[cfg(feature = "edge")]
use toller_store::EdgeStore;
use toller_store::MemoryStore;
#[cfg(feature = "qdrant")]
use toller_store::QdrantStore;

use crate::config::{Config, StoreBackend, StoreConfig};
use crate::data_folder::DataFolder;
use crate::error::GatewayError;

/// An open store.
pub(crate) struct Data {
    pub(crate) vectors: Arc<dyn VectorStore>,
    pub(crate) catalog: Arc<dyn Catalog>,
    pub(crate) documents: Arc<dyn DocumentStore>,
    /// Where it is, for people: the data folder, or a server's address.
    pub(crate) place: String,
    /// Where a backup is put aside before the client gets it.
    pub(crate) spool_folder: Arc<Path>,
    /// Collections that were found, of all tenants; none where nobody counts them.
    pub(crate) collections: Option<u64>,
    kept: Kept,
}

/// What is to be done with the store at the end. A folder is given up after its store.
enum Kept {
    Memory(MemoryStore, DataFolder),
    #[cfg(feature = "edge")]
    Edge(EdgeStore, DataFolder),
    /// Nothing: it is not here.
    #[cfg(feature = "qdrant")]
    Elsewhere,
}

impl Data {
    /// Opens the store with what the last run left.
    pub(crate) async fn open(config: &Config) -> Result<Self, GatewayError> {
        let spool_folder = config.backup.spool_dir.as_deref().map(usable).transpose()?;
        let data = match config.store.backend {
            StoreBackend::Memory => Self::open_memory(DataFolder::open(&config.data.dir)?).await,
            StoreBackend::Edge => Self::open_edge(DataFolder::open(&config.data.dir)?, &config.store).await,
            StoreBackend::Qdrant => Self::open_qdrant(&config.store).await,
        }?;
        Ok(Self { spool_folder: spool_folder.unwrap_or(data.spool_folder), ..data })
    }

    async fn open_memory(folder: DataFolder) -> Result<Self, GatewayError> {
        refuse_other(&folder.edge_folder(), "memory", "edge")?;
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
            place: folder.path().display().to_string(),
            spool_folder: folder.path().into(),
            collections: Some(collections),
            kept: Kept::Memory(memory, folder),
        })
    }

    #[cfg(feature = "edge")]
    async fn open_edge(folder: DataFolder, config: &StoreConfig) -> Result<Self, GatewayError> {
        refuse_other(&folder.dump_file(), "edge", "memory")?;
        let path = folder.edge_folder();
        let edge_config =
            toller_store::EdgeConfig { durability: config.durability.into(), ..toller_store::EdgeConfig::default() };
        let store = blocking("opening the data", move || Ok(EdgeStore::open(&path, edge_config)?)).await?;
        Ok(Self {
            vectors: Arc::clone(&store.vectors) as Arc<dyn VectorStore>,
            catalog: Arc::clone(&store.catalog) as Arc<dyn Catalog>,
            documents: Arc::clone(&store.documents) as Arc<dyn DocumentStore>,
            place: folder.path().display().to_string(),
            spool_folder: folder.path().into(),
            collections: Some(store.vectors.collection_count() as u64),
            kept: Kept::Edge(store, folder),
        })
    }

    #[cfg(not(feature = "edge"))]
    async fn open_edge(_: DataFolder, _: &StoreConfig) -> Result<Self, GatewayError> {
        Err(GatewayError::Setting {
            key: "store.backend".to_owned(),
            problem: "is \"edge\", which this program was built without: build it with the cargo feature edge, or set store.backend = \"memory\"".to_owned(),
        })
    }

    #[cfg(feature = "qdrant")]
    async fn open_qdrant(config: &StoreConfig) -> Result<Self, GatewayError> {
        let section = config.qdrant.clone();
        let place = format!("Qdrant at {}", section.url);
        let store = QdrantStore::connect(toller_store::QdrantConfig {
            url: section.url,
            api_key: section.api_key,
            ca_file: section.ca_file,
            timeout: Duration::from_millis(section.timeout_ms),
            prefix: section.prefix,
            replication_factor: section.replication_factor,
            shard_number: section.shard_number,
            write_consistency_factor: section.write_consistency_factor,
            on_disk: section.on_disk,
            exact: section.exact,
            ..toller_store::QdrantConfig::default()
        })
        .await?;
        Ok(Self {
            vectors: store.vectors,
            catalog: store.catalog,
            documents: store.documents,
            // In a container that is often RAM, or small: backup.spool_dir is for that.
            spool_folder: std::env::temp_dir().into(),
            place,
            collections: None,
            kept: Kept::Elsewhere,
        })
    }

    #[cfg(not(feature = "qdrant"))]
    async fn open_qdrant(_: &StoreConfig) -> Result<Self, GatewayError> {
        Err(GatewayError::Setting {
            key: "store.backend".to_owned(),
            problem: "is \"qdrant\", which this program was built without: build it with the cargo feature qdrant, or set store.backend = \"edge\"".to_owned(),
        })
    }

    /// How long what is under way must give no sign of life to be taken for left behind: no time where a folder has one process at
    /// a time, and several times as long as there is between two signs where several share a server.
    pub(crate) fn left_after(&self) -> Duration {
        #[cfg(feature = "qdrant")]
        const SILENCE: Duration = Duration::from_secs(30);

        match self.kept {
            Kept::Memory(..) => Duration::ZERO,
            #[cfg(feature = "edge")]
            Kept::Edge(..) => Duration::ZERO,
            #[cfg(feature = "qdrant")]
            Kept::Elsewhere => SILENCE,
        }
    }

    /// Leaves everything for the next run.
    pub(crate) async fn close(self) -> Result<(), GatewayError> {
        let Self { vectors, catalog, documents, kept, .. } = self;
        drop((vectors, catalog, documents));
        match kept {
            Kept::Memory(memory, folder) => dump(memory, &folder).await,
            #[cfg(feature = "edge")]
            Kept::Edge(store, folder) => {
                blocking("closing the data", move || {
                    drop(store);
                    drop(folder);
                    Ok(())
                })
                .await
            }
            #[cfg(feature = "qdrant")]
            Kept::Elsewhere => Ok(()),
        }
    }
}

/// A folder for backups, made where it is missing, and tried out.
fn usable(folder: &Path) -> Result<Arc<Path>, GatewayError> {
    let made = std::fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder));
    made.map_err(|fault| GatewayError::SpoolFolder { path: folder.to_owned(), fault })?;
    Ok(folder.into())
}

/// The folder holds what another backend left: starting beside it, with nothing, would look like a loss.
fn refuse_other(left: &std::path::Path, name: &str, other: &str) -> Result<(), GatewayError> {
    if !left.exists() {
        return Ok(());
    }
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
