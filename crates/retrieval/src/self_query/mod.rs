//! Conditions in a query become a filter (LangChain's `SelfQueryRetriever`, where the model's filter replaces the declared one and its
//! limit replaces k; here both can only narrow).
//!
//! [`fields`] says what may be filtered by, and writes it for the model; [`answer`] reads what the model wrote, all or nothing.

mod answer;
mod fields;

use async_trait::async_trait;
use toller_core::error::join_path;
use toller_core::filter::FilterLimits;
use toller_core::retriever::{OnInvalid, SelfQuerySpec};
use toller_core::{Error, Query, Result};
use toller_telemetry::spans::RetrievalSpan;

use self::answer::Structured;
use self::fields::Fields;
use crate::language_model::{Asker, PromptForm, text_of};
use crate::node::{Found, Operator};
use crate::plan::Binder;
use crate::run::Run;
use crate::vector_store::VectorStoreRetriever;

/// Reason of the error when a model's answer is of no use.
pub(crate) const LLM_ANSWER_INVALID: &str = "LLM_ANSWER_INVALID";

const PROMPT: PromptForm = PromptForm {
    default: r#"Divide a search query into the text to search for and conditions on metadata. {contents}

The metadata fields, with their types:
{fields}

Answer with one JSON object and nothing else:
{{"query": "the text to search for, without the conditions; empty if there is none", "filter": a filter or null, "limit": how many results the query asks for, or null}}

A filter is one of:
{{"op": "and" or "or" or "not", "filters": [filters; exactly one for not]}}
{{"op": "eq" or "ne" or "lt" or "lte" or "gt" or "gte" or "contains", "field": "a field", "value": a value of its type}}
{{"op": "in" or "nin", "field": "a field", "values": [values of its type]}}

Use only the fields above, and a condition only where the query states it. lt, lte, gt and gte are for numbers and strings; a string_list field takes contains alone, with one string. When the query states no condition, filter is null.

Query: {query}"#,
    required: &["query", "fields"],
    optional: &["contents"],
};

/// Asks for a filter, and searches with it.
pub(crate) struct SelfQuery {
    search: VectorStoreRetriever,
    fields: Fields,
    asker: Asker,
    contents: String,
    on_invalid: OnInvalid,
    limits: FilterLimits,
}

impl SelfQuery {
    pub(crate) async fn bind(binder: &mut Binder<'_>, path: &str, spec: &SelfQuerySpec) -> Result<Option<Self>> {
        let fields = Fields::bind(binder, path, &spec.fields);
        let asker = Asker::bind_or_fault(binder, path, &spec.ask, &PROMPT)?;
        if spec.search.vector_name.is_some() {
            let description = "is of no use: the query is a text, and no model embeds texts for named vectors";
            binder.fault(&join_path(path, "search"), "vector_name", description);
        }
        let search = VectorStoreRetriever::bind(binder, &join_path(path, "search"), &spec.search).await?;
        let contents = match spec.contents.trim() {
            "" => String::new(),
            contents => format!("What is searched: {contents}."),
        };
        let limits = binder.filter_limits();
        let (Some(fields), Some(asker), Some(search)) = (fields, asker, search) else { return Ok(None) };
        Ok(Some(Self { search, fields, asker, contents, on_invalid: spec.on_invalid, limits }))
    }

    /// What the model makes of the query; with what is wrong, where it is of no use.
    async fn structured(&self, run: &Run, text: &str) -> Result<Result<Structured, String>> {
        let described = self.fields.described();
        let values = [("query", text), ("fields", described.as_str()), ("contents", self.contents.as_str())];
        let said = self.asker.ask(run, &values, Some(self.fields.schema())).await?;
        Ok(answer::read(&said, &self.fields, self.limits))
    }
}

#[async_trait]
impl Operator for SelfQuery {
    fn span(&self) -> RetrievalSpan<'_> {
        self.search.span()
    }

    async fn run(&self, run: &Run, query: &Query) -> Found {
        let text = text_of(query, "self_query")?;
        match (self.structured(run, text).await?, self.on_invalid) {
            (Ok(Structured { query: found, filter, limit }), _) => {
                // A query of conditions alone is searched for as it came.
                let query = found.map_or_else(|| query.clone(), Query::Text);
                self.search.narrowed(filter, limit).run(run, &query).await
            }
            (Err(fault), OnInvalid::Ignore) => {
                run.warn(format!("searched without a filter of the language model: its answer {fault}"));
                self.search.run(run, query).await
            }
            (Err(fault), OnInvalid::Fail) => Err(Error::FailedPrecondition {
                reason: LLM_ANSWER_INVALID,
                message: format!(
                    "the language model's answer {fault}; on_invalid = ignore searches without a filter of the model"
                ),
            }
            .into()),
        }
    }
}
