//! Rerankers: the same ids and logits as the reference, pairs cut as FlagEmbedding cuts them, and errors that say which kind of
//! model was given.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toller_core::{EmbeddingRole, Embeddings as _, Principal, RequestContext, Reranker as _};
use toller_embedder::hub::Hub;
use toller_embedder::hub::settings::HubSettings;
use toller_embedder::{
    Device, EmbedderConfig, Engine, Model, Overrides, Repository, RerankModel, RerankOverrides, Sequence, Source,
    TokenizedPair,
};

use crate::fixtures;
use crate::hub_server::{FIRST_COMMIT, HubServer, REPOSITORY};

/// A tiny reranker with the special tokens of a pair and the one between its texts.
struct Tiny {
    name: &'static str,
    special_tokens: usize,
    separators: &'static [u32],
}

const TINY: [Tiny; 2] = [
    Tiny { name: "tiny-reranker-bert", special_tokens: 3, separators: &[102] },
    Tiny { name: "tiny-reranker-xlmr", special_tokens: 4, separators: &[2, 2] },
];

/// Pairs whose query alone is long: the reference files cut the longer text first, as CrossEncoder does.
const CUT_OTHERWISE: [&str; 2] = ["long query truncated", "both long"];

fn load(folder: &Path, overrides: &RerankOverrides) -> Result<RerankModel, String> {
    RerankModel::load(&Source::Folder(folder.to_path_buf()), overrides).map_err(|error| error.to_string())
}

fn tiny(name: &str) -> RerankModel {
    load(&fixtures::path(name), &RerankOverrides::default()).unwrap()
}

fn pair(model: &RerankModel, query: &str, document: &str) -> TokenizedPair {
    let query = model.tokenizer().query(query).unwrap();
    model.tokenizer().pair(&query, document).unwrap()
}

fn logits(model: &RerankModel, pairs: &[TokenizedPair]) -> Vec<f32> {
    let sequences: Vec<Sequence<'_>> =
        pairs.iter().map(|pair| Sequence { ids: &pair.ids, second: pair.second }).collect();
    let vectors = model.encoder().encode(&sequences, &|| ControlFlow::Continue(())).unwrap();
    vectors
        .iter()
        .map(|vector| {
            assert_eq!(vector.len(), 1);
            vector[0]
        })
        .collect()
}

/// Tokens of a text alone, uncut, by the tokenizers library itself.
fn content(name: &str, text: &str) -> Vec<u32> {
    let tokenizer = tokenizers::Tokenizer::from_file(fixtures::path(name).join("tokenizer.json")).unwrap();
    tokenizer.encode(text, false).unwrap().get_ids().to_vec()
}

/// Where token type 1 begins, by the reference's token types.
fn second(types: &Value, length: usize) -> usize {
    let Some(types) = types.as_array() else { return length };
    types.iter().position(|kind| kind == 1).unwrap_or(length)
}

#[test]
fn ids_and_logits_are_those_of_the_reference() {
    for Tiny { name, separators, .. } in TINY {
        let model = tiny(name);
        assert_eq!((model.name(), model.revision(), model.max_tokens()), (name, "", 512));
        let reference = fixtures::json(&format!("{name}/reference.json"));
        let items = reference["items"].as_array().unwrap();
        assert_eq!(items.len(), 32);
        let mut pairs = Vec::new();
        for item in items {
            let what = format!("{name}, {}", item["name"]);
            let (query, document) = (item["query"].as_str().unwrap(), item["document"].as_str().unwrap());
            let ids = fixtures::ids(&item["input_ids"]);
            let second = second(&item["token_type_ids"], ids.len());
            let ours = pair(&model, query, document);
            if CUT_OTHERWISE.contains(&item["name"].as_str().unwrap()) {
                assert!(ours.truncated, "{what}");
                let (query, document) = (content(name, query), content(name, document));
                let query = &query[..384];
                let room = 512 - 384 - separators.len() - 2;
                let expected =
                    [&ids[..1], query, separators, &document[..document.len().min(room)], &ids[511..]].concat();
                assert_eq!(ours.ids, expected, "{what}");
            } else {
                assert_eq!((&ours.ids, ours.second), (&ids, second), "{what}");
                let uncut = content(name, query).len() + content(name, document).len() + separators.len() + 2;
                assert_eq!(ours.truncated, uncut > 512, "{what}");
            }
            // The model must agree also on the pairs that are cut in another way.
            pairs.push(TokenizedPair { second, truncated: ours.truncated, ids });
        }
        for (item, logit) in items.iter().zip(logits(&model, &pairs)) {
            let difference = (f64::from(logit) - item["logit"].as_f64().unwrap()).abs();
            assert!(difference < 1e-4, "{name}, {}: the logit is off by {difference}", item["name"]);
        }
    }
}

#[test]
fn a_pair_scores_the_same_in_any_company() {
    for Tiny { name, .. } in TINY {
        let model = tiny(name);
        let words = "wing boundary layer shock heat flow pressure vector of the".split(' ').collect::<Vec<_>>();
        let pairs: Vec<TokenizedPair> = (0..24)
            .map(|index| {
                let text = (0..index * 11).map(|word| words[(index + word * word) % words.len()]).collect::<Vec<_>>();
                pair(&model, &text[..text.len() / 4].join(" "), &text.join(" "))
            })
            .collect();
        let together = logits(&model, &pairs);
        for (index, pair) in pairs.iter().enumerate() {
            let alone = logits(&model, std::slice::from_ref(pair))[0];
            let difference = (alone - together[index]).abs();
            assert!(difference <= 1e-5, "{name}, pair {index} is off by {difference}");
        }
    }
}

#[test]
fn the_query_keeps_at_most_three_quarters_and_the_document_gets_the_rest() {
    for Tiny { name, special_tokens, separators } in TINY {
        let max_tokens = 32;
        let overrides = RerankOverrides { max_tokens: Some(max_tokens), ..RerankOverrides::default() };
        let model = load(&fixtures::path(name), &overrides).unwrap();
        for query_words in [0, 1, 23, 24, 25, 500] {
            for document_words in [0, 1, 3, 4, 5, 27, 28, 29, 30, 500] {
                let what = format!("{name}: {query_words} and {document_words} words");
                let ours = pair(&model, &"flow ".repeat(query_words), &"heat ".repeat(document_words));
                // One word is one token in both vocabularies.
                let query = query_words.min(24);
                let document = document_words.min(max_tokens - special_tokens - query);
                assert_eq!(ours.ids.len(), query + document + special_tokens, "{what}");
                assert_eq!(&ours.ids[1 + query..][..separators.len()], separators, "{what}");
                assert_eq!(ours.truncated, query < query_words || document < document_words, "{what}");
            }
        }
        let least = 4 * special_tokens + 1;
        for too_few in [1, least - 1, 513] {
            let overrides = RerankOverrides { max_tokens: Some(too_few), ..RerankOverrides::default() };
            let error = load(&fixtures::path(name), &overrides).unwrap_err();
            assert!(error.starts_with("max_tokens: must be "), "{too_few}: {error}");
        }
        let overrides = RerankOverrides { max_tokens: Some(least), ..RerankOverrides::default() };
        let ours = pair(&load(&fixtures::path(name), &overrides).unwrap(), &"flow ".repeat(99), &"heat ".repeat(99));
        assert_eq!(ours.ids.len(), least);
        assert_eq!(ours.ids.iter().filter(|id| content(name, "heat").contains(id)).count(), 1, "room for one token");
    }
}

#[test]
fn awkward_texts_are_pairs() {
    for Tiny { name, special_tokens, .. } in TINY {
        let model = tiny(name);
        let megabyte = "x".repeat(1 << 20);
        for (query, document) in [("", ""), ("\u{0}\u{1}\u{7f}", "\u{feff}"), (&megabyte, &megabyte), ("a", &megabyte)]
        {
            let ours = pair(&model, query, document);
            assert!((special_tokens..=512).contains(&ours.ids.len()), "{name}: {} tokens", ours.ids.len());
            assert!(logits(&model, &[ours])[0].is_finite());
        }
    }
}

/// A copy of a tiny reranker whose config.json was changed.
fn copy_with(name: &str, change: impl FnOnce(&mut Value)) -> tempfile::TempDir {
    let folder = fixtures::copy_of(name);
    let path = folder.path().join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut config);
    fs::write(&path, config.to_string()).unwrap();
    folder
}

fn error_after(name: &str, change: impl FnOnce(&mut Value)) -> String {
    let folder = copy_with(name, change);
    load(folder.path(), &RerankOverrides::default()).unwrap_err().replace(folder.path().to_str().unwrap(), "DIR")
}

#[test]
fn a_model_of_the_other_kind_is_named() {
    let error = load(&fixtures::path("tiny-bge"), &RerankOverrides::default()).unwrap_err();
    assert!(
        error.contains("tiny-bge/config.json, key architectures: is [\"BertModel\"], but a reranker of this family is a BertForSequenceClassification: an embedding model cannot rerank"),
        "{error}"
    );
    for (Tiny { name, .. }, class) in
        TINY.iter().zip(["BertForSequenceClassification", "XLMRobertaForSequenceClassification"])
    {
        let source = Source::Folder(fixtures::path(name));
        for pooling in [None, Some(toller_core::fingerprint::Pooling::Cls)] {
            let error = Model::load(&source, &Overrides { pooling, ..Overrides::default() }).unwrap_err().to_string();
            let expected = format!(
                "{name}/config.json, key architectures: is {class}, a reranker or another classifier: choose an embedding model"
            );
            assert!(error.ends_with(&expected), "{error}");
        }
    }
}

#[test]
fn what_is_no_reranker_is_refused_with_file_and_key() {
    let bert = "tiny-reranker-bert";
    let cases = [
        (
            error_after(bert, |config| config["id2label"] = json!({"0": "no", "1": "yes"})),
            "DIR/config.json, key id2label: gives the classifier 2 labels, but a reranker has num_labels 1",
        ),
        (
            error_after(bert, |config| {
                config["id2label"] = Value::Null;
                config["num_labels"] = json!(3);
            }),
            "DIR/config.json, key num_labels: gives the classifier 3 labels",
        ),
        (
            error_after(bert, |config| config["id2label"] = Value::Null),
            "DIR/config.json, key num_labels: gives the classifier 2 labels",
        ),
        (
            error_after(bert, |config| config["architectures"] = Value::Null),
            "DIR/config.json, key architectures: is missing, but a reranker of this family is a BertForSequenceClassification",
        ),
        (
            error_after(bert, |config| config["model_type"] = json!("deberta-v2")),
            "DIR/config.json, key model_type: is deberta-v2, but only bert and xlm-roberta are supported",
        ),
        (
            error_after(bert, |config| config["model_type"] = json!("xlm-roberta")),
            "DIR/config.json, key architectures: is [\"BertForSequenceClassification\"], but a reranker of this family is a XLMRobertaForSequenceClassification",
        ),
        (
            error_after("tiny-reranker-xlmr", |config| config["pad_token_id"] = json!(513)),
            "DIR/config.json, key max_position_embeddings: is 514, but the first token already has position 514",
        ),
    ];
    for (error, expected) in cases {
        assert!(error.starts_with(expected), "expected {expected:?}, got {error:?}");
    }
    let device = RerankOverrides { device: Device::Metal, ..RerankOverrides::default() };
    if cfg!(not(feature = "metal")) {
        let error = load(&fixtures::path(bert), &device).unwrap_err();
        assert!(error.contains("device: is metal") && error.contains("cargo feature metal"), "{error}");
    }
}

#[test]
fn a_missing_classifier_is_named() {
    for (name, tensors) in [
        ("tiny-reranker-bert", ["bert.pooler.dense.weight", "classifier.bias"]),
        ("tiny-reranker-xlmr", ["classifier.dense.weight", "classifier.out_proj.weight"]),
    ] {
        for tensor in tensors {
            let folder = fixtures::copy_of(name);
            fixtures::edit_weights(folder.path(), |weights| {
                weights.remove(tensor).unwrap();
            });
            let error = load(folder.path(), &RerankOverrides::default()).unwrap_err();
            assert!(error.contains(&format!("model.safetensors: tensor {tensor} is missing")), "{error}");
        }
    }
}

#[test]
fn a_tokenizer_without_a_pair_template_is_refused() {
    let folder = fixtures::copy_of("tiny-reranker-bert");
    let path = folder.path().join("tokenizer.json");
    let mut tokenizer: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    tokenizer["post_processor"] = Value::Null;
    fs::write(&path, tokenizer.to_string()).unwrap();
    let error = load(folder.path(), &RerankOverrides::default()).unwrap_err();
    assert!(error.contains("tokenizer.json, key post_processor: must put a special token between"), "{error}");
}

#[test]
fn a_reranker_is_fetched_once_and_then_lives_without_the_network() {
    let server = HubServer::start(&fixtures::path("tiny-reranker-xlmr"));
    let cache = tempfile::tempdir().unwrap();
    let settings = HubSettings::new(cache.path(), &server.endpoint());
    let source = Source::Hub(Repository::parse(REPOSITORY).unwrap());
    let load = |settings: &HubSettings| {
        RerankModel::load_with(&source, &RerankOverrides::default(), &Hub::new(settings.clone())).unwrap()
    };
    let model = load(&settings);
    assert_eq!((model.name(), model.revision()), (REPOSITORY, FIRST_COMMIT));
    server.take_requests();
    for offline in [false, true] {
        let again = load(&HubSettings { offline, ..settings.clone() });
        assert_eq!(again.weights_sha256(), model.weights_sha256());
        assert_eq!(server.take_requests(), [""; 0], "a cached model needs no network");
    }
}

#[tokio::test]
async fn a_reranker_and_an_embedder_share_an_engine() {
    let engine =
        Engine::start(EmbedderConfig::builder().queue_tokens(4_096).batch_tokens(64).build().unwrap()).unwrap();
    let embeddings = engine.embeddings(fixtures::load(&fixtures::path("tiny-bge"), &Overrides::default()));
    let context = RequestContext::new(Principal::anonymous());
    for Tiny { name, .. } in TINY {
        let reranker = engine.reranker(tiny(name));
        assert_eq!((reranker.provider(), reranker.model()), ("candle", name));
        reranker.warm_up().await.unwrap();
        reranker.check_alive(Duration::from_secs(60)).await.unwrap();

        let reference = fixtures::json(&format!("{name}/reference.json"));
        let items: Vec<&Value> = reference["items"].as_array().unwrap().iter().take(24).collect();
        for query in items.iter().map(|item| item["query"].as_str().unwrap()) {
            // All documents against this query at once, while the embedder works: the answer is aligned.
            let documents: Vec<String> =
                items.iter().map(|item| item["document"].as_str().unwrap().to_owned()).collect();
            let (scores, vectors) = tokio::join!(
                reranker.rerank(&context, query, documents.clone()),
                embeddings.embed(&context, EmbeddingRole::Document, vec![query.to_owned()])
            );
            assert_eq!(vectors.unwrap()[0].vector.len(), 64);
            for ((item, document), score) in items.iter().zip(&documents).zip(scores.unwrap()) {
                let ours = pair(reranker.rerank_model(), query, document);
                assert_eq!(score.token_count, Some(ours.ids.len() as u32));
                assert_eq!(score.truncated, ours.truncated);
                if item["query"] == query {
                    assert!((f64::from(score.logit) - item["logit"].as_f64().unwrap()).abs() < 1e-4);
                    assert!((score.relevance() - item["score_sigmoid"].as_f64().unwrap()).abs() < 1e-4);
                }
            }
        }
        assert_eq!(reranker.rerank(&context, "no documents", Vec::new()).await, Ok(Vec::new()));
        let expired = context.clone().with_deadline(Some(Instant::now()));
        let late = reranker.rerank(&expired, "late", vec!["late".to_owned()]).await;
        assert!(matches!(late, Err(toller_core::Error::DeadlineExceeded(_))), "{late:?}");
        let too_much = vec!["heat flow ".repeat(400); 20];
        let full = reranker.rerank(&context, "too much for the queue", too_much).await;
        assert!(matches!(full, Err(toller_core::Error::ResourceExhausted { .. })), "{full:?}");
        assert_eq!(engine.queued_tokens(), 0);
    }
}
