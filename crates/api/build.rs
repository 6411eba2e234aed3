//! Compiles proto/toller/v1 with protox (no protoc needed).

use std::error::Error;
use std::path::PathBuf;

use prost::Message;

const FILES: &[&str] = &[
    "backups",
    "collections",
    "document_stores",
    "documents",
    "embedder",
    "operations",
    "retrieval",
    "retrievers",
    "splitters",
    "types",
];

fn main() -> Result<(), Box<dyn Error>> {
    let proto = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo:rerun-if-changed={}", proto.join("toller").display());

    let files = FILES.iter().map(|name| format!("toller/v1/{name}.proto"));
    let mut descriptors = protox::Compiler::new([&proto])?
        .include_source_info(true)
        .include_imports(true)
        .open_files(files)?
        .file_descriptor_set();

    let mut prost_config = tonic_prost_build::Config::new();
    prost_config.btree_map(["."]);
    tonic_prost_build::configure()
        .compile_well_known_types(false)
        .compile_fds_with_config(descriptors.clone(), prost_config)?;

    // Reflection serves the descriptors without comments.
    for file in &mut descriptors.file {
        file.source_code_info = None;
    }
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("toller_v1_descriptors.binpb"), descriptors.encode_to_vec())?;
    // Workers serve one service, and reflection must not promise the others.
    descriptors.file.retain(|file| file.service.is_empty() || file.name() == "toller/v1/embedder.proto");
    std::fs::write(out.join("toller_v1_embedder_descriptors.binpb"), descriptors.encode_to_vec())?;
    Ok(())
}
