//! The HTTP listener that Prometheus scrapes: `GET /metrics`, on an address of its own.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use tokio::net::TcpListener;

use crate::error::Error;
use crate::metrics::{CATALOGUE, Kind};

/// Path of the metrics.
pub(crate) const METRICS_PATH: &str = "/metrics";

/// How often recorded values move from their buffers into buckets, also when nobody scrapes.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Longest wait for a scraper's request headers.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// A recorder with the buckets of the catalogue.
pub(crate) fn recorder() -> Result<PrometheusRecorder, Error> {
    let mut builder = PrometheusBuilder::new();
    for description in CATALOGUE {
        if let Kind::Histogram(buckets) = description.kind {
            builder = builder
                .set_buckets_for_metric(Matcher::Full(description.name.to_owned()), buckets)
                .map_err(|error| Error::Metrics(error.to_string()))?;
        }
    }
    Ok(builder.build_recorder())
}

/// Binds `address` (port 0 for a free one).
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|source| Error::MetricsListen { address, source })
}

/// Answers scrapes until its runtime ends.
pub(crate) async fn serve(listener: TcpListener, handle: PrometheusHandle) {
    let upkeep = handle.clone();
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(UPKEEP_INTERVAL);
        loop {
            ticks.tick().await;
            upkeep.run_upkeep();
        }
    });
    loop {
        match listener.accept().await {
            Ok((connection, _)) => {
                let handle = handle.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        let response = answer(&request, &handle);
                        async move { Ok::<_, Infallible>(response) }
                    });
                    let served = http1::Builder::new()
                        .timer(TokioTimer::new())
                        .header_read_timeout(HEADER_TIMEOUT)
                        .serve_connection(TokioIo::new(connection), service)
                        .await;
                    if let Err(error) = served {
                        tracing::debug!(error = %error, "a scrape of the metrics ended early");
                    }
                });
            }
            // Out of file descriptors, most likely: wait for some to be freed instead of spinning.
            Err(error) => {
                tracing::warn!(error = %error, "a scrape of the metrics could not be accepted");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

fn answer(request: &Request<Incoming>, handle: &PrometheusHandle) -> Response<Full<Bytes>> {
    let (status, body) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, METRICS_PATH) => (StatusCode::OK, handle.render()),
        (_, METRICS_PATH) => (StatusCode::METHOD_NOT_ALLOWED, "use GET\n".to_owned()),
        _ => (StatusCode::NOT_FOUND, format!("metrics are at {METRICS_PATH}\n")),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let content_type = if status == StatusCode::OK { "text/plain; version=0.0.4; charset=utf-8" } else { "text/plain" };
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}
