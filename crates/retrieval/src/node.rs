//! A node of a running tree: what every kind of retriever has around it, so that none can forget a part.
//!
//! A node opens its span, bounds the time of all that is below it, numbers its hits, and says what became of it: in metrics, in the
//! trace, in the path of its failure or in a warning.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::future::join_all;
use toller_core::retriever::OnError;
use toller_core::{Error, Query, ScoredDocument};
use toller_telemetry::metrics::RetrievalMetrics;
use toller_telemetry::spans::{self, RetrievalSpan};
use tracing::Instrument;

use crate::failure::Failure;
use crate::run::{Place, Run, TraceNode};

/// What a node finds.
pub(crate) type Found = Result<Vec<ScoredDocument>, Failure>;

/// What one kind of retriever does.
#[async_trait]
pub(crate) trait Operator: Send + Sync {
    /// What its span says of it; name, kind and tags are the node's.
    fn span(&self) -> RetrievalSpan<'_> {
        RetrievalSpan::default()
    }

    /// The hits, best first. The node gives them their ranks.
    async fn run(&self, run: &Run, query: &Query) -> Found;
}

/// A retriever in a tree.
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) name: Option<String>,
    pub(crate) kind: &'static str,
    pub(crate) tags: Vec<String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) on_error: OnError,
    pub(crate) metrics: Arc<RetrievalMetrics>,
    pub(crate) operator: Box<dyn Operator>,
}

impl Node {
    /// The given name, or the kind.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.kind)
    }

    /// Runs the node with all that is below it.
    pub(crate) async fn run(&self, outer: &Run, query: &Query) -> Found {
        let span = spans::retrieval(&RetrievalSpan {
            name: self.name(),
            kind: self.kind,
            tags: self.tags.iter().map(String::as_str).collect(),
            ..self.operator.span()
        });
        if let Query::Text(text) = query {
            spans::record_query(&span, text);
        }
        let run = outer.enter(&self.place, self.timeout);
        let started = Instant::now();
        let found = self.in_time(&run, query).instrument(span.clone()).await;
        let duration = started.elapsed();

        match &found {
            Ok(hits) => spans::record_hits(&span, hits),
            Err(failure) => spans::record_error(&span, &failure.error),
        }
        self.metrics.record(duration, found.as_ref().map(Vec::len).map_err(|failure| &failure.error));
        run.trace(|| TraceNode {
            path: self.place.path.to_string(),
            kind: self.kind,
            name: self.name().to_owned(),
            duration,
            outcome: found.as_ref().map(Vec::len).map_err(|failure| failure.error.to_string()),
        });
        match found {
            Err(failure) if self.on_error == OnError::Skip && is_skippable(outer, &failure.error) => {
                run.warn(format!("skipped: {}", failure.into_error()));
                Ok(Vec::new())
            }
            other => other,
        }
    }

    async fn in_time(&self, run: &Run, query: &Query) -> Found {
        /// What a timeout says after "the deadline passed".
        const DURING: &str = "that the retriever's own timeout sets";

        let work = self.operator.run(run, query);
        let found = match self.timeout {
            None => work.await,
            Some(timeout) => match tokio::time::timeout(timeout, work).await {
                Ok(found) => found,
                Err(_) => Err(Error::DeadlineExceeded(DURING).into()),
            },
        };
        let mut hits = found.map_err(|failure| failure.at(&self.place.path))?;
        for (hit, rank) in hits.iter_mut().zip(1..) {
            hit.rank = rank;
        }
        Ok(hits)
    }
}

/// Can a retrieval go on without the part that failed so? Not when its caller is gone or its own time is over.
pub(crate) fn is_skippable(run: &Run, error: &Error) -> bool {
    !matches!(error, Error::Cancelled) && run.context.check("while a part of the retriever failed").is_ok()
}

/// Runs several nodes at the same time. Their answers are aligned with them; of several failures it is the first one in the order
/// of the nodes that is told, whichever was first in time.
pub(crate) async fn run_all(nodes: &[&Node], run: &Run, query: &Query) -> Result<Vec<Vec<ScoredDocument>>, Failure> {
    join_all(nodes.iter().map(|node| node.run(run, query))).await.into_iter().collect()
}
