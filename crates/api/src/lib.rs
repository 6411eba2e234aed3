//! The public contract in Rust: code generated from proto/toller/v1, its descriptor set, and the conversions between its
//! messages and the types of `toller-core`. No logic.
//!
//! Generated code is in [`v1`]; RPCs of the contract that no server implements yet are left out of it (see build.rs).

pub mod convert;

/// Messages, clients and servers of package `toller.v1`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, clippy::restriction)]
pub mod v1 {
    tonic::include_proto!("toller.v1");
}

/// The contract as a serialised `google.protobuf.FileDescriptorSet`, for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/toller_v1_descriptors.binpb"));

/// The contract of `toller.v1.Embedder` alone, for the reflection of an embedding worker.
pub const EMBEDDER_DESCRIPTORS: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/toller_v1_embedder_descriptors.binpb"));
