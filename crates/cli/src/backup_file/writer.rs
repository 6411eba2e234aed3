//! Writes a backup beside its place, and puts it there once it is complete and safe on the disk.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use prost::Message as _;
use toller_api::v1;

use super::{FORMAT, MAGIC};
use crate::error::Error;

/// The usual balance of size and time: some 300 MB a second on one core.
const LEVEL: i32 = 3;

/// A file that is being written. One that is dropped unfinished leaves nothing.
pub(crate) struct BackupWriter {
    /// None once it is finished.
    encoder: Option<zstd::Encoder<'static, BufWriter<File>>>,
    path: PathBuf,
    partial: PathBuf,
}

impl BackupWriter {
    /// Begins a file.
    ///
    /// # Errors
    /// `Failed` where there is one and it is not to be overwritten (`force`), where the name is that of something else than a file, and
    /// where the folder does not take it. A link is followed: what it leads to is overwritten.
    pub(crate) fn create(path: &Path, force: bool) -> Result<Self, Error> {
        if !force && path.symlink_metadata().is_ok() {
            return Err(Error::Failed(format!(
                "{} is there already; choose another name, or overwrite it with --force",
                path.display()
            )));
        }
        let path =
            if path.is_symlink() { &path.canonicalize().map_err(|fault| cannot_write(path, &fault))? } else { path };
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            return Err(Error::Failed(format!("{} is no file; a backup is written to a file", path.display())));
        }
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let begin = || {
            let mut file = BufWriter::new(File::create(&partial)?);
            writeln!(file, "{MAGIC}{FORMAT}")?;
            let mut encoder = zstd::Encoder::new(file, LEVEL)?;
            encoder.include_checksum(true)?;
            Ok(encoder)
        };
        let encoder = begin().map_err(|fault| cannot_write(&partial, &fault))?;
        Ok(Self { encoder: Some(encoder), path: path.to_owned(), partial })
    }

    /// Appends an item.
    ///
    /// # Errors
    /// `Failed` where the disk is full or fails.
    pub(crate) fn write(&mut self, item: &v1::BackupItem) -> Result<(), Error> {
        let bytes = item.encode_length_delimited_to_vec();
        let written = self.encoder.as_mut().map_or(Ok(()), |encoder| encoder.write_all(&bytes));
        written.map_err(|fault| cannot_write(&self.partial, &fault))
    }

    /// Makes it safe, puts it in its place, and returns its size in bytes.
    ///
    /// # Errors
    /// `Failed` where the disk is full or fails.
    pub(crate) fn finish(mut self) -> Result<u64, Error> {
        let Some(encoder) = self.encoder.take() else { return Ok(0) };
        let end = || -> io::Result<u64> {
            let file = encoder.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.sync_all()?;
            let bytes = file.metadata()?.len();
            fs::rename(&self.partial, &self.path)?;
            // The name is safe with its folder.
            let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
            Ok(bytes)
        };
        end().map_err(|fault| {
            let _ = fs::remove_file(&self.partial);
            cannot_write(&self.path, &fault)
        })
    }
}

impl Drop for BackupWriter {
    fn drop(&mut self) {
        if self.encoder.is_some() {
            let _ = fs::remove_file(&self.partial);
        }
    }
}

fn cannot_write(path: &Path, fault: &io::Error) -> Error {
    Error::Failed(format!("cannot write {}: {fault}", path.display()))
}
