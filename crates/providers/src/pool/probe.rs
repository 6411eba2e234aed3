//! Asking a worker whether it can be used, and with which models.

use std::time::Duration;

use toller_api::v1;
use toller_core::{Principal, RequestContext};
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;

use super::failure::Failure;
use super::fault::Fault;
use super::models::{PoolModel, models_from_message};
use super::worker::Worker;

/// Time for both answers. They wait for nothing, so a worker that takes longer is in trouble.
const PATIENCE: Duration = Duration::from_secs(5);

/// The service whose health counts.
const EMBEDDER: &str = "toller.v1.Embedder";

/// The models of a worker that says that it serves.
///
/// # Errors
/// Why it cannot be used.
pub(crate) async fn probe(worker: &Worker) -> Result<Vec<PoolModel>, Fault> {
    match tokio::time::timeout(PATIENCE, ask(worker)).await {
        Ok(answer) => answer,
        Err(_) => Err(Fault::Silent),
    }
}

async fn ask(worker: &Worker) -> Result<Vec<PoolModel>, Fault> {
    let question = HealthCheckRequest { service: EMBEDDER.to_owned() };
    match worker.health().check(worker.bare_request(question)).await {
        Ok(answer) if answer.get_ref().status() == ServingStatus::Serving => {}
        Ok(_) => return Err(Fault::NotServing),
        // A server without the health service may still serve.
        Err(status) if status.code() == Code::Unimplemented => {}
        Err(status) if status.code() == Code::NotFound => {
            return Err(Fault::Refused(format!("what answers there does not serve {EMBEDDER}")));
        }
        Err(status) => return Err(fault(worker, &status)),
    }
    let listed = worker.embedder().list_models(worker.bare_request(v1::ListModelsRequest {})).await;
    match listed {
        Ok(answer) => {
            worker.note_queue(answer.metadata());
            models_from_message(answer.into_inner().models).map_err(Fault::OtherModel)
        }
        Err(status) if status.code() == Code::Unimplemented => {
            Err(Fault::Refused(format!("what answers there does not serve {EMBEDDER}")))
        }
        Err(status) => Err(fault(worker, &status)),
    }
}

fn fault(worker: &Worker, status: &Status) -> Fault {
    let nobody = RequestContext::new(Principal::anonymous());
    match Failure::from_status(&nobody, worker.address.url(), "during a probe", status) {
        Failure::Worker { fault, .. } => fault,
        _ => Fault::Failing(format!("it failed its probe ({:?}: {})", status.code(), status.message())),
    }
}
