//! A change set as a file in the folder of its collection, so that a crash leaves all of it or nothing.
//!
//! It is drafted beside everything else, and nothing is changed before it is whole. Then it gets its name (by a rename), which
//! decides: from now on it happens, if need be when the collection is opened the next time. It goes when all of it is in the
//! engine and durable.
//!
//! The file is a row of frames, each with its length and checksum before it: the header, points some at a time, the ids to
//! remove, and the end with how many there were. A file without its end was never decided as a whole.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use qdrant_edge as engine;
use tempfile::NamedTempFile;
use toller_core::{DocumentId, Durability};

use super::durable;
use super::error::EdgeError;
use super::point::id_of;
use super::point_bytes::{Bytes, read_point, write_point};

/// The file of a change set that is decided.
const FILE: &str = "changes";

/// How the names of drafts begin and end.
const DRAFT_PREFIX: &str = ".changes-";
const DRAFT_SUFFIX: &str = ".partial";

/// Version of the format, with that of the points in it.
const FORMAT: u32 = 1;

/// What the header begins with.
const MAGIC: &[u8] = b"toller changes";

/// Points of one frame, which are also written to the engine at once: few enough that a search waits for milliseconds.
pub(super) const POINTS_AT_ONCE: usize = 64;

/// Ids of one frame.
const IDS_AT_ONCE: usize = 4096;

/// Bytes that are collected before they go to the file, or read from it at once.
const BUFFER_BYTES: usize = 1 << 20;

/// What a frame holds: its first byte.
const HEADER: u8 = 0;
const POINTS: u8 = 1;
const REMOVED: u8 = 2;
const END: u8 = 3;

/// A change set that is being written down. When it is dropped nothing is left of it.
#[derive(Debug)]
pub(super) struct Draft {
    out: BufWriter<NamedTempFile>,
    frame: Vec<u8>,
    points: u64,
}

impl Draft {
    /// Begins one in a collection's folder.
    pub(super) fn begin(folder: &Path) -> Result<Self, EdgeError> {
        let file = tempfile::Builder::new().prefix(DRAFT_PREFIX).suffix(DRAFT_SUFFIX).tempfile_in(folder);
        let file = file.map_err(EdgeError::io("write in", folder))?;
        let out = BufWriter::with_capacity(BUFFER_BYTES, file);
        let mut draft = Self { out, frame: Vec::new(), points: 0 };
        draft.frame.push(HEADER);
        draft.frame.extend_from_slice(MAGIC);
        draft.frame.extend_from_slice(&FORMAT.to_le_bytes());
        draft.end_frame()?;
        Ok(draft)
    }

    /// Adds points, whose ids are distinct from all others.
    pub(super) fn write(&mut self, points: &[engine::PointStructPersisted]) -> Result<(), EdgeError> {
        for some in points.chunks(POINTS_AT_ONCE) {
            self.frame.push(POINTS);
            for point in some {
                let written = write_point(&mut self.frame, point);
                written.map_err(|fault| EdgeError::damaged(self.out.get_ref().path(), fault))?;
            }
            self.points += some.len() as u64;
            self.end_frame()?;
        }
        Ok(())
    }

    /// Adds the ids that are to be removed, and makes the file as durable as writes are.
    pub(super) fn end<'a>(
        mut self,
        removed: impl ExactSizeIterator<Item = &'a DocumentId>,
        durability: Durability,
    ) -> Result<EndedDraft, EdgeError> {
        let (points, count) = (self.points, removed.len() as u64);
        let mut removed = removed.peekable();
        while removed.peek().is_some() {
            self.frame.push(REMOVED);
            for id in removed.by_ref().take(IDS_AT_ONCE) {
                // Ids are at most a KiB long.
                self.frame.extend_from_slice(&(id.as_str().len() as u32).to_le_bytes());
                self.frame.extend_from_slice(id.as_str().as_bytes());
            }
            self.end_frame()?;
        }
        self.frame.push(END);
        self.frame.extend_from_slice(&points.to_le_bytes());
        self.frame.extend_from_slice(&count.to_le_bytes());
        self.end_frame()?;
        let path = self.out.get_ref().path().to_owned();
        let file = self.out.into_inner().map_err(|fault| EdgeError::io("write", &path)(fault.into_error()))?;
        let is_fsynced = durability == Durability::Fsync;
        if is_fsynced {
            durable::syncing(&path, || file.as_file().sync_all()).map_err(EdgeError::io("write", &path))?;
        }
        Ok(EndedDraft { file, is_fsynced })
    }

    fn end_frame(&mut self) -> Result<(), EdgeError> {
        let length = u32::try_from(self.frame.len()).map_err(|_| io::Error::other("a part of the file is too long"));
        let written = length.and_then(|length| {
            self.out.write_all(&length.to_le_bytes())?;
            self.out.write_all(&crc32fast::hash(&self.frame).to_le_bytes())?;
            self.out.write_all(&self.frame)
        });
        written.map_err(|fault| EdgeError::io("write", self.out.get_ref().path())(fault))?;
        self.frame.clear();
        Ok(())
    }
}

/// A change set that is written down as a whole.
#[derive(Debug)]
pub(super) struct EndedDraft {
    file: NamedTempFile,
    is_fsynced: bool,
}

impl EndedDraft {
    /// How long the file is.
    pub(super) fn bytes(&self) -> Result<u64, EdgeError> {
        let path = self.file.path();
        Ok(self.file.as_file().metadata().map_err(EdgeError::io("read", path))?.len())
    }

    /// Decides that it happens.
    pub(super) fn decide(self, folder: &Path) -> Result<Journal, EdgeError> {
        let path = folder.join(FILE);
        self.file.persist(&path).map_err(|fault| EdgeError::io("write", &path)(fault.error))?;
        if self.is_fsynced {
            durable::sync_folder(folder)?;
        }
        Ok(Journal { path })
    }
}

/// A change set that is decided.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
}

/// What a change set is about.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ChangedIds {
    pub(super) written: Vec<DocumentId>,
    pub(super) removed: Vec<DocumentId>,
}

impl Journal {
    /// The change set that a crash left in a folder, with its ids. What is left of one that is not whole is removed: the file got
    /// its name and lost its content, which happens when power goes and nobody asked for durability against that.
    pub(super) fn left_in(folder: &Path) -> Result<Option<(Self, ChangedIds)>, EdgeError> {
        let journal = Self { path: folder.join(FILE) };
        if !journal.path.exists() {
            return Ok(None);
        }
        if let Some(ids) = journal.ids()? {
            return Ok(Some((journal, ids)));
        }
        tracing::warn!(file = %journal.path.display(), "changes that were not written down as a whole are dropped");
        journal.remove()?;
        Ok(None)
    }

    /// All ids; none when the file is not whole.
    fn ids(&self) -> Result<Option<ChangedIds>, EdgeError> {
        let mut ids = ChangedIds::default();
        let mut frames = self.frames()?;
        while let Some(frame) = frames.next()? {
            match frame {
                Frame::Points(points) => {
                    for point in points {
                        let id = id_of(point.payload.as_ref());
                        ids.written.push(id.map_err(|fault| EdgeError::damaged(&self.path, fault))?);
                    }
                }
                Frame::Removed(removed) => ids.removed.extend(removed),
                Frame::End { points, removed } => {
                    let is_whole = (points, removed) == (ids.written.len() as u64, ids.removed.len() as u64);
                    return Ok(is_whole.then_some(ids));
                }
            }
        }
        Ok(None)
    }

    /// Hands out all points, as many at a time as were written to a frame.
    pub(super) fn for_each_batch<E: From<EdgeError>>(
        &self,
        mut visit: impl FnMut(Vec<engine::PointStructPersisted>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut frames = self.frames()?;
        while let Some(frame) = frames.next()? {
            match frame {
                Frame::Points(points) => visit(points)?,
                Frame::Removed(_) => {}
                Frame::End { .. } => return Ok(()),
            }
        }
        Err(EdgeError::damaged(&self.path, "it ends early").into())
    }

    /// How long the file is.
    pub(super) fn bytes(&self) -> Result<u64, EdgeError> {
        Ok(fs::metadata(&self.path).map_err(EdgeError::io("read", &self.path))?.len())
    }

    /// Says that all of it happened.
    pub(super) fn remove(self) -> Result<(), EdgeError> {
        durable::remove(&self.path)
    }

    fn frames(&self) -> Result<Frames<'_>, EdgeError> {
        let file = File::open(&self.path).map_err(EdgeError::io("open", &self.path))?;
        let size = file.metadata().map_err(EdgeError::io("read", &self.path))?.len();
        Ok(Frames { path: &self.path, rest: size, file: BufReader::with_capacity(BUFFER_BYTES, file) })
    }
}

/// Removes what drafts left in a folder when their process was killed. Nobody may draft meanwhile.
pub(super) fn remove_drafts(folder: &Path) -> Result<(), EdgeError> {
    for entry in fs::read_dir(folder).map_err(EdgeError::io("read", folder))? {
        let entry = entry.map_err(EdgeError::io("read", folder))?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(DRAFT_PREFIX) && name.ends_with(DRAFT_SUFFIX)) {
            let path = entry.path();
            fs::remove_file(&path).map_err(EdgeError::io("remove", &path))?;
        }
    }
    Ok(())
}

enum Frame {
    Points(Vec<engine::PointStructPersisted>),
    Removed(Vec<DocumentId>),
    End { points: u64, removed: u64 },
}

/// The frames of a file, in their order.
struct Frames<'a> {
    path: &'a Path,
    file: BufReader<File>,
    /// Bytes that are still to be read.
    rest: u64,
}

impl Frames<'_> {
    /// The next one but for the header; none where the file is not whole.
    fn next(&mut self) -> Result<Option<Frame>, EdgeError> {
        loop {
            let Some(frame) = self.read().map_err(EdgeError::io("read", self.path))? else { return Ok(None) };
            if frame.first() == Some(&HEADER) {
                self.check_header(&frame)?;
                continue;
            }
            // The checksum says that it is what was written.
            return decode(&frame).map(Some).map_err(|fault| EdgeError::damaged(self.path, fault));
        }
    }

    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut word = [0; 4];
        let Some(rest) = self.rest.checked_sub(8) else { return Ok(None) };
        self.file.read_exact(&mut word)?;
        let length = u32::from_le_bytes(word);
        self.file.read_exact(&mut word)?;
        let Some(rest) = rest.checked_sub(length.into()) else { return Ok(None) };
        let mut frame = vec![0; length as usize];
        self.file.read_exact(&mut frame)?;
        self.rest = rest;
        Ok((length > 0 && crc32fast::hash(&frame) == u32::from_le_bytes(word)).then_some(frame))
    }

    fn check_header(&self, frame: &[u8]) -> Result<(), EdgeError> {
        let mut bytes = Bytes::new(frame.get(1 + MAGIC.len()..).unwrap_or_default());
        let found = bytes.number().map_err(|fault| EdgeError::damaged(self.path, fault))?;
        if found == FORMAT {
            return Ok(());
        }
        let (found, supported) = (found.into(), FORMAT.into());
        Err(EdgeError::UnsupportedVersion { path: self.path.to_owned(), found, supported })
    }
}

fn decode(frame: &[u8]) -> Result<Frame, String> {
    let (kind, content) = frame.split_first().ok_or("a part of it is empty")?;
    let mut bytes = Bytes::new(content);
    match *kind {
        POINTS => {
            let mut points = Vec::with_capacity(POINTS_AT_ONCE);
            while !bytes.is_empty() {
                points.push(read_point(&mut bytes)?);
            }
            Ok(Frame::Points(points))
        }
        REMOVED => {
            let mut ids = Vec::new();
            while !bytes.is_empty() {
                ids.push(DocumentId::new(bytes.text()?)?);
            }
            Ok(Frame::Removed(ids))
        }
        END => Ok(Frame::End { points: bytes.long_number()?, removed: bytes.long_number()? }),
        other => Err(format!("a part of it is of the unknown kind {other}")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use toller_core::collection::VectorParams;
    use toller_core::{Document, KeywordParams, Metric, Record, Tenant, Value, Vector, VectorName, VectorSpace};

    use super::super::point::point_of;
    use super::*;

    fn id(text: &str) -> DocumentId {
        DocumentId::new(text).unwrap()
    }

    fn points(count: usize) -> Vec<engine::PointStructPersisted> {
        let title = VectorName::new("title").unwrap();
        let mut params = VectorParams::new(3, Metric::Cosine);
        params.keyword = Some(KeywordParams::default());
        params.named.insert(title.clone(), VectorSpace { dimension: 1, metric: Metric::Dot });
        let point = |n: usize| {
            let metadata = [
                ("exact", Value::Int((1 << 53) + 1)),
                ("third", Value::Double(1.0 / 3.0)),
                ("whole", Value::Double(2.0)),
                ("list", Value::from(vec![Value::Null, Value::from("\u{65e5}")])),
            ];
            let metadata = metadata.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
            let text = if n.is_multiple_of(2) { format!("cats and {n} dogs") } else { String::new() };
            let document = Document { id: id(&format!("{n}")), page_content: text, metadata };
            let vector = Vector::new(vec![0.1, n as f32, 1e-30], Metric::Cosine).unwrap();
            let mut record = Record::new(Arc::new(document), vector);
            if n.is_multiple_of(3) {
                record.named.insert(title.clone(), Vector::new(vec![n as f32], Metric::Dot).unwrap());
            }
            point_of(&Tenant::default(), &record, &params).unwrap()
        };
        (0..count).map(point).collect()
    }

    fn decided(folder: &Path, count: usize, removed: &[DocumentId]) -> Journal {
        let mut draft = Draft::begin(folder).unwrap();
        for some in points(count).chunks(100) {
            draft.write(some).unwrap();
        }
        draft.end(removed.iter(), Durability::Process).unwrap().decide(folder).unwrap()
    }

    #[test]
    fn points_come_back_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let written = points(700);
        decided(folder.path(), 700, &[id("gone")]);
        let (journal, ids) = Journal::left_in(folder.path()).unwrap().unwrap();
        assert_eq!(ids.written, (0..700).map(|n| id(&n.to_string())).collect::<Vec<_>>());
        assert_eq!(ids.removed, [id("gone")]);
        let mut read = Vec::new();
        let keep = |mut some: Vec<_>| {
            read.append(&mut some);
            Ok::<_, EdgeError>(())
        };
        journal.for_each_batch(keep).unwrap();
        assert_eq!(read, written);
        journal.remove().unwrap();
        assert!(Journal::left_in(folder.path()).unwrap().is_none());
    }

    #[test]
    fn what_is_not_whole_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        decided(folder.path(), 3, &[id("gone"), id("too")]);
        let path = folder.path().join(FILE);
        let whole = fs::read(&path).unwrap();
        let mut broken: Vec<Vec<u8>> = (0..whole.len()).map(|length| whole[..length].to_vec()).collect();
        // Power may go before the content reaches the disk.
        broken.push(vec![0; whole.len()]);
        let header = 8 + 1 + MAGIC.len() + 4;
        broken.extend((header..whole.len()).step_by(7).map(|place| {
            let mut bytes = whole.clone();
            bytes[place] ^= 1;
            bytes
        }));
        for bytes in broken {
            fs::write(&path, &bytes).unwrap();
            assert!(Journal::left_in(folder.path()).unwrap().is_none(), "{} of {} bytes", bytes.len(), whole.len());
            assert!(!path.exists());
        }
        fs::write(&path, &whole).unwrap();
        assert!(Journal::left_in(folder.path()).unwrap().is_some());
    }

    #[test]
    fn another_version_is_refused_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut draft = Draft::begin(folder.path()).unwrap();
        draft.frame.push(HEADER);
        draft.frame.extend_from_slice(MAGIC);
        draft.frame.extend_from_slice(&(FORMAT + 1).to_le_bytes());
        draft.end_frame().unwrap();
        draft.end([].iter(), Durability::Process).unwrap().decide(folder.path()).unwrap();
        let fault = Journal::left_in(folder.path()).unwrap_err();
        assert!(matches!(fault, EdgeError::UnsupportedVersion { found: 2, supported: 1, .. }), "{fault:?}");
        assert!(folder.path().join(FILE).exists());
    }

    #[test]
    fn drafts_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let count = || fs::read_dir(folder.path()).unwrap().count();
        let mut draft = Draft::begin(folder.path()).unwrap();
        draft.write(&points(10)).unwrap();
        assert_eq!(count(), 1);
        let ended = draft.end([].iter(), Durability::Fsync).unwrap();
        drop(ended);
        assert_eq!(count(), 0);
        fs::write(folder.path().join(format!("{DRAFT_PREFIX}x{DRAFT_SUFFIX}")), "left by a process that was killed")
            .unwrap();
        fs::write(folder.path().join("collection.json"), "stays").unwrap();
        remove_drafts(folder.path()).unwrap();
        assert_eq!(count(), 1);
    }
}
