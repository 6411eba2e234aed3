//! The same vectors as sentence-transformers, from recorded references.

use toller_core::EmbeddingRole;
use toller_core::fingerprint::Pooling;
use toller_embedder::Overrides;

use crate::fixtures;

const INSTRUCTION: &str = "Represent this sentence for searching relevant passages: ";

#[tokio::test]
async fn tiny_bge_in_both_roles() {
    let model = fixtures::load(&fixtures::path("tiny-bge"), &Overrides::default());
    let fingerprint = model.fingerprint().clone();
    assert_eq!(fingerprint.provider, "candle");
    assert_eq!(fingerprint.model, "tiny-bge");
    assert_eq!(fingerprint.revision, "");
    assert_eq!(fingerprint.dimension, 64);
    assert_eq!(fingerprint.pooling, Some(Pooling::Cls));
    assert!(fingerprint.normalized);
    assert_eq!(fingerprint.query_instruction, INSTRUCTION);
    assert_eq!(fingerprint.document_instruction, "");
    assert_eq!(fingerprint.max_tokens, 512);
    assert_eq!(fingerprint.weights_sha256.len(), 64);

    let reference = fixtures::json("tiny-bge/reference.json");
    let items = reference["items"].as_array().unwrap();
    assert_eq!(items.len(), 32);
    let texts: Vec<&str> = items.iter().map(|item| item["text"].as_str().unwrap()).collect();
    let embeddings = fixtures::start(&model);
    for (role, name, instruction) in
        [(EmbeddingRole::Query, "query", INSTRUCTION), (EmbeddingRole::Document, "document", "")]
    {
        let answer = fixtures::embed(&embeddings, role, &texts).await;
        for ((item, text), embedding) in items.iter().zip(&texts).zip(&answer) {
            let what = format!("{name} {}", item["name"]);
            let ids = fixtures::ids(&item[format!("input_ids_{name}")]);
            assert_eq!(model.tokenizer().encode(instruction, text).unwrap().ids, ids, "{what}");
            assert_eq!(embedding.token_count, Some(ids.len() as u32), "{what}");
            fixtures::assert_same(&embedding.vector, &fixtures::floats(&item[name]), &what);
        }
    }
}

#[tokio::test]
async fn minilm_at_every_length() {
    let Some(folder) = fixtures::minilm() else { return };
    let reference = fixtures::json("minilm_reference.json");
    let items = reference["items"].as_array().unwrap();
    assert_eq!(items.len(), 64);
    for (max_tokens, expected) in [(256, 64), (512, 9), (128, 9)] {
        // The file says 256 itself.
        let overrides = Overrides { max_tokens: (max_tokens != 256).then_some(max_tokens), ..Overrides::default() };
        let model = fixtures::load(&folder, &overrides);
        assert_eq!(model.fingerprint().pooling, Some(Pooling::Mean));
        assert_eq!(model.fingerprint().max_tokens as usize, max_tokens);
        assert_eq!(model.fingerprint().weights_sha256, reference["model_sha256"].as_str().unwrap());
        let key = format!("embedding_{max_tokens}");
        let items: Vec<_> = items.iter().filter(|item| item.get(&key).is_some()).collect();
        assert_eq!(items.len(), expected);
        let texts: Vec<&str> = items.iter().map(|item| item["text"].as_str().unwrap()).collect();
        let answer = fixtures::embed(&fixtures::start(&model), EmbeddingRole::Document, &texts).await;
        for (item, embedding) in items.iter().zip(&answer) {
            let what = format!("{} at {max_tokens}", item["name"]);
            let untruncated = item["tokens_untruncated"].as_u64().unwrap() as usize;
            assert_eq!(embedding.truncated, untruncated > max_tokens, "{what}");
            assert_eq!(embedding.token_count, Some(untruncated.min(max_tokens) as u32), "{what}");
            if max_tokens == 256 {
                let text = item["text"].as_str().unwrap();
                let ids = fixtures::ids(&item["input_ids_256"]);
                assert_eq!(model.tokenizer().encode("", text).unwrap().ids, ids, "{what}");
            }
            fixtures::assert_same(&embedding.vector, &fixtures::floats(&item[&key]), &what);
        }
    }
}
