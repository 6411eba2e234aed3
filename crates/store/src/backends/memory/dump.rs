//! Writes a memory store to a file.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use crc32fast::Hasher;
use serde::Serialize;
use toller_core::catalog::RecordKind;
use toller_core::collection::VectorParams;
use toller_core::{CollectionName, Tenant};

use super::MemoryStore;
use super::catalog::Entry;
use super::document_store::DocumentSet;
use super::dump_format::{DumpCounts, FORMAT, Header, Line, VERSION, encode_bytes, encode_vector};
use super::rows::Rows;
use crate::error::FileError;

/// How the names of files begin and end while they are written.
const PARTIAL_PREFIX: &str = ".toller-dump-";
const PARTIAL_SUFFIX: &str = ".partial";

/// Bytes that are collected before they go to the file.
const BUFFER_BYTES: usize = 1 << 20;

/// One state of all three stores: pointers to shared data, besides a copy of the (small) catalogue.
struct Snapshot {
    last_catalog_version: u64,
    catalog: Vec<((Tenant, RecordKind, String), Entry)>,
    collections: Vec<((Tenant, CollectionName), VectorParams, Arc<Rows>)>,
    document_sets: Vec<((Tenant, CollectionName), DocumentSet)>,
}

impl Snapshot {
    /// All three locks are held at once, so that no collection is seen without its spec. Nothing else takes two of them.
    fn new(store: &MemoryStore) -> Self {
        let catalog = store.catalog.state.read();
        let collections = store.vectors.collections.read();
        let document_sets = store.documents.collections.read();
        Self {
            last_catalog_version: catalog.last_version,
            catalog: catalog.records.iter().map(|(key, entry)| (key.clone(), entry.clone())).collect(),
            collections: collections
                .iter()
                .map(|(key, collection)| (key.clone(), collection.params.clone(), collection.table.read().snapshot()))
                .collect(),
            document_sets: document_sets.iter().map(|(key, set)| (key.clone(), Arc::clone(set))).collect(),
        }
    }
}

/// See [`MemoryStore::dump`].
pub(super) fn dump(store: &MemoryStore, path: &Path) -> Result<DumpCounts, FileError> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // In the same folder, since a rename is atomic only within a file system. Removed again when anything below fails.
    let mut file = tempfile::Builder::new()
        .prefix(PARTIAL_PREFIX)
        .suffix(PARTIAL_SUFFIX)
        .tempfile_in(folder)
        .map_err(FileError::io("make a temporary file in", folder))?;

    let snapshot = Snapshot::new(store);
    let counts = write(&snapshot, file.as_file_mut()).map_err(FileError::io("write", file.path()))?;
    file.as_file().sync_all().map_err(FileError::io("sync", file.path()))?;
    file.persist(path).map_err(|fault| FileError::io("rename a temporary file to", path)(fault.error))?;
    sync_folder(folder).map_err(FileError::io("sync the folder", folder))?;
    Ok(counts)
}

/// See [`MemoryStore::remove_unfinished_dumps`].
pub(super) fn remove_unfinished(folder: &Path) -> Result<u64, FileError> {
    let mut removed = 0;
    for entry in fs::read_dir(folder).map_err(FileError::io("read the folder", folder))? {
        let entry = entry.map_err(FileError::io("read the folder", folder))?;
        let name = entry.file_name();
        let is_partial =
            name.to_str().is_some_and(|name| name.starts_with(PARTIAL_PREFIX) && name.ends_with(PARTIAL_SUFFIX));
        let path = entry.path();
        if is_partial && entry.file_type().map_err(FileError::io("read", &path))?.is_file() {
            fs::remove_file(&path).map_err(FileError::io("remove the unfinished dump", &path))?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Without this a power loss may undo the rename.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

fn write(snapshot: &Snapshot, file: &mut File) -> io::Result<DumpCounts> {
    let mut out = LineWriter { inner: BufWriter::with_capacity(BUFFER_BYTES, file), crc: Hasher::new() };
    let mut counts = DumpCounts::default();
    let last_catalog_version = snapshot.last_catalog_version;
    out.line(&Header { format: Cow::Borrowed(FORMAT), version: VERSION, last_catalog_version })?;

    for ((tenant, kind, name), entry) in &snapshot.catalog {
        out.line(&Line::Catalog {
            tenant: tenant.clone(),
            kind: (*kind).into(),
            name: name.clone(),
            version: entry.version,
            value: encode_bytes(&entry.value),
        })?;
        counts.catalog_records += 1;
    }
    for ((tenant, name), params, rows) in &snapshot.collections {
        // There is no quantisation to write: this store refuses it.
        let VectorParams { dimension, metric, keyword, named, quantization: _ } = params.clone();
        out.line(&Line::Collection { tenant: tenant.clone(), name: name.clone(), dimension, metric, keyword, named })?;
        counts.collections += 1;
        counts.records += write_records(rows, &mut out)?;
    }
    for ((tenant, collection), documents) in &snapshot.document_sets {
        out.line(&Line::DocumentSet { tenant: tenant.clone(), collection: collection.clone() })?;
        for document in documents.values() {
            out.line(&Line::Document {
                id: document.id.clone(),
                page_content: Cow::Borrowed(&document.page_content),
                metadata: Cow::Borrowed(&document.metadata),
            })?;
            counts.documents += 1;
        }
    }
    let crc32 = out.crc.clone().finalize();
    out.line(&Line::End { counts, crc32 })?;
    out.inner.flush()?;
    Ok(counts)
}

fn write_records(rows: &Rows, out: &mut LineWriter<impl Write>) -> io::Result<u64> {
    let mut written = 0;
    for numbered in rows.blocks() {
        for (slot, document) in numbered.block.documents().iter().enumerate() {
            let main = numbered.block.vector(rows.spaces().main_column(), slot);
            let (Some(document), Some(vector)) = (document, main) else { continue };
            let named = rows.spaces().named_columns();
            let named = named.filter_map(|(name, column)| Some((name.clone(), numbered.block.vector(column, slot)?)));
            out.line(&Line::Record {
                id: document.id.clone(),
                page_content: Cow::Borrowed(&document.page_content),
                metadata: Cow::Borrowed(&document.metadata),
                vector: encode_vector(vector),
                named: named.map(|(name, vector)| (name, encode_vector(vector))).collect(),
            })?;
            written += 1;
        }
    }
    Ok(written)
}

/// Writes lines and keeps the checksum of all bytes so far.
struct LineWriter<W> {
    inner: W,
    crc: Hasher,
}

impl<W: Write> LineWriter<W> {
    fn line(&mut self, line: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut *self, line)?;
        self.write_all(b"\n")
    }
}

impl<W: Write> Write for LineWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.crc.update(bytes.get(..written).unwrap_or(bytes));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
