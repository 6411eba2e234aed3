//! XLM-RoBERTa as an embedding model, in the layout of bge-m3's dense encoder.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toller_core::fingerprint::Pooling;
use toller_embedder::{Model, Overrides, Sequence, Source};

use crate::fixtures;
use crate::reference::PlainBert;

/// The tiny reranker's encoder in a folder called bge-m3, without its head. `prefix` stands before the tensors' names.
fn tiny_m3(parent: &Path, prefix: &str) -> PathBuf {
    let folder = parent.join("bge-m3");
    fixtures::copy(&fixtures::path("tiny-reranker-xlmr"), &folder);
    fixtures::copy(&fixtures::path("tiny-bge/1_Pooling"), &folder.join("1_Pooling"));
    for file in ["modules.json", "sentence_bert_config.json"] {
        fs::copy(fixtures::path("tiny-bge").join(file), folder.join(file)).unwrap();
    }
    let mut config: Value = serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap();
    config["architectures"] = json!(["XLMRobertaModel"]);
    fs::write(folder.join("config.json"), config.to_string()).unwrap();
    fixtures::edit_weights(&folder, |weights| {
        for (name, tensor) in std::mem::take(weights) {
            if let Some(name) = name.strip_prefix("roberta.") {
                weights.insert(format!("{prefix}{name}"), tensor);
            }
        }
    });
    folder
}

#[test]
fn a_dense_encoder_of_the_family_agrees_with_plain_loops() {
    for prefix in ["", "roberta."] {
        let parent = tempfile::tempdir().unwrap();
        let folder = tiny_m3(parent.path(), prefix);
        let model = Model::load(&Source::Folder(folder.clone()), &Overrides::default()).unwrap();
        let fingerprint = model.fingerprint();
        assert_eq!((fingerprint.pooling, fingerprint.normalized), (Some(Pooling::Cls), true));
        assert_eq!((fingerprint.query_instruction.as_str(), fingerprint.document_instruction.as_str()), ("", ""));
        assert_eq!((fingerprint.dimension, fingerprint.max_tokens), (64, 512));

        let plain = PlainBert::read(&folder);
        let long = "boundary layer ".repeat(300);
        let texts = ["", "hello", "风洞 pressure", &long];
        let ids: Vec<Vec<u32>> = texts.iter().map(|text| model.tokenizer().encode("", text).unwrap().ids).collect();
        assert_eq!((ids[0].as_slice(), ids[3].len()), ([0, 2].as_slice(), 512), "every position is used");
        let sequences: Vec<Sequence<'_>> = ids.iter().map(|ids| Sequence::single(ids)).collect();
        let vectors = model.encoder().encode(&sequences, &|| ControlFlow::Continue(())).unwrap();
        for (ids, vector) in ids.iter().zip(&vectors) {
            let difference = fixtures::largest_difference(vector, &plain.embed(ids, Pooling::Cls));
            assert!(difference < 5e-6, "{} tokens are off by {difference}", ids.len());
        }
        let too_long = vec![5; 513];
        assert!(model.encoder().encode(&[Sequence::single(&too_long)], &|| ControlFlow::Continue(())).is_err());
    }
}
