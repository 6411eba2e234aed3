//! The place of one collection: its files, and the open collection when there is one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use toller_core::error::{Error, Result};
use toller_core::{CollectionName, Durability};

use super::collection_folder::CollectionFolder;
use super::config::EdgeConfig;
use super::description::Description;
use super::disk_room::DiskRoom;
use super::lock::FolderLock;
use super::open_collection::OpenCollection;
use super::pool::Share;
use super::shard::Shard;
use crate::backends::checks::not_found;

/// The right to open or close the files of a collection.
pub(super) type Turn = OwnedMutexGuard<()>;

/// A collection that the store has, open or closed.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) description: Description,
    folder: Arc<CollectionFolder>,
    lock: Arc<FolderLock>,
    room: DiskRoom,
    config: EdgeConfig,
    /// Held for moments only, so that asking whether it is open never blocks.
    state: Mutex<State>,
    /// Who opens or closes the files has it: they must not be open twice.
    turn: Arc<AsyncMutex<()>>,
    /// The part of the pool of reads that it may have.
    pub(super) share: Share,
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
        room: DiskRoom,
        config: EdgeConfig,
    ) -> Self {
        Self {
            description,
            folder: Arc::new(folder),
            lock,
            room,
            config,
            state: Mutex::new(State::Closed),
            turn: Arc::default(),
            share: Share::new(),
            last_used: AtomicU64::new(0),
        }
    }

    /// Makes an empty collection in the folder, and describes it last. Blocks.
    pub(super) fn create(
        description: Description,
        folder: CollectionFolder,
        lock: Arc<FolderLock>,
        room: DiskRoom,
        config: EdgeConfig,
    ) -> Result<Self> {
        let slot = Self::closed(description, folder, lock, room, config);
        let promised = slot.room.for_write(0);
        let opened = promised.and_then(|_promise| slot.open_with(Shard::create)).and_then(|open| {
            slot.description.write(slot.folder.path())?;
            slot.folder.sync_entry()?;
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

    /// The open collection, where it is open.
    ///
    /// # Errors
    /// `NotFound` when it was dropped meanwhile.
    pub(super) fn opened(&self, now: u64) -> Result<Option<Arc<OpenCollection>>> {
        self.last_used.store(now, Ordering::Relaxed);
        match &*self.state.lock() {
            State::Open(open) if !open.is_broken() => Ok(Some(Arc::clone(open))),
            State::Open(_) | State::Closed => Ok(None),
            State::Dropped => Err(not_found(self.name())),
        }
    }

    /// Waits until nobody else opens or closes it, without a thread.
    pub(super) async fn turn(&self) -> Turn {
        Arc::clone(&self.turn).lock_owned().await
    }

    /// Opens the collection if need be; returns whether there was need. Blocks: O(n) for n records.
    ///
    /// # Errors
    /// `NotFound` when it was dropped meanwhile; `Unavailable` when it waits to be opened again after a fault;
    /// `ResourceExhausted` when the disk is full.
    pub(super) fn open(&self, _turn: &Turn) -> Result<(Arc<OpenCollection>, bool)> {
        let was = {
            let mut state = self.state.lock();
            match &*state {
                State::Open(open) if !open.is_broken() => return Ok((Arc::clone(open), false)),
                State::Open(open) if Arc::strong_count(open) > 1 => {
                    return Err(Error::Unavailable(format!(
                        "collection \"{}\" is being opened again after a fault; retry",
                        self.description.collection
                    )));
                }
                State::Dropped => return Err(not_found(self.name())),
                State::Open(_) | State::Closed => {}
            }
            std::mem::replace(&mut *state, State::Closed)
        };
        // Waits for its writer.
        drop(was);
        self.room.for_small(0, "a collection to be opened")?;
        let open = self.open_with(Shard::open)?;
        let mut state = self.state.lock();
        if matches!(*state, State::Dropped) {
            return Err(not_found(self.name()));
        }
        *state = State::Open(Arc::clone(&open));
        Ok((open, true))
    }

    /// Where its files are.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The room on its disk.
    pub(super) fn room(&self) -> &DiskRoom {
        &self.room
    }

    /// What its acknowledged writes survive.
    pub(super) fn durability(&self) -> Durability {
        self.config.durability
    }

    /// Closes the collection unless somebody uses it; returns whether it is closed now. Blocks.
    pub(super) fn close(&self) -> bool {
        let Ok(_turn) = self.turn.try_lock() else { return false };
        let was = {
            let mut state = self.state.lock();
            match &*state {
                // Whoever wants to use it needs this lock first.
                State::Open(open) if Arc::strong_count(open) > 1 => return false,
                State::Dropped => return true,
                State::Open(_) | State::Closed => std::mem::replace(&mut *state, State::Closed),
            }
        };
        drop(was);
        true
    }

    /// Drops the collection. Requests that run on it finish; the files go after the last of them. Blocks.
    pub(super) fn drop_collection(&self) -> Result<()> {
        self.folder.doom()?;
        // Who opens it meanwhile finds out at the end.
        let was = std::mem::replace(&mut *self.state.lock(), State::Dropped);
        drop(was);
        Ok(())
    }

    pub(super) fn name(&self) -> &CollectionName {
        &self.description.collection
    }

    /// Is it open? No, while it is being opened.
    pub(super) fn is_open(&self) -> bool {
        matches!(*self.state.lock(), State::Open(_))
    }

    pub(super) fn last_used(&self) -> u64 {
        self.last_used.load(Ordering::Relaxed)
    }

    fn open_with(&self, open: OpenShard) -> Result<Arc<OpenCollection>> {
        let shard = open(
            Arc::clone(&self.folder),
            Arc::clone(&self.lock),
            self.room.clone(),
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
    DiskRoom,
    toller_core::Tenant,
    toller_core::collection::VectorParams,
    EdgeConfig,
) -> Result<Shard>;
