//! Compiles proto/toller/v1 with protox (no protoc needed) and leaves out every RPC that is not built yet, so that it is
//! absent from the server, from the client and from reflection.

use std::error::Error;
use std::path::PathBuf;

use prost::Message;
use prost_types::FileDescriptorSet;

/// Parts of the contract that no server implements yet: `Service/Method`, or `Service/*` for a whole service. Whoever
/// builds one deletes its line.
const NOT_BUILT: &[&str] = &["Documents/Index"];

const FILES: &[&str] = &[
    "backups",
    "collections",
    "document_stores",
    "documents",
    "embedder",
    "operations",
    "retrieval",
    "retrievers",
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
    leave_out_what_is_not_built(&mut descriptors)?;

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

fn leave_out_what_is_not_built(descriptors: &mut FileDescriptorSet) -> Result<(), Box<dyn Error>> {
    // Field numbers of google.protobuf.FileDescriptorProto.service and ServiceDescriptorProto.method, and where the indices
    // into them stand in the path of a comment.
    const SERVICE: i32 = 6;
    const METHOD: i32 = 2;

    let mut lines: Vec<&str> = NOT_BUILT.to_vec();
    for file in descriptors.file.iter_mut().filter(|file| file.package() == "toller.v1") {
        let mut new_services = Vec::new();
        let mut new_service_index = Vec::new();
        let mut new_method_indices = Vec::new();
        for mut service in std::mem::take(&mut file.service) {
            let all = format!("{}/*", service.name());
            let is_built = |line: String| {
                let found = [&all, &line].into_iter().find(|line| NOT_BUILT.contains(&line.as_str()));
                lines.retain(|left| found.is_none_or(|found| found != left));
                found.is_none()
            };
            let names: Vec<String> =
                service.method.iter().map(|method| format!("{}/{}", service.name(), method.name())).collect();
            let built: Vec<bool> = names.into_iter().map(is_built).collect();
            new_method_indices.push(new_indices(&built));
            let mut keep = built.iter();
            service.method.retain(|_| keep.next() == Some(&true));
            new_service_index.push(!service.method.is_empty());
            if !service.method.is_empty() {
                new_services.push(service);
            }
        }
        file.service = new_services;

        // Comments are addressed by position: move those of what stays, drop the others.
        let new_service_index = new_indices(&new_service_index);
        if let Some(info) = &mut file.source_code_info {
            info.location.retain_mut(|location| match location.path.as_mut_slice() {
                [SERVICE, service, rest @ ..] => {
                    let Some(Some(index)) = new_service_index.get(*service as usize) else { return false };
                    let new_method_index = new_method_indices.get(*service as usize);
                    *service = *index;
                    match rest {
                        [METHOD, method, ..] => {
                            let index = new_method_index.and_then(|indices| indices.get(*method as usize));
                            let Some(Some(index)) = index else { return false };
                            *method = *index;
                            true
                        }
                        _ => true,
                    }
                }
                _ => true,
            });
        }
    }
    match lines.first() {
        Some(line) => Err(format!("NOT_BUILT names {line}, which is not in proto/toller/v1").into()),
        None => Ok(()),
    }
}

/// For each old position its new one, or none where it is not kept.
fn new_indices(kept: &[bool]) -> Vec<Option<i32>> {
    let mut next = 0..;
    kept.iter().map(|kept| if *kept { next.next() } else { None }).collect()
}
