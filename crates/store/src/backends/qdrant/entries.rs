//! Small named entries with compare-and-swap, kept in one collection of the server.
//!
//! The server can write on a condition (`update_only` with a filter, `insert_only`), but does not say whether it did. So every
//! write carries a token of its own, the condition names the token that is to be replaced, and the writer looks afterwards
//! whether its token arrived. An entry remembers its last tokens, so that a write that was itself replaced before the look is
//! not taken for lost. A call that is made twice finds the condition no longer true, and does nothing the second time. The look is
//! also made where the write had no answer: it may have arrived.
//!
//! A removed entry first becomes a tombstone, by the same swap, and its point is deleted after that.

use std::collections::{BTreeSet, HashMap};

use qdrant_client::qdrant::value::Kind;
use qdrant_client::qdrant::{
    Condition, DeletePoints, DenseVector, Filter, GetPoints, NamedVectors, PointId, PointStruct, ScrollPoints,
    UpdateMode, UpsertPoints, Value as Stored, Vector as StoredVector, Vectors, WithPayloadSelector, WriteOrdering,
    WriteOrderingType, vector, vectors, with_payload_selector,
};
use toller_core::Tenant;
use toller_core::error::Result;
use uuid::Uuid;

use super::client::{Client, upsert_of};
use super::conditions::{all_that_pass, is_text};
use super::error::damaged;
use super::patience::Patience;
use super::point::{DENSE, TENANT, list, number, point_id, take_text, text, with_vectors};

/// Names in a payload.
pub(super) const KIND: &str = "kind";
const NAME: &str = "name";
pub(super) const TOKEN: &str = "token";
const RECENT: &str = "recent";
const VERSION: &str = "version";
const VALUE: &str = "value";
const REMOVED: &str = "removed";

/// Tokens that an entry remembers: so many swaps may come between a write and the look after it.
const REMEMBERED: usize = 32;

/// Entries that are read at once.
const PAGE: u32 = 256;

/// What an entry is found by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct EntryKey {
    /// What kind of entry.
    pub(super) kind: &'static str,
    /// Whose.
    pub(super) tenant: Tenant,
    /// Its name.
    pub(super) name: String,
}

impl EntryKey {
    fn point(&self) -> PointId {
        point_id(&[self.kind, self.tenant.as_str(), &self.name], 0)
    }
}

/// An entry as it was read or written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    /// Its name.
    pub(super) name: String,
    /// Grows with every write, and is not given to another state of the same name, removed ones included.
    pub(super) version: u64,
    /// What it holds.
    pub(super) value: String,
    token: String,
    recent: Vec<String>,
}

/// The entries in one collection of the server.
#[derive(Debug, Clone)]
pub(super) struct Entries {
    client: Client,
    collection: String,
}

impl Entries {
    /// Entries in a collection that is there.
    pub(super) fn new(client: Client, collection: String) -> Self {
        Self { client, collection }
    }

    /// The entry, or none.
    pub(super) async fn get(&self, patience: Patience<'_>, key: &EntryKey) -> Result<Option<Entry>> {
        Ok(self.read(patience, key).await?.filter(|found| !found.is_removed).map(|found| found.entry))
    }

    /// All entries of a kind, by name.
    pub(super) async fn list(&self, patience: Patience<'_>, kind: &str, tenant: &Tenant) -> Result<Vec<Entry>> {
        let must = vec![is_text(TENANT, tenant.as_str()), is_text(KIND, kind)];
        let mut entries = Vec::new();
        self.each(patience, must, |payload| {
            let found = Found::of(payload)?;
            if !found.is_removed {
                entries.push(found.entry);
            }
            Ok(())
        })
        .await?;
        entries.sort_by(|left: &Entry, right| left.name.cmp(&right.name));
        Ok(entries)
    }

    /// Every tenant with an entry of a kind. O(entries of that kind).
    pub(super) async fn tenants(&self, patience: Patience<'_>, kind: &str) -> Result<Vec<Tenant>> {
        let mut tenants = BTreeSet::new();
        self.each(patience, vec![is_text(KIND, kind)], |mut payload| {
            let tenant = take_text(&mut payload, TENANT)?;
            if !Found::of(payload)?.is_removed {
                tenants.insert(tenant);
            }
            Ok(())
        })
        .await?;
        let broken = |fault| damaged(format!("of the catalogue has a tenant that {fault}"));
        tenants.into_iter().map(|tenant| Tenant::new(&tenant).map_err(broken)).collect()
    }

    async fn each(
        &self,
        patience: Patience<'_>,
        must: Vec<Condition>,
        mut visit: impl FnMut(HashMap<String, Stored>) -> Result<()>,
    ) -> Result<()> {
        let filter = Filter { must, ..Filter::default() };
        let mut offset = None;
        loop {
            let request = ScrollPoints {
                collection_name: self.collection.clone(),
                filter: Some(filter.clone()),
                offset,
                limit: Some(PAGE),
                with_payload: with_everything(),
                with_vectors: with_vectors(Vec::new()),
                ..ScrollPoints::default()
            };
            let page = self.client.scroll(patience, request).await?;
            page.result.into_iter().try_for_each(|point| visit(point.payload))?;
            offset = page.next_page_offset;
            if offset.is_none() {
                return Ok(());
            }
        }
    }

    /// Writes an entry where the present state is still `expected`; none where it is not.
    pub(super) async fn swap(
        &self,
        patience: Patience<'_>,
        key: &EntryKey,
        expected: Option<&Entry>,
        value: String,
    ) -> Result<Option<Entry>> {
        let written = self.replace(patience, key, expected, value.clone(), false).await?;
        if written.is_some() || expected.is_some() {
            return Ok(written);
        }
        // What stands in the way may be a tombstone.
        match self.read(patience, key).await? {
            Some(found) if found.is_removed => self.replace(patience, key, Some(&found.entry), value, false).await,
            _ => Ok(None),
        }
    }

    /// Removes an entry where the present state is still `expected`; was it?
    pub(super) async fn remove(&self, patience: Patience<'_>, key: &EntryKey, expected: &Entry) -> Result<bool> {
        let Some(tombstone) = self.replace(patience, key, Some(expected), String::new(), true).await? else {
            return Ok(false);
        };
        let must = vec![is_text(TENANT, key.tenant.as_str()), is_text(TOKEN, &tombstone.token)];
        let request = DeletePoints {
            collection_name: self.collection.clone(),
            wait: Some(true),
            points: all_that_pass(Filter { must, ..Filter::default() }),
            ordering: strong(),
            ..DeletePoints::default()
        };
        // A tombstone that stays does no harm.
        if let Err(fault) = self.client.delete(patience, request).await {
            tracing::debug!(%fault, "the tombstone of an entry stays");
        }
        Ok(true)
    }

    async fn replace(
        &self,
        patience: Patience<'_>,
        key: &EntryKey,
        expected: Option<&Entry>,
        value: String,
        is_removed: bool,
    ) -> Result<Option<Entry>> {
        let token = Uuid::now_v7().to_string();
        let mut recent = expected.map(|entry| entry.recent.clone()).unwrap_or_default();
        recent.push(token.clone());
        let surplus = recent.len().saturating_sub(REMEMBERED);
        recent.drain(..surplus);
        let version = expected.map_or(0, |entry| entry.version).saturating_add(1).max(microseconds());
        let entry = Entry { name: key.name.clone(), version, value, token, recent };
        let (update_mode, update_filter) = match expected {
            None => (UpdateMode::InsertOnly, None),
            Some(old) => {
                let must = vec![is_text(TOKEN, &old.token)];
                (UpdateMode::UpdateOnly, Some(Filter { must, ..Filter::default() }))
            }
        };
        let request = UpsertPoints {
            ordering: strong(),
            update_filter,
            update_mode: Some(update_mode.into()),
            ..upsert_of(&self.collection, vec![point_of(key, &entry, is_removed)])
        };
        let sent = self.client.upsert(patience, request).await;
        let found = self.read(patience, key).await;
        if matches!(&found, Ok(Some(found)) if found.entry.recent.contains(&entry.token)) {
            return Ok(Some(entry));
        }
        // Of a call without an answer it is open whether it comes yet; what was answered did not.
        sent?;
        found.map(|_| None)
    }

    async fn read(&self, patience: Patience<'_>, key: &EntryKey) -> Result<Option<Found>> {
        let request = GetPoints {
            collection_name: self.collection.clone(),
            ids: vec![key.point()],
            with_payload: with_everything(),
            with_vectors: with_vectors(Vec::new()),
            ..GetPoints::default()
        };
        let points = self.client.get(patience, request).await?;
        let Some(mut point) = points.into_iter().next() else { return Ok(None) };
        let whose = take_text(&mut point.payload, TENANT)?;
        let kind = take_text(&mut point.payload, KIND)?;
        let found = Found::of(point.payload)?;
        let is_it = whose == key.tenant.as_str() && kind == key.kind && found.entry.name == key.name;
        Ok(is_it.then_some(found))
    }
}

/// An entry as it stands in the server.
struct Found {
    entry: Entry,
    is_removed: bool,
}

impl Found {
    fn of(mut payload: HashMap<String, Stored>) -> Result<Self> {
        let version = match payload.remove(VERSION).and_then(|value| value.kind) {
            Some(Kind::IntegerValue(version)) => version as u64,
            _ => return Err(damaged("has no version")),
        };
        let recent = match payload.remove(RECENT).and_then(|value| value.kind) {
            Some(Kind::ListValue(list)) => list.values.into_iter().filter_map(text_in).collect(),
            _ => return Err(damaged("has no list of tokens")),
        };
        let is_removed = matches!(payload.remove(REMOVED).and_then(|value| value.kind), Some(Kind::BoolValue(true)));
        let entry = Entry {
            name: take_text(&mut payload, NAME)?,
            version,
            value: take_text(&mut payload, VALUE)?,
            token: take_text(&mut payload, TOKEN)?,
            recent,
        };
        Ok(Self { entry, is_removed })
    }
}

fn text_in(value: Stored) -> Option<String> {
    match value.kind {
        Some(Kind::StringValue(text)) => Some(text),
        _ => None,
    }
}

fn point_of(key: &EntryKey, entry: &Entry, is_removed: bool) -> PointStruct {
    let payload = HashMap::from([
        (KIND.to_owned(), text(key.kind)),
        (TENANT.to_owned(), text(key.tenant.as_str())),
        (NAME.to_owned(), text(&entry.name)),
        (VERSION.to_owned(), number(entry.version)),
        (VALUE.to_owned(), text(&entry.value)),
        (TOKEN.to_owned(), text(&entry.token)),
        (RECENT.to_owned(), list(entry.recent.iter().map(|token| text(token)).collect())),
        (REMOVED.to_owned(), Stored { kind: Some(Kind::BoolValue(is_removed)) }),
    ]);
    PointStruct { id: Some(key.point()), payload, vectors: Some(placeholder()) }
}

/// Every point has a vector; nobody looks at this one.
fn placeholder() -> Vectors {
    let one = vector::Vector::Dense(DenseVector { data: vec![1.0] });
    let named = HashMap::from([(DENSE.to_owned(), StoredVector { vector: Some(one), ..Default::default() })]);
    Vectors { vectors_options: Some(vectors::VectorsOptions::Vectors(NamedVectors { vectors: named })) }
}

fn with_everything() -> Option<WithPayloadSelector> {
    Some(WithPayloadSelector { selector_options: Some(with_payload_selector::SelectorOptions::Enable(true)) })
}

/// All copies take such writes in the same order.
pub(super) fn strong() -> Option<WriteOrdering> {
    Some(WriteOrdering { r#type: WriteOrderingType::Strong.into() })
}

fn microseconds() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or_default()
}
