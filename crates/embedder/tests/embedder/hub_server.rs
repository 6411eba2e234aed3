//! A hub on a local port: the part of the protocol that clients use, and a log of what they asked.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::{fs, thread};

/// What the server does with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Serves everything.
    Good,
    /// Answers every request with this status.
    Refuses(u16),
    /// Sends half of the weights and then nothing more, without closing.
    StopsInTheMiddle,
    /// Sends other weights than the hash promises.
    Corrupts,
}

/// What is served, and what was asked.
#[derive(Debug)]
struct State {
    files: HashMap<String, Vec<u8>>,
    commit: String,
    behaviour: Behaviour,
    requests: Vec<String>,
    tokens: Vec<String>,
}

/// A hub that serves one repository, `BAAI/tiny-bge`.
#[derive(Debug, Clone)]
pub(crate) struct HubServer {
    port: u16,
    state: Arc<Mutex<State>>,
}

pub(crate) const REPOSITORY: &str = "BAAI/tiny-bge";
pub(crate) const FIRST_COMMIT: &str = "1111111111111111111111111111111111111111";

impl HubServer {
    /// Serves the files of `folder`.
    pub(crate) fn start(folder: &Path) -> Self {
        let mut files = HashMap::new();
        for name in [
            "config.json",
            "model.safetensors",
            "tokenizer.json",
            "modules.json",
            "1_Pooling/config.json",
            "sentence_bert_config.json",
            "config_sentence_transformers.json",
            "README.md",
        ] {
            if let Ok(bytes) = fs::read(folder.join(name)) {
                files.insert(name.to_owned(), bytes);
            }
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = State {
            files,
            commit: FIRST_COMMIT.to_owned(),
            behaviour: Behaviour::Good,
            requests: Vec::new(),
            tokens: Vec::new(),
        };
        let server = Self { port, state: Arc::new(Mutex::new(state)) };
        let serving = server.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let server = serving.clone();
                thread::spawn(move || server.serve(stream));
            }
        });
        server
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn set_behaviour(&self, behaviour: Behaviour) {
        self.state.lock().unwrap().behaviour = behaviour;
    }

    pub(crate) fn set_commit(&self, commit: &str) {
        self.state.lock().unwrap().commit = commit.to_owned();
    }

    pub(crate) fn remove(&self, file: &str) {
        self.state.lock().unwrap().files.remove(file);
    }

    /// What was asked since the last call, as `revision/file range`.
    pub(crate) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().requests)
    }

    /// The bearer tokens that came.
    pub(crate) fn tokens(&self) -> Vec<String> {
        self.state.lock().unwrap().tokens.clone()
    }

    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
                break;
            }
            head.push(line.trim_end().to_owned());
        }
        let Some(path) = head.first().and_then(|line| line.split(' ').nth(1)) else { return };
        let header = |name: &str| {
            head.iter().find_map(|line| {
                let (key, value) = line.split_once(": ")?;
                key.eq_ignore_ascii_case(name).then(|| value.to_owned())
            })
        };
        let range = header("range").unwrap_or_default();
        let _ = self.answer(&stream, path, &range, header("authorization"));
    }

    fn answer(
        &self,
        mut stream: &TcpStream,
        path: &str,
        range: &str,
        authorization: Option<String>,
    ) -> std::io::Result<()> {
        let (content, commit, behaviour, is_cdn, name) = {
            let mut state = self.state.lock().unwrap();
            state.tokens.extend(authorization);
            let resolve = format!("/{REPOSITORY}/resolve/");
            let (name, is_cdn) = match (path.strip_prefix(&resolve), path.strip_prefix("/cdn/")) {
                (Some(rest), _) => (rest.split_once('/').map_or(rest, |(_, file)| file), false),
                (None, Some(file)) => (file, true),
                (None, None) => ("", false),
            };
            let asked = path.strip_prefix(&resolve).unwrap_or(path);
            state.requests.push(format!("{asked} {range}"));
            (state.files.get(name).cloned(), state.commit.clone(), state.behaviour, is_cdn, name.to_owned())
        };
        if let Behaviour::Refuses(status) = behaviour {
            return write!(stream, "HTTP/1.1 {status} No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
        let Some(mut content) = content else {
            return write!(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        };
        let is_large = name == "model.safetensors";
        let hash = sha256(&content);
        if is_large && !is_cdn {
            // Large files live elsewhere, under the hash of their content.
            return write!(
                stream,
                "HTTP/1.1 302 Found\r\nLocation: {}/cdn/{name}\r\nX-Repo-Commit: {commit}\r\nX-Linked-Etag: \"{hash}\"\r\n\
                 X-Linked-Size: {}\r\nETag: \"other\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                self.endpoint(),
                content.len()
            );
        }
        if is_large && behaviour == Behaviour::Corrupts {
            let last = content.len() - 1;
            content[last] ^= 1;
        }
        let (start, end) = parse_range(range, content.len());
        let part = &content[start..end];
        write!(
            stream,
            "HTTP/1.1 206 Partial Content\r\nX-Repo-Commit: {commit}\r\nETag: \"{}\"\r\nContent-Range: bytes {start}-{}/{}\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            &hash[..40],
            end.max(1) - 1,
            content.len(),
            part.len()
        )?;
        if is_large && behaviour == Behaviour::StopsInTheMiddle && part.len() > 1 {
            stream.write_all(&part[..part.len() / 2])?;
            // Kept open until the test process ends.
            std::mem::forget(stream.try_clone()?);
            return Ok(());
        }
        stream.write_all(part)
    }
}

fn parse_range(range: &str, length: usize) -> (usize, usize) {
    let bounds = range.strip_prefix("bytes=").and_then(|range| range.split_once('-'));
    let start = bounds.and_then(|(start, _)| start.parse().ok()).unwrap_or(0);
    let end = bounds.and_then(|(_, end)| end.parse::<usize>().ok()).map_or(length, |last| (last + 1).min(length));
    (start.min(end), end)
}

fn sha256(content: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}
