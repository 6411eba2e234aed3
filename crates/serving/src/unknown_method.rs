//! What this server does not have is said by name: tonic answers UNIMPLEMENTED without a word.

use http::{Request, Response};
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::middleware::{GrpcService, Middleware, call};
use crate::status::{ERROR_DOMAIN, MAX_NAME_BYTES, bounded};

/// Gives UNIMPLEMENTED answers a message, where they have none, and `ErrorInfo`.
#[derive(Debug, Clone, Copy, Default)]
pub struct UnknownMethods;

impl Middleware for UnknownMethods {
    async fn handle<S: GrpcService>(self, request: Request<Body>, next: S) -> Response<Body> {
        let uri = request.uri().clone();
        let answer = call(next, request).await;
        let is_bare = |status: &Status| status.code() == Code::Unimplemented && status.details().is_empty();
        let Some(bare) = Status::from_header_map(answer.headers()).filter(is_bare) else {
            return answer;
        };
        let path = uri.path();
        let method = bounded(path.strip_prefix('/').unwrap_or(path), MAX_NAME_BYTES);
        // One with a message speaks of something else, such as a compression, and says more in its metadata.
        let message = match bare.message() {
            "" => {
                format!("this server does not have the method {method}; it may be of another version than its client")
            }
            said => said.to_owned(),
        };
        let mut details = ErrorDetails::new();
        details.set_error_info("UNIMPLEMENTED", ERROR_DOMAIN, [("method".to_owned(), method)]);
        let metadata = bare.metadata().clone();
        Status::with_error_details_and_metadata(Code::Unimplemented, message, details, metadata).into_http()
    }
}
