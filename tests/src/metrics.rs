//! A server's Prometheus endpoint.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::PATIENCE;

/// The metrics of one server.
#[derive(Debug, Clone, Copy)]
pub struct Metrics {
    address: SocketAddr,
}

impl Metrics {
    pub(crate) fn at(address: SocketAddr) -> Self {
        Self { address }
    }

    /// The answer to one HTTP request, headers included.
    pub async fn request(&self, path: &str) -> String {
        let exchange = async {
            let mut connection = TcpStream::connect(self.address).await.expect("metrics are served");
            let request = format!("GET {path} HTTP/1.1\r\nhost: metrics\r\nconnection: close\r\n\r\n");
            connection.write_all(request.as_bytes()).await.expect("the request is sent");
            let mut answer = String::new();
            connection.read_to_string(&mut answer).await.expect("the answer is text");
            answer
        };
        timeout(PATIENCE, exchange).await.expect("metrics are answered")
    }

    /// All metrics as text.
    pub async fn text(&self) -> String {
        self.request("/metrics").await
    }

    /// The sum of one metric over the series that have all of `labels`; 0 where there is none.
    pub async fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let text = self.text().await;
        let labels: Vec<String> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        text.lines()
            .filter_map(|line| line.rsplit_once(' '))
            .filter(|(series, _)| series.split('{').next() == Some(name))
            .filter(|(series, _)| labels.iter().all(|label| series.contains(label.as_str())))
            .map(|(_, value)| value.parse::<f64>().expect("a number"))
            .sum()
    }

    /// Asks until the sum is what `reached` wants, each time as soon as the answer before it is there.
    pub async fn until(&self, name: &str, labels: &[(&str, &str)], reached: impl Fn(f64) -> bool) {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let sum = self.sum(name, labels).await;
            if reached(sum) {
                return;
            }
            assert!(Instant::now() < give_up, "{name} {labels:?} stayed at {sum}");
        }
    }
}
