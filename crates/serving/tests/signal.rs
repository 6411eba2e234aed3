//! SIGTERM and SIGINT ask a process to stop instead of ending it.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic, and speaks to its parent")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const CHILD: &str = "TOLLER_SERVING_TEST_CHILD";

#[test]
#[ignore = "run by the other test of this file, in a process of its own"]
fn child() {
    assert_eq!(std::env::var(CHILD).as_deref(), Ok("1"), "run the other test of this file");
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let mut requested = std::pin::pin!(toller_serving::signal::shutdown_requested());
        // The first poll installs the handlers.
        assert!(futures::poll!(&mut requested).is_pending());
        println!("\nready");
        requested.await;
        println!("\nstopped");
    });
}

#[test]
fn both_signals_are_requests_to_stop() {
    for signal in ["TERM", "INT"] {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--ignored", "--nocapture"])
            .env(CHILD, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line == "ready"));
        let kill = Command::new("kill").args([format!("-{signal}"), process.id().to_string()]).status().unwrap();
        assert!(kill.success());
        assert!(lines.any(|line| line == "stopped"), "{signal}");
        assert!(process.wait().unwrap().success(), "{signal}");
    }
}
