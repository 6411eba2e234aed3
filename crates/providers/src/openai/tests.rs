//! Against a small real HTTP server.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use ::http::{Request, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use toller_core::Principal;

use super::*;

/// What a request is answered with instead of vectors.
enum Scripted {
    Status(u16, &'static [(&'static str, &'static str)], String),
    /// The connection stays open and nothing comes.
    Hang,
    /// The connection ends.
    Drop,
}

#[derive(Default)]
struct State {
    requests: Mutex<Vec<Value>>,
    keys: Mutex<Vec<Option<String>>>,
    script: Mutex<VecDeque<Scripted>>,
    /// Changes the vector of every text.
    poison: Mutex<Option<f32>>,
    dimension: Mutex<Option<u32>>,
}

/// The vector of a text: unit length, and different for texts of different lengths.
fn vector(text: &str) -> Vec<f32> {
    #[allow(clippy::cast_precision_loss)]
    let angle = text.len() as f32 / 100.0;
    vec![angle.cos(), angle.sin(), 0.0]
}

impl State {
    fn script(&self, scripted: impl IntoIterator<Item = Scripted>) {
        self.script.lock().extend(scripted);
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, std::io::Error> {
        let path = request.uri().path().to_owned();
        let key = request.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned());
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let scripted = self.script.lock().pop_front();
        match scripted {
            Some(Scripted::Hang) => std::future::pending().await,
            Some(Scripted::Drop) => return Err(std::io::Error::other("the test says so")),
            Some(Scripted::Status(status, headers, body)) => {
                let mut answer = Response::builder().status(status);
                for (name, value) in headers {
                    answer = answer.header(*name, *value);
                }
                return Ok(answer.body(Full::new(body.into())).unwrap());
            }
            None => {}
        }
        if path == "/v1/models" {
            return Ok(Response::new(Full::new("{}".into())));
        }
        assert_eq!(path, "/v1/embeddings");
        let request: Value = serde_json::from_slice(&body).unwrap();
        let texts: Vec<String> = serde_json::from_value(request["input"].clone()).unwrap();
        let item = |(index, text): (usize, &String)| {
            let mut values = vector(text);
            if let Some(value) = *self.poison.lock() {
                values[1] = value;
            }
            if let Some(dimension) = *self.dimension.lock() {
                values.resize(dimension as usize, 0.0);
            }
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let embedding =
                if request["encoding_format"] == "base64" { json!(STANDARD.encode(bytes)) } else { json!(values) };
            json!({"object": "embedding", "index": index, "embedding": embedding})
        };
        // Backwards, since the order says nothing.
        let data: Vec<Value> = texts.iter().enumerate().rev().map(item).collect();
        let answer =
            json!({"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 9, "total_tokens": 9}});
        self.requests.lock().push(request);
        self.keys.lock().push(key);
        Ok(Response::new(Full::new(answer.to_string().into())))
    }
}

/// A server, and the settings that lead to it.
async fn server() -> (Arc<State>, OpenAiConfig) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/", listener.local_addr().unwrap());
    let state = Arc::new(State::default());
    let shared = Arc::clone(&state);
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let state = Arc::clone(&shared);
            let service = service_fn(move |request| Arc::clone(&state).answer(request));
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(connection), service),
            );
        }
        Ok::<(), Infallible>(())
    });
    (state, OpenAiConfig { start_timeout: Duration::from_secs(20), ..OpenAiConfig::new(url, "m") })
}

async fn connected() -> (Arc<State>, OpenAiEmbeddings) {
    let (state, config) = server().await;
    let embeddings = OpenAiEmbeddings::connect(config).await.unwrap();
    state.requests.lock().clear();
    (state, embeddings)
}

fn context() -> RequestContext {
    RequestContext::new(Principal::anonymous()).with_deadline(Some(Instant::now() + Duration::from_secs(30)))
}

async fn embed(embeddings: &OpenAiEmbeddings, texts: &[&str]) -> Result<Vec<Embedding>> {
    let texts = texts.iter().map(|text| (*text).to_owned()).collect();
    embeddings.embed(&context(), EmbeddingRole::Document, texts).await
}

fn error(status: u16, code: &str) -> Scripted {
    Scripted::Status(status, &[], json!({"error": {"message": "says the service", "code": code}}).to_string())
}

#[tokio::test]
async fn the_start_learns_dimension_and_length_and_sends_the_key() {
    let (state, config) = server().await;
    let config = OpenAiConfig { api_key: Some("the-key".to_owned()), query_instruction: "find: ".to_owned(), ..config };
    let embeddings = OpenAiEmbeddings::connect(config).await.unwrap();
    let fingerprint = embeddings.fingerprint();
    assert_eq!(fingerprint.to_string(), "openai/m (dimension 3, normalized, query instruction \"find: \")");
    assert_eq!(state.keys.lock().as_slice(), [Some("Bearer the-key".to_owned())]);
    assert_eq!(state.requests.lock()[0]["dimensions"], Value::Null);
    assert_eq!(embeddings.reach().await, Ok(()));
}

#[tokio::test]
async fn batches_keep_their_order_and_instructions_go_before_texts() {
    for encoding_format in [EncodingFormat::Base64, EncodingFormat::Float] {
        let (state, config) = server().await;
        let config = OpenAiConfig {
            encoding_format,
            batch_texts: 3,
            batch_bytes: 1024,
            document_instruction: "doc: ".to_owned(),
            query_instruction: "query: ".to_owned(),
            ..config
        };
        let embeddings = OpenAiEmbeddings::connect(config).await.unwrap();
        state.requests.lock().clear();
        let texts: Vec<String> = [1, 2, 3, 4, 2000, 5, 6].map(|length| "x".repeat(length)).to_vec();
        let answer = embeddings.embed(&context(), EmbeddingRole::Document, texts.clone()).await.unwrap();
        let vectors: Vec<_> = answer.iter().map(|embedding| embedding.vector.clone()).collect();
        assert_eq!(vectors, texts.iter().map(|text| vector(&format!("doc: {text}"))).collect::<Vec<_>>());
        assert_eq!(answer[0].token_count, None, "the service counts all texts together");
        assert_eq!(answer[4].token_count, Some(9), "the long one travelled alone");
        let mut sizes: Vec<usize> =
            state.requests.lock().iter().map(|request| request["input"].as_array().unwrap().len()).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [1, 1, 2, 3]);
        let query = embeddings.embed(&context(), EmbeddingRole::Query, vec!["x".to_owned()]).await.unwrap();
        assert_eq!((&query[0].vector, query[0].token_count), (&vector("query: x"), Some(9)));
        let none = embeddings.embed(&context(), EmbeddingRole::Document, Vec::new()).await;
        assert_eq!(none, Ok(Vec::new()));
    }
}

#[tokio::test]
async fn what_passes_is_tried_again_as_the_service_asks() {
    let (state, embeddings) = connected().await;
    let busy = Scripted::Status(429, &[("retry-after", "1")], "slow down".to_owned());
    state.script([busy, error(503, ""), Scripted::Drop]);
    let started = Instant::now();
    assert_eq!(embed(&embeddings, &["one"]).await.unwrap()[0].vector, vector("one"));
    assert!(started.elapsed() >= Duration::from_secs(1));

    let busy = || Scripted::Status(429, &[("retry-after", "3000")], "slow down".to_owned());
    state.script([busy()]);
    let refused = embed(&embeddings, &["one"]).await.unwrap_err();
    let Error::ResourceExhausted { what, retry_after } = &refused else { panic!("{refused:?}") };
    assert_eq!(*retry_after, Some(Duration::from_secs(3000)), "the caller cannot wait so long, and is told");
    assert!(what.contains("slow down") && what.contains("http://127.0.0.1"), "{what}");

    state.script((0..4).map(|_| error(502, "")));
    assert!(matches!(embed(&embeddings, &["one"]).await, Err(Error::Unavailable(said)) if said.contains("502")));
    assert!(state.script.lock().is_empty(), "four tries");
}

#[tokio::test]
async fn what_does_not_pass_is_said_at_once() {
    let (state, embeddings) = connected().await;
    for (status, code, expected, hint) in [
        (400, "", "INVALID_ARGUMENT", "says the service"),
        (401, "", "FAILED_PRECONDITION", "check the API key"),
        (403, "", "FAILED_PRECONDITION", "check the API key"),
        (404, "model_not_found", "FAILED_PRECONDITION", "the model's name"),
        (429, "insufficient_quota", "RESOURCE_EXHAUSTED", "says the service"),
        (301, "", "INTERNAL", "base URL"),
    ] {
        state.script([error(status, code)]);
        let error = embed(&embeddings, &["one"]).await.unwrap_err();
        assert_eq!(toller_telemetry::error_class(&error), expected, "{status}");
        assert!(error.to_string().contains(hint) && error.to_string().contains(&status.to_string()), "{error}");
    }
    assert!(state.requests.lock().is_empty(), "nothing is sent again");
}

#[tokio::test]
async fn answers_that_cannot_be_right_are_no_embeddings() {
    let (state, embeddings) = connected().await;
    for (body, expected) in [
        ("{\"data\":[]}", "0 embeddings for 1"),
        ("<html>", "no list"),
        ("{\"data\":[{\"index\":0,\"embedding\":[1,2]}]}", "has 2 elements instead of 3"),
        ("{\"data\":[{\"index\":0,\"embedding\":[1,1e39,2]}]}", "no finite number at index 1"),
    ] {
        state.script([Scripted::Status(200, &[], body.to_owned())]);
        let error = embed(&embeddings, &["one"]).await.unwrap_err();
        assert!(matches!(&error, Error::Internal(said) if said.contains(expected)), "{error}");
    }
    *state.poison.lock() = Some(f32::NAN);
    let error = embed(&embeddings, &["one"]).await.unwrap_err();
    assert!(error.to_string().contains("no finite number at index 1"), "{error}");
}

#[tokio::test]
async fn a_service_that_hangs_is_left_at_the_deadline() {
    let (state, embeddings) = connected().await;
    state.script([Scripted::Hang]);
    let soon = context().with_deadline(Some(Instant::now() + Duration::from_millis(100)));
    let late = embeddings.embed(&soon, EmbeddingRole::Query, vec!["one".to_owned()]).await;
    assert_eq!(late, Err(Error::DeadlineExceeded(EMBEDDING)));
}

#[tokio::test]
async fn a_start_that_cannot_succeed_names_the_service() {
    let fault = async |config: OpenAiConfig| OpenAiEmbeddings::connect(config).await.err().unwrap().to_string();
    let (state, config) = server().await;
    state.script([error(401, "")]);
    let said = fault(config.clone()).await;
    assert!(said.contains("401") && said.contains(&config.base_url), "{said}");
    *state.dimension.lock() = Some(2);
    let shorter = OpenAiConfig { dimensions: Some(4), ..config.clone() };
    assert!(fault(shorter).await.contains("dimension 2, not of 4"));

    let nobody =
        OpenAiConfig { base_url: "http://127.0.0.1:9/v1".to_owned(), start_timeout: Duration::ZERO, ..config.clone() };
    assert!(fault(nobody).await.contains("http://127.0.0.1:9/v1"));
    for (url, expected) in
        [("ftp://a/v1", "must begin with"), ("http://a:b@c/v1", "API key"), ("/v1", "must begin with")]
    {
        let said = fault(OpenAiConfig { base_url: url.to_owned(), ..config.clone() }).await;
        assert!(said.contains(url) && said.contains(expected), "{said}");
    }
    assert!(fault(OpenAiConfig { batch_texts: 0, ..config }).await.contains("batch_texts must be 1 to 2048, got 0"));
}

#[tokio::test]
async fn a_service_that_is_gone_cannot_be_reached() {
    let (state, embeddings) = connected().await;
    *embeddings.last_answer.lock() = None;
    state.script([error(500, "")]);
    let said = embeddings.reach().await.unwrap_err().to_string();
    assert!(said.contains("500") && said.contains("http://127.0.0.1"), "{said}");
    assert_eq!(embeddings.reach().await, Ok(()), "its list of models answers");
}
