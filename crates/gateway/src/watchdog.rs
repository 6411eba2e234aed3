//! Health that follows the model: a real forward pass, again and again.

use std::sync::Arc;
use std::time::Duration;

use toller_embedder::LocalEmbeddings;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// Time between two passes.
const INTERVAL: Duration = Duration::from_secs(10);

/// Time that a pass may take. It goes before all that waits, so a busy model is alive: it is late by one batch at most.
const PATIENCE: Duration = Duration::from_secs(20);

/// What answers NOT_SERVING while the model is stuck: the embedder, and the server as a whole, so that load balancers turn
/// to another one.
const FOLLOWERS: [&str; 2] = ["toller.v1.Embedder", ""];

/// Watches until it is dropped with its task.
pub(crate) async fn watch(model: Arc<LocalEmbeddings>, health: HealthReporter) {
    let mut alive = true;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let was_alive = alive;
        let checked = model.check_alive(PATIENCE).await;
        alive = checked.is_ok();
        if alive == was_alive {
            continue;
        }
        match checked {
            Ok(()) => tracing::info!("the model works again"),
            Err(fault) => tracing::error!(%fault, "the model is stuck; health says NOT_SERVING"),
        }
        let status = if alive { ServingStatus::Serving } else { ServingStatus::NotServing };
        for service in FOLLOWERS {
            health.set_service_status(service, status).await;
        }
    }
}
