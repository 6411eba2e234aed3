//! `toller-test-qdrant [FOLDER] [PORT]`: the server for tests as a process of its own. Prints its address, and serves until it is
//! ended.

#![allow(clippy::print_stdout, reason = "who starts it reads the address from there")]

use std::future::pending;

use toller_test_qdrant::{TestQdrant, TestQdrantConfig};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map(Into::into);
    let port = arguments.next().and_then(|port| port.parse().ok()).unwrap_or(0);
    let server = TestQdrant::start_with(TestQdrantConfig { folder, port, ..TestQdrantConfig::default() }).await?;
    println!("{}", server.url());
    pending::<()>().await;
    Ok(())
}
