use proptest::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use tokio::sync::oneshot;
use toller_core::context::Cancellation;
use toller_core::{Principal, RequestContext};

use super::super::batch::Batch;
use super::super::errand::Step;
use super::super::handle::Computed;
use super::super::job::Answer;
use super::super::tests::station;
use super::*;

const DOCUMENT: Class = Class::Document;
const QUERY: Class = Class::Query;

/// A queue without workers, that the test asks for work.
struct Bench {
    queue: Arc<Queue>,
    station: Arc<Station>,
    pool: ThreadPool,
}

/// A request in the queue.
struct Request {
    job: Arc<Job>,
    answer: oneshot::Receiver<Answer>,
    ticket: Ticket,
}

impl Bench {
    fn new(capacity: usize, batch_tokens: usize) -> Self {
        let bench = Self {
            queue: Arc::new(Queue::new(capacity, 1, batch_tokens)),
            station: station(),
            pool: ThreadPoolBuilder::new().num_threads(1).build().unwrap(),
        };
        bench.queue.register(&bench.station);
        bench
    }

    /// Sequences of these lengths, all different.
    fn sequences(&self, lengths: &[usize]) -> Vec<Prepared> {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let sequence = |length: &usize| {
            let mut ids = vec![7; *length];
            ids[0] = NEXT.fetch_add(1, Ordering::Relaxed);
            Prepared { second: ids.len(), ids, truncated: false }
        };
        lengths.iter().map(sequence).collect()
    }

    fn submit(&self, class: Class, lengths: &[usize]) -> Result<Request, Error> {
        let context = RequestContext::new(Principal::anonymous());
        self.submit_sequences(class, self.sequences(lengths), lengths.iter().sum(), context)
    }

    /// Submits a request of about `estimate` tokens, and tokenises it at once.
    fn submit_sequences(
        &self,
        class: Class,
        sequences: Vec<Prepared>,
        estimate: usize,
        context: RequestContext,
    ) -> Result<Request, Error> {
        let station = Arc::clone(&self.station);
        let (job, answer) = Job::new(station, class, estimate, context, Cancellation::default());
        let errand = Errand::new(Arc::clone(&job), estimate, sequences, |_| 1, |one| Ok(one.clone()));
        let ticket = self.queue.submit(errand)?;
        let errand = self.queue.state.lock().lane(class).remove_errand(&job);
        if let Some(errand) = errand {
            match errand.step(&self.pool) {
                Step::Finished(errand, sequences) => self.queue.enter(&errand, sequences),
                Step::Over(errand) => self.queue.abandon(&errand),
                Step::Unfinished(_) => panic!("a step takes more bytes than these"),
            }
        }
        Ok(Request { job, answer, ticket })
    }

    fn take(&self) -> Batch {
        match self.queue.take() {
            Some(Work::Pass(batch)) => batch,
            other => panic!("expected a pass, got {other:?}"),
        }
    }

    /// What the next passes are: their owners' places in `requests`.
    fn owners(&self, requests: &[Request], passes: usize) -> Vec<Vec<usize>> {
        let place = |job: &Arc<Job>| requests.iter().position(|request| Arc::ptr_eq(&request.job, job)).unwrap();
        (0..passes).map(|_| self.take().pieces.iter().map(|piece| place(&piece.owner)).collect()).collect()
    }

    fn waiting(&self) -> usize {
        self.queue.waiting_tokens()
    }
}

fn lengths(batch: &Batch) -> Vec<usize> {
    batch.pieces.iter().flat_map(|piece| &piece.flights).map(|flight| flight.tokens()).collect()
}

/// Delivers a batch: the vector of a sequence is its first id.
fn compute(queue: &Queue, batch: &Batch) {
    for flight in batch.pieces.iter().flat_map(|piece| &piece.flights) {
        let vector = vec![flight.sequence().ids[0] as f32];
        flight.land().into_iter().for_each(|passenger| passenger.job.deliver(passenger.index, vector.clone()));
        queue.landed([flight]);
    }
    queue.ended(batch.class);
}

#[test]
fn a_wrong_estimate_is_corrected() {
    let bench = Bench::new(800, 512);
    let context = || RequestContext::new(Principal::anonymous());
    let low = bench.submit_sequences(DOCUMENT, bench.sequences(&[50]), 5, context()).unwrap();
    assert_eq!(bench.waiting(), 50);
    let mut large = bench.submit_sequences(DOCUMENT, bench.sequences(&[700]), 5, context()).unwrap();
    assert!(matches!(large.answer.try_recv().unwrap(), Err(Error::ResourceExhausted { .. })));
    assert_eq!(bench.waiting(), 50);
    let high = bench.submit_sequences(DOCUMENT, bench.sequences(&[1]), 100, context()).unwrap();
    assert_eq!(bench.waiting(), 51);
    drop((low, large, high));
    assert_eq!(bench.waiting(), 0);
}

#[test]
fn who_leaves_while_a_worker_has_the_errand_in_hand_leaves_no_reservation() {
    let bench = Bench::new(800, 512);
    let context = || RequestContext::new(Principal::anonymous());
    // What the worker does with the errand afterwards: it has finished its step, it has not, it sees that it is over.
    for afterwards in 0..3 {
        let (job, _answer) = Job::new(Arc::clone(&bench.station), DOCUMENT, 700, context(), Cancellation::default());
        let errand = Errand::new(job, 700, bench.sequences(&[700]), |_| 1, |one: &Prepared| Ok(one.clone()));
        let ticket = bench.queue.submit(errand).unwrap();
        let Some(Work::Tokenise(errand)) = bench.queue.take() else { panic!("an errand waits") };
        assert!(bench.submit(DOCUMENT, &[100]).is_err(), "the reservation fills the queue");
        drop(ticket);
        assert_eq!(bench.waiting(), 0);
        let next = bench.submit(DOCUMENT, &[100]).expect("nothing waits");
        match afterwards {
            0 => bench.queue.enter(&errand, bench.sequences(&[700])),
            1 => bench.queue.resume(errand),
            _ => bench.queue.abandon(&errand),
        }
        assert_eq!(bench.waiting(), 100, "nothing is given back twice");
        drop(next);
        assert_eq!(bench.waiting(), 0);
    }
}

#[test]
fn a_document_request_that_cannot_be_in_time_is_refused() {
    let bench = Bench::new(100_000, 512);
    let within = |seconds| {
        let deadline = std::time::Instant::now() + Duration::from_secs(seconds);
        RequestContext::new(Principal::anonymous()).with_deadline(Some(deadline))
    };
    let submit =
        |class, tokens, seconds| bench.submit_sequences(class, bench.sequences(&[tokens]), tokens, within(seconds));
    let _first = submit(DOCUMENT, 10_000, 1).unwrap();
    let _second = submit(DOCUMENT, 1_000, 1).expect("nothing was measured");
    bench.station.speed.record(1_000, Duration::from_secs(1));
    let refused = submit(DOCUMENT, 10_000, 15).err().unwrap();
    let Error::ResourceExhausted { what, retry_after: Some(retry_after) } = refused else { panic!("{refused:?}") };
    assert!(
        what.starts_with("the texts cannot be embedded before the deadline: with what waits before them they take")
    );
    assert!(retry_after > Duration::from_secs(5) && retry_after < Duration::from_secs(7), "{retry_after:?}");
    let _in_time = submit(DOCUMENT, 10_000, 25).unwrap();
    let _small = submit(DOCUMENT, 500, 4).expect("a small request waits for a part of the large ones only");
    let _query = submit(QUERY, 10_000, 1).expect("queries go before all that");
    bench.queue.close();
}

#[test]
fn requests_of_a_class_take_turns() {
    let bench = Bench::new(100_000, 20);
    let requests = [bench.submit(DOCUMENT, &[10; 5]).unwrap(), bench.submit(DOCUMENT, &[10]).unwrap()];
    // The small one shares the second pass.
    assert_eq!(bench.owners(&requests, 3), [vec![0], vec![1, 0], vec![0]]);
}

#[test]
fn a_small_request_never_waits_for_a_large_one() {
    let bench = Bench::new(100_000, 500);
    let mut requests: Vec<Request> = (0..3).map(|_| bench.submit(DOCUMENT, &[500; 5]).unwrap()).collect();
    assert_eq!(bench.owners(&requests, 1), [[0]]);
    requests.extend((0..3).map(|_| bench.submit(DOCUMENT, &[500]).unwrap()));
    // Small ones and large ones alternate, and the large ones take turns.
    assert_eq!(bench.owners(&requests, 8), [[3], [1], [4], [2], [5], [0], [1], [2]]);
}

#[test]
fn small_queries_are_not_held_up_by_sequences_of_a_large_one() {
    let bench = Bench::new(100_000, 500);
    let requests = [bench.submit(QUERY, &[100; 30]).unwrap(), bench.submit(QUERY, &[10]).unwrap()];
    assert_eq!(bench.owners(&requests, 2), [[1], [0]]);
    assert!(matches!(bench.take().interruption(), Some(Interruption::SmallQueries)));
}

#[test]
fn a_pass_takes_sequences_of_similar_length_and_the_oldest_first() {
    let bench = Bench::new(100_000, 100);
    let _requests = [
        bench.submit(DOCUMENT, &[20, 40, 22]).unwrap(),
        bench.submit(DOCUMENT, &[10, 90]).unwrap(),
        bench.submit(DOCUMENT, &[38]).unwrap(),
    ];
    // 40 is the oldest request's longest, 38 is nearest to it, and 22 is what still fits.
    assert_eq!(lengths(&bench.take()), [40, 22, 38]);
    // The request that got nothing is the oldest now; 10 is what fits beside its 90.
    assert_eq!(lengths(&bench.take()), [90, 10]);
    assert_eq!(lengths(&bench.take()), [20]);
    assert_eq!(bench.waiting(), 0);
}

#[test]
fn a_batch_belongs_to_one_encoder() {
    let mut bench = Bench::new(100_000, 100);
    let first = bench.submit(DOCUMENT, &[10]).unwrap();
    let own = std::mem::replace(&mut bench.station, station());
    let other = bench.submit(DOCUMENT, &[10]).unwrap();
    bench.station = own;
    let third = bench.submit(DOCUMENT, &[10]).unwrap();
    assert_eq!(bench.owners(&[first, other, third], 2), [vec![0, 2], vec![1]]);
}

#[test]
fn who_is_gone_or_late_is_dropped_at_the_door() {
    let bench = Bench::new(100_000, 512);
    let context = RequestContext::new(Principal::anonymous());
    let mut gone = bench.submit_sequences(QUERY, bench.sequences(&[10]), 10, context.clone()).unwrap();
    let soon = std::time::Instant::now() + Duration::from_millis(5);
    let late = RequestContext::new(Principal::anonymous()).with_deadline(Some(soon));
    let mut late = bench.submit_sequences(QUERY, bench.sequences(&[10]), 10, late).unwrap();
    let alive = bench.submit(QUERY, &[10]).unwrap();
    context.cancellation().cancel();
    std::thread::sleep(Duration::from_millis(10));
    let batch = bench.take();
    assert_eq!(batch.pieces.len(), 1);
    assert!(Arc::ptr_eq(&batch.pieces[0].owner, &alive.job));
    assert_eq!(gone.answer.try_recv().unwrap(), Err(Error::Cancelled));
    assert!(matches!(late.answer.try_recv().unwrap(), Err(Error::DeadlineExceeded(_))));
    assert_eq!((bench.waiting(), bench.queue.flights()), (0, 1), "but for the one that runs");
}

#[test]
fn a_joined_sequence_counts_once_and_outlives_its_owner() {
    let bench = Bench::new(100_000, 512);
    let context = || RequestContext::new(Principal::anonymous());
    let mut sequences = bench.sequences(&[10, 20, 30]);
    sequences.push(sequences[0].clone());
    let owner = bench.submit_sequences(DOCUMENT, sequences.clone(), 70, context()).unwrap();
    assert_eq!(bench.waiting(), 60, "the same sequence twice in one request");
    let mut joined = bench.submit_sequences(DOCUMENT, sequences[..2].to_vec(), 30, context()).unwrap();
    assert_eq!(bench.waiting(), 60);
    let mut query = bench.submit_sequences(QUERY, sequences[..1].to_vec(), 10, context()).unwrap();
    assert_eq!(bench.waiting(), 70, "a query does not wait in the turn of documents");
    compute(&bench.queue, &bench.take());
    assert!(query.answer.try_recv().unwrap().is_ok());

    drop(owner.ticket);
    assert_eq!(bench.waiting(), 30, "what nobody else wants has left");
    compute(&bench.queue, &bench.take());
    let vectors = joined.answer.try_recv().unwrap().unwrap();
    let expected = sequences[..2].iter().map(|one| Computed {
        vector: vec![one.ids[0] as f32],
        tokens: one.ids.len(),
        truncated: false,
    });
    assert_eq!(vectors, expected.collect::<Vec<_>>());
    assert_eq!((bench.waiting(), bench.queue.flights()), (0, 0));
}

#[test]
fn closing_answers_everybody() {
    let bench = Bench::new(100_000, 512);
    let mut waiting = bench.submit(DOCUMENT, &[10]).unwrap();
    bench.queue.close();
    assert_eq!(waiting.answer.try_recv().unwrap(), Err(stopping()));
    assert!(bench.queue.take().is_none());
    assert_eq!(bench.submit(DOCUMENT, &[10]).err(), Some(stopping()));
    assert_eq!((bench.waiting(), bench.queue.flights()), (0, 0));
}

proptest! {
    /// Every sequence is handed out exactly once, in passes within the budget; the oldest request gets a place in each pass
    /// of its queue; answers are in input order; who leaves takes along what nobody else wants; and in the end no tokens
    /// wait.
    #[test]
    fn everything_is_handed_out_once(
        requests in prop::collection::vec((any::<bool>(), prop::collection::vec(1_usize..60, 1..12), 0_u8..8), 1..40),
        budget in 16_usize..100,
        capacity in 1_024_usize..4_096,
    ) {
        let bench = Bench::new(capacity, budget);
        let mut staying = Vec::new();
        let mut total = 0;
        for (is_query, lengths, leaves) in &requests {
            let sequences = bench.sequences(lengths);
            let expected: Vec<f32> = sequences.iter().map(|one| one.ids[0] as f32).collect();
            let class = if *is_query { QUERY } else { DOCUMENT };
            let context = RequestContext::new(Principal::anonymous());
            let tokens = lengths.iter().sum::<usize>();
            match bench.submit_sequences(class, sequences, tokens, context) {
                Ok(request) if *leaves == 0 => drop(request.ticket),
                Ok(request) => {
                    staying.push((request, expected));
                    total += tokens;
                }
                Err(error) => {
                    let is_full = matches!(error, Error::ResourceExhausted { .. });
                    prop_assert!(is_full, "{error}");
                }
            }
            prop_assert!(bench.waiting() <= capacity + 2 * 12 * 60);
        }
        prop_assert_eq!(bench.waiting(), total);
        let mut handed_out = 0;
        while bench.waiting() > 0 {
            let batch = bench.take();
            prop_assert!(batch.tokens <= budget || batch.len() == 1);
            prop_assert_eq!(batch.tokens, lengths(&batch).iter().sum::<usize>());
            handed_out += batch.tokens;
            compute(&bench.queue, &batch);
        }
        prop_assert_eq!(handed_out, total);
        prop_assert_eq!(bench.queue.flights(), 0);
        for (mut request, expected) in staying {
            let computed = request.answer.try_recv().unwrap().unwrap();
            let vectors: Vec<f32> = computed.into_iter().map(|one| one.vector[0]).collect();
            prop_assert_eq!(vectors, expected, "in input order");
        }
    }

    /// However many requests come and go, one that stays in the queue gets its first pass after as many passes as there were
    /// requests before it, twice that where small and large ones alternate.
    #[test]
    fn nobody_starves(
        before in prop::collection::vec(prop::collection::vec(1_usize..60, 1..40), 0..20),
        after in prop::collection::vec(1_usize..60, 200),
    ) {
        let bench = Bench::new(1 << 20, 60);
        let _before: Vec<Request> = before.iter().map(|lengths| bench.submit(DOCUMENT, lengths).unwrap()).collect();
        let stays = bench.submit(DOCUMENT, &[59]).unwrap();
        let mut passes = 0;
        let mut later = Vec::new();
        for length in after {
            let batch = bench.take();
            passes += 1;
            if batch.pieces.iter().any(|piece| Arc::ptr_eq(&piece.owner, &stays.job)) {
                break;
            }
            later.push(bench.submit(DOCUMENT, &[length]).unwrap());
        }
        prop_assert!(passes <= 2 * (before.len() + 1), "{passes} passes");
    }
}
