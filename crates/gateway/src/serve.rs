//! The life of a gateway process, from the lock on its data folder to what it leaves for its next run.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use toller_api::v1;
use toller_core::{Durability, Models, VectorStore};
use toller_retrieval::{Planner, StoredRetrievers};
use toller_store::{Collections, Restores};
use toller_telemetry::metrics::IndexMetrics;
use toller_telemetry::traced::TracedVectorStore;
use tonic::codec::CompressionEncoding;

use crate::config::Config;
use crate::data::Data;
use crate::door::{self, bounded};
use crate::error::GatewayError;
use crate::limits::Limits;
use crate::model;
use crate::services::{
    BackupsService, CollectionsService, DocumentStoresService, DocumentsService, OperationsService, RetrievalService,
    RetrieversService,
};

/// A method that waits in the queue of the models for documents, besides those of the Embedder service.
const BULK_METHODS: [&str; 2] = ["toller.v1.Documents/Add", "toller.v1.Documents/Index"];

/// Methods that move as much as a tenant has.
const UNHURRIED_METHODS: [&str; 3] =
    ["toller.v1.Backups/Save", "toller.v1.Backups/Restore", "toller.v1.Documents/Index"];

/// What a server says once it answers requests.
#[derive(Debug, Clone)]
pub struct Ready {
    /// Address of the gRPC server, with the true port.
    pub address: SocketAddr,
    /// Does every caller need an API key?
    pub authenticated: bool,
    /// What it serves with.
    pub models: ReadyModels,
    /// What it keeps; none for an embedding worker.
    pub data: Option<ReadyData>,
}

/// The models of a server.
#[derive(Debug, Clone)]
pub struct ReadyModels {
    /// Fingerprint of the default embedding model; none when the server runs without one.
    pub default: Option<String>,
    /// Names of further embedding models.
    pub named: Vec<String>,
    /// Names of rerankers, the default one first.
    pub rerankers: Vec<String>,
}

impl ReadyModels {
    pub(crate) fn of(models: &Models) -> Self {
        let named = models.embeddings.iter().filter(|loaded| !loaded.is_default);
        Self {
            default: models.embeddings.get(None).map(|model| model.fingerprint().to_string()),
            named: named.map(|loaded| loaded.name.to_owned()).collect(),
            rerankers: models.rerankers.names().into_iter().map(str::to_owned).collect(),
        }
    }
}

/// The data of a gateway.
#[derive(Debug, Clone)]
pub struct ReadyData {
    /// Where it is: the data folder, or a server's address.
    pub place: String,
    /// The store's backend.
    pub store: &'static str,
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// Collections found there; none where nobody counts them.
    pub collections: Option<u64>,
}

/// Runs a gateway until `shutdown` completes, then drains it and leaves its data for the next run.
///
/// `on_ready` is called once, when requests are answered. Telemetry is the caller's to start before and to flush after.
///
/// # Errors
/// What keeps it from starting, and a dump of the memory backend that fails at the end: the data of this run is then lost, so
/// that must be seen.
pub async fn serve(
    config: Config,
    shutdown: impl Future<Output = ()> + Send + 'static,
    on_ready: impl FnOnce(&Ready),
) -> Result<(), GatewayError> {
    let keys = door::api_keys(&config.auth)?;
    let authenticated = !keys.is_empty();
    // What is quick to fail comes before the model, which takes seconds.
    let listener = toller_serving::server::bind(config.server.listen).await?;
    let data = Data::open(&config).await?;

    let loaded = model::load(&config).await?;
    let store: Arc<dyn VectorStore> = Arc::new(TracedVectorStore::new(Arc::clone(&data.vectors)));
    let catalog = Arc::clone(&data.catalog);
    let limits = Limits::new(config.limits.clone());
    let collections = Arc::new(Collections::new(store, Arc::clone(&catalog), loaded.models.clone()));
    let restores = Restores::new(Arc::clone(&collections), Arc::clone(&data.documents));
    // Before the first request, so that nobody sees half of one.
    let silence = data.left_after();
    let settled = restores.settle(silence).await.map_err(GatewayError::Restores)?;
    if settled > 0 {
        tracing::warn!(settled, "restores that the last run did not end are finished or undone");
    }
    if silence.is_zero() {
        // Before the first request: from now on writes go where what goes on needs them.
        let resumed = collections.resume_operations().await.map_err(GatewayError::Operations)?;
        if resumed > 0 {
            tracing::info!(resumed, "operations of the last run go on");
        }
    } else {
        collections.watch_operations(silence).await.map_err(GatewayError::Operations)?;
    }
    let stored = StoredRetrievers::new(catalog);
    let planner = Planner::new(Arc::clone(&collections), stored.clone(), limits.plan());
    let planner = Arc::new(planner.with_documents(Arc::clone(&data.documents)));
    let access_log = planner.access_log().cloned();

    let server = door::server(&config, keys)
        .reflection(toller_api::DESCRIPTORS)
        .bulk_methods(&BULK_METHODS)
        .bulk_methods(&door::BULK_METHODS)
        .unhurried_methods(&UNHURRIED_METHODS)
        .add_service(bounded!(
            v1::backups_server::BackupsServer::new(BackupsService {
                collections: Arc::clone(&collections),
                documents: Arc::clone(&data.documents),
                stored: stored.clone(),
                restores,
                spool_folder: Arc::clone(&data.spool_folder),
            }),
            limits
        ))
        .add_service(bounded!(
            v1::collections_server::CollectionsServer::new(CollectionsService {
                collections: Arc::clone(&collections),
                parents: Arc::clone(&data.documents),
                limits: limits.clone(),
            }),
            limits
        ))
        .add_service(bounded!(
            v1::document_stores_server::DocumentStoresServer::new(DocumentStoresService {
                documents: Arc::clone(&data.documents),
                collections: Arc::clone(&collections),
                limits: limits.clone()
            }),
            limits
        ))
        .add_service(bounded!(
            v1::documents_server::DocumentsServer::new(DocumentsService {
                collections: Arc::clone(&collections),
                parents: Arc::clone(&data.documents),
                limits: limits.clone(),
                index_metrics: Arc::new(IndexMetrics::new()),
            }),
            limits
        ))
        .add_service(bounded!(
            v1::operations_server::OperationsServer::new(OperationsService {
                collections: Arc::clone(&collections),
                limits: limits.clone()
            }),
            limits
        ))
        .add_service(bounded!(
            v1::retrieval_server::RetrievalServer::new(RetrievalService {
                planner: Arc::clone(&planner),
                limits: limits.clone()
            }),
            limits
        ))
        .add_service(bounded!(
            v1::retrievers_server::RetrieversServer::new(RetrieversService { planner, stored, limits: limits.clone() }),
            limits
        ));
    let server = door::add_embedder(server, &loaded, &limits);

    let ready = Ready {
        address: listener.address(),
        authenticated,
        models: ReadyModels::of(&loaded.models),
        data: Some(ReadyData {
            place: data.place.clone(),
            store: data.vectors.backend(),
            durability: data.vectors.durability(),
            collections: data.collections,
        }),
    };
    let running = Arc::clone(&collections);
    let shutdown = async move {
        shutdown.await;
        // So that whoever waits for one is answered before the drain waits for him.
        running.suspend_operations().await;
    };
    let shutdown = door::watched(&server, loaded, shutdown);
    let served = server.serve(listener, shutdown, || on_ready(&ready)).await;
    if let Some(access_log) = access_log
        && let Err(error) = access_log.flush().await
    {
        tracing::warn!(%error, "the last moments of access could not be written");
    }
    // Also when serving failed. They use the store, which is closed next.
    collections.suspend_operations().await;
    drop(collections);
    // The data is saved also when serving failed.
    let saved = data.close().await;
    served?;
    saved
}
