//! Health that follows the models: a real forward pass of each in this process, and the workers of a pool, again and again.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use toller_core::Result;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// What answers NOT_SERVING while any model does not answer.
const EMBEDDER: &str = "toller.v1.Embedder";

/// The server as a whole: NOT_SERVING while a model in this process is stuck, so that load balancers turn to another one and
/// whoever started it starts it again.
const WHOLE_SERVER: &str = "";

/// Something that can be asked whether it works.
#[async_trait]
pub(crate) trait Pulse: Send + Sync {
    /// Does it show that it works within `patience`?
    async fn check_alive(&self, patience: Duration) -> Result<()>;
}

/// What a watchdog looks at.
pub(crate) struct Watched {
    pub(crate) pulse: Arc<dyn Pulse>,
    /// Does the server as a whole stand and fall with it?
    pub(crate) whole_server: bool,
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
pub(crate) async fn watch(watched: Vec<Watched>, health: HealthReporter, pace: Pace) {
    let mut alive = vec![true; watched.len()];
    loop {
        tokio::time::sleep(pace.interval).await;
        let mut has_changed = false;
        for (Watched { pulse, .. }, is_alive) in watched.iter().zip(&mut alive) {
            let checked = pulse.check_alive(pace.patience).await;
            if checked.is_ok() == *is_alive {
                continue;
            }
            has_changed = true;
            *is_alive = checked.is_ok();
            match checked {
                Ok(()) => tracing::info!("the models work again"),
                Err(fault) => tracing::error!(%fault, "models do not answer; health says NOT_SERVING"),
            }
        }
        if has_changed {
            let embedder = alive.iter().all(|is_alive| *is_alive);
            let server = watched.iter().zip(&alive).all(|(watched, is_alive)| *is_alive || !watched.whole_server);
            for (service, is_alive) in [(EMBEDDER, embedder), (WHOLE_SERVER, server)] {
                let status = if is_alive { ServingStatus::Serving } else { ServingStatus::NotServing };
                health.set_service_status(service, status).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    use toller_core::{Error, Fingerprint};
    use toller_embedder::{Checkpoint, EmbedderConfig, EncodeError, Encoder, Engine, Model, Sequence, Tokenizer};
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_server::Health;
    use tonic_health::server::HealthService;

    use super::*;

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

    fn model(hangs: &Arc<AtomicBool>) -> Model {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/tiny-bge/tokenizer.json");
        let tokenizer = Tokenizer::read(Path::new(path), 512, 12_000, true).unwrap();
        Model::from_parts(tokenizer, Arc::new(Hanging(Arc::clone(hangs))), Fingerprint::client(1))
    }

    /// A pool whose workers come and go.
    struct Workers(Arc<AtomicBool>);

    #[async_trait]
    impl Pulse for Workers {
        async fn check_alive(&self, _: Duration) -> Result<()> {
            if self.0.load(Ordering::Relaxed) { Err(Error::Unavailable("gone".to_owned())) } else { Ok(()) }
        }
    }

    /// As the health protocol has it.
    fn number(status: ServingStatus) -> i32 {
        match status {
            ServingStatus::Unknown => 0,
            ServingStatus::Serving => 1,
            ServingStatus::NotServing => 2,
        }
    }

    /// A watched server with the services of a gateway.
    struct World {
        health: HealthService,
        watchdog: tokio::task::JoinHandle<()>,
    }

    impl World {
        async fn new(watched: Vec<Watched>) -> Self {
            let (reporter, _) = tonic_health::server::health_reporter();
            let health = HealthService::from_health_reporter(reporter.clone());
            for service in [EMBEDDER, WHOLE_SERVER, "toller.v1.Retrieval"] {
                reporter.set_service_status(service, ServingStatus::Serving).await;
            }
            let pace = Pace { interval: Duration::from_millis(5), patience: Duration::from_millis(50) };
            Self { health, watchdog: tokio::spawn(watch(watched, reporter, pace)) }
        }

        async fn status(&self, service: &str) -> i32 {
            let request = HealthCheckRequest { service: service.to_owned() };
            self.health.check(tonic::Request::new(request)).await.unwrap().into_inner().status
        }

        async fn becomes(&self, service: &str, wanted: ServingStatus) {
            let give_up = Instant::now() + PATIENCE;
            while self.status(service).await != number(wanted) {
                assert!(Instant::now() < give_up, "{service:?} never became {wanted:?}");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }

    impl Drop for World {
        fn drop(&mut self) {
            self.watchdog.abort();
        }
    }

    #[tokio::test]
    async fn health_follows_a_model_that_hangs_and_works_again() {
        let (well, hangs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let engine = Engine::start(EmbedderConfig::builder().processors(1).build().unwrap()).unwrap();
        let _models = [engine.embeddings(model(&well)), engine.embeddings(model(&hangs))];
        let world = World::new(vec![Watched { pulse: engine, whole_server: true }]).await;
        for (hanging, expected) in
            [(true, ServingStatus::NotServing), (false, ServingStatus::Serving), (true, ServingStatus::NotServing)]
        {
            hangs.store(hanging, Ordering::Relaxed);
            world.becomes(EMBEDDER, expected).await;
            world.becomes(WHOLE_SERVER, expected).await;
            assert_eq!(world.status("toller.v1.Retrieval").await, number(ServingStatus::Serving), "needs no model");
        }
        hangs.store(false, Ordering::Relaxed);
    }

    #[tokio::test]
    async fn without_workers_the_rest_of_a_gateway_goes_on() {
        let gone = Arc::new(AtomicBool::new(true));
        let world =
            World::new(vec![Watched { pulse: Arc::new(Workers(Arc::clone(&gone))), whole_server: false }]).await;
        world.becomes(EMBEDDER, ServingStatus::NotServing).await;
        assert_eq!(world.status(WHOLE_SERVER).await, number(ServingStatus::Serving));
        gone.store(false, Ordering::Relaxed);
        world.becomes(EMBEDDER, ServingStatus::Serving).await;
    }
}
