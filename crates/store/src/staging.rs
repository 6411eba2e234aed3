//! Room beside a collection, for records that nobody is to see yet.
//!
//! Index runs put there what they embedded, and move it into the collection in one commit. It is kept by the same store, so that a
//! run that was killed finds what it had, whichever process goes on with it.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use toller_core::collection::VectorParams;
use toller_core::error::{Error, Result};
use toller_core::vector_store::RecordSource;
use toller_core::{CollectionName, DocumentId, Record, RequestContext, VectorStore};

use crate::foundation::Foundation;

/// Records that are moved at a time.
const BATCH: usize = 256;

/// The room of one collection. Cheap to clone.
#[derive(Clone)]
pub struct Staging {
    foundation: Foundation,
    name: CollectionName,
    params: VectorParams,
}

impl Staging {
    pub(crate) fn new(foundation: Foundation, name: CollectionName, params: VectorParams) -> Self {
        Self { foundation, name, params }
    }

    /// Makes the room where it is missing. One for other vectors is emptied: what is there is of no use any more.
    ///
    /// # Errors
    /// As the store.
    pub async fn make(&self, context: &RequestContext) -> Result<()> {
        let store = &self.foundation.store;
        match store.create(context, &self.name, self.params.clone()).await {
            Err(Error::AlreadyExists { .. }) if store.params(context, &self.name).await? == self.params => Ok(()),
            Err(Error::AlreadyExists { .. }) => {
                self.clear(context).await?;
                store.create(context, &self.name, self.params.clone()).await
            }
            other => other,
        }
    }

    /// Removes the room with all it holds.
    ///
    /// # Errors
    /// As the store.
    pub async fn clear(&self, context: &RequestContext) -> Result<()> {
        self.foundation.drop_room(context, &self.name).await
    }

    /// Puts records there.
    ///
    /// # Errors
    /// As the store.
    pub async fn put(&self, context: &RequestContext, records: Vec<Record>) -> Result<()> {
        self.foundation.store.upsert(context, &self.name, records).await
    }

    /// Up to `limit` ids of what is there, ascending, from `from` on; none where there is no room.
    ///
    /// # Errors
    /// As the store.
    pub async fn ids(
        &self,
        context: &RequestContext,
        from: Option<&DocumentId>,
        limit: usize,
    ) -> Result<Vec<DocumentId>> {
        match self.foundation.store.ids(context, &self.name, from, limit).await {
            Err(Error::NotFound { .. }) => Ok(Vec::new()),
            other => other,
        }
    }

    /// The records of these ids, some at a time.
    pub fn records(&self, context: &RequestContext, ids: Vec<DocumentId>) -> Box<dyn RecordSource> {
        Box::new(StagedRecords {
            store: Arc::clone(&self.foundation.store),
            context: context.clone(),
            name: self.name.clone(),
            ids: ids.into(),
        })
    }
}

/// See [`Staging::records`].
struct StagedRecords {
    store: Arc<dyn VectorStore>,
    context: RequestContext,
    name: CollectionName,
    ids: VecDeque<DocumentId>,
}

#[async_trait]
impl RecordSource for StagedRecords {
    async fn next(&mut self) -> Result<Option<Vec<Record>>> {
        let ids: Vec<DocumentId> = self.ids.drain(..BATCH.min(self.ids.len())).collect();
        if ids.is_empty() {
            return Ok(None);
        }
        let records = self.store.get(&self.context, &self.name, &ids).await?;
        let found = ids.iter().zip(records).map(|(id, record)| {
            record.ok_or_else(|| Error::Aborted(format!("\"{id}\" was embedded and is gone; run the index again")))
        });
        found.collect::<Result<Vec<_>>>().map(Some)
    }
}
