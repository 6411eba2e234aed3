//! What happens to a call before it is served: the key is looked at, and faults are made.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};

use crate::faults::{Fate, Faults};

/// Where the key is.
const API_KEY: &str = "api-key";

/// Puts a [`Door`] before a service.
#[derive(Debug, Clone)]
pub(crate) struct DoorLayer {
    faults: Arc<Faults>,
    api_keys: Arc<[String]>,
}

impl DoorLayer {
    pub(crate) fn new(faults: Arc<Faults>, api_keys: Vec<String>) -> Self {
        Self { faults, api_keys: api_keys.into() }
    }
}

impl<S> Layer<S> for DoorLayer {
    type Service = Door<S>;
    fn layer(&self, inner: S) -> Door<S> {
        Door { inner, layer: self.clone() }
    }
}

/// See the [module](self).
#[derive(Debug, Clone)]
pub(crate) struct Door<S> {
    inner: S,
    layer: DoorLayer,
}

impl<S> Service<Request<Body>> for Door<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let key = request.headers().get(API_KEY).and_then(|key| key.to_str().ok()).unwrap_or_default().to_owned();
        let is_let_in = self.layer.api_keys.is_empty() || self.layer.api_keys.contains(&key);
        let fate = self.layer.faults.fate(&key);
        let mut inner = self.inner.clone();
        Box::pin(async move {
            if !is_let_in {
                return Ok(Status::unauthenticated("Must provide an API key").into_http());
            }
            match fate {
                Fate::Refused => Ok(Status::unavailable("a fault that was asked for").into_http()),
                Fate::AnswerLost => {
                    inner.call(request).await?;
                    Ok(Status::unavailable("the answer was lost, as was asked for").into_http())
                }
                Fate::Answered(delay) => {
                    tokio::time::sleep(delay).await;
                    inner.call(request).await
                }
            }
        })
    }
}
