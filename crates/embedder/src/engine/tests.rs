use std::path::Path;
use std::sync::mpsc;
use std::time::Instant;

use parking_lot::Mutex;
use toller_core::embeddings::Embedding;
use toller_core::fingerprint::Pooling;
use toller_core::{EmbeddingRole, Embeddings as _, Fingerprint};

use super::*;
use crate::encoder::{Checkpoint, EncodeError, Encoder, Sequence};
use crate::tokenizer::Tokenizer;

const DOCUMENT: EmbeddingRole = EmbeddingRole::Document;
const QUERY: EmbeddingRole = EmbeddingRole::Query;

/// An encoder under the test's control: it reports every batch before it computes it, waits for a permit when it has a gate,
/// and panics, fails or miscomputes at certain words. A vector is the sequence's length and its first word's id.
struct Fake {
    entered: Mutex<mpsc::Sender<Vec<u32>>>,
    gate: Option<Mutex<mpsc::Receiver<()>>>,
    panics_at: u32,
    fails_at: u32,
    gives_nan_at: u32,
}

impl Encoder for Fake {
    fn dimension(&self) -> usize {
        2
    }

    fn encode(&self, sequences: &[Sequence<'_>], checkpoint: Checkpoint<'_>) -> Result<Vec<Vec<f32>>, EncodeError> {
        let _ = self.entered.lock().send(sequences.iter().map(|sequence| sequence.ids[1]).collect());
        if let Some(gate) = &self.gate {
            while let Err(mpsc::RecvTimeoutError::Timeout) = gate.lock().recv_timeout(Duration::from_millis(1)) {
                if checkpoint().is_break() {
                    return Err(EncodeError::Stopped);
                }
            }
        }
        let vector = |sequence: &Sequence<'_>| {
            let sequence = sequence.ids;
            assert!(!sequence.contains(&self.panics_at), "boom");
            if sequence.contains(&self.fails_at) {
                return Err(EncodeError::Failed("a fault".to_owned()));
            }
            let first = if sequence.contains(&self.gives_nan_at) { f32::NAN } else { sequence[1] as f32 };
            Ok(vec![sequence.len() as f32, first])
        };
        sequences.iter().map(vector).collect()
    }
}

/// An encoder that is never asked.
pub(super) fn station() -> Arc<Station> {
    let (entered, _) = mpsc::channel();
    let encoder =
        Arc::new(Fake { entered: Mutex::new(entered), gate: None, panics_at: 0, fails_at: 0, gives_nan_at: 0 });
    let probe = Err("no probe".to_owned());
    Arc::new(Station::new(EncoderOnEngine { encoder, model: "fake".to_owned(), max_tokens: 512, probe }))
}

struct Bench {
    embeddings: Arc<LocalEmbeddings>,
    entered: mpsc::Receiver<Vec<u32>>,
    permits: mpsc::Sender<()>,
    tokenizer: Tokenizer,
}

impl Bench {
    /// One worker with batches of 16 tokens behind a queue of 1024; with `gated`, each batch needs a permit.
    fn new(gated: bool) -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/tiny-bge/tokenizer.json");
        let read = || Tokenizer::read(Path::new(path), 512, 12_000, true).unwrap();
        let tokenizer = read();
        let word = |word: &str| tokenizer.encode("", word).unwrap().ids[1];
        let (entered_sender, entered) = mpsc::channel();
        let (permits, gate) = mpsc::channel();
        let fake = Fake {
            entered: Mutex::new(entered_sender),
            gate: gated.then(|| Mutex::new(gate)),
            panics_at: word("danger"),
            fails_at: word("wrong"),
            gives_nan_at: word("strange"),
        };
        let fingerprint = Fingerprint {
            provider: "fake".to_owned(),
            model: "fake".to_owned(),
            revision: String::new(),
            dimension: 2,
            pooling: Some(Pooling::Cls),
            normalized: false,
            query_instruction: String::new(),
            document_instruction: String::new(),
            max_tokens: 512,
            weights_sha256: String::new(),
        };
        let config = EmbedderConfig::builder().processors(1).queue_tokens(1_024).batch_tokens(16).build().unwrap();
        let model = Model::from_parts(read(), Arc::new(fake), fingerprint);
        let embeddings = Arc::new(LocalEmbeddings::start(model, config).unwrap());
        Self { embeddings, entered, permits, tokenizer }
    }

    fn word(&self, word: &str) -> u32 {
        self.tokenizer.encode("", word).unwrap().ids[1]
    }

    /// Runs a request in the background.
    fn spawn(&self, role: EmbeddingRole, texts: Vec<String>) -> tokio::task::JoinHandle<Result<Vec<Embedding>>> {
        let embeddings = Arc::clone(&self.embeddings);
        tokio::spawn(async move { embeddings.embed(&anonymous(), role, texts).await })
    }

    /// Waits until a batch runs, and gives the first words of its texts.
    async fn running(&self) -> Vec<u32> {
        loop {
            if let Ok(batch) = self.entered.try_recv() {
                return batch;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Waits until so many requests are in the queue (beside the one whose batch runs, unless more of it waits).
    async fn until_waiting(&self, requests: usize) {
        while self.embeddings.engine().queue.waiting_jobs() != requests {
            tokio::task::yield_now().await;
        }
    }
}

fn anonymous() -> RequestContext {
    RequestContext::new(Principal::anonymous())
}

/// A text of `words` words, which is `words` + 2 tokens.
fn text(first: &str, words: usize) -> String {
    format!("{first}{}", " the".repeat(words - 1))
}

#[tokio::test]
async fn answers_are_in_input_order() {
    let bench = Bench::new(false);
    let lengths = [3, 1, 20, 7, 7, 2, 12, 600];
    let texts = lengths.iter().map(|words| text("the", *words)).collect();
    let answer = bench.embeddings.embed(&anonymous(), DOCUMENT, texts).await.unwrap();
    for (words, embedding) in lengths.iter().zip(&answer) {
        let tokens = (*words).min(510) + 2;
        assert_eq!(embedding.vector[0], tokens as f32);
        assert_eq!(embedding.token_count, Some(tokens as u32));
        assert_eq!(embedding.truncated, *words > 510);
    }
    assert_eq!(answer.len(), lengths.len());
    assert_eq!(bench.embeddings.engine().queued_tokens(), 0);
}

#[tokio::test]
async fn nothing_gives_nothing_and_an_empty_text_is_a_text() {
    let bench = Bench::new(false);
    assert_eq!(bench.embeddings.embed(&anonymous(), QUERY, Vec::new()).await, Ok(Vec::new()));
    let answer = bench.embeddings.embed(&anonymous(), QUERY, vec![String::new()]).await.unwrap();
    assert_eq!(answer[0].token_count, Some(2));
}

#[tokio::test]
async fn a_full_queue_refuses_at_once_and_says_when_to_come_back() {
    let bench = Bench::new(true);
    let running = bench.spawn(DOCUMENT, vec![text("the", 10)]);
    bench.running().await;
    let waiting = bench.spawn(DOCUMENT, vec![text("the", 10); 74]);
    bench.until_waiting(1).await;

    let refused = bench.embeddings.embed(&anonymous(), DOCUMENT, vec![text("the", 10)]).await.unwrap_err();
    let Error::ResourceExhausted { what, retry_after: Some(retry_after) } = refused else {
        panic!("expected a full queue, got {refused:?}");
    };
    assert_eq!(what, "the embedding queue is full: 888 of 1024 tokens wait");
    assert!(retry_after >= RETRY_AFTER.0 && retry_after <= RETRY_AFTER.1);
    let query = bench.spawn(QUERY, vec![text("the", 10)]);
    bench.until_waiting(2).await;

    drop(bench.permits);
    for request in [running, waiting, query] {
        assert!(request.await.unwrap().is_ok());
    }
}

#[tokio::test]
async fn a_deadline_ends_the_wait_and_frees_the_room() {
    let bench = Bench::new(true);
    let running = bench.spawn(DOCUMENT, vec![text("the", 10)]);
    bench.running().await;
    let context = anonymous().with_deadline(Some(Instant::now() + Duration::from_millis(20)));
    let late = bench.embeddings.embed(&context, DOCUMENT, vec![text("the", 10)]).await;
    assert_eq!(late, Err(Error::DeadlineExceeded(EMBEDDING)));
    assert_eq!(bench.embeddings.engine().queued_tokens(), 0);
    let passed = anonymous().with_deadline(Some(Instant::now()));
    let late = bench.embeddings.embed(&passed, DOCUMENT, vec![text("the", 10)]).await;
    assert_eq!(late, Err(Error::DeadlineExceeded(EMBEDDING)));
    drop(bench.permits);
    assert!(running.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_running_batch_is_stopped_when_nobody_waits_for_it() {
    let bench = Bench::new(true);
    let context = anonymous();
    let embeddings = Arc::clone(&bench.embeddings);
    let own = context.clone();
    let request = tokio::spawn(async move { embeddings.embed(&own, DOCUMENT, vec![text("the", 10)]).await });
    bench.running().await;
    context.cancellation().cancel();
    assert_eq!(request.await.unwrap(), Err(Error::Cancelled), "without a permit for the batch");
}

#[tokio::test]
async fn what_a_gone_caller_left_is_skipped() {
    let bench = Bench::new(true);
    let gone = bench.spawn(DOCUMENT, vec![text("alpha", 10); 5]);
    assert_eq!(bench.running().await, [bench.word("alpha")]);
    bench.until_waiting(1).await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    bench.until_waiting(0).await;
    assert_eq!(bench.embeddings.engine().queued_tokens(), 0);
    let next = bench.spawn(DOCUMENT, vec![text("light", 10)]);
    assert_eq!(bench.running().await, [bench.word("light")], "the other four batches were skipped");
    drop(bench.permits);
    assert!(next.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_fault_fails_its_request_and_nothing_else() {
    let bench = Bench::new(false);
    for (word, message) in [
        ("danger", "the encoder panicked: boom"),
        ("wrong", "a fault"),
        ("strange", "the model computed a number that is not finite: its weights are damaged"),
    ] {
        let answer = bench.embeddings.embed(&anonymous(), DOCUMENT, vec![text(word, 3)]).await;
        assert_eq!(answer, Err(Error::Internal(message.to_owned())), "{word}");
        assert!(bench.embeddings.embed(&anonymous(), DOCUMENT, vec![text("the", 3)]).await.is_ok(), "after {word}");
    }
}

#[tokio::test]
async fn a_fault_in_a_shared_batch_spares_the_other_requests() {
    let bench = Bench::new(true);
    let first = bench.spawn(QUERY, vec![text("the", 10)]);
    bench.running().await;
    let good = bench.spawn(QUERY, vec![text("light", 2)]);
    bench.until_waiting(1).await;
    let bad = bench.spawn(QUERY, vec![text("danger", 2)]);
    bench.until_waiting(2).await;
    let also_good = bench.spawn(QUERY, vec![text("house", 2)]);
    bench.until_waiting(3).await;
    bench.permits.send(()).unwrap();
    assert_eq!(bench.running().await, [bench.word("light"), bench.word("danger"), bench.word("house")]);
    drop(bench.permits);
    assert!(first.await.unwrap().is_ok());
    assert!(good.await.unwrap().is_ok());
    assert!(matches!(bad.await.unwrap(), Err(Error::Internal(_))));
    assert!(also_good.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_query_overtakes_a_large_import() {
    let bench = Bench::new(true);
    let import = bench.spawn(DOCUMENT, vec![text("house", 10); 20]);
    assert_eq!(bench.running().await, [bench.word("house")]);
    bench.until_waiting(1).await;
    let query = bench.spawn(QUERY, vec![text("light", 10)]);
    bench.until_waiting(2).await;
    bench.permits.send(()).unwrap();
    assert_eq!(bench.running().await, [bench.word("light")]);
    drop(bench.permits);
    assert!(query.await.unwrap().is_ok());
    assert!(import.await.unwrap().is_ok());
}

#[tokio::test]
async fn health_follows_a_real_pass_and_not_the_length_of_the_queue() {
    let bench = Bench::new(true);
    let import = bench.spawn(DOCUMENT, vec![text("the", 10); 200]);
    bench.running().await;
    let stuck = bench.embeddings.check_alive(Duration::from_millis(20)).await;
    assert_eq!(stuck, Err(Error::Unavailable("no forward pass came back within 0.0 s".to_owned())));
    bench.until_waiting(1).await;
    drop(bench.permits);
    assert_eq!(bench.embeddings.check_alive(Duration::from_secs(10)).await, Ok(()));
    assert!(import.await.unwrap().is_ok());
    assert_eq!(bench.embeddings.warm_up().await, Ok(()));
}

#[tokio::test]
async fn stopping_answers_who_waits_and_ends_the_threads() {
    let bench = Bench::new(true);
    let first = bench.spawn(DOCUMENT, vec![text("the", 10)]);
    bench.running().await;
    let second = bench.spawn(DOCUMENT, vec![text("the", 10)]);
    bench.until_waiting(1).await;
    // The requests hold the embedder too, so what their drop would do is done here.
    bench.embeddings.engine().queue.close();
    for request in [first, second] {
        assert_eq!(request.await.unwrap(), Err(queue::stopping()));
    }
    let embeddings = Arc::into_inner(bench.embeddings).unwrap();
    // Joins the threads: the test would hang if one went on.
    drop(embeddings);
    assert!(bench.entered.iter().count() <= 1, "the encoder is gone, and its channel closed");
}
