//! The service `qdrant.Points`.

use std::sync::Arc;

use qdrant_client::qdrant::points_server::Points;
use qdrant_client::qdrant::{
    ClearPayloadPoints, CountPoints, CountResponse, CountResult, CreateFieldIndexCollection, CreateVectorNameRequest,
    DeleteFieldIndexCollection, DeletePayloadPoints, DeletePointVectors, DeletePoints, DeleteVectorNameRequest,
    DiscoverBatchPoints, DiscoverBatchResponse, DiscoverPoints, DiscoverResponse, FacetCounts, FacetResponse,
    FieldType, GetPoints, GetResponse, PointStruct, PointsOperationResponse, PointsSelector, QueryBatchPoints,
    QueryBatchResponse, QueryGroupsResponse, QueryPointGroups, QueryPoints, QueryResponse, RecommendBatchPoints,
    RecommendBatchResponse, RecommendGroupsResponse, RecommendPointGroups, RecommendPoints, RecommendResponse,
    RetrievedPoint, ScoredPoint, ScrollPoints, ScrollResponse, SearchBatchPoints, SearchBatchResponse,
    SearchGroupsResponse, SearchMatrixOffsetsResponse, SearchMatrixPairsResponse, SearchMatrixPoints,
    SearchPointGroups, SearchPoints, SearchResponse, SetPayloadPoints, UpdateBatchPoints, UpdateBatchResponse,
    UpdateMode, UpdatePointVectors, UpdateResult, UpdateStatus, UpsertPoints, query, start_from, vector_input,
};
use qdrant_edge as engine;
use tonic::{Request, Response, Status};

use crate::faults::Faults;
use crate::service::{not_served, service};
use crate::shards::{Shards, refused};
use crate::{filter, payload, requests, vectors};

/// Points of a page when the request does not say.
const PAGE: u32 = 10;

/// Reads and writes points.
#[derive(Debug)]
pub(crate) struct PointCalls {
    shards: Arc<Shards>,
    faults: Arc<Faults>,
}

impl PointCalls {
    pub(crate) fn new(shards: Arc<Shards>, faults: Arc<Faults>) -> Self {
        Self { shards, faults }
    }

    /// The filter of what a call selects, unless that is more than it manages.
    async fn selected(&self, collection: &str, selector: Option<PointsSelector>) -> Result<engine::Filter, Status> {
        let filter = requests::selected(selector)?;
        if let Some(most) = self.faults.most_points() {
            let count = engine::CountRequest { filter: Some(filter.clone()), exact: true };
            let count = self.on_shard(collection, |shard| shard.count(count)).await?;
            if count > most {
                return Err(Status::deadline_exceeded(format!("{count} points take too long, as was asked for")));
            }
        }
        Ok(filter)
    }

    /// Runs work on a collection's shard.
    async fn on_shard<T: Send + 'static>(
        &self,
        collection: &str,
        work: impl FnOnce(&engine::EdgeShard) -> engine::OperationResult<T> + Send + 'static,
    ) -> Result<T, Status> {
        let shard = self.shards.find(collection)?;
        blocking(move || work(&shard).map_err(|fault| refused(&fault))).await
    }

    async fn update(
        &self,
        collection: &str,
        operation: engine::UpdateOperation,
    ) -> Result<Response<PointsOperationResponse>, Status> {
        self.on_shard(collection, |shard| shard.update(operation)).await?;
        let result = UpdateResult { operation_id: Some(0), status: UpdateStatus::Completed.into() };
        Ok(Response::new(PointsOperationResponse { result: Some(result), ..PointsOperationResponse::default() }))
    }
}

/// Runs blocking work off the threads that serve.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    tokio::task::spawn_blocking(work).await.map_err(|fault| Status::internal(fault.to_string()))?
}

fn point_to_engine(point: PointStruct) -> Result<engine::PointStructPersisted, Status> {
    Ok(engine::PointStructPersisted {
        id: filter::id_to_engine(point.id)?,
        vector: vectors::to_engine(point.vectors)?,
        payload: Some(payload::to_engine(point.payload)?),
    })
}

fn record_to_message(record: engine::Record) -> RetrievedPoint {
    RetrievedPoint {
        id: Some(filter::id_to_message(record.id)),
        payload: payload::to_message(record.payload),
        vectors: vectors::to_message(record.vector),
        ..RetrievedPoint::default()
    }
}

fn scored_to_message(point: engine::ScoredPoint) -> ScoredPoint {
    ScoredPoint {
        id: Some(filter::id_to_message(point.id)),
        payload: payload::to_message(point.payload),
        score: point.score,
        version: point.version,
        vectors: vectors::to_message(point.vector),
        ..ScoredPoint::default()
    }
}

service! {
    impl Points for PointCalls {
        async fn upsert(&self, request: Request<UpsertPoints>) -> Result<Response<PointsOperationResponse>, Status> {
            let request = request.into_inner();
            let update_mode = request.update_mode();
            let condition = requests::filter(request.update_filter)?;
            let points = request.points.into_iter().map(point_to_engine).collect::<Result<Vec<_>, _>>()?;
            let points_op = engine::PointInsertOperations::PointsList(points);
            let operation = if condition.is_none() && update_mode == UpdateMode::Upsert {
                engine::PointOperations::UpsertPoints(points_op)
            } else {
                let update_mode = match update_mode {
                    UpdateMode::Upsert => engine::UpdateMode::Upsert,
                    UpdateMode::InsertOnly => engine::UpdateMode::InsertOnly,
                    UpdateMode::UpdateOnly => engine::UpdateMode::UpdateOnly,
                };
                let update_mode = Some(update_mode);
                engine::PointOperations::UpsertPointsConditional(engine::ConditionalInsertOperation {
                    points_op,
                    condition: condition.unwrap_or_else(engine::Filter::new),
                    update_mode,
                })
            };
            self.update(&request.collection_name, engine::UpdateOperation::PointOperation(operation)).await
        }

        async fn delete(&self, request: Request<DeletePoints>) -> Result<Response<PointsOperationResponse>, Status> {
            let request = request.into_inner();
            let selected = self.selected(&request.collection_name, request.points).await?;
            let operation = engine::PointOperations::DeletePointsByFilter(selected);
            self.update(&request.collection_name, engine::UpdateOperation::PointOperation(operation)).await
        }

        async fn set_payload(
            &self,
            request: Request<SetPayloadPoints>,
        ) -> Result<Response<PointsOperationResponse>, Status> {
            let request = request.into_inner();
            if request.key.is_some() {
                return Err(not_served("a key of set_payload"));
            }
            let selected = self.selected(&request.collection_name, request.points_selector).await?;
            let operation = engine::PayloadOps::SetPayload(engine::SetPayloadOp {
                payload: payload::to_engine(request.payload)?,
                points: None,
                filter: Some(selected),
                key: None,
            });
            self.update(&request.collection_name, engine::UpdateOperation::PayloadOperation(operation)).await
        }

        async fn create_field_index(
            &self,
            request: Request<CreateFieldIndexCollection>,
        ) -> Result<Response<PointsOperationResponse>, Status> {
            let request = request.into_inner();
            let kind = match request.field_type() {
                FieldType::Keyword => engine::PayloadSchemaType::Keyword,
                FieldType::Integer => engine::PayloadSchemaType::Integer,
                FieldType::Float => engine::PayloadSchemaType::Float,
                FieldType::Bool => engine::PayloadSchemaType::Bool,
                other => return Err(not_served(&format!("an index of type {other:?}"))),
            };
            let unreadable = |()| Status::invalid_argument("Invalid json path");
            let create = engine::CreateIndex {
                field_name: request.field_name.parse().map_err(unreadable)?,
                field_schema: Some(engine::PayloadFieldSchema::FieldType(kind)),
            };
            let operation = engine::FieldIndexOperations::CreateIndex(create);
            self.update(&request.collection_name, engine::UpdateOperation::FieldIndexOperation(operation)).await
        }

        async fn get(&self, request: Request<GetPoints>) -> Result<Response<GetResponse>, Status> {
            let request = request.into_inner();
            let ids = request.ids.into_iter().map(|id| filter::id_to_engine(Some(id))).collect::<Result<_, _>>()?;
            let retrieve = engine::RetrieveRequest {
                point_ids: ids,
                with_payload: Some(requests::with_payload(request.with_payload)?),
                with_vector: Some(requests::with_vectors(request.with_vectors)),
            };
            let found = self.on_shard(&request.collection_name, |shard| shard.retrieve(retrieve)).await?;
            let result = found.into_iter().map(record_to_message).collect();
            Ok(Response::new(GetResponse { result, ..GetResponse::default() }))
        }

        async fn scroll(&self, request: Request<ScrollPoints>) -> Result<Response<ScrollResponse>, Status> {
            let request = request.into_inner();
            let order_by = match request.order_by {
                None => None,
                Some(order) => {
                    let unreadable = |()| Status::invalid_argument("Invalid json path");
                    let start_from = match order.start_from.and_then(|start| start.value) {
                        None => None,
                        Some(start_from::Value::Integer(number)) => Some(engine::StartFrom::Integer(number)),
                        Some(other) => return Err(not_served(&format!("start_from {other:?}"))),
                    };
                    let key = order.key.parse().map_err(unreadable)?;
                    let direction = Some(engine::Direction::Asc);
                    Some(engine::OrderByInterface::Struct(engine::OrderBy { key, direction, start_from }))
                }
            };
            if order_by.is_some() && request.offset.is_some() {
                return Err(Status::invalid_argument("Cannot use an `offset` when using `order_by`."));
            }
            let scroll = engine::ScrollRequest {
                offset: request.offset.map(|id| filter::id_to_engine(Some(id))).transpose()?,
                limit: Some(request.limit.unwrap_or(PAGE) as usize),
                filter: requests::filter(request.filter)?,
                with_payload: Some(requests::with_payload(request.with_payload)?),
                with_vector: requests::with_vectors(request.with_vectors),
                order_by,
            };
            let (found, next) = self.on_shard(&request.collection_name, |shard| shard.scroll(scroll)).await?;
            let response = ScrollResponse {
                next_page_offset: next.map(filter::id_to_message),
                result: found.into_iter().map(record_to_message).collect(),
                ..ScrollResponse::default()
            };
            Ok(Response::new(response))
        }

        async fn count(&self, request: Request<CountPoints>) -> Result<Response<CountResponse>, Status> {
            let request = request.into_inner();
            let count = engine::CountRequest {
                filter: requests::filter(request.filter)?,
                exact: request.exact.unwrap_or(true),
            };
            let count = self.on_shard(&request.collection_name, |shard| shard.count(count)).await?;
            let result = Some(CountResult { count: count as u64 });
            Ok(Response::new(CountResponse { result, ..CountResponse::default() }))
        }

        async fn query(&self, request: Request<QueryPoints>) -> Result<Response<QueryResponse>, Status> {
            let request = request.into_inner();
            let Some(query::Variant::Nearest(input)) = request.query.and_then(|query| query.variant) else {
                return Err(not_served("a query other than the nearest"));
            };
            let vector = match input.variant {
                Some(vector_input::Variant::Dense(dense)) => engine::VectorInternal::Dense(dense.data),
                Some(vector_input::Variant::Sparse(sparse)) => {
                    engine::VectorInternal::Sparse(vectors::sparse_to_engine(sparse))
                }
                _ => return Err(not_served("a query that is no vector")),
            };
            let using = request.using.ok_or_else(|| not_served("a query of vectors without a name"))?;
            let nearest = engine::QueryEnum::Nearest(engine::NamedQuery::new(vector, using));
            let params = request.params.map(|params| engine::SearchParams {
                exact: params.exact.unwrap_or_default(),
                hnsw_ef: params.hnsw_ef.map(|view| view as usize),
                quantization: params.quantization.map(|quantization| engine::QuantizationSearchParams {
                    ignore: quantization.ignore.unwrap_or_default(),
                    rescore: quantization.rescore,
                    oversampling: quantization.oversampling,
                }),
                ..engine::SearchParams::default()
            });
            let query = engine::QueryRequest {
                query: Some(engine::ScoringQuery::Vector(nearest)),
                filter: requests::filter(request.filter)?,
                params,
                with_vector: requests::with_vectors(request.with_vectors),
                with_payload: requests::with_payload(request.with_payload)?,
                ..engine::QueryRequest::new(request.limit.unwrap_or(PAGE.into()) as usize)
            };
            let found = self.on_shard(&request.collection_name, |shard| shard.query(query)).await?;
            let result = found.into_iter().map(scored_to_message).collect();
            Ok(Response::new(QueryResponse { result, ..QueryResponse::default() }))
        }
    }
    others {
        update_vectors(UpdatePointVectors) -> PointsOperationResponse;
        delete_vectors(DeletePointVectors) -> PointsOperationResponse;
        overwrite_payload(SetPayloadPoints) -> PointsOperationResponse;
        delete_payload(DeletePayloadPoints) -> PointsOperationResponse;
        clear_payload(ClearPayloadPoints) -> PointsOperationResponse;
        delete_field_index(DeleteFieldIndexCollection) -> PointsOperationResponse;
        create_vector_name(CreateVectorNameRequest) -> PointsOperationResponse;
        delete_vector_name(DeleteVectorNameRequest) -> PointsOperationResponse;
        search(SearchPoints) -> SearchResponse;
        search_batch(SearchBatchPoints) -> SearchBatchResponse;
        search_groups(SearchPointGroups) -> SearchGroupsResponse;
        recommend(RecommendPoints) -> RecommendResponse;
        recommend_batch(RecommendBatchPoints) -> RecommendBatchResponse;
        recommend_groups(RecommendPointGroups) -> RecommendGroupsResponse;
        discover(DiscoverPoints) -> DiscoverResponse;
        discover_batch(DiscoverBatchPoints) -> DiscoverBatchResponse;
        update_batch(UpdateBatchPoints) -> UpdateBatchResponse;
        query_batch(QueryBatchPoints) -> QueryBatchResponse;
        query_groups(QueryPointGroups) -> QueryGroupsResponse;
        facet(FacetCounts) -> FacetResponse;
        search_matrix_pairs(SearchMatrixPoints) -> SearchMatrixPairsResponse;
        search_matrix_offsets(SearchMatrixPoints) -> SearchMatrixOffsetsResponse;
    }
}
