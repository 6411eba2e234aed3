//! The server's collections: how they are named, made and indexed.
//!
//! Tenants share one for each name of a collection with the same parameters: a server bears thousands of tenants, but not
//! thousands of collections.
//!
//! None is ever removed. That no record names one says nothing of a create in another gateway, which remembers that the collection is
//! there and is about to name it; the server has no removal on a condition. `docs/deploy.md` says what an operator can do.

use std::collections::HashMap;

use qdrant_client::qdrant::payload_index_params::IndexParams;
use qdrant_client::qdrant::quantization_config::Quantization;
use qdrant_client::qdrant::vectors_config;
use qdrant_client::qdrant::{
    BinaryQuantization, CreateCollection, CreateFieldIndexCollection, Distance, FieldType, HnswConfigDiff,
    IntegerIndexParams, KeywordIndexParams, PayloadIndexParams, QuantizationConfig, QuantizationType,
    ScalarQuantization, SparseVectorConfig, SparseVectorParams, VectorParams as VectorSetUp, VectorParamsMap,
    VectorsConfig,
};
use sha2::{Digest, Sha256};
use toller_core::collection::VectorParams;
use toller_core::error::{Error, Result};
use toller_core::{CollectionName, Metric, QuantizationKind, VectorSpace};

use super::client::Client;
use super::config::QdrantConfig;
use super::entries::{KIND, TOKEN};
use super::patience::Patience;
use super::point::{BORN, DENSE, DIED, ID, INSTANCE, KEYWORDS, TENANT, TERMS, named};
use super::sort_key;

/// Parameters of collections whose vectors nobody looks at.
pub(super) const WITHOUT_VECTORS: VectorParams = VectorParams::new(1, Metric::Dot);

/// Part of the elements that eight bits span; the outermost ones are cut, so that a few large ones cost the others nothing.
const QUANTILE: f32 = 0.99;

/// Characters of a collection's own name that stand in the name on the server.
const NAME_SHOWN: usize = 64;

/// The server's collection for the records of a collection. Its generations share it where their parameters agree: their rows
/// are of other instances.
pub(super) fn name_of(prefix: &str, collection: &CollectionName, params: &VectorParams) -> Result<String> {
    let params = serde_json::to_string(params)
        .map_err(|fault| Error::Internal(format!("parameters cannot be written: {fault}")))?;
    let hash = Sha256::digest(format!("{collection}\n{params}"));
    let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let shown: String = collection.logical().chars().take(NAME_SHOWN).collect();
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
    params: &VectorParams,
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
    patient.create_collection(patience, creation(config, name, &WITHOUT_VECTORS, false)).await?;
    for field in [TENANT, KIND, TOKEN] {
        patient.create_index(patience, keyword_index(name, field)).await?;
    }
    Ok(())
}

#[allow(deprecated, reason = "releases before the newest know the old flags alone, and the newest both")]
fn creation(config: &QdrantConfig, name: &str, params: &VectorParams, is_searched: bool) -> CreateCollection {
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

/// The vectors of a collection: the main one under its own name, and those of named spaces beside it.
///
/// Cosine is handed over as the inner product of vectors of unit length, see [`super::point`].
#[allow(deprecated, reason = "releases before the newest know the old flags alone, and the newest both")]
fn vectors_config(config: &QdrantConfig, params: &VectorParams, is_searched: bool) -> VectorsConfig {
    let set_up = |space: VectorSpace| {
        let distance = match space.metric {
            Metric::Cosine | Metric::Dot => Distance::Dot,
            Metric::Euclidean => Distance::Euclid,
        };
        VectorSetUp {
            size: space.dimension.into(),
            distance: distance.into(),
            // Without links there is no index to keep.
            hnsw_config: (!is_searched).then(|| HnswConfigDiff { m: Some(0), ..HnswConfigDiff::default() }),
            on_disk: config.on_disk.then_some(true),
            quantization_config: params.quantization.map(|quantization| quantized(quantization.kind)),
            ..VectorSetUp::default()
        }
    };
    let main = VectorSpace { dimension: params.dimension, metric: params.metric };
    let mut map = HashMap::from([(DENSE.to_owned(), set_up(main))]);
    map.extend(params.named.iter().map(|(name, space)| (named(name), set_up(*space))));
    VectorsConfig { config: Some(vectors_config::Config::ParamsMap(VectorParamsMap { map })) }
}

/// Quantised vectors stay in RAM, whatever becomes of the full ones, which few of are read.
#[allow(deprecated, reason = "releases before the newest know the old flags alone, and the newest both")]
fn quantized(kind: QuantizationKind) -> QuantizationConfig {
    let quantization = match kind {
        QuantizationKind::Int8 => Quantization::Scalar(ScalarQuantization {
            r#type: QuantizationType::Int8.into(),
            quantile: Some(QUANTILE),
            always_ram: Some(true),
            ..ScalarQuantization::default()
        }),
        QuantizationKind::Binary => {
            Quantization::Binary(BinaryQuantization { always_ram: Some(true), ..BinaryQuantization::default() })
        }
    };
    QuantizationConfig { quantization: Some(quantization) }
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
