//! The life of a gateway process, from the lock on its data folder to the dump for its next run.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use toller_api::v1;
use toller_core::{Catalog, Durability, VectorStore};
use toller_retrieval::{Planner, StoredRetrievers};
use toller_serving::auth::ApiKeys;
use toller_serving::server::{Server, ServerConfig};
use toller_store::{Collections, MemoryStore};
use toller_telemetry::traced::TracedVectorStore;
use tonic::codec::CompressionEncoding;

use crate::config::{AuthConfig, Config};
use crate::data_folder::DataFolder;
use crate::error::GatewayError;
use crate::limits::Limits;
use crate::model;
use crate::services::{CollectionsService, DocumentsService, EmbedderService, RetrievalService, RetrieversService};
use crate::watchdog;

/// Methods that wait in the embedder's queue for documents.
const BULK_METHODS: [&str; 2] = ["toller.v1.Documents/Add", "toller.v1.Embedder/EmbedDocuments"];

/// What a gateway says once it answers requests.
#[derive(Debug, Clone)]
pub struct Ready {
    /// Address of the gRPC server, with the true port.
    pub address: SocketAddr,
    /// The data folder.
    pub data_dir: PathBuf,
    /// The store's backend.
    pub store: &'static str,
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// Collections found in the data folder.
    pub collections: u64,
    /// The embedding model; none when the server runs without one.
    pub model: Option<String>,
    /// Does every caller need an API key?
    pub authenticated: bool,
}

/// Runs a gateway until `shutdown` completes, then drains it and leaves its data for the next run.
///
/// `on_ready` is called once, when requests are answered. Telemetry is the caller's to start before and to flush after.
///
/// # Errors
/// What keeps it from starting, and a dump that fails at the end: the data of this run is then lost, so that must be seen.
pub async fn serve(
    config: Config,
    shutdown: impl Future<Output = ()> + Send + 'static,
    on_ready: impl FnOnce(&Ready),
) -> Result<(), GatewayError> {
    let keys = api_keys(&config.auth)?;
    let authenticated = !keys.is_empty();
    // What is quick to fail comes before the model, which takes seconds.
    let listener = toller_serving::server::bind(config.server.listen).await?;
    let folder = DataFolder::open(&config.data.dir)?;
    let (memory, collection_count) = load_memory(&folder).await?;

    let loaded = model::load(&config).await?;
    let store: Arc<dyn VectorStore> =
        Arc::new(TracedVectorStore::new(Arc::clone(&memory.vectors) as Arc<dyn VectorStore>));
    let catalog: Arc<dyn Catalog> = Arc::clone(&memory.catalog) as Arc<dyn Catalog>;
    let embeddings = loaded.as_ref().map(|model| Arc::clone(&model.embeddings));
    let model_name = embeddings.as_ref().map(|embeddings| embeddings.fingerprint().to_string());
    let limits = Limits::new(config.limits.clone());
    let collections = Arc::new(Collections::new(store, Arc::clone(&catalog), embeddings.clone()));
    let stored = StoredRetrievers::new(catalog);
    let planner = Arc::new(Planner::new(Arc::clone(&collections), stored.clone(), limits.plan()));

    let mut server = Server::new(ServerConfig {
        max_concurrent_requests: config.limits.max_concurrent_requests,
        default_deadline: Duration::from_millis(config.limits.default_deadline_ms),
        max_deadline: Duration::from_millis(config.limits.max_deadline_ms),
        drain_grace: Duration::from_millis(config.server.drain_grace_ms),
        drain_timeout: Duration::from_millis(config.server.drain_timeout_ms),
        keys,
        ..ServerConfig::default()
    })
    .reflection(toller_api::DESCRIPTORS)
    .bulk_methods(&BULK_METHODS);

    /// Adds one service with what all services share: message limits and compression when the client asks for it.
    macro_rules! add_service {
        ($make:path, $service:expr) => {
            server = server.add_service(
                $make($service)
                    .max_decoding_message_size(limits.max_message_bytes())
                    .max_encoding_message_size(limits.max_message_bytes())
                    .accept_compressed(CompressionEncoding::Gzip)
                    .accept_compressed(CompressionEncoding::Zstd)
                    .send_compressed(CompressionEncoding::Gzip)
                    .send_compressed(CompressionEncoding::Zstd),
            )
        };
    }
    add_service!(
        v1::collections_server::CollectionsServer::new,
        CollectionsService { collections: Arc::clone(&collections), limits: limits.clone() }
    );
    add_service!(
        v1::documents_server::DocumentsServer::new,
        DocumentsService { collections: Arc::clone(&collections), limits: limits.clone() }
    );
    add_service!(v1::embedder_server::EmbedderServer::new, EmbedderService { embeddings, limits: limits.clone() });
    add_service!(
        v1::retrieval_server::RetrievalServer::new,
        RetrievalService { planner: Arc::clone(&planner), limits: limits.clone() }
    );
    add_service!(
        v1::retrievers_server::RetrieversServer::new,
        RetrieversService { planner, stored, limits: limits.clone() }
    );

    let ready = Ready {
        address: listener.address(),
        data_dir: config.data.dir.clone(),
        store: memory.vectors.backend(),
        durability: memory.vectors.durability(),
        collections: collection_count,
        model: model_name,
        authenticated,
    };
    let watchdog =
        loaded.and_then(|model| model.local).map(|local| tokio::spawn(watchdog::watch(local, server.health())));
    // The watchdog ends before the drain begins, so that it never says SERVING to a server that stops.
    let shutdown = async {
        shutdown.await;
        if let Some(watchdog) = watchdog {
            watchdog.abort();
        }
    };
    let served = server.serve(listener, shutdown, || on_ready(&ready)).await;
    // The data is saved also when serving failed.
    let saved = dump_memory(memory, folder.dump_file()).await;
    drop(folder);
    served?;
    saved
}

fn api_keys(config: &AuthConfig) -> Result<ApiKeys, GatewayError> {
    let mut keys = ApiKeys::default();
    for (index, key) in config.keys.iter().enumerate() {
        keys.add(&key.name, &key.sha256, key.tenant.clone(), key.role)
            .map_err(|fault| GatewayError::ApiKey { index, fault: fault.to_string() })?;
    }
    Ok(keys)
}

/// What the last run left, and how many collections that is.
async fn load_memory(folder: &DataFolder) -> Result<(MemoryStore, u64), GatewayError> {
    let (folder, file) = (folder.path().to_owned(), folder.dump_file());
    blocking("loading the data", move || {
        let unfinished = MemoryStore::remove_unfinished_dumps(&folder)?;
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
    .await
}

async fn dump_memory(memory: MemoryStore, file: PathBuf) -> Result<(), GatewayError> {
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
