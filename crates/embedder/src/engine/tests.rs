use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::task::JoinHandle as Task;

use super::handle::Computed;
use super::*;
use crate::encoder::{Checkpoint, EncodeError, Encoder, Sequence};

/// Kinds of sequences, by their first id: what the encoder does with them.
mod kind {
    pub(super) const PLAIN: u32 = 1;
    /// Waits for a permit, and asks at checkpoints while it does.
    pub(super) const GATED: u32 = 2;
    /// Waits for a permit without asking.
    pub(super) const HANGS: u32 = 3;
    pub(super) const PANICS: u32 = 4;
    pub(super) const FAILS: u32 = 5;
    pub(super) const NOT_FINITE: u32 = 6;
    /// Takes a millisecond.
    pub(super) const SLOW: u32 = 7;
}
use kind::*;

const LIVENESS: Duration = Duration::from_secs(30);

/// An encoder under the test's control. It reports every batch before it computes it, as the sequences' second ids; the
/// vector of a sequence is its second id and its length.
struct Fake {
    entered: Mutex<mpsc::Sender<Vec<u32>>>,
    permits: Mutex<mpsc::Receiver<()>>,
    depth: AtomicUsize,
    greatest_depth: AtomicUsize,
}

impl Fake {
    fn is_permitted(&self) -> bool {
        let received = self.permits.lock().recv_timeout(Duration::from_millis(1));
        received != Err(mpsc::RecvTimeoutError::Timeout)
    }

    fn compute(&self, sequences: &[Sequence<'_>], checkpoint: Checkpoint<'_>) -> Result<Vec<Vec<f32>>, EncodeError> {
        let _ = self.entered.lock().send(sequences.iter().map(|sequence| sequence.ids[1]).collect());
        let is_any = |kind: u32| sequences.iter().any(|sequence| sequence.ids[0] == kind);
        if is_any(SLOW) {
            thread::sleep(Duration::from_millis(1));
        }
        while is_any(HANGS) && !self.is_permitted() {}
        loop {
            if checkpoint() == ControlFlow::Break(()) {
                return Err(EncodeError::Stopped);
            }
            if !is_any(GATED) || self.is_permitted() {
                break;
            }
        }
        assert!(!is_any(PANICS), "boom");
        if is_any(FAILS) {
            return Err(EncodeError::Failed("a fault".to_owned()));
        }
        let vector = |sequence: &Sequence<'_>| match sequence.ids[0] {
            NOT_FINITE => vec![f32::NAN, 0.0],
            _ => vec![sequence.ids[1] as f32, sequence.ids.len() as f32],
        };
        Ok(sequences.iter().map(vector).collect())
    }
}

impl Encoder for Fake {
    fn dimension(&self) -> usize {
        2
    }

    fn encode(&self, sequences: &[Sequence<'_>], checkpoint: Checkpoint<'_>) -> Result<Vec<Vec<f32>>, EncodeError> {
        let depth = self.depth.fetch_add(1, Ordering::SeqCst) + 1;
        self.greatest_depth.fetch_max(depth, Ordering::SeqCst);
        let _up = OnDrop(|| self.depth.fetch_sub(1, Ordering::SeqCst));
        self.compute(sequences, checkpoint)
    }
}

struct OnDrop<F: FnMut() -> usize>(F);

impl<F: FnMut() -> usize> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

struct Bench {
    fake: Arc<Fake>,
    handle: EngineHandle,
    entered: mpsc::Receiver<Vec<u32>>,
    permits: mpsc::Sender<()>,
}

/// A station whose encoder is never asked.
pub(super) fn station() -> Arc<Station> {
    Bench::new(1).handle.station.clone()
}

impl Bench {
    /// So many workers of one thread, with batches of 16 tokens, behind a queue of 1,024.
    fn new(workers: usize) -> Self {
        Self::with_queue(workers, 1_024)
    }

    fn with_queue(workers: usize, queue_tokens: usize) -> Self {
        let (entered_sender, entered) = mpsc::channel();
        let (permits, permitted) = mpsc::channel();
        let fake = Arc::new(Fake {
            entered: Mutex::new(entered_sender),
            permits: Mutex::new(permitted),
            depth: AtomicUsize::new(0),
            greatest_depth: AtomicUsize::new(0),
        });
        let config = EmbedderConfig::builder().processors(workers).workers(workers);
        let engine = Engine::start(config.queue_tokens(queue_tokens).batch_tokens(16).build().unwrap()).unwrap();
        let handle = engine.serve(EncoderOnEngine {
            encoder: Arc::clone(&fake) as Arc<dyn Encoder>,
            model: "fake".to_owned(),
            max_tokens: 512,
            probe: Ok(sequence(PLAIN, 0, 2)),
        });
        Self { fake, handle, entered, permits }
    }

    /// Runs a request in the background.
    fn spawn(&self, class: Class, sequences: Vec<Prepared>) -> Task<Result<Vec<Computed>>> {
        self.spawn_in(&anonymous(), class, sequences)
    }

    fn spawn_in(
        &self,
        context: &RequestContext,
        class: Class,
        sequences: Vec<Prepared>,
    ) -> Task<Result<Vec<Computed>>> {
        let (handle, context) = (self.handle.clone(), context.clone());
        tokio::spawn(async move { compute(&handle, &context, class, sequences).await })
    }

    async fn compute(&self, class: Class, sequences: Vec<Prepared>) -> Result<Vec<Computed>> {
        compute(&self.handle, &anonymous(), class, sequences).await
    }

    /// Waits until a batch runs, and gives its sequences' second ids.
    async fn running(&self) -> Vec<u32> {
        let started = Instant::now();
        loop {
            if let Ok(batch) = self.entered.try_recv() {
                return batch;
            }
            assert!(started.elapsed() < LIVENESS, "no batch runs");
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
    }

    /// Waits until so many requests are in the queue (beside the one whose batch runs, unless more of it waits).
    async fn until_waiting(&self, requests: usize) {
        let started = Instant::now();
        while self.handle.engine.queue.waiting_jobs() != requests {
            assert!(started.elapsed() < LIVENESS, "{requests} requests never wait");
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
    }

    /// Waits until so many tokens wait or are reserved.
    async fn until_queued(&self, tokens: usize) {
        let started = Instant::now();
        while self.queued_tokens() != tokens {
            assert!(started.elapsed() < LIVENESS, "{} tokens wait", self.queued_tokens());
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
    }

    fn permit(&self) {
        self.permits.send(()).unwrap();
    }

    fn queued_tokens(&self) -> usize {
        self.handle.engine.queued_tokens()
    }
}

async fn compute(
    handle: &EngineHandle,
    context: &RequestContext,
    class: Class,
    sequences: Vec<Prepared>,
) -> Result<Vec<Computed>> {
    // Four bytes for a token, less what the estimate adds: it is right.
    let bytes = |one: &Prepared| 4 * (one.ids.len() - 2);
    handle.compute(context, class, sequences, bytes, |one| Ok(one.clone())).await
}

fn anonymous() -> RequestContext {
    RequestContext::new(Principal::anonymous())
}

/// A sequence of `tokens` tokens, at least 2; `name` tells it from others.
fn sequence(kind: u32, name: u32, tokens: usize) -> Prepared {
    let mut ids = vec![kind; tokens];
    ids[1] = name;
    Prepared { second: ids.len(), ids, truncated: false }
}

/// Sequences of 12 tokens named `names`: each is a batch of its own.
fn batches(kind: u32, names: std::ops::Range<u32>) -> Vec<Prepared> {
    names.map(|name| sequence(kind, name, 12)).collect()
}

fn computed(name: u32, tokens: usize) -> Computed {
    Computed { vector: vec![name as f32, tokens as f32], tokens, truncated: false }
}

#[tokio::test]
async fn answers_are_in_input_order() {
    let bench = Bench::new(1);
    let lengths = [3_usize, 2, 20, 7, 7, 2, 12, 500];
    let mut sequences: Vec<Prepared> =
        (0..).zip(&lengths).map(|(name, length)| sequence(PLAIN, name, *length)).collect();
    sequences.push(sequences[2].clone());
    sequences.push(Prepared { truncated: true, ..sequence(PLAIN, 70, 5) });
    let mut expected: Vec<Computed> = (0..).zip(&lengths).map(|(name, length)| computed(name, *length)).collect();
    expected.push(expected[2].clone());
    expected.push(Computed { truncated: true, ..computed(70, 5) });
    assert_eq!(bench.compute(Class::Document, sequences).await, Ok(expected));
    assert_eq!(bench.queued_tokens(), 0);
    assert_eq!(bench.compute(Class::Query, Vec::new()).await, Ok(Vec::new()));
}

#[tokio::test]
async fn a_full_queue_refuses_at_once_and_says_when_to_come_back() {
    let bench = Bench::new(1);
    let running = bench.spawn(Class::Document, batches(GATED, 0..1));
    bench.running().await;
    let waiting = bench.spawn(Class::Document, batches(PLAIN, 100..174));
    bench.until_queued(888).await;
    let refused = bench.compute(Class::Document, batches(PLAIN, 1..2)).await.unwrap_err();
    let Error::ResourceExhausted { what, retry_after: Some(retry_after) } = refused else {
        panic!("expected a full queue, got {refused:?}");
    };
    assert_eq!(
        what,
        "the embedding queue is full: 888 tokens of documents and 0 of queries wait, and documents may fill 896 of its 1024 \
         tokens"
    );
    assert!(retry_after > Duration::ZERO);
    assert!(bench.compute(Class::Query, batches(PLAIN, 1..2)).await.is_ok(), "queries keep their part");
    bench.permit();
    for request in [running, waiting] {
        assert!(request.await.unwrap().is_ok());
    }
}

#[tokio::test]
async fn a_deadline_ends_the_wait_and_frees_the_room() {
    let bench = Bench::new(1);
    let running = bench.spawn(Class::Document, batches(GATED, 0..1));
    bench.running().await;
    for remaining in [Duration::from_millis(20), Duration::ZERO] {
        let context = anonymous().with_deadline(Some(Instant::now() + remaining));
        let late = compute(&bench.handle, &context, Class::Document, batches(PLAIN, 1..2)).await;
        assert_eq!(late, Err(Error::DeadlineExceeded(EMBEDDING)));
        assert_eq!(bench.queued_tokens(), 0);
    }
    bench.permit();
    assert!(running.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_running_batch_is_stopped_when_nobody_waits_for_it() {
    let bench = Bench::new(1);
    let context = anonymous();
    let request = bench.spawn_in(&context, Class::Document, batches(GATED, 0..1));
    bench.running().await;
    context.cancellation().cancel();
    assert_eq!(request.await.unwrap(), Err(Error::Cancelled), "without a permit for the batch");
}

#[tokio::test]
async fn what_a_gone_caller_left_is_skipped() {
    let bench = Bench::new(1);
    let gone = bench.spawn(Class::Document, batches(GATED, 0..5));
    assert_eq!(bench.running().await, [0]);
    bench.until_waiting(1).await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    bench.until_waiting(0).await;
    assert_eq!(bench.queued_tokens(), 0);
    assert_eq!(bench.compute(Class::Document, batches(PLAIN, 9..10)).await, Ok(vec![computed(9, 12)]));
    assert_eq!(bench.running().await, [9], "the other four batches were skipped");
}

#[tokio::test]
async fn a_fault_fails_its_request_and_nothing_else() {
    let bench = Bench::new(1);
    for (kind, message) in [
        (PANICS, "the encoder panicked: boom"),
        (FAILS, "a fault"),
        (NOT_FINITE, "the model computed a number that is not finite: its weights are damaged"),
    ] {
        for class in [Class::Query, Class::Document] {
            let answer = bench.compute(class, vec![sequence(kind, 1, 3), sequence(PLAIN, 2, 3)]).await;
            assert_eq!(answer, Err(Error::Internal(message.to_owned())));
            assert!(bench.compute(class, batches(PLAIN, 1..2)).await.is_ok(), "after {message}");
        }
    }
    let prepare = |_: &u32| Err("no such word".to_owned());
    let answer = bench.handle.compute(&anonymous(), Class::Query, vec![1], |_| 1, prepare).await;
    assert_eq!(answer, Err(Error::Internal("the tokenizer failed: no such word".to_owned())));
    let prepare = |_: &u32| panic!("boom");
    let answer = bench.handle.compute(&anonymous(), Class::Query, vec![1], |_| 1, prepare).await;
    assert_eq!(answer, Err(Error::Internal("the tokenizer failed: a panic: boom".to_owned())));
    assert_eq!((bench.queued_tokens(), bench.handle.engine.queue.flights()), (0, 0));
}

#[tokio::test]
async fn a_fault_in_a_shared_batch_spares_the_other_requests_and_who_joined() {
    let bench = Bench::new(1);
    let first = bench.spawn(Class::Document, batches(HANGS, 0..1));
    bench.running().await;
    let good = bench.spawn(Class::Query, vec![sequence(PLAIN, 1, 4)]);
    let bad = bench.spawn(Class::Query, vec![sequence(PLAIN, 2, 4), sequence(PANICS, 3, 4)]);
    let joined = bench.spawn(Class::Query, vec![sequence(PLAIN, 2, 4)]);
    // All wait to be tokenised, which happens in the middle of the pass that hangs, before any query is computed.
    bench.until_queued(16).await;
    bench.permit();
    assert_eq!(bench.running().await, [1, 2, 3], "who joined has no place of its own");
    assert_eq!(first.await.unwrap(), Ok(vec![computed(0, 12)]));
    assert_eq!(good.await.unwrap(), Ok(vec![computed(1, 4)]));
    assert_eq!(bad.await.unwrap(), Err(Error::Internal("the encoder panicked: boom".to_owned())));
    assert_eq!(joined.await.unwrap(), Ok(vec![computed(2, 4)]));
}

#[tokio::test]
async fn a_query_runs_in_the_middle_of_a_pass_of_documents() {
    let bench = Bench::new(1);
    let import = bench.spawn(Class::Document, batches(GATED, 0..3));
    assert_eq!(bench.running().await, [0]);
    assert_eq!(bench.compute(Class::Query, batches(PLAIN, 9..10)).await, Ok(vec![computed(9, 12)]));
    assert_eq!(bench.running().await, [9]);
    // A fault in the middle of a pass is not that pass's.
    let fault = bench.compute(Class::Query, batches(PANICS, 8..9)).await;
    assert_eq!(fault, Err(Error::Internal("the encoder panicked: boom".to_owned())));
    assert_eq!(bench.running().await, [8]);
    (0..3).for_each(|_| bench.permit());
    assert_eq!(import.await.unwrap(), Ok((0..3).map(|name| computed(name, 12)).collect()));
    assert_eq!(bench.fake.greatest_depth.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_small_query_runs_in_the_middle_of_a_large_one() {
    let bench = Bench::with_queue(1, 4_096);
    let large = bench.spawn(Class::Query, batches(GATED, 0..200));
    assert_eq!(bench.running().await, [0]);
    assert_eq!(bench.compute(Class::Query, batches(PLAIN, 900..901)).await, Ok(vec![computed(900, 12)]));
    large.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_do_not_starve_under_a_flood_of_queries() {
    let bench = Bench::new(1);
    let flood: Vec<_> = (0..4)
        .map(|task| {
            let handle = bench.handle.clone();
            tokio::spawn(async move {
                for name in 0.. {
                    let query = vec![sequence(SLOW, 1_000 + task * 1_000_000 + name, 12)];
                    compute(&handle, &anonymous(), Class::Query, query).await.unwrap();
                }
            })
        })
        .collect();
    let documents = bench.compute(Class::Document, batches(SLOW, 0..20));
    assert_eq!(tokio::time::timeout(LIVENESS, documents).await.unwrap().unwrap().len(), 20);
    flood.iter().for_each(Task::abort);
}

#[tokio::test]
async fn tokenising_a_large_document_request_does_not_hold_up_a_query() {
    let bench = Bench::new(1);
    let prepared = Arc::new(AtomicUsize::new(0));
    let (closed, gate) = mpsc::channel::<()>();
    let import = {
        let (handle, prepared, gate) = (bench.handle.clone(), Arc::clone(&prepared), Mutex::new(gate));
        tokio::spawn(async move {
            let prepare = move |name: &u32| {
                prepared.fetch_add(1, Ordering::SeqCst);
                // Until the other end is dropped.
                let _ = gate.lock().recv();
                Ok(sequence(PLAIN, *name, 12))
            };
            // A megabyte each.
            handle.compute(&anonymous(), Class::Document, (0..100).collect(), |_| 1 << 20, prepare).await
        })
    };
    while prepared.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_micros(100)).await;
    }
    let query = bench.spawn(Class::Query, batches(PLAIN, 900..901));
    // The longest sequence for each of the large texts, and the query.
    bench.until_queued(100 * 512 + 12).await;
    let started = prepared.load(Ordering::SeqCst);
    drop(closed);
    assert_eq!(bench.running().await, [900], "before any document");
    assert_eq!(started, 1, "one step, which was running");
    assert!(query.await.unwrap().is_ok());
    assert_eq!(import.await.unwrap().unwrap().len(), 100);
}

#[tokio::test]
async fn who_joins_a_running_text_gets_it_also_when_its_owner_goes() {
    // The second worker tokenises while the first one computes.
    let bench = Bench::new(2);
    let owner = bench.spawn(Class::Document, batches(GATED, 0..1));
    bench.running().await;
    let joined = bench.spawn(Class::Document, batches(GATED, 0..1));
    let started = Instant::now();
    while bench.handle.engine.queue.joined_jobs() < 1 {
        assert!(started.elapsed() < LIVENESS);
        tokio::time::sleep(Duration::from_micros(100)).await;
    }
    assert_eq!(bench.queued_tokens(), 0);
    owner.abort();
    assert!(owner.await.unwrap_err().is_cancelled());
    bench.permit();
    assert_eq!(joined.await.unwrap(), Ok(vec![computed(0, 12)]));
    assert_eq!(bench.entered.try_iter().count(), 0, "it was computed once");
}

#[tokio::test]
async fn health_follows_a_real_pass_and_not_the_length_of_the_queue() {
    let bench = Bench::new(1);
    let engine = Arc::clone(bench.handle.engine());
    let import = bench.spawn(Class::Document, [batches(HANGS, 0..1), batches(PLAIN, 1..70)].concat());
    bench.running().await;
    let stuck = engine.check_alive(Duration::from_millis(20)).await;
    assert_eq!(stuck, Err(Error::Unavailable("no forward pass came back within 0.0 s".to_owned())));
    bench.permit();
    assert_eq!(engine.check_alive(LIVENESS).await, Ok(()));
    assert!(import.await.unwrap().is_ok());
    assert_eq!(bench.handle.check_alive(LIVENESS).await, Ok(()));
}

#[tokio::test]
async fn one_stuck_worker_of_two_shows() {
    let bench = Bench::new(2);
    let stuck = bench.spawn(Class::Document, batches(HANGS, 0..1));
    assert_eq!(bench.running().await, [0]);
    assert_eq!(bench.compute(Class::Query, batches(PLAIN, 1..2)).await, Ok(vec![computed(1, 12)]), "the other works");
    // The other one has to answer within the same time.
    let patience = Duration::from_secs(2);
    tokio::time::sleep(patience + Duration::from_millis(500)).await;
    let Err(Error::Unavailable(reason)) = bench.handle.check_alive(patience).await else {
        panic!("a worker hangs");
    };
    assert!(reason.contains("has given no sign of life for"), "{reason}");
    bench.permit();
    assert!(stuck.await.unwrap().is_ok());
    assert_eq!(bench.handle.check_alive(LIVENESS).await, Ok(()));
}

#[tokio::test]
async fn stopping_answers_who_waits_and_ends_the_threads() {
    let bench = Bench::new(1);
    let first = bench.spawn(Class::Document, batches(GATED, 0..1));
    bench.running().await;
    let second = bench.spawn(Class::Document, batches(PLAIN, 1..2));
    bench.until_queued(12).await;
    // The requests hold the engine too, so what its drop would do is done here.
    bench.handle.engine.queue.close();
    for request in [first, second] {
        assert_eq!(request.await.unwrap(), Err(queue::stopping()));
    }
    let engine = Arc::into_inner(bench.handle.engine).unwrap();
    // Joins the threads: the test would hang if one went on.
    drop(engine);
    assert_eq!(bench.entered.try_iter().count(), 0);
}

/// One request of a random schedule.
#[derive(Debug, Clone)]
struct Scheduled {
    class: Class,
    /// Kind and name; few names, so that many join.
    sequences: Vec<(u32, u32)>,
    /// Is dropped after so many microseconds.
    leaves_after: Option<u64>,
    pause: u64,
}

fn scheduled() -> impl Strategy<Value = Scheduled> {
    let kind = prop_oneof![12 => Just(PLAIN), 6 => Just(SLOW), 1 => Just(PANICS), 1 => Just(FAILS)];
    // A name is of one kind: the same sequence always has the same fate.
    let one = (kind, 0_u32..6).prop_map(|(kind, name)| (kind, kind * 100 + name));
    let class = prop_oneof![Just(Class::Query), Just(Class::Document)];
    let leaves = prop_oneof![2 => Just(None), 1 => (0_u64..3_000).prop_map(Some)];
    (class, prop::collection::vec(one, 1..8), leaves, 0_u64..300)
        .prop_map(|(class, sequences, leaves_after, pause)| Scheduled { class, sequences, leaves_after, pause })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whoever comes and goes, and whatever joins what: everybody who stays gets the right vectors in order, or the error of
    /// a sequence of its own; nothing is left behind; passes nest once at most for each worker.
    #[test]
    fn everybody_gets_their_own(schedule in prop::collection::vec(scheduled(), 1..30), workers in 1_usize..3) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let bench = Bench::with_queue(workers, 1 << 16);
        let outcome: Result<(), TestCaseError> = runtime.block_on(async {
            let mut requests = Vec::new();
            for one in &schedule {
                let length = |name: u32| 2 + name as usize % 7;
                let sequences = one.sequences.iter().map(|(kind, name)| sequence(*kind, *name, length(*name))).collect();
                let task = bench.spawn(one.class, sequences);
                if let Some(after) = one.leaves_after {
                    let handle = task.abort_handle();
                    tokio::spawn(async move {
                        tokio::time::sleep(Duration::from_micros(after)).await;
                        handle.abort();
                    });
                }
                requests.push((one, task));
                tokio::time::sleep(Duration::from_micros(one.pause)).await;
            }
            for (one, task) in requests {
                let Ok(answer) = tokio::time::timeout(LIVENESS, task).await.expect("everybody is answered") else {
                    prop_assert!(one.leaves_after.is_some());
                    continue;
                };
                let has = |kind: u32| one.sequences.iter().any(|(known, _)| *known == kind);
                match answer {
                    Ok(computed) => {
                        prop_assert!(!has(PANICS) && !has(FAILS));
                        let names: Vec<f32> = computed.iter().map(|one| one.vector[0]).collect();
                        let expected: Vec<f32> = one.sequences.iter().map(|(_, name)| *name as f32).collect();
                        prop_assert_eq!(names, expected);
                    }
                    Err(Error::Internal(message)) if message == "a fault" => prop_assert!(has(FAILS)),
                    Err(Error::Internal(message)) => {
                        prop_assert_eq!(message, "the encoder panicked: boom");
                        prop_assert!(has(PANICS));
                    }
                    Err(other) => return Err(TestCaseError::fail(format!("{other:?}"))),
                }
            }
            Ok(())
        });
        outcome?;
        let queue = &bench.handle.engine.queue;
        let started = Instant::now();
        while queue.waiting_tokens() + queue.flights() > 0 && started.elapsed() < LIVENESS {
            thread::sleep(Duration::from_micros(100));
        }
        prop_assert_eq!((queue.waiting_tokens(), queue.flights(), queue.waiting_jobs()), (0, 0, 0));
        prop_assert!(bench.fake.greatest_depth.load(Ordering::SeqCst) <= 2 * workers);
    }
}
