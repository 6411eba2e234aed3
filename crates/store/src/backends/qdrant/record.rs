//! What the catalogue says of one collection of one tenant: which commits count.

use std::time::Instant;

use qdrant_client::qdrant::Filter;
use serde::{Deserialize, Serialize};
use toller_core::collection::VectorParams;
use toller_core::error::{Error, Result};
use toller_core::{CollectionName, Tenant};

use super::conditions::{any_of, at_most, is_number, is_one_of_numbers, is_text, more_than};
use super::entries::EntryKey;
use super::error::damaged;
use super::point::{ALIVE, BORN, DIED, INSTANCE, TENANT};

/// Version of the format; another one is not read.
const FORMAT: u32 = 1;

/// Numbers of failed commits that are remembered after their rows were cleared away, since a call that was under way may still
/// write one.
const MAX_ABORTED: usize = 64;

/// Kinds of entries.
pub(super) const VECTORS: &str = "vectors";
pub(super) const DOCUMENTS: &str = "documents";

/// The key of a collection's record.
pub(super) fn key_of(kind: &'static str, tenant: &Tenant, collection: &CollectionName) -> EntryKey {
    EntryKey { kind, tenant: tenant.clone(), name: collection.as_str().to_owned() }
}

/// The record of a collection.
///
/// Rows say with which commit they were born and with which they died. A row is there for who reads at commit n when it was
/// born by then, by a commit that did not fail, and has not died by then, by one that did not fail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct CollectionRecord {
    format: u32,
    /// How vectors are compared, and texts indexed.
    pub(super) params: VectorParams,
    /// Another one each time that the collection is made, so that rows of a dropped one are never seen again.
    pub(super) instance: String,
    /// The collection of the server that has the rows.
    pub(super) physical: String,
    /// The last commit.
    pub(super) committed: u64,
    /// The number that the next commit gets; none is given twice.
    pub(super) next: u64,
    /// Rows that are there at the last commit.
    pub(super) len: u64,
    /// Who may write now.
    pub(super) turn: Option<Turn>,
    /// Commits that failed.
    pub(super) aborted: Vec<Aborted>,
    /// Rows that died by this commit may be gone.
    pub(super) collected: u64,
    /// Is it being dropped? Then it is there for nobody.
    pub(super) dropped: bool,
}

/// A writer's turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Turn {
    /// Which writer, in which turn.
    pub(super) writer: String,
    /// The number of its commit.
    pub(super) number: u64,
    /// How often it was extended.
    pub(super) extended: u64,
    /// How long it lasts, from when it was taken or extended.
    pub(super) milliseconds: u64,
}

/// A commit that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Aborted {
    /// Its number.
    pub(super) number: u64,
    /// Were its rows cleared away?
    pub(super) swept: bool,
}

impl CollectionRecord {
    /// The record of a new collection.
    pub(super) fn new(params: VectorParams, instance: String, physical: String) -> Self {
        Self {
            format: FORMAT,
            params,
            instance,
            physical,
            committed: 0,
            next: 1,
            len: 0,
            turn: None,
            aborted: Vec::new(),
            collected: 0,
            dropped: false,
        }
    }

    /// Reads what [`Self::encode`] wrote.
    pub(super) fn decode(value: &str) -> Result<Self> {
        let record: Self = serde_json::from_str(value)
            .map_err(|fault| damaged(format!("of the catalogue cannot be read: {fault}")))?;
        if record.format != FORMAT {
            let found = record.format;
            return Err(damaged(format!("of the catalogue has format {found}, this build reads {FORMAT}")));
        }
        Ok(record)
    }

    /// As it stands in the catalogue.
    pub(super) fn encode(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|fault| Error::Internal(format!("a record cannot be written: {fault}")))
    }

    /// Is there anything at the last commit?
    pub(super) fn has_rows(&self) -> bool {
        self.len > 0 && !self.dropped
    }

    /// Notes that a commit failed.
    pub(super) fn abort(&mut self, number: u64) {
        self.aborted.push(Aborted { number, swept: false });
        let mut surplus = self.aborted.len().saturating_sub(MAX_ABORTED);
        self.aborted.retain(|aborted| {
            let goes = surplus > 0 && aborted.swept;
            surplus -= usize::from(goes);
            !goes
        });
    }

    /// Commits that failed and whose rows are to be cleared away: all that are remembered, when one was not yet, since a call of
    /// an earlier one may have come late.
    pub(super) fn to_sweep(&self) -> Vec<u64> {
        if self.aborted.iter().all(|aborted| aborted.swept) {
            return Vec::new();
        }
        self.aborted.iter().map(|aborted| aborted.number).collect()
    }

    /// What is there at the last commit.
    pub(super) fn snapshot(&self, tenant: &Tenant) -> Snapshot {
        Snapshot {
            tenant: tenant.clone(),
            instance: self.instance.clone(),
            physical: self.physical.clone(),
            params: self.params.clone(),
            number: self.committed,
            aborted: self.aborted.iter().map(|aborted| aborted.number).collect(),
            len: self.len,
            read_at: Instant::now(),
        }
    }
}

/// The rows of a collection at one commit.
#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    pub(super) tenant: Tenant,
    pub(super) instance: String,
    pub(super) physical: String,
    pub(super) params: VectorParams,
    pub(super) number: u64,
    aborted: Vec<u64>,
    /// How many rows.
    pub(super) len: u64,
    pub(super) read_at: Instant,
}

impl Snapshot {
    /// The filter that these rows pass, and no others.
    pub(super) fn filter(&self) -> Filter {
        let mut filter = self.of_the_instance();
        filter.must.push(at_most(BORN, self.number));
        let still_alive = more_than(DIED, self.number);
        if self.aborted.is_empty() {
            filter.must.push(still_alive);
        } else {
            filter.must.push(any_of(vec![still_alive, is_one_of_numbers(DIED, &self.aborted)]));
            filter.must_not.push(is_one_of_numbers(BORN, &self.aborted));
        }
        filter
    }

    /// The filter of those among them that nobody else has set an end to. One who is late with that changes nothing any more.
    pub(super) fn filter_of_unended(&self) -> Filter {
        let mut filter = self.filter();
        let mut ends = self.aborted.clone();
        ends.push(ALIVE);
        filter.must.push(is_one_of_numbers(DIED, &ends));
        filter
    }

    /// The filter of rows that died by this commit.
    pub(super) fn filter_of_dead(&self) -> Filter {
        let mut filter = self.of_the_instance();
        filter.must.push(at_most(DIED, self.number));
        if !self.aborted.is_empty() {
            filter.must_not.push(is_one_of_numbers(DIED, &self.aborted));
        }
        filter
    }

    /// The filter of rows that commits of these numbers wrote.
    pub(super) fn filter_of_born(&self, numbers: &[u64]) -> Filter {
        let mut filter = self.of_the_instance();
        filter.must.push(is_one_of_numbers(BORN, numbers));
        filter
    }

    /// The filter of rows that commits of these numbers ended.
    pub(super) fn filter_of_ended(&self, numbers: &[u64]) -> Filter {
        let mut filter = self.of_the_instance();
        filter.must.push(is_one_of_numbers(DIED, numbers));
        filter
    }

    /// The filter of all rows of the collection, of any commit.
    pub(super) fn of_the_instance(&self) -> Filter {
        let must = vec![is_text(TENANT, self.tenant.as_str()), is_text(INSTANCE, &self.instance)];
        Filter { must, ..Filter::default() }
    }

    /// The filter of the rows with a term.
    pub(super) fn with_term(&self, field: &str, term: u32) -> Filter {
        let mut filter = self.filter();
        filter.must.push(is_number(field, term.into()));
        filter
    }
}
