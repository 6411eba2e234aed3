//! Gives documents their vectors: for the current generation of a collection, and for one that is being filled.

use std::sync::Arc;

use toller_core::embeddings::Embedding;
use toller_core::error::{Error, FieldViolation, Result};
use toller_core::{CollectionSpec, EmbeddingRole, Embeddings, Models, Record, RequestContext, Vector};

use crate::guard;
use crate::handle::TextUsage;
use crate::new_document::{CheckedDocument, check_dimension, check_vector};
use crate::targets::{PreparedRecords, Targets};

/// Everything that is to be written, and what embedding said of each document for the current generation.
pub(crate) async fn prepared(
    context: &RequestContext,
    models: &Models,
    targets: &Targets,
    documents: &[CheckedDocument],
    refuse_truncation: bool,
) -> Result<(PreparedRecords, Vec<TextUsage>)> {
    let (current, usage) = for_current(context, models, &targets.spec, documents, refuse_truncation).await?;
    let building = match &targets.building {
        None => None,
        Some(building) => {
            let model = guard::embeddings_for_building(&targets.spec, building, models)?;
            // The caller's vectors are of the other model, so that every text is embedded.
            let texts = documents.iter().map(|document| document.document.page_content.clone()).collect();
            let spec = CollectionSpec { fingerprint: (*building.fingerprint).clone(), ..(*targets.spec).clone() };
            let mut records = Vec::with_capacity(documents.len());
            let embeddings = embedded(context, model.as_ref(), texts).await?;
            for (index, (document, embedding)) in documents.iter().zip(embeddings).enumerate() {
                records.push(Record {
                    document: Arc::clone(&document.document),
                    vector: vector_of(&spec, &format!("documents[{index}]"), embedding.vector)?,
                    named: document.named.clone(),
                });
            }
            Some(records)
        }
    };
    Ok((PreparedRecords { current, building }, usage))
}

/// Gives every document without a vector that of its text.
async fn for_current(
    context: &RequestContext,
    models: &Models,
    spec: &CollectionSpec,
    documents: &[CheckedDocument],
    refuse_truncation: bool,
) -> Result<(Vec<Record>, Vec<TextUsage>)> {
    let without_vector = || documents.iter().enumerate().filter(|(_, document)| document.vector.is_none());
    let indexes: Vec<usize> = without_vector().map(|(index, _)| index).collect();
    let texts: Vec<String> = without_vector().map(|(_, document)| document.document.page_content.clone()).collect();
    let embeddings = if texts.is_empty() {
        Vec::new()
    } else {
        embedded(context, guard::embeddings_for_texts(spec, models)?.as_ref(), texts).await?
    };
    if refuse_truncation {
        let cut = indexes.iter().zip(&embeddings).filter(|(_, embedding)| embedding.truncated);
        Error::from_violations(cut.map(|(index, _)| truncation_violation(spec, *index)).collect())?;
    }

    let mut embeddings = embeddings.into_iter();
    let mut records = Vec::with_capacity(documents.len());
    let mut usage = Vec::with_capacity(documents.len());
    for (index, document) in documents.iter().enumerate() {
        let (vector, text_usage) = match &document.vector {
            Some(vector) => {
                // It was checked when the collection was opened, which may have another model by now.
                check_dimension(spec, vector.dimension())
                    .map_err(|fault| Error::invalid(format!("documents[{index}].vectors.dense"), fault))?;
                (vector.clone(), TextUsage::default())
            }
            None => {
                let embedding =
                    embeddings.next().ok_or_else(|| Error::Internal(format!("text {index} has no vector")))?;
                let usage = TextUsage { token_count: embedding.token_count, truncated: embedding.truncated };
                (vector_of(spec, &format!("documents[{index}]"), embedding.vector)?, usage)
            }
        };
        records.push(Record { document: Arc::clone(&document.document), vector, named: document.named.clone() });
        usage.push(text_usage);
    }
    Ok((records, usage))
}

/// The embeddings of texts that are to be found, as many as there are texts.
pub(crate) async fn embedded(
    context: &RequestContext,
    model: &dyn Embeddings,
    texts: Vec<String>,
) -> Result<Vec<Embedding>> {
    let count = texts.len();
    let embeddings = model.embed(context, EmbeddingRole::Document, texts).await?;
    if embeddings.len() != count {
        return Err(Error::Internal(format!("the model gave {} vectors for {count} texts", embeddings.len())));
    }
    Ok(embeddings)
}

/// What a model gave for the text of `what`, checked.
pub(crate) fn vector_of(spec: &CollectionSpec, what: &str, vector: Vec<f32>) -> Result<Vector> {
    check_vector(spec, vector).map_err(|fault| Error::Internal(format!("the embedding of {what} {fault}")))
}

fn truncation_violation(spec: &CollectionSpec, index: usize) -> FieldViolation {
    let most = spec.fingerprint.max_tokens;
    FieldViolation {
        field: format!("documents[{index}].page_content"),
        description: format!("is longer than the model's {most} tokens; split it, or allow truncation"),
    }
}
