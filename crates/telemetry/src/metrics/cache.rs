//! Metrics of the cache of embeddings.

use metrics::{Counter, Gauge, counter, gauge};
use toller_core::EmbeddingRole;

use crate::names::metric::{self, label};
use crate::spans::role_name;

/// What a cache of embeddings did, by role.
pub struct CacheMetrics {
    document_hits: Counter,
    document_misses: Counter,
    query_hits: Counter,
    query_misses: Counter,
    bytes: Gauge,
}

impl CacheMetrics {
    /// The handles.
    pub fn new() -> Self {
        let counter = |name, role| counter!(name, label::ROLE => role_name(role));
        Self {
            document_hits: counter(metric::EMBEDDING_CACHE_HITS, EmbeddingRole::Document),
            document_misses: counter(metric::EMBEDDING_CACHE_MISSES, EmbeddingRole::Document),
            query_hits: counter(metric::EMBEDDING_CACHE_HITS, EmbeddingRole::Query),
            query_misses: counter(metric::EMBEDDING_CACHE_MISSES, EmbeddingRole::Query),
            bytes: gauge!(metric::EMBEDDING_CACHE_BYTES),
        }
    }

    /// Records how many texts of one call were in the cache, and how many were not.
    pub fn record(&self, role: EmbeddingRole, hits: usize, misses: usize) {
        let (hit_counter, miss_counter) = match role {
            EmbeddingRole::Document => (&self.document_hits, &self.document_misses),
            EmbeddingRole::Query => (&self.query_hits, &self.query_misses),
        };
        hit_counter.increment(u64::try_from(hits).unwrap_or(u64::MAX));
        miss_counter.increment(u64::try_from(misses).unwrap_or(u64::MAX));
    }

    /// Sets how many bytes the cache holds.
    #[allow(clippy::cast_precision_loss)]
    pub fn set_bytes(&self, bytes: u64) {
        self.bytes.set(bytes as f64);
    }
}

impl Default for CacheMetrics {
    fn default() -> Self {
        Self::new()
    }
}
