//! The one transactional file beside the collections, for the catalogue and for documents without vectors.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard};
use redb::{Database, DatabaseError, ReadableDatabase, TableDefinition, TableError};
use tokio::sync::Mutex;
use toller_core::RequestContext;
use toller_core::error::{Error, Result};

use super::disk_room::DiskRoom;
use super::durable;
use super::error::{EdgeError, disk_is_full, is_full};
use super::pool::Pool;

/// Version of the tables in the file.
const FORMAT: u64 = 1;

/// What is about the file itself.
const ABOUT: TableDefinition<'static, &str, u64> = TableDefinition::new("about");
const FORMAT_KEY: &str = "format";

/// Catalogue records: version and value by tenant, kind and name.
pub(super) const CATALOG: TableDefinition<'static, (&str, &str, &str), (u64, &[u8])> = TableDefinition::new("catalog");

/// The last version that a catalogue record was given, under the name `last`.
pub(super) const VERSIONS: TableDefinition<'static, &str, u64> = TableDefinition::new("catalog_versions");

/// Documents as JSON, by tenant, collection and id.
pub(super) const DOCUMENTS: TableDefinition<'static, (&str, &str, &str), &[u8]> = TableDefinition::new("documents");

/// Bytes of the file that are kept in RAM: the catalogue, which every request asks, and documents that are asked for often.
const CACHE_BYTES: usize = 64 << 20;

/// The open file, with the pool that its transactions run on. Cheap to clone. A transaction that is committed survives power
/// loss; one that fails leaves nothing behind.
#[derive(Debug, Clone)]
pub(super) struct Records {
    file: Arc<RecordsFile>,
    /// One transaction at a time writes; the others wait without a place in the pool.
    writing: Arc<Mutex<()>>,
    pool: Pool,
    room: DiskRoom,
}

/// What a transaction that writes is about, which decides how full the disk may be for it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// Documents of about so many bytes.
    Documents(u64),
    /// A record of the catalogue, of so many bytes: without those nothing can be removed either.
    Record(u64),
    /// A removal.
    Removal,
}

impl Records {
    /// Opens the file, or makes it. Blocks.
    pub(super) fn open(path: &Path, room: DiskRoom) -> Result<Self, EdgeError> {
        let file = RecordsFile { path: path.to_owned(), open: RwLock::new(Some(open(path)?)) };
        Ok(Self { file: Arc::new(file), writing: Arc::default(), pool: Pool::small(), room })
    }

    /// Runs a transaction that reads.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        context: &RequestContext,
        work: impl FnOnce(&redb::ReadTransaction) -> Result<T, RecordsFault> + Send + 'static,
    ) -> Result<T> {
        let file = Arc::clone(&self.file);
        self.pool.run(context, move || file.with(|database| work(&database.begin_read().map_err(fault)?))).await
    }

    /// Runs a transaction that writes, and commits it when `work` succeeds.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        context: &RequestContext,
        kind: Kind,
        work: impl FnOnce(&redb::WriteTransaction) -> Result<T, RecordsFault> + Send + 'static,
    ) -> Result<T> {
        let turn = Arc::clone(&self.writing).lock_owned().await;
        let (file, room) = (Arc::clone(&self.file), self.room.clone());
        let write = move || {
            let _turn = turn;
            let _promise = match kind {
                Kind::Documents(bytes) => Some(room.for_write(bytes)?),
                Kind::Record(bytes) => room.for_small(bytes, "a record of the catalogue").map(|()| None)?,
                Kind::Removal => room.for_small(0, "a delete").map(|()| None)?,
            };
            file.with(|database| {
                let transaction = database.begin_write().map_err(fault)?;
                let outcome = work(&transaction)?;
                durable::syncing(&file.path, || transaction.commit()).map_err(fault)?;
                Ok(outcome)
            })
        };
        self.pool.run(context, write).await
    }
}

/// The file, which is opened again after a fault of the disk: the database refuses everything from then on, and knows again what
/// is there when it is opened anew.
#[derive(Debug)]
struct RecordsFile {
    path: PathBuf,
    /// None from such a fault until the next use.
    open: RwLock<Option<Arc<Database>>>,
}

impl RecordsFile {
    fn with<T>(&self, work: impl FnOnce(&Database) -> Result<T, RecordsFault>) -> Result<T> {
        let (outcome, used) = {
            let open = self.whole()?;
            (work(&open), Arc::as_ptr(&open))
        };
        outcome.map_err(|fault| {
            if fault.spoils_the_database() {
                self.close(used);
            }
            fault.into()
        })
    }

    /// The database, which is held open as long as the answer is held.
    fn whole(&self) -> Result<impl std::ops::Deref<Target = Arc<Database>>> {
        if self.open.read().is_none() {
            let mut open = self.open.write();
            if open.is_none() {
                tracing::info!(file = %self.path.display(), "the database is opened again after a fault of the disk");
                *open = Some(self::open(&self.path)?);
            }
        }
        // Another fault may have come in between.
        RwLockReadGuard::try_map(self.open.read(), Option::as_ref)
            .map_err(|_| Error::Unavailable("the database of the edge store is being opened again; retry".to_owned()))
    }

    /// Closes the database that failed, once nobody uses it; its lock on the file goes with it.
    fn close(&self, failed: *const Database) {
        let mut open = self.open.write();
        if open.as_ref().is_some_and(|open| Arc::as_ptr(open) == failed) {
            *open = None;
        }
    }
}

/// What ends a transaction.
#[derive(Debug)]
pub(super) enum RecordsFault {
    /// The database failed.
    Database(redb::Error),
    /// What was to be done cannot be done.
    Other(Error),
}

impl RecordsFault {
    /// Does the database refuse everything from now on?
    fn spoils_the_database(&self) -> bool {
        use redb::Error::{DatabaseClosed, Io, LockPoisoned, PreviousIo};
        matches!(self, Self::Database(Io(_) | PreviousIo | LockPoisoned(_) | DatabaseClosed))
    }
}

/// A fault of the database, within a transaction.
pub(super) fn fault(fault: impl Into<redb::Error>) -> RecordsFault {
    RecordsFault::Database(fault.into())
}

impl From<Error> for RecordsFault {
    fn from(fault: Error) -> Self {
        Self::Other(fault)
    }
}

impl From<RecordsFault> for Error {
    fn from(fault: RecordsFault) -> Self {
        match fault {
            RecordsFault::Other(fault) => fault,
            RecordsFault::Database(redb::Error::Io(fault)) if is_full(&fault) => disk_is_full(fault),
            // Another transaction met the fault, and hears of it.
            RecordsFault::Database(redb::Error::PreviousIo) => Self::Unavailable(
                "the database of the edge store is being opened again after a fault of the disk; retry".to_owned(),
            ),
            RecordsFault::Database(fault) => Self::Internal(format!("the database of the edge store failed: {fault}")),
        }
    }
}

/// Opens the file, or makes it. O(size of the file) when it was not closed in order. Blocks.
fn open(path: &Path) -> Result<Arc<Database>, EdgeError> {
    let database = Database::builder().set_cache_size(CACHE_BYTES).create(path).map_err(|fault| match fault {
        DatabaseError::DatabaseAlreadyOpen => EdgeError::InUse { path: path.to_owned() },
        DatabaseError::Storage(redb::StorageError::Io(fault)) if is_full(&fault) => EdgeError::io("open", path)(fault),
        other => EdgeError::damaged(path, other),
    })?;
    check_format(&database).map_err(|fault| match fault {
        FormatFault::Database(redb::Error::Io(fault)) => EdgeError::io("open", path)(fault),
        FormatFault::Database(fault) => EdgeError::damaged(path, fault),
        FormatFault::Version(found) => {
            EdgeError::UnsupportedVersion { path: PathBuf::from(path), found, supported: FORMAT }
        }
    })?;
    Ok(Arc::new(database))
}

enum FormatFault {
    Database(redb::Error),
    Version(u64),
}

impl<E: Into<redb::Error>> From<E> for FormatFault {
    fn from(fault: E) -> Self {
        Self::Database(fault.into())
    }
}

/// Makes the tables of a new file; refuses a file of another version. Writes nothing to one that is there: the disk may be full.
fn check_format(database: &Database) -> Result<(), FormatFault> {
    match format_of(database)? {
        Some(FORMAT) => return Ok(()),
        Some(other) => return Err(FormatFault::Version(other)),
        None => {}
    }
    let transaction = database.begin_write()?;
    transaction.open_table(ABOUT)?.insert(FORMAT_KEY, FORMAT)?;
    // So that readers always find them.
    transaction.open_table(CATALOG)?;
    transaction.open_table(VERSIONS)?;
    transaction.open_table(DOCUMENTS)?;
    transaction.commit()?;
    Ok(())
}

/// The version of the tables; none in a new file.
fn format_of(database: &Database) -> Result<Option<u64>, FormatFault> {
    match database.begin_read()?.open_table(ABOUT) {
        Ok(about) => Ok(about.get(FORMAT_KEY)?.map(|version| version.value())),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(fault) => Err(fault.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_version_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.redb");
        drop(Records::open(&path, DiskRoom::of(folder.path())).unwrap());
        let database = Database::open(&path).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(ABOUT).unwrap().insert(FORMAT_KEY, FORMAT + 1).unwrap();
        transaction.commit().unwrap();
        drop(database);
        let fault = Records::open(&path, DiskRoom::of(folder.path())).unwrap_err();
        assert!(matches!(fault, EdgeError::UnsupportedVersion { found: 2, supported: 1, .. }), "{fault:?}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn it_is_opened_again_after_a_fault_of_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.redb");
        let records = Records::open(&path, DiskRoom::of(folder.path())).unwrap();
        let context = RequestContext::new(toller_core::Principal::anonymous());
        let write = async |number: u64, fault: Option<RecordsFault>| {
            let work = move |transaction: &redb::WriteTransaction| {
                transaction.open_table(VERSIONS).map_err(super::fault)?.insert("n", number).map_err(super::fault)?;
                fault.map_or(Ok(()), Err)
            };
            records.write(&context, Kind::Record(8), work).await
        };
        let read = async || {
            let work = |transaction: &redb::ReadTransaction| {
                let table = transaction.open_table(VERSIONS).map_err(fault)?;
                Ok(table.get("n").map_err(fault)?.map(|number| number.value()))
            };
            records.read(&context, work).await
        };
        write(1, None).await.unwrap();
        let of = |number| Some(RecordsFault::Database(redb::Error::Io(std::io::Error::from_raw_os_error(number))));
        let full = write(2, of(28)).await.unwrap_err();
        assert!(matches!(full, Error::ResourceExhausted { .. }), "{full:?}");
        assert!(records.file.open.read().is_none());
        assert_eq!(read().await, Ok(Some(1)), "nothing of it is there");
        assert!(matches!(write(3, of(5)).await, Err(Error::Internal(fault)) if !fault.contains("internal error")));
        assert!(matches!(
            write(3, Some(RecordsFault::Database(redb::Error::PreviousIo))).await,
            Err(Error::Unavailable(_))
        ));
        write(4, None).await.unwrap();
        assert_eq!(read().await, Ok(Some(4)));
        // What the caller did wrong is no fault of the disk.
        write(5, Some(Error::Cancelled.into())).await.unwrap_err();
        assert!(records.file.open.read().is_some());
    }

    #[test]
    fn what_is_no_database_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.redb");
        std::fs::write(&path, "x".repeat(10_000)).unwrap();
        let fault = Records::open(&path, DiskRoom::of(folder.path())).unwrap_err();
        assert!(matches!(fault, EdgeError::Damaged { .. }) && fault.to_string().contains("records.redb"), "{fault:?}");
    }
}
