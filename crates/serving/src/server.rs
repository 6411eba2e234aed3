//! A gRPC server with all that Toller's servers share: the layers in their order, health, reflection, limits on connections,
//! and a drain at the end.

use std::collections::HashSet;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Request, Response};
use prost::Message;
use prost_types::FileDescriptorSet;
use tokio::net::TcpListener;
use toller_telemetry::metrics::RpcMetrics;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::service::RoutesBuilder;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tower::util::{BoxCloneService, MapRequest};
use tower::{Layer, Service};

use crate::auth::{ApiKeys, Authentication};
use crate::connections::{ConnectionInfo, connections};
use crate::deadline::{Arrival, Deadlines};
use crate::drain::{Drain, Phase, PhaseSwitch};
use crate::error::Error;
use crate::limit::ConcurrencyLimit;
use crate::middleware::{GrpcService, MiddlewareLayer};
use crate::panic::PanicCatcher;
use crate::request_body::RequestBodies;
use crate::trace::Tracing;
use crate::unknown_method::UnknownMethods;
use crate::unreadable::UnreadableRequests;

/// The name under which health answers for the server as a whole.
const WHOLE_SERVER: &str = "";

/// What calls that are cut off get to carry the news to their clients.
const CUT_OFF_GRACE: Duration = Duration::from_secs(1);

/// Bytes of one stream that may be on their way or unread: a round trip of 10 ms at 100 MB/s.
const STREAM_WINDOW: u32 = 1 << 20;

/// The same of all streams of a connection. Half as much is the allowance for small frames that are unread: with less, the connection
/// of a caller who sends many small messages at once would be closed.
const CONNECTION_WINDOW: u32 = 8 << 20;

/// Most streams that a client may reset before they are accepted; more closes its connection (the rapid reset attack).
const MAX_PENDING_RESETS: usize = 64;

/// Time for a request to arrive: enough for 16 MiB at 10 Mbit/s, and little of what a caller may ask for as its deadline.
const BODY_TIMEOUT: Duration = Duration::from_secs(15);

/// An address that is listened on. Connections wait until the server serves.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// The address, with the true port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Listens on `address`; port 0 takes a free one.
///
/// # Errors
/// [`Error::Listen`] names the address and says what to do.
pub async fn bind(address: SocketAddr) -> Result<Listener, Error> {
    let failed = |source| Error::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(Listener { listener, address })
}

/// How a server treats its callers. The defaults are right for a server inside a cluster.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Who may call; everybody, without keys.
    pub keys: ApiKeys,
    /// Most calls at a time, at least 1.
    pub max_concurrent_requests: usize,
    /// Deadline of calls that bring none.
    pub default_deadline: Duration,
    /// Longest deadline; later ones are brought forward.
    pub max_deadline: Duration,
    /// Time from a call's arrival until its message must have come, or the first of its messages where it sends a stream.
    pub body_timeout: Duration,
    /// Time from NOT_SERVING until new connections are refused, for load balancers to take notice.
    pub drain_grace: Duration,
    /// Time that running calls then get to finish.
    pub drain_timeout: Duration,
    /// A ping after each such time without traffic, which finds dead connections.
    pub keepalive_interval: Duration,
    /// Time to answer it.
    pub keepalive_timeout: Duration,
    /// Age at which a connection is closed once its calls have ended, so that clients spread over new servers; none for never.
    pub max_connection_age: Option<Duration>,
    /// Most connections at a time; further ones are closed at once.
    pub max_connections: usize,
    /// Most calls at a time on one connection.
    pub max_streams_per_connection: u32,
    /// Most bytes of a call's headers.
    pub max_header_bytes: u32,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            keys: ApiKeys::default(),
            max_concurrent_requests: 256,
            default_deadline: Duration::from_secs(60),
            max_deadline: Duration::from_secs(600),
            body_timeout: BODY_TIMEOUT,
            drain_grace: Duration::ZERO,
            drain_timeout: Duration::from_secs(20),
            keepalive_interval: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(10),
            max_connection_age: Some(Duration::from_secs(30 * 60)),
            max_connections: 4096,
            max_streams_per_connection: 1024,
            max_header_bytes: 16 * 1024,
        }
    }
}

/// A server in the making.
pub struct Server {
    config: ServerConfig,
    routes: RoutesBuilder,
    services: Vec<&'static str>,
    descriptors: Vec<&'static [u8]>,
    bulk_methods: HashSet<String>,
    unhurried_methods: HashSet<String>,
    health: HealthReporter,
}

impl Server {
    /// A server with health alone.
    pub fn new(config: ServerConfig) -> Self {
        let (health, service) = tonic_health::server::health_reporter();
        let mut routes = RoutesBuilder::default();
        routes.add_service(service);
        let descriptors = vec![tonic_health::pb::FILE_DESCRIPTOR_SET];
        Self {
            config,
            routes,
            services: Vec::new(),
            descriptors,
            bulk_methods: HashSet::new(),
            unhurried_methods: HashSet::new(),
            health,
        }
    }

    /// Adds a service; limits on its messages and its compression are set on itself.
    #[must_use]
    pub fn add_service<S>(mut self, service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
    {
        self.services.push(S::NAME);
        self.routes.add_service(service);
        self
    }

    /// Adds a serialised `FileDescriptorSet`, for reflection and for the names of methods in spans and metrics: methods without
    /// a descriptor are `_OTHER`.
    #[must_use]
    pub fn reflection(mut self, descriptors: &'static [u8]) -> Self {
        self.descriptors.push(descriptors);
        self
    }

    /// Names methods, as `package.Service/Method`, whose calls are long and wait for one another: together they may be three
    /// quarters of the concurrent calls, so that the others always have room. Each needs a descriptor.
    #[must_use]
    pub fn bulk_methods(mut self, methods: &[&str]) -> Self {
        self.bulk_methods.extend(methods.iter().map(|&method| method.to_owned()));
        self
    }

    /// Names methods, as `package.Service/Method`, that take as long as they take: they have no deadline but their caller's.
    /// Each needs a descriptor.
    #[must_use]
    pub fn unhurried_methods(mut self, methods: &[&str]) -> Self {
        self.unhurried_methods.extend(methods.iter().map(|&method| method.to_owned()));
        self
    }

    /// Sets the health of single services while the server runs; at its start all added services are SERVING.
    pub fn health(&self) -> HealthReporter {
        self.health.clone()
    }

    /// Serves until `shutdown` completes, then drains: NOT_SERVING, the grace, no new connections, and the time-out for running
    /// calls, after which they are answered UNAVAILABLE. `on_ready` is called once, when calls are answered.
    ///
    /// # Errors
    /// [`Error::Descriptors`] and [`Error::UnknownMethod`] at the start, [`Error::Serve`] later.
    pub async fn serve(
        mut self,
        listener: Listener,
        shutdown: impl Future<Output = ()>,
        on_ready: impl FnOnce(),
    ) -> Result<(), Error> {
        let reflection = |descriptors: &[&'static [u8]]| {
            descriptors.iter().fold(tonic_reflection::server::Builder::configure(), |builder, descriptors| {
                builder.register_encoded_file_descriptor_set(descriptors)
            })
        };
        let unreadable = |error: tonic_reflection::server::Error| Error::Descriptors(error.to_string());
        self.routes.add_service(reflection(&self.descriptors).build_v1().map_err(unreadable)?);
        self.routes.add_service(reflection(&self.descriptors).build_v1alpha().map_err(unreadable)?);

        let mut methods = Vec::new();
        let own = [tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET, tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET];
        for descriptors in self.descriptors.iter().copied().chain(own) {
            methods.extend(described_methods(descriptors)?);
        }
        let metrics = Arc::new(RpcMetrics::new(methods.iter().map(|method| method.name.as_str())));
        // One that is misspelt would be bounded like all others, which shows only under load, or late.
        let mut named = self.bulk_methods.iter().chain(&self.unhurried_methods);
        if let Some(unknown) = named.find(|name| methods.iter().all(|known| known.name != **name)) {
            return Err(Error::UnknownMethod(unknown.clone()));
        }
        let streams = methods.into_iter().filter(|method| method.takes_stream).map(|method| method.name).collect();

        let (phases, drain) = PhaseSwitch::new();
        let layers = Layers {
            config: self.config.clone(),
            metrics,
            drain: drain.clone(),
            bulk_methods: Arc::new(self.bulk_methods),
            unhurried_methods: Arc::new(self.unhurried_methods),
            streams: Arc::new(streams),
        };
        let config = &self.config;
        let incoming = connections(listener.listener, config.keepalive_interval, config.max_connections);
        let mut server = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(config.keepalive_interval))
            .http2_keepalive_timeout(Some(config.keepalive_timeout))
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .http2_max_pending_accept_reset_streams(Some(MAX_PENDING_RESETS))
            .http2_max_header_list_size(config.max_header_bytes)
            .max_concurrent_streams(config.max_streams_per_connection)
            .layer(layers);
        if let Some(age) = config.max_connection_age {
            // Without tonic's own grace: with one, 0.14 cuts connections off instead of letting their calls end.
            server = server.max_connection_age(age);
        }
        let serving = server
            .add_routes(self.routes.routes())
            .serve_with_incoming_shutdown(incoming, drain.reached(Phase::Draining));
        let mut serving = std::pin::pin!(serving);

        set_health(&self.health, &self.services, ServingStatus::Serving).await;
        on_ready();
        tokio::select! {
            served = &mut serving => return served.map_err(Error::from),
            () = shutdown => {}
        }
        set_health(&self.health, &self.services, ServingStatus::NotServing).await;
        tracing::info!(grace = ?config.drain_grace, timeout = ?config.drain_timeout, "the server stops");
        // Still serving, so that whoever has not noticed yet is answered.
        tokio::select! {
            served = &mut serving => return served.map_err(Error::from),
            () = tokio::time::sleep(config.drain_grace) => {}
        }
        phases.enter(Phase::Draining);
        if let Ok(served) = tokio::time::timeout(config.drain_timeout, &mut serving).await {
            return served.map_err(Error::from);
        }
        tracing::warn!(timeout = ?config.drain_timeout, "calls still run after the time to finish and are cut off");
        phases.enter(Phase::CutOff);
        match tokio::time::timeout(CUT_OFF_GRACE, &mut serving).await {
            Ok(served) => served.map_err(Error::from),
            // A client that does not close its connection: nothing runs on it any more.
            Err(_) => Ok(()),
        }
    }
}

async fn set_health(health: &HealthReporter, services: &[&'static str], status: ServingStatus) {
    for service in services.iter().copied().chain([WHOLE_SERVER]) {
        health.set_service_status(service, status).await;
    }
}

/// What the descriptors say of a method.
struct DescribedMethod {
    /// `package.Service/Method`.
    name: String,
    /// Do its callers send a stream of messages?
    takes_stream: bool,
}

/// Every method in a serialised `FileDescriptorSet`.
fn described_methods(descriptors: &[u8]) -> Result<Vec<DescribedMethod>, Error> {
    let set = FileDescriptorSet::decode(descriptors).map_err(|error| Error::Descriptors(error.to_string()))?;
    let mut methods = Vec::new();
    for file in &set.file {
        let prefix = if file.package().is_empty() { String::new() } else { format!("{}.", file.package()) };
        for service in &file.service {
            for method in &service.method {
                let name = format!("{prefix}{}/{}", service.name(), method.name());
                methods.push(DescribedMethod { name, takes_stream: method.client_streaming() });
            }
        }
    }
    Ok(methods)
}

/// All layers, in their order.
#[derive(Clone)]
struct Layers {
    config: ServerConfig,
    metrics: Arc<RpcMetrics>,
    drain: Drain,
    bulk_methods: Arc<HashSet<String>>,
    unhurried_methods: Arc<HashSet<String>>,
    /// Methods that take streams.
    streams: Arc<HashSet<String>>,
}

/// What [`Layers`] make of a service.
type Stacked = BoxCloneService<Request<Body>, Response<Body>, Infallible>;

/// What everything within may ask of a request: when it came, and from where.
fn with_arrival(mut request: Request<Body>) -> Request<Body> {
    let extensions = request.extensions_mut();
    extensions.insert(Arrival(Instant::now()));
    if let Some(ConnectionInfo { addresses, .. }) = extensions.get() {
        let addresses = addresses.clone();
        extensions.insert(addresses);
    }
    request
}

impl<S: GrpcService> Layer<S> for Layers {
    type Service = Stacked;

    fn layer(&self, routes: S) -> Stacked {
        let config = &self.config;
        // From the inside out.
        let deadlines = Deadlines {
            default: config.default_deadline,
            longest: config.max_deadline,
            unhurried: Arc::clone(&self.unhurried_methods),
        };
        let service = MiddlewareLayer(UnknownMethods).layer(routes);
        let service = MiddlewareLayer(UnreadableRequests).layer(service);
        let bodies = RequestBodies::new(config.body_timeout, Arc::clone(&self.streams), self.drain.clone());
        let service = MiddlewareLayer(bodies).layer(service);
        let service = MiddlewareLayer(deadlines).layer(service);
        let limit = ConcurrencyLimit::new(
            config.max_concurrent_requests,
            Arc::clone(&self.bulk_methods),
            Arc::clone(&self.metrics),
        );
        let service = MiddlewareLayer(limit).layer(service);
        let authentication = Authentication(Arc::new(config.keys.clone()));
        let service = MiddlewareLayer(authentication).layer(service);
        let service = MiddlewareLayer(self.drain.clone()).layer(service);
        let service = MiddlewareLayer(PanicCatcher).layer(service);
        let service = MiddlewareLayer(Tracing(Arc::clone(&self.metrics))).layer(service);
        let service = MapRequest::new(service, with_arrival);
        BoxCloneService::new(service)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_read_from_descriptors() {
        let described = |descriptors| -> Vec<(String, bool)> {
            described_methods(descriptors)
                .unwrap()
                .into_iter()
                .map(|method| (method.name, method.takes_stream))
                .collect()
        };
        let health = described(tonic_health::pb::FILE_DESCRIPTOR_SET);
        assert!(health.contains(&("grpc.health.v1.Health/Check".to_owned(), false)), "{health:?}");
        assert!(health.contains(&("grpc.health.v1.Health/Watch".to_owned(), false)), "{health:?}");
        let reflection = described(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET);
        let streaming = "grpc.reflection.v1.ServerReflection/ServerReflectionInfo".to_owned();
        assert!(reflection.contains(&(streaming, true)), "{reflection:?}");
        assert!(matches!(described_methods(&[0xff, 0xff]), Err(Error::Descriptors(_))));
    }

    #[tokio::test]
    async fn an_address_in_use_is_named_with_a_way_out() {
        let first = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        assert_ne!(first.address().port(), 0);
        let error = bind(first.address()).await.unwrap_err().to_string();
        assert!(error.contains(&first.address().to_string()) && error.contains("choose another"), "{error}");
        let foreign = bind("192.0.2.1:7700".parse().unwrap()).await.unwrap_err().to_string();
        assert!(foreign.contains("192.0.2.1:7700") && foreign.contains("address of this machine"), "{foreign}");
    }
}
