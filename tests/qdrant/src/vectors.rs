//! Vectors, as messages and as the engine has them. All have names.

use std::collections::HashMap;

use qdrant_client::qdrant::{
    DenseVector, NamedVectorsOutput, SparseVector, Vector, VectorOutput, Vectors, VectorsOutput, vector, vector_output,
    vectors, vectors_output,
};
use qdrant_edge as engine;
use tonic::Status;

use crate::service::not_served;

/// A message's vectors for the engine.
pub(crate) fn to_engine(vectors: Option<Vectors>) -> Result<engine::VectorStructPersisted, Status> {
    match vectors.and_then(|vectors| vectors.vectors_options) {
        Some(vectors::VectorsOptions::Vectors(named)) => {
            let named = named.vectors.into_iter().map(|(name, vector)| Ok((name, one_to_engine(vector)?)));
            Ok(engine::VectorStructPersisted::Named(named.collect::<Result<HashMap<_, _>, Status>>()?))
        }
        Some(vectors::VectorsOptions::Vector(_)) => Err(not_served("vectors without a name")),
        None => Err(Status::invalid_argument("Expected some vectors")),
    }
}

fn one_to_engine(vector: Vector) -> Result<engine::VectorPersisted, Status> {
    match vector.vector {
        Some(vector::Vector::Dense(dense)) => Ok(engine::VectorPersisted::Dense(dense.data)),
        Some(vector::Vector::Sparse(sparse)) => Ok(engine::VectorPersisted::Sparse(sparse_to_engine(sparse))),
        _ => Err(not_served("vectors that are neither dense nor sparse")),
    }
}

/// A message's sparse vector for the engine, whose indices ascend.
pub(crate) fn sparse_to_engine(sparse: SparseVector) -> engine::SparseVector {
    let mut elements: Vec<(u32, f32)> = sparse.indices.into_iter().zip(sparse.values).collect();
    elements.sort_unstable_by_key(|(index, _)| *index);
    let (indices, values) = elements.into_iter().unzip();
    engine::SparseVector { indices, values }
}

/// The engine's vectors as a message's.
pub(crate) fn to_message(vectors: Option<engine::VectorStructInternal>) -> Option<VectorsOutput> {
    let engine::VectorStructInternal::Named(named) = vectors? else { return None };
    let vectors = named.into_iter().filter_map(|(name, vector)| {
        let vector = match vector {
            engine::VectorInternal::Dense(data) => vector_output::Vector::Dense(DenseVector { data }),
            engine::VectorInternal::Sparse(sparse) => {
                vector_output::Vector::Sparse(SparseVector { values: sparse.values, indices: sparse.indices })
            }
            engine::VectorInternal::MultiDense(_) => return None,
        };
        Some((name, VectorOutput { vector: Some(vector), ..VectorOutput::default() }))
    });
    let named = NamedVectorsOutput { vectors: vectors.collect() };
    Some(VectorsOutput { vectors_options: Some(vectors_output::VectorsOptions::Vectors(named)) })
}
