//! `toller.v1.Collections`.

use std::sync::Arc;

use toller_api::convert;
use toller_api::v1;
use toller_api::v1::collections_server::Collections as CollectionsRpc;
use toller_core::error::both;
use toller_core::{CollectionSpec, DocumentStore, Error, Result, Role};
use toller_indexing::parents::remove_parents;
use toller_serving::context::answer;
use toller_store::{CollectionOptions, CollectionUpdate, Collections, NewCollection, VectorSource};
use tonic::{Request, Response, Status};

use crate::limits::Limits;

pub(crate) struct CollectionsService {
    pub(crate) collections: Arc<Collections>,
    /// Where the parents of chunks are.
    pub(crate) parents: Arc<dyn DocumentStore>,
    pub(crate) limits: Limits,
}

impl CollectionsService {
    fn message(&self, spec: &CollectionSpec) -> v1::Collection {
        let store = self.collections.store();
        convert::collection_to_message(spec, store.backend(), store.durability())
    }

    async fn new_collection(&self, message: v1::CollectionsCreateRequest) -> Result<NewCollection> {
        let name = convert::collection_name_from_message("name", &message.name)?;
        let vectors = match message.vectors {
            None => VectorSource::Model,
            Some(v1::collections_create_request::Vectors::Model(model)) => VectorSource::NamedModel(model),
            Some(v1::collections_create_request::Vectors::Client(client)) => {
                VectorSource::Client { dimension: client.dimension }
            }
        };
        Ok(NewCollection {
            name,
            description: message.description,
            labels: message.labels,
            metric: convert::metric_from_message(message.metric)?,
            vectors,
        })
    }
}

/// What the collection is to have beside its main vectors.
fn options_from_message(message: &v1::CollectionsCreateRequest) -> Result<CollectionOptions> {
    let keyword = convert::keyword_from_message(message.keyword).map_err(|fault| fault.within("keyword"));
    let named = convert::named_spaces_from_message(message.named_vectors.clone());
    let quantization = message.quantization.map(convert::quantization_from_message).transpose();
    let quantization = quantization.map_err(|fault| fault.within("quantization"));
    let ((keyword, named), quantization) = both(both(keyword, named), quantization)?;
    Ok(CollectionOptions { keyword, named, quantization, require_tenant: message.require_tenant })
}

#[tonic::async_trait]
impl CollectionsRpc for CollectionsService {
    async fn create(
        &self,
        request: Request<v1::CollectionsCreateRequest>,
    ) -> Result<Response<v1::CollectionsCreateResponse>, Status> {
        answer(request, Role::Admin, async |context, message| {
            let options = options_from_message(&message)?;
            let new = self.new_collection(message).await?;
            let spec = self.collections.create_with(&context, new, options).await?;
            Ok(v1::CollectionsCreateResponse { collection: Some(self.message(&spec)) })
        })
        .await
    }

    async fn get(
        &self,
        request: Request<v1::CollectionsGetRequest>,
    ) -> Result<Response<v1::CollectionsGetResponse>, Status> {
        answer(request, Role::Reader, async |context, message| {
            let name = convert::collection_name_from_message("name", &message.name)?;
            let spec = self.collections.get(&context, &name).await?;
            Ok(v1::CollectionsGetResponse { collection: Some(self.message(&spec)) })
        })
        .await
    }

    async fn list(
        &self,
        request: Request<v1::CollectionsListRequest>,
    ) -> Result<Response<v1::CollectionsListResponse>, Status> {
        answer(request, Role::Reader, async |context, _| {
            let specs = self.collections.list(&context).await?;
            let answer =
                v1::CollectionsListResponse { collections: specs.iter().map(|spec| self.message(spec)).collect() };
            self.limits.check_list("collections", prost::Message::encoded_len(&answer))?;
            Ok(answer)
        })
        .await
    }

    async fn update(
        &self,
        request: Request<v1::CollectionsUpdateRequest>,
    ) -> Result<Response<v1::CollectionsUpdateResponse>, Status> {
        answer(request, Role::Admin, async |context, message| {
            let name = convert::collection_name_from_message("name", &message.name)?;
            let labels = message.labels.map(|labels| labels.labels);
            let update = CollectionUpdate { description: message.description, labels };
            let spec = self.collections.update(&context, &name, update).await?;
            Ok(v1::CollectionsUpdateResponse { collection: Some(self.message(&spec)) })
        })
        .await
    }

    async fn delete(
        &self,
        request: Request<v1::CollectionsDeleteRequest>,
    ) -> Result<Response<v1::CollectionsDeleteResponse>, Status> {
        answer(request, Role::Admin, async |context, message| {
            let name = convert::collection_name_from_message("name", &message.name)?;
            let deleted = self.collections.delete(&context, &name).await;
            // Also of one that is gone: the call that deleted it may not have come to this.
            if matches!(deleted, Ok(_) | Err(Error::NotFound { .. })) {
                remove_parents(&self.collections, &self.parents, &context, &name).await?;
            }
            deleted?;
            Ok(v1::CollectionsDeleteResponse {})
        })
        .await
    }

    async fn reembed(
        &self,
        request: Request<v1::CollectionsReembedRequest>,
    ) -> Result<Response<v1::CollectionsReembedResponse>, Status> {
        answer(request, Role::Admin, async |context, message| {
            let name = convert::collection_name_from_message("name", &message.name)?;
            let operation = self.collections.reembed(&context, &name, message.model.as_deref()).await?;
            Ok(v1::CollectionsReembedResponse { operation: Some(convert::operation_to_message(&operation)) })
        })
        .await
    }

    async fn stats(
        &self,
        request: Request<v1::CollectionsStatsRequest>,
    ) -> Result<Response<v1::CollectionsStatsResponse>, Status> {
        answer(request, Role::Reader, async |context, message| {
            let name = convert::collection_name_from_message("name", &message.name)?;
            let collection = self.collections.open(&context, &name).await?;
            let document_count = collection.count(&context, None).await?;
            Ok(v1::CollectionsStatsResponse { document_count })
        })
        .await
    }
}
