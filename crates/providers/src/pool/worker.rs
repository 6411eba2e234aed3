//! One worker: its connection, its load, and whether calls go to it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use toller_api::v1::embedder_client::EmbedderClient;
use toller_core::RequestContext;
use toller_telemetry::propagation;
use tonic::Request;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::health_client::HealthClient;

use super::address::WorkerAddress;
use super::config::PoolConfig;
use super::load::Load;
use super::standing::Standing;
use crate::error::ProviderError;

/// Time to connect: workers are near.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A ping after each such time, also without calls, so that a dead machine is found before a call is sent to it.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Time to answer it.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// The metadata in which a worker says how many tokens wait.
const QUEUED_TOKENS: &str = "toller-queued-tokens";

/// What a call is for: workers keep room for one kind while they are full for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    Documents,
    Queries,
    Pairs,
}

/// One worker.
pub(crate) struct Worker {
    pub(crate) address: WorkerAddress,
    channel: Channel,
    pub(crate) load: Load,
    pub(crate) standing: Mutex<Standing>,
    /// Tells the task that probes it that its standing has changed, or that somebody wants a probe now.
    pub(crate) wake: Notify,
    probe_now: AtomicBool,
    full_until: [Mutex<Option<Instant>>; 3],
    authorization: Option<MetadataValue<Ascii>>,
    max_message_bytes: usize,
}

impl Worker {
    /// A worker that nothing is known of yet; it is connected to when it is first called, and again when the connection is
    /// gone.
    ///
    /// # Errors
    /// [`ProviderError::Address`].
    pub(crate) fn new(address: WorkerAddress, config: &PoolConfig) -> Result<Self, ProviderError> {
        let wrong = |fault: &dyn std::fmt::Display| ProviderError::Address {
            address: address.url().to_owned(),
            fault: format!("is no URL ({fault})"),
        };
        let mut endpoint = Endpoint::from_shared(address.url().to_owned())
            .map_err(|fault| wrong(&fault))?
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(true)
            .http2_adaptive_window(true);
        if let Some(origin) = address.origin() {
            endpoint = endpoint.origin(origin.parse().map_err(|fault: http::uri::InvalidUri| wrong(&fault))?);
        }
        Ok(Self {
            channel: endpoint.connect_lazy(),
            load: Load::default(),
            standing: Mutex::new(Standing::new(config.probe_interval, Instant::now())),
            wake: Notify::new(),
            probe_now: AtomicBool::new(false),
            full_until: Default::default(),
            authorization: config.authorization.clone(),
            max_message_bytes: config.max_message_bytes,
            address,
        })
    }

    pub(crate) fn embedder(&self) -> EmbedderClient<Channel> {
        EmbedderClient::new(self.channel.clone())
            .max_decoding_message_size(self.max_message_bytes)
            .max_encoding_message_size(self.max_message_bytes)
    }

    pub(crate) fn health(&self) -> HealthClient<Channel> {
        HealthClient::new(self.channel.clone())
    }

    /// `message` with the API key and nothing else.
    pub(crate) fn bare_request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(value) = &self.authorization {
            request.metadata_mut().insert("authorization", value.clone());
        }
        request
    }

    /// `message` with the API key, what is left until the deadline, and the current span as its parent.
    pub(crate) fn request<T>(&self, context: &RequestContext, message: T) -> Request<T> {
        let mut request = self.bare_request(message);
        if let Some(remaining) = context.remaining() {
            request.set_timeout(remaining);
        }
        propagation::inject(&tracing::Span::current(), request.metadata_mut().as_mut());
        request
    }

    /// Reads how many tokens wait at the worker from an answer's or an error's metadata.
    pub(crate) fn note_queue(&self, metadata: &MetadataMap) {
        let queued = metadata.get(QUEUED_TOKENS).and_then(|value| value.to_str().ok()?.parse().ok());
        if let Some(queued) = queued {
            self.load.report(queued, Instant::now());
        }
    }

    /// It said that it has no room for `lane`, and when it will.
    pub(crate) fn note_full(&self, lane: Lane, until: Instant) {
        *self.lane(lane).lock() = Some(until);
    }

    /// Until when it has no room for `lane`; none when it has, as far as is known.
    pub(crate) fn full_until(&self, lane: Lane, now: Instant) -> Option<Instant> {
        self.lane(lane).lock().filter(|until| *until > now)
    }

    fn lane(&self, lane: Lane) -> &Mutex<Option<Instant>> {
        let [documents, queries, pairs] = &self.full_until;
        match lane {
            Lane::Documents => documents,
            Lane::Queries => queries,
            Lane::Pairs => pairs,
        }
    }

    pub(crate) fn is_healthy(&self) -> bool {
        self.standing.lock().is_healthy()
    }

    /// Asks for a probe before its time.
    pub(crate) fn ask_for_probe(&self) {
        self.probe_now.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }

    /// Did somebody ask for a probe since the last time that this was asked?
    pub(crate) fn takes_probe_request(&self) -> bool {
        self.probe_now.swap(false, Ordering::Relaxed)
    }
}
