//! A change set on its way to the writer: checked, made into points and written down, some records at a time.

use std::sync::Arc;

use toller_core::error::Result;
use toller_core::{DocumentId, Record};

use super::disk_room::Promise;
use super::journal::{ChangedIds, Draft, EndedDraft};
use super::point::point_of;
use super::size;
use super::slot::Slot;
use crate::backends::checks::CheckedIds;

/// A change set whose records are still coming. Every method blocks.
#[derive(Debug)]
pub(super) struct Preparation {
    slot: Arc<Slot>,
    draft: Draft,
    ids: CheckedIds,
    /// For the points; none as long as there are none.
    promise: Option<Promise>,
}

impl Preparation {
    /// Begins one for a collection.
    pub(super) fn begin(slot: Arc<Slot>) -> Result<Self> {
        let draft = Draft::begin(slot.folder())?;
        Ok(Self { slot, draft, ids: CheckedIds::default(), promise: None })
    }

    /// Takes records to be written. O(length of their texts).
    ///
    /// # Errors
    /// `InvalidArgument`; `ResourceExhausted` when the disk has no room for what came so far, as a draft and as points.
    pub(super) fn take(&mut self, records: &[Record]) -> Result<()> {
        let description = &self.slot.description;
        self.ids.check(&description.params, records)?;
        let bytes: u64 = records.iter().map(|record| size::of_record(record, &description.params)).sum();
        let promise = match &mut self.promise {
            Some(promise) => promise,
            none => none.insert(self.slot.room().for_write(0)?),
        };
        promise.grow(bytes, bytes)?;
        let points = records.iter().map(|record| point_of(&description.tenant, record, &description.params));
        self.draft.write(&points.collect::<Result<Vec<_>>>()?)?;
        Ok(())
    }

    /// Ends it with the records to be removed, of which those that are written as well are not. With it comes the room that is
    /// promised to its points.
    pub(super) fn end(mut self, removed: Vec<DocumentId>) -> Result<(PreparedChanges, Option<Promise>)> {
        let removed: Vec<DocumentId> = self.ids.others(removed).into_iter().collect();
        let draft = self.draft.end(removed.iter(), self.slot.durability())?;
        let ids = ChangedIds { written: self.ids.into_ids().collect(), removed };
        if let Some(promise) = &mut self.promise {
            promise.settle(draft.bytes()?);
        }
        Ok((PreparedChanges { draft, ids }, self.promise))
    }
}

/// A change set that is written down, and not decided.
#[derive(Debug)]
pub(super) struct PreparedChanges {
    pub(super) draft: EndedDraft,
    pub(super) ids: ChangedIds,
}
