//! The one transactional file beside the collections, for the catalogue and for documents without vectors.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition};
use toller_core::RequestContext;
use toller_core::error::{Error, Result};

use super::durable;
use super::error::EdgeError;
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

/// The open file, with the pool that its transactions run on. Cheap to clone. A transaction that is committed survives power
/// loss; one that fails leaves nothing behind.
#[derive(Debug, Clone)]
pub(super) struct Records {
    database: Arc<Database>,
    path: Arc<Path>,
    pool: Pool,
}

impl Records {
    /// Opens the file, or makes it. Blocks.
    pub(super) fn open(path: &Path, pool: Pool) -> Result<Self, EdgeError> {
        let database = Database::create(path).map_err(|fault| match fault {
            DatabaseError::DatabaseAlreadyOpen => EdgeError::InUse { path: path.to_owned() },
            other => EdgeError::damaged(path, other),
        })?;
        check_format(&database).map_err(|fault| match fault {
            FormatFault::Database(fault) => EdgeError::damaged(path, fault),
            FormatFault::Version(found) => {
                EdgeError::UnsupportedVersion { path: PathBuf::from(path), found, supported: FORMAT }
            }
        })?;
        Ok(Self { database: Arc::new(database), path: path.into(), pool })
    }

    /// Runs a transaction that reads.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        context: &RequestContext,
        work: impl FnOnce(&redb::ReadTransaction) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let database = Arc::clone(&self.database);
        self.pool.run(context, move || work(&database.begin_read().map_err(fault)?)).await
    }

    /// Runs a transaction that writes, and commits it when `work` succeeds.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        context: &RequestContext,
        work: impl FnOnce(&redb::WriteTransaction) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (database, path) = (Arc::clone(&self.database), Arc::clone(&self.path));
        self.pool
            .run(context, move || {
                let transaction = database.begin_write().map_err(fault)?;
                let outcome = work(&transaction)?;
                durable::syncing(&path, || transaction.commit()).map_err(fault)?;
                Ok(outcome)
            })
            .await
    }
}

/// What goes wrong in the file is a disk that failed, or a defect.
pub(super) fn fault(fault: impl Into<redb::Error>) -> Error {
    Error::Internal(format!("the database of the edge store failed: {}", fault.into()))
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

/// Makes the tables of a new file; refuses a file of another version.
fn check_format(database: &Database) -> Result<(), FormatFault> {
    let transaction = database.begin_write()?;
    {
        let mut about = transaction.open_table(ABOUT)?;
        let found = about.get(FORMAT_KEY)?.map(|version| version.value());
        match found {
            Some(FORMAT) => {}
            Some(other) => return Err(FormatFault::Version(other)),
            None => {
                about.insert(FORMAT_KEY, FORMAT)?;
            }
        }
        // So that readers always find them.
        transaction.open_table(CATALOG)?;
        transaction.open_table(VERSIONS)?;
        transaction.open_table(DOCUMENTS)?;
    }
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_version_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.redb");
        drop(Records::open(&path, Pool::new()).unwrap());
        let database = Database::open(&path).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(ABOUT).unwrap().insert(FORMAT_KEY, FORMAT + 1).unwrap();
        transaction.commit().unwrap();
        drop(database);
        let fault = Records::open(&path, Pool::new()).unwrap_err();
        assert!(matches!(fault, EdgeError::UnsupportedVersion { found: 2, supported: 1, .. }), "{fault:?}");
    }

    #[test]
    fn what_is_no_database_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.redb");
        std::fs::write(&path, "x".repeat(10_000)).unwrap();
        let fault = Records::open(&path, Pool::new()).unwrap_err();
        assert!(matches!(fault, EdgeError::Damaged { .. }) && fault.to_string().contains("records.redb"), "{fault:?}");
    }
}
