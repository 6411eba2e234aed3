//! Declared trees of retrievers: the message and the plain form say the same.
#![allow(clippy::unwrap_used, clippy::panic, reason = "these are tests: they fail by panicking")]

use toller_api::convert::{retriever_from_message, retriever_to_message};
use toller_api::v1;
use toller_api::v1::retriever::Kind;
use toller_core::Error;

fn retriever(kind: Kind) -> v1::Retriever {
    v1::Retriever { kind: Some(kind), ..Default::default() }
}

fn leaf() -> v1::Retriever {
    retriever(Kind::Ref("docs".to_owned()))
}

fn parents() -> Option<v1::ParentSource> {
    Some(v1::ParentSource { kind: Some(v1::parent_source::Kind::DocumentStore("texts".to_owned())) })
}

fn compressor(kind: v1::compressor::Kind) -> v1::Compressor {
    v1::Compressor { kind: Some(kind), ..Default::default() }
}

fn rule(condition: v1::router_rule::Condition) -> v1::RouterRule {
    v1::RouterRule { condition: Some(condition), retriever: Some(leaf()) }
}

/// Every kind, with numbers that are 0 and numbers that are absent.
fn every_kind() -> Vec<Kind> {
    use v1::compressor::Kind as Compressor;
    use v1::router_rule::Condition;

    let compressors = [
        Compressor::EmbeddingsFilter(v1::EmbeddingsFilter { threshold: Some(0.0), k: None, model: Some("m".into()) }),
        Compressor::RedundantFilter(v1::RedundantFilter { threshold: Some(0.0), model: None }),
        Compressor::Rerank(v1::Rerank { model: None, top_n: Some(0) }),
        Compressor::LongContextReorder(v1::LongContextReorder {}),
        Compressor::Extract(v1::Extract { threshold: None, max_sentences: Some(0), model: None }),
    ];
    let exists = v1::filter::Kind::Exists(v1::Exists { key: "plan".to_owned(), exists: Some(true) });
    let rules = [
        Condition::Contains("a".to_owned()),
        Condition::Regex("b".to_owned()),
        Condition::Length(v1::TextLength { min: Some(0), max: None }),
        Condition::Metadata(v1::Filter { kind: Some(exists) }),
    ];
    vec![
        Kind::MultiVector(Box::new(v1::MultiVectorRetriever {
            retriever: Some(Box::new(leaf())),
            parents: parents(),
            id_key: None,
            k: Some(0),
            score: v1::ParentScore::Sum.into(),
        })),
        Kind::ParentDocument(v1::ParentDocumentRetriever {
            search: Some(v1::VectorStoreRetriever {
                collection: "chunks".to_owned(),
                search_type: v1::SearchType::Similarity.into(),
                with_vectors: Some(false),
                ..Default::default()
            }),
            parents: parents(),
            id_key: Some("parent".to_owned()),
            k: None,
            score: v1::ParentScore::First.into(),
        }),
        Kind::ContextualCompression(Box::new(v1::ContextualCompressionRetriever {
            retriever: Some(Box::new(leaf())),
            compressors: compressors.map(compressor).into(),
        })),
        Kind::Merger(v1::MergerRetriever {
            retrievers: vec![leaf(), leaf()],
            allow_duplicates: Some(true),
            k: Some(0),
            id_key: None,
        }),
        Kind::Ensemble(v1::EnsembleRetriever {
            retrievers: vec![leaf()],
            weights: vec![0.0],
            fusion: v1::Fusion::Convex.into(),
            c: Some(0),
            id_key: Some("uid".to_owned()),
            k: None,
        }),
        Kind::Router(Box::new(v1::RouterRetriever {
            rules: rules.map(rule).into(),
            default_retriever: Some(Box::new(leaf())),
        })),
        Kind::Fallback(v1::FallbackRetriever { retrievers: vec![leaf()], min_hits: Some(0), min_relevance: Some(0.0) }),
        Kind::TimeWeighted(Box::new(v1::TimeWeightedRetriever {
            retriever: Some(Box::new(leaf())),
            decay_rate: Some(0.0),
            timestamp_field: None,
            k: None,
            other_score_keys: vec!["s".to_owned()],
            access_log: Some("seen".to_owned()),
        })),
    ]
}

#[test]
fn every_kind_survives_the_round_trip() {
    for kind in every_kind() {
        let message = v1::Retriever {
            name: "tree".to_owned(),
            timeout: Some(prost_types::Duration { seconds: 1, nanos: 500_000_000 }),
            on_error: v1::OnError::Skip.into(),
            ..retriever(kind)
        };
        let spec = retriever_from_message(message.clone()).unwrap();
        assert_eq!(retriever_to_message(&spec), message);
    }
}

#[test]
fn every_fault_in_a_tree_is_named_by_its_path() {
    let zero = prost_types::Duration::default();
    let faulty = v1::Retriever { timeout: Some(zero), on_error: 9, ..leaf() };
    let rule = v1::RouterRule { condition: None, retriever: None };
    let router = v1::RouterRetriever { rules: vec![rule], default_retriever: Some(Box::default()) };
    let compressors = vec![v1::Compressor::default(), v1::Compressor { on_error: 9, ..Default::default() }];
    let trees = vec![
        faulty,
        retriever(Kind::Router(Box::new(router))),
        retriever(Kind::ContextualCompression(Box::new(v1::ContextualCompressionRetriever {
            retriever: None,
            compressors,
        }))),
        retriever(Kind::ParentDocument(v1::ParentDocumentRetriever { score: 9, ..Default::default() })),
    ];
    let ensemble = v1::EnsembleRetriever { retrievers: trees, fusion: 9, ..Default::default() };
    let error = retriever_from_message(retriever(Kind::Ensemble(ensemble))).unwrap_err();
    let Error::InvalidArgument(faults) = error else { panic!("wrong kind: {error}") };
    let fields: Vec<&str> = faults.iter().map(|fault| fault.field.as_str()).collect();
    let expected = [
        "ensemble.retrievers[0].timeout",
        "ensemble.retrievers[0].on_error",
        "ensemble.retrievers[1].router.rules[0]",
        "ensemble.retrievers[1].router.rules[0].retriever",
        "ensemble.retrievers[1].router.default_retriever",
        "ensemble.retrievers[2].contextual_compression.retriever",
        "ensemble.retrievers[2].contextual_compression.compressors[0]",
        "ensemble.retrievers[2].contextual_compression.compressors[1].on_error",
        "ensemble.retrievers[2].contextual_compression.compressors[1]",
        "ensemble.retrievers[3].parent_document.search",
        "ensemble.retrievers[3].parent_document.parents",
        "ensemble.retrievers[3].parent_document.score",
        "ensemble.fusion",
    ];
    assert_eq!(fields, expected);
}
