//! Metrics of retrievers.

use std::time::Duration;

use metrics::{Histogram, counter, histogram};
use toller_core::{Error as CoreError, Result as CoreResult};

use super::count;
use crate::classes::error_class;
use crate::names::metric::{self, label};

/// What the retrievers of one kind did.
pub struct RetrievalMetrics {
    kind: &'static str,
    duration: Histogram,
    hits: Histogram,
}

impl RetrievalMetrics {
    /// The handles for a kind of retriever.
    pub fn new(kind: &'static str) -> Self {
        Self {
            kind,
            duration: histogram!(metric::RETRIEVAL_DURATION, label::RETRIEVER_KIND => kind),
            hits: histogram!(metric::RETRIEVAL_HITS, label::RETRIEVER_KIND => kind),
        }
    }

    /// Records one retrieval: its number of hits, or its error.
    pub fn record(&self, elapsed: Duration, result: CoreResult<usize, &CoreError>) {
        self.duration.record(elapsed);
        match result {
            Ok(hits) => self.hits.record(count(hits)),
            Err(error) => counter!(
                metric::RETRIEVAL_ERRORS,
                label::RETRIEVER_KIND => self.kind,
                label::ERROR_TYPE => error_class(error),
            )
            .increment(1),
        }
    }
}
