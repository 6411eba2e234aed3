//! The `toller` binary, and commands that run to their end.

use std::path::PathBuf;
use std::process::Stdio;

use crate::PATIENCE;

/// Names a binary other than the one beside the tests.
const BINARY_VARIABLE: &str = "TOLLER_BIN";

/// What a process left behind.
#[derive(Debug)]
pub struct Exit {
    /// Exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Exit {
    /// Asserts the exit code, and shows what the process said where it is another.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }
}

/// The binary under test: `TOLLER_BIN`, or `toller` in the folder that the tests were built into.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os(BINARY_VARIABLE) {
        let path = PathBuf::from(path);
        assert!(path.is_file(), "{BINARY_VARIABLE} names {}, which is no file: run \"make test\"", path.display());
        return path;
    }
    let test = std::env::current_exe().expect("the test's own path");
    let path = test.ancestors().nth(2).expect("the target folder").join("toller");
    assert!(path.is_file(), "there is no binary at {}: run \"make test\", which builds it first", path.display());
    path
}

/// The binary, with none of the settings of the caller's environment and killed when it is dropped.
pub fn toller() -> tokio::process::Command {
    isolated(binary())
}

/// The binary of the embedding worker, beside that of [`toller`] and started as that is.
pub fn toller_embedder() -> tokio::process::Command {
    let path = binary().with_file_name("toller-embedder");
    assert!(path.is_file(), "there is no binary at {}: run \"make test\", which builds it first", path.display());
    isolated(path)
}

fn isolated(binary: PathBuf) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(binary);
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    for kept in ["PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH"] {
        if let Some(value) = std::env::var_os(kept) {
            command.env(kept, value);
        }
    }
    command
}

/// Runs a command to its end.
pub async fn run(command: &mut tokio::process::Command) -> Exit {
    let output = tokio::time::timeout(PATIENCE, command.output()).await;
    let output = output.unwrap_or_else(|_| panic!("{:?} did not end within {PATIENCE:?}", command.as_std()));
    let output = output.expect("the binary runs");
    Exit {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("standard output is UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("standard error is UTF-8"),
    }
}
