//! The retrievers that are measured.

use toller_api::v1;
use toller_api::v1::filter::Kind as FilterKind;
use toller_api::v1::retriever::Kind;
use toller_tests::request::{compare, int, mmr_in, retriever, search_in, vector_store};

/// The collection of the chunks, and the store of their parents.
pub const COLLECTION: &str = "chunks";
pub const PARENTS: &str = "parents";

/// Hits of every retriever.
const K: u32 = 10;

/// Retrievers by name: single ones, three together, and eight.
pub fn all() -> Vec<(&'static str, v1::Retriever)> {
    let mut trees = vec![
        ("vector_store", similarity(None)),
        ("mmr", mmr()),
        ("keyword", keyword(None)),
        ("hybrid", hybrid()),
        ("ensemble_of_three", ensemble(vec![similarity(None), keyword(None), mmr()])),
        ("parent_document", parent_document()),
    ];
    trees.push(("ensemble_of_eight", ensemble(leaves().into_iter().map(|(_, leaf)| leaf).collect())));
    trees
}

/// The leaves of the ensemble of eight.
pub fn leaves() -> Vec<(&'static str, v1::Retriever)> {
    let under = |bound| Some(compare(FilterKind::Lt, "bucket", int(bound)));
    vec![
        ("similarity", similarity(None)),
        ("similarity_half", similarity(under(50))),
        ("similarity_tenth", similarity(under(10))),
        ("similarity_hundredth", similarity(under(1))),
        ("mmr", mmr()),
        ("keyword", keyword(None)),
        ("keyword_half", keyword(under(50))),
        ("hybrid", hybrid()),
    ]
}

fn similarity(filter: Option<v1::Filter>) -> v1::Retriever {
    vector_store("", v1::VectorStoreRetriever { k: Some(K), filter, ..search_in(COLLECTION) })
}

fn mmr() -> v1::Retriever {
    vector_store("", mmr_in(COLLECTION, K, 100, 0.5))
}

fn keyword(filter: Option<v1::Filter>) -> v1::Retriever {
    let keyword = v1::KeywordRetriever { collection: COLLECTION.to_owned(), k: Some(K), filter, ..Default::default() };
    retriever("", Kind::Keyword(keyword))
}

fn hybrid() -> v1::Retriever {
    retriever(
        "",
        Kind::Hybrid(v1::HybridRetriever { collection: COLLECTION.to_owned(), k: Some(K), ..Default::default() }),
    )
}

fn parent_document() -> v1::Retriever {
    let source = v1::parent_source::Kind::DocumentStore(PARENTS.to_owned());
    retriever(
        "",
        Kind::ParentDocument(v1::ParentDocumentRetriever {
            search: Some(search_in(COLLECTION)),
            parents: Some(v1::ParentSource { kind: Some(source) }),
            k: Some(K),
            ..Default::default()
        }),
    )
}

fn ensemble(retrievers: Vec<v1::Retriever>) -> v1::Retriever {
    retriever("", Kind::Ensemble(v1::EnsembleRetriever { retrievers, k: Some(K), ..Default::default() }))
}
