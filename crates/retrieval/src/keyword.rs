//! The keyword retriever: one collection, searched by BM25 (LangChain's `BM25Retriever`, with an index that writes keep up to date,
//! filters, and scores that come back).

use async_trait::async_trait;
use toller_core::retriever::{DEFAULT_K, KeywordRetrieverSpec};
use toller_core::{Error, Filter, KeywordSearch, Query, Result};
use toller_store::CollectionHandle;
use toller_telemetry::spans::RetrievalSpan;

use crate::node::{Found, Operator};
use crate::plan::Binder;
use crate::run::Run;

/// Searches one collection.
pub(crate) struct KeywordRetriever {
    collection: CollectionHandle,
    k: usize,
    filter: Option<Filter>,
    with_vectors: bool,
}

impl KeywordRetriever {
    /// Checks the parameters at `path` and opens their collection; none when there are faults.
    pub(crate) async fn bind(binder: &mut Binder<'_>, path: &str, spec: &KeywordRetrieverSpec) -> Result<Option<Self>> {
        binder.check_count(path, "k", spec.k);
        binder.check_filter(path, "filter", spec.filter.as_ref());
        let Some(collection) = binder.indexed_collection(path, &spec.collection).await? else { return Ok(None) };
        Ok(Some(Self {
            collection,
            k: spec.k.unwrap_or(DEFAULT_K) as usize,
            filter: spec.filter.clone(),
            with_vectors: spec.with_vectors,
        }))
    }
}

#[async_trait]
impl Operator for KeywordRetriever {
    fn span(&self) -> RetrievalSpan<'_> {
        RetrievalSpan {
            store: Some(self.collection.store().backend()),
            collection: Some(self.collection.spec().name.as_str()),
            search_type: Some("keyword"),
            k: u32::try_from(self.k).ok(),
            ..RetrievalSpan::default()
        }
    }

    async fn run(&self, run: &Run, query: &Query) -> Found {
        let Query::Text(text) = query else {
            return Err(Error::invalid("query", "must be a text: there are no keywords in a vector").into());
        };
        run.context.check("before the search")?;
        let search = KeywordSearch { text, filter: self.filter.as_ref(), limit: self.k };
        let mut hits = self.collection.keyword_search(&run.context, search).await?;
        if !self.with_vectors {
            hits.iter_mut().for_each(|hit| hit.vector = None);
        }
        Ok(hits)
    }
}
