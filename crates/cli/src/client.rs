//! The connection to a server, which all client commands share: where it is, who asks, and how long to wait.

use std::error::Error as _;
use std::fmt;
use std::future::Future;
use std::time::Duration;

use toller_api::v1::backups_client::BackupsClient;
use toller_api::v1::collections_client::CollectionsClient;
use toller_api::v1::document_stores_client::DocumentStoresClient;
use toller_api::v1::documents_client::DocumentsClient;
use toller_api::v1::embedder_client::EmbedderClient;
use toller_api::v1::operations_client::OperationsClient;
use toller_api::v1::retrieval_client::RetrievalClient;
use toller_api::v1::retrievers_client::RetrieversClient;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_health::pb::health_client::HealthClient;

use crate::error::Error;

/// Longest wait for the connection itself; an address where nobody answers at all is found out this soon.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a connection asks whether the other side is still there, and how long it waits for the answer. A call without a
/// deadline would wait for ever for a server that lost its power.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// Longest wait for one call, where the command line does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Largest answer in bytes. The client trusts its server; this only bounds memory against a broken one.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// Which server, as whom, and for how long.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ServerArgs {
    /// Server to talk to
    #[arg(long, value_name = "URL", env = "TOLLER_SERVER", default_value = "http://127.0.0.1:7700")]
    server: String,
    /// API key, where the server wants one
    #[arg(long, value_name = "KEY", env = "TOLLER_API_KEY", hide_env_values = true)]
    api_key: Option<ApiKey>,
    /// Longest wait for one call, in seconds; also sent to the server as the deadline [default: 30; ingest, watch, backup and restore: none]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    timeout: Option<Duration>,
}

/// A secret that debug output does not show.
#[derive(Clone)]
struct ApiKey(String);

impl From<&str> for ApiKey {
    fn from(key: &str) -> Self {
        Self(key.to_owned())
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ApiKey(hidden)")
    }
}

/// A number of seconds, such as `30` or `0.5`; more than zero.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "must be a number of seconds, such as 30 or 0.5".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("must be more than 0 seconds".to_owned()),
    }
}

impl ServerArgs {
    /// Connects.
    ///
    /// # Errors
    /// `Usage` for an address or key that cannot be one, `Connect` when nobody answers.
    pub(crate) async fn connect(&self) -> Result<Connection, Error> {
        self.connect_with(Some(self.timeout.unwrap_or(DEFAULT_TIMEOUT))).await
    }

    /// Connects for calls that take as long as they take, unless the command line says how long.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub(crate) async fn connect_unhurried(&self) -> Result<Connection, Error> {
        self.connect_with(self.timeout).await
    }

    async fn connect_with(&self, timeout: Option<Duration>) -> Result<Connection, Error> {
        let server = with_scheme(&self.server)?;
        let endpoint = Endpoint::from_shared(server.clone())
            .and_then(|endpoint| endpoint.user_agent(concat!("toller/", env!("CARGO_PKG_VERSION"))))
            .map_err(|fault| Error::Usage(format!("--server {server:?} is no URL: {}", innermost(&fault))))?
            .connect_timeout(timeout.map_or(CONNECT_TIMEOUT, |timeout| timeout.min(CONNECT_TIMEOUT)))
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE);
        let caller = Caller { authorization: self.authorization()?, timeout };
        match endpoint.connect().await {
            Ok(channel) => Ok(Connection { service: InterceptedService::new(channel, caller) }),
            Err(fault) => Err(Error::Connect { server, fault: innermost(&fault) }),
        }
    }

    fn authorization(&self) -> Result<Option<MetadataValue<Ascii>>, Error> {
        let Some(ApiKey(key)) = &self.api_key else { return Ok(None) };
        let mut value: MetadataValue<Ascii> = format!("Bearer {key}")
            .parse()
            .map_err(|_| Error::Usage("--api-key must be visible ASCII characters only".to_owned()))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

/// `host:port` means plain HTTP/2.
fn with_scheme(server: &str) -> Result<String, Error> {
    match server.split_once("://") {
        None => Ok(format!("http://{server}")),
        Some(("http", _)) => Ok(server.to_owned()),
        Some(("https", _)) => Err(Error::Usage(format!(
            "--server {server}: this command speaks plain HTTP/2 only; use http:// or go through a proxy that ends TLS"
        ))),
        Some((scheme, _)) => Err(Error::Usage(format!("--server {server}: unknown scheme {scheme:?}; use http://"))),
    }
}

/// The cause of all causes: "connection refused" rather than "transport error".
fn innermost(fault: &tonic::transport::Error) -> String {
    let mut cause = fault.source();
    let mut text = fault.to_string();
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    text
}

/// Puts the credential and the deadline on every call.
#[derive(Clone)]
pub(crate) struct Caller {
    authorization: Option<MetadataValue<Ascii>>,
    /// None for no deadline.
    timeout: Option<Duration>,
}

impl Interceptor for Caller {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(timeout) = self.timeout {
            request.set_timeout(timeout);
        }
        if let Some(authorization) = &self.authorization {
            request.metadata_mut().insert("authorization", authorization.clone());
        }
        Ok(request)
    }
}

/// What the clients of the services send through.
pub(crate) type Service = InterceptedService<Channel, Caller>;

/// A connection to a server; its clients share it and are cheap to make.
#[derive(Clone)]
pub(crate) struct Connection {
    service: Service,
}

impl Connection {
    /// Client of `toller.v1.Backups`.
    pub(crate) fn backups(&self) -> BackupsClient<Service> {
        BackupsClient::new(self.service.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// Client of `toller.v1.Collections`.
    pub(crate) fn collections(&self) -> CollectionsClient<Service> {
        CollectionsClient::new(self.service.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// Client of `toller.v1.Documents`.
    pub(crate) fn documents(&self) -> DocumentsClient<Service> {
        DocumentsClient::new(self.service.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// Client of `toller.v1.DocumentStores`.
    pub(crate) fn document_stores(&self) -> DocumentStoresClient<Service> {
        DocumentStoresClient::new(self.service.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// Client of `toller.v1.Embedder`.
    pub(crate) fn embedder(&self) -> EmbedderClient<Service> {
        EmbedderClient::new(self.service.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// Client of `toller.v1.Operations`.
    pub(crate) fn operations(&self) -> OperationsClient<Service> {
        OperationsClient::new(self.service.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// Client of `toller.v1.Retrieval`.
    pub(crate) fn retrieval(&self) -> RetrievalClient<Service> {
        RetrievalClient::new(self.service.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// Client of `toller.v1.Retrievers`.
    pub(crate) fn retrievers(&self) -> RetrieversClient<Service> {
        RetrieversClient::new(self.service.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// Client of `grpc.health.v1.Health`.
    pub(crate) fn health(&self) -> HealthClient<Service> {
        HealthClient::new(self.service.clone())
    }
}

/// Runs a client command to its end on a small runtime of its own.
///
/// # Errors
/// Those of the command, and `Failed` when the system gives no runtime.
pub(crate) fn block_on<T>(command: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|fault| Error::Failed(format!("cannot start the async runtime: {fault}")))?
        .block_on(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes() {
        assert_eq!(with_scheme("localhost:7700").unwrap(), "http://localhost:7700");
        assert_eq!(with_scheme("http://h:1").unwrap(), "http://h:1");
        assert!(with_scheme("https://h:1").is_err());
        assert!(with_scheme("ftp://h:1").is_err());
    }

    #[test]
    fn seconds() {
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "-1", "nan", "inf", "1e300", "soon"] {
            assert!(parse_seconds(bad).is_err(), "{bad} must be refused");
        }
    }

    fn arguments(server: &str) -> ServerArgs {
        ServerArgs { server: server.to_owned(), api_key: Some("s3cret".into()), timeout: Some(Duration::from_secs(2)) }
    }

    #[test]
    fn nobody_there_says_what_to_do() {
        // Bound and dropped: a port that nobody listens on.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let Err(error) = block_on(arguments(&format!("127.0.0.1:{port}")).connect()) else { panic!("connected") };
        let text = error.to_string();
        assert!(text.contains(&format!("http://127.0.0.1:{port}")), "{text}");
        assert!(text.contains("refused") && text.contains("toller serve"), "{text}");
    }

    #[test]
    fn every_call_carries_key_and_deadline() {
        let arguments = arguments("unused");
        let mut caller = Caller { authorization: arguments.authorization().unwrap(), timeout: arguments.timeout };
        let request = caller.call(Request::new(())).unwrap();
        assert_eq!(request.metadata().get("authorization").unwrap(), "Bearer s3cret");
        assert_eq!(request.metadata().get("grpc-timeout").unwrap(), "2000000u");
        assert!(!format!("{arguments:?}").contains("s3cret"));
        let mut unhurried = Caller { timeout: None, ..caller };
        assert!(unhurried.call(Request::new(())).unwrap().metadata().get("grpc-timeout").is_none());
    }
}
