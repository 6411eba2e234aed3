//! Metrics of stores.

use std::collections::HashMap;
use std::time::Duration;

use metrics::{Counter, Histogram, counter, histogram};
use toller_core::Error as CoreError;

use crate::classes::error_class;
use crate::names::metric::{self, label};

/// An operation of a vector store that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreOperation {
    /// Make a collection.
    Create,
    /// Drop a collection.
    DropCollection,
    /// Write records.
    Upsert,
    /// Delete records.
    Delete,
    /// Write and delete records in one commit.
    Apply,
    /// A page of ids.
    Ids,
    /// Records by id.
    Get,
    /// Search by vector.
    Search,
    /// Search by keywords.
    KeywordSearch,
    /// A page of records.
    Scroll,
    /// How many records.
    Count,
    /// Every record, as of one moment.
    Snapshot,
}

impl StoreOperation {
    /// Every operation.
    pub const ALL: [Self; 12] = [
        Self::Create,
        Self::DropCollection,
        Self::Upsert,
        Self::Delete,
        Self::Apply,
        Self::Ids,
        Self::Get,
        Self::Search,
        Self::KeywordSearch,
        Self::Scroll,
        Self::Count,
        Self::Snapshot,
    ];

    /// Its name in spans and labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::DropCollection => "drop",
            Self::Upsert => "upsert",
            Self::Delete => "delete",
            Self::Apply => "apply",
            Self::Ids => "ids",
            Self::Get => "get",
            Self::Search => "search",
            Self::KeywordSearch => "keyword_search",
            Self::Scroll => "scroll",
            Self::Count => "count",
            Self::Snapshot => "snapshot",
        }
    }
}

/// What one store did, by operation.
pub struct StoreMetrics {
    backend: &'static str,
    durations: HashMap<StoreOperation, Histogram>,
    written: Counter,
}

impl StoreMetrics {
    /// The handles for a backend.
    pub fn new(backend: &'static str) -> Self {
        let duration = |operation: StoreOperation| {
            histogram!(
                metric::DB_OPERATION_DURATION,
                label::DB_SYSTEM => backend,
                label::DB_OPERATION => operation.as_str(),
            )
        };
        Self {
            backend,
            durations: StoreOperation::ALL.into_iter().map(|operation| (operation, duration(operation))).collect(),
            written: counter!(metric::STORE_WRITTEN_RECORDS, label::DB_SYSTEM => backend),
        }
    }

    /// Records one operation.
    pub fn record(&self, operation: StoreOperation, elapsed: Duration, error: Option<&CoreError>) {
        if let Some(duration) = self.durations.get(&operation) {
            duration.record(elapsed);
        }
        if let Some(error) = error {
            counter!(
                metric::STORE_ERRORS,
                label::DB_SYSTEM => self.backend,
                label::DB_OPERATION => operation.as_str(),
                label::ERROR_TYPE => error_class(error),
            )
            .increment(1);
        }
    }

    /// Counts acknowledged records.
    pub fn add_written(&self, records: usize) {
        self.written.increment(u64::try_from(records).unwrap_or(u64::MAX));
    }
}
