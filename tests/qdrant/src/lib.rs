//! A server for tests: the calls of Qdrant that Toller makes, on the engine qdrant-edge, which is Qdrant's own.
//!
//! It answers as a Qdrant of one node with one shard does: conditions of writes are evaluated by the engine, unknown
//! collections are NOT_FOUND, unknown vector names and wrong dimensions INVALID_ARGUMENT. A call that Toller does not make, or a
//! field of a request that it does not use, is UNIMPLEMENTED and named. [`Faults`] make it fail in chosen ways.

mod collections;
mod door;
mod faults;
mod filter;
mod health;
mod payload;
mod points;
mod requests;
mod service;
mod shards;
mod vectors;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use qdrant_client::qdrant::collections_server::CollectionsServer;
use qdrant_client::qdrant::points_server::PointsServer;
use qdrant_client::qdrant::qdrant_server::QdrantServer;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;

pub use faults::Faults;

use collections::CollectionCalls;
use door::DoorLayer;
use health::HealthCalls;
use points::PointCalls;
use shards::Shards;

/// A running server; it stops when this is dropped.
#[derive(Debug)]
pub struct TestQdrant {
    address: SocketAddr,
    faults: Arc<Faults>,
    shards: Arc<Shards>,
    _stop: oneshot::Sender<()>,
    _folder: Option<tempfile::TempDir>,
}

/// How a server is started.
#[derive(Debug, Default, Clone)]
pub struct TestQdrantConfig {
    /// Where its data is; none for a folder that goes with the server.
    pub folder: Option<PathBuf>,
    /// The port on the loop back address; 0 for any.
    pub port: u16,
    /// Keys of which every call must bring one; none lets everybody in.
    pub api_keys: Vec<String>,
}

impl TestQdrant {
    /// A server with an empty folder of its own.
    ///
    /// # Errors
    /// What the operating system says.
    pub async fn start() -> std::io::Result<Self> {
        Self::start_with(TestQdrantConfig::default()).await
    }

    /// A server with what its folder holds.
    ///
    /// # Errors
    /// What the operating system says, or the engine.
    pub async fn start_with(config: TestQdrantConfig) -> std::io::Result<Self> {
        let (path, folder) = match config.folder {
            Some(path) => (path, None),
            None => {
                let folder = tempfile::tempdir()?;
                (folder.path().to_owned(), Some(folder))
            }
        };
        let shards = Arc::new(Shards::open(&path)?);
        let faults = Arc::new(Faults::default());
        let listener = TcpListener::bind(("127.0.0.1", config.port)).await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let points = PointsServer::new(PointCalls::new(Arc::clone(&shards), Arc::clone(&faults)));
        let served = Server::builder()
            .layer(DoorLayer::new(Arc::clone(&faults), config.api_keys))
            .add_service(QdrantServer::new(HealthCalls))
            .add_service(CollectionsServer::new(CollectionCalls::new(Arc::clone(&shards))))
            .add_service(points.max_decoding_message_size(usize::MAX))
            .serve_with_incoming_shutdown(TcpListenerStream::new(listener), async {
                let _ = stopped.await;
            });
        tokio::spawn(served);
        Ok(Self { address, faults, shards, _stop: stop, _folder: folder })
    }

    /// Its address, such as `http://127.0.0.1:40001`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The names of its collections.
    pub fn collections(&self) -> Vec<String> {
        self.shards.names()
    }

    /// Ways to make it fail, and what it saw.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }
}
