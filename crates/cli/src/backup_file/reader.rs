//! Reads a backup, and says what is wrong with it.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressBarIter};
use prost::Message as _;
use toller_api::v1;
use toller_api::v1::backup_item::Item;

use super::{FORMAT, MAGIC, count};
use crate::error::Error;

/// Longest first line.
const MAX_LINE_BYTES: u64 = 64;

/// Largest item: more than any server gives out, and few enough that a damaged length takes no memory to speak of.
const MAX_ITEM_BYTES: u64 = 256 << 20;

/// Bytes that are unpacked at once.
const BUFFER_BYTES: usize = 256 << 10;

type Unpacked = BufReader<zstd::Decoder<'static, BufReader<ProgressBarIter<File>>>>;

/// A file that is being read.
pub(crate) struct BackupReader {
    path: PathBuf,
    unpacked: Unpacked,
}

impl BackupReader {
    /// Opens a file. `bar` moves with what is read of it.
    ///
    /// # Errors
    /// `File` where it cannot be read; `Failed` where it is no backup, or of another format.
    pub(crate) fn open(path: &Path, bar: &ProgressBar) -> Result<Self, Error> {
        let cannot_read = |source| Error::File { path: path.to_owned(), source };
        let file = File::open(path).map_err(cannot_read)?;
        bar.set_length(file.metadata().map_err(cannot_read)?.len());
        bar.set_position(0);
        let mut packed = BufReader::new(bar.wrap_read(file));
        let mut line = Vec::new();
        packed.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line).map_err(cannot_read)?;
        let line = String::from_utf8(line).unwrap_or_default();
        let format = line.strip_suffix('\n').and_then(|line| line.strip_prefix(MAGIC));
        match format.map(str::parse::<u32>) {
            Some(Ok(FORMAT)) => {}
            Some(Ok(other)) => {
                return Err(Error::Failed(format!(
                    "{} is a backup of format {other}, this version reads {FORMAT}; restore it with the version that wrote it",
                    path.display()
                )));
            }
            _ => {
                return Err(Error::Failed(format!(
                    "{} is no backup of Toller: its first line is not \"{MAGIC}{FORMAT}\"",
                    path.display()
                )));
            }
        }
        let decoder = zstd::Decoder::with_buffer(packed).map_err(cannot_read)?;
        Ok(Self { path: path.to_owned(), unpacked: BufReader::with_capacity(BUFFER_BYTES, decoder) })
    }

    /// The next item; none after the last.
    ///
    /// # Errors
    /// `Failed` where the file is cut off or damaged.
    pub(crate) fn next(&mut self) -> Result<Option<v1::BackupItem>, Error> {
        let Some(length) = self.length()? else { return Ok(None) };
        let mut bytes = Vec::new();
        let read = self.unpacked.by_ref().take(length).read_to_end(&mut bytes);
        let read = read.map_err(|fault| self.damaged(&fault.to_string()))?;
        if (read as u64) < length {
            return Err(self.damaged("it ends within an item"));
        }
        v1::BackupItem::decode(bytes.as_slice()).map(Some).map_err(|fault| self.damaged(&fault.to_string()))
    }

    /// The length before an item; none where the file ends.
    fn length(&mut self) -> Result<Option<u64>, Error> {
        let mut length = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = match self.unpacked.fill_buf() {
                Ok([]) if shift == 0 => return Ok(None),
                Ok([]) => return Err(self.damaged("it ends within an item")),
                Ok([byte, ..]) => *byte,
                Err(fault) => {
                    let fault = fault.to_string();
                    return Err(self.damaged(&fault));
                }
            };
            self.unpacked.consume(1);
            length |= u64::from(byte & 0x7f) << shift;
            if length > MAX_ITEM_BYTES {
                break;
            }
            if byte & 0x80 == 0 {
                return Ok(Some(length));
            }
        }
        Err(self.damaged("an item has no length that could be"))
    }

    fn damaged(&self, fault: &str) -> Error {
        damaged(&self.path, fault)
    }
}

fn damaged(path: &Path, fault: &str) -> Error {
    Error::Failed(format!(
        "{} is cut off or damaged ({fault}), so nothing of it is restored; take another copy of it",
        path.display()
    ))
}

/// Reads the whole of a file, and returns what is in it.
///
/// # Errors
/// As [`BackupReader`]; `Failed` where it has no end, goes on after it, or says other counts than it has.
pub(crate) fn check(path: &Path, bar: &ProgressBar) -> Result<v1::BackupCounts, Error> {
    let mut reader = BackupReader::open(path, bar)?;
    let mut counts = v1::BackupCounts::default();
    let mut end = None;
    while let Some(item) = reader.next()? {
        if end.is_some() {
            return Err(damaged(path, "it goes on after its end"));
        }
        count(&mut counts, &item);
        if let Some(Item::End(found)) = item.item {
            end = Some(found);
        }
    }
    let Some(end) = end else { return Err(damaged(path, "it has no end")) };
    if end.counts.unwrap_or_default() != counts {
        return Err(damaged(path, "its counts do not agree"));
    }
    Ok(counts)
}
