//! The server for tests refuses what a real one refuses, in the same codes, and names what it does not serve.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests: they fail by panicking"
)]

use std::collections::HashMap;

use qdrant_client::qdrant::collections_client::CollectionsClient;
use qdrant_client::qdrant::points_client::PointsClient;
use qdrant_client::qdrant::{
    CountPoints, CreateCollection, DenseVector, Distance, FacetCounts, NamedVectors, PointId, PointStruct, UpdateMode,
    UpsertPoints, Vector, VectorParams, VectorParamsMap, Vectors, VectorsConfig, point_id, vector, vectors,
    vectors_config,
};
use toller_test_qdrant::TestQdrant;
use tonic::Code;
use tonic::transport::Channel;

fn point(number: u64, name: &str, elements: &[f32]) -> PointStruct {
    let dense = vector::Vector::Dense(DenseVector { data: elements.to_vec() });
    let named = HashMap::from([(name.to_owned(), Vector { vector: Some(dense), ..Vector::default() })]);
    PointStruct {
        id: Some(PointId { point_id_options: Some(point_id::PointIdOptions::Num(number)) }),
        vectors: Some(Vectors {
            vectors_options: Some(vectors::VectorsOptions::Vectors(NamedVectors { vectors: named })),
        }),
        ..PointStruct::default()
    }
}

fn creation() -> CreateCollection {
    let params = VectorParams { size: 2, distance: Distance::Dot.into(), ..VectorParams::default() };
    let map = HashMap::from([("dense".to_owned(), params)]);
    CreateCollection {
        collection_name: "c".to_owned(),
        vectors_config: Some(VectorsConfig {
            config: Some(vectors_config::Config::ParamsMap(VectorParamsMap { map })),
        }),
        ..CreateCollection::default()
    }
}

async fn upsert(client: &mut PointsClient<Channel>, mode: UpdateMode, points: Vec<PointStruct>) -> Result<(), Code> {
    let request = UpsertPoints {
        collection_name: "c".to_owned(),
        wait: Some(true),
        points,
        update_mode: Some(mode.into()),
        ..UpsertPoints::default()
    };
    client.upsert(request).await.map(|_| ()).map_err(|status| status.code())
}

async fn count(client: &mut PointsClient<Channel>) -> Result<u64, Code> {
    let request = CountPoints { collection_name: "c".to_owned(), exact: Some(true), ..CountPoints::default() };
    let reply = client.count(request).await.map_err(|status| status.code())?;
    Ok(reply.into_inner().result.unwrap().count)
}

#[tokio::test]
async fn it_is_as_strict_as_a_real_one() {
    let server = TestQdrant::start().await.unwrap();
    let mut points = PointsClient::connect(server.url()).await.unwrap();
    let mut collections = CollectionsClient::connect(server.url()).await.unwrap();
    assert_eq!(count(&mut points).await, Err(Code::NotFound));
    collections.create(creation()).await.unwrap();
    assert_eq!(collections.create(creation()).await.unwrap_err().code(), Code::AlreadyExists);

    let wrong = upsert(&mut points, UpdateMode::Upsert, vec![point(1, "dense", &[1.0])]).await;
    assert_eq!(wrong, Err(Code::InvalidArgument), "a wrong dimension");
    let wrong = upsert(&mut points, UpdateMode::Upsert, vec![point(1, "other", &[1.0, 1.0])]).await;
    assert_eq!(wrong, Err(Code::InvalidArgument), "an unknown vector name");
    assert_eq!(count(&mut points).await, Ok(0));

    upsert(&mut points, UpdateMode::UpdateOnly, vec![point(1, "dense", &[1.0, 1.0])]).await.unwrap();
    assert_eq!(count(&mut points).await, Ok(0), "there is nothing to update");
    upsert(&mut points, UpdateMode::InsertOnly, vec![point(1, "dense", &[1.0, 1.0])]).await.unwrap();
    assert_eq!(count(&mut points).await, Ok(1));

    let facet = points.facet(FacetCounts { collection_name: "c".to_owned(), ..FacetCounts::default() }).await;
    let status = facet.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    assert!(status.message().contains("Points.facet"), "{status}");
}
