//! The service `qdrant.Qdrant`.

use qdrant_client::qdrant::qdrant_server::Qdrant;
use qdrant_client::qdrant::{HealthCheckReply, HealthCheckRequest};
use tonic::{Request, Response, Status};

/// Says which version it takes after.
#[derive(Debug)]
pub(crate) struct HealthCalls;

#[tonic::async_trait]
impl Qdrant for HealthCalls {
    async fn health_check(&self, _: Request<HealthCheckRequest>) -> Result<Response<HealthCheckReply>, Status> {
        let title = "qdrant - vector search engine (a server for tests)".to_owned();
        Ok(Response::new(HealthCheckReply { title, version: "1.20.0".to_owned(), commit: None }))
    }
}
