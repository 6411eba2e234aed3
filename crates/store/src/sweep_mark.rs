//! Marks that something of a collection is still to be swept away: they outlive a process that is killed before it comes to that.

use toller_core::catalog::{Expected, RecordKind};
use toller_core::error::{Error, Result};
use toller_core::{CollectionName, RequestContext};

use crate::record::CollectionRecords;

/// The mark of one collection: a record beside that of its index runs' turn.
pub(crate) struct SweepMark<'a> {
    pub(crate) records: &'a CollectionRecords,
    pub(crate) collection: &'a CollectionName,
}

impl SweepMark<'_> {
    /// No collection has such a name.
    fn name(&self) -> String {
        format!("{}@sweep", self.collection.logical())
    }

    pub(crate) async fn is_set(&self, context: &RequestContext) -> Result<bool> {
        Ok(self.records.catalog.get(context, RecordKind::IndexRun, &self.name()).await?.is_some())
    }

    pub(crate) async fn set(&self, context: &RequestContext) -> Result<()> {
        let (catalog, name) = (&self.records.catalog, self.name());
        match catalog.swap(context, RecordKind::IndexRun, &name, Expected::Absent, Vec::new()).await {
            // It is set already.
            Ok(_) | Err(Error::Aborted(_)) => Ok(()),
            Err(fault) => Err(fault),
        }
    }

    pub(crate) async fn clear(&self, context: &RequestContext) -> Result<()> {
        let name = self.name();
        let Some(mark) = self.records.catalog.get(context, RecordKind::IndexRun, &name).await? else { return Ok(()) };
        match self.records.catalog.remove(context, RecordKind::IndexRun, &name, mark.version).await {
            Ok(()) | Err(Error::Aborted(_)) => Ok(()),
            Err(fault) => Err(fault),
        }
    }
}
