//! The server's collections: how they are named, made and indexed.
//!
//! Tenants share one for each name of a collection with the same parameters: a server bears thousands of tenants, but not
//! thousands of collections.

use std::collections::HashMap;

use qdrant_client::qdrant::payload_index_params::IndexParams;
use qdrant_client::qdrant::vectors_config;
use qdrant_client::qdrant::{
    CreateCollection, CreateFieldIndexCollection, Distance, FieldType, HnswConfigDiff, IntegerIndexParams,
    KeywordIndexParams, PayloadIndexParams, SparseVectorConfig, SparseVectorParams, VectorParams as VectorSetUp,
    VectorParamsMap, VectorsConfig,
};
use sha2::{Digest, Sha256};
use toller_core::collection::VectorParams;
use toller_core::error::{Error, Result};
use toller_core::{CollectionName, Metric};

use super::client::Client;
use super::config::QdrantConfig;
use super::entries::{KIND, TOKEN};
use super::patience::Patience;
use super::point::{BORN, DENSE, DIED, ID, INSTANCE, KEYWORDS, TENANT, TERMS};
use super::sort_key;

/// Parameters of collections whose vectors nobody looks at.
pub(super) const WITHOUT_VECTORS: VectorParams = VectorParams { dimension: 1, metric: Metric::Dot, keyword: None };

/// Characters of a collection's own name that stand in the name on the server.
const NAME_SHOWN: usize = 64;

/// The server's collection for the records of a collection.
pub(super) fn name_of(prefix: &str, collection: &CollectionName, params: VectorParams) -> Result<String> {
    let params = serde_json::to_string(&params)
        .map_err(|fault| Error::Internal(format!("parameters cannot be written: {fault}")))?;
    let hash = Sha256::digest(format!("{collection}\n{params}"));
    let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let shown: String = collection.as_str().chars().take(NAME_SHOWN).collect();
    Ok(format!("{prefix}{shown}_{hash}"))
}

/// The server's collection for all documents without vectors. No record's collection has this name: those end in a hash.
pub(super) fn name_of_documents(prefix: &str) -> String {
    format!("{prefix}documents")
}

/// The server's collection for the catalogue.
pub(super) fn name_of_catalog(prefix: &str) -> String {
    format!("{prefix}catalog")
}

/// Makes the collection for rows, where it is missing, with its indexes.
pub(super) async fn make_for_rows(
    client: &Client,
    patience: Patience<'_>,
    config: &QdrantConfig,
    name: &str,
    params: VectorParams,
    is_searched: bool,
) -> Result<()> {
    let patient = client.for_long_calls();
    patient.create_collection(patience, creation(config, name, params, is_searched)).await?;
    for field in [TENANT, INSTANCE, ID] {
        patient.create_index(patience, keyword_index(name, field)).await?;
    }
    for field in [BORN, DIED, TERMS].into_iter().chain(sort_key::FIELDS) {
        if field != TERMS || params.keyword.is_some() {
            patient.create_index(patience, integer_index(name, field)).await?;
        }
    }
    Ok(())
}

/// Makes the collection for the catalogue, where it is missing, with its indexes.
pub(super) async fn make_for_entries(
    client: &Client,
    patience: Patience<'_>,
    config: &QdrantConfig,
    name: &str,
) -> Result<()> {
    let patient = client.for_long_calls();
    patient.create_collection(patience, creation(config, name, WITHOUT_VECTORS, false)).await?;
    for field in [TENANT, KIND, TOKEN] {
        patient.create_index(patience, keyword_index(name, field)).await?;
    }
    Ok(())
}

#[allow(deprecated, reason = "releases before the newest know the old flags alone, and the newest both")]
fn creation(config: &QdrantConfig, name: &str, params: VectorParams, is_searched: bool) -> CreateCollection {
    CreateCollection {
        collection_name: name.to_owned(),
        shard_number: config.shard_number,
        replication_factor: config.replication_factor,
        write_consistency_factor: config.write_consistency(),
        on_disk_payload: config.on_disk.then_some(true),
        vectors_config: Some(vectors_config(config, params, is_searched)),
        sparse_vectors_config: params.keyword.map(|_| sparse_vectors_config()),
        ..CreateCollection::default()
    }
}

/// The vectors of a collection: the dense one under its own name, so that others can stand beside it.
///
/// Cosine is handed over as the inner product of vectors of unit length, see [`super::point`].
#[allow(deprecated, reason = "releases before the newest know the old flags alone, and the newest both")]
fn vectors_config(config: &QdrantConfig, params: VectorParams, is_searched: bool) -> VectorsConfig {
    let distance = match params.metric {
        Metric::Cosine | Metric::Dot => Distance::Dot,
        Metric::Euclidean => Distance::Euclid,
    };
    // Without links there is no index to keep.
    let hnsw_config = (!is_searched).then(|| HnswConfigDiff { m: Some(0), ..HnswConfigDiff::default() });
    let dense = VectorSetUp {
        size: params.dimension.into(),
        distance: distance.into(),
        hnsw_config,
        on_disk: config.on_disk.then_some(true),
        ..VectorSetUp::default()
    };
    let map = HashMap::from([(DENSE.to_owned(), dense)]);
    VectorsConfig { config: Some(vectors_config::Config::ParamsMap(VectorParamsMap { map })) }
}

fn sparse_vectors_config() -> SparseVectorConfig {
    SparseVectorConfig { map: HashMap::from([(KEYWORDS.to_owned(), SparseVectorParams::default())]) }
}

fn keyword_index(collection: &str, field: &str) -> CreateFieldIndexCollection {
    let params = KeywordIndexParams { is_tenant: Some(field == TENANT), ..KeywordIndexParams::default() };
    index(collection, field, FieldType::Keyword, IndexParams::KeywordIndexParams(params))
}

fn integer_index(collection: &str, field: &str) -> CreateFieldIndexCollection {
    let params = IntegerIndexParams { lookup: Some(true), range: Some(true), ..IntegerIndexParams::default() };
    index(collection, field, FieldType::Integer, IndexParams::IntegerIndexParams(params))
}

fn index(collection: &str, field: &str, kind: FieldType, params: IndexParams) -> CreateFieldIndexCollection {
    CreateFieldIndexCollection {
        collection_name: collection.to_owned(),
        wait: Some(true),
        field_name: field.to_owned(),
        field_type: Some(kind.into()),
        field_index_params: Some(PayloadIndexParams { index_params: Some(params) }),
        ..CreateFieldIndexCollection::default()
    }
}
