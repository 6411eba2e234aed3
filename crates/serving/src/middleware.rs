//! The shape that all layers of this crate share: an async function around the rest of the stack.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use tonic::body::Body;
use tower::{Layer, Service};

/// A gRPC service as tonic's router is one: it always answers, errors being answers with a status.
pub trait GrpcService:
    Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

impl<S> GrpcService for S where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

/// One idea around a call. Cloned for each call.
pub trait Middleware: Clone + Send + 'static {
    /// Answers `request`, as a rule with the answer of [`call`] to `next`.
    fn handle<S: GrpcService>(self, request: Request<Body>, next: S) -> impl Future<Output = Response<Body>> + Send;
}

/// The answer of a service that is ready.
pub async fn call<S: GrpcService>(mut service: S, request: Request<Body>) -> Response<Body> {
    match service.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Makes a tower layer of a [`Middleware`].
#[derive(Debug, Clone)]
pub struct MiddlewareLayer<M>(pub M);

impl<S, M: Clone> Layer<S> for MiddlewareLayer<M> {
    type Service = Layered<M, S>;

    fn layer(&self, inner: S) -> Self::Service {
        Layered { middleware: self.0.clone(), inner }
    }
}

/// A service within a [`Middleware`].
#[derive(Debug, Clone)]
pub struct Layered<M, S> {
    middleware: M,
    inner: S,
}

impl<M: Middleware, S: GrpcService> Service<Request<Body>> for Layered<M, S> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The service that was polled ready is the one to call; its clone takes its place.
        let clone = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, clone);
        let middleware = self.middleware.clone();
        Box::pin(async move { Ok(middleware.handle(request, ready).await) })
    }
}
