//! A language model against a small real HTTP server, which answers as it is told.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use toller_core::language_model::{AnswerSchema, Completion, CompletionOptions, TokenUsage};
use toller_core::{ChatMessage, ChatRole, Error, LanguageModel, Principal, RequestContext, Result};

use super::{ChatConfig, OpenAiChat};

/// What a request is answered with.
#[derive(Clone)]
enum Scripted {
    Answer(u16, &'static str, String),
    /// The answer ends before its length.
    Cut(String),
    /// The connection stays open and nothing comes.
    Hang,
}

#[derive(Default)]
struct State {
    script: Mutex<VecDeque<Scripted>>,
    requests: Mutex<Vec<Value>>,
    heads: Mutex<Vec<String>>,
}

impl State {
    async fn serve(self: Arc<Self>, connection: TcpStream) -> std::io::Result<()> {
        let mut connection = BufReader::new(connection);
        loop {
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                if connection.read_line(&mut line).await? == 0 {
                    return Ok(());
                }
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line == "\r\n" {
                    break;
                }
                head.push_str(&line);
            }
            let mut body = vec![0; length];
            connection.read_exact(&mut body).await?;
            self.heads.lock().push(head);
            self.requests.lock().push(serde_json::from_slice(&body).unwrap());
            let scripted = self.script.lock().pop_front().unwrap_or_else(|| completion("an answer"));
            let (status, header, body, missing) = match scripted {
                Scripted::Hang => return std::future::pending().await,
                Scripted::Answer(status, header, body) => (status, header, body, 0),
                Scripted::Cut(body) => (200, "", body, 100),
            };
            let length = body.len() + missing;
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n{header}\r\n");
            connection.write_all(format!("{head}{body}").as_bytes()).await?;
            if missing > 0 {
                return Ok(());
            }
        }
    }

    fn script(&self, scripted: impl IntoIterator<Item = Scripted>) {
        self.script.lock().extend(scripted);
    }
}

fn completion(text: &str) -> Scripted {
    let body = json!({
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
    });
    Scripted::Answer(200, "", body.to_string())
}

fn error(status: u16, code: &str) -> Scripted {
    let body = json!({"error": {"message": "says the service", "code": code}}).to_string();
    Scripted::Answer(status, "", body)
}

async fn server() -> (Arc<State>, ChatConfig) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/", listener.local_addr().unwrap());
    let state = Arc::new(State::default());
    let shared = Arc::clone(&state);
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(Arc::clone(&shared).serve(connection));
        }
    });
    (state, ChatConfig::new(url, "m"))
}

async fn connected() -> (Arc<State>, OpenAiChat) {
    let (state, config) = server().await;
    (state, OpenAiChat::new(config).unwrap())
}

fn context() -> RequestContext {
    RequestContext::new(Principal::anonymous()).with_deadline(Some(Instant::now() + Duration::from_secs(30)))
}

async fn ask(chat: &OpenAiChat) -> Result<Completion> {
    chat.complete(&context(), &[ChatMessage::user("what?")], &CompletionOptions::default()).await
}

fn with_schema() -> CompletionOptions {
    let json = r#"{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"string"}}}"#.to_owned();
    CompletionOptions { schema: Some(AnswerSchema { name: "letters", json }) }
}

#[tokio::test]
async fn a_question_is_asked_at_temperature_zero_with_key_and_schema() {
    let (state, config) = server().await;
    let chat = OpenAiChat::new(ChatConfig { api_key: Some("the-key".to_owned()), ..config.clone() }).unwrap();
    let messages = [ChatMessage { role: ChatRole::System, content: "be brief".to_owned() }, ChatMessage::user("what?")];
    let answer = chat.complete(&context(), &messages, &with_schema()).await.unwrap();
    let usage = TokenUsage { input: Some(12), output: Some(3) };
    assert_eq!(answer, Completion { text: "an answer".to_owned(), is_cut: false, usage });
    assert_eq!((chat.provider(), chat.model()), ("openai", "m"));

    let head = state.heads.lock()[0].to_lowercase();
    assert!(head.starts_with("post /v1/chat/completions ") && head.contains("authorization: bearer the-key"), "{head}");
    let request = state.requests.lock()[0].clone();
    assert_eq!((&request["model"], &request["temperature"]), (&json!("m"), &json!(0.0)));
    assert_eq!(request["messages"][0], json!({"role": "system", "content": "be brief"}));
    assert_eq!(request["messages"][1], json!({"role": "user", "content": "what?"}));
    let format = &request["response_format"];
    assert_eq!((&format["type"], &format["json_schema"]["strict"]), (&json!("json_schema"), &json!(true)));
    let properties = format["json_schema"]["schema"]["properties"].as_object().unwrap();
    assert_eq!(properties.keys().collect::<Vec<_>>(), ["b", "a"], "in their order");

    let plain = OpenAiChat::new(ChatConfig { structured_output: false, ..config }).unwrap();
    plain.complete(&context(), &messages, &with_schema()).await.unwrap();
    assert!(state.requests.lock()[1].get("response_format").is_none());
    assert!(!state.heads.lock()[1].to_lowercase().contains("authorization"));
}

#[tokio::test]
async fn what_passes_is_tried_again_within_the_time() {
    let (state, chat) = connected().await;
    let busy = Scripted::Answer(429, "retry-after: 1\r\n", "slow down".to_owned());
    state.script([busy, error(500, ""), Scripted::Cut("{\"choices\": [{\"mess".to_owned())]);
    let started = Instant::now();
    assert_eq!(ask(&chat).await.unwrap().text, "an answer");
    assert!(started.elapsed() >= Duration::from_secs(1), "as the service asks");
    assert_eq!(state.requests.lock().len(), 4);

    state.script([Scripted::Answer(429, "retry-after: 3000\r\n", "slow down".to_owned())]);
    let refused = ask(&chat).await.unwrap_err();
    let Error::ResourceExhausted { what, retry_after } = &refused else { panic!("{refused:?}") };
    assert_eq!(*retry_after, Some(Duration::from_secs(3000)), "the time is too short for that, and the caller is told");
    assert!(what.contains("the language model at http://127.0.0.1") && what.contains("slow down"), "{what}");

    state.script((0..4).map(|_| error(503, "")));
    assert!(matches!(ask(&chat).await, Err(Error::Unavailable(said)) if said.contains("503")));
    assert!(state.script.lock().is_empty(), "four tries");
}

#[tokio::test]
async fn what_does_not_pass_is_said_at_once() {
    let (state, chat) = connected().await;
    for (status, code, expected, hint) in [
        (400, "", "FAILED_PRECONDITION", "structured output turned off"),
        (401, "", "FAILED_PRECONDITION", "check the API key"),
        (404, "model_not_found", "FAILED_PRECONDITION", "the model's name"),
        (429, "insufficient_quota", "RESOURCE_EXHAUSTED", "says the service"),
        (301, "", "FAILED_PRECONDITION", "base URL"),
    ] {
        state.script([error(status, code)]);
        let error = ask(&chat).await.unwrap_err();
        assert_eq!(toller_telemetry::error_class(&error), expected, "{status}");
        assert!(error.to_string().contains(hint) && error.to_string().contains(&status.to_string()), "{error}");
    }
    assert_eq!(state.requests.lock().len(), 5, "nothing is sent again");

    let refusal = r#"{"choices":[{"message":{"content":null,"refusal":"I would rather not"}}]}"#;
    let filtered = r#"{"choices":[{"message":{"content":"no"},"finish_reason":"content_filter"}]}"#;
    for (body, expected) in [(refusal, "I would rather not"), (filtered, "content filter")] {
        state.script([Scripted::Answer(200, "", body.to_owned())]);
        let error = ask(&chat).await.unwrap_err();
        assert!(matches!(&error, Error::FailedPrecondition { message, .. } if message.contains(expected)), "{error}");
    }
}

#[tokio::test]
async fn answers_are_read_or_refused_and_bounded() {
    let (state, chat) = connected().await;
    let cut = r#"{"choices":[{"message":{"content":"an ans"},"finish_reason":"length"}]}"#;
    state.script([Scripted::Answer(200, "", cut.to_owned()), completion("")]);
    let answer = ask(&chat).await.unwrap();
    assert_eq!((answer.text.as_str(), answer.is_cut, answer.usage), ("an ans", true, TokenUsage::default()));
    assert_eq!(ask(&chat).await.unwrap().text, "");

    for body in ["<html>", "{\"choices\":[]}", "{\"choices\":[{\"message\":{\"content\":\"cut in the mi"] {
        state.script([Scripted::Answer(200, "", body.to_owned())]);
        assert!(matches!(ask(&chat).await, Err(Error::Unavailable(_))), "{body}");
    }
    state.script((0..4).map(|_| completion(&"x".repeat(1 << 20))));
    assert!(matches!(ask(&chat).await, Err(Error::Unavailable(said)) if said.contains("is larger than 1048576 bytes")));
}

#[tokio::test]
async fn a_stall_ends_with_the_timeout_or_the_callers_deadline() {
    let (state, config) = server().await;
    let chat = OpenAiChat::new(ChatConfig { timeout: Duration::from_millis(200), ..config }).unwrap();
    state.script([Scripted::Hang, Scripted::Hang]);
    let stalled = ask(&chat).await.unwrap_err();
    assert!(matches!(&stalled, Error::Unavailable(said) if said.contains("no answer within 200ms")), "{stalled}");

    let soon = context().with_deadline(Some(Instant::now() + Duration::from_millis(50)));
    let late = chat.complete(&soon, &[ChatMessage::user("what?")], &CompletionOptions::default()).await;
    assert!(matches!(late, Err(Error::DeadlineExceeded(_))), "{late:?}");
}

#[tokio::test]
async fn questions_wait_for_their_place() {
    let (state, config) = server().await;
    let timeout = Duration::from_secs(2);
    let chat = OpenAiChat::new(ChatConfig { parallel_requests: 1, timeout, ..config }).unwrap();
    state.script([Scripted::Hang]);
    let (first, second) = tokio::join!(ask(&chat), ask(&chat));
    assert!(first.is_err() && second.is_err(), "{first:?} {second:?}");
    assert_eq!(state.requests.lock().len(), 1, "the second one never came to be asked");
    let give_up = Instant::now() + Duration::from_secs(60);
    let answer = loop {
        match ask(&chat).await {
            Ok(answer) => break answer,
            Err(late) => assert!(Instant::now() < give_up, "places are given back: {late}"),
        }
    };
    assert_eq!(answer.text, "an answer");
}

#[test]
fn settings_that_cannot_be_right_are_refused() {
    let fault = |change: fn(&mut ChatConfig)| {
        let mut config = ChatConfig::new("http://127.0.0.1:1/v1", "m");
        change(&mut config);
        OpenAiChat::new(config).err().unwrap().to_string()
    };
    assert!(fault(|config| config.model.clear()).contains("model must be the name of a model"));
    assert!(fault(|config| config.base_url = "ftp://a/v1".to_owned()).contains("must begin with"));
    assert!(fault(|config| config.timeout = Duration::ZERO).contains("timeout in milliseconds must be 1 to 600000"));
    assert!(fault(|config| config.parallel_requests = 0).contains("parallel_requests must be 1 to 1024, got 0"));
    assert!(fault(|config| config.api_key = Some("a\nb".to_owned())).contains("visible ASCII"));
    let shown = format!("{:?}", ChatConfig { api_key: Some("secret".to_owned()), ..ChatConfig::new("http://a", "m") });
    assert!(!shown.contains("secret"), "{shown}");
}
