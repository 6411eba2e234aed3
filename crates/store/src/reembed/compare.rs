//! Compares both generations of a collection, documents and ids, and mends what differs.

use std::collections::BTreeMap;
use std::sync::Arc;

use toller_core::error::{Error, Result};
use toller_core::vector_store::{ScrollPage, Selector};
use toller_core::{DocumentId, Record};
use tracing::warn;

use super::task::{Reembedding, Sides};
use crate::operations::Halt;

/// Documents that are compared while writers wait, for each that is copied at once: comparing is that much faster than writing.
const PAGE_PER_BATCH: usize = 4;

/// How often one page is mended before it is given up.
const MAX_REPAIRS: usize = 16;

/// What a page says of both sides.
struct Compared {
    /// Documents that the target lacks, or has otherwise.
    stale: Vec<Record>,
    /// Ids that only the target has.
    surplus: Vec<DocumentId>,
    /// Where the next page begins; none when this was the last one.
    next: Option<DocumentId>,
}

impl Reembedding {
    /// Returns when every page has agreed once.
    pub(super) async fn compare_all(&mut self, sides: &Sides) -> Result<(), Halt> {
        let mut from = None;
        let mut repairs = 0;
        loop {
            self.log.check()?;
            let Compared { stale, surplus, next } = self.compare_page(sides, from.as_ref()).await?;
            if stale.is_empty() && surplus.is_empty() {
                let Some(next) = next else { return Ok(()) };
                from = Some(next);
                repairs = 0;
                continue;
            }
            repairs += 1;
            if repairs > MAX_REPAIRS {
                return Err(Halt::Failed(Error::Aborted(format!(
                    "documents of collection \"{}\" differ between its old and its new vectors each time they are looked at; is it written through another server at the same time?",
                    self.name
                ))));
            }
            warn!(
                operation = self.log.id(),
                lacking = stale.len(),
                surplus = surplus.len(),
                "a write reached one generation of a collection only; it is mended"
            );
            self.copy(sides, stale).await?;
        }
    }

    /// Compares from `from` on, and takes away what only the target has.
    async fn compare_page(&mut self, sides: &Sides, from: Option<&DocumentId>) -> Result<Compared, Halt> {
        let fence = Arc::clone(&self.fence);
        let _exclusive = fence.exclusive().await;
        self.check_mine().await?;
        let store = &self.foundation.store;
        let page = self.foundation.reembed_batch.saturating_mul(PAGE_PER_BATCH);
        let source = store.scroll(&self.context, &sides.source, None, from, page).await?;
        let target = store.scroll(&self.context, &sides.target, None, from, page).await?;
        let compared = compared(source, target);
        if !compared.surplus.is_empty() {
            store.delete(&self.context, &sides.target, &Selector::Ids(compared.surplus.clone())).await?;
        }
        Ok(compared)
    }
}

/// Compares as far as both pages reach.
fn compared(source: ScrollPage, target: ScrollPage) -> Compared {
    let next = match (source.next, target.next) {
        (Some(source), Some(target)) => Some(source.min(target)),
        (source, target) => source.or(target),
    };
    let within = |record: &Record| next.as_ref().is_none_or(|next| record.document.id < *next);
    let mut found: BTreeMap<DocumentId, Record> =
        target.records.into_iter().filter(within).map(|record| (record.document.id.clone(), record)).collect();
    let mut stale = Vec::new();
    for record in source.records.into_iter().filter(within) {
        let is_same = |copy: Record| copy.document == record.document && copy.named.keys().eq(record.named.keys());
        if !found.remove(&record.document.id).is_some_and(is_same) {
            stale.push(record);
        }
    }
    Compared { stale, surplus: found.into_keys().collect(), next }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use toller_core::{Document, Metadata, Metric, Vector};

    use super::*;

    fn id(id: &str) -> DocumentId {
        DocumentId::new(id).unwrap()
    }

    fn page(documents: &[(&str, &str)], next: Option<&str>) -> ScrollPage {
        let record = |(name, text): &(&str, &str)| {
            let document = Document { id: id(name), page_content: (*text).to_owned(), metadata: Metadata::default() };
            Record::new(Arc::new(document), Vector::new(vec![1.0], Metric::Dot).unwrap())
        };
        ScrollPage { records: documents.iter().map(record).collect(), next: next.map(id) }
    }

    fn differences(source: ScrollPage, target: ScrollPage) -> (Vec<String>, Vec<String>, Option<String>) {
        let Compared { stale, surplus, next } = compared(source, target);
        let stale = stale.iter().map(|record| record.document.id.to_string()).collect();
        (stale, surplus.iter().map(ToString::to_string).collect(), next.map(|next| next.to_string()))
    }

    #[test]
    fn what_differs_is_found_as_far_as_both_pages_reach() {
        let same = page(&[("a", "1"), ("b", "2")], None);
        assert_eq!(differences(same.clone(), same), (vec![], vec![], None));
        let source = page(&[("a", "1"), ("b", "new"), ("d", "4")], Some("e"));
        let target = page(&[("b", "old"), ("c", "3")], Some("d"));
        let expected = (vec!["a".to_owned(), "b".to_owned()], vec!["c".to_owned()], Some("d".to_owned()));
        assert_eq!(differences(source, target), expected, "nothing is said of d yet");
        let expected = (vec![], vec!["x".to_owned()], None);
        assert_eq!(differences(page(&[], None), page(&[("x", "1")], None)), expected);
        let expected = (vec!["a".to_owned()], vec![], Some("b".to_owned()));
        assert_eq!(differences(page(&[("a", "1")], Some("b")), page(&[], None)), expected);
    }
}
