//! The collections of a store: which there are, and which of them are open.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use toller_core::CollectionName;
use toller_core::RequestContext;
use toller_core::collection::VectorParams;
use toller_core::error::Result;

use super::collection_folder::CollectionFolder;
use super::config::EdgeConfig;
use super::description::Description;
use super::durable::sync_folder;
use super::error::EdgeError;
use super::indexer::Indexer;
use super::journal::remove_drafts;
use super::lock::FolderLock;
use super::open_collection::OpenCollection;
use super::slot::Slot;
use crate::backends::CollectionKey;
use crate::backends::checks::{already_exists, not_found};

/// All collections of a folder.
#[derive(Debug)]
pub(super) struct Registry {
    folder: PathBuf,
    config: EdgeConfig,
    slots: RwLock<BTreeMap<CollectionKey, Arc<Slot>>>,
    /// Collections are made and dropped one at a time.
    changing: Mutex<()>,
    /// Counts uses, so that the least recent one is known.
    clock: AtomicU64,
    indexer: Indexer,
    lock: Arc<FolderLock>,
}

impl Registry {
    /// Finds the collections in `folder`, which is made where it is missing, and clears away what was left of others. Opens
    /// none. O(number of collections). Blocks.
    pub(super) fn open(folder: PathBuf, config: EdgeConfig, lock: Arc<FolderLock>) -> Result<Self, EdgeError> {
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
            let slot = Slot::closed(description, CollectionFolder::new(path.clone()), Arc::clone(&lock), config);
            if slots.insert(key, Arc::new(slot)).is_some() {
                return Err(EdgeError::damaged(&path, "another folder holds the same collection"));
            }
        }
        let indexer = Indexer::start().map_err(EdgeError::io("start a thread for", &folder))?;
        Ok(Self {
            folder,
            config,
            slots: RwLock::new(slots),
            changing: Mutex::default(),
            clock: AtomicU64::new(0),
            indexer,
            lock,
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

    /// Makes a collection. Blocks.
    pub(super) fn create(&self, context: &RequestContext, name: &CollectionName, params: VectorParams) -> Result<()> {
        let _turn = self.changing.lock();
        let key = key(context, name);
        if self.slots.read().contains_key(&key) {
            return Err(already_exists(name));
        }
        let description = Description { tenant: context.tenant().clone(), collection: name.clone(), params };
        let folder = self.folder.join(description.new_folder_name());
        fs::create_dir(&folder).map_err(EdgeError::io("make", &folder))?;
        let slot = Slot::create(description, CollectionFolder::new(folder), Arc::clone(&self.lock), self.config)?;
        sync_folder(&self.folder)?;
        let slot = Arc::new(slot);
        self.slots.write().insert(key, Arc::clone(&slot));
        // Counts as a use.
        self.open_slot(&slot)?;
        self.close_surplus();
        Ok(())
    }

    /// Drops a collection with all it holds. Blocks.
    pub(super) fn drop_collection(&self, context: &RequestContext, name: &CollectionName) -> Result<()> {
        let _turn = self.changing.lock();
        let slot = self.find(context, name)?;
        slot.drop_collection()?;
        self.slots.write().remove(&key(context, name));
        Ok(())
    }

    /// The place of a collection.
    pub(super) fn find(&self, context: &RequestContext, name: &CollectionName) -> Result<Arc<Slot>> {
        self.slots.read().get(&key(context, name)).map(Arc::clone).ok_or_else(|| not_found(name))
    }

    /// The open collection; opening one may close another. Blocks.
    pub(super) fn open_slot(&self, slot: &Slot) -> Result<Arc<OpenCollection>> {
        let now = self.clock.fetch_add(1, Ordering::Relaxed) + 1;
        let (open, was_closed) = slot.open(now)?;
        if was_closed {
            self.offer_to_indexer(slot, &open);
            self.close_surplus();
        }
        Ok(open)
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
