//! Hypothetical document embeddings: an answer is made up, and its vector finds the documents that are like it
//! (<https://arxiv.org/abs/2212.10496>; LangChain's `HypotheticalDocumentEmbedder`, whose mean is not brought back to unit length).
//!
//! What is below keeps the query's text: only searches by vector take the answer's vector, each of its own collection's model. So a
//! reranker or a router in the same tree still reads what was asked.

use async_trait::async_trait;
use toller_core::error::join_path;
use toller_core::retriever::{HydeSpec, RetrieverKind, RetrieverSpec};
use toller_core::{EmbeddingRole, Embeddings, Query, Result};

use crate::language_model::{Asker, PromptForm, text_of};
use crate::node::{Found, Node, Operator};
use crate::plan::Binder;
use crate::run::Run;

const PROMPT: PromptForm = PromptForm {
    default: "Write a short passage, as it could stand in a document, that answers the question below. Write in the language of the \
              question, and nothing but the passage.\n\nQuestion: {query}",
    required: &["query"],
    optional: &[],
};

/// Searches with the vector of a made-up answer.
pub(crate) struct Hyde {
    retriever: Node,
    asker: Asker,
    include_query: bool,
}

impl Hyde {
    pub(crate) async fn bind(binder: &mut Binder<'_>, path: &str, spec: &HydeSpec) -> Result<Option<Self>> {
        let child_path = join_path(path, "retriever");
        check_below(binder, &spec.retriever, &child_path);
        let asker = Asker::bind_or_fault(binder, path, &spec.ask, &PROMPT)?;
        let retriever = binder.node(&spec.retriever, child_path).await?;
        let include_query = spec.include_query.unwrap_or(false);
        Ok(retriever.zip(asker).map(|(retriever, asker)| Self { retriever, asker, include_query }))
    }
}

#[async_trait]
impl Operator for Hyde {
    async fn run(&self, run: &Run, query: &Query) -> Found {
        let text = text_of(query, "hyde")?;
        let answer = self.asker.ask(run, &[("query", text)], None).await?.text;
        if answer.is_empty() {
            run.warn("the language model wrote nothing; the query's own vector was used");
            return self.retriever.run(run, query).await;
        }
        let hypothesis = Hypothesis { query: text.to_owned(), answer, include_query: self.include_query };
        self.retriever.run(&run.supposing(hypothesis), query).await
    }
}

/// What is searched with instead of a query.
pub(crate) struct Hypothesis {
    query: String,
    answer: String,
    include_query: bool,
}

impl Hypothesis {
    /// Does it stand for this text, and not for another that a retriever made?
    pub(crate) fn stands_for(&self, text: &str) -> bool {
        self.query == text
    }

    /// The answer's vector as a document of `model`, or the mean of it and the query's.
    ///
    /// # Errors
    /// What embedding reports.
    pub(crate) async fn vector(&self, run: &Run, model: &dyn Embeddings) -> Result<Vec<f32>> {
        let queries = run.queries();
        let answer = queries.vector_as(&run.context, model, EmbeddingRole::Document, &self.answer).await?;
        if !self.include_query {
            return Ok(answer);
        }
        let query = queries.vector(&run.context, model, &self.query).await?;
        Ok(mean(&answer, &query, model.fingerprint().normalized))
    }
}

/// The mean; of unit length where `is_unit` says so. Vectors that point away from each other have none of unit length: then the first.
fn mean(first: &[f32], second: &[f32], is_unit: bool) -> Vec<f32> {
    let mean: Vec<f64> = first.iter().zip(second).map(|(a, b)| (f64::from(*a) + f64::from(*b)) / 2.0).collect();
    let length = mean.iter().map(|element| element * element).sum::<f64>().sqrt();
    if length < 1e-6 {
        return first.to_vec();
    }
    let scale = if is_unit { 1.0 / length } else { 1.0 };
    mean.into_iter().map(|element| (element * scale) as f32).collect()
}

/// Below are searches by vector, and nothing that would change the text that the hypothesis stands for.
fn check_below(binder: &mut Binder<'_>, spec: &RetrieverSpec, path: &str) {
    let mut spec = spec.clone();
    let mut found = Below::default();
    found.look(&mut spec, path);
    for (path, kind) in found.rewriters {
        let description = format!(
            "{kind} changes the query's text, while hyde searches by the vector of a made-up answer: put hyde below it"
        );
        binder.fault(&path, kind, description);
    }
    if !found.searches_by_vector {
        binder.fault(path, "", "must search by vector, since hyde changes nothing else");
    }
}

/// What is in a tree.
#[derive(Default)]
struct Below {
    rewriters: Vec<(String, &'static str)>,
    searches_by_vector: bool,
}

impl Below {
    fn look(&mut self, spec: &mut RetrieverSpec, path: &str) {
        match &spec.kind {
            RetrieverKind::MultiQuery(_)
            | RetrieverKind::Hyde(_)
            | RetrieverKind::Rephrase(_)
            | RetrieverKind::Decompose(_)
            | RetrieverKind::SelfQuery(_) => {
                self.rewriters.push((path.to_owned(), spec.kind.as_str()));
                // One fault is enough.
                self.searches_by_vector = true;
            }
            // A reference that is still here could not be resolved, which is a fault already.
            RetrieverKind::VectorStore(_)
            | RetrieverKind::Hybrid(_)
            | RetrieverKind::ParentDocument(_)
            | RetrieverKind::Ref(_) => {
                self.searches_by_vector = true;
            }
            _ => {}
        }
        for (child_path, child) in spec.kind.children_mut() {
            self.look(child, &join_path(path, &child_path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_of_unit_length_where_the_model_is() {
        assert_eq!(mean(&[1.0, 0.0], &[0.0, 1.0], false), [0.5, 0.5]);
        let [x, y] = mean(&[1.0, 0.0], &[0.0, 1.0], true).try_into().unwrap();
        assert!((x * x + y * y - 1.0).abs() < 1e-6 && x == y, "{x} {y}");
        assert_eq!(mean(&[1.0, 0.0], &[-1.0, 0.0], true), [1.0, 0.0]);
    }
}
