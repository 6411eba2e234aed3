//! A server that is stopped and killed again and again while it is written to. What is on disk is always one whole state.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use toller_api::v1;
use toller_api::v1::documents_delete_request::Selector;
use toller_api::v1::filter::Kind as FilterKind;
use toller_tests::PATIENCE;
use toller_tests::client::Client;
use toller_tests::request::*;
use toller_tests::server::{Server, Settings};
use tonic::{Code, Status};

use crate::run::Run;

/// Clients that write at a time. Each has its own documents, retriever and collection.
const WRITERS: i64 = 4;

/// Ids of a writer.
const IDS: u32 = 40;

const GROUPS: i64 = 3;

/// Documents that are only there so that a dump takes a while, and how long their vectors are.
const BALLAST: u32 = 3000;
const BALLAST_DIMENSION: u32 = 256;

/// Calls of all writers together before the server's end, at most.
const MAX_CALLS: u64 = 300;

/// What the memory backend leaves in the data folder.
const FILES: [&str; 2] = ["memory.dump", "toller.lock"];

/// How a dump is called while it is written.
const PARTIAL_PREFIX: &str = ".toller-dump-";
const PARTIAL_SUFFIX: &str = ".partial";

/// Everything that one writer has written.
#[derive(Debug, Clone, Default, PartialEq)]
struct Part {
    documents: BTreeMap<String, v1::Document>,
    retriever: Option<v1::Retriever>,
    has_collection: bool,
}

/// One write.
#[derive(Debug, Clone)]
enum Write {
    Add(Vec<v1::Document>),
    DeleteIds(Vec<String>),
    DeleteGroup(i64),
    PutRetriever(Box<v1::Retriever>),
    DeleteRetriever,
    CreateCollection,
    DeleteCollection,
}

/// What may be found after a restart: any of these states, each with the choices that it leaves to each writer's part.
type Expected = Vec<Vec<Vec<Part>>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: run with make test-long"]
async fn restart_loop() {
    let run = Run::start("restart_loop");
    let mut random = run.random(0);
    let settings = Settings::new().without_model();
    let server = settings.start().await;
    fill(&server.client().await).await;
    server.stop().await.expect(0);

    let mut expected: Expected = vec![vec![vec![Part::default()]; WRITERS as usize]];
    let mut ends = BTreeMap::<&str, u32>::new();
    while run.step() {
        let planted = settings.data_dir().join(format!("{PARTIAL_PREFIX}planted{PARTIAL_SUFFIX}"));
        if random.bool() {
            fs::write(planted, "{\"format\":\"half a li").unwrap();
        }
        let server = settings.start().await;
        // What is left of an unfinished dump is gone.
        assert_eq!(
            files(&settings).difference(&FILES.map(str::to_owned).into()).next(),
            None,
            "of {:?}",
            files(&settings)
        );
        let parts = check(&server, &expected).await;

        let stop = Arc::new(AtomicBool::new(false));
        let (calls, mut called) = watch::channel(0_u64);
        let mut writers = Vec::new();
        for (number, part) in (0..).zip(&parts) {
            let writer = Writer {
                number,
                client: server.client().await,
                random: random.fork(),
                part: part.clone(),
                pending: None,
                calls: calls.clone(),
                stop: Arc::clone(&stop),
            };
            writers.push(tokio::spawn(writer.work()));
        }
        let wanted = random.u64(..MAX_CALLS);
        called.wait_for(|calls| *calls >= wanted).await.unwrap();

        let dumped: Vec<Vec<Part>> = parts.into_iter().map(|part| vec![part]).collect();
        let (end, found) = match random.u32(..4) {
            0 => ("stopped under load", vec![stopped(server, writers).await]),
            1 => {
                server.kill().await;
                join(writers).await;
                ("killed under load", vec![dumped])
            }
            2 => {
                stop.store(true, Ordering::Relaxed);
                join(writers).await;
                server.kill().await;
                ("killed at rest", vec![dumped])
            }
            _ => match killed_while_dumping(server, writers).await {
                (true, new) => ("killed while dumping", vec![dumped, new]),
                (false, new) => ("stopped before the kill", vec![new]),
            },
        };
        *ends.entry(end).or_default() += 1;
        expected = found;
    }
    let server = settings.start().await;
    check(&server, &expected).await;
    server.stop().await.expect(0);
    run.say(format_args!("{ends:?}"));
}

/// The collection that all writers share, and what makes a dump long.
async fn fill(client: &Client) {
    client.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    client.create_for_vectors("ballast", BALLAST_DIMENSION, v1::Metric::Dot).await;
    for start in (0..BALLAST).step_by(1000) {
        let documents = (start..start + 1000)
            .map(|number| point(&number.to_string(), &vec![number as f32; BALLAST_DIMENSION as usize]));
        client.add("ballast", documents.collect()).await;
    }
}

fn files(settings: &Settings) -> BTreeSet<String> {
    let entries = fs::read_dir(settings.data_dir()).expect("the data folder is there");
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Reads everything, and asserts that it is what may be there.
async fn check(server: &Server, expected: &Expected) -> Vec<Part> {
    let client = server.client().await;
    let documents = client.all("points").await;
    let retrievers = client.retrievers().list(v1::RetrieversListRequest {}).await.unwrap().into_inner().retrievers;
    let collections = client.collections().list(v1::CollectionsListRequest {}).await.unwrap().into_inner().collections;
    let mut parts = Vec::new();
    for writer in 0..WRITERS {
        let own = documents.iter().filter(|document| document.metadata["writer"] == int(writer));
        let own = own.map(|document| (document.id_text().to_owned(), document.clone())).collect();
        let mut own_retrievers = retrievers.iter().filter_map(|stored| stored.retriever.clone());
        parts.push(Part {
            documents: own,
            retriever: own_retrievers.find(|retriever| retriever.name == own_name(writer)),
            has_collection: collections.iter().any(|collection| collection.name == own_name(writer)),
        });
    }
    // Nothing is there that belongs to nobody, and what nobody touched is whole.
    let known: usize = parts.iter().map(|part| part.documents.len()).sum();
    assert_eq!(documents.len(), known);
    assert_eq!(retrievers.len(), parts.iter().filter(|part| part.retriever.is_some()).count());
    assert_eq!(collections.len(), 2 + parts.iter().filter(|part| part.has_collection).count());
    assert_eq!(client.count("ballast").await, u64::from(BALLAST));

    let is_state = |state: &Vec<Vec<Part>>| parts.iter().zip(state).all(|(part, choices)| choices.contains(part));
    if !expected.iter().any(is_state) {
        for (writer, part) in parts.iter().enumerate() {
            eprintln!("writer {writer}: found {}", summary(part));
            for (state, choices) in expected.iter().enumerate() {
                for choice in choices[writer].iter() {
                    eprintln!("  state {state} has {}, the same: {}", summary(choice), choice == part);
                }
            }
        }
        panic!("the state after the restart is none of those that may be there");
    }
    parts
}

fn summary(part: &Part) -> String {
    let versions: Vec<_> =
        part.documents.values().map(|document| format!("{}={}", document.id_text(), document.page_content)).collect();
    format!(
        "{} documents {versions:?}, retriever {:?}, collection {}",
        part.documents.len(),
        part.retriever,
        part.has_collection
    )
}

/// Stops a server in order while writers write. Whatever was acknowledged, also after the signal, is to be found again.
async fn stopped(server: Server, writers: Vec<JoinHandle<Writer>>) -> Vec<Vec<Part>> {
    server.signal("TERM");
    server.ended().await.expect(0);
    join(writers).await.into_iter().map(Writer::choices).collect()
}

/// Stops a server in order, and kills it as soon as its dump has begun; was it in time?
async fn killed_while_dumping(server: Server, writers: Vec<JoinHandle<Writer>>) -> (bool, Vec<Vec<Part>>) {
    let settings = server.settings.clone();
    server.signal("TERM");
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    let give_up = Instant::now() + PATIENCE;
    loop {
        ticks.tick().await;
        let is_partial = |name: &String| name.starts_with(PARTIAL_PREFIX) && name.ends_with(PARTIAL_SUFFIX);
        // A process that has ended has no memory, but its parent has not asked for it yet.
        let has_ended = fs::read(format!("/proc/{}/cmdline", server.id())).map_or(true, |line| line.is_empty());
        if files(&settings).iter().any(is_partial) || has_ended {
            break;
        }
        assert!(Instant::now() < give_up, "the server neither dumps nor ends");
    }
    server.signal("KILL");
    let exit = server.ended().await;
    let choices = join(writers).await.into_iter().map(Writer::choices).collect();
    assert!(matches!(exit.code, None | Some(0)), "{exit:?}");
    (exit.code.is_none(), choices)
}

async fn join(writers: Vec<JoinHandle<Writer>>) -> Vec<Writer> {
    let mut joined = Vec::new();
    for writer in writers {
        joined.push(writer.await.expect("a writer found a fault"));
    }
    joined
}

fn own_name(writer: i64) -> String {
    format!("writer-{writer}")
}

/// A client that writes until the server is gone.
struct Writer {
    number: i64,
    client: Client,
    random: Rng,
    /// What was acknowledged.
    part: Part,
    /// What was not.
    pending: Option<Write>,
    calls: watch::Sender<u64>,
    stop: Arc<AtomicBool>,
}

impl Writer {
    async fn work(mut self) -> Self {
        while !self.stop.load(Ordering::Relaxed) {
            let write = self.choose();
            self.pending = Some(write.clone());
            match self.make(&write).await {
                Ok(deleted) => {
                    let gone = apply(&mut self.part, &write);
                    assert_eq!(deleted, gone, "{write:?}");
                    self.pending = None;
                }
                Err(status) => {
                    // With a source it was made up on this side: the connection broke.
                    let is_broken = std::error::Error::source(&status).is_some();
                    let is_honest = matches!(status.code(), Code::Unavailable | Code::ResourceExhausted);
                    assert!(is_broken || is_honest, "{write:?}: {status:?}");
                    break;
                }
            }
            self.calls.send_modify(|calls| *calls += 1);
        }
        // Whoever waits for more calls waits no longer.
        self.calls.send_modify(|calls| *calls += MAX_CALLS);
        self
    }

    /// What may be there of it after an orderly stop.
    fn choices(self) -> Vec<Part> {
        let mut choices = vec![self.part];
        if let Some(write) = &self.pending {
            let mut with_pending = choices[0].clone();
            apply(&mut with_pending, write);
            choices.push(with_pending);
        }
        choices
    }

    fn choose(&mut self) -> Write {
        let random = &mut self.random;
        let number = self.number;
        match random.u32(..20) {
            0..12 => {
                let count = random.usize(1..=20);
                let ids = random.choose_multiple(0..IDS, count);
                // One text in all documents of a batch, so that half a batch would be seen.
                let text = random.u64(..).to_string();
                let mut add = |id: u32| {
                    let group = int(random.i64(..GROUPS));
                    let angle = random.f32() * std::f32::consts::TAU;
                    let id = format!("{number}-{id:03}");
                    document(&id, &text)
                        .vector(&[angle.cos(), angle.sin()])
                        .with("writer", int(number))
                        .with("group", group)
                };
                Write::Add(ids.into_iter().map(&mut add).collect())
            }
            12..14 => {
                let ids = random.choose_multiple(0..IDS, 5);
                Write::DeleteIds(ids.into_iter().map(|id| format!("{number}-{id:03}")).collect())
            }
            14..16 => Write::DeleteGroup(random.i64(..GROUPS)),
            16 if self.part.retriever.is_some() => Write::DeleteRetriever,
            16 | 17 => {
                // With the defaults said, since what comes back says them.
                let search = v1::VectorStoreRetriever {
                    search_type: v1::SearchType::Similarity.into(),
                    k: Some(random.u32(1..1000)),
                    with_vectors: Some(false),
                    ..search_in("points")
                };
                Write::PutRetriever(Box::new(vector_store(&own_name(number), search)))
            }
            _ if self.part.has_collection => Write::DeleteCollection,
            _ => Write::CreateCollection,
        }
    }

    /// Makes a write, and returns how many documents it deleted.
    async fn make(&self, write: &Write) -> Result<u64, Status> {
        let collection = || "points".to_owned();
        let delete = async |selector| {
            let request = v1::DocumentsDeleteRequest { collection: collection(), selector: Some(selector) };
            Ok(self.client.documents().delete(request).await?.into_inner().deleted)
        };
        let name = own_name(self.number);
        match write.clone() {
            Write::Add(documents) => {
                let request = v1::DocumentsAddRequest { collection: collection(), documents, ..Default::default() };
                self.client.documents().add(request).await?;
            }
            Write::DeleteIds(ids) => return delete(Selector::Ids(v1::DocumentIds { ids })).await,
            Write::DeleteGroup(group) => {
                let owner = compare(FilterKind::Eq, "writer", int(self.number));
                let filter = combine(FilterKind::AllOf, [owner, compare(FilterKind::Eq, "group", int(group))]);
                return delete(Selector::Filter(filter)).await;
            }
            Write::PutRetriever(retriever) => {
                let request = v1::RetrieversPutRequest { retriever: Some(*retriever), expected_version: None };
                self.client.retrievers().put(request).await?;
            }
            Write::DeleteRetriever => {
                self.client.retrievers().delete(v1::RetrieversDeleteRequest { name }).await?;
            }
            Write::CreateCollection => {
                let vectors = v1::collections_create_request::Vectors::Client(v1::ClientVectors { dimension: 3 });
                let request = v1::CollectionsCreateRequest { name, vectors: Some(vectors), ..Default::default() };
                self.client.collections().create(request).await?;
            }
            Write::DeleteCollection => {
                self.client.collections().delete(v1::CollectionsDeleteRequest { name }).await?;
            }
        }
        Ok(0)
    }
}

/// Does to a part what a write does to the server, and returns how many documents that deletes.
fn apply(part: &mut Part, write: &Write) -> u64 {
    let before = part.documents.len();
    match write.clone() {
        Write::Add(documents) => {
            part.documents.extend(documents.into_iter().map(|document| (document.id_text().to_owned(), document)));
            return 0;
        }
        Write::DeleteIds(ids) => part.documents.retain(|id, _| !ids.contains(id)),
        Write::DeleteGroup(group) => part.documents.retain(|_, document| document.metadata["group"] != int(group)),
        Write::PutRetriever(retriever) => part.retriever = Some(*retriever),
        Write::DeleteRetriever => part.retriever = None,
        Write::CreateCollection => part.has_collection = true,
        Write::DeleteCollection => part.has_collection = false,
    }
    (before - part.documents.len()) as u64
}
