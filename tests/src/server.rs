//! A `toller serve` or `toller-embedder` process: started on a free port with a data folder of its own, and never alive after its test.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::client::Client;
use crate::command::{Exit, run, toller, toller_embedder};
use crate::metrics::Metrics;
use crate::{PATIENCE, TINY_MODEL};

/// How a server is started. Clones share the data folder, so a server can be started on what another one left.
#[derive(Debug, Clone)]
pub struct Settings {
    flags: BTreeMap<String, String>,
    variables: BTreeMap<String, String>,
    file: Option<String>,
    folder: Arc<TempDir>,
    is_embedder: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self::new()
    }
}

impl Settings {
    /// A server with the tiny model on a free port, without metrics, on an empty data folder, with the memory backend: it orders
    /// equal scores by insertion, and gives every vector back as it came.
    pub fn new() -> Self {
        let folder = Arc::new(tempfile::tempdir().expect("a temporary folder"));
        let settings =
            Self { flags: BTreeMap::new(), variables: BTreeMap::new(), file: None, folder, is_embedder: false };
        let data = settings.data_dir().display().to_string();
        settings
            .set("server.listen", "127.0.0.1:0")
            .set("data.dir", &data)
            .set("store.backend", "memory")
            .set("embedding.model", TINY_MODEL)
            .set("embedding.threads", "1")
            // Tests are about the model unless they are about the cache.
            .set("embedding.cache_bytes", "0")
            .set("telemetry.metrics_listen", "off")
    }

    /// An embedding worker with the tiny model on a free port, without metrics.
    pub fn embedder() -> Self {
        Self { is_embedder: true, ..Self::new().unset("data.dir").unset("store.backend") }
    }

    /// Sets one setting by its flag; `key` is spelled as in the file.
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.flags.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Leaves a setting to its default.
    pub fn unset(mut self, key: &str) -> Self {
        self.flags.remove(key);
        self
    }

    /// With the edge backend, which is the default of the server.
    pub fn on_disk(self) -> Self {
        self.unset("store.backend")
    }

    /// With the Qdrant backend, on a server at this address; there is no data folder then.
    pub fn on_qdrant(self, url: &str) -> Self {
        self.unset("data.dir").set("store.backend", "qdrant").set("store.qdrant.url", url)
    }

    /// A server without a model.
    pub fn without_model(self) -> Self {
        self.unset("embedding.model")
            .unset("embedding.threads")
            .unset("embedding.cache_bytes")
            .set("embedding.provider", "none")
    }

    /// Sets an environment variable.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Gives the server a configuration file.
    pub fn file(mut self, toml: &str) -> Self {
        self.file = Some(toml.to_owned());
        self
    }

    /// The data folder, unless it is set to another one.
    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// What the memory store leaves for the next run.
    pub fn dump_file(&self) -> PathBuf {
        self.data_dir().join("memory.dump")
    }

    /// What the edge backend keeps.
    pub fn edge_folder(&self) -> PathBuf {
        self.data_dir().join("edge")
    }

    /// The configuration file.
    pub fn config_file(&self) -> PathBuf {
        self.folder.path().join("toller.toml")
    }

    fn command(&self) -> Command {
        let mut command = if self.is_embedder { toller_embedder() } else { toller() };
        if !self.is_embedder {
            command.arg("serve");
        }
        if let Some(toml) = &self.file {
            std::fs::write(self.config_file(), toml).expect("the configuration file can be written");
            command.arg("--config").arg(self.config_file());
        }
        for (key, value) in &self.flags {
            command.arg(format!("--{}", key.replace(['.', '_'], "-"))).arg(value);
        }
        command.envs(&self.variables);
        command
    }

    /// Starts a server, and returns when it answers requests.
    pub async fn start(&self) -> Server {
        let mut child = self.command().stdout(Stdio::piped()).spawn().expect("the binary starts");
        let stderr = child.stderr.take().expect("standard error is piped");
        let mut stdout = child.stdout.take().expect("standard output is piped");
        let (sender, log) = watch::channel(Vec::new());
        let reading = tokio::spawn(async move {
            let mut lines = BufReader::new(stderr).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                sender.send_modify(|log: &mut Vec<String>| log.push(line));
            }
        });
        let stdout = tokio::spawn(async move {
            let mut text = String::new();
            let _ = stdout.read_to_string(&mut text).await;
            text
        });
        let unspecified = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut server =
            Server { child, log, reading, stdout: Some(stdout), address: unspecified, settings: self.clone() };
        server.address = server.announced("address").await;
        server
    }

    /// Runs a server that is expected to end by itself.
    pub async fn run(&self) -> Exit {
        run(&mut self.command()).await
    }
}

/// A running server; killed when it is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    log: watch::Receiver<Vec<String>>,
    reading: JoinHandle<()>,
    stdout: Option<JoinHandle<String>>,
    /// Where it answers.
    pub address: SocketAddr,
    /// How it was started.
    pub settings: Settings,
}

impl Server {
    /// The address in the row `name` of what a server says once it answers: a line of a table, or a JSON object of the log.
    async fn announced(&mut self, name: &str) -> SocketAddr {
        let is_row = |line: &str| {
            let is_of_table = line.split_whitespace().next() == Some(name);
            let is_object = line.starts_with('{') && line.contains("\"ready\"");
            (is_of_table || is_object) && address_in(line).is_some()
        };
        let line = self.logged(is_row).await;
        address_in(&line).expect("the row has an address")
    }

    /// The first line of standard error that `wanted` is true for; waits for it.
    pub async fn logged(&mut self, wanted: impl Fn(&str) -> bool) -> String {
        let found = {
            let wait = self.log.wait_for(|lines| lines.iter().any(|line| wanted(line)));
            match timeout(PATIENCE, wait).await {
                Ok(Ok(lines)) => lines.iter().find(|line| wanted(line)).cloned(),
                _ => None,
            }
        };
        found.unwrap_or_else(|| panic!("the server ended, or did not say what was expected of it"))
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A client with a connection of its own.
    pub async fn client(&self) -> Client {
        Client::connect(&self.url(), None).await
    }

    /// A client that brings an API key.
    pub async fn client_with_key(&self, key: &str) -> Client {
        Client::connect(&self.url(), Some(key)).await
    }

    /// Its metrics, which must have been turned on with `telemetry.metrics_listen = "127.0.0.1:0"`.
    pub async fn metrics(&mut self) -> Metrics {
        Metrics::at(self.announced("metrics").await)
    }

    /// What it has said on standard error.
    pub fn log(&self) -> String {
        self.log.borrow().join("\n")
    }

    /// The id of its process.
    pub fn id(&self) -> u32 {
        self.child.id().expect("the server runs")
    }

    /// Sends a signal, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let id = self.id();
        // Through the shell, whose `kill` is always there; sending signals from Rust would need unsafe code.
        let status = std::process::Command::new("sh").arg("-c").arg(format!("kill -{name} {id}")).status();
        assert!(status.expect("sh runs").success(), "signal {name} could not be sent");
    }

    /// Waits for its end.
    pub async fn ended(mut self) -> Exit {
        let status = timeout(PATIENCE, self.child.wait()).await;
        let status = status.unwrap_or_else(|_| panic!("the server did not end within {PATIENCE:?}"));
        // The last lines may still be in the pipe.
        let _ = timeout(PATIENCE, &mut self.reading).await;
        let stdout = match self.stdout.take() {
            Some(stdout) => stdout.await.unwrap_or_default(),
            None => String::new(),
        };
        Exit { code: status.expect("the server can be waited for").code(), stdout, stderr: self.log() }
    }

    /// Stops it in order, as an operator would.
    pub async fn stop(self) -> Exit {
        self.signal("TERM");
        self.ended().await
    }

    /// Stops it in order and starts it again on the same data.
    pub async fn restart(self) -> Self {
        let settings = self.settings.clone();
        self.stop().await.expect(0);
        settings.start().await
    }

    /// Kills it, as the kernel would.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("the server can be killed");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the server at {} said:\n{}", self.address, self.log());
        }
    }
}

/// The first `address:port` of a line; times have no dots before their colons, so they are none.
fn address_in(line: &str) -> Option<SocketAddr> {
    line.split(|character: char| !(character.is_ascii_hexdigit() || ".:[]".contains(character)))
        .find_map(|word| word.trim_matches(':').parse().ok())
}
