//! A service that speaks OpenAI's `POST /v1/chat/completions` over real HTTP, and answers by what it finds in a question.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use toller_core::LanguageModel;
use toller_providers::{ChatConfig, OpenAiChat};

/// What a question is answered with.
#[derive(Clone)]
pub(crate) enum Answer {
    /// A whole answer.
    Text(&'static str),
    /// An answer that the service stopped in the middle.
    Cut(&'static str),
    /// A status and a body.
    Status(u16, &'static str),
    /// Nothing, for ever.
    Stall,
}

/// What the service was asked and will answer.
#[derive(Default)]
pub(crate) struct Service {
    url: String,
    /// An answer for each question that has the text in it; the first that fits counts.
    rules: Mutex<Vec<(&'static str, Answer)>>,
    /// For questions without a rule, in order; then an empty answer.
    queue: Mutex<VecDeque<Answer>>,
    questions: Mutex<Vec<Value>>,
}

impl Service {
    /// A running service, and a client of it.
    pub(crate) async fn start(structured_output: bool, timeout: Duration) -> (Arc<Self>, Arc<dyn LanguageModel>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let service = Arc::new(Self { url: url.clone(), ..Self::default() });
        let shared = Arc::clone(&service);
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&shared).serve(connection));
            }
        });
        let client = service.client("talker", structured_output, timeout);
        (service, client)
    }

    /// A client of it that asks for `model`.
    pub(crate) fn client(&self, model: &str, structured_output: bool, timeout: Duration) -> Arc<dyn LanguageModel> {
        let config = ChatConfig { structured_output, timeout, ..ChatConfig::new(self.url.clone(), model) };
        Arc::new(OpenAiChat::new(config).unwrap())
    }

    /// Which models were asked so far, and forgets the questions.
    pub(crate) fn take_models(&self) -> Vec<String> {
        let questions = std::mem::take(&mut *self.questions.lock().unwrap());
        questions.iter().map(|question| question["model"].as_str().unwrap().to_owned()).collect()
    }

    /// Answers the next question without a rule.
    pub(crate) fn next(&self, answer: Answer) {
        self.queue.lock().unwrap().push_back(answer);
    }

    /// Answers every question that has `text` in it.
    pub(crate) fn when(&self, text: &'static str, answer: Answer) {
        self.rules.lock().unwrap().push((text, answer));
    }

    /// The questions so far, and forgets them.
    pub(crate) fn take_questions(&self) -> Vec<String> {
        let questions = std::mem::take(&mut *self.questions.lock().unwrap());
        questions.iter().map(|question| question["messages"][0]["content"].as_str().unwrap().to_owned()).collect()
    }

    /// The names of the schemas that were asked for, and forgets the questions.
    pub(crate) fn take_schemas(&self) -> Vec<Option<String>> {
        let questions = std::mem::take(&mut *self.questions.lock().unwrap());
        let name = |question: &Value| question["response_format"]["json_schema"]["name"].as_str().map(str::to_owned);
        questions.iter().map(name).collect()
    }

    async fn serve(self: Arc<Self>, connection: TcpStream) -> std::io::Result<()> {
        let mut connection = BufReader::new(connection);
        loop {
            let mut length = 0;
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
            }
            let mut body = vec![0; length];
            connection.read_exact(&mut body).await?;
            let (status, body) = match self.answer(&body) {
                Answer::Text(text) => (200, completion(text, "stop")),
                Answer::Cut(text) => (200, completion(text, "length")),
                Answer::Status(status, body) => (status, body.to_owned()),
                Answer::Stall => return std::future::pending().await,
            };
            let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            connection.write_all(answer.as_bytes()).await?;
        }
    }

    fn answer(&self, body: &[u8]) -> Answer {
        let question: Value = serde_json::from_slice(body).unwrap();
        let text = question["messages"][0]["content"].as_str().unwrap().to_owned();
        self.questions.lock().unwrap().push(question);
        let rules = self.rules.lock().unwrap();
        let rule = rules.iter().find(|(part, _)| text.contains(part)).map(|(_, answer)| answer.clone());
        rule.or_else(|| self.queue.lock().unwrap().pop_front()).unwrap_or(Answer::Text(""))
    }
}

fn completion(text: &str, finish_reason: &str) -> String {
    json!({
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1},
    })
    .to_string()
}
