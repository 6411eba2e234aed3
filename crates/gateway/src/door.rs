//! What both servers have in common: their door with its keys and bounds, and the Embedder service with the health that follows
//! its models.

use std::future::Future;
use std::time::Duration;

use toller_api::v1;
use toller_serving::auth::ApiKeys;
use toller_serving::server::{Server, ServerConfig};
use tonic::codec::CompressionEncoding;

use crate::config::{AuthConfig, Config};
use crate::error::GatewayError;
use crate::limits::Limits;
use crate::model::LoadedModels;
use crate::queue_report::QueueReport;
use crate::services::EmbedderService;
use crate::watchdog::{Pace, watch};

/// Methods that wait in the queue of the models for documents.
pub(crate) const BULK_METHODS: [&str; 3] =
    ["toller.v1.Embedder/EmbedDocuments", "toller.v1.Embedder/EmbedStream", "toller.v1.Embedder/Rerank"];

/// The API keys of the configuration.
pub(crate) fn api_keys(config: &AuthConfig) -> Result<ApiKeys, GatewayError> {
    let mut keys = ApiKeys::default();
    for (index, key) in config.keys.iter().enumerate() {
        keys.add(&key.name, &key.sha256, key.tenant.clone(), key.role)
            .map_err(|fault| GatewayError::ApiKey { index, fault: fault.to_string() })?;
    }
    Ok(keys)
}

/// A server without services.
pub(crate) fn server(config: &Config, keys: ApiKeys) -> Server {
    Server::new(ServerConfig {
        max_concurrent_requests: config.limits.max_concurrent_requests,
        default_deadline: Duration::from_millis(config.limits.default_deadline_ms),
        max_deadline: Duration::from_millis(config.limits.max_deadline_ms),
        drain_grace: Duration::from_millis(config.server.drain_grace_ms),
        drain_timeout: Duration::from_millis(config.server.drain_timeout_ms),
        keys,
        ..ServerConfig::default()
    })
}

/// A service's server with what all have: message limits, and compression when the client asks for it.
macro_rules! bounded {
    ($server:expr, $limits:expr) => {
        $server
            .max_decoding_message_size($limits.max_message_bytes())
            .max_encoding_message_size($limits.max_message_bytes())
            .accept_compressed(CompressionEncoding::Gzip)
            .accept_compressed(CompressionEncoding::Zstd)
            .send_compressed(CompressionEncoding::Gzip)
            .send_compressed(CompressionEncoding::Zstd)
    };
}
pub(crate) use bounded;

/// Adds the Embedder service over `loaded`.
pub(crate) fn add_embedder(server: Server, loaded: &LoadedModels, limits: &Limits) -> Server {
    let service = EmbedderService { models: loaded.models.clone(), limits: limits.clone() };
    let service = bounded!(v1::embedder_server::EmbedderServer::new(service), limits);
    server.add_service(QueueReport { service, queued_tokens: loaded.queued_tokens() })
}

/// The same shutdown, before which the health of `server` follows the models in this process.
pub(crate) fn watched(
    server: &Server,
    loaded: LoadedModels,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> impl Future<Output = ()> + Send + 'static {
    let LoadedModels { watched, .. } = loaded;
    let watchdog = tokio::spawn(watch(watched, server.health(), Pace::default()));
    // The watchdog ends before the drain begins, so that it never says SERVING to a server that stops.
    async move {
        shutdown.await;
        watchdog.abort();
    }
}
