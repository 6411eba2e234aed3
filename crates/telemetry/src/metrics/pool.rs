//! Metrics of the pool of embedding workers.

use std::sync::OnceLock;

use metrics::{Counter, Gauge, counter, gauge};

use super::count;
use super::rpc::{RPC_CODES, rpc_code_name};
use crate::names::metric::{self, label};

/// What a pool of embedding workers did. Workers come and go, so that none is a label.
pub struct PoolMetrics {
    workers: Gauge,
    healthy: Gauge,
    calls: [OnceLock<Counter>; RPC_CODES.len()],
    retries: Counter,
    retries_refused: Counter,
}

impl PoolMetrics {
    /// The handles.
    pub fn new() -> Self {
        Self {
            workers: gauge!(metric::POOL_WORKERS),
            healthy: gauge!(metric::POOL_HEALTHY_WORKERS),
            calls: [const { OnceLock::new() }; RPC_CODES.len()],
            retries: counter!(metric::POOL_RETRIES),
            retries_refused: counter!(metric::POOL_RETRIES_REFUSED),
        }
    }

    /// Sets how many workers are known, and how many of them calls are sent to.
    pub fn set_workers(&self, known: usize, healthy: usize) {
        self.workers.set(count(known));
        self.healthy.set(count(healthy));
    }

    /// Counts a worker that calls are no longer sent to; `reason` comes from a closed set.
    pub fn record_ejection(&self, reason: &'static str) {
        counter!(metric::POOL_EJECTIONS, label::REASON => reason).increment(1);
    }

    /// Counts a call to a worker by its gRPC status code.
    pub fn record_call(&self, code: i32) {
        let name = rpc_code_name(code);
        let position = RPC_CODES.iter().position(|known| *known == name);
        if let Some(calls) = position.and_then(|position| self.calls.get(position)) {
            calls.get_or_init(|| counter!(metric::POOL_CALLS, label::RPC_STATUS_CODE => name)).increment(1);
        }
    }

    /// Counts a call that is sent again.
    pub fn record_retry(&self) {
        self.retries.increment(1);
    }

    /// Counts a call that is not sent again since the budget of retries is spent.
    pub fn record_refused_retry(&self) {
        self.retries_refused.increment(1);
    }
}

impl Default for PoolMetrics {
    fn default() -> Self {
        Self::new()
    }
}
