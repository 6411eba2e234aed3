//! Items that are put aside in a file without a name, until the client takes them: a store waits for the local disk and never
//! for the network. The file goes with whoever holds it, also when the process is killed.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Arc;

use prost::Message as _;
use tokio::io::{AsyncReadExt as _, BufReader};
use toller_api::v1;
use toller_core::{Error, Result};

/// Room on the disk that is left for what else writes there: the engine of the edge store ends with its process where it has
/// none.
const LEFT_FREE: u64 = 256 << 20;

/// Bytes of a file that are read at once.
const READ_AHEAD: usize = 256 << 10;

/// The end of a spool that is written. Blocks.
pub(super) struct SpoolWriter {
    file: File,
    folder: Arc<Path>,
}

/// A spool that is to be read.
pub(super) struct Spool {
    file: File,
    folder: Arc<Path>,
}

/// A spool in `folder`: one end for a thread that may block, and the other for later.
///
/// # Errors
/// `ResourceExhausted` where the disk is full; `Internal` where the folder does not take a file.
pub(super) fn spool(folder: &Arc<Path>) -> Result<(SpoolWriter, Spool)> {
    let broken = |broken| fault(folder, &broken);
    let file = tempfile::tempfile_in(folder).map_err(broken)?;
    let writer = SpoolWriter { file: file.try_clone().map_err(broken)?, folder: Arc::clone(folder) };
    Ok((writer, Spool { file, folder: Arc::clone(folder) }))
}

impl SpoolWriter {
    /// Appends items.
    ///
    /// # Errors
    /// `ResourceExhausted` where the disk has no room for them.
    pub(super) fn write(&mut self, items: impl Iterator<Item = v1::BackupItem>) -> Result<()> {
        let mut bytes = Vec::new();
        for item in items {
            let length = u32::try_from(item.encoded_len())
                .map_err(|_| Error::Internal("an item of a backup has more than 4 GiB".to_owned()))?;
            bytes.extend_from_slice(&length.to_le_bytes());
            // A vector takes whatever is written to it.
            item.encode(&mut bytes).map_err(|fault| Error::Internal(format!("an item cannot be encoded: {fault}")))?;
        }
        self.check_room(bytes.len() as u64, LEFT_FREE)?;
        self.file.write_all(&bytes).map_err(|broken| fault(&self.folder, &broken))
    }

    fn check_room(&self, bytes: u64, left_free: u64) -> Result<()> {
        // Where the system does not say, the write itself is the test.
        let Ok(system) = rustix::fs::fstatvfs(&self.file) else { return Ok(()) };
        if system.f_bavail.saturating_mul(system.f_frsize) >= left_free.saturating_add(bytes) {
            return Ok(());
        }
        Err(full(&self.folder))
    }
}

impl Spool {
    /// Its items, from the first.
    ///
    /// # Errors
    /// `Internal` where the disk fails.
    pub(super) fn into_items(mut self) -> Result<SpooledItems> {
        self.file.seek(SeekFrom::Start(0)).map_err(|broken| fault(&self.folder, &broken))?;
        let file = BufReader::with_capacity(READ_AHEAD, tokio::fs::File::from_std(self.file));
        Ok(SpooledItems { file, folder: self.folder })
    }
}

/// Reads a spool.
pub(super) struct SpooledItems {
    file: BufReader<tokio::fs::File>,
    folder: Arc<Path>,
}

impl SpooledItems {
    /// The next item; none after the last.
    ///
    /// # Errors
    /// `Internal` where the disk fails.
    pub(super) async fn next(&mut self) -> Result<Option<v1::BackupItem>> {
        let length = match self.file.read_u32_le().await {
            Err(end) if end.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other.map_err(|broken| fault(&self.folder, &broken))?,
        };
        let mut bytes = vec![0; length as usize];
        self.file.read_exact(&mut bytes).await.map_err(|broken| fault(&self.folder, &broken))?;
        let item = v1::BackupItem::decode(bytes.as_slice());
        item.map(Some).map_err(|fault| Error::Internal(format!("what was put aside cannot be read: {fault}")))
    }
}

fn fault(folder: &Path, fault: &io::Error) -> Error {
    match fault.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => full(folder),
        _ => Error::Internal(format!("a part of the backup cannot be put aside in {}: {fault}", folder.display())),
    }
}

fn full(folder: &Path) -> Error {
    let what = format!(
        "the disk of {} has no room to put a part of the backup aside, of which {} MiB are to stay free; make room, or start the server with backup.spool_dir on a disk that has some",
        folder.display(),
        LEFT_FREE >> 20
    );
    Error::ResourceExhausted { what, retry_after: None }
}

#[cfg(test)]
mod tests {
    use toller_api::v1::backup_item::Item;

    use super::*;

    fn item(text: &str) -> v1::BackupItem {
        let document = v1::Document { page_content: text.to_owned(), ..Default::default() };
        v1::BackupItem { item: Some(Item::Document(document)) }
    }

    #[tokio::test]
    async fn items_come_back_in_their_order_and_the_folder_stays_empty() {
        let folder = tempfile::tempdir().unwrap();
        let (mut writer, spool) = spool(&folder.path().into()).unwrap();
        let long = "x".repeat(READ_AHEAD + 1);
        writer.write(["a", ""].into_iter().map(item)).unwrap();
        writer.write([long.as_str(), "z"].into_iter().map(item)).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let mut items = spool.into_items().unwrap();
        for text in ["a", "", &long, "z"] {
            assert_eq!(items.next().await.unwrap(), Some(item(text)));
        }
        assert_eq!(items.next().await.unwrap(), None);
    }

    #[test]
    fn a_full_disk_is_said_before_it_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let (writer, _spool) = spool(&folder.path().into()).unwrap();
        assert_eq!(writer.check_room(1, 0), Ok(()));
        let refused = writer.check_room(1, u64::MAX - 1).unwrap_err();
        let named = [folder.path().to_str().unwrap(), "backup.spool_dir"];
        let says = |what: &str| named.iter().all(|part| what.contains(part));
        assert!(matches!(&refused, Error::ResourceExhausted { what, .. } if says(what)), "{refused}");
        assert_eq!(fault(folder.path(), &io::Error::from(io::ErrorKind::StorageFull)), refused);
    }
}
