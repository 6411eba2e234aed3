//! The end of a server as its calls see it: they may finish for a while, and are then cut off with UNAVAILABLE.

use std::future::Future;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use tokio::sync::watch;
use toller_core::Error;
use tonic::body::Body;

use crate::ending::call_until;
use crate::middleware::{GrpcService, Middleware};
use crate::open::is_open;
use crate::status::status;

/// How far a server's end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It serves.
    Serving,
    /// It takes no new connections. Health watches and reflection end, since they would never end by themselves.
    Draining,
    /// It waits no longer.
    CutOff,
}

/// Moves a server through its phases.
#[derive(Debug)]
pub struct PhaseSwitch(watch::Sender<Phase>);

impl PhaseSwitch {
    /// A switch that serves, and the layer that obeys it.
    pub fn new() -> (Self, Drain) {
        let (sender, receiver) = watch::channel(Phase::Serving);
        (Self(sender), Drain(receiver))
    }

    /// Enters a phase; never goes back.
    pub fn enter(&self, phase: Phase) {
        self.0.send_if_modified(|present| {
            let forward = phase > *present;
            if forward {
                *present = phase;
            }
            forward
        });
    }
}

/// Ends calls in the phase that is theirs to end in.
#[derive(Debug, Clone)]
pub struct Drain(watch::Receiver<Phase>);

impl Drain {
    /// Completes when `phase` is reached; never when the switch is gone before.
    pub fn reached(&self, phase: Phase) -> impl Future<Output = ()> + Send + use<> {
        let mut receiver = self.0.clone();
        async move {
            if receiver.wait_for(|present| *present >= phase).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Completes when the server of a call begins to drain: for handlers of streams, which then end by themselves.
pub fn draining<T>(request: &tonic::Request<T>) -> BoxFuture<'static, ()> {
    match request.extensions().get::<Drain>() {
        Some(drain) => drain.reached(Phase::Draining).boxed(),
        None => std::future::pending().boxed(),
    }
}

impl Middleware for Drain {
    async fn handle<S: GrpcService>(self, mut request: Request<Body>, next: S) -> Response<Body> {
        // For handlers of streams, which can finish what they have begun instead of being cut off.
        request.extensions_mut().insert(self.clone());
        let last = if is_open(request.uri().path()) { Phase::Draining } else { Phase::CutOff };
        let reached = self.reached(last);
        let ending = Box::pin(async move {
            reached.await;
            status(&Error::Unavailable("the server stops; retry on another one".to_owned()))
        });
        call_until(next, request, ending).await
    }
}
