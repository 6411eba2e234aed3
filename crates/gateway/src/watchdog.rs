//! Health that follows the models: a real forward pass of each, again and again.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use toller_core::Result;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// What answers NOT_SERVING while a model is stuck: the embedder, and the server as a whole, so that load balancers turn
/// to another one.
const FOLLOWERS: [&str; 2] = ["toller.v1.Embedder", ""];

/// Something that can be asked for a forward pass.
#[async_trait]
pub(crate) trait Pulse: Send + Sync {
    /// Does a real forward pass come back within `patience`?
    async fn check_alive(&self, patience: Duration) -> Result<()>;
}

/// How often a watchdog looks, and how long it waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Time between two passes.
    pub(crate) interval: Duration,
    /// Time that a pass may take. It goes before all that waits, so a busy model is alive: it is late by one batch at most.
    pub(crate) patience: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { interval: Duration::from_secs(10), patience: Duration::from_secs(20) }
    }
}

/// Watches until it is dropped with its task.
pub(crate) async fn watch(models: Arc<dyn Pulse>, health: HealthReporter, pace: Pace) {
    let mut alive = true;
    loop {
        tokio::time::sleep(pace.interval).await;
        let was_alive = alive;
        let checked = models.check_alive(pace.patience).await;
        alive = checked.is_ok();
        if alive == was_alive {
            continue;
        }
        match checked {
            Ok(()) => tracing::info!("the models work again"),
            Err(fault) => tracing::error!(%fault, "a model is stuck; health says NOT_SERVING"),
        }
        let status = if alive { ServingStatus::Serving } else { ServingStatus::NotServing };
        for service in FOLLOWERS {
            health.set_service_status(service, status).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    use toller_core::Fingerprint;
    use toller_embedder::{
        Checkpoint, EmbedderConfig, EncodeError, Encoder, LocalEmbeddings, Model, Sequence, Tokenizer,
    };
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_server::Health;
    use tonic_health::server::HealthService;

    use super::*;
    use crate::model::LocalModels;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// An encoder that hangs while it is told to, as a driver or a lock may.
    struct Hanging(Arc<AtomicBool>);

    impl Encoder for Hanging {
        fn dimension(&self) -> usize {
            1
        }

        fn encode(&self, sequences: &[Sequence<'_>], _: Checkpoint<'_>) -> Result<Vec<Vec<f32>>, EncodeError> {
            while self.0.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(vec![vec![1.0]; sequences.len()])
        }
    }

    fn model(hangs: &Arc<AtomicBool>) -> Arc<LocalEmbeddings> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/tiny-bge/tokenizer.json");
        let tokenizer = Tokenizer::read(Path::new(path), 512, 12_000, true).unwrap();
        let model = Model::from_parts(tokenizer, Arc::new(Hanging(Arc::clone(hangs))), Fingerprint::client(1));
        let config = EmbedderConfig::builder().processors(1).build().unwrap();
        Arc::new(LocalEmbeddings::start(model, config).unwrap())
    }

    /// As the health protocol has it.
    fn number(status: ServingStatus) -> i32 {
        match status {
            ServingStatus::Unknown => 0,
            ServingStatus::Serving => 1,
            ServingStatus::NotServing => 2,
        }
    }

    #[tokio::test]
    async fn health_follows_a_model_that_hangs_and_works_again() {
        let (well, hangs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let models = Arc::new(LocalModels::new(vec![model(&well), model(&hangs)]));
        let (reporter, _) = tonic_health::server::health_reporter();
        let health = HealthService::from_health_reporter(reporter.clone());
        for service in [FOLLOWERS[0], FOLLOWERS[1], "toller.v1.Retrieval"] {
            reporter.set_service_status(service, ServingStatus::Serving).await;
        }
        let becomes = async |wanted: ServingStatus| {
            let give_up = Instant::now() + PATIENCE;
            for service in FOLLOWERS {
                loop {
                    let request = HealthCheckRequest { service: service.to_owned() };
                    let found = health.check(tonic::Request::new(request)).await.unwrap().into_inner().status;
                    if found == number(wanted) {
                        break;
                    }
                    assert!(Instant::now() < give_up, "{service:?} never became {wanted:?}");
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        };
        let pace = Pace { interval: Duration::from_millis(5), patience: Duration::from_millis(50) };
        let watchdog = tokio::spawn(watch(models, reporter, pace));
        becomes(ServingStatus::Serving).await;
        hangs.store(true, Ordering::Relaxed);
        becomes(ServingStatus::NotServing).await;
        let request = HealthCheckRequest { service: "toller.v1.Retrieval".to_owned() };
        let other = health.check(tonic::Request::new(request)).await.unwrap().into_inner().status;
        assert_eq!(other, number(ServingStatus::Serving), "services that need no model go on");
        hangs.store(false, Ordering::Relaxed);
        becomes(ServingStatus::Serving).await;
        watchdog.abort();
    }
}
