//! Composed retrievers: declared as trees, checked whole, and run as one.

use std::fs;

use serde_json::json;
use toller_api::v1;
use toller_api::v1::retriever::Kind;
use toller_tests::TINY_RERANKER;
use toller_tests::client::Client;
use toller_tests::collector::Collector;
use toller_tests::command::{run, toller};
use toller_tests::request::*;
use toller_tests::server::{Server, Settings};
use tonic::{Code, Status};

use crate::expect;

/// A server without a model: `near` and `far` hold points on the circle, `chunks` and `texts` children and their parents.
async fn server() -> (Server, Client) {
    let server = Settings::new().without_model().start().await;
    let client = server.client().await;
    fill(&client).await;
    (server, client)
}

async fn fill(client: &Client) {
    for name in ["near", "far", "chunks", "texts"] {
        client.create_for_vectors(name, 2, v1::Metric::Cosine).await;
    }
    client.add("near", vec![at("a", 0), at("b", 10), at("c", 20)]).await;
    client.add("far", vec![at("c", 10), at("b", 20), at("d", 60)]).await;
    let child = |id, degrees, parent| at(id, degrees).with("doc_id", string(parent)).with("start_index", int(0));
    client
        .add("chunks", vec![child("1", 0, "p"), child("2", 1, "p"), child("3", 2, "gone"), child("4", 50, "q")])
        .await;
    client.add("texts", vec![document("p", "text of 1 and more").vector(&[1.0, 0.0]), at("q", 0)]).await;
}

fn at(id: &str, degrees: u32) -> v1::Document {
    let (sin, cos) = (degrees as f32).to_radians().sin_cos();
    point(id, &[cos, sin])
}

fn leaf(collection: &str) -> v1::Retriever {
    vector_store("", search_in(collection))
}

fn ensemble(retrievers: Vec<v1::Retriever>) -> v1::Retriever {
    retriever("", Kind::Ensemble(v1::EnsembleRetriever { retrievers, ..Default::default() }))
}

fn fallback(retrievers: Vec<v1::Retriever>, min_relevance: f64) -> v1::Retriever {
    let message = v1::FallbackRetriever { retrievers, min_hits: Some(3), min_relevance: Some(min_relevance) };
    retriever("", Kind::Fallback(message))
}

fn compression(base: v1::Retriever, compressors: Vec<v1::Compressor>) -> v1::Retriever {
    let message = v1::ContextualCompressionRetriever { retriever: Some(Box::new(base)), compressors };
    retriever("", Kind::ContextualCompression(Box::new(message)))
}

fn parent_document(k: u32) -> v1::Retriever {
    let parents = v1::ParentSource { kind: Some(v1::parent_source::Kind::Collection("texts".to_owned())) };
    retriever(
        "",
        Kind::ParentDocument(v1::ParentDocumentRetriever {
            search: Some(v1::VectorStoreRetriever { k: Some(1), ..search_in("chunks") }),
            parents: Some(parents),
            k: Some(k),
            ..Default::default()
        }),
    )
}

fn east(retriever: v1::Retriever) -> v1::RetrieveRequest {
    v1::RetrieveRequest { query: Some(vector_query(&[1.0, 0.0])), retriever: Some(retriever), ..Default::default() }
}

async fn retrieve(client: &Client, request: v1::RetrieveRequest) -> Result<v1::RetrieveResponse, Status> {
    Ok(client.retrieval().retrieve(request).await?.into_inner())
}

fn paths(answer: &v1::RetrieveResponse) -> Vec<&str> {
    answer.warnings.iter().map(|warning| warning.path.as_str()).collect()
}

#[tokio::test]
async fn an_ensemble_fuses_ranks_and_names_its_legs() {
    let (_server, client) = server().await;
    let legs = vec![vector_store("mine", search_in("near")), leaf("far")];
    let answer = retrieve(&client, east(ensemble(legs))).await.unwrap();
    assert_eq!(answer.hits.ids(), ["c", "b", "a", "d"]);
    let best = &answer.hits[0];
    assert!((best.score - 0.5 * (1.0 / 63.0 + 1.0 / 61.0)).abs() < 1e-12, "{}", best.score);
    assert_eq!((best.relevance, best.metric(), best.rank), (None, v1::Metric::Unspecified, 1));
    let sources: Vec<_> = best.sources.iter().map(|source| (source.source.as_str(), source.rank)).collect();
    assert_eq!(sources, [("mine", 3), ("vector_store", 1)]);
    assert!(answer.warnings.is_empty() && answer.trace.is_empty());
}

#[tokio::test]
async fn parents_come_with_the_children_that_led_to_them() {
    let (_server, client) = server().await;
    let answer = retrieve(&client, east(parent_document(2))).await.unwrap();
    assert_eq!(answer.hits.ids(), ["p", "q"], "k counts parents");
    let children = &answer.hits[0].matched_children;
    assert_eq!(children.iter().map(|child| child.rank).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(children[0].span, Some(v1::TextSpan { start: 0, end: 9 }));
    assert_eq!(children[1].span, None, "that text is not at its place");
    assert_eq!(answer.hits[0].metric(), v1::Metric::Cosine);
    assert!(answer.warnings[0].message.contains("gone"), "{:?}", answer.warnings);
}

#[tokio::test]
async fn a_reranker_that_is_not_loaded_is_a_fault_or_skipped() {
    let (_server, client) = server().await;
    let rerank = |on_error: v1::OnError| v1::Compressor {
        on_error: on_error.into(),
        kind: Some(v1::compressor::Kind::Rerank(v1::Rerank::default())),
    };
    let request = east(compression(leaf("near"), vec![rerank(v1::OnError::Fail)]));
    let answer = client.retrieval().retrieve(request).await;
    expect::refused_with("no reranker", answer, Code::FailedPrecondition, "NO_RERANKER");

    let reorder = v1::Compressor {
        kind: Some(v1::compressor::Kind::LongContextReorder(v1::LongContextReorder {})),
        ..Default::default()
    };
    let request = east(compression(leaf("near"), vec![rerank(v1::OnError::Skip), reorder]));
    let answer = retrieve(&client, request).await.unwrap();
    assert_eq!(answer.hits.ids(), ["a", "c", "b"]);
    assert_eq!(paths(&answer), ["contextual_compression.compressors[0]"]);
}

#[tokio::test]
async fn a_loaded_model_and_reranker_compress() {
    let server = Settings::new().set("rerank.model", TINY_RERANKER).start().await;
    let client = server.client().await;
    client.create("docs").await;
    let texts = ["the toller is a dog", "ships leave the harbour. the toller barks.", "rain is expected"];
    let documents = texts.iter().enumerate().map(|(number, text)| document(&number.to_string(), text)).collect();
    client.add("docs", documents).await;
    let kinds = [
        v1::compressor::Kind::RedundantFilter(v1::RedundantFilter { threshold: Some(1.0), model: None }),
        v1::compressor::Kind::Rerank(v1::Rerank { top_n: Some(2), ..Default::default() }),
        v1::compressor::Kind::Extract(v1::Extract { max_sentences: Some(1), ..Default::default() }),
    ];
    let compressors = kinds.map(|kind| v1::Compressor { kind: Some(kind), ..Default::default() }).into();
    let request = v1::RetrieveRequest {
        query: Some(text_query("which dog?")),
        retriever: Some(compression(leaf("docs"), compressors)),
        ..Default::default()
    };
    let answer = retrieve(&client, request).await.unwrap();
    assert_eq!(answer.hits.len(), 2);
    for hit in &answer.hits {
        let sigmoid = 1.0 / (1.0 + (-hit.score).exp());
        assert!((hit.relevance.unwrap() - sigmoid).abs() < 1e-9, "{hit:?}");
        assert_eq!(hit.sources.last().unwrap().source, "rerank");
        let [span] = hit.extracts.as_slice() else { panic!("one sentence, not {:?}", hit.extracts) };
        let document = hit.document.as_ref().unwrap();
        let whole = texts[document.id_text().parse::<usize>().unwrap()];
        assert_eq!(whole[span.start as usize..span.end as usize], document.page_content, "all of it is ASCII");
    }
}

#[tokio::test]
async fn a_fallback_says_whom_it_passed_over_and_a_trace_what_ran() {
    let (_server, client) = server().await;
    let request =
        v1::RetrieveRequest { with_trace: Some(true), ..east(fallback(vec![leaf("far"), leaf("near")], 0.9)) };
    let answer = retrieve(&client, request).await.unwrap();
    assert_eq!(answer.hits.ids(), ["a", "b", "c"]);
    assert_eq!(paths(&answer), ["fallback.retrievers[0]"]);
    let nodes: Vec<_> = answer.trace.iter().map(|node| (node.path.as_str(), node.kind.as_str(), node.hits)).collect();
    let expected = [
        ("", "fallback", Some(3)),
        ("fallback.retrievers[0]", "vector_store", Some(3)),
        ("fallback.retrievers[1]", "vector_store", Some(3)),
    ];
    assert_eq!(nodes, expected);
    assert!(answer.trace.iter().all(|node| node.duration.is_some() && node.error.is_empty()));
}

#[tokio::test]
async fn a_router_reads_the_requests_metadata() {
    let (_server, client) = server().await;
    let condition = v1::router_rule::Condition::Metadata(compare(v1::filter::Kind::Eq, "plan", string("pro")));
    let rule = v1::RouterRule { condition: Some(condition), retriever: Some(leaf("far")) };
    let router = v1::RouterRetriever { rules: vec![rule], default_retriever: Some(Box::new(leaf("near"))) };
    let router = retriever("", Kind::Router(Box::new(router)));
    assert_eq!(retrieve(&client, east(router.clone())).await.unwrap().hits.ids(), ["a", "b", "c"]);
    let request = v1::RetrieveRequest { metadata: [("plan".to_owned(), string("pro"))].into(), ..east(router) };
    assert_eq!(retrieve(&client, request).await.unwrap().hits.ids(), ["c", "b", "d"]);
}

#[tokio::test]
async fn every_fault_of_a_tree_is_listed_by_its_path() {
    let (_server, client) = server().await;
    let k_0 = vector_store("", v1::VectorStoreRetriever { k: Some(0), ..search_in("near") });
    let mut tree = ensemble(vec![leaf("nowhere"), k_0, reference("", "unknown"), ensemble(vec![])]);
    if let Some(Kind::Ensemble(ensemble)) = &mut tree.kind {
        ensemble.weights = vec![1.0];
    }
    let fields = [
        "ensemble.retrievers[2].ref",
        "ensemble.weights",
        "ensemble.retrievers[0].vector_store.collection",
        "ensemble.retrievers[1].vector_store.k",
        "ensemble.retrievers[3].ensemble.retrievers",
    ];
    let request = v1::RetrieversValidateRequest { retriever: Some(tree.clone()) };
    let violations = client.retrievers().validate(request).await.unwrap().into_inner().violations;
    assert_eq!(violations.iter().map(|fault| fault.field.as_str()).collect::<Vec<_>>(), fields);
    let in_request = fields.map(|field| format!("retriever.{field}"));
    let in_request: Vec<&str> = in_request.iter().map(String::as_str).collect();
    expect::invalid_fields("a tree of faults", client.retrieval().retrieve(east(tree.clone())).await, &in_request);
    tree.name = "tree".to_owned();
    let put = v1::RetrieversPutRequest { retriever: Some(tree), expected_version: None };
    expect::invalid_fields("storing it", client.retrievers().put(put).await, &in_request);

    // What the message itself shows is told with the same paths.
    let unknown = v1::Retriever { on_error: 99, ..leaf("near") };
    let answer = client.retrieval().retrieve(east(ensemble(vec![unknown, v1::Retriever::default()]))).await;
    let fields = ["retriever.ensemble.retrievers[0].on_error", "retriever.ensemble.retrievers[1]"];
    expect::invalid_fields("unknown values", answer, &fields);
}

#[tokio::test]
async fn a_stored_tree_survives_a_restart_and_is_run_for_every_query_of_a_batch() {
    let (server, client) = server().await;
    let mut tree = ensemble(vec![leaf("near"), leaf("far")]);
    tree.name = "both".to_owned();
    tree.timeout = Some(prost_types::Duration { seconds: 20, nanos: 0 });
    let put = v1::RetrieversPutRequest { retriever: Some(tree.clone()), expected_version: None };
    client.retrievers().put(put).await.unwrap();
    let server = server.restart().await;
    let client = server.client().await;
    let get = v1::RetrieversGetRequest { name: "both".to_owned() };
    let stored = client.retrievers().get(get).await.unwrap().into_inner().stored.unwrap().retriever.unwrap();
    assert_eq!(stored.timeout, tree.timeout);
    let request = v1::BatchRetrieveRequest {
        queries: vec![vector_query(&[1.0, 0.0]), vector_query(&[0.0, 1.0])],
        retriever: Some(reference("", "both")),
        with_trace: Some(true),
        ..Default::default()
    };
    let results = client.retrieval().batch_retrieve(request).await.unwrap().into_inner().results;
    assert_eq!(results.iter().map(|result| result.trace.len()).collect::<Vec<_>>(), [3, 3]);
    assert_ne!(results[0].hits.ids(), results[1].hits.ids());
    assert_eq!(results[0].trace[0].name, "both");
}

#[tokio::test]
async fn spans_are_nested_as_the_tree_is() {
    let collector = Collector::http().await;
    let server = collector.settings().without_model().start().await;
    let client = server.client().await;
    fill(&client).await;
    let mut tree = compression(ensemble(vec![vector_store("mine", search_in("near")), leaf("far")]), vec![]);
    if let Some(Kind::ContextualCompression(compression)) = &mut tree.kind {
        compression.compressors = vec![v1::Compressor {
            kind: Some(v1::compressor::Kind::LongContextReorder(v1::LongContextReorder {})),
            ..Default::default()
        }];
    }
    retrieve(&client, east(tree)).await.unwrap();
    server.stop().await.expect(0);
    let one = |name: &str| {
        let [span] = <[_; 1]>::try_from(collector.named(name)).unwrap_or_else(|all| panic!("{} of {name}", all.len()));
        span
    };
    let outermost = one("retrieval contextual_compression");
    let fused = one("retrieval ensemble");
    assert_eq!(fused.parent_span_id, outermost.span_id);
    for leg in ["retrieval mine", "retrieval vector_store"] {
        assert_eq!(one(leg).parent_span_id, fused.span_id, "{leg}");
    }
    let fusion = one("fusion rrf");
    assert_eq!(fusion.parent_span_id, fused.span_id);
    let attribute = |key: &str| {
        let found = fusion.attributes.iter().find(|attribute| attribute.key == key);
        format!("{:?}", found.and_then(|attribute| attribute.value.clone()).and_then(|value| value.value))
    };
    for (key, expected) in [("toller.fusion.lists", 2), ("toller.fusion.candidates", 6), ("toller.fusion.hits", 4)] {
        assert_eq!(attribute(key), format!("Some(IntValue({expected}))"), "{key}");
    }
    assert_eq!(one("search near").parent_span_id, one("retrieval mine").span_id);
}

#[tokio::test]
async fn the_command_line_runs_trees_from_files() {
    let (server, _client) = server().await;
    let folder = tempfile::tempdir().unwrap();
    let yaml = "\
# Two legs, the first one twice as heavy.
ensemble:
  retrievers:
    - vector_store: {collection: near}
    - vector_store: {collection: far}
      on_error: skip
  weights: [2, 1]
";
    fs::write(folder.path().join("both.yaml"), yaml).unwrap();
    fs::write(folder.path().join("wrong.yaml"), yaml.replace("collection: far", "collektion: far")).unwrap();
    let query = async |file: &str| {
        let arguments = ["query", "--vector", "[1, 0]", "--retriever", file, "--trace", "--json"];
        run(toller().args(arguments).env("TOLLER_SERVER", server.url()).current_dir(folder.path())).await
    };
    let answer = query("both.yaml").await.expect(0);
    let answer: serde_json::Value = serde_json::from_str(&answer.stdout).unwrap();
    let ids: Vec<&str> =
        answer["hits"].as_array().unwrap().iter().map(|hit| hit["document"]["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["b", "c", "a", "d"]);
    assert_eq!(answer["trace"][1]["path"], json!("ensemble.retrievers[0]"));
    let refused = query("wrong.yaml").await.expect(1);
    assert!(
        refused.stderr.contains("ensemble.retrievers[1].vector_store.collektion: unknown field"),
        "{}",
        refused.stderr
    );
}
