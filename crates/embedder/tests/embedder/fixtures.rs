//! Where the test models are, and how vectors are compared.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor};
use serde_json::Value;
use toller_core::embeddings::Embedding;
use toller_core::{EmbeddingRole, Embeddings as _, Principal, RequestContext};
use toller_embedder::{EmbedderConfig, LocalEmbeddings, Model, Overrides, Source};

/// The repository's folder of fixtures.
pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name)
}

pub(crate) fn json(name: &str) -> Value {
    serde_json::from_slice(&fs::read(path(name)).unwrap()).unwrap()
}

/// The folder of all-MiniLM-L6-v2. Without it the test is skipped with a line on stderr, unless `TOLLER_TEST_MODEL` named it.
pub(crate) fn minilm() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("TOLLER_TEST_MODEL") {
        let folder = PathBuf::from(named);
        assert!(folder.is_dir(), "TOLLER_TEST_MODEL is {}, which is not a folder", folder.display());
        return Some(folder);
    }
    let cache = std::env::var_os("TOLLER_CACHE").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::home_dir().map(|home| home.join(".cache/toller")));
    let folder = cache?.join("models/sentence-transformers/all-MiniLM-L6-v2");
    if folder.is_dir() {
        return Some(folder);
    }
    // Not eprintln!, which the test harness would keep to itself.
    let line = format!("SKIPPED: no model in {}: run scripts/setup-model --minilm\n", folder.display());
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    None
}

pub(crate) fn load(folder: &Path, overrides: &Overrides) -> Model {
    Model::load(&Source::Folder(folder.to_path_buf()), overrides).unwrap()
}

pub(crate) fn start(model: &Model) -> LocalEmbeddings {
    LocalEmbeddings::start(model.clone(), EmbedderConfig::builder().build().unwrap()).unwrap()
}

pub(crate) async fn embed(embeddings: &LocalEmbeddings, role: EmbeddingRole, texts: &[&str]) -> Vec<Embedding> {
    let context = RequestContext::new(Principal::anonymous());
    embeddings.embed(&context, role, texts.iter().map(|text| (*text).to_owned()).collect()).await.unwrap()
}

/// A copy of the tiny model that a test may break.
pub(crate) fn tiny_copy() -> tempfile::TempDir {
    copy_of("tiny-bge")
}

/// A copy of a fixture that a test may break.
pub(crate) fn copy_of(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy(&path(name), folder.path());
    folder
}

/// Changes the tensors of a model's folder.
pub(crate) fn edit_weights(folder: &Path, change: impl FnOnce(&mut HashMap<String, Tensor>)) {
    let path = folder.join("model.safetensors");
    let mut tensors = candle_core::safetensors::load(&path, &Device::Cpu).unwrap();
    change(&mut tensors);
    candle_core::safetensors::save(&tensors, &path).unwrap();
}

/// Copies the files of `from` into the folder `to`, which is made when it is not there.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

pub(crate) fn floats(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
}

pub(crate) fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap() as u32).collect()
}

pub(crate) fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

pub(crate) fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// Parity as the reference files suggest it: cosine at least 0.99999 and no element further off than 2e-5.
pub(crate) fn assert_same(got: &[f32], expected: &[f32], what: &str) {
    let difference = largest_difference(got, expected);
    assert!(difference <= 2e-5, "{what}: an element is off by {difference}");
    let cosine = cosine(got, expected);
    assert!(cosine >= 0.99999, "{what}: cosine {cosine}");
}
