//! The command against a server in process that keeps what it is sent and can be told to fail.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Parser as _;
use futures::stream::BoxStream;
use toller_api::v1::collections_server::{Collections, CollectionsServer};
use toller_api::v1::documents_index_request::Step;
use toller_api::v1::documents_server::{Documents, DocumentsServer};
use toller_api::v1::source_document::Content;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::*;

/// A server of one collection.
#[derive(Clone, Default)]
struct Fake(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    collection: Option<v1::Collection>,
    /// The committed sources with their bytes.
    sources: BTreeMap<String, Vec<u8>>,
    /// Answers to the next calls of Index, the next one last.
    faults: Vec<Status>,
    /// How many documents the next run takes before it breaks off.
    breaks_after: Option<usize>,
    /// How each run began.
    begins: Vec<v1::IndexBegin>,
    kept: Vec<String>,
}

impl Fake {
    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    /// Names of the sources, without the folder.
    fn sources(&self, folder: &Path) -> Vec<String> {
        let prefix = format!("{}/", folder.to_str().unwrap());
        self.with(|state| state.sources.keys().map(|source| source.replace(&prefix, "")).collect())
    }

    /// Serves on a free port until the runtime ends; gives the address.
    fn serve(&self) -> String {
        let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = incoming.local_addr().unwrap();
        let server = tonic::transport::Server::builder()
            .add_service(DocumentsServer::new(self.clone()))
            .add_service(CollectionsServer::new(self.clone()));
        tokio::spawn(server.serve_with_incoming(incoming));
        address.to_string()
    }

    /// One run, to its commit.
    async fn take(&self, mut requests: Streaming<v1::DocumentsIndexRequest>) -> Result<v1::IndexProgress, Status> {
        let mut came: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let mut progress = v1::IndexProgress::default();
        let mut begin = None;
        let mut removed = Vec::new();
        let mut documents = 0;
        while let Some(request) = requests.message().await? {
            match request.step.unwrap() {
                Step::Begin(message) => {
                    self.with(|state| state.begins.push(message.clone()));
                    begin = Some(message);
                }
                Step::Documents(message) => {
                    self.with(|state| state.kept.extend(message.kept_sources));
                    removed.extend(message.removed_sources);
                    for document in message.documents {
                        documents += 1;
                        if self.with(|state| state.breaks_after.take_if(|most| *most < documents)).is_some() {
                            return Err(Status::unavailable("going down"));
                        }
                        let Some(Content::Data(data)) = document.content else { panic!("no bytes") };
                        came.entry(document.source).or_default().extend(data);
                    }
                }
                Step::Commit(_) => {
                    let begin = begin.expect("a run begins");
                    self.with(|state| {
                        for (source, data) in &came {
                            if state.sources.get(source) == Some(data) {
                                progress.skipped += 1;
                            } else {
                                progress.added += 1;
                            }
                        }
                        let is_full = begin.cleanup() == v1::IndexCleanup::Full;
                        let before = state.sources.len();
                        state.sources.retain(|source, _| {
                            !removed.contains(source)
                                && (!is_full || came.contains_key(source) || state.kept.contains(source))
                        });
                        progress.deleted = (before - state.sources.len()) as u64;
                        state.sources.extend(came);
                    });
                    return Ok(progress);
                }
            }
        }
        Err(Status::aborted("no commit"))
    }
}

#[tonic::async_trait]
impl Documents for Fake {
    type IndexStream = BoxStream<'static, Result<v1::DocumentsIndexResponse, Status>>;

    async fn index(
        &self,
        request: Request<Streaming<v1::DocumentsIndexRequest>>,
    ) -> Result<Response<Self::IndexStream>, Status> {
        if let Some(fault) = self.with(|state| state.faults.pop()) {
            return Err(fault);
        }
        let progress = self.take(request.into_inner()).await?;
        let answer = v1::DocumentsIndexResponse { progress: Some(progress), committed: true, ..Default::default() };
        Ok(Response::new(Box::pin(futures::stream::iter([Ok(answer)]))))
    }

    async fn add(&self, _: Request<v1::DocumentsAddRequest>) -> Result<Response<v1::DocumentsAddResponse>, Status> {
        Err(Status::unimplemented("add"))
    }

    async fn delete(
        &self,
        _: Request<v1::DocumentsDeleteRequest>,
    ) -> Result<Response<v1::DocumentsDeleteResponse>, Status> {
        Err(Status::unimplemented("delete"))
    }

    async fn get(&self, _: Request<v1::DocumentsGetRequest>) -> Result<Response<v1::DocumentsGetResponse>, Status> {
        Err(Status::unimplemented("get"))
    }

    /// A page for each source, as the ids of two chunks.
    async fn list(
        &self,
        request: Request<v1::DocumentsListRequest>,
    ) -> Result<Response<v1::DocumentsListResponse>, Status> {
        let request = request.into_inner();
        assert!(request.ids_only());
        let number: usize = request.page_token.parse().unwrap_or(0);
        let (source, count) = self.with(|state| (state.sources.keys().nth(number).cloned(), state.sources.len()));
        let hash = "0123456789abcdef0123456789abcdef";
        let ids = source.into_iter().flat_map(|source| [0, 1].map(|chunk| format!("{source}#{hash}.{chunk}of2")));
        let documents =
            ids.chain(["added by hand".to_owned()]).map(|id| v1::Document { id: Some(id), ..Default::default() });
        let next_page_token = if number + 1 < count { (number + 1).to_string() } else { String::new() };
        Ok(Response::new(v1::DocumentsListResponse { documents: documents.collect(), next_page_token }))
    }

    async fn count(
        &self,
        _: Request<v1::DocumentsCountRequest>,
    ) -> Result<Response<v1::DocumentsCountResponse>, Status> {
        Err(Status::unimplemented("count"))
    }
}

#[tonic::async_trait]
impl Collections for Fake {
    async fn create(
        &self,
        request: Request<v1::CollectionsCreateRequest>,
    ) -> Result<Response<v1::CollectionsCreateResponse>, Status> {
        let request = request.into_inner();
        let collection = v1::Collection { name: request.name, metric: request.metric, ..Default::default() };
        self.with(|state| state.collection = Some(collection.clone()));
        Ok(Response::new(v1::CollectionsCreateResponse { collection: Some(collection) }))
    }

    async fn get(&self, _: Request<v1::CollectionsGetRequest>) -> Result<Response<v1::CollectionsGetResponse>, Status> {
        match self.with(|state| state.collection.clone()) {
            Some(collection) => Ok(Response::new(v1::CollectionsGetResponse { collection: Some(collection) })),
            None => Err(Status::not_found("no such collection")),
        }
    }

    async fn list(
        &self,
        _: Request<v1::CollectionsListRequest>,
    ) -> Result<Response<v1::CollectionsListResponse>, Status> {
        Err(Status::unimplemented("list"))
    }

    async fn reembed(
        &self,
        _: Request<v1::CollectionsReembedRequest>,
    ) -> Result<Response<v1::CollectionsReembedResponse>, Status> {
        Err(Status::unimplemented("reembed"))
    }

    async fn update(
        &self,
        _: Request<v1::CollectionsUpdateRequest>,
    ) -> Result<Response<v1::CollectionsUpdateResponse>, Status> {
        Err(Status::unimplemented("update"))
    }

    async fn delete(
        &self,
        _: Request<v1::CollectionsDeleteRequest>,
    ) -> Result<Response<v1::CollectionsDeleteResponse>, Status> {
        Err(Status::unimplemented("delete"))
    }

    async fn stats(
        &self,
        _: Request<v1::CollectionsStatsRequest>,
    ) -> Result<Response<v1::CollectionsStatsResponse>, Status> {
        Err(Status::unimplemented("stats"))
    }
}

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn parse(arguments: &[&str]) -> Result<Args, clap::Error> {
    Line::try_parse_from(["ingest"].iter().chain(arguments)).map(|line| line.args)
}

/// Runs the command on a folder.
async fn ingest(server: &str, folder: &Path, arguments: &[&str]) -> Result<serde_json::Value, Error> {
    let line = [&[folder.to_str().unwrap(), "--max-file-bytes", "3000000", "--server", server], arguments].concat();
    let args = parse(&line).unwrap();
    let order = args.order()?;
    let mut report = Report::default();
    index(&args, &order, &Progress::new(), &mut report).await?;
    Ok(serde_json::to_value(Summary::new(&order, report).to_json(Duration::ZERO)).unwrap())
}

#[tokio::test]
async fn files_go_in_and_come_again() {
    let fake = Fake::default();
    let server = fake.serve();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("a.txt", "one");
    write("b.md", &"long ".repeat(500_000));
    write("c.png", "");

    let told = ingest(&server, folder.path(), &[]).await.unwrap();
    assert_eq!((&told["files"], &told["added"], &told["unchanged"]), (&2.into(), &2.into(), &0.into()), "{told}");
    assert_eq!(told["skipped"].as_array().unwrap().len(), 1);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fake.with(|state| {
        assert_eq!(state.collection.as_ref().unwrap().metric, i32::from(v1::Metric::Cosine));
        assert_eq!(state.begins[0].cleanup(), v1::IndexCleanup::Incremental);
        assert_eq!(state.sources[&path("b.md")], fs::read(path("b.md")).unwrap(), "parts make the whole");
    });

    write("a.txt", "two");
    write("d.txt", &"x".repeat(3_000_001));
    let told = ingest(&server, folder.path(), &[]).await.unwrap();
    assert_eq!((&told["added"], &told["unchanged"]), (&1.into(), &1.into()), "{told}");
    assert_eq!(fake.sources(folder.path()), ["a.txt", "b.md"]);
    assert_eq!(
        fake.with(|state| state.kept.clone()),
        [path("d.txt")],
        "a file that is too large keeps what is indexed of it"
    );
    assert!(told["skipped"].to_string().contains("larger than 3000000 bytes"), "{told}");
}

#[tokio::test]
async fn a_full_run_removes_what_did_not_come() {
    let fake = Fake::default();
    let server = fake.serve();
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.txt", "b.txt"] {
        fs::write(folder.path().join(name), name).unwrap();
    }
    ingest(&server, folder.path(), &[]).await.unwrap();
    fs::remove_file(folder.path().join("a.txt")).unwrap();
    ingest(&server, folder.path(), &[]).await.unwrap();
    assert_eq!(fake.sources(folder.path()), ["a.txt", "b.txt"]);
    let told = ingest(&server, folder.path(), &["--cleanup", "full"]).await.unwrap();
    assert_eq!((told["deleted"].clone(), fake.sources(folder.path())), (1.into(), vec!["b.txt".to_owned()]));

    // What may be a mistake removes nothing.
    let gone = folder.path().join("gone");
    let fault = ingest(&server, &gone, &["--cleanup", "full"]).await.unwrap_err().to_string();
    assert!(fault.contains("gone") && fault.contains("nothing was done"), "{fault}");
    fs::remove_file(folder.path().join("b.txt")).unwrap();
    let fault = ingest(&server, folder.path(), &["--cleanup", "full"]).await.unwrap_err().to_string();
    assert!(fault.contains("--allow-empty-full"), "{fault}");
    assert_eq!(fake.sources(folder.path()), ["b.txt"]);
    ingest(&server, folder.path(), &["--cleanup", "full", "--allow-empty-full"]).await.unwrap();
    assert!(fake.sources(folder.path()).is_empty());
}

#[cfg(unix)]
#[tokio::test]
async fn a_full_run_keeps_what_is_below_a_folder_that_cannot_be_walked() {
    let fake = Fake::default();
    let server = fake.serve();
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("below")).unwrap();
    for name in ["a.txt", "below/b.txt"] {
        fs::write(folder.path().join(name), name).unwrap();
    }
    ingest(&server, folder.path(), &[]).await.unwrap();
    // A folder that is not there for the moment, as one whose disk is not mounted.
    fs::remove_dir_all(folder.path().join("below")).unwrap();
    std::os::unix::fs::symlink("nowhere", folder.path().join("below")).unwrap();
    let order = parse(&[folder.path().to_str().unwrap(), "--cleanup", "full"]).unwrap().order().unwrap();
    assert!(!order.kept.is_empty(), "a link to nowhere cannot be used: {:?}", order.work.skipped);
    ingest(&server, folder.path(), &["--cleanup", "full"]).await.unwrap();
    assert_eq!(fake.sources(folder.path()), ["a.txt", "below/b.txt"]);
}

#[tokio::test]
async fn a_busy_server_is_waited_for_and_a_refusal_ends_the_run() {
    let fake = Fake::default();
    let server = fake.serve();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), "one").unwrap();
    fs::write(folder.path().join("b.txt"), "two").unwrap();

    let busy = || {
        let details = ErrorDetails::with_retry_info(Some(Duration::from_millis(1)));
        Status::with_error_details(Code::ResourceExhausted, "the queue is full", details)
    };
    fake.with(|state| {
        state.faults = vec![busy(), busy()];
        state.breaks_after = Some(1);
    });
    let told = ingest(&server, folder.path(), &[]).await.unwrap();
    assert_eq!(told["added"], 2, "the run that broke off was begun again from the start: {told}");
    assert_eq!(fake.with(|state| state.begins.len()), 2);

    fake.with(|state| state.faults = vec![Status::failed_precondition("another model")]);
    let fault = ingest(&server, folder.path(), &[]).await.unwrap_err();
    assert!(fault.to_string().contains("another model"));
}

#[tokio::test]
async fn a_dry_run_makes_nothing() {
    let fake = Fake::default();
    let server = fake.serve();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), "one").unwrap();
    let fault = ingest(&server, folder.path(), &["--dry-run"]).await.unwrap_err().to_string();
    assert!(fault.contains("no collection \"docs\""), "{fault}");
    assert!(fake.with(|state| state.collection.is_none()));
    ingest(&server, folder.path(), &[]).await.unwrap();
    let told = ingest(&server, folder.path(), &["--dry-run", "--force", "--refuse"]).await.unwrap();
    assert!(told["changes"].is_array(), "{told}");
    let begin = fake.with(|state| state.begins.pop().unwrap());
    assert!(begin.dry_run && begin.force && begin.conflict() == v1::IndexConflict::Refuse);
}

#[test]
fn nothing_to_read_needs_no_server() {
    let folder = tempfile::tempdir().unwrap();
    let args = parse(&[folder.path().to_str().unwrap(), "--server", "127.0.0.1:1"]).unwrap();
    assert_eq!(run(args).unwrap(), ExitCode::FAILURE);
}

#[test]
fn wrong_usage_is_named() {
    assert!(parse(&[]).is_err() && parse(&["x", "--cleanup", "all"]).is_err());
    for (arguments, word) in [
        (&["x", "--source", "a.md"][..], "--source"),
        (&["-", "-"], "once"),
        (&["x", "--chunk-size", "10", "--chunk-overlap", "11"], "--chunk-overlap"),
        (&["x", "--include", "!x"], "--include"),
    ] {
        let Err(Error::Usage(fault)) = parse(arguments).unwrap().order() else {
            panic!("{arguments:?} must be refused")
        };
        assert!(fault.contains(word), "{arguments:?}: {fault}");
    }
}

#[test]
fn below_is_by_the_parts_of_paths() {
    let sources = ["a/b.md", "ab/c.md", "a", "d/a/e.md"].map(str::to_owned).into();
    assert_eq!(below(&["a".to_owned()], &sources), ["a", "a/b.md"]);
}
