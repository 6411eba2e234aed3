//! The place of one collection: its files, and the open collection when there is one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use toller_core::error::{Error, Result};
use toller_core::{CollectionName, Durability};

use super::collection_folder::CollectionFolder;
use super::config::EdgeConfig;
use super::description::Description;
use super::disk_room;
use super::lock::FolderLock;
use super::open_collection::OpenCollection;
use super::shard::Shard;
use crate::backends::checks::not_found;

/// A collection that the store has, open or closed.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) description: Description,
    folder: Arc<CollectionFolder>,
    lock: Arc<FolderLock>,
    config: EdgeConfig,
    state: Mutex<State>,
    /// By the clock of the registry.
    last_used: AtomicU64,
}

#[derive(Debug)]
enum State {
    Closed,
    Open(Arc<OpenCollection>),
    Dropped,
}

impl Slot {
    /// The place of a collection whose files are there.
    pub(super) fn closed(
        description: Description,
        folder: CollectionFolder,
        lock: Arc<FolderLock>,
        config: EdgeConfig,
    ) -> Self {
        Self {
            description,
            folder: Arc::new(folder),
            lock,
            config,
            state: Mutex::new(State::Closed),
            last_used: AtomicU64::new(0),
        }
    }

    /// Makes an empty collection in the folder, and describes it last. Blocks.
    pub(super) fn create(
        description: Description,
        folder: CollectionFolder,
        lock: Arc<FolderLock>,
        config: EdgeConfig,
    ) -> Result<Self> {
        let slot = Self::closed(description, folder, lock, config);
        let room = disk_room::for_write(slot.folder.path(), 0);
        let opened = room.and_then(|()| slot.open_with(Shard::create)).and_then(|open| {
            slot.description.write(slot.folder.path())?;
            Ok(open)
        });
        match opened {
            Ok(open) => {
                *slot.state.lock() = State::Open(open);
                Ok(slot)
            }
            Err(fault) => {
                slot.folder.abandon();
                Err(fault)
            }
        }
    }

    /// The open collection, which is opened if need be. Blocks while it is.
    ///
    /// # Errors
    /// `NotFound` when it was dropped meanwhile; `Unavailable` when it waits to be opened again after a fault.
    pub(super) fn open(&self, now: u64) -> Result<(Arc<OpenCollection>, bool)> {
        self.last_used.store(now, Ordering::Relaxed);
        let mut state = self.state.lock();
        match &*state {
            State::Open(open) if !open.is_broken() => return Ok((Arc::clone(open), false)),
            // The files must not be open twice.
            State::Open(open) if Arc::strong_count(open) > 1 => {
                return Err(Error::Unavailable(format!(
                    "collection \"{}\" is being opened again after a fault; retry",
                    self.description.collection
                )));
            }
            State::Dropped => return Err(not_found(self.name())),
            State::Open(_) | State::Closed => {}
        }
        *state = State::Closed;
        disk_room::for_opening(self.folder.path())?;
        let open = self.open_with(Shard::open)?;
        *state = State::Open(Arc::clone(&open));
        Ok((open, true))
    }

    /// Where its files are.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What its acknowledged writes survive.
    pub(super) fn durability(&self) -> Durability {
        self.config.durability
    }

    /// Closes the collection unless somebody uses it; returns whether it is closed now. Blocks.
    pub(super) fn close(&self) -> bool {
        let Some(mut state) = self.state.try_lock() else { return false };
        match &*state {
            // Whoever wants to use it needs this lock first.
            State::Open(open) if Arc::strong_count(open) > 1 => false,
            _ => {
                if !matches!(*state, State::Dropped) {
                    *state = State::Closed;
                }
                true
            }
        }
    }

    /// Drops the collection. Requests that run on it finish; the files go after the last of them.
    pub(super) fn drop_collection(&self) -> Result<()> {
        let mut state = self.state.lock();
        self.folder.doom()?;
        let was = std::mem::replace(&mut *state, State::Dropped);
        drop(state);
        drop(was);
        Ok(())
    }

    pub(super) fn name(&self) -> &CollectionName {
        &self.description.collection
    }

    /// Is it open? No, while it is being opened.
    pub(super) fn is_open(&self) -> bool {
        self.state.try_lock().is_some_and(|state| matches!(*state, State::Open(_)))
    }

    pub(super) fn last_used(&self) -> u64 {
        self.last_used.load(Ordering::Relaxed)
    }

    fn open_with(&self, open: OpenShard) -> Result<Arc<OpenCollection>> {
        let shard = open(
            Arc::clone(&self.folder),
            Arc::clone(&self.lock),
            self.description.tenant.clone(),
            self.description.params.clone(),
            self.config,
        )?;
        Ok(Arc::new(OpenCollection::new(shard)?))
    }
}

type OpenShard = fn(
    Arc<CollectionFolder>,
    Arc<FolderLock>,
    toller_core::Tenant,
    toller_core::collection::VectorParams,
    EdgeConfig,
) -> Result<Shard>;
