//! The connection to one text-embeddings-inference server.

use std::time::{Duration, Instant};

use toller_core::{Error, RequestContext, Result};
use toller_telemetry::propagation;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use super::config::{SERVICE, TeiConfig};
use super::proto::v1::info_client::InfoClient;
use super::proto::v1::{InfoRequest, InfoResponse, ModelType};
use crate::budget::RetryBudget;
use crate::error::ProviderError;
use crate::retry::{Failure, start_context, with_retries};

/// Largest answer: the vector of one text.
pub(super) const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// Time for the question whether the server can be reached.
const REACH_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) struct TeiServer {
    pub(super) config: TeiConfig,
    pub(super) channel: Channel,
    pub(super) info: InfoResponse,
    authorization: Option<MetadataValue<Ascii>>,
    budget: RetryBudget,
}

impl TeiServer {
    /// Connects, and asks which model is served.
    ///
    /// # Errors
    /// See [`ProviderError`]; a model that is not of `wanted` type is one.
    pub(super) async fn connect(config: TeiConfig, wanted: ModelType) -> Result<Self, ProviderError> {
        config.check()?;
        let authorization = config.authorization()?;
        let endpoint = Endpoint::from_shared(config.address.clone()).map_err(|fault| ProviderError::Url {
            url: config.address.clone(),
            service: SERVICE,
            fault: format!("is no URL ({fault})"),
            example: "http://tei:8080",
        })?;
        let channel = endpoint
            .connect_timeout(Duration::from_secs(5))
            .tcp_nodelay(true)
            .http2_keep_alive_interval(Duration::from_secs(10))
            .keep_alive_timeout(Duration::from_secs(5))
            .keep_alive_while_idle(true)
            .connect_lazy();
        let info = InfoResponse::default();
        let mut server = Self { config, channel, info, authorization, budget: RetryBudget::new() };
        let give_up = Instant::now() + server.config.start_timeout;
        let context = start_context(give_up);
        server.info = loop {
            match server.call(&context, "while the server was asked for its model", |request| server.ask(request)).await
            {
                Ok(info) => break info,
                // Still starting.
                Err(Error::Unavailable(_)) if Instant::now() < give_up => {}
                Err(fault) => {
                    let address = server.config.address;
                    return Err(ProviderError::Unusable { service: SERVICE, address, fault: fault.to_string() });
                }
            }
        };
        if server.info.model_type() != wanted {
            let fault = format!("{:?} is a model of the kind {:?}", server.info.model_id, server.info.model_type());
            return Err(ProviderError::Model { service: SERVICE, address: server.config.address, fault });
        }
        Ok(server)
    }

    async fn ask(&self, request: Request<()>) -> Result<InfoResponse, Status> {
        let request = request.map(|()| InfoRequest {});
        Ok(InfoClient::new(self.channel.clone()).info(request).await?.into_inner())
    }

    /// Sends a call, again where that can help. `send` gets a request with key, deadline and trace to put its message into.
    pub(super) async fn call<A, Send_, Answer>(
        &self,
        context: &RequestContext,
        during: &'static str,
        send: Send_,
    ) -> Result<A>
    where
        Send_: Fn(Request<()>) -> Answer + Send + Sync,
        Answer: Future<Output = Result<A, Status>> + Send,
        A: Send,
    {
        let attempt = || async {
            let mut request = Request::new(());
            if let Some(value) = &self.authorization {
                request.metadata_mut().insert("authorization", value.clone());
            }
            if let Some(remaining) = context.remaining() {
                request.set_timeout(remaining);
            }
            propagation::inject(&tracing::Span::current(), request.metadata_mut().as_mut());
            send(request).await.map_err(|status| self.failure(context, during, &status))
        };
        with_retries(context, during, &self.budget, attempt).await
    }

    fn failure(&self, context: &RequestContext, during: &'static str, status: &Status) -> Failure {
        let said = format!("{SERVICE} at {}: {}", self.config.address, status.message());
        if let Err(error) = context.check(during) {
            return Failure::Final(error);
        }
        let passing = |error| Failure::Passing { error, after: None };
        // What has a source was made up on this side: the connection broke.
        if std::error::Error::source(status).is_some() {
            return passing(Error::Unavailable(format!("{said}; check that it runs and serves gRPC")));
        }
        match status.code() {
            Code::InvalidArgument => Failure::Final(Error::invalid("", status.message())),
            Code::DeadlineExceeded => Failure::Final(Error::DeadlineExceeded(during)),
            Code::ResourceExhausted => passing(Error::ResourceExhausted { what: said, retry_after: None }),
            Code::Unavailable => passing(Error::Unavailable(said)),
            code => Failure::Final(Error::Internal(format!("{said} ({code:?})"))),
        }
    }

    /// Asks for its model, once.
    pub(super) async fn reach(&self) -> Result<()> {
        let fault = match tokio::time::timeout(REACH_TIMEOUT, self.ask(Request::new(()))).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(status)) => status.message().to_owned(),
            Err(_) => format!("no answer within {REACH_TIMEOUT:?}"),
        };
        Err(Error::Unavailable(format!("{SERVICE} at {} cannot be reached: {fault}", self.config.address)))
    }

    /// Calls of one batch that are with the server at a time.
    pub(super) fn parallel(&self) -> usize {
        let most = self.info.max_concurrent_requests as usize;
        if most == 0 { self.config.parallel_requests } else { self.config.parallel_requests.min(most) }
    }
}
