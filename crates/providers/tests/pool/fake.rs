//! A worker without a model: a real server on a real port that does what its test says, and can die like a process.

#![allow(unreachable_pub, reason = "a part of tests")]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use toller_api::v1;
use toller_api::v1::embedder_server::{Embedder, EmbedderServer};
use toller_serving::auth::{ApiKeys, hash_key};
use toller_serving::server::{Server, ServerConfig, bind};
use tonic::{Request, Response, Status, Streaming};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// How long a test waits for what must happen.
pub const SOON: Duration = Duration::from_secs(30);

/// What a worker is and does; shared with its test.
#[derive(Default)]
pub struct State {
    /// Every call that it took, by what it was for; probes are not among them.
    pub calls: AtomicUsize,
    /// Every text that it embedded or scored.
    pub texts: Mutex<Vec<String>>,
    /// The timeouts that calls came with.
    pub timeouts: Mutex<Vec<Option<String>>>,
    /// While it is up, calls wait; `release` lets one go on.
    pub holds: AtomicBool,
    pub release: Notify,
    /// Calls that wait.
    pub held: AtomicUsize,
    /// Calls whose caller went away while they waited.
    pub abandoned: AtomicUsize,
    /// What the next calls are answered with instead of vectors.
    pub refusals: Mutex<VecDeque<Status>>,
    /// What every call is answered with instead of vectors.
    pub refuses: Mutex<Option<Status>>,
    /// What it says that waits.
    pub queued_tokens: AtomicUsize,
    /// Makes its vectors others than those of the other workers.
    pub query_instruction: Mutex<String>,
}

impl State {
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    fn fingerprint(&self) -> v1::Fingerprint {
        v1::Fingerprint {
            provider: "candle".to_owned(),
            model: "fake".to_owned(),
            dimension: 4,
            normalized: true,
            query_instruction: self.query_instruction.lock().clone(),
            max_tokens: 512,
            weights_sha256: "ab".repeat(32),
            ..Default::default()
        }
    }
}

/// What a text is embedded as, so that a test can see that order and role were kept.
pub fn vector(text: &str, role: f32) -> Vec<f32> {
    let sum = text.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    #[allow(clippy::cast_precision_loss)]
    let [length, sum] = [text.len() as f32, (sum % 65_536) as f32];
    vec![length, sum, role, 1.0]
}

pub const AS_DOCUMENT: f32 = 1.0;
pub const AS_QUERY: f32 = 2.0;

/// The score of a pair: the length of the document, negative for a query of another length.
pub fn logit(query: &str, document: &str) -> f32 {
    #[allow(clippy::cast_precision_loss)]
    let [query, document] = [query.len() as f32, document.len() as f32];
    document / 1024.0 - query
}

struct Service(Arc<State>);

impl Service {
    async fn take<T>(&self, request: &Request<T>) -> Result<(), Status> {
        let state = &self.0;
        state.calls.fetch_add(1, Ordering::SeqCst);
        let timeout = request.metadata().get("grpc-timeout").map(|value| value.to_str().unwrap().to_owned());
        state.timeouts.lock().push(timeout);
        if state.holds.load(Ordering::SeqCst) {
            let mut gone = CountOnDrop(Some(&state.abandoned));
            state.held.fetch_add(1, Ordering::SeqCst);
            let released = async {
                while state.holds.load(Ordering::SeqCst) {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            };
            tokio::select! {
                () = released => {}
                () = state.release.notified() => {}
            }
            gone.0 = None;
        }
        let refusal = state.refusals.lock().pop_front().or_else(|| state.refuses.lock().clone());
        refusal.map_or(Ok(()), Err)
    }

    fn answer<T>(&self, message: T) -> Response<T> {
        let mut answer = Response::new(message);
        let queued = self.0.queued_tokens.load(Ordering::SeqCst);
        answer.metadata_mut().insert("toller-queued-tokens", queued.to_string().parse().unwrap());
        answer
    }
}

struct CountOnDrop<'a>(Option<&'a AtomicUsize>);

impl Drop for CountOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.0 {
            count.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn vector_message(values: Vec<f32>) -> Option<v1::Vector> {
    Some(v1::Vector { dimension: 4, values, packed: Vec::new() })
}

fn usage(text: &str) -> v1::TextUsage {
    v1::TextUsage { token_count: Some(u32::try_from(text.len()).unwrap()), truncated: text.len() > 100 }
}

#[tonic::async_trait]
impl Embedder for Service {
    async fn embed_documents(
        &self,
        request: Request<v1::EmbedDocumentsRequest>,
    ) -> Result<Response<v1::EmbedDocumentsResponse>, Status> {
        self.take(&request).await?;
        let texts = request.into_inner().texts;
        let answer = v1::EmbedDocumentsResponse {
            vectors: texts.iter().filter_map(|text| vector_message(vector(text, AS_DOCUMENT))).collect(),
            usage: texts.iter().map(|text| usage(text)).collect(),
            fingerprint: Some(self.0.fingerprint()),
        };
        self.0.texts.lock().extend(texts);
        Ok(self.answer(answer))
    }

    async fn embed_query(
        &self,
        request: Request<v1::EmbedQueryRequest>,
    ) -> Result<Response<v1::EmbedQueryResponse>, Status> {
        self.take(&request).await?;
        let text = request.into_inner().text;
        let answer = v1::EmbedQueryResponse {
            vector: vector_message(vector(&text, AS_QUERY)),
            usage: Some(usage(&text)),
            fingerprint: Some(self.0.fingerprint()),
        };
        self.0.texts.lock().push(text);
        Ok(self.answer(answer))
    }

    type EmbedStreamStream = ReceiverStream<Result<v1::EmbedStreamResponse, Status>>;

    async fn embed_stream(
        &self,
        _: Request<Streaming<v1::EmbedStreamRequest>>,
    ) -> Result<Response<Self::EmbedStreamStream>, Status> {
        Err(Status::unimplemented("the pool does not stream"))
    }

    async fn rerank(&self, request: Request<v1::RerankRequest>) -> Result<Response<v1::RerankResponse>, Status> {
        self.take(&request).await?;
        let v1::RerankRequest { query, documents, model, .. } = request.into_inner();
        assert_eq!(model.as_deref(), Some("judge"));
        let score = |(index, document): (usize, &String)| v1::RerankedText {
            index: u32::try_from(index).unwrap(),
            score: logit(&query, document).into(),
            relevance: 0.5,
            usage: Some(usage(document)),
        };
        let mut results: Vec<_> = documents.iter().enumerate().map(score).collect();
        results.sort_by(|left, right| right.score.total_cmp(&left.score));
        self.0.texts.lock().extend(documents);
        Ok(self.answer(v1::RerankResponse { results }))
    }

    async fn list_models(&self, _: Request<v1::ListModelsRequest>) -> Result<Response<v1::ListModelsResponse>, Status> {
        let fake = v1::Model {
            name: "fake".to_owned(),
            is_default: true,
            fingerprint: Some(self.0.fingerprint()),
            kind: v1::ModelKind::Embedding.into(),
            max_tokens: Some(512),
        };
        let judge = v1::Model {
            name: "judge".to_owned(),
            is_default: true,
            fingerprint: None,
            kind: v1::ModelKind::Reranker.into(),
            max_tokens: Some(512),
        };
        Ok(self.answer(v1::ListModelsResponse { models: vec![fake, judge] }))
    }
}

/// A running worker. Dropping it kills it: its sockets close without a word, as with `kill -9`.
pub struct Worker {
    pub state: Arc<State>,
    pub address: SocketAddr,
    pub health: HealthReporter,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Worker {
    pub async fn start() -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), Arc::default(), None).await
    }

    /// As before, on the same port, after it was dropped.
    pub async fn start_at(address: SocketAddr, state: Arc<State>, key: Option<&str>) -> Self {
        let mut keys = ApiKeys::default();
        if let Some(key) = key {
            keys.add("pool", &hash_key(key), toller_core::Tenant::default(), toller_core::Role::Reader).unwrap();
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (tell, ready) = oneshot::channel();
        let service = Service(Arc::clone(&state));
        runtime.spawn(async move {
            // A worker that was killed just now may still be closing its socket.
            let give_up = tokio::time::Instant::now() + SOON;
            let listener = loop {
                match bind(address).await {
                    Ok(listener) => break listener,
                    Err(fault) => assert!(tokio::time::Instant::now() < give_up, "{fault}"),
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            };
            let address = listener.address();
            let config = ServerConfig { keys, ..ServerConfig::default() };
            let server = Server::new(config)
                .add_service(EmbedderServer::new(service).max_decoding_message_size(1 << 26))
                .reflection(toller_api::EMBEDDER_DESCRIPTORS);
            let health = server.health();
            let told = || drop(tell.send((address, health)));
            server.serve(listener, std::future::pending(), told).await.unwrap();
        });
        let (address, health) = tokio::time::timeout(SOON, ready).await.unwrap().unwrap();
        Self { state, address, health, runtime: Some(runtime) }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub async fn set_serving(&self, serves: bool) {
        let status = if serves { ServingStatus::Serving } else { ServingStatus::NotServing };
        self.health.set_service_status("toller.v1.Embedder", status).await;
    }

    /// Kills it, for a later start at the same address.
    pub fn kill(self) -> (SocketAddr, Arc<State>) {
        (self.address, Arc::clone(&self.state))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Waits until `condition` holds.
pub async fn until(what: &str, condition: impl Fn() -> bool) {
    let give_up = tokio::time::Instant::now() + SOON;
    while !condition() {
        assert!(tokio::time::Instant::now() < give_up, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
