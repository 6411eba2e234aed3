//! Calls to the server: one connection, the key, deadlines and retries.
//!
//! The generated clients are used rather than the ready-made one of the client library, which has one time limit for all
//! calls, trusts the machine's certificates alone, and tries again on its own.

use std::future::Future;
use std::time::{Duration, Instant};

use qdrant_client::qdrant::collections_client::CollectionsClient;
use qdrant_client::qdrant::points_client::PointsClient;
use qdrant_client::qdrant::qdrant_client::QdrantClient;
use qdrant_client::qdrant::{
    CountPoints, CreateCollection, CreateFieldIndexCollection, DeletePoints, Filter, GetPoints, HealthCheckRequest,
    PointStruct, PointsOperationResponse, QueryPoints, ReadConsistency, ReadConsistencyType, RetrievedPoint,
    ScoredPoint, ScrollPoints, ScrollResponse, SetPayloadPoints, UpdateStatus, UpsertPoints, read_consistency,
};
use toller_core::error::{Error, Result};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Response, Status};

use super::config::QdrantConfig;
use super::error::{QdrantError, of_status};
use super::patience::Patience;

/// Where the key goes.
const API_KEY: &str = "api-key";

/// The wait before the first retry; it doubles with each.
const FIRST_WAIT: Duration = Duration::from_millis(25);

/// How long a call may take at least that makes a collection or an index, or removes any number of points.
const LONG_CALL: Duration = Duration::from_secs(60);

/// Pings keep the connection through load balancers, and find out when the server is gone.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// A connection to the server. Cheap to clone.
///
/// Every call may be made twice with the same outcome as once, so each is tried again where the server was not reached.
#[derive(Debug, Clone)]
pub(super) struct Client {
    channel: Channel,
    api_key: Option<MetadataValue<Ascii>>,
    timeout: Duration,
    retries: u32,
    has_copies: bool,
}

impl Client {
    /// A client that connects with the first call.
    pub(super) fn new(config: &QdrantConfig) -> Result<Self, QdrantError> {
        let fault = |what: String| QdrantError::Config { what };
        let api_key = config.api_key.as_deref().map(|key| -> Result<_, QdrantError> {
            let mut value = MetadataValue::try_from(key)
                .map_err(|_| fault("the API key of Qdrant has characters that a header cannot carry".to_owned()))?;
            value.set_sensitive(true);
            Ok(value)
        });
        let wrong_url =
            |reason: tonic::transport::Error| fault(format!("\"{}\" is no address of Qdrant: {reason}", config.url));
        let mut endpoint = Endpoint::from_shared(config.url.clone())
            .map_err(wrong_url)?
            .connect_timeout(config.connect_timeout)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_while_idle(true)
            .tcp_nodelay(true);
        if config.url.starts_with("https:") {
            let roots = match &config.ca_file {
                None => ClientTlsConfig::new().with_native_roots(),
                Some(path) => {
                    let pem = std::fs::read(path)
                        .map_err(|source| QdrantError::Certificates { path: path.clone(), source })?;
                    ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem))
                }
            };
            endpoint = endpoint.tls_config(roots).map_err(wrong_url)?;
        }
        Ok(Self {
            channel: endpoint.connect_lazy(),
            api_key: api_key.transpose()?,
            timeout: config.timeout,
            retries: config.retries,
            has_copies: config.has_copies(),
        })
    }

    /// The same connection for calls that take long.
    pub(super) fn for_long_calls(&self) -> Self {
        Self { timeout: self.timeout.max(LONG_CALL), ..self.clone() }
    }

    /// The version of the server.
    pub(super) async fn version(&self, patience: Patience<'_>) -> Result<String> {
        let reply = self
            .call("HealthCheck", patience, HealthCheckRequest {}, |request| async {
                QdrantClient::new(self.channel.clone()).health_check(request).await
            })
            .await?;
        Ok(reply.version)
    }

    /// Makes a collection where there is none of that name.
    pub(super) async fn create_collection(&self, patience: Patience<'_>, request: CreateCollection) -> Result<()> {
        let made = self
            .try_call("CreateCollection", patience, request, |request| async {
                CollectionsClient::new(self.channel.clone()).create(request).await
            })
            .await?;
        match made {
            Ok(_) => Ok(()),
            // Releases differ in the code that they give.
            Err(status) if status.code() == Code::AlreadyExists || status.message().contains("already exists") => {
                Ok(())
            }
            Err(status) => Err(of_status("CreateCollection", &status)),
        }
    }

    /// Indexes a field of the payload.
    pub(super) async fn create_index(&self, patience: Patience<'_>, request: CreateFieldIndexCollection) -> Result<()> {
        self.call("CreateFieldIndex", patience, request, |request| async {
            self.points().create_field_index(request).await
        })
        .await?;
        Ok(())
    }

    /// Writes points.
    pub(super) async fn upsert(&self, patience: Patience<'_>, request: UpsertPoints) -> Result<()> {
        const CALL: &str = "Upsert";
        let reply = self.call(CALL, patience, request, |request| async { self.points().upsert(request).await });
        check_applied(CALL, &reply.await?)
    }

    /// Writes fields of payloads.
    pub(super) async fn set_payload(&self, patience: Patience<'_>, request: SetPayloadPoints) -> Result<()> {
        const CALL: &str = "SetPayload";
        let reply = self.call(CALL, patience, request, |request| async { self.points().set_payload(request).await });
        check_applied(CALL, &reply.await?)
    }

    /// Removes points.
    pub(super) async fn delete(&self, patience: Patience<'_>, request: DeletePoints) -> Result<()> {
        const CALL: &str = "Delete";
        let waits = request.wait == Some(true);
        let reply = self.call(CALL, patience, request, |request| async { self.points().delete(request).await });
        let reply = reply.await?;
        if waits { check_applied(CALL, &reply) } else { Ok(()) }
    }

    /// Points by id, in no order.
    pub(super) async fn get(&self, patience: Patience<'_>, mut request: GetPoints) -> Result<Vec<RetrievedPoint>> {
        request.read_consistency = self.read_consistency();
        let reply = self.call("Get", patience, request, |request| async { self.points().get(request).await });
        Ok(reply.await?.result)
    }

    /// How many points pass a filter.
    pub(super) async fn count(&self, patience: Patience<'_>, collection: &str, filter: Filter) -> Result<u64> {
        let request = CountPoints {
            collection_name: collection.to_owned(),
            filter: Some(filter),
            exact: Some(true),
            read_consistency: self.read_consistency(),
            ..CountPoints::default()
        };
        let reply = self.call("Count", patience, request, |request| async { self.points().count(request).await });
        Ok(reply.await?.result.map_or(0, |result| result.count))
    }

    /// A page of points.
    pub(super) async fn scroll(&self, patience: Patience<'_>, mut request: ScrollPoints) -> Result<ScrollResponse> {
        request.read_consistency = self.read_consistency();
        self.call("Scroll", patience, request, |request| async { self.points().scroll(request).await }).await
    }

    /// The points that are nearest to a vector.
    pub(super) async fn query(&self, patience: Patience<'_>, mut request: QueryPoints) -> Result<Vec<ScoredPoint>> {
        request.read_consistency = self.read_consistency();
        let reply = self.call("Query", patience, request, |request| async { self.points().query(request).await });
        Ok(reply.await?.result)
    }

    fn points(&self) -> PointsClient<Channel> {
        PointsClient::new(self.channel.clone()).max_decoding_message_size(usize::MAX)
    }

    /// With several copies, more than half are asked: one of them has every write that counts.
    fn read_consistency(&self) -> Option<ReadConsistency> {
        let majority = read_consistency::Value::Type(ReadConsistencyType::Majority.into());
        self.has_copies.then_some(ReadConsistency { value: Some(majority) })
    }

    async fn call<Q: Clone, A, F: Future<Output = Result<Response<A>, Status>>>(
        &self,
        name: &'static str,
        patience: Patience<'_>,
        message: Q,
        send: impl Fn(Request<Q>) -> F,
    ) -> Result<A> {
        self.try_call(name, patience, message, send).await?.map_err(|status| of_status(name, &status))
    }

    /// Makes a call, again and again where the server was not reached; the inner result is the server's own answer.
    async fn try_call<Q: Clone, A, F: Future<Output = Result<Response<A>, Status>>>(
        &self,
        name: &'static str,
        patience: Patience<'_>,
        message: Q,
        send: impl Fn(Request<Q>) -> F,
    ) -> Result<Result<A, Status>> {
        let mut wait = FIRST_WAIT;
        let mut retries_left = self.retries;
        loop {
            let limit = patience.time_for_a_call(self.timeout)?;
            let mut request = Request::new(message.clone());
            request.set_timeout(limit);
            if let Some(key) = &self.api_key {
                request.metadata_mut().insert(API_KEY, key.clone());
            }
            let asked_at = Instant::now();
            let fault = match tokio::time::timeout(limit, send(request)).await {
                Ok(Ok(response)) => return Ok(Ok(response.into_inner())),
                Ok(Err(status)) if is_timeout(&status) => return Err(patience.too_long(name, asked_at.elapsed())),
                Ok(Err(status)) if status.code() == Code::Unavailable => status,
                Ok(Err(status)) => return Ok(Err(status)),
                Err(_) => return Err(patience.too_long(name, limit)),
            };
            if retries_left == 0 {
                return Ok(Err(fault));
            }
            if let Patience::Of(context) = patience
                && context.remaining().is_some_and(|remaining| remaining <= wait)
            {
                return Err(Error::DeadlineExceeded("while Qdrant could not be reached"));
            }
            tracing::debug!(call = name, fault = fault.message(), retries_left, "retry of a call to Qdrant");
            tokio::time::sleep(wait).await;
            wait *= 2;
            retries_left -= 1;
        }
    }
}

/// Was the change made? The server may also say that it was put off, or refused as outdated.
fn check_applied(call: &'static str, reply: &PointsOperationResponse) -> Result<()> {
    let status = reply.result.map(|result| result.status());
    if status == Some(UpdateStatus::Completed) {
        return Ok(());
    }
    Err(Error::Unavailable(format!("Qdrant, {call}: the change was not made ({status:?}); retry")))
}

/// Did the time run out, here or there?
fn is_timeout(status: &Status) -> bool {
    match status.code() {
        Code::DeadlineExceeded => true,
        Code::Cancelled => status.message().contains("Timeout"),
        _ => false,
    }
}

/// A point to write, in the form of one.
pub(super) fn upsert_of(collection: &str, points: Vec<PointStruct>) -> UpsertPoints {
    UpsertPoints { collection_name: collection.to_owned(), wait: Some(true), points, ..UpsertPoints::default() }
}
