//! What the collections of a process stand on.

use std::sync::Arc;
use std::time::Duration;

use toller_core::collection::VectorParams;
use toller_core::error::{Error, Result};
use toller_core::{CollectionName, Models, RequestContext, VectorStore};
use tracing::warn;

use crate::fence::{Fence, Fences};
use crate::pulse::BEAT;
use crate::record::CollectionRecords;

/// The store, the records, the models and the fences. Cheap to clone; clones share them.
#[derive(Clone)]
pub(crate) struct Foundation {
    pub(crate) store: Arc<dyn VectorStore>,
    pub(crate) records: CollectionRecords,
    pub(crate) models: Arc<Models>,
    fences: Arc<Fences>,
    /// Documents that are embedded, written and recorded at once when a collection is embedded anew.
    pub(crate) reembed_batch: usize,
    /// How often operations and restores give signs of life.
    pub(crate) beat: Duration,
}

/// A few seconds of one processor for texts of usual length, so that little is done again after a crash, and writers wait for the
/// writing of that many only.
const DEFAULT_REEMBED_BATCH: usize = 64;

impl Foundation {
    pub(crate) fn new(store: Arc<dyn VectorStore>, records: CollectionRecords, models: Models) -> Self {
        Self {
            store,
            records,
            models: Arc::new(models),
            fences: Arc::default(),
            reembed_batch: DEFAULT_REEMBED_BATCH,
            beat: BEAT,
        }
    }

    /// The fence of a collection.
    pub(crate) fn fence(&self, context: &RequestContext, name: &CollectionName) -> Arc<Fence> {
        self.fences.of(context.tenant(), name)
    }

    /// Makes room in the store. What it holds under that name has no record, so it is nobody's, and goes.
    pub(crate) async fn make_room(
        &self,
        context: &RequestContext,
        name: &CollectionName,
        params: VectorParams,
    ) -> Result<()> {
        match self.store.create(context, name, params.clone()).await {
            Err(Error::AlreadyExists { .. }) => {
                warn!(collection = %name, "the store held a collection that the catalogue did not know; it is dropped");
                self.drop_room(context, name).await?;
                self.store.create(context, name, params).await
            }
            other => other,
        }
    }

    /// Drops what the store holds under that name, if anything.
    pub(crate) async fn drop_room(&self, context: &RequestContext, name: &CollectionName) -> Result<()> {
        match self.store.drop_collection(context, name).await {
            Err(Error::NotFound { .. }) => Ok(()),
            other => other,
        }
    }
}
