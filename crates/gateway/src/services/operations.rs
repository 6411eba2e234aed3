//! `toller.v1.Operations`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use toller_api::convert;
use toller_api::v1;
use toller_api::v1::operations_server::Operations as OperationsRpc;
use toller_core::{Result, Role};
use toller_serving::context::answer;
use toller_store::Collections;
use tonic::{Request, Response, Status};

use crate::limits::Limits;

/// How long before its deadline a wait is answered: a tenth of what is left, so that the answer arrives, and this at most.
const LONGEST_MARGIN: Duration = Duration::from_millis(500);

pub(crate) struct OperationsService {
    pub(crate) collections: Arc<Collections>,
    pub(crate) limits: Limits,
}

#[tonic::async_trait]
impl OperationsRpc for OperationsService {
    async fn get(
        &self,
        request: Request<v1::OperationsGetRequest>,
    ) -> Result<Response<v1::OperationsGetResponse>, Status> {
        answer(request, Role::Reader, async |context, message| {
            let operation = self.collections.operations().get(&context, &message.id).await?;
            Ok(v1::OperationsGetResponse { operation: Some(convert::operation_to_message(&operation)) })
        })
        .await
    }

    async fn list(
        &self,
        request: Request<v1::OperationsListRequest>,
    ) -> Result<Response<v1::OperationsListResponse>, Status> {
        answer(request, Role::Reader, async |context, _| {
            let operations = self.collections.operations().list(&context).await?;
            let operations = operations.iter().map(convert::operation_to_message).collect();
            let answer = v1::OperationsListResponse { operations };
            self.limits.check_list("operations", prost::Message::encoded_len(&answer))?;
            Ok(answer)
        })
        .await
    }

    async fn cancel(
        &self,
        request: Request<v1::OperationsCancelRequest>,
    ) -> Result<Response<v1::OperationsCancelResponse>, Status> {
        answer(request, Role::Admin, async |context, message| {
            let operation = self.collections.operations().cancel(&context, &message.id).await?;
            Ok(v1::OperationsCancelResponse { operation: Some(convert::operation_to_message(&operation)) })
        })
        .await
    }

    async fn wait(
        &self,
        request: Request<v1::OperationsWaitRequest>,
    ) -> Result<Response<v1::OperationsWaitResponse>, Status> {
        answer(request, Role::Reader, async |context, message| {
            let until = context.deadline().map(|deadline| before(deadline, Instant::now()));
            let operation = self.collections.operations().wait(&context, &message.id, until).await?;
            Ok(v1::OperationsWaitResponse { operation: Some(convert::operation_to_message(&operation)) })
        })
        .await
    }
}

/// When a wait is answered whose answer is of no use after `deadline`.
fn before(deadline: Instant, now: Instant) -> Instant {
    let margin = (deadline.saturating_duration_since(now) / 10).min(LONGEST_MARGIN);
    deadline.checked_sub(margin).unwrap_or(deadline)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_answered_before_its_deadline() {
        let now = Instant::now();
        let after = |millis| now + Duration::from_millis(millis);
        assert_eq!(before(after(100), now), after(90));
        assert_eq!(before(after(60_000), now), after(59_500));
        assert_eq!(before(now, now), now);
    }
}
