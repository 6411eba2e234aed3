//! What all parts of one store share.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::Arc;

use parking_lot::Mutex;
use toller_core::RequestContext;
use toller_core::collection::VectorParams;
use toller_core::error::{Error, Result};
use uuid::Uuid;

use qdrant_client::qdrant::DeletePoints;

use super::client::Client;
use super::collector::{Collector, surely_kept};
use super::conditions::all_that_pass;
use super::config::QdrantConfig;
use super::entries::{Entries, EntryKey};
use super::field_indexes::FieldIndexes;
use super::patience::Patience;
use super::physical;
use super::record::{CollectionRecord, Snapshot};
use super::turn::{not_found, read};
use super::writers::Writers;

/// The connection, the catalogue's entries, and who works in the background. Cheap to clone; clones are one.
#[derive(Debug, Clone)]
pub(super) struct Shared(Arc<Parts>);

/// What [`Shared`] consists of.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) config: QdrantConfig,
    pub(super) client: Client,
    pub(super) entries: Entries,
    pub(super) writers: Writers,
    pub(super) collector: Collector,
    pub(super) field_indexes: FieldIndexes,
    /// Collections of the server that are known to be there, with their indexes.
    made: Mutex<HashSet<String>>,
}

impl Deref for Shared {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Shared {
    pub(super) fn new(config: QdrantConfig, client: Client) -> Self {
        let entries = Entries::new(client.clone(), physical::name_of_catalog(&config.prefix));
        Self(Arc::new(Parts {
            config,
            client,
            entries,
            writers: Writers::default(),
            collector: Collector::default(),
            field_indexes: FieldIndexes::default(),
            made: Mutex::default(),
        }))
    }

    /// What is there now.
    ///
    /// # Errors
    /// `NotFound`.
    pub(super) async fn snapshot(&self, context: &RequestContext, key: &EntryKey) -> Result<Snapshot> {
        let (_, record) = read(&self.entries, Patience::Of(context), key).await?;
        Ok(record.snapshot(&key.tenant))
    }

    /// Makes sure, after a search, that none of its rows was taken away meanwhile.
    pub(super) async fn confirm(&self, context: &RequestContext, key: &EntryKey, snapshot: &Snapshot) -> Result<()> {
        if snapshot.read_at.elapsed() < surely_kept(self.config.keep_replaced) {
            return Ok(());
        }
        let (_, record) = read(&self.entries, Patience::Of(context), key).await?;
        if record.instance == snapshot.instance && record.collected <= snapshot.number {
            return Ok(());
        }
        Err(Error::Unavailable("it took so long that the records it began with were replaced; retry".to_owned()))
    }

    /// Makes a collection; false when there is one already.
    pub(super) async fn create(
        &self,
        context: &RequestContext,
        key: &EntryKey,
        physical: String,
        params: VectorParams,
        is_searched: bool,
    ) -> Result<bool> {
        let patience = Patience::Of(context);
        if !self.made.lock().contains(&physical) {
            physical::make_for_rows(&self.client, patience, &self.config, &physical, &params, is_searched).await?;
            self.made.lock().insert(physical.clone());
        }
        let record = CollectionRecord::new(params, Uuid::now_v7().to_string(), physical);
        let value = record.encode()?;
        loop {
            let found = self.entries.get(patience, key).await?;
            if let Some(entry) = &found {
                let old = CollectionRecord::decode(&entry.value)?;
                if !old.dropped {
                    return Ok(false);
                }
                // Whoever dropped it did not come to an end.
                self.remove_rows(patience, &old.snapshot(&key.tenant)).await?;
            }
            if self.entries.swap(patience, key, found.as_ref(), value.clone()).await?.is_some() {
                return Ok(true);
            }
        }
    }

    /// Drops a collection with its rows, or goes on where an earlier attempt came to no end.
    ///
    /// # Errors
    /// `NotFound` when nothing of it is left.
    pub(super) async fn drop_collection(&self, context: &RequestContext, key: &EntryKey) -> Result<()> {
        let patience = Patience::Of(context);
        loop {
            let Some(mut entry) = self.entries.get(patience, key).await? else { return Err(not_found(key)) };
            let mut record = CollectionRecord::decode(&entry.value)?;
            if !record.dropped {
                record.dropped = true;
                match self.entries.swap(patience, key, Some(&entry), record.encode()?).await? {
                    Some(dropped) => entry = dropped,
                    None => continue,
                }
            }
            self.remove_rows(patience, &record.snapshot(&key.tenant)).await?;
            // Where it is another one by now, somebody else came to the end, or made the collection anew.
            self.entries.remove(patience, key, &entry).await?;
            return Ok(());
        }
    }

    /// Takes away what a commit that failed wrote to a collection that was dropped under it: it may have written after the drop
    /// removed the rows, and nobody knows of these any more.
    pub(super) async fn clear_after_drop(&self, key: &EntryKey, snapshot: &Snapshot) {
        let patience = Patience::Background;
        let cleared = match read(&self.entries, patience, key).await {
            Ok((_, record)) if record.instance == snapshot.instance => return,
            Ok(_) | Err(Error::NotFound { .. }) => self.remove_rows(patience, snapshot).await,
            Err(fault) => Err(fault),
        };
        if let Err(fault) = cleared {
            tracing::warn!(collection = key.name, %fault, "rows that were written while their collection was dropped may stay");
        }
    }

    /// Nobody sees these rows, so that nobody needs to wait until the server, which has the order in its log, is done with any number
    /// of them.
    async fn remove_rows(&self, patience: Patience<'_>, snapshot: &Snapshot) -> Result<()> {
        let request = DeletePoints {
            collection_name: snapshot.physical.clone(),
            wait: Some(false),
            points: all_that_pass(snapshot.of_the_instance()),
            ..DeletePoints::default()
        };
        self.client.for_long_calls().delete(patience, request).await
    }
}
