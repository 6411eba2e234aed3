//! Several wordings of one query (LangChain's `MultiQueryRetriever`, with its defects mended: numbers, bullets and talk are no queries,
//! no query runs twice, the number is bounded, and rankings are fused instead of joined).

use async_trait::async_trait;
use toller_core::error::join_path;
use toller_core::language_model::AnswerSchema;
use toller_core::retriever::{DEFAULT_MAX_QUERIES, MOST_QUERIES, MultiQuerySpec};
use toller_core::{Query, Result};

use crate::language_model::{Asker, PromptForm, QUERIES_SCHEMA, queries, same_query, text_of};
use crate::node::{Found, Node, Operator};
use crate::plan::Binder;
use crate::query_fusion::retrieve_and_fuse;
use crate::run::Run;

const PROMPT: PromptForm = PromptForm {
    default: "Write {max_queries} different versions of the search query below, so that documents are found that the query itself \
              would miss: other words, other points of view, more general and more special. Keep names and numbers as they are, and \
              write in the language of the query. Write one version a line, and nothing else.\n\nQuery: {query}",
    required: &["query"],
    optional: &["max_queries"],
};

/// Asks for wordings, and retrieves for each.
pub(crate) struct MultiQuery {
    retriever: Node,
    wordings: Wordings,
    include_original: bool,
    k: Option<u32>,
}

/// Where the wordings come from.
enum Wordings {
    Given(Vec<String>),
    Asked { asker: Asker, most: u32 },
}

impl MultiQuery {
    pub(crate) async fn bind(binder: &mut Binder<'_>, path: &str, spec: &MultiQuerySpec) -> Result<Option<Self>> {
        binder.check_count(path, "k", spec.k);
        let wordings = match spec.queries.as_slice() {
            [] => {
                let most = checked_most(binder, path, spec.max_queries);
                let asker = Asker::bind_or_fault(binder, path, &spec.ask, &PROMPT)?;
                asker.map(|asker| Wordings::Asked { asker, most })
            }
            queries => {
                check_given(binder, path, spec, queries);
                let mut different: Vec<String> = Vec::new();
                for query in queries {
                    if !different.iter().any(|own| same_query(own, query)) {
                        different.push(query.clone());
                    }
                }
                Some(Wordings::Given(different))
            }
        };
        let retriever = binder.node(&spec.retriever, join_path(path, "retriever")).await?;
        Ok(retriever.zip(wordings).map(|(retriever, wordings)| Self {
            retriever,
            wordings,
            include_original: spec.include_original.unwrap_or(true),
            k: spec.k,
        }))
    }

    /// What is retrieved for: at least one query.
    async fn queries(&self, run: &Run, query: &Query) -> Result<Vec<Query>> {
        let wordings = match (&self.wordings, query) {
            (Wordings::Given(given), Query::Text(text)) if self.include_original => {
                given.iter().filter(|own| !same_query(own, text)).cloned().collect()
            }
            (Wordings::Given(given), _) => given.clone(),
            (Wordings::Asked { asker, most }, query) => {
                let text = text_of(query, "multi_query")?;
                let taken: &[&str] = if self.include_original { &[text] } else { &[] };
                ask_for_queries(asker, run, text, *most, taken).await?
            }
        };
        let has_none = wordings.is_empty();
        if has_none && !matches!(self.wordings, Wordings::Given(_)) {
            run.warn("the language model wrote no other query; the query itself was used alone");
        }
        let original = (self.include_original || has_none).then(|| query.clone());
        Ok(original.into_iter().chain(wordings.into_iter().map(Query::Text)).collect())
    }
}

#[async_trait]
impl Operator for MultiQuery {
    async fn run(&self, run: &Run, query: &Query) -> Found {
        let queries = self.queries(run, query).await?;
        retrieve_and_fuse(&self.retriever, run, &queries, self.k).await
    }
}

/// The number of queries to ask for; with a fault when it is out of its range.
pub(crate) fn checked_most(binder: &mut Binder<'_>, path: &str, max_queries: Option<u32>) -> u32 {
    let most = max_queries.unwrap_or(DEFAULT_MAX_QUERIES);
    if !(1..=MOST_QUERIES).contains(&most) {
        binder.fault(path, "max_queries", format!("must be from 1 to {MOST_QUERIES}, got {most}"));
    }
    most
}

/// At most `most` queries that the model makes of `text`, none the same as one of `taken`.
pub(crate) async fn ask_for_queries(
    asker: &Asker,
    run: &Run,
    text: &str,
    most: u32,
    taken: &[&str],
) -> Result<Vec<String>> {
    let schema = AnswerSchema { name: "queries", json: QUERIES_SCHEMA.to_owned() };
    let values = [("query", text), ("max_queries", &most.to_string())];
    let said = asker.ask(run, &values, Some(schema)).await?;
    Ok(queries(&said, most as usize, taken))
}

fn check_given(binder: &mut Binder<'_>, path: &str, spec: &MultiQuerySpec, queries: &[String]) {
    let unused = [
        ("model", spec.ask.model.is_some()),
        ("prompt", spec.ask.prompt.is_some()),
        ("max_queries", spec.max_queries.is_some()),
    ];
    for (field, _) in unused.into_iter().filter(|(_, is_given)| *is_given) {
        binder.fault(path, field, "is of no use with queries, which are asked as they are");
    }
    if queries.len() > MOST_QUERIES as usize {
        binder.fault(path, "queries", format!("must be at most {MOST_QUERIES}, got {}", queries.len()));
    }
    for (index, _) in queries.iter().enumerate().filter(|(_, query)| query.trim().is_empty()) {
        binder.fault(path, &format!("queries[{index}]"), "must not be empty");
    }
}
