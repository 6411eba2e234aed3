//! Who may enter the queue, and what those are told who may not.

use std::time::Duration;

use toller_core::Error;
use toller_telemetry::metrics::RefusalReason;

use super::class::Class;

/// The part of the queue that documents leave to queries is one of this many.
const QUERY_PART: u32 = 8;
/// A request is refused when its work takes so many times the time that is left, by the measured speed: a little more than
/// once, since the estimate may be wrong.
const LATE: f64 = 1.1;
/// The least and greatest advice on when to come back.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(60));
/// The speed that a first advice assumes, in tokens per second.
const ASSUMED_SPEED: f64 = 2_000.0;

/// How much may wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Tokens in all.
    pub(super) capacity: usize,
}

/// Why a request was not taken.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Refusal {
    /// There is no room.
    Full {
        /// The class of the request.
        class: Class,
        /// Tokens of queries that wait.
        queries: usize,
        /// Tokens of documents that wait.
        documents: usize,
    },
    /// It would not be ready before its deadline.
    Late {
        /// How long it would take, with what waits before it.
        needed: Duration,
        /// How long it has.
        remaining: Duration,
    },
}

impl Room {
    /// What documents may fill.
    fn for_documents(self) -> usize {
        self.capacity - self.capacity / QUERY_PART as usize
    }

    /// Is there room for a request of `tokens` tokens, while so many of queries and documents wait? Documents may fill all
    /// but an eighth, so that a large import leaves room for queries, and each class only what the other one leaves. A
    /// request that alone is larger than that is taken when nothing of its class waits.
    pub(super) fn check(self, class: Class, tokens: usize, queries: usize, documents: usize) -> Result<(), Refusal> {
        let (waiting, part) = match class {
            Class::Document => (documents, self.for_documents().min(self.capacity.saturating_sub(queries))),
            Class::Query => (queries, self.capacity - documents.min(self.for_documents())),
        };
        if waiting == 0 || waiting + tokens <= part {
            return Ok(());
        }
        Err(Refusal::Full { class, queries, documents })
    }

    /// What a refused request is told; `speed` is that of all workers together, in tokens per second.
    pub(super) fn explain(self, refusal: &Refusal, speed: Option<f64>) -> Error {
        let (what, wait) = match refusal {
            Refusal::Full { class, queries, documents } => {
                let all = queries + documents;
                let wait = Duration::from_secs_f64(all as f64 / speed.unwrap_or(ASSUMED_SPEED));
                let what = match class {
                    Class::Document => format!(
                        "the embedding queue is full: {documents} tokens of documents and {queries} of queries wait, and \
                         documents may fill {} of its {} tokens",
                        self.for_documents(),
                        self.capacity
                    ),
                    Class::Query => format!("the embedding queue is full: {all} of {} tokens wait", self.capacity),
                };
                (what, wait)
            }
            Refusal::Late { needed, remaining } => {
                let what = format!(
                    "the texts cannot be embedded before the deadline: with what waits before them they take about {:.1} s, \
                     and {:.1} s are left; come back later, or with a later deadline",
                    needed.as_secs_f64(),
                    remaining.as_secs_f64()
                );
                (what, needed.saturating_sub(*remaining))
            }
        };
        Error::ResourceExhausted { what, retry_after: Some(wait.clamp(RETRY_AFTER.0, RETRY_AFTER.1)) }
    }
}

impl Refusal {
    /// Refuses what takes `needed` when only `remaining` is left.
    pub(super) fn if_late(needed: Duration, remaining: Duration) -> Result<(), Self> {
        if needed > remaining.mul_f64(LATE) { Err(Self::Late { needed, remaining }) } else { Ok(()) }
    }

    /// What metrics call it.
    pub(super) fn reason(&self) -> RefusalReason {
        match self {
            Self::Full { .. } => RefusalReason::QueueFull,
            Self::Late { .. } => RefusalReason::Deadline,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room { capacity: 800 };

    #[test]
    fn documents_leave_an_eighth_to_queries() {
        assert_eq!(ROOM.check(Class::Document, 1, 0, 699), Ok(()));
        let full = ROOM.check(Class::Document, 1, 50, 700).unwrap_err();
        assert_eq!(full, Refusal::Full { class: Class::Document, queries: 50, documents: 700 });
        assert_eq!(ROOM.check(Class::Query, 50, 50, 700), Ok(()));
        let full = ROOM.check(Class::Query, 51, 50, 700).unwrap_err();
        assert_eq!(full, Refusal::Full { class: Class::Query, queries: 50, documents: 700 });
        assert_eq!(ROOM.check(Class::Query, 700, 99, 0), Ok(()), "queries may fill what documents leave");
        assert_eq!(ROOM.check(Class::Document, 100, 600, 100), Ok(()));
        assert!(ROOM.check(Class::Document, 101, 600, 100).is_err(), "and documents what queries leave");
    }

    #[test]
    fn a_request_larger_than_the_queue_waits_alone() {
        assert_eq!(ROOM.check(Class::Document, 5_000, 100, 0), Ok(()));
        assert!(ROOM.check(Class::Document, 1, 0, 5_000).is_err());
        assert_eq!(ROOM.check(Class::Query, 100, 0, 5_000), Ok(()), "queries keep their part");
        assert!(ROOM.check(Class::Document, 5_000, 0, 1).is_err(), "not while another waits");
    }

    #[test]
    fn refusals_say_why_and_when_to_come_back() {
        let told = |refusal: Refusal, speed| match ROOM.explain(&refusal, speed) {
            Error::ResourceExhausted { what, retry_after: Some(retry_after) } => (what, retry_after),
            other => panic!("{other:?}"),
        };
        let (what, wait) = told(Refusal::Full { class: Class::Document, queries: 0, documents: 700 }, Some(1_000.0));
        assert_eq!(
            what,
            "the embedding queue is full: 700 tokens of documents and 0 of queries wait, and documents may fill 700 of its 800 \
             tokens"
        );
        assert_eq!(wait, Duration::from_millis(700));
        let (what, wait) = told(Refusal::Full { class: Class::Query, queries: 6, documents: 4 }, None);
        assert_eq!(what, "the embedding queue is full: 10 of 800 tokens wait");
        assert_eq!(wait, RETRY_AFTER.0);
        let late = Refusal::if_late(Duration::from_secs(90), Duration::from_secs(20)).unwrap_err();
        let (what, wait) = told(late, Some(1_000.0));
        assert_eq!(
            what,
            "the texts cannot be embedded before the deadline: with what waits before them they take about 90.0 s, and \
             20.0 s are left; come back later, or with a later deadline"
        );
        assert_eq!(wait, RETRY_AFTER.1);
        assert_eq!(Refusal::if_late(Duration::from_secs(11), Duration::from_secs(10)), Ok(()));
    }
}
