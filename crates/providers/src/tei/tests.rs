//! Against a real gRPC server that speaks text-embeddings-inference's contract.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

use super::proto::v1::embed_server::{Embed, EmbedServer};
use super::proto::v1::info_server::{Info, InfoServer};
use super::proto::v1::rerank_server::{Rerank, RerankServer};
use super::proto::v1::{InfoRequest, InfoResponse, Metadata, Rank, RerankResponse};
use super::*;

const MAX_BYTES: usize = 100;

#[derive(Default)]
struct State {
    is_reranker: bool,
    asked: Mutex<Vec<EmbedRequest>>,
    refusals: Mutex<VecDeque<Status>>,
    rerank_sizes: Mutex<Vec<usize>>,
    poison: Mutex<Option<f32>>,
}

#[derive(Clone)]
struct Fake(Arc<State>);

fn vector(text: &str) -> Vec<f32> {
    #[allow(clippy::cast_precision_loss)]
    let angle = text.len() as f32 / 100.0;
    vec![angle.cos(), angle.sin()]
}

#[tonic::async_trait]
impl Info for Fake {
    async fn info(&self, _: Request<InfoRequest>) -> Result<Response<InfoResponse>, Status> {
        let model_type = if self.0.is_reranker { ModelType::Reranker } else { ModelType::Embedding };
        Ok(Response::new(InfoResponse {
            model_id: "BAAI/bge".to_owned(),
            model_sha: Some("abc".to_owned()),
            model_type: model_type.into(),
            max_concurrent_requests: 4,
            max_input_length: 512,
            max_client_batch_size: 8,
        }))
    }
}

#[tonic::async_trait]
impl Embed for Fake {
    async fn embed(&self, request: Request<EmbedRequest>) -> Result<Response<EmbedResponse>, Status> {
        if let Some(refusal) = self.0.refusals.lock().pop_front() {
            return Err(refusal);
        }
        let request = request.into_inner();
        self.0.asked.lock().push(request.clone());
        let EmbedRequest { inputs, truncate, normalize } = request;
        assert!(normalize);
        if inputs.is_empty() {
            return Err(Status::invalid_argument("`inputs` cannot be empty"));
        }
        if inputs.len() > MAX_BYTES && !truncate {
            return Err(Status::invalid_argument("`inputs` must have less than 512 tokens"));
        }
        let read = &inputs[..inputs.len().min(MAX_BYTES)];
        let mut embeddings = vector(read);
        if let Some(value) = *self.0.poison.lock() {
            embeddings[1] = value;
        }
        let compute_tokens = u32::try_from(read.len()).unwrap();
        Ok(Response::new(EmbedResponse { embeddings, metadata: Some(Metadata { compute_tokens }) }))
    }
}

#[tonic::async_trait]
impl Rerank for Fake {
    async fn rerank(&self, request: Request<RerankRequest>) -> Result<Response<RerankResponse>, Status> {
        let RerankRequest { query, texts, truncate, raw_scores } = request.into_inner();
        assert!(truncate && raw_scores && query == "a query");
        self.0.rerank_sizes.lock().push(texts.len());
        #[allow(clippy::cast_precision_loss)]
        let rank =
            |(index, text): (usize, &String)| Rank { index: u32::try_from(index).unwrap(), score: text.len() as f32 };
        let mut ranks: Vec<Rank> = texts.iter().enumerate().map(rank).collect();
        ranks.sort_by(|left, right| right.score.total_cmp(&left.score));
        Ok(Response::new(RerankResponse { ranks }))
    }
}

async fn server(state: State) -> (Arc<State>, TeiConfig) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let state = Arc::new(state);
    let fake = Fake(Arc::clone(&state));
    tokio::spawn(
        tonic::transport::Server::builder()
            .add_service(InfoServer::new(fake.clone()))
            .add_service(EmbedServer::new(fake.clone()))
            .add_service(RerankServer::new(fake))
            .serve_with_incoming(TcpListenerStream::new(listener)),
    );
    (state, TeiConfig { start_timeout: Duration::from_secs(20), ..TeiConfig::new(address) })
}

fn context() -> RequestContext {
    RequestContext::new(Principal::anonymous()).with_deadline(Some(Instant::now() + Duration::from_secs(30)))
}

#[tokio::test]
async fn texts_are_embedded_in_order_with_what_the_server_says_of_them() {
    let (state, config) = server(State::default()).await;
    let config = TeiConfig { query_instruction: "find: ".to_owned(), ..config };
    let embeddings = TeiEmbeddings::connect(config).await.unwrap();
    let expected = "tei/BAAI/bge@abc (dimension 2, normalized, query instruction \"find: \", at most 512 tokens)";
    assert_eq!(embeddings.fingerprint().to_string(), expected);
    state.asked.lock().clear();

    let texts: Vec<String> = (1..=60).map(|length| "x".repeat(length * 2)).collect();
    let answer = embeddings.embed(&context(), EmbeddingRole::Document, texts.clone()).await.unwrap();
    assert_eq!(answer.len(), 60);
    for (text, embedding) in texts.iter().zip(&answer) {
        let read = &text[..text.len().min(MAX_BYTES)];
        assert_eq!(embedding.vector, vector(read));
        assert_eq!(embedding.token_count, Some(u32::try_from(read.len()).unwrap()));
        assert_eq!(embedding.truncated, text.len() > MAX_BYTES, "{}", text.len());
    }
    assert_eq!(state.asked.lock().len(), 60 + 10, "long texts are sent twice, others once");
    let query = embeddings.embed(&context(), EmbeddingRole::Query, vec!["x".to_owned()]).await.unwrap();
    assert_eq!(query[0].vector, vector("find: x"));
    assert_eq!(embeddings.reach().await, Ok(()));
}

#[tokio::test]
async fn an_overloaded_server_is_asked_again_and_faults_are_passed_on() {
    let (state, config) = server(State::default()).await;
    let embeddings = TeiEmbeddings::connect(config.clone()).await.unwrap();
    let one = |text: &str| {
        let text = text.to_owned();
        async { embeddings.embed(&context(), EmbeddingRole::Document, vec![text]).await }
    };
    state.refusals.lock().push_back(Status::resource_exhausted("Model is overloaded"));
    assert_eq!(one("text").await.unwrap()[0].vector, vector("text"));
    assert_eq!(one("").await, Err(Error::invalid("", "`inputs` cannot be empty")));
    state.refusals.lock().push_back(Status::internal("the backend died"));
    let said = one("text").await.unwrap_err().to_string();
    assert!(said.contains("the backend died") && said.contains(&config.address), "{said}");
    *state.poison.lock() = Some(f32::INFINITY);
    assert!(one("text").await.unwrap_err().to_string().contains("no finite number at index 1"));
}

#[tokio::test]
async fn rerankers_answer_in_the_order_of_the_documents() {
    let (state, config) = server(State { is_reranker: true, ..State::default() }).await;
    let reranker = TeiReranker::connect(config.clone()).await.unwrap();
    assert_eq!((reranker.provider(), reranker.model(), reranker.max_tokens()), ("tei", "BAAI/bge", Some(512)));
    let documents: Vec<String> = (0..20).map(|index| "x".repeat((index * 7) % 20)).collect();
    let scores = reranker.rerank(&context(), "a query", documents.clone()).await.unwrap();
    #[allow(clippy::cast_precision_loss)]
    let expected: Vec<f32> = documents.iter().map(|document| document.len() as f32).collect();
    assert_eq!(scores.iter().map(|score| score.logit).collect::<Vec<_>>(), expected);
    let mut sizes = state.rerank_sizes.lock().clone();
    sizes.sort_unstable();
    assert_eq!(sizes, [4, 8, 8], "within the server's limit");
    assert_eq!(reranker.rerank(&context(), "a query", Vec::new()).await, Ok(Vec::new()));

    let fault = TeiEmbeddings::connect(config).await.err().unwrap().to_string();
    assert!(fault.contains("BAAI/bge") && fault.contains("Reranker"), "{fault}");
}

#[tokio::test]
async fn a_start_that_cannot_succeed_names_the_server() {
    let fault = async |address: &str| {
        let config = TeiConfig { start_timeout: Duration::ZERO, ..TeiConfig::new(address) };
        TeiEmbeddings::connect(config).await.err().unwrap().to_string()
    };
    assert!(fault("http://127.0.0.1:9").await.contains("http://127.0.0.1:9"));
    for (address, expected) in
        [("https://a:1", "TLS"), ("a:1", "must begin with"), ("http://a:1/x", "end after the port")]
    {
        let said = fault(address).await;
        assert!(said.contains(address) && said.contains(expected), "{said}");
    }
}
