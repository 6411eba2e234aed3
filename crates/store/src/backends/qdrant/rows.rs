//! Reads of the rows of a collection at one commit.

use std::collections::{BTreeMap, BTreeSet};

use qdrant_client::qdrant::{RetrievedPoint, ScrollPoints, WithPayloadSelector};
use toller_core::error::Result;
use toller_core::{DocumentId, Filter, Record};

use super::client::Client;
use super::conditions::is_one_of_texts;
use super::patience::Patience;
use super::point::{DENSE, ID, StoredVectors, document_of, id_of, with_document, with_fields, with_vectors};
use super::pushdown::weaken;
use super::record::Snapshot;

/// Rows that are read at once, between two looks at the caller's deadline.
const PAGE: u32 = 1024;

/// Ids that one condition lists.
pub(super) const IDS_AT_ONCE: usize = 256;

/// Filter of the server.
type ServerFilter = qdrant_client::qdrant::Filter;

/// The rows of a snapshot, for one who waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows<'a> {
    /// The connection.
    pub(super) client: &'a Client,
    /// What is there.
    pub(super) snapshot: &'a Snapshot,
    /// Who waits.
    pub(super) patience: Patience<'a>,
}

impl Rows<'_> {
    /// The rows that pass what of a filter the server can be given: at least all that match.
    pub(super) fn filter(&self, filter: Option<&Filter>) -> ServerFilter {
        let mut pushed = self.snapshot.filter();
        pushed.must.extend(filter.and_then(weaken));
        pushed
    }

    /// Records by id.
    pub(super) async fn get(&self, ids: &[DocumentId]) -> Result<BTreeMap<DocumentId, Record>> {
        let mut records = BTreeMap::new();
        for some_ids in ids.chunks(IDS_AT_ONCE) {
            let filter = self.with_ids(some_ids);
            self.each_page(filter, with_document(), &[DENSE], |points| {
                for point in points {
                    let record = self.record_of(point)?;
                    records.insert(record.document.id.clone(), record);
                }
                Ok(())
            })
            .await?;
        }
        Ok(records)
    }

    /// Which of the ids have a row.
    pub(super) async fn present(&self, ids: &[DocumentId]) -> Result<BTreeSet<DocumentId>> {
        let mut present = BTreeSet::new();
        for some_ids in ids.chunks(IDS_AT_ONCE) {
            let filter = self.with_ids(some_ids);
            self.each_page(filter, with_fields(&[ID]), &[], |points| {
                for mut point in points {
                    present.insert(id_of(&mut point.payload)?);
                }
                Ok(())
            })
            .await?;
        }
        Ok(present)
    }

    /// The ids of all rows that match, in no order.
    pub(super) async fn matching_ids(&self, filter: &Filter) -> Result<Vec<DocumentId>> {
        let mut ids = Vec::new();
        self.each_page(self.filter(Some(filter)), with_document(), &[], |points| {
            for point in points {
                let document = document_of(point.payload)?;
                if filter.matches(&document.metadata) {
                    ids.push(document.id.clone());
                }
            }
            Ok(())
        })
        .await?;
        Ok(ids)
    }

    /// Hands all rows that pass a filter to `visit`, page by page.
    pub(super) async fn each_page(
        &self,
        filter: ServerFilter,
        with_payload: Option<WithPayloadSelector>,
        vectors: &[&str],
        mut visit: impl FnMut(Vec<RetrievedPoint>) -> Result<()>,
    ) -> Result<()> {
        let mut offset = None;
        loop {
            let request = ScrollPoints {
                collection_name: self.snapshot.physical.clone(),
                filter: Some(filter.clone()),
                offset,
                limit: Some(PAGE),
                with_payload: with_payload.clone(),
                with_vectors: with_vectors(vectors),
                ..ScrollPoints::default()
            };
            let page = self.client.scroll(self.patience, request).await?;
            visit(page.result)?;
            offset = page.next_page_offset;
            if offset.is_none() {
                return Ok(());
            }
        }
    }

    /// The record of a point that came with its document and its dense vector.
    pub(super) fn record_of(&self, point: RetrievedPoint) -> Result<Record> {
        let vector = StoredVectors::of(point.vectors).dense(self.snapshot.params.metric)?;
        Ok(Record { document: document_of(point.payload)?, vector })
    }

    fn with_ids(&self, ids: &[DocumentId]) -> ServerFilter {
        let mut filter = self.snapshot.filter();
        filter.must.push(is_one_of_texts(ID, ids.iter().map(ToString::to_string).collect()));
        filter
    }
}
