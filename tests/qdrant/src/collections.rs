//! The service `qdrant.Collections`.

use std::sync::Arc;

use qdrant_client::qdrant::collections_server::Collections;
use qdrant_client::qdrant::quantization_config::Quantization;
use qdrant_client::qdrant::vectors_config::Config;
use qdrant_client::qdrant::{
    ChangeAliases, CollectionClusterInfoRequest, CollectionClusterInfoResponse, CollectionExists,
    CollectionExistsRequest, CollectionExistsResponse, CollectionOperationResponse, CreateCollection,
    CreateShardKeyRequest, CreateShardKeyResponse, DeleteCollection, DeleteShardKeyRequest, DeleteShardKeyResponse,
    Distance, GetCollectionInfoRequest, GetCollectionInfoResponse, ListAliasesRequest, ListAliasesResponse,
    ListCollectionAliasesRequest, ListCollectionsRequest, ListCollectionsResponse, ListShardKeysRequest,
    ListShardKeysResponse, QuantizationType, UpdateCollection, UpdateCollectionClusterSetupRequest,
    UpdateCollectionClusterSetupResponse,
};
use qdrant_edge as engine;
use tonic::{Request, Response, Status};

use crate::service::{not_served, service};
use crate::shards::Shards;

/// Makes and removes collections.
#[derive(Debug)]
pub(crate) struct CollectionCalls {
    shards: Arc<Shards>,
}

impl CollectionCalls {
    pub(crate) fn new(shards: Arc<Shards>) -> Self {
        Self { shards }
    }
}

#[allow(deprecated, reason = "the engine's structs have fields that it deprecates, and no other way to be made")]
fn quantized(quantization: Quantization) -> Result<engine::QuantizationConfig, Status> {
    match quantization {
        Quantization::Scalar(scalar) if scalar.r#type() == QuantizationType::Int8 => {
            Ok(engine::ScalarQuantizationConfig {
                r#type: engine::ScalarType::Int8,
                quantile: scalar.quantile,
                always_ram: scalar.always_ram,
                memory: None,
            }
            .into())
        }
        Quantization::Binary(binary) => Ok(engine::BinaryQuantizationConfig {
            always_ram: binary.always_ram,
            memory: None,
            encoding: None,
            query_encoding: None,
        }
        .into()),
        other => Err(not_served(&format!("the quantization {other:?}"))),
    }
}

service! {
    impl Collections for CollectionCalls {
        async fn create(
            &self,
            request: Request<CreateCollection>,
        ) -> Result<Response<CollectionOperationResponse>, Status> {
            let request = request.into_inner();
            let dense = match request.vectors_config.and_then(|config| config.config) {
                Some(Config::ParamsMap(named)) => named.map,
                _ => return Err(not_served("vectors without a name")),
            };
            let mut params = Vec::new();
            for (name, vector) in dense {
                let distance = match vector.distance() {
                    Distance::Dot => engine::Distance::Dot,
                    Distance::Euclid => engine::Distance::Euclid,
                    other => return Err(not_served(&format!("the distance {other:?}"))),
                };
                let size = usize::try_from(vector.size).map_err(|_| Status::invalid_argument("size is too large"))?;
                let set_up = engine::EdgeVectorParams::builder(size, distance);
                let set_up = match vector.quantization_config.and_then(|config| config.quantization) {
                    None => set_up,
                    Some(quantization) => set_up.quantization_config(quantized(quantization)?),
                };
                params.push((name, set_up.build()));
            }
            let sparse = request.sparse_vectors_config.map(|config| config.map.into_keys().collect());
            let (shards, name) = (Arc::clone(&self.shards), request.collection_name);
            crate::points::blocking(move || shards.create(&name, params, sparse.unwrap_or_default())).await?;
            Ok(Response::new(CollectionOperationResponse { result: true, time: 0.0 }))
        }

        async fn delete(
            &self,
            request: Request<DeleteCollection>,
        ) -> Result<Response<CollectionOperationResponse>, Status> {
            let (shards, name) = (Arc::clone(&self.shards), request.into_inner().collection_name);
            let result = crate::points::blocking(move || shards.delete(&name)).await?;
            Ok(Response::new(CollectionOperationResponse { result, time: 0.0 }))
        }

        async fn collection_exists(
            &self,
            request: Request<CollectionExistsRequest>,
        ) -> Result<Response<CollectionExistsResponse>, Status> {
            let exists = self.shards.has(&request.into_inner().collection_name);
            Ok(Response::new(CollectionExistsResponse { result: Some(CollectionExists { exists }), time: 0.0 }))
        }
    }
    others {
        get(GetCollectionInfoRequest) -> GetCollectionInfoResponse;
        list(ListCollectionsRequest) -> ListCollectionsResponse;
        update(UpdateCollection) -> CollectionOperationResponse;
        update_aliases(ChangeAliases) -> CollectionOperationResponse;
        list_collection_aliases(ListCollectionAliasesRequest) -> ListAliasesResponse;
        list_aliases(ListAliasesRequest) -> ListAliasesResponse;
        collection_cluster_info(CollectionClusterInfoRequest) -> CollectionClusterInfoResponse;
        update_collection_cluster_setup(UpdateCollectionClusterSetupRequest) -> UpdateCollectionClusterSetupResponse;
        create_shard_key(CreateShardKeyRequest) -> CreateShardKeyResponse;
        delete_shard_key(DeleteShardKeyRequest) -> DeleteShardKeyResponse;
        list_shard_keys(ListShardKeysRequest) -> ListShardKeysResponse;
    }
}
