//! Reads and writes of rows within a turn, some at a time: between two calls the turn is made longer where that is due, so that a
//! change may be about any number of rows, and no call is about more of them than the server manages within one time limit.

use std::collections::{BTreeSet, HashMap};

use qdrant_client::qdrant::{
    DeletePoints, Filter as ServerFilter, PointId, PointStruct, PointsSelector, ScrollResponse, SetPayloadPoints,
    UpdateMode, UpsertPoints, WithPayloadSelector,
};
use toller_core::error::Result;
use toller_core::{DocumentId, Filter, RequestContext};

use super::client::{Client, upsert_of};
use super::conditions::{all_that_pass, has_one_of_ids, is_one_of_texts};
use super::point::{ALIVE, DIED, ID, Prepared, number, with_document, with_fields};
use super::record::Snapshot;
use super::rows::{IDS_AT_ONCE, Rows, matching};
use super::turn::OwnTurn;

/// Rows that one call writes.
const ROWS_AT_ONCE: usize = 256;

/// The rows of a collection, for its writer.
pub(super) struct TurnRows<'a, 't> {
    /// The connection.
    pub(super) client: &'a Client,
    /// What was there when the turn was taken.
    pub(super) snapshot: &'a Snapshot,
    /// The turn.
    pub(super) turn: &'a mut OwnTurn<'t>,
}

impl TurnRows<'_, '_> {
    /// The rows, for one call.
    async fn rows(&mut self) -> Result<Rows<'_>> {
        self.turn.extend().await?;
        Ok(Rows { client: self.client, snapshot: self.snapshot, patience: self.turn.patience() })
    }

    /// Which of the ids have a row.
    pub(super) async fn present(&mut self, ids: &[DocumentId]) -> Result<BTreeSet<DocumentId>> {
        let mut present = BTreeSet::new();
        for some_ids in ids.chunks(IDS_AT_ONCE) {
            present.extend(self.rows().await?.present(some_ids).await?);
        }
        Ok(present)
    }

    /// The ids of all rows that match, in no order, for one who waits.
    pub(super) async fn matching_ids(&mut self, filter: &Filter, context: &RequestContext) -> Result<Vec<DocumentId>> {
        let mut ids = Vec::new();
        let mut offset = None;
        loop {
            context.check("during the delete")?;
            let weaker = self.rows().await?.filter(Some(filter));
            let page = self.page(&weaker, with_document(), offset).await?;
            ids.extend(matching(page.result, filter)?);
            offset = page.next_page_offset;
            if offset.is_none() {
                return Ok(ids);
            }
        }
    }

    /// Writes rows that are born with the commit of the turn.
    pub(super) async fn put_new(&mut self, new: &[Prepared]) -> Result<()> {
        for some_rows in new.chunks(ROWS_AT_ONCE) {
            self.turn.extend().await?;
            let born = self.turn.number();
            let points = some_rows.iter().map(|row| row.point(&self.snapshot.tenant, &self.snapshot.instance, born));
            let points = points.collect::<Result<Vec<PointStruct>>>()?;
            // Should this call arrive twice, late, it must not bring back to life what was ended meanwhile.
            let update_mode = Some(UpdateMode::InsertOnly.into());
            let request = UpsertPoints { update_mode, ..upsert_of(&self.snapshot.physical, points) };
            self.client.upsert(self.turn.patience(), request).await?;
        }
        Ok(())
    }

    /// Ends the rows of these ids with the commit of the turn.
    pub(super) async fn end(&mut self, ids: &[DocumentId]) -> Result<()> {
        for some_ids in ids.chunks(IDS_AT_ONCE) {
            let mut filter = self.snapshot.filter_of_unended();
            filter.must.push(is_one_of_texts(ID, some_ids.iter().map(ToString::to_string).collect()));
            let died = self.turn.number();
            self.set_end(filter, died).await?;
        }
        Ok(())
    }

    /// Ends all rows with the commit of the turn.
    pub(super) async fn end_all(&mut self) -> Result<()> {
        let died = self.turn.number();
        self.set_ends(self.snapshot.filter_of_unended(), died).await
    }

    /// Clears away what failed commits left.
    pub(super) async fn sweep(&mut self, numbers: &[u64]) -> Result<()> {
        if numbers.is_empty() {
            return Ok(());
        }
        self.remove(self.snapshot.filter_of_born(numbers)).await?;
        self.set_ends(self.snapshot.filter_of_ended(numbers), ALIVE).await
    }

    async fn remove(&mut self, filter: ServerFilter) -> Result<()> {
        let mut offset = None;
        loop {
            let (points, next) = self.points(&filter, offset).await?;
            if let Some(points) = points {
                self.turn.extend().await?;
                let request = DeletePoints {
                    collection_name: self.snapshot.physical.clone(),
                    wait: Some(true),
                    points: Some(points),
                    ..DeletePoints::default()
                };
                self.client.delete(self.turn.patience(), request).await?;
            }
            offset = next;
            if offset.is_none() {
                return Ok(());
            }
        }
    }

    async fn set_ends(&mut self, filter: ServerFilter, died: u64) -> Result<()> {
        let mut offset = None;
        loop {
            let (points, next) = self.points(&filter, offset).await?;
            if let Some(points) = points {
                self.set_end_of(Some(points), died).await?;
            }
            offset = next;
            if offset.is_none() {
                return Ok(());
            }
        }
    }

    async fn set_end(&mut self, filter: ServerFilter, died: u64) -> Result<()> {
        self.set_end_of(all_that_pass(filter), died).await
    }

    async fn set_end_of(&mut self, points_selector: Option<PointsSelector>, died: u64) -> Result<()> {
        self.turn.extend().await?;
        let request = SetPayloadPoints {
            collection_name: self.snapshot.physical.clone(),
            wait: Some(true),
            payload: HashMap::from([(DIED.to_owned(), number(died))]),
            points_selector,
            ..SetPayloadPoints::default()
        };
        self.client.set_payload(self.turn.patience(), request).await
    }

    /// The points of one page of the rows that pass a filter, where there are any, and where the next page begins. Those that pass
    /// no longer when they are selected are not.
    async fn points(
        &mut self,
        filter: &ServerFilter,
        offset: Option<PointId>,
    ) -> Result<(Option<PointsSelector>, Option<PointId>)> {
        let page = self.page(filter, with_fields(&[ID]), offset).await?;
        let ids: Vec<PointId> = page.result.into_iter().filter_map(|point| point.id).collect();
        if ids.is_empty() {
            return Ok((None, page.next_page_offset));
        }
        let mut selected = filter.clone();
        selected.must.push(has_one_of_ids(ids));
        Ok((all_that_pass(selected), page.next_page_offset))
    }

    async fn page(
        &mut self,
        filter: &ServerFilter,
        with_payload: Option<WithPayloadSelector>,
        offset: Option<PointId>,
    ) -> Result<ScrollResponse> {
        self.rows().await?.page(filter.clone(), with_payload, Vec::new(), offset).await
    }
}
