//! `toller.v1.Retrievers`.

use std::sync::Arc;

use toller_api::convert;
use toller_api::v1;
use toller_api::v1::retrievers_server::Retrievers as RetrieversRpc;
use toller_core::{Error, Result, Role};
use toller_retrieval::Planner;
use toller_retrieval::stored::{StoredRetriever, StoredRetrievers, WriteCondition};
use toller_serving::context::answer;
use tonic::{Request, Response, Status};

use crate::limits::Limits;

pub(crate) struct RetrieversService {
    pub(crate) planner: Arc<Planner>,
    pub(crate) stored: StoredRetrievers,
    pub(crate) limits: Limits,
}

#[tonic::async_trait]
impl RetrieversRpc for RetrieversService {
    async fn put(
        &self,
        request: Request<v1::RetrieversPutRequest>,
    ) -> Result<Response<v1::RetrieversPutResponse>, Status> {
        answer(request, Role::Admin, async |context, message| {
            let put = async {
                let retriever = message.retriever.ok_or_else(|| Error::invalid("", "must be given"))?;
                Limits::check_stored_retriever(prost::Message::encoded_len(&retriever))?;
                let spec = convert::retriever_from_message(retriever)?;
                if spec.name.is_none() {
                    return Err(Error::invalid("name", "must be given, it is the key"));
                }
                self.planner.check_storable(&context, &spec).await?;
                let condition = message.expected_version.map_or(WriteCondition::Always, WriteCondition::IfVersion);
                self.stored.put(&context, spec, condition).await
            };
            let stored = put.await.map_err(|error| error.within("retriever"))?;
            Ok(v1::RetrieversPutResponse { stored: Some(to_message(&stored)) })
        })
        .await
    }

    async fn get(
        &self,
        request: Request<v1::RetrieversGetRequest>,
    ) -> Result<Response<v1::RetrieversGetResponse>, Status> {
        answer(request, Role::Reader, async |context, message| {
            let name = convert::retriever_name_from_message("name", &message.name)?;
            let stored = self.stored.get(&context, &name).await?;
            Ok(v1::RetrieversGetResponse { stored: Some(to_message(&stored)) })
        })
        .await
    }

    async fn list(
        &self,
        request: Request<v1::RetrieversListRequest>,
    ) -> Result<Response<v1::RetrieversListResponse>, Status> {
        answer(request, Role::Reader, async |context, _| {
            let retrievers = self.stored.list(&context).await?.iter().map(to_message).collect();
            let answer = v1::RetrieversListResponse { retrievers };
            self.limits.check_list("stored retrievers", prost::Message::encoded_len(&answer))?;
            Ok(answer)
        })
        .await
    }

    async fn delete(
        &self,
        request: Request<v1::RetrieversDeleteRequest>,
    ) -> Result<Response<v1::RetrieversDeleteResponse>, Status> {
        answer(request, Role::Admin, async |context, message| {
            let name = convert::retriever_name_from_message("name", &message.name)?;
            self.stored.delete(&context, &name).await?;
            Ok(v1::RetrieversDeleteResponse {})
        })
        .await
    }

    async fn validate(
        &self,
        request: Request<v1::RetrieversValidateRequest>,
    ) -> Result<Response<v1::RetrieversValidateResponse>, Status> {
        answer(request, Role::Reader, async |context, message| {
            let retriever = message.retriever.ok_or_else(|| Error::invalid("retriever", "must be given"))?;
            let violations = match convert::retriever_from_message(retriever) {
                Ok(spec) => self.planner.validate(&context, &spec).await?,
                Err(Error::InvalidArgument(violations)) => violations,
                Err(other) => return Err(other),
            };
            let violations = violations
                .into_iter()
                .map(|fault| v1::Violation { field: fault.field, description: fault.description })
                .collect();
            Ok(v1::RetrieversValidateResponse { violations })
        })
        .await
    }
}

fn to_message(stored: &StoredRetriever) -> v1::StoredRetriever {
    v1::StoredRetriever {
        retriever: Some(convert::retriever_to_message(&stored.spec)),
        version: stored.version,
        updated_at: Some(convert::timestamp_from_millis(stored.updated_at_ms)),
    }
}
