//! The life of an embedding worker: models and the Embedder service, and nothing to keep.

use std::future::Future;

use crate::config::Config;
use crate::door;
use crate::error::GatewayError;
use crate::limits::Limits;
use crate::model;
use crate::serve::{Ready, ReadyModels};

/// Runs an embedding worker until `shutdown` completes, then drains it: what runs is finished, and nothing new begins.
///
/// It serves `toller.v1.Embedder` with health and reflection. `on_ready` is called once, when requests are answered, which is
/// after a forward pass of every model. Telemetry is the caller's to start before and to flush after.
///
/// # Errors
/// What keeps it from starting, or failed while it served.
pub async fn serve_embedder(
    config: Config,
    shutdown: impl Future<Output = ()> + Send + 'static,
    on_ready: impl FnOnce(&Ready),
) -> Result<(), GatewayError> {
    let keys = door::api_keys(&config.auth)?;
    let authenticated = !keys.is_empty();
    // What is quick to fail comes before the models, which take seconds.
    let listener = toller_serving::server::bind(config.server.listen).await?;
    let loaded = model::load(&config).await?;
    let limits = Limits::new(config.limits.clone());
    let server =
        door::server(&config, keys).reflection(toller_api::EMBEDDER_DESCRIPTORS).bulk_methods(&door::BULK_METHODS);
    let server = door::add_embedder(server, &loaded, &limits);
    let ready =
        Ready { address: listener.address(), authenticated, models: ReadyModels::of(&loaded.models), data: None };
    let shutdown = door::watched(&server, loaded, shutdown);
    server.serve(listener, shutdown, || on_ready(&ready)).await?;
    Ok(())
}
