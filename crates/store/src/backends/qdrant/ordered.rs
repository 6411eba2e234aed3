//! Rows in the order of id bytes, from any id on, without reading those before it.
//!
//! The server orders by one number at a time. So rows are asked for in the order of the first word of their ids; where the
//! answer ends within rows of the same word, these are asked for by the next word, and so on. Rows that agree in all words
//! are read together.

use std::collections::VecDeque;

use qdrant_client::qdrant::{Direction, OrderBy, RetrievedPoint, ScrollPoints, StartFrom, start_from};
use toller_core::error::Result;
use toller_core::{DocumentId, Filter, Record};

use super::conditions::is_number;
use super::point::{dense_names, with_document, with_vectors};
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

/// Up to `limit` matching records from an id on, and the id of the next match.
pub(super) async fn scroll(
    rows: Rows<'_>,
    filter: Option<&Filter>,
    from: Option<&DocumentId>,
    limit: usize,
) -> Result<(Vec<Record>, Option<DocumentId>)> {
    let page = limit.saturating_add(1).clamp(MIN_PAGE, MAX_PAGE);
    let first_words = from.map(words_of);
    let is_wanted = |record: &Record| {
        from.is_none_or(|from| record.document.id >= *from)
            && filter.is_none_or(|filter| filter.matches(&record.document.metadata))
    };
    let mut records: Vec<Record> = Vec::new();
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
                points.into_iter().map(|(_, record)| record).collect()
            }
        };
        ready.sort_by(|left, right| left.document.id.cmp(&right.document.id));
        for record in ready.into_iter().filter(is_wanted) {
            if records.len() == limit {
                return Ok((records, Some(record.document.id.clone())));
            }
            records.push(record);
        }
    }
    Ok((records, None))
}

/// Where to begin among ids with these words: at the word of the first id where it begins with the same ones.
fn start_within(prefix: &[u64], first: Option<&[u64; WORDS]>) -> u64 {
    let same = first.is_some_and(|first| first.starts_with(prefix));
    first.filter(|_| same).and_then(|first| first.get(prefix.len()).copied()).unwrap_or(0)
}

/// The first rows of a part by one word, each with it.
async fn ask(
    rows: Rows<'_>,
    filter: Option<&Filter>,
    part: &Part,
    field: &str,
    page: usize,
) -> Result<Vec<(u64, Record)>> {
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
        with_payload: with_document(),
        with_vectors: with_vectors(dense_names(&rows.snapshot.params)),
        ..ScrollPoints::default()
    };
    let points = rows.client.scroll(rows.patience, request).await?.result;
    let with_word = |point: RetrievedPoint| {
        let record = rows.record_of(point)?;
        let word = words_of(&record.document.id).get(part.prefix.len()).copied().unwrap_or(0);
        Ok((word, record))
    };
    points.into_iter().map(with_word).collect()
}

/// All rows whose ids begin with the same words.
async fn all_of(rows: Rows<'_>, filter: Option<&Filter>, part: &Part) -> Result<Vec<Record>> {
    let mut pushed = rows.filter(filter);
    pushed.must.extend(FIELDS.iter().zip(&part.prefix).map(|(field, word)| is_number(field, *word)));
    let mut records = Vec::new();
    rows.each_page(pushed, with_document(), dense_names(&rows.snapshot.params), |points| {
        for point in points {
            records.push(rows.record_of(point)?);
        }
        Ok(())
    })
    .await?;
    Ok(records)
}
