//! Weights of 8 bits: near the vectors of f32, the same in any company, and not to be taken for them.

use toller_core::{EmbeddingRole, Embeddings as _};
use toller_embedder::{Device, Model, Overrides, Precision, RerankModel, RerankOverrides, Source};

use crate::fixtures;

fn int8() -> Overrides {
    Overrides { dtype: Precision::Int8, ..Overrides::default() }
}

fn cosine(one: &[f32], other: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    dot(one, other) / (dot(one, one) * dot(other, other)).sqrt()
}

#[tokio::test]
async fn vectors_are_near_the_references() {
    let minilm = fixtures::minilm().map(|folder| (folder, "minilm_reference.json", "embedding_256"));
    for (folder, file, key) in
        [(fixtures::path("tiny-bge"), "tiny-bge/reference.json", "document")].into_iter().chain(minilm)
    {
        let model = fixtures::load(&folder, &int8());
        let reference = fixtures::json(file);
        let items = reference["items"].as_array().unwrap();
        let texts: Vec<&str> = items.iter().map(|item| item["text"].as_str().unwrap()).collect();
        let embeddings = fixtures::start(&model);
        let answer = fixtures::embed(&embeddings, EmbeddingRole::Document, &texts).await;
        for (item, embedding) in items.iter().zip(&answer) {
            let cosine = cosine(&embedding.vector, &fixtures::floats(&item[key]));
            assert!(cosine >= 0.99, "{file} {}: {cosine}", item["name"]);
        }
        // To the bit: alone as together.
        for (text, together) in texts.iter().zip(&answer).take(8) {
            let alone = fixtures::embed(&embeddings, EmbeddingRole::Document, &[text]).await;
            assert_eq!(alone[0].vector, together.vector);
        }
    }
}

#[test]
fn they_have_a_fingerprint_of_their_own() {
    let folder = fixtures::path("tiny-bge");
    let (exact, int8) = (fixtures::load(&folder, &Overrides::default()), fixtures::load(&folder, &int8()));
    assert_ne!(exact.fingerprint(), int8.fingerprint());
    assert_eq!(int8.fingerprint().weights_sha256, format!("int8:{}", exact.fingerprint().weights_sha256));
    assert_eq!(int8.fingerprint(), fixtures::start(&int8).fingerprint());
}

#[test]
fn only_the_processor_computes_with_them() {
    let source = Source::Folder(fixtures::path("tiny-bge"));
    let error = Model::load(&source, &Overrides { device: Device::Cuda, ..int8() }).unwrap_err().to_string();
    assert_eq!(error, "dtype: is int8, which the device cuda cannot compute with: choose f32, or the device cpu");
}

#[tokio::test]
async fn logits_of_rerankers_are_near_those_of_f32() {
    for name in ["tiny-reranker-bert", "tiny-reranker-xlmr"] {
        let load = |dtype| {
            let overrides = RerankOverrides { dtype, ..RerankOverrides::default() };
            RerankModel::load(&Source::Folder(fixtures::path(name)), &overrides).unwrap()
        };
        let (exact, int8) = (load(Precision::F32), load(Precision::Int8));
        let documents: Vec<String> = ["a dog", "retrievers are dogs that fetch", "the price of tin in 1931", "tin", ""]
            .map(str::to_owned)
            .to_vec();
        let scores = |model: &RerankModel| {
            let logit = |document: &String| {
                let query = model.tokenizer().query("what is a retriever").unwrap();
                let pair = model.tokenizer().pair(&query, document).unwrap();
                let sequence = toller_embedder::Sequence { ids: &pair.ids, second: pair.second };
                model.encoder().encode(&[sequence], &|| std::ops::ControlFlow::Continue(())).unwrap()[0][0]
            };
            documents.iter().map(logit).collect::<Vec<f32>>()
        };
        for (exact, int8) in scores(&exact).into_iter().zip(scores(&int8)) {
            assert!((exact - int8).abs() < 0.1, "{name}: {exact} and {int8}");
        }
    }
}
