//! `toller.v1.Backups`.

mod restore;
mod save;
mod spool;

use std::path::Path;
use std::sync::Arc;

use futures::stream::BoxStream;
use tokio::sync::{mpsc, oneshot};
use toller_api::v1;
use toller_api::v1::backups_server::Backups as BackupsRpc;
use toller_core::{DocumentStore, Error, Role};
use toller_retrieval::StoredRetrievers;
use toller_serving::context::{request_context, require};
use toller_serving::status::status;
use toller_store::{Collections, Restores};
use tonic::{Request, Response, Status, Streaming};
use tracing::Instrument;

use restore::Restoring;
use save::Saving;

/// Version of the format.
const FORMAT: u32 = 1;

/// Messages that are ready and not yet sent: enough that reading and sending need not wait for each other.
const MESSAGES_AHEAD: usize = 4;

pub(crate) struct BackupsService {
    pub(crate) collections: Arc<Collections>,
    pub(crate) documents: Arc<dyn DocumentStore>,
    pub(crate) stored: StoredRetrievers,
    pub(crate) restores: Restores,
    /// Where what is to be sent is put aside.
    pub(crate) spool_folder: Arc<Path>,
}

#[tonic::async_trait]
impl BackupsRpc for BackupsService {
    type SaveStream = BoxStream<'static, Result<v1::BackupsSaveResponse, Status>>;

    async fn save(
        &self,
        request: Request<v1::BackupsSaveRequest>,
    ) -> Result<Response<BoxStream<'static, Result<v1::BackupsSaveResponse, Status>>>, Status> {
        let context = request_context(&request).map_err(|error| status(&error))?;
        require(&context, Role::Admin).map_err(|error| status(&error))?;
        // Raised when the stream is dropped, which is all that is heard of a client that goes away.
        let cancel_when_dropped = context.cancellation().cancel_on_drop();
        let (sender, mut receiver) = mpsc::channel(MESSAGES_AHEAD);
        let saving = Saving {
            collections: Arc::clone(&self.collections),
            documents: Arc::clone(&self.documents),
            stored: self.stored.clone(),
            spool_folder: Arc::clone(&self.spool_folder),
            context,
            messages: sender,
        };
        let plan = saving.plan(request.into_inner()).await.map_err(|error| status(&error))?;
        tokio::spawn(saving.run(plan).in_current_span());
        let messages = futures::stream::poll_fn(move |polled| {
            let _held = &cancel_when_dropped;
            receiver.poll_recv(polled)
        });
        Ok(Response::new(Box::pin(messages)))
    }

    async fn restore(
        &self,
        request: Request<Streaming<v1::BackupsRestoreRequest>>,
    ) -> Result<Response<v1::BackupsRestoreResponse>, Status> {
        let context = request_context(&request).map_err(|error| status(&error))?;
        require(&context, Role::Admin).map_err(|error| status(&error))?;
        // Dropped with this call, when nobody waits for its answer any more.
        let (_caller_is_there, caller_is_gone) = oneshot::channel();
        let restoring = Restoring::new(self.restores.clone(), context);
        // A task of its own, so that what is half done is undone, and what is decided is done, whoever goes away.
        let restored = tokio::spawn(restoring.run(request.into_inner(), caller_is_gone).in_current_span());
        match restored.await {
            Ok(outcome) => outcome.map(Response::new),
            Err(fault) if fault.is_panic() => {
                Err(status(&Error::Internal("a restore panicked; the log has the place".to_owned())))
            }
            Err(_) => Err(status(&Error::Unavailable("the service is shutting down".to_owned()))),
        }
    }
}
