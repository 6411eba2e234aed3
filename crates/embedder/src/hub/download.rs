//! Fetching one commit of a repository into the cache, with time limits.
//!
//! hf-hub waits for ever, so it runs on a thread of its own that reports every sign of life; when none comes in time, the
//! caller gets its error at once and the thread is left to end with its connection.

use std::fs;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;

use hf_hub::api::Progress;
use hf_hub::api::sync::{Api, ApiBuilder, ApiError, ApiRepo};
use hf_hub::{Cache, Repo, RepoType};
use indicatif::ProgressBar;

use super::cache::{self, INDISPENSABLE, OPTIONAL};
use super::{HubSettings, Snapshot};
use crate::error::{Error, Result};
use crate::source::Repository;

const UNAUTHORIZED: u16 = 401;
const FORBIDDEN: u16 = 403;
const NOT_FOUND: u16 = 404;

/// What the download thread reports.
enum Report {
    /// Something arrived.
    Alive,
    /// The end.
    Done(Result<Snapshot>),
}

/// Brings what the hub has now at `repository` into the cache.
pub(super) fn fetch(settings: &HubSettings, repository: &Repository) -> Result<Snapshot> {
    let (reports, inbox) = mpsc::channel();
    let download = Download { settings: settings.clone(), repository: repository.clone(), reports: reports.clone() };
    let work = move || {
        let result = download.run();
        // Nobody listens any more when the time limit struck.
        let _ = reports.send(Report::Done(result));
    };
    thread::Builder::new()
        .name("toller-hub".to_owned())
        .spawn(work)
        .map_err(|error| Error::Threads(error.to_string()))?;

    let unreachable = |reason: String| Error::HubUnreachable {
        endpoint: settings.endpoint.clone(),
        repository: repository.to_string(),
        reason,
    };
    let mut patience = settings.first_answer;
    loop {
        match inbox.recv_timeout(patience) {
            Ok(Report::Alive) => patience = settings.stall,
            Ok(Report::Done(result)) => return result,
            Err(RecvTimeoutError::Timeout) => {
                return Err(unreachable(format!("no answer for {:.1} s", patience.as_secs_f64())));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(unreachable("it sent an answer that is not the hub's protocol".to_owned()));
            }
        }
    }
}

struct Download {
    settings: HubSettings,
    repository: Repository,
    reports: Sender<Report>,
}

impl Download {
    fn run(&self) -> Result<Snapshot> {
        let hub_cache = Cache::new(self.settings.cache.clone());
        let api = ApiBuilder::from_cache(hub_cache.clone())
            .with_endpoint(self.settings.endpoint.clone())
            .with_token(self.settings.token.clone())
            .build()
            .map_err(|error| self.failed("config.json", error))?;

        // A branch can move between two requests: ask once which commit it is, then fetch all files of that commit.
        let name = self.repository.name().to_owned();
        let asked = Repo::with_revision(name.clone(), RepoType::Model, self.repository.revision().to_owned());
        let url = api.repo(asked.clone()).url("config.json");
        let commit = api.metadata(&url).map_err(|error| self.failed("config.json", error))?.commit_hash().to_owned();
        if commit.is_empty() || !commit.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(self.broken("config.json", format!("the hub names commit {commit:?}, which is not a hash")));
        }
        self.alive();

        let folder = cache::snapshot_folder(&self.settings.cache, &name, &commit);
        let pinned = self.pinned(&api, &name, &commit);
        for file in OPTIONAL {
            self.get_optional(&pinned, &folder, &commit, file)?;
        }
        for file in cache::module_configs(&folder.join("modules.json")) {
            self.get_optional(&pinned, &folder, &commit, &file)?;
        }
        for file in INDISPENSABLE {
            self.get(&pinned, &folder, file)?;
        }

        // hf-hub notes a reference from the commit to itself for each file; only the asked one means something.
        let references = cache::repository_folder(&self.settings.cache, &name).join("refs");
        let _ = fs::remove_file(references.join(&commit));
        if commit != self.repository.revision() {
            hub_cache.repo(asked).create_ref(&commit).map_err(|source| Error::io(references, source))?;
        }
        Ok(Snapshot { repository: name, revision: commit, folder })
    }

    fn pinned(&self, api: &Api, name: &str, commit: &str) -> ApiRepo {
        api.repo(Repo::with_revision(name.to_owned(), RepoType::Model, commit.to_owned()))
    }

    fn get_optional(&self, pinned: &ApiRepo, folder: &Path, commit: &str, file: &str) -> Result<()> {
        match self.get(pinned, folder, file) {
            Err(Error::HubRefused { status: NOT_FOUND, .. }) => {
                self.alive();
                cache::mark_missing(&self.settings.cache, self.repository.name(), commit, file)
            }
            result => result,
        }
    }

    fn get(&self, pinned: &ApiRepo, folder: &Path, file: &str) -> Result<()> {
        if folder.join(file).is_file() {
            return Ok(());
        }
        let bar = self.settings.progress.then(|| ProgressBar::new(0));
        let progress = SignsOfLife { reports: self.reports.clone(), bar };
        pinned.download_with_progress(file, progress).map_err(|error| self.failed(file, error))?;
        Ok(())
    }

    fn alive(&self) {
        // The receiver is gone only when the time limit struck; the download may still finish into the cache.
        let _ = self.reports.send(Report::Alive);
    }

    /// What hf-hub's error means.
    fn failed(&self, file: &str, error: ApiError) -> Error {
        let reason = match error {
            ApiError::RequestError(error) => match *error {
                ureq::Error::StatusCode(status) => return self.refused(file, status),
                error @ (ureq::Error::Io(_)
                | ureq::Error::Timeout(_)
                | ureq::Error::HostNotFound
                | ureq::Error::ConnectionFailed
                | ureq::Error::Tls(_)) => {
                    return Error::HubUnreachable {
                        endpoint: self.settings.endpoint.clone(),
                        repository: self.repository.to_string(),
                        reason: error.to_string(),
                    };
                }
                error => error.to_string(),
            },
            ApiError::LockAcquisition(_) => "another process is downloading it".to_owned(),
            ApiError::InvalidResume => {
                format!("the partial file in {} is damaged: delete its blobs/*.part", self.settings.cache.display())
            }
            error => error.to_string(),
        };
        self.broken(file, reason)
    }

    fn broken(&self, file: &str, reason: String) -> Error {
        Error::Download { repository: self.repository.to_string(), file: file.to_owned(), reason }
    }

    fn refused(&self, file: &str, status: u16) -> Error {
        let hint = match status {
            UNAUTHORIZED | FORBIDDEN => {
                "check the name; if the repository is private or gated, set HF_TOKEN to a token that may read it"
            }
            NOT_FOUND if file == "model.safetensors" => {
                "the repository has no weights in one safetensors file: choose one that has, or convert them"
            }
            NOT_FOUND => "check the name and the revision; if the repository is private, set HF_TOKEN",
            _ => "try again later, or set HF_ENDPOINT to a mirror",
        };
        Error::HubRefused {
            endpoint: self.settings.endpoint.clone(),
            repository: self.repository.to_string(),
            file: file.to_owned(),
            status,
            hint,
        }
    }
}

/// Reports each piece that arrives, and draws it when there is a terminal.
struct SignsOfLife {
    reports: Sender<Report>,
    bar: Option<ProgressBar>,
}

impl SignsOfLife {
    fn alive(&self) {
        let _ = self.reports.send(Report::Alive);
    }
}

impl Progress for SignsOfLife {
    fn init(&mut self, size: usize, filename: &str) {
        self.alive();
        if let Some(bar) = &mut self.bar {
            Progress::init(bar, size, filename);
        }
    }

    fn update(&mut self, size: usize) {
        self.alive();
        if let Some(bar) = &mut self.bar {
            Progress::update(bar, size);
        }
    }

    fn finish(&mut self) {
        if let Some(bar) = &mut self.bar {
            Progress::finish(bar);
        }
    }
}
