//! Short ways to declare retrievers.

use toller_core::CollectionName;
use toller_core::retriever::*;

pub(crate) fn collection(name: &str) -> CollectionName {
    CollectionName::new(name).unwrap()
}

pub(crate) fn search(name: &str) -> VectorStoreRetrieverSpec {
    VectorStoreRetrieverSpec::new(collection(name))
}

pub(crate) fn leaf(name: &str) -> RetrieverSpec {
    RetrieverSpec::new(RetrieverKind::VectorStore(search(name)))
}

pub(crate) fn leaf_with(name: &str, change: impl FnOnce(&mut VectorStoreRetrieverSpec)) -> RetrieverSpec {
    let mut spec = search(name);
    change(&mut spec);
    RetrieverSpec::new(RetrieverKind::VectorStore(spec))
}

/// All of a collection of less than a thousand documents.
pub(crate) fn all_of(name: &str) -> RetrieverSpec {
    leaf_with(name, |spec| spec.k = Some(1000))
}

pub(crate) fn named(name: &str, spec: RetrieverSpec) -> RetrieverSpec {
    RetrieverSpec { name: Some(RetrieverName::new(name).unwrap()), ..spec }
}

pub(crate) fn reference(name: &str) -> RetrieverSpec {
    RetrieverSpec::new(RetrieverKind::Ref(RetrieverName::new(name).unwrap()))
}

pub(crate) fn skipping(spec: RetrieverSpec) -> RetrieverSpec {
    RetrieverSpec { on_error: OnError::Skip, ..spec }
}

pub(crate) fn within_millis(millis: u64, spec: RetrieverSpec) -> RetrieverSpec {
    RetrieverSpec { timeout: Some(std::time::Duration::from_millis(millis)), ..spec }
}

pub(crate) fn ensemble(retrievers: Vec<RetrieverSpec>, change: impl FnOnce(&mut EnsembleSpec)) -> RetrieverSpec {
    let mut spec =
        EnsembleSpec { retrievers, weights: Vec::new(), fusion: Fusion::Rrf, c: None, id_key: None, k: None };
    change(&mut spec);
    RetrieverSpec::new(RetrieverKind::Ensemble(spec))
}

pub(crate) fn merger(retrievers: Vec<RetrieverSpec>, change: impl FnOnce(&mut MergerSpec)) -> RetrieverSpec {
    let mut spec = MergerSpec { retrievers, allow_duplicates: false, k: None, id_key: None };
    change(&mut spec);
    RetrieverSpec::new(RetrieverKind::Merger(spec))
}

pub(crate) fn compression(retriever: RetrieverSpec, kinds: Vec<CompressorKind>) -> RetrieverSpec {
    let compressors = kinds.into_iter().map(|kind| CompressorSpec { on_error: OnError::Fail, kind }).collect();
    RetrieverSpec::new(RetrieverKind::ContextualCompression(CompressionSpec {
        retriever: Box::new(retriever),
        compressors,
    }))
}

pub(crate) fn fallback(retrievers: Vec<RetrieverSpec>, change: impl FnOnce(&mut FallbackSpec)) -> RetrieverSpec {
    let mut spec = FallbackSpec { retrievers, min_hits: None, min_relevance: None };
    change(&mut spec);
    RetrieverSpec::new(RetrieverKind::Fallback(spec))
}

pub(crate) fn router(rules: Vec<(RouterCondition, RetrieverSpec)>, default: Option<RetrieverSpec>) -> RetrieverSpec {
    let rules = rules.into_iter().map(|(condition, retriever)| RouterRule { condition, retriever }).collect();
    RetrieverSpec::new(RetrieverKind::Router(RouterSpec { rules, default_retriever: default.map(Box::new) }))
}

pub(crate) fn parent_document(
    children: &str,
    parents: &str,
    change: impl FnOnce(&mut ParentDocumentSpec),
) -> RetrieverSpec {
    let mut spec = ParentDocumentSpec {
        search: search(children),
        parents: ParentSource::Collection(collection(parents)),
        id_key: None,
        k: None,
        score: ParentScore::Max,
    };
    change(&mut spec);
    RetrieverSpec::new(RetrieverKind::ParentDocument(spec))
}

pub(crate) fn multi_vector(
    retriever: RetrieverSpec,
    parents: &str,
    change: impl FnOnce(&mut MultiVectorSpec),
) -> RetrieverSpec {
    let mut spec = MultiVectorSpec {
        retriever: Box::new(retriever),
        parents: ParentSource::Collection(collection(parents)),
        id_key: None,
        k: None,
        score: ParentScore::Max,
    };
    change(&mut spec);
    RetrieverSpec::new(RetrieverKind::MultiVector(spec))
}

pub(crate) fn time_weighted(retriever: RetrieverSpec, change: impl FnOnce(&mut TimeWeightedSpec)) -> RetrieverSpec {
    let mut spec = TimeWeightedSpec {
        retriever: Box::new(retriever),
        decay_rate: None,
        timestamp_field: None,
        k: None,
        other_score_keys: Vec::new(),
        access_log: None,
    };
    change(&mut spec);
    RetrieverSpec::new(RetrieverKind::TimeWeighted(spec))
}

pub(crate) fn keyword(name: &str, change: impl FnOnce(&mut KeywordRetrieverSpec)) -> RetrieverSpec {
    let mut spec = KeywordRetrieverSpec { collection: collection(name), k: None, filter: None, with_vectors: false };
    change(&mut spec);
    RetrieverSpec::new(RetrieverKind::Keyword(spec))
}

pub(crate) fn hybrid(name: &str, change: impl FnOnce(&mut HybridRetrieverSpec)) -> RetrieverSpec {
    let mut spec = HybridRetrieverSpec {
        collection: collection(name),
        k: None,
        leg_k: None,
        vector_weight: None,
        keyword_weight: None,
        fusion: Fusion::Rrf,
        c: None,
        filter: None,
        with_vectors: false,
    };
    change(&mut spec);
    RetrieverSpec::new(RetrieverKind::Hybrid(spec))
}
