//! Reads of the rows of a collection at one commit.

use std::collections::{BTreeMap, BTreeSet};

use qdrant_client::qdrant::{PointId, RetrievedPoint, ScrollPoints, ScrollResponse, WithPayloadSelector};
use toller_core::error::{Error, Result};
use toller_core::vector_store::RecordSink;
use toller_core::{DocumentId, Filter, Record};

use super::client::Client;
use super::conditions::is_one_of_texts;
use super::patience::Patience;
use super::point::{ID, StoredVectors, dense_names, document_of, id_of, with_document, with_fields, with_vectors};
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
            self.each_page(filter, with_document(), dense_names(&self.snapshot.params), |points| {
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
            self.each_page(filter, with_fields(&[ID]), Vec::new(), |points| {
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
        self.each_page(self.filter(Some(filter)), with_document(), Vec::new(), |points| {
            ids.extend(matching(points, filter)?);
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
        vectors: Vec<String>,
        mut visit: impl FnMut(Vec<RetrievedPoint>) -> Result<()>,
    ) -> Result<()> {
        let mut offset = None;
        loop {
            let page = self.page(filter.clone(), with_payload.clone(), vectors.clone(), offset).await?;
            visit(page.result)?;
            offset = page.next_page_offset;
            if offset.is_none() {
                return Ok(());
            }
        }
    }

    /// Hands all records to a sink that may block, page by page; returns how many there were.
    pub(super) async fn pour(&self, mut sink: RecordSink) -> Result<u64> {
        let names = dense_names(&self.snapshot.params);
        let (mut offset, mut count) = (None, 0);
        loop {
            let page = self.page(self.snapshot.filter(), with_document(), names.clone(), offset).await?;
            let records = page.result.into_iter().map(|point| self.record_of(point)).collect::<Result<Vec<_>>>()?;
            count += records.len() as u64;
            let poured = tokio::task::spawn_blocking(move || sink(records).map(|()| sink));
            sink = poured.await.map_err(|fault| Error::Internal(format!("a snapshot ended early: {fault}")))??;
            offset = page.next_page_offset;
            if offset.is_none() {
                return Ok(count);
            }
        }
    }

    /// One page of the rows that pass a filter.
    pub(super) async fn page(
        &self,
        filter: ServerFilter,
        with_payload: Option<WithPayloadSelector>,
        vectors: Vec<String>,
        offset: Option<PointId>,
    ) -> Result<ScrollResponse> {
        let request = ScrollPoints {
            collection_name: self.snapshot.physical.clone(),
            filter: Some(filter),
            offset,
            limit: Some(PAGE),
            with_payload,
            with_vectors: with_vectors(vectors),
            ..ScrollPoints::default()
        };
        self.client.scroll(self.patience, request).await
    }

    /// The record of a point that came with its document and its dense vectors.
    pub(super) fn record_of(&self, point: RetrievedPoint) -> Result<Record> {
        StoredVectors::of(point.vectors).record(document_of(point.payload)?, &self.snapshot.params)
    }

    fn with_ids(&self, ids: &[DocumentId]) -> ServerFilter {
        let mut filter = self.snapshot.filter();
        filter.must.push(is_one_of_texts(ID, ids.iter().map(ToString::to_string).collect()));
        filter
    }
}

/// The ids of those among some points, which came with their documents, that match.
pub(super) fn matching(points: Vec<RetrievedPoint>, filter: &Filter) -> Result<Vec<DocumentId>> {
    let mut ids = Vec::new();
    for point in points {
        let document = document_of(point.payload)?;
        if filter.matches(&document.metadata) {
            ids.push(document.id.clone());
        }
    }
    Ok(ids)
}
