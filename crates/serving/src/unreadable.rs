//! A request that tonic cannot read is its caller's fault, and a request that breaks off is nobody's.
//!
//! tonic answers INTERNAL where a message is no protobuf, is not whole or does not decompress, and UNKNOWN where the connection
//! breaks within it. Both would count as faults of the server, in its metrics and its log, and tell the caller to complain.

use http::{Request, Response};
use toller_core::Error;
use tonic::body::Body;
use tonic::{Code, Status};

use crate::middleware::{GrpcService, Middleware, call};
use crate::status::status;

/// Answers INVALID_ARGUMENT for what cannot be read, and CANCELLED for what broke off.
#[derive(Debug, Clone, Copy, Default)]
pub struct UnreadableRequests;

impl Middleware for UnreadableRequests {
    async fn handle<S: GrpcService>(self, request: Request<Body>, next: S) -> Response<Body> {
        let answer = call(next, request).await;
        // Errors of handlers always have details, so what has none is tonic's own.
        match Status::from_header_map(answer.headers()).filter(|refusal| refusal.details().is_empty()) {
            Some(refusal) if refusal.code() == Code::Internal => {
                let fault = format!("the request cannot be read: {}", refusal.message());
                status(&Error::invalid("", fault)).into_http()
            }
            Some(refusal) if refusal.code() == Code::Unknown => status(&Error::Cancelled).into_http(),
            _ => answer,
        }
    }
}
