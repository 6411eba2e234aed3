//! Retrievers of small documents that stand for greater ones.

use toller_core::error::both;
use toller_core::retriever::{MultiVectorSpec, ParentDocumentSpec, ParentScore, ParentSource};
use toller_core::{Error, Result};

use super::vector_store::{vector_store_retriever_from_message, vector_store_retriever_to_message};
use super::{child_from_message, retriever_to_message};
use crate::convert::collection::collection_name_from_message;
use crate::v1;
use crate::v1::parent_source::Kind;

pub(super) fn multi_vector_from_message(message: v1::MultiVectorRetriever) -> Result<MultiVectorSpec> {
    let retriever = child_from_message("retriever", message.retriever.map(|retriever| *retriever));
    let parents = source_from_message(message.parents);
    let ((retriever, parents), score) = both(both(retriever, parents), score_from_message(message.score))?;
    Ok(MultiVectorSpec { retriever: Box::new(retriever), parents, id_key: message.id_key, k: message.k, score })
}

pub(super) fn parent_document_from_message(message: v1::ParentDocumentRetriever) -> Result<ParentDocumentSpec> {
    let search = message.search.ok_or_else(|| Error::invalid("", "must be given"));
    let search = search.and_then(vector_store_retriever_from_message).map_err(|error| error.within("search"));
    let parents = source_from_message(message.parents);
    let ((search, parents), score) = both(both(search, parents), score_from_message(message.score))?;
    Ok(ParentDocumentSpec { search, parents, id_key: message.id_key, k: message.k, score })
}

fn source_from_message(message: Option<v1::ParentSource>) -> Result<ParentSource> {
    match message.and_then(|message| message.kind) {
        None => Err(Error::invalid("parents", "must have a collection or a document_store")),
        Some(Kind::Collection(name)) => {
            collection_name_from_message("parents.collection", &name).map(ParentSource::Collection)
        }
        Some(Kind::DocumentStore(name)) => {
            collection_name_from_message("parents.document_store", &name).map(ParentSource::DocumentStore)
        }
    }
}

fn score_from_message(number: i32) -> Result<ParentScore> {
    match v1::ParentScore::try_from(number) {
        Ok(v1::ParentScore::Unspecified | v1::ParentScore::Max) => Ok(ParentScore::Max),
        Ok(v1::ParentScore::Mean) => Ok(ParentScore::Mean),
        Ok(v1::ParentScore::Sum) => Ok(ParentScore::Sum),
        Ok(v1::ParentScore::First) => Ok(ParentScore::First),
        Err(_) => Err(Error::invalid("score", format!("unknown value {number}"))),
    }
}

pub(super) fn multi_vector_to_message(spec: &MultiVectorSpec) -> v1::MultiVectorRetriever {
    v1::MultiVectorRetriever {
        retriever: Some(Box::new(retriever_to_message(&spec.retriever))),
        parents: Some(source_to_message(&spec.parents)),
        id_key: spec.id_key.clone(),
        k: spec.k,
        score: score_to_message(spec.score),
    }
}

pub(super) fn parent_document_to_message(spec: &ParentDocumentSpec) -> v1::ParentDocumentRetriever {
    v1::ParentDocumentRetriever {
        search: Some(vector_store_retriever_to_message(&spec.search)),
        parents: Some(source_to_message(&spec.parents)),
        id_key: spec.id_key.clone(),
        k: spec.k,
        score: score_to_message(spec.score),
    }
}

fn source_to_message(source: &ParentSource) -> v1::ParentSource {
    let kind = match source {
        ParentSource::Collection(name) => Kind::Collection(name.as_str().to_owned()),
        ParentSource::DocumentStore(name) => Kind::DocumentStore(name.as_str().to_owned()),
    };
    v1::ParentSource { kind: Some(kind) }
}

fn score_to_message(score: ParentScore) -> i32 {
    match score {
        ParentScore::Max => v1::ParentScore::Max,
        ParentScore::Mean => v1::ParentScore::Mean,
        ParentScore::Sum => v1::ParentScore::Sum,
        ParentScore::First => v1::ParentScore::First,
    }
    .into()
}
