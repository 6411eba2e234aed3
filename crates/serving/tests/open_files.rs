//! A server that runs out of file descriptors says so, waits, and goes on when there are some again.
//!
//! Alone in its process, whose limit of open files is lowered.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod echo;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::time::Duration;

use echo::{Client, Lines, Running, SOON};
use toller_serving::server::ServerConfig;

const LOWERED: &str = "TOLLER_TEST_OPEN_FILES_LOWERED";

/// User and system time that this process has used, in hundredths of a second.
fn processor_time(stat: &File) -> u64 {
    let mut bytes = [0; 1024];
    let length = stat.read_at(&mut bytes, 0).unwrap();
    let text = std::str::from_utf8(bytes.get(..length).unwrap()).unwrap();
    // The name of the process may have spaces; the fields after it count from 3, and the times are 14 and 15.
    let fields = text.rsplit_once(')').unwrap().1.split_whitespace();
    fields.skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
}

#[test]
fn without_file_descriptors_a_server_waits_and_says_why() {
    if std::env::var_os(LOWERED).is_some() {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run_out());
        return;
    }
    let status = Command::new("sh")
        .args(["-c", "ulimit -n 128 && exec \"$0\" --nocapture"])
        .arg(std::env::current_exe().unwrap())
        .env(LOWERED, "1")
        .status()
        .unwrap();
    assert!(status.success(), "see above");
}

async fn run_out() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    let _subscriber = tracing::subscriber::set_default(subscriber);
    let server = Running::start(ServerConfig::default()).await;
    let early = Client::connect(server.address).await.unwrap();
    assert_eq!(early.call("early").await.unwrap(), "early");

    let stat = File::open("/proc/self/stat").unwrap();
    let mut files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!(files.len() < 128);
    // The client has the last one, and none is left for the server's side.
    files.pop();
    let late = Client::connect(server.address).await.unwrap();
    let late = tokio::spawn(async move { late.call("late").await });
    let warned = async {
        while !lines.text().contains("raise the limit of open files") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, warned).await.unwrap();

    let used = processor_time(&stat);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let used = processor_time(&stat) - used;
    assert!(used < 20, "the server was busy for {used} of 100 hundredths of a second");
    assert!(!late.is_finished());
    assert_eq!(early.call("served").await.unwrap(), "served");
    assert_eq!(lines.text().matches("raise the limit of open files").count(), 1, "{}", lines.text());

    drop(files);
    assert_eq!(tokio::time::timeout(SOON, late).await.unwrap().unwrap().unwrap(), "late");
}
