//! Rows in the order of id bytes, from any id on, without reading those before it.
//!
//! The server orders by one number at a time. So rows are asked for in the order of the first word of their ids; where the
//! answer ends within rows of the same word, these are asked for by the next word, and so on. Rows that agree in all words
//! are read together.

use std::collections::VecDeque;

use qdrant_client::qdrant::{
    Direction, OrderBy, RetrievedPoint, ScrollPoints, StartFrom, WithPayloadSelector, start_from,
};
use toller_core::collection::VectorParams;
use toller_core::error::Result;
use toller_core::{DocumentId, Filter, Record};

use super::conditions::is_number;
use super::point::{ID, dense_names, id_of, with_document, with_fields, with_vectors};
use super::rows::Rows;
use super::sort_key::{FIELDS, WORDS, words_of};

/// Fewest and most rows that are asked for at once.
const MIN_PAGE: usize = 32;
const MAX_PAGE: usize = 1024;

/// A part of the rows that is still to be read: those whose ids begin with some words, from a value of the next word on.
#[derive(Debug, Clone)]
struct Part {
    prefix: Vec<u64>,
    start: u64,
}

/// What is read of a row, in its order.
pub(super) trait Item: Sized + Send {
    /// Which fields are to come.
    fn fields() -> Option<WithPayloadSelector>;

    /// Which vectors are to come.
    fn vectors(params: &VectorParams) -> Vec<String>;

    /// What came.
    fn of(rows: Rows<'_>, point: RetrievedPoint) -> Result<Self>;

    /// The id of its row.
    fn id(&self) -> &DocumentId;
}

impl Item for Record {
    fn fields() -> Option<WithPayloadSelector> {
        with_document()
    }

    fn vectors(params: &VectorParams) -> Vec<String> {
        dense_names(params)
    }

    fn of(rows: Rows<'_>, point: RetrievedPoint) -> Result<Self> {
        rows.record_of(point)
    }

    fn id(&self) -> &DocumentId {
        &self.document.id
    }
}

impl Item for DocumentId {
    fn fields() -> Option<WithPayloadSelector> {
        with_fields(&[ID])
    }

    fn vectors(_: &VectorParams) -> Vec<String> {
        Vec::new()
    }

    fn of(_: Rows<'_>, mut point: RetrievedPoint) -> Result<Self> {
        id_of(&mut point.payload)
    }

    fn id(&self) -> &DocumentId {
        self
    }
}

/// Up to `limit` matching records from an id on, and the id of the next match.
pub(super) async fn scroll(
    rows: Rows<'_>,
    filter: Option<&Filter>,
    from: Option<&DocumentId>,
    limit: usize,
) -> Result<(Vec<Record>, Option<DocumentId>)> {
    let matches = |record: &Record| filter.is_none_or(|filter| filter.matches(&record.document.metadata));
    items(rows, filter, matches, from, limit).await
}

/// Up to `limit` ids from an id on. Nothing else of the rows is read.
pub(super) async fn ids(rows: Rows<'_>, from: Option<&DocumentId>, limit: usize) -> Result<Vec<DocumentId>> {
    Ok(items(rows, None, |_: &DocumentId| true, from, limit).await?.0)
}

async fn items<T: Item>(
    rows: Rows<'_>,
    filter: Option<&Filter>,
    matches: impl Fn(&T) -> bool,
    from: Option<&DocumentId>,
    limit: usize,
) -> Result<(Vec<T>, Option<DocumentId>)> {
    let page = limit.saturating_add(1).clamp(MIN_PAGE, MAX_PAGE);
    let first_words = from.map(words_of);
    let is_wanted = |item: &T| from.is_none_or(|from| item.id() >= from) && matches(item);
    let mut found: Vec<T> = Vec::new();
    let start = first_words.and_then(|words| words.first().copied()).unwrap_or(0);
    let mut parts = VecDeque::from([Part { prefix: Vec::new(), start }]);
    while let Some(part) = parts.pop_front() {
        let mut ready = match FIELDS.get(part.prefix.len()) {
            None => all_of(rows, filter, &part).await?,
            Some(field) => {
                let mut points = ask(rows, filter, &part, field, page).await?;
                let has_more = points.len() >= page;
                if has_more && let Some(last) = points.last().map(|(word, _)| *word) {
                    points.retain(|(word, _)| *word < last);
                    let mut prefix = part.prefix.clone();
                    prefix.push(last);
                    parts.push_front(Part { prefix: part.prefix, start: last.saturating_add(1) });
                    let within = start_within(&prefix, first_words.as_ref());
                    parts.push_front(Part { prefix, start: within });
                }
                points.into_iter().map(|(_, item)| item).collect()
            }
        };
        ready.sort_by(|left: &T, right| left.id().cmp(right.id()));
        for item in ready.into_iter().filter(is_wanted) {
            if found.len() == limit {
                return Ok((found, Some(item.id().clone())));
            }
            found.push(item);
        }
    }
    Ok((found, None))
}

/// Where to begin among ids with these words: at the word of the first id where it begins with the same ones.
fn start_within(prefix: &[u64], first: Option<&[u64; WORDS]>) -> u64 {
    let same = first.is_some_and(|first| first.starts_with(prefix));
    first.filter(|_| same).and_then(|first| first.get(prefix.len()).copied()).unwrap_or(0)
}

/// The first rows of a part by one word, each with it.
async fn ask<T: Item>(
    rows: Rows<'_>,
    filter: Option<&Filter>,
    part: &Part,
    field: &str,
    page: usize,
) -> Result<Vec<(u64, T)>> {
    let start = start_from::Value::Integer(part.start as i64);
    let order_by = OrderBy {
        key: field.to_owned(),
        direction: Some(Direction::Asc.into()),
        start_from: Some(StartFrom { value: Some(start) }),
    };
    let mut pushed = rows.filter(filter);
    pushed.must.extend(FIELDS.iter().zip(&part.prefix).map(|(field, word)| is_number(field, *word)));
    let request = ScrollPoints {
        collection_name: rows.snapshot.physical.clone(),
        filter: Some(pushed),
        limit: Some(page as u32),
        order_by: Some(order_by),
        with_payload: T::fields(),
        with_vectors: with_vectors(T::vectors(&rows.snapshot.params)),
        ..ScrollPoints::default()
    };
    let points = rows.client.scroll(rows.patience, request).await?.result;
    let with_word = |point: RetrievedPoint| {
        let item = T::of(rows, point)?;
        let word = words_of(item.id()).get(part.prefix.len()).copied().unwrap_or(0);
        Ok((word, item))
    };
    points.into_iter().map(with_word).collect()
}

/// All rows whose ids begin with the same words.
async fn all_of<T: Item>(rows: Rows<'_>, filter: Option<&Filter>, part: &Part) -> Result<Vec<T>> {
    let mut pushed = rows.filter(filter);
    pushed.must.extend(FIELDS.iter().zip(&part.prefix).map(|(field, word)| is_number(field, *word)));
    let mut found = Vec::new();
    rows.each_page(pushed, T::fields(), T::vectors(&rows.snapshot.params), |points| {
        for point in points {
            found.push(T::of(rows, point)?);
        }
        Ok(())
    })
    .await?;
    Ok(found)
}
