//! Metrics of the server's calls.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use crate::names::metric::{self, label};
use crate::names::values;

/// The names of gRPC's status codes, by number.
pub const RPC_CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// The name of a gRPC status code; a number that is none is `UNKNOWN`, as in every gRPC library.
pub fn rpc_code_name(code: i32) -> &'static str {
    usize::try_from(code).ok().and_then(|code| RPC_CODES.get(code)).copied().unwrap_or("UNKNOWN")
}

/// What a server answered, by method and status code.
pub struct RpcMetrics {
    /// Made when a method first answers with a code: most pairs never happen.
    durations: HashMap<String, [OnceLock<Histogram>; RPC_CODES.len()]>,
    active: Gauge,
    refused: Counter,
}

impl RpcMetrics {
    /// The handles for a server's methods, fully qualified and without a leading slash.
    pub fn new<'a>(methods: impl IntoIterator<Item = &'a str>) -> Self {
        let methods = methods.into_iter().chain([values::RPC_METHOD_OTHER]);
        Self {
            durations: methods
                .map(|method| (method.to_owned(), [const { OnceLock::new() }; RPC_CODES.len()]))
                .collect(),
            active: gauge!(metric::RPC_SERVER_ACTIVE),
            refused: counter!(metric::RPC_SERVER_REFUSED),
        }
    }

    /// Is it one of the server's methods?
    pub fn knows(&self, method: &str) -> bool {
        method != values::RPC_METHOD_OTHER && self.durations.contains_key(method)
    }

    /// Records one answered call; a method that the server does not have counts as `_OTHER`.
    pub fn record(&self, method: &str, code: i32, elapsed: Duration) {
        let Some((method, codes)) =
            self.durations.get_key_value(method).or_else(|| self.durations.get_key_value(values::RPC_METHOD_OTHER))
        else {
            return;
        };
        let name = rpc_code_name(code);
        let position = RPC_CODES.iter().position(|known| *known == name);
        if let Some(duration) = position.and_then(|position| codes.get(position)) {
            duration
                .get_or_init(|| {
                    histogram!(
                        metric::RPC_SERVER_CALL_DURATION,
                        label::RPC_METHOD => method.clone(),
                        label::RPC_STATUS_CODE => name,
                    )
                })
                .record(elapsed);
        }
    }

    /// Counts a call as being worked on until the guard is dropped.
    pub fn begin(&self) -> ActiveCall {
        self.active.increment(1.0);
        ActiveCall(self.active.clone())
    }

    /// Counts a refused call.
    pub fn refuse(&self) {
        self.refused.increment(1);
    }
}

/// See [`RpcMetrics::begin`].
pub struct ActiveCall(Gauge);

impl Drop for ActiveCall {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    #[test]
    fn an_unknown_method_is_counted_as_other_and_an_unknown_code_as_unknown() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        metrics::with_local_recorder(&recorder, || {
            let rpc = RpcMetrics::new(["toller.v1.Retrieval/Search"]);
            assert!(rpc.knows("toller.v1.Retrieval/Search") && !rpc.knows("x.Y/Z") && !rpc.knows("_OTHER"));
            rpc.record("toller.v1.Retrieval/Search", 0, Duration::from_millis(3));
            rpc.record("x.Y/Z", 12, Duration::from_millis(1));
            rpc.record("x.Y/Z", 99, Duration::from_millis(1));
            let active = rpc.begin();
            assert!(handle.render().contains("rpc_server_active_calls 1"));
            drop(active);
        });
        let text = handle.render();
        let expected = [
            "rpc_server_call_duration_seconds_count{rpc_method=\"toller.v1.Retrieval/Search\",rpc_status_code=\"OK\"} 1",
            "rpc_server_call_duration_seconds_count{rpc_method=\"_OTHER\",rpc_status_code=\"UNIMPLEMENTED\"} 1",
            "rpc_server_call_duration_seconds_count{rpc_method=\"_OTHER\",rpc_status_code=\"UNKNOWN\"} 1",
            "rpc_server_active_calls 0",
        ];
        for line in expected {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
