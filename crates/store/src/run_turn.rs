//! Turns at a collection for index runs: one run at a time, among all processes that share a catalogue.
//!
//! A turn is a record in the catalogue that its holder renews. No clocks are compared: who waits takes a turn for abandoned once it has
//! watched it unchanged for as long as a turn lasts, so that a process that was killed keeps nobody out for longer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use toller_core::catalog::{Expected, RecordKind, Versioned};
use toller_core::error::{Error, Result};
use toller_core::{Catalog, CollectionName, RequestContext};
use tracing::warn;
use uuid::Uuid;

use crate::targets::unhurried;

/// How turns go by.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// How long a turn lasts that is not renewed: several times longer than a catalogue takes for a swap.
    length: Duration,
    /// How often its holder renews it.
    renew_every: Duration,
    /// How often one who waits looks at it.
    look_every: Duration,
}

const PACE: Pace = Pace {
    length: Duration::from_secs(5),
    renew_every: Duration::from_secs(1),
    look_every: Duration::from_millis(100),
};

/// What an index run does where another one has the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RunConflict {
    /// It waits for its turn.
    #[default]
    Wait,
    /// It is refused.
    Refuse,
}

/// The record of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Turn {
    /// Id of the run.
    run: String,
    /// How often it was renewed.
    renewed: u64,
    /// Does it only sweep away what runs left? Then it is short, and waited for by everybody.
    #[serde(default)]
    is_sweep: bool,
}

/// A turn of this process's. Dropping it gives it back.
pub struct RunTurn {
    place: Place,
    /// None once the turn is lost.
    held: Arc<Mutex<Option<Held>>>,
    renewal: JoinHandle<()>,
}

/// A turn as it was renewed last.
#[derive(Debug, Clone, Copy)]
struct Held {
    /// Of its record.
    version: u64,
    /// Before the record was written: whoever watches it has not seen it for longer.
    renewed_at: Instant,
}

#[derive(Clone)]
struct Place {
    catalog: Arc<dyn Catalog>,
    context: RequestContext,
    collection: CollectionName,
    pace: Pace,
}

impl RunTurn {
    /// Waits for the turn, or refuses to.
    ///
    /// # Errors
    /// `Aborted` when another run has it and this one does not wait: it takes a few seconds to tell one that goes on from one that
    /// was killed. `DeadlineExceeded` and `Cancelled` of the context.
    pub(crate) async fn take(
        catalog: Arc<dyn Catalog>,
        context: &RequestContext,
        collection: &CollectionName,
        conflict: RunConflict,
    ) -> Result<Self> {
        let place = Place { catalog, context: unhurried(context), collection: collection.clone(), pace: PACE };
        Self::take_at(place, context, conflict, false).await
    }

    /// Waits for the turn, to sweep away what runs left: even who does not wait for runs waits for this.
    ///
    /// # Errors
    /// As the catalogue.
    pub(crate) async fn take_to_sweep(
        catalog: Arc<dyn Catalog>,
        context: &RequestContext,
        collection: &CollectionName,
    ) -> Result<Self> {
        let place = Place { catalog, context: unhurried(context), collection: collection.clone(), pace: PACE };
        Self::take_at(place, context, RunConflict::Wait, true).await
    }

    async fn take_at(place: Place, context: &RequestContext, conflict: RunConflict, is_sweep: bool) -> Result<Self> {
        let run = Uuid::now_v7().to_string();
        let mut watched: Option<(Turn, Instant)> = None;
        loop {
            context.check("while an index run waited for its turn")?;
            let expected = match place.look().await? {
                None => Expected::Absent,
                Some((version, turn)) => {
                    let since = match &watched {
                        Some((seen, since)) if *seen == turn => *since,
                        Some((seen, _))
                            if seen.run == turn.run && !turn.is_sweep && conflict == RunConflict::Refuse =>
                        {
                            return Err(place.taken());
                        }
                        _ => {
                            let now = Instant::now();
                            watched = Some((turn, now));
                            now
                        }
                    };
                    if since.elapsed() < place.pace.length {
                        tokio::time::sleep(place.pace.look_every).await;
                        continue;
                    }
                    Expected::Version(version)
                }
            };
            let renewed_at = Instant::now();
            let turn = Turn { run: run.clone(), renewed: 0, is_sweep };
            match place.swap(expected, &turn).await {
                Ok(version) => {
                    let held = Arc::new(Mutex::new(Some(Held { version, renewed_at })));
                    let renewal = tokio::spawn(renew(place.clone(), Arc::clone(&held), turn));
                    return Ok(Self { place, held, renewal });
                }
                Err(Error::Aborted(_)) => {}
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Is the turn still this run's? To be asked before what nobody else is to come in between.
    ///
    /// # Errors
    /// `Aborted` when another run took it, or may have, since this one did not renew it in time.
    pub fn check(&self) -> Result<()> {
        match *self.held.lock() {
            Some(held) if held.renewed_at.elapsed() < self.place.pace.length => Ok(()),
            _ => Err(Error::Aborted(format!(
                "another index run of collection \"{}\" took the turn of this one, which stood still for too long; run it again",
                self.place.collection
            ))),
        }
    }
}

impl Drop for RunTurn {
    fn drop(&mut self) {
        self.renewal.abort();
        let held = self.held.lock().take();
        // Outside a runtime, as in a process that ends, the record is left to whoever comes next.
        if let (Some(Held { version, .. }), Ok(runtime)) = (held, tokio::runtime::Handle::try_current()) {
            let place = self.place.clone();
            runtime.spawn(async move {
                match place.remove(version).await {
                    // A last renewal was on its way.
                    Err(Error::Aborted(_)) => {
                        warn!(collection = %place.collection, "the turn of an index run was not given back; the next run waits for its end");
                    }
                    Err(fault) => {
                        warn!(collection = %place.collection, %fault, "the turn of an index run could not be given back");
                    }
                    Ok(()) => {}
                }
            });
        }
    }
}

/// Renews the turn until it is lost.
async fn renew(place: Place, held: Arc<Mutex<Option<Held>>>, mut turn: Turn) {
    loop {
        tokio::time::sleep(place.pace.renew_every).await;
        let Some(last) = *held.lock() else { return };
        let renewed_at = Instant::now();
        turn.renewed += 1;
        match place.swap(Expected::Version(last.version), &turn).await {
            Ok(version) => *held.lock() = Some(Held { version, renewed_at }),
            Err(Error::Aborted(_)) => {
                *held.lock() = None;
                return;
            }
            Err(fault) => {
                warn!(collection = %place.collection, %fault, "the turn of an index run could not be renewed");
                if last.renewed_at.elapsed() >= place.pace.length {
                    *held.lock() = None;
                    return;
                }
            }
        }
    }
}

impl Place {
    async fn look(&self) -> Result<Option<(u64, Turn)>> {
        let name = self.collection.logical();
        let Some(Versioned { version, value, .. }) =
            self.catalog.get(&self.context, RecordKind::IndexRun, name).await?
        else {
            return Ok(None);
        };
        let turn = serde_json::from_slice(&value).map_err(|fault| {
            Error::Internal(format!("the turn of index runs of collection \"{name}\" cannot be read: {fault}"))
        })?;
        Ok(Some((version, turn)))
    }

    async fn swap(&self, expected: Expected, turn: &Turn) -> Result<u64> {
        let value = serde_json::to_vec(turn)
            .map_err(|fault| Error::Internal(format!("the turn of an index run cannot be written: {fault}")))?;
        self.catalog.swap(&self.context, RecordKind::IndexRun, self.collection.logical(), expected, value).await
    }

    async fn remove(&self, version: u64) -> Result<()> {
        self.catalog.remove(&self.context, RecordKind::IndexRun, self.collection.logical(), version).await
    }

    fn taken(&self) -> Error {
        Error::Aborted(format!(
            "another index run of collection \"{}\" is under way; wait for its end, or start this one so that it waits",
            self.collection
        ))
    }
}

#[cfg(test)]
mod tests {
    use toller_core::Principal;

    use super::*;
    use crate::MemoryStore;

    /// Renewed and looked at much more often than a turn lasts, so that a machine that stands still for a while ends none.
    const QUICK: Pace = Pace {
        length: Duration::from_secs(5),
        renew_every: Duration::from_millis(20),
        look_every: Duration::from_millis(2),
    };

    /// For turns that are to end by themselves.
    const SHORT: Pace = Pace { length: Duration::from_millis(500), ..QUICK };

    struct Room {
        catalog: Arc<dyn Catalog>,
        context: RequestContext,
        docs: CollectionName,
    }

    impl Room {
        fn new() -> Self {
            let context = RequestContext::new(Principal::anonymous());
            Self { catalog: MemoryStore::new().catalog, context, docs: CollectionName::new("docs").unwrap() }
        }

        async fn take(&self, conflict: RunConflict) -> Result<RunTurn> {
            self.take_at(QUICK, conflict).await
        }

        async fn take_at(&self, pace: Pace, conflict: RunConflict) -> Result<RunTurn> {
            RunTurn::take_at(self.place(pace), &self.context, conflict, false).await
        }

        fn place(&self, pace: Pace) -> Place {
            let (catalog, context) = (Arc::clone(&self.catalog), self.context.clone());
            Place { catalog, context, collection: self.docs.clone(), pace }
        }

        async fn record(&self) -> Option<Versioned> {
            self.catalog.get(&self.context, RecordKind::IndexRun, "docs").await.unwrap()
        }

        async fn write(&self, expected: Expected, turn: &Turn) {
            let value = serde_json::to_vec(turn).unwrap();
            self.catalog.swap(&self.context, RecordKind::IndexRun, "docs", expected, value).await.unwrap();
        }
    }

    #[tokio::test]
    async fn one_run_at_a_time_and_the_next_one_waits() {
        let room = Room::new();
        let first = room.take(RunConflict::Wait).await.unwrap();
        let (second, ()) = tokio::join!(room.take(RunConflict::Wait), async {
            tokio::time::sleep(QUICK.length + Duration::from_secs(1)).await;
            first.check().unwrap();
            drop(first);
        });
        second.unwrap().check().unwrap();
    }

    #[tokio::test]
    async fn one_that_does_not_wait_is_refused_while_the_other_goes_on() {
        let room = Room::new();
        let first = room.take(RunConflict::Refuse).await.unwrap();
        let refused = room.take(RunConflict::Refuse).await;
        assert!(matches!(refused.map(|_| ()), Err(Error::Aborted(_))));
        first.check().unwrap();
        drop(first);
        while room.record().await.is_some() {
            tokio::time::sleep(QUICK.look_every).await;
        }
        room.take(RunConflict::Refuse).await.unwrap();
    }

    #[tokio::test]
    async fn a_turn_of_a_run_that_was_killed_ends() {
        let room = Room::new();
        room.write(Expected::Absent, &Turn { run: "killed".to_owned(), renewed: 3, is_sweep: false }).await;
        let asked = Instant::now();
        let turn = room.take_at(SHORT, RunConflict::Refuse).await.unwrap();
        assert!(asked.elapsed() >= SHORT.length);
        turn.check().unwrap();
    }

    #[tokio::test]
    async fn who_lost_the_turn_is_told() {
        let room = Room::new();
        let turn = room.take(RunConflict::Wait).await.unwrap();
        loop {
            let version = room.record().await.unwrap().version;
            let value = serde_json::to_vec(&Turn { run: "other".to_owned(), renewed: 0, is_sweep: false }).unwrap();
            let expected = Expected::Version(version);
            // Its renewal may come in between.
            if room.catalog.swap(&room.context, RecordKind::IndexRun, "docs", expected, value).await.is_ok() {
                break;
            }
        }
        while turn.check().is_ok() {
            tokio::time::sleep(QUICK.look_every).await;
        }
        assert!(matches!(turn.check(), Err(Error::Aborted(_))));
        drop(turn);
        tokio::time::sleep(QUICK.renew_every).await;
        assert!(room.record().await.is_some(), "the turn of the other one is not given back");
    }

    #[tokio::test]
    async fn a_sweep_is_waited_for_by_who_waits_for_no_run() {
        let room = Room::new();
        let sweep = RunTurn::take_at(room.place(QUICK), &room.context, RunConflict::Wait, true).await.unwrap();
        let (refusing, ()) = tokio::join!(room.take(RunConflict::Refuse), async {
            tokio::time::sleep(3 * QUICK.look_every).await;
            drop(sweep);
        });
        refusing.unwrap().check().unwrap();
    }

    #[tokio::test]
    async fn a_turn_that_could_not_be_renewed_in_time_is_not_believed_in() {
        let room = Room::new();
        let turn = room.take_at(SHORT, RunConflict::Wait).await.unwrap();
        turn.renewal.abort();
        tokio::time::sleep(SHORT.length).await;
        assert!(matches!(turn.check(), Err(Error::Aborted(_))), "another may have it by now");
    }
}
