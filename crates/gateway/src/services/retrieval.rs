//! `toller.v1.Retrieval`.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use toller_api::convert::{self, Encoding};
use toller_api::v1;
use toller_api::v1::retrieval_server::Retrieval as RetrievalRpc;
use toller_core::error::both;
use toller_core::{Error, Query, RequestContext, Result, Retriever, Role, ScoredDocument};
use toller_retrieval::{Answer, Plan, Planner, RunOptions, TraceNode, Warning};
use toller_serving::context::answer;
use tonic::{Request, Response, Status};

use crate::limits::Limits;

/// Queries of one BatchRetrieve that run at a time.
const CONCURRENT_QUERIES: usize = 16;

pub(crate) struct RetrievalService {
    pub(crate) planner: Arc<Planner>,
    pub(crate) limits: Limits,
}

impl RetrievalService {
    fn query(&self, message: Option<v1::Query>) -> Result<Query> {
        let query = convert::query_from_message(message)?;
        if let Query::Text(text) = &query {
            self.limits.check_text(|| "query.text".to_owned(), text)?;
        }
        Ok(query)
    }

    async fn retriever(&self, context: &RequestContext, message: Option<v1::Retriever>) -> Result<Arc<Plan>> {
        let plan = async {
            let message = message.ok_or_else(|| Error::invalid("", "must be given"))?;
            self.planner.plan(context, &convert::retriever_from_message(message)?).await
        };
        plan.await.map_err(|error| error.within("retriever"))
    }

    /// What a request says about its run besides the query.
    fn options(
        &self,
        metadata: BTreeMap<String, v1::Value>,
        history: Vec<v1::ChatMessage>,
        with_trace: Option<bool>,
    ) -> Result<RunOptions> {
        let history = convert::history_from_messages(history)?;
        self.limits.check_history(&history)?;
        let encoded_bytes = metadata.iter().map(|(key, value)| key.len() + prost::Message::encoded_len(value)).sum();
        self.limits.check_metadata(encoded_bytes)?;
        let metadata = convert::metadata_from_message(metadata)?;
        Ok(RunOptions { metadata, history, with_trace: with_trace.unwrap_or(false), now: None })
    }

    fn answer(&self, field: &str, answer: &Answer, encoding: Encoding) -> Result<v1::RetrieveResponse> {
        let hits = self.hits(field, &answer.hits, encoding)?;
        let response = v1::RetrieveResponse {
            hits,
            warnings: answer.warnings.iter().map(warning_to_message).collect(),
            trace: answer.trace.iter().map(trace_to_message).collect(),
        };
        self.limits.check_answer(field, prost::Message::encoded_len(&response))?;
        Ok(response)
    }

    fn hits(&self, field: &str, hits: &[ScoredDocument], encoding: Encoding) -> Result<Vec<v1::ScoredDocument>> {
        let hits = convert::hits_to_message(hits, encoding);
        let bytes = hits.iter().map(prost::Message::encoded_len).sum();
        self.limits.check_answer(field, bytes)?;
        Ok(hits)
    }
}

#[tonic::async_trait]
impl RetrievalRpc for RetrievalService {
    async fn search(&self, request: Request<v1::SearchRequest>) -> Result<Response<v1::SearchResponse>, Status> {
        answer(request, Role::Reader, async |context, message| {
            let encoding = convert::encoding_from_message(message.encoding);
            let query = self.query(message.query);
            let plan = async {
                let search = message.search.ok_or_else(|| Error::invalid("", "must be given"))?;
                self.planner.plan_search(&context, convert::vector_store_retriever_from_message(search)?).await
            };
            let retriever = plan.await.map_err(|error| error.within("search"));
            let ((query, retriever), encoding) = both(both(query, retriever), encoding)?;
            let hits = retriever.retrieve(&context, &query).await?;
            Ok(v1::SearchResponse { hits: self.hits("search.k", &hits, encoding)? })
        })
        .await
    }

    async fn retrieve(&self, request: Request<v1::RetrieveRequest>) -> Result<Response<v1::RetrieveResponse>, Status> {
        answer(request, Role::Reader, async |context, message| {
            let encoding = convert::encoding_from_message(message.encoding);
            let query = self.query(message.query);
            let options = self.options(message.metadata, message.history, message.with_trace);
            let retriever = self.retriever(&context, message.retriever).await;
            let ((query, retriever), (encoding, options)) = both(both(query, retriever), both(encoding, options))?;
            let answer = retriever.run(&context, &query, options).await?;
            self.answer("retriever", &answer, encoding)
        })
        .await
    }

    async fn batch_retrieve(
        &self,
        request: Request<v1::BatchRetrieveRequest>,
    ) -> Result<Response<v1::BatchRetrieveResponse>, Status> {
        answer(request, Role::Reader, async |context, message| {
            let encoding = convert::encoding_from_message(message.encoding);
            self.limits.check_queries("queries", message.queries.len())?;
            let queries = message.queries.into_iter().enumerate();
            let queries = queries
                .map(|(index, query)| self.query(Some(query)).map_err(|error| in_queries(error, index)))
                .collect::<Result<Vec<_>>>();
            let options = self.options(message.metadata, message.history, message.with_trace);
            let retriever = self.retriever(&context, message.retriever).await;
            let ((queries, retriever), (encoding, options)) = both(both(queries, retriever), both(encoding, options))?;
            let running = queries.into_iter().enumerate().map(|(index, query)| {
                let (context, retriever, options) = (context.clone(), Arc::clone(&retriever), options.clone());
                async move { retriever.run(&context, &query, options).await.map_err(|error| in_queries(error, index)) }
            });
            let answers: Vec<_> = stream::iter(running).buffered(CONCURRENT_QUERIES).try_collect().await?;
            let results =
                answers.iter().map(|answer| self.answer("queries", answer, encoding)).collect::<Result<Vec<_>>>()?;
            let bytes = results.iter().map(prost::Message::encoded_len).sum();
            self.limits.check_answer("queries", bytes)?;
            Ok(v1::BatchRetrieveResponse { results })
        })
        .await
    }
}

fn warning_to_message(warning: &Warning) -> v1::RetrievalWarning {
    v1::RetrievalWarning { path: warning.path.clone(), message: warning.message.clone() }
}

fn trace_to_message(node: &TraceNode) -> v1::TraceNode {
    v1::TraceNode {
        path: node.path.clone(),
        kind: node.kind.to_owned(),
        name: node.name.clone(),
        duration: prost_types::Duration::try_from(node.duration).ok(),
        hits: node.outcome.as_ref().ok().map(|hits| u32::try_from(*hits).unwrap_or(u32::MAX)),
        error: node.outcome.as_ref().err().cloned().unwrap_or_default(),
    }
}

/// Faults of one query speak of `query`; in a batch that is `queries[i]`.
fn in_queries(error: Error, index: usize) -> Error {
    match error {
        Error::InvalidArgument(mut violations) => {
            for violation in &mut violations {
                if let Some(rest) = violation.field.strip_prefix("query") {
                    violation.field = format!("queries[{index}]{rest}");
                }
            }
            Error::InvalidArgument(violations)
        }
        other => other,
    }
}
