//! The collections of a store: which there are, and which of them are open.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use tokio::sync::Mutex;
use toller_core::CollectionName;
use toller_core::RequestContext;
use toller_core::collection::VectorParams;
use toller_core::error::Result;

use super::collection_folder::CollectionFolder;
use super::config::EdgeConfig;
use super::description::Description;
use super::disk_room::DiskRoom;
use super::error::EdgeError;
use super::indexer::Indexer;
use super::journal::remove_drafts;
use super::lock::FolderLock;
use super::open_collection::OpenCollection;
use super::pool::Pool;
use super::slot::{Slot, Turn};
use crate::backends::CollectionKey;
use crate::backends::checks::{already_exists, not_found};

/// All collections of a folder.
#[derive(Debug)]
pub(super) struct Registry {
    folder: PathBuf,
    config: EdgeConfig,
    slots: RwLock<BTreeMap<CollectionKey, Arc<Slot>>>,
    /// Collections are made and dropped one at a time.
    changing: Arc<Mutex<()>>,
    /// For what makes, opens, closes and drops them, which takes long where they are large: reads go on beside it.
    pool: Pool,
    /// Counts uses, so that the least recent one is known.
    clock: AtomicU64,
    indexer: Indexer,
    lock: Arc<FolderLock>,
    room: DiskRoom,
}

impl Registry {
    /// Finds the collections in `folder`, which is made where it is missing, and clears away what was left of others. Opens
    /// none. O(number of collections). Blocks.
    pub(super) fn open(
        folder: PathBuf,
        config: EdgeConfig,
        lock: Arc<FolderLock>,
        room: DiskRoom,
    ) -> Result<Self, EdgeError> {
        fs::create_dir_all(&folder).map_err(EdgeError::io("make", &folder))?;
        let mut slots = BTreeMap::new();
        for entry in fs::read_dir(&folder).map_err(EdgeError::io("read", &folder))? {
            let path = entry.map_err(EdgeError::io("read", &folder))?.path();
            let Some(description) = Description::read(&path)? else {
                clear_away(&path);
                continue;
            };
            remove_drafts(&path)?;
            let key = (description.tenant.clone(), description.collection.clone());
            let its_folder = CollectionFolder::new(path.clone());
            let slot = Slot::closed(description, its_folder, Arc::clone(&lock), room.clone(), config);
            if slots.insert(key, Arc::new(slot)).is_some() {
                return Err(EdgeError::damaged(&path, "another folder holds the same collection"));
            }
        }
        let indexer = Indexer::start().map_err(EdgeError::io("start a thread for", &folder))?;
        Ok(Self {
            folder,
            config,
            slots: RwLock::new(slots),
            changing: Arc::default(),
            pool: Pool::small(),
            clock: AtomicU64::new(0),
            indexer,
            lock,
            room,
        })
    }

    /// How many collections there are, of all tenants. One that is here in several generations counts once.
    pub(super) fn len(&self) -> usize {
        let slots = self.slots.read();
        slots.keys().map(|(tenant, name)| (tenant, name.logical())).collect::<BTreeSet<_>>().len()
    }

    /// How many of them are open.
    pub(super) fn open_count(&self) -> usize {
        self.slots.read().values().filter(|slot| slot.is_open()).count()
    }

    /// Makes a collection.
    pub(super) async fn create(
        self: &Arc<Self>,
        context: &RequestContext,
        name: &CollectionName,
        params: VectorParams,
    ) -> Result<()> {
        // Waited for without a place in the pool.
        let turn = Arc::clone(&self.changing).lock_owned().await;
        let (registry, owned_context, name) = (Arc::clone(self), context.clone(), name.clone());
        let create = move || {
            let _turn = turn;
            registry.create_now(&owned_context, &name, params)
        };
        self.pool.run(context, create).await
    }

    fn create_now(&self, context: &RequestContext, name: &CollectionName, params: VectorParams) -> Result<()> {
        let key = key(context, name);
        if self.slots.read().contains_key(&key) {
            return Err(already_exists(name));
        }
        let description = Description { tenant: context.tenant().clone(), collection: name.clone(), params };
        let folder = self.folder.join(description.new_folder_name());
        fs::create_dir(&folder).map_err(EdgeError::io("make", &folder))?;
        let folder = CollectionFolder::new(folder);
        let slot = Slot::create(description, folder, Arc::clone(&self.lock), self.room.clone(), self.config)?;
        let slot = Arc::new(slot);
        self.slots.write().insert(key, Arc::clone(&slot));
        // Counts as a use.
        slot.opened(self.tick())?;
        self.close_surplus();
        Ok(())
    }

    /// Drops a collection with all it holds.
    pub(super) async fn drop_collection(
        self: &Arc<Self>,
        context: &RequestContext,
        name: &CollectionName,
    ) -> Result<()> {
        let turn = Arc::clone(&self.changing).lock_owned().await;
        let (registry, owned_context, name) = (Arc::clone(self), context.clone(), name.clone());
        let drop_it = move || {
            let _turn = turn;
            registry.find(&owned_context, &name)?.drop_collection()?;
            registry.slots.write().remove(&key(&owned_context, &name));
            Ok(())
        };
        self.pool.run(context, drop_it).await
    }

    /// The place of a collection.
    pub(super) fn find(&self, context: &RequestContext, name: &CollectionName) -> Result<Arc<Slot>> {
        self.slots.read().get(&key(context, name)).map(Arc::clone).ok_or_else(|| not_found(name))
    }

    /// The open collection. Whoever comes first opens it, and the others wait without a thread and without a place in a pool;
    /// opening one may close another.
    pub(super) async fn open_slot(
        self: &Arc<Self>,
        context: &RequestContext,
        slot: &Arc<Slot>,
    ) -> Result<Arc<OpenCollection>> {
        if let Some(open) = slot.opened(self.tick())? {
            return Ok(open);
        }
        let turn = slot.turn().await;
        if let Some(open) = slot.opened(self.tick())? {
            return Ok(open);
        }
        let (registry, slot) = (Arc::clone(self), Arc::clone(slot));
        // The turn goes along: it ends with the opening, also when nobody waits for that any more.
        self.pool.run(context, move || registry.open_now(&slot, turn)).await
    }

    fn open_now(&self, slot: &Slot, turn: Turn) -> Result<Arc<OpenCollection>> {
        let (open, was_closed) = slot.open(&turn)?;
        drop(turn);
        if was_closed {
            self.offer_to_indexer(slot, &open);
            self.close_surplus();
        }
        Ok(open)
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Has an index built if so much changed that it is worth a look, and anybody will search there.
    pub(super) fn offer_to_indexer(&self, slot: &Slot, open: &Arc<OpenCollection>) {
        if !slot.name().is_staging() {
            self.indexer.offer(open);
        }
    }

    /// Closes those that were used least recently, until no more are open than may be; those in use stay.
    fn close_surplus(&self) {
        let mut open: Vec<Arc<Slot>> = self.slots.read().values().filter(|slot| slot.is_open()).cloned().collect();
        let mut surplus = open.len().saturating_sub(self.config.max_open.max(1));
        open.sort_by_key(|slot| slot.last_used());
        // The last one was opened just now.
        open.pop();
        for slot in open {
            if surplus == 0 {
                return;
            }
            if slot.close() {
                surplus -= 1;
            }
        }
    }
}

fn key(context: &RequestContext, name: &CollectionName) -> CollectionKey {
    (context.tenant().clone(), name.clone())
}

/// A folder without a description belongs to nobody: it was being made or dropped when a process ended.
fn clear_away(path: &Path) {
    if !path.is_dir() {
        return;
    }
    tracing::warn!(folder = %path.display(), "clearing away what is left of a collection that was being made or dropped");
    if let Err(fault) = fs::remove_dir_all(path) {
        tracing::warn!(folder = %path.display(), %fault, "it could not be removed");
    }
}

#[cfg(test)]
mod tests {
    use toller_core::{Metric, Principal, VectorStore};

    use super::super::power_loss::refuse;
    use super::super::{COLLECTIONS_FOLDER, EdgeStore};
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_collection_that_could_not_be_made_is_not_there_at_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let store = EdgeStore::open(folder.path(), EdgeConfig::default()).unwrap();
        let context = RequestContext::new(Principal::anonymous());
        let name = CollectionName::new("docs").unwrap();
        let create =
            async |dimension| store.vectors.create(&context, &name, VectorParams::new(dimension, Metric::Dot)).await;
        let refusal = refuse(&folder.path().join(COLLECTIONS_FOLDER));
        let fault = create(2).await.unwrap_err().to_string();
        assert!(fault.contains("cannot write") && fault.contains(COLLECTIONS_FOLDER), "{fault}");
        drop(refusal);
        let left = fs::read_dir(folder.path().join(COLLECTIONS_FOLDER)).unwrap().count();
        assert_eq!(left, 0, "its folder is removed");
        create(3).await.unwrap();
        drop(store);
        let store = EdgeStore::open(folder.path(), EdgeConfig::default()).unwrap();
        assert_eq!(store.vectors.params(&context, &name).await.unwrap().dimension, 3);
    }
}
