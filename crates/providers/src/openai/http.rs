//! A small HTTP client: JSON in and out, bounded in bytes and time.

use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

/// Time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for one try, for callers without a deadline of their own.
const TRY_TIMEOUT: Duration = Duration::from_secs(120);

/// Idle connections are closed before most proxies close them.
const IDLE_TIMEOUT: Duration = Duration::from_secs(50);

/// Largest body of an answer, for callers without a bound of their own: enough for 2048 vectors of 3072 dimensions as JSON numbers.
const MAX_BODY_BYTES: usize = 128 * 1024 * 1024;

/// Longest time that a service may ask to wait.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(3600);

pub(super) struct HttpClient {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    authorization: Option<HeaderValue>,
    max_body_bytes: usize,
}

/// An answer, whatever its status.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Bytes,
}

impl HttpClient {
    /// # Errors
    /// When TLS cannot be set up.
    pub(super) fn new(authorization: Option<HeaderValue>) -> Result<Self, String> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.set_nodelay(true);
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_webpki_roots(rustls::crypto::ring::default_provider())
            .map_err(|fault| format!("TLS cannot be set up: {fault}"))?
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Ok(Self { client, authorization, max_body_bytes: MAX_BODY_BYTES })
    }

    /// The same client, which takes answers of at most `max_body_bytes`.
    pub(super) fn with_max_body(self, max_body_bytes: usize) -> Self {
        Self { max_body_bytes, ..self }
    }

    pub(super) async fn get(&self, uri: Uri) -> Result<Answer, String> {
        self.send(Method::GET, uri, Bytes::new()).await
    }

    pub(super) async fn post(&self, uri: Uri, json: Bytes) -> Result<Answer, String> {
        self.send(Method::POST, uri, json).await
    }

    /// # Errors
    /// Says why there is no answer.
    async fn send(&self, method: Method, uri: Uri, body: Bytes) -> Result<Answer, String> {
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("toller/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(body))
            .map_err(|fault| fault.to_string())?;
        if let Some(value) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, value.clone());
        }
        let exchange = async {
            let answer = self.client.request(request).await.map_err(|fault| root_cause(&fault))?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, self.max_body_bytes).collect().await.map_err(|fault| {
                if fault.is::<LengthLimitError>() {
                    return format!("its answer is larger than {} bytes", self.max_body_bytes);
                }
                root_cause(fault.as_ref())
            })?;
            Ok(Answer { status: head.status, retry_after: retry_after(&head.headers), body: body.to_bytes() })
        };
        match tokio::time::timeout(TRY_TIMEOUT, exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer within {TRY_TIMEOUT:?}")),
        }
    }
}

/// `Retry-After` in seconds. Its other form, a date, is left alone: clocks differ.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_RETRY_AFTER))
}

/// The innermost cause: "connection refused" instead of "client error".
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
