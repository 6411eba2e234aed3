//! Marks that something of a collection is still to be swept away: they outlive a process that is killed before it comes to that.

use toller_core::catalog::{Expected, RecordKind};
use toller_core::error::{Error, Result};
use toller_core::{CollectionName, RequestContext};

use crate::record::CollectionRecords;

/// A mark as it was set. Setting it again makes another one of it, which only who sets it knows, and may clear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepMark(u64);

/// The mark of one collection: a record beside that of its index runs' turn.
pub(crate) struct SweepMarks<'a> {
    pub(crate) records: &'a CollectionRecords,
    pub(crate) collection: &'a CollectionName,
}

impl SweepMarks<'_> {
    /// No collection has such a name.
    fn name(&self) -> String {
        format!("{}@sweep", self.collection.logical())
    }

    pub(crate) async fn get(&self, context: &RequestContext) -> Result<Option<SweepMark>> {
        let mark = self.records.catalog.get(context, RecordKind::IndexRun, &self.name()).await?;
        Ok(mark.map(|mark| SweepMark(mark.version)))
    }

    /// Sets the mark, also where it is set.
    pub(crate) async fn set(&self, context: &RequestContext) -> Result<SweepMark> {
        loop {
            context.check("while it was noted what is to be swept away")?;
            let expected = match self.get(context).await? {
                Some(SweepMark(version)) => Expected::Version(version),
                None => Expected::Absent,
            };
            let (catalog, name) = (&self.records.catalog, self.name());
            match catalog.swap(context, RecordKind::IndexRun, &name, expected, Vec::new()).await {
                Ok(version) => return Ok(SweepMark(version)),
                // Another set or cleared it in between.
                Err(Error::Aborted(_)) => {}
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Clears the mark, unless it was set again since.
    pub(crate) async fn clear(&self, context: &RequestContext, SweepMark(version): SweepMark) -> Result<()> {
        match self.records.catalog.remove(context, RecordKind::IndexRun, &self.name(), version).await {
            Ok(()) | Err(Error::Aborted(_) | Error::NotFound { .. }) => Ok(()),
            Err(fault) => Err(fault),
        }
    }
}
