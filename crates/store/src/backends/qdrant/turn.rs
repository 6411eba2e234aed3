//! Turns at writing to a collection: one writer at a time among all gateways.
//!
//! A turn is taken by a swap of the collection's record, and lasts a while unless it is extended. It comes with the number of a
//! commit, which nobody else ever gets. No clocks are compared: a writer that waits takes a turn for ended when it has seen it
//! unchanged for as long as it lasts, and whoever has the turn counted from before it was written. What the former writer wrote
//! without a commit then counts as a commit that failed.

use std::time::{Duration, Instant};

use toller_core::error::{Error, ResourceKind, Result};
use uuid::Uuid;

use super::entries::{Entries, Entry, EntryKey};
use super::patience::Patience;
use super::record::{CollectionRecord, Turn};

/// Waits between two looks at a turn of somebody else: from this long, longer with each look, up to this long. By chance, up to
/// twice that, so that not all look at once.
const LOOK_AGAIN: Duration = Duration::from_millis(8);
const LOOK_AGAIN_AT_MOST: Duration = Duration::from_millis(200);

/// How often a turn is asked for again when there was no answer.
const LOST_ANSWERS: u32 = 2;

/// A turn of this writer's.
#[derive(Debug)]
pub(super) struct OwnTurn<'a> {
    entries: &'a Entries,
    key: EntryKey,
    entry: Entry,
    /// The collection's record, as far as this writer knows; others change parts of it that are not the writer's.
    pub(super) record: CollectionRecord,
    turn: Turn,
    length: Duration,
    end: Instant,
}

impl<'a> OwnTurn<'a> {
    /// Waits for a turn of a length.
    ///
    /// # Errors
    /// `NotFound` when there is no such collection.
    pub(super) async fn take(entries: &'a Entries, key: &EntryKey, length: Duration) -> Result<Self> {
        let writer = Uuid::now_v7().to_string();
        let mut watched: Option<(Turn, Instant)> = None;
        let mut wait = LOOK_AGAIN;
        let mut first_try: Option<Instant> = None;
        let mut attempts_left = LOST_ANSWERS;
        loop {
            let began = Instant::now();
            let (entry, mut record) = read(entries, Patience::Background, key).await?;
            if let Some(turn) = record.turn.clone().filter(|turn| turn.writer == writer) {
                // An earlier attempt arrived, only its answer did not.
                let end = first_try.unwrap_or(began) + length;
                return Ok(Self { entries, key: key.clone(), entry, record, turn, length, end });
            }
            if let Some(other) = record.turn.take() {
                let since = match &watched {
                    Some((turn, since)) if *turn == other => *since,
                    _ => {
                        let now = Instant::now();
                        watched = Some((other.clone(), now));
                        wait = LOOK_AGAIN;
                        now
                    }
                };
                if since.elapsed() < Duration::from_millis(other.milliseconds) {
                    tokio::time::sleep(by_chance(wait)).await;
                    wait = (wait * 3 / 2).min(LOOK_AGAIN_AT_MOST);
                    continue;
                }
                tracing::warn!(
                    collection = key.name,
                    commit = other.number,
                    "a writer did not end its turn; it is taken over"
                );
                record.abort(other.number);
            }
            let milliseconds = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
            let turn = Turn { writer: writer.clone(), number: record.next, extended: 0, milliseconds };
            record.next = record.next.saturating_add(1);
            record.turn = Some(turn.clone());
            first_try.get_or_insert(began);
            match entries.swap(Patience::Background, key, Some(&entry), record.encode()?).await {
                Ok(Some(entry)) => {
                    return Ok(Self { entries, key: key.clone(), entry, record, turn, length, end: began + length });
                }
                Ok(None) => {}
                // It may have arrived, or arrive yet, and nobody else could write until such a turn ends.
                Err(Error::Unavailable(_)) if attempts_left > 0 => attempts_left -= 1,
                Err(fault) => return Err(fault),
            }
            tokio::time::sleep(by_chance(LOOK_AGAIN / 4)).await;
        }
    }

    /// The number of the commit.
    pub(super) fn number(&self) -> u64 {
        self.turn.number
    }

    /// How long calls of this turn may go on.
    pub(super) fn patience(&self) -> Patience<'static> {
        Patience::Until(self.end)
    }

    /// Makes the turn last longer where half of it is over.
    pub(super) async fn extend(&mut self) -> Result<()> {
        if self.end.saturating_duration_since(Instant::now()) > self.length / 2 {
            return Ok(());
        }
        let began = Instant::now();
        let mut turn = self.turn.clone();
        turn.extended += 1;
        self.change(|record| record.turn = Some(turn.clone())).await?;
        self.turn = turn;
        self.end = began + self.length;
        Ok(())
    }

    /// Makes the commit count, and ends the turn.
    pub(super) async fn commit(mut self, len: u64, swept: &[u64]) -> Result<()> {
        let number = self.number();
        let committed = self
            .change(|record| {
                record.committed = number;
                record.len = len;
                record.turn = None;
                for aborted in &mut record.aborted {
                    aborted.swept |= swept.contains(&aborted.number);
                }
            })
            .await;
        let Err(fault) = committed else { return Ok(()) };
        // The swap may have arrived though its answer did not.
        match read(self.entries, self.patience(), &self.key).await {
            Ok((_, record)) if record.instance == self.record.instance && has_committed(&record, number) => Ok(()),
            _ => {
                self.abort().await;
                Err(fault)
            }
        }
    }

    /// Ends the turn without a commit of rows.
    pub(super) async fn release(mut self, swept: &[u64]) -> Result<()> {
        self.change(|record| {
            record.turn = None;
            for aborted in &mut record.aborted {
                aborted.swept |= swept.contains(&aborted.number);
            }
        })
        .await
    }

    /// Ends the turn and says that its commit failed. Where that cannot be said, the next writer finds it out.
    pub(super) async fn abort(mut self) {
        let number = self.number();
        let noted = self
            .change(|record| {
                record.turn = None;
                record.abort(number);
            })
            .await;
        if let Err(fault) = noted {
            tracing::warn!(collection = self.key.name, commit = number, %fault, "the failure of a commit could not be noted");
        }
    }

    /// Changes the record while the turn is this writer's.
    async fn change(&mut self, change: impl Fn(&mut CollectionRecord)) -> Result<()> {
        loop {
            let mut record = self.record.clone();
            change(&mut record);
            let swapped = self.entries.swap(self.patience(), &self.key, Some(&self.entry), record.encode()?).await?;
            if let Some(entry) = swapped {
                self.entry = entry;
                self.record = record;
                return Ok(());
            }
            let (entry, record) = read(self.entries, self.patience(), &self.key).await?;
            if record.turn.as_ref() != Some(&self.turn) || record.instance != self.record.instance {
                return Err(Error::Aborted("another writer took over the collection; retry".to_owned()));
            }
            self.entry = entry;
            self.record = record;
        }
    }
}

fn has_committed(record: &CollectionRecord, number: u64) -> bool {
    record.committed >= number && record.aborted.iter().all(|aborted| aborted.number != number)
}

/// The record of a collection that is there.
pub(super) async fn read(
    entries: &Entries,
    patience: Patience<'_>,
    key: &EntryKey,
) -> Result<(Entry, CollectionRecord)> {
    if let Some(entry) = entries.get(patience, key).await? {
        let record = CollectionRecord::decode(&entry.value)?;
        if !record.dropped {
            return Ok((entry, record));
        }
    }
    Err(not_found(key))
}

pub(super) fn not_found(key: &EntryKey) -> Error {
    Error::NotFound { kind: ResourceKind::Collection, name: key.name.clone() }
}

/// A time that differs from writer to writer: once to twice as long as `wait`.
fn by_chance(wait: Duration) -> Duration {
    let chance = u32::from(Uuid::now_v7().as_bytes().last().copied().unwrap_or(0));
    wait + wait * chance / 256
}
