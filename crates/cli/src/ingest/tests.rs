//! The command against a server in process that keeps documents and can be told to fail.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Parser as _;
use toller_api::convert::{filter_from_message, metadata_from_message};
use toller_api::v1::collections_server::{Collections, CollectionsServer};
use toller_api::v1::documents_delete_request::Selector;
use toller_api::v1::documents_server::{Documents, DocumentsServer};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::*;

/// A server of one collection.
#[derive(Clone, Default)]
struct Fake(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    collection: Option<v1::Collection>,
    documents: BTreeMap<String, v1::Document>,
    /// Answers to the next calls of Add, the next one last.
    faults: Vec<Status>,
    /// Request id and number of documents of each Add that was answered well.
    added: Vec<(String, usize)>,
    deletes: usize,
}

impl Fake {
    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    fn ids(&self) -> Vec<String> {
        self.with(|state| state.documents.keys().cloned().collect())
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
}

#[tonic::async_trait]
impl Documents for Fake {
    async fn add(
        &self,
        request: Request<v1::DocumentsAddRequest>,
    ) -> Result<Response<v1::DocumentsAddResponse>, Status> {
        let request = request.into_inner();
        self.with(|state| {
            if let Some(fault) = state.faults.pop() {
                return Err(fault);
            }
            state.added.push((request.request_id.unwrap(), request.documents.len()));
            let usage = vec![v1::TextUsage { token_count: Some(10), truncated: false }; request.documents.len()];
            let documents = request.documents.into_iter().map(|document| (document.id().to_owned(), document));
            state.documents.extend(documents);
            Ok(Response::new(v1::DocumentsAddResponse { ids: Vec::new(), usage }))
        })
    }

    async fn delete(
        &self,
        request: Request<v1::DocumentsDeleteRequest>,
    ) -> Result<Response<v1::DocumentsDeleteResponse>, Status> {
        let Some(Selector::Filter(filter)) = request.into_inner().selector else { panic!("not by filter") };
        let filter = filter_from_message(filter).unwrap();
        self.with(|state| {
            state.deletes += 1;
            let before = state.documents.len();
            state
                .documents
                .retain(|_, document| !filter.matches(&metadata_from_message(document.metadata.clone()).unwrap()));
            let deleted = (before - state.documents.len()) as u64;
            Ok(Response::new(v1::DocumentsDeleteResponse { deleted }))
        })
    }

    async fn get(&self, _: Request<v1::DocumentsGetRequest>) -> Result<Response<v1::DocumentsGetResponse>, Status> {
        Err(Status::unimplemented("get"))
    }

    async fn list(&self, _: Request<v1::DocumentsListRequest>) -> Result<Response<v1::DocumentsListResponse>, Status> {
        Err(Status::unimplemented("list"))
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

/// Runs the command on a folder, in chunks of at most 10 characters and batches of 2.
async fn ingest(server: &str, folder: &Path) -> (Summary, Result<(), Error>) {
    let folder = folder.to_str().unwrap();
    let args = parse(&[folder, "--chunk-size", "10", "--chunk-overlap", "0", "--batch-size", "2", "--server", server])
        .unwrap();
    let mut summary = Summary::new(&args.collection);
    let work = Work::find(&args.paths);
    let outcome = index(&args, args.plan().unwrap(), work, &Progress::new(), &mut summary).await;
    (summary, outcome)
}

fn json(summary: &Summary) -> serde_json::Value {
    serde_json::to_value(summary.to_json(Duration::ZERO)).unwrap()
}

#[tokio::test]
async fn files_go_in_and_come_again_without_left_overs() {
    let fake = Fake::default();
    let server = fake.serve();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("a.txt", "one\n\ntwo and three\n\nfour and five");
    write("b.md", "# T\n\nx");
    write("c.png", "");
    write("d.txt", "soon empty");

    let (summary, outcome) = ingest(&server, folder.path()).await;
    outcome.unwrap();
    let told = json(&summary);
    assert_eq!((&told["files"], &told["chunks"], &told["tokens"]), (&3.into(), &7.into(), &70.into()));
    assert_eq!(told["skipped"].as_array().unwrap().len(), 1);
    assert!(!summary.is_failure());
    fake.with(|state| {
        assert_eq!(state.collection.as_ref().unwrap().metric, i32::from(v1::Metric::Cosine));
        assert_eq!(state.added.iter().map(|(_, documents)| *documents).collect::<Vec<_>>(), [2, 2, 2, 1]);
        let ids: std::collections::HashSet<_> = state.added.iter().map(|(id, _)| id).collect();
        assert_eq!(ids.len(), 4, "each batch has a request id of its own");
        assert_eq!(state.deletes, 0, "a new collection has no left-overs");
    });

    write("a.txt", "one\n\nno more");
    write("d.txt", "\n");
    let (summary, outcome) = ingest(&server, folder.path()).await;
    outcome.unwrap();
    let root = folder.path().to_str().unwrap();
    assert_eq!(fake.ids(), ["a.txt#0", "a.txt#1", "b.md#0"].map(|id| format!("{root}/{id}")));
    assert_eq!(json(&summary)["removed"], 4);
    assert_eq!(fake.with(|state| state.documents[&format!("{root}/a.txt#1")].page_content.clone()), "no more");
}

#[tokio::test]
async fn a_busy_server_is_waited_for_and_a_refusal_ends_the_run() {
    let fake = Fake::default();
    let server = fake.serve();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), "one\n\ntwo and three\n\nfour and five").unwrap();

    let busy = || {
        let details = ErrorDetails::with_retry_info(Some(Duration::from_millis(1)));
        Status::with_error_details(Code::ResourceExhausted, "the queue is full", details)
    };
    fake.with(|state| state.faults = vec![busy(), busy(), busy()]);
    let (summary, outcome) = ingest(&server, folder.path()).await;
    outcome.unwrap();
    assert_eq!(json(&summary)["chunks"], 5);
    assert_eq!(fake.ids().len(), 5);

    fake.with(|state| state.faults = vec![Status::failed_precondition("another model")]);
    let (_, outcome) = ingest(&server, folder.path()).await;
    assert!(outcome.unwrap_err().to_string().contains("another model"));
}

#[test]
fn nothing_to_read_needs_no_server() {
    let folder = tempfile::tempdir().unwrap();
    let args = parse(&[folder.path().to_str().unwrap(), "--server", "127.0.0.1:1"]).unwrap();
    assert_eq!(run(args).unwrap(), ExitCode::FAILURE);
}

#[test]
fn sizes_are_checked_and_overlap_follows_the_size() {
    assert!(parse(&[]).is_err() && parse(&["x", "--batch-size", "0"]).is_err());
    let fault = |arguments: &[&str]| match parse(arguments).unwrap().plan() {
        Err(Error::Usage(fault)) => fault,
        _ => panic!("{arguments:?} must be refused"),
    };
    assert_eq!(fault(&["x", "--chunk-size", "0"]), "--chunk-size: must be at least 1, got 0");
    assert_eq!(
        fault(&["x", "--chunk-size", "10", "--chunk-overlap", "11"]),
        "--chunk-overlap: must be at most the chunk size of 10, got 11"
    );
    for size in ["1", "100", "1000", "18446744073709551615"] {
        assert!(parse(&["x", "--chunk-size", size]).unwrap().plan().is_ok(), "{size}");
    }
}
