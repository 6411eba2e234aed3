//! The real BGE weights, where a hub can be reached: `make verify-bge`.

use toller_core::EmbeddingRole;
use toller_core::fingerprint::Pooling;
use toller_embedder::{Model, Overrides, Source};

use crate::fixtures;
use crate::reference::PlainBert;

const REPOSITORY: &str = "BAAI/bge-small-en-v1.5";
const INSTRUCTION: &str = "Represent this sentence for searching relevant passages: ";

/// Fails, rather than passes unseen, when the hub cannot be reached: whoever runs it wants to know.
#[tokio::test]
#[ignore = "fetches 130 MB from a hub: run it with make verify-bge"]
async fn verify_bge() {
    let source = Source::parse(REPOSITORY).unwrap();
    let loading = tokio::task::spawn_blocking(move || Model::load(&source, &Overrides::default()));
    let model = loading.await.unwrap().unwrap_or_else(|error| panic!("{error}"));
    let fingerprint = model.fingerprint().clone();
    assert_eq!(fingerprint.model, REPOSITORY);
    assert_eq!(fingerprint.revision.len(), 40, "a commit hash");
    assert_eq!((fingerprint.dimension, fingerprint.max_tokens), (384, 512));
    assert_eq!((fingerprint.pooling, fingerprint.normalized), (Some(Pooling::Cls), true));
    assert_eq!(fingerprint.query_instruction, INSTRUCTION);
    assert_eq!(fingerprint.document_instruction, "");

    let texts =
        ["What is the capital of France?", "Paris is the capital of France.", "Dogs retrieve ducks from the water."];
    let embeddings = fixtures::start(&model);
    let queries = fixtures::embed(&embeddings, EmbeddingRole::Query, &texts).await;
    let documents = fixtures::embed(&embeddings, EmbeddingRole::Document, &texts).await;

    let repository = toller_embedder::Repository::parse(REPOSITORY).unwrap();
    let folder = toller_embedder::Hub::from_env().unwrap().snapshot(&repository).unwrap().folder;
    let plain = PlainBert::read(&folder);
    for (role, instruction, answer) in [("query", INSTRUCTION, &queries), ("document", "", &documents)] {
        for (text, embedding) in texts.iter().zip(answer) {
            let ids = model.tokenizer().encode(instruction, text).unwrap().ids;
            fixtures::assert_same(&embedding.vector, &plain.embed(&ids, Pooling::Cls), &format!("{role} {text:?}"));
            let length = fixtures::cosine(&embedding.vector, &embedding.vector).sqrt();
            assert!((length - 1.0).abs() < 1e-5, "{role} {text:?} has length {length}");
        }
    }
    for (query, document) in queries.iter().zip(&documents) {
        let cosine = fixtures::cosine(&query.vector, &document.vector);
        assert!(cosine < 0.999, "the roles must differ, got cosine {cosine}");
    }
    let question = &queries[0].vector;
    let answer = fixtures::cosine(question, &documents[1].vector);
    let other = fixtures::cosine(question, &documents[2].vector);
    assert!(answer > other + 0.1, "the answer is at {answer}, something else at {other}");
}
