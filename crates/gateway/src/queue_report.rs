//! Every answer of the Embedder service says how many tokens wait in this process, so that callers can choose among workers.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderName, HeaderValue, Request, Response};
use tonic::body::Body;
use tonic::server::NamedService;
use tower::Service;

/// Metadata of every answer: the tokens that waited for the models of the process when it was sent.
pub(crate) const QUEUED_TOKENS: HeaderName = HeaderName::from_static("toller-queued-tokens");

/// How many tokens wait; called for each answer, so it must be quick.
pub(crate) type QueuedTokens = Arc<dyn Fn() -> usize + Send + Sync>;

/// The Embedder service, with the report in the headers of what it answers; errors included.
#[derive(Clone)]
pub(crate) struct QueueReport<S> {
    pub(crate) service: S,
    pub(crate) queued_tokens: QueuedTokens,
}

impl<S: NamedService> NamedService for QueueReport<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for QueueReport<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answer = self.service.call(request);
        let queued_tokens = Arc::clone(&self.queued_tokens);
        Box::pin(async move {
            let mut answer = answer.await?;
            answer.headers_mut().insert(QUEUED_TOKENS, HeaderValue::from(queued_tokens()));
            Ok(answer)
        })
    }
}
