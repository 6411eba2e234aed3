//! Sessions over a model that does what its texts tell it to.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use tokio::sync::{Notify, oneshot};
use toller_core::embeddings::Embedding;
use toller_core::{Fingerprint, Principal};
use tonic::Code;
use tonic_types::StatusExt;

use super::*;
use crate::config::LimitsConfig;

const PATIENCE: Duration = Duration::from_secs(30);

/// Embeds a text as its length; fails over "poison", cuts "long", waits for `gate` with "wait", and is full once when told so.
struct Fake {
    fingerprint: Fingerprint,
    gate: Notify,
    is_full: AtomicBool,
    calls: AtomicUsize,
    texts: AtomicUsize,
}

#[async_trait]
impl Embeddings for Fake {
    fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    async fn embed(&self, context: &RequestContext, _: EmbeddingRole, texts: Vec<String>) -> Result<Vec<Embedding>> {
        context.check("in the test")?;
        if self.is_full.swap(false, Ordering::Relaxed) {
            let retry_after = Some(Duration::from_millis(1));
            return Err(Error::ResourceExhausted { what: "full".to_owned(), retry_after });
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.texts.fetch_add(texts.len(), Ordering::Relaxed);
        if texts.iter().any(|text| text == "wait") {
            self.gate.notified().await;
        }
        if texts.iter().any(|text| text == "poison") {
            return Err(Error::Internal("poisoned".to_owned()));
        }
        let embedding = |text: &String| Embedding {
            vector: vec![text.len() as f32],
            token_count: Some(1),
            truncated: text == "long",
        };
        Ok(texts.iter().map(embedding).collect())
    }
}

/// A session with its client's side.
struct World {
    fake: Arc<Fake>,
    messages: Option<UnboundedSender<Result<v1::EmbedStreamRequest, Status>>>,
    answers: Answers,
    drain: Option<oneshot::Sender<()>>,
    context: RequestContext,
}

impl World {
    fn new() -> Self {
        let fingerprint = Fingerprint { provider: "fake".into(), model: "fake".into(), ..Fingerprint::client(1) };
        let fake = Arc::new(Fake {
            fingerprint,
            gate: Notify::new(),
            is_full: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
            texts: AtomicUsize::new(0),
        });
        let models = Models::from(Arc::clone(&fake) as Arc<dyn Embeddings>);
        let limits = Limits::new(LimitsConfig { max_text_bytes: 1000, ..LimitsConfig::default() });
        let (messages, inbox) = unbounded();
        let (drain, drained) = oneshot::channel();
        let context = RequestContext::new(Principal::anonymous());
        let drained = async move {
            if drained.await.is_err() {
                futures::future::pending::<()>().await;
            }
        };
        let answers = Session::new(inbox, models, limits, context.clone(), drained.boxed()).answers();
        Self { fake, messages: Some(messages), answers, drain: Some(drain), context }
    }

    fn send(&self, message: v1::EmbedStreamRequest) {
        self.messages.as_ref().unwrap().unbounded_send(Ok(message)).unwrap();
    }

    fn finish(&mut self) {
        self.messages = None;
    }

    async fn next(&mut self) -> Option<Result<v1::EmbedStreamResponse, Status>> {
        tokio::time::timeout(PATIENCE, self.answers.next()).await.expect("the session answers")
    }

    /// All answers by id, and the status at the end where it is none of success.
    async fn rest(&mut self) -> (BTreeMap<String, Outcome>, Option<Status>) {
        let mut outcomes = BTreeMap::new();
        while let Some(answer) = self.next().await {
            match answer {
                Ok(answer) => assert!(outcomes.insert(answer.id, answer.outcome.unwrap()).is_none()),
                Err(status) => return (outcomes, Some(status)),
            }
        }
        (outcomes, None)
    }
}

fn document(id: &str, text: &str) -> v1::EmbedStreamRequest {
    let role = v1::EmbeddingRole::Document.into();
    v1::EmbedStreamRequest { id: id.to_owned(), text: text.to_owned(), role, ..Default::default() }
}

fn code(outcome: &Outcome) -> Code {
    match outcome {
        Outcome::Embedded(_) => Code::Ok,
        Outcome::Failure(failure) => Code::from_i32(failure.code),
    }
}

#[tokio::test]
async fn texts_that_come_together_share_calls_and_all_are_answered() {
    let mut world = World::new();
    for number in 0..1000 {
        world.send(document(&number.to_string(), &"x".repeat(number % 7)));
    }
    world.finish();
    let (outcomes, end) = world.rest().await;
    assert!(end.is_none() && outcomes.len() == 1000);
    for (id, outcome) in outcomes {
        let Outcome::Embedded(embedded) = outcome else { panic!("{id} failed") };
        let expected = (id.parse::<usize>().unwrap() % 7) as f32;
        assert_eq!(embedded.vector.unwrap().packed, expected.to_le_bytes());
    }
    let calls = world.fake.calls.load(Ordering::Relaxed);
    // Nearly all are full: one that waited too long for the next text goes as it is.
    assert!(calls <= 2 * (1000 / BATCH_TEXTS), "{calls} calls");
}

#[tokio::test]
async fn a_text_alone_is_answered_while_the_stream_is_open() {
    let mut world = World::new();
    world.send(document("a", "one"));
    assert_eq!(world.next().await.unwrap().unwrap().id, "a");
    world.finish();
    assert!(world.next().await.is_none());
}

#[tokio::test]
async fn one_failing_text_fails_alone() {
    let mut world = World::new();
    for (id, text) in [("a", "one"), ("b", "poison"), ("c", "two"), ("d", &"x".repeat(1001)), ("e", "")] {
        world.send(v1::EmbedStreamRequest { truncate: Some(false), ..document(id, text) });
    }
    world.send(document("f", "long"));
    world.finish();
    let (outcomes, end) = world.rest().await;
    assert!(end.is_none());
    let codes: Vec<_> = outcomes.iter().map(|(id, outcome)| (id.as_str(), code(outcome))).collect();
    let expected = [
        ("a", Code::Ok),
        ("b", Code::Internal),
        ("c", Code::Ok),
        ("d", Code::InvalidArgument),
        ("e", Code::Ok),
        ("f", Code::InvalidArgument),
    ];
    assert_eq!(codes, expected);
    let Outcome::Failure(failure) = &outcomes["d"] else { panic!("embedded") };
    assert!(failure.message.contains("limits.max_text_bytes"), "{}", failure.message);
}

#[tokio::test]
async fn a_message_that_contradicts_the_first_ends_the_stream_after_what_came_before() {
    let first = || v1::EmbedStreamRequest { model: Some("fake".to_owned()), ..document("a", "one") };
    let with = |change: fn(&mut v1::EmbedStreamRequest)| {
        let mut message = document("b", "two");
        change(&mut message);
        message
    };
    for (field, second) in [
        ("role", with(|message| message.role = v1::EmbeddingRole::Query.into())),
        ("role", with(|message| message.role = 0)),
        ("role", with(|message| message.role = 99)),
        ("model", with(|message| message.model = Some("other".to_owned()))),
        ("truncate", with(|message| message.truncate = Some(false))),
        ("encoding", with(|message| message.encoding = v1::VectorEncoding::Floats.into())),
        ("encoding", with(|message| message.encoding = 99)),
        ("id", with(|message| message.id.clear())),
        ("id", with(|message| message.id = "x".repeat(1025))),
    ] {
        let mut world = World::new();
        world.send(first());
        world.send(second);
        world.send(document("c", "never read"));
        let (outcomes, end) = world.rest().await;
        assert_eq!(outcomes.keys().collect::<Vec<_>>(), ["a"], "{field}");
        let status = end.unwrap_or_else(|| panic!("{field} must end the stream"));
        assert_eq!(status.code(), Code::InvalidArgument, "{field}");
        let violations = status.get_details_bad_request().unwrap().field_violations;
        assert_eq!(violations.iter().map(|violation| violation.field.as_str()).collect::<Vec<_>>(), [field]);
    }
    // What is repeated is no contradiction.
    let mut world = World::new();
    world.send(first());
    world.send(v1::EmbedStreamRequest {
        model: Some("fake".to_owned()),
        truncate: Some(true),
        encoding: v1::VectorEncoding::Packed.into(),
        ..document("b", "two")
    });
    world.finish();
    let (outcomes, end) = world.rest().await;
    assert!(end.is_none() && outcomes.len() == 2);
}

#[tokio::test]
async fn a_stream_reads_no_further_than_its_window() {
    let mut world = World::new();
    for number in 0..10 * WINDOW_TEXTS {
        world.send(document(&number.to_string(), "wait"));
    }
    let answered = tokio::time::timeout(Duration::from_millis(200), world.answers.next()).await;
    assert!(answered.is_err(), "the gate is shut");
    assert_eq!(world.fake.texts.load(Ordering::Relaxed), WINDOW_TEXTS);

    let mut world = World::new();
    let text = "wait".to_owned() + &"x".repeat(900);
    for number in 0..10 * WINDOW_BYTES / text.len() {
        world.send(document(&number.to_string(), &text));
    }
    let first = world.next().await.unwrap();
    assert!(first.is_ok());
    // Nobody has taken more than the first answer, so no more than a window was read.
    let bytes = world.fake.texts.load(Ordering::Relaxed) * text.len();
    assert!(bytes <= WINDOW_BYTES + BATCH_BYTES, "{bytes} bytes");
}

#[tokio::test]
async fn a_full_queue_holds_the_stream_up() {
    let mut world = World::new();
    world.fake.is_full.store(true, Ordering::Relaxed);
    world.send(document("a", "one"));
    world.finish();
    let (outcomes, end) = world.rest().await;
    assert!(end.is_none());
    assert_eq!(code(&outcomes["a"]), Code::Ok);
}

#[tokio::test]
async fn a_drain_answers_what_was_read_and_then_sends_the_caller_elsewhere() {
    let mut world = World::new();
    world.send(document("a", "wait"));
    // Polled once, so that the text is read.
    assert!(tokio::time::timeout(Duration::from_millis(50), world.answers.next()).await.is_err());
    world.drain.take().unwrap().send(()).unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(50), world.answers.next()).await.is_err());
    world.send(document("b", "too late"));
    world.fake.gate.notify_one();
    let (outcomes, end) = world.rest().await;
    assert_eq!(outcomes.keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(end.unwrap().code(), Code::Unavailable);
}

#[tokio::test]
async fn a_caller_that_goes_away_cancels_its_work() {
    let world = World::new();
    let World { answers, context, messages, .. } = world;
    messages.unwrap().unbounded_send(Ok(document("a", "wait"))).unwrap();
    let mut answers = answers;
    assert!(tokio::time::timeout(Duration::from_millis(50), answers.next()).await.is_err());
    assert!(!context.cancellation().is_cancelled());
    drop(answers);
    assert!(context.cancellation().is_cancelled());
}

#[tokio::test]
async fn an_unknown_model_ends_the_stream_and_an_empty_stream_just_ends() {
    let mut world = World::new();
    world.send(v1::EmbedStreamRequest { model: Some("missing".to_owned()), ..document("a", "one") });
    assert_eq!(world.next().await.unwrap().unwrap_err().code(), Code::NotFound);
    assert!(world.next().await.is_none());

    let mut world = World::new();
    world.finish();
    assert!(world.next().await.is_none());
}
