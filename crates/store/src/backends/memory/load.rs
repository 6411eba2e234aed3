//! Reads a memory store from the file that a dump wrote.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crc32fast::Hasher;
use parking_lot::RwLock;
use toller_core::collection::VectorParams;
use toller_core::value::check_metadata;
use toller_core::vector::MAX_DIMENSION;
use toller_core::vector_space::check_named_spaces;
use toller_core::{Document, DocumentId, Metadata, NamedVectors, Record, Vector, VectorSpace};

use super::catalog::{CatalogState, Entry};
use super::dump_format::{DumpCounts, FIRST_VERSION, FORMAT, Header, Line, VERSION, decode_bytes, decode_vector};
use super::postings::NewPostings;
use super::vector_store::{Collection, vector_of_terms};
use super::{MemoryCatalog, MemoryDocumentStore, MemoryStore, MemoryVectorStore};
use crate::backends::CollectionKey;
use crate::error::FileError;

/// Bytes that are read from the file at once.
const BUFFER_BYTES: usize = 1 << 20;

/// See [`MemoryStore::load`].
pub(super) fn load(path: &Path) -> Result<(MemoryStore, DumpCounts), FileError> {
    let mut lines = Lines::open(path)?;
    let mut content = Content::default();
    content.catalog.last_version = lines.header()?.last_catalog_version;
    loop {
        let Some(line) = lines.next()? else { return Err(lines.cut_off()) };
        match line {
            Line::End { counts, crc32 } => {
                lines.expect_nothing_more()?;
                content.close();
                for (what, found, expected) in [
                    ("the checksum", lines.crc_before_this_line.into(), crc32.into()),
                    ("the number of catalogue records", content.counts.catalog_records, counts.catalog_records),
                    ("the number of collections", content.counts.collections, counts.collections),
                    ("the number of records", content.counts.records, counts.records),
                    ("the number of documents", content.counts.documents, counts.documents),
                ] {
                    if found != expected {
                        return Err(FileError::Damaged { path: lines.path, line: lines.number, what, found, expected });
                    }
                }
                return Ok((content.into_store(), counts));
            }
            line => content.take(line).map_err(|fault| lines.malformed(fault))?,
        }
    }
}

/// What was read so far.
#[derive(Default)]
struct Content {
    catalog: CatalogState,
    collections: BTreeMap<CollectionKey, Arc<Collection>>,
    document_sets: BTreeMap<CollectionKey, BTreeMap<DocumentId, Arc<Document>>>,
    counts: DumpCounts,
    open: Open,
}

/// What the next records or documents belong to.
#[derive(Default)]
enum Open {
    #[default]
    Nothing,
    Collection(CollectionKey, Box<Collection>),
    DocumentSet(CollectionKey, BTreeMap<DocumentId, Arc<Document>>),
}

impl Content {
    fn take(&mut self, line: Line<'_>) -> Result<(), String> {
        match line {
            Line::Catalog { tenant, kind, name, version, value } => {
                if version == 0 || version > self.catalog.last_version {
                    return Err(format!(
                        "version {version} of the catalogue record \"{name}\" is not between 1 and the header's {}; restore the file from a copy",
                        self.catalog.last_version
                    ));
                }
                let entry = Entry { version, value: decode_bytes(&value)? };
                let described = format!("the catalogue record \"{name}\" of tenant \"{tenant}\"");
                self.counts.catalog_records += 1;
                refuse_second(self.catalog.records.insert((tenant, kind.into(), name), entry), &described)
            }
            Line::Collection { tenant, name, dimension, metric, keyword, named } => {
                self.close();
                if !(1..=MAX_DIMENSION).contains(&(dimension as usize)) {
                    return Err(format!("the dimension must be between 1 and {MAX_DIMENSION}, got {dimension}"));
                }
                check_named_spaces(&named).map_err(|fault| fault.to_string())?;
                let key = (tenant, name);
                if self.collections.contains_key(&key) {
                    return refuse_second(Some(()), &format!("the collection \"{}\" of tenant \"{}\"", key.1, key.0));
                }
                let params = VectorParams { keyword, named, ..VectorParams::new(dimension, metric) };
                self.open = Open::Collection(key, Box::new(Collection::new(params)));
                self.counts.collections += 1;
                Ok(())
            }
            Line::Record { id, page_content, metadata, vector, named } => {
                let Open::Collection(_, collection) = &mut self.open else {
                    return Err("a record stands before any collection; restore the file from a copy".to_owned());
                };
                let Collection { params, spaces, table } = collection.as_mut();
                let table = table.get_mut();
                let main = params.space(None).map_err(|fault| fault.to_string())?;
                let vector = stored_vector(&id, main, &vector)?;
                let mut vectors = NamedVectors::new();
                for (name, text) in named {
                    let space = params.named.get(&name).ok_or_else(|| {
                        format!("the record \"{id}\" has a vector \"{name}\", its collection has none of that name; restore the file from a copy")
                    })?;
                    let vector = stored_vector(&id, *space, &text)?;
                    vectors.insert(name, vector);
                }
                let document = checked_document(id, page_content.into_owned(), metadata.into_owned())?;
                if table.contains(&document.id) {
                    return refuse_second(Some(()), &format!("the record \"{}\"", document.id));
                }
                let terms = vector_of_terms(params, &document.page_content);
                let row = spaces.row(Record { document, vector, named: vectors });
                table.upsert(vec![row], NewPostings::new(terms.as_slice()));
                self.counts.records += 1;
                Ok(())
            }
            Line::DocumentSet { tenant, collection } => {
                self.close();
                let key = (tenant, collection);
                if self.document_sets.contains_key(&key) {
                    return refuse_second(Some(()), &format!("the documents of \"{}\" of tenant \"{}\"", key.1, key.0));
                }
                self.open = Open::DocumentSet(key, BTreeMap::new());
                Ok(())
            }
            Line::Document { id, page_content, metadata } => {
                let Open::DocumentSet(_, documents) = &mut self.open else {
                    return Err("a document stands before any document set; restore the file from a copy".to_owned());
                };
                let document = checked_document(id, page_content.into_owned(), metadata.into_owned())?;
                let described = format!("the document \"{}\"", document.id);
                self.counts.documents += 1;
                refuse_second(documents.insert(document.id.clone(), document), &described)
            }
            Line::End { .. } => Err("the file ends twice; restore it from a copy".to_owned()),
        }
    }

    /// Puts the open collection or document set where it belongs.
    fn close(&mut self) {
        match std::mem::take(&mut self.open) {
            Open::Nothing => {}
            Open::Collection(key, collection) => {
                self.collections.insert(key, Arc::from(collection));
            }
            Open::DocumentSet(key, documents) => {
                self.document_sets.insert(key, documents);
            }
        }
    }

    fn into_store(self) -> MemoryStore {
        let document_sets = self.document_sets.into_iter().map(|(key, documents)| (key, Arc::new(documents)));
        MemoryStore {
            vectors: Arc::new(MemoryVectorStore { collections: RwLock::new(self.collections) }),
            documents: Arc::new(MemoryDocumentStore { collections: RwLock::new(document_sets.collect()) }),
            catalog: Arc::new(MemoryCatalog { state: RwLock::new(self.catalog) }),
        }
    }
}

fn refuse_second<T>(earlier: Option<T>, what: &str) -> Result<(), String> {
    match earlier {
        None => Ok(()),
        Some(_) => Err(format!("{what} stands in the file twice; restore it from a copy")),
    }
}

fn stored_vector(id: &DocumentId, space: VectorSpace, text: &str) -> Result<Vector, String> {
    let values = decode_vector(text)?;
    if values.len() != space.dimension as usize {
        return Err(format!(
            "the vector of \"{id}\" has {} dimensions, its collection has {}; restore the file from a copy",
            values.len(),
            space.dimension
        ));
    }
    Vector::new(values, space.metric)
        .map_err(|fault| format!("the vector of \"{id}\" {fault}; restore the file from a copy"))
}

fn checked_document(id: DocumentId, page_content: String, metadata: Metadata) -> Result<Arc<Document>, String> {
    check_metadata(&metadata).map_err(|(path, fault)| format!("the metadata of \"{id}\" at \"{path}\" {fault}"))?;
    Ok(Arc::new(Document { id, page_content, metadata }))
}

/// The lines of a file with their numbers and checksum. Holds one line at a time.
struct Lines {
    path: PathBuf,
    reader: BufReader<File>,
    buffer: Vec<u8>,
    number: u64,
    crc: Hasher,
    crc_before_this_line: u32,
}

impl Lines {
    fn open(path: &Path) -> Result<Self, FileError> {
        let file = File::open(path).map_err(FileError::io("open", path))?;
        Ok(Self {
            path: path.to_owned(),
            reader: BufReader::with_capacity(BUFFER_BYTES, file),
            buffer: Vec::new(),
            number: 0,
            crc: Hasher::new(),
            crc_before_this_line: 0,
        })
    }

    /// Reads the next line into the buffer; false at the end of the file.
    fn advance(&mut self) -> Result<bool, FileError> {
        self.buffer.clear();
        let read = self.reader.read_until(b'\n', &mut self.buffer).map_err(FileError::io("read", &self.path))?;
        if read == 0 {
            return Ok(false);
        }
        self.number += 1;
        self.crc_before_this_line = self.crc.clone().finalize();
        self.crc.update(&self.buffer);
        Ok(true)
    }

    fn header(&mut self) -> Result<Header, FileError> {
        self.advance()?;
        let header: Header = match serde_json::from_slice(&self.buffer) {
            Ok(header) => header,
            Err(_) => return Err(FileError::NotADump { path: self.path.clone() }),
        };
        if header.format != FORMAT {
            return Err(FileError::NotADump { path: self.path.clone() });
        }
        if !(FIRST_VERSION..=VERSION).contains(&header.version) {
            return Err(FileError::UnsupportedVersion {
                path: self.path.clone(),
                found: header.version,
                supported: VERSION,
            });
        }
        Ok(header)
    }

    /// The next line, none at the end of the file.
    fn next(&mut self) -> Result<Option<Line<'static>>, FileError> {
        if !self.advance()? {
            return Ok(None);
        }
        match serde_json::from_slice(&self.buffer) {
            Ok(line) => Ok(Some(line)),
            Err(_) if !self.buffer.ends_with(b"\n") => Err(self.cut_off()),
            Err(fault) => Err(self.malformed(json_fault(&fault))),
        }
    }

    fn expect_nothing_more(&mut self) -> Result<(), FileError> {
        let (number, crc) = (self.number, self.crc_before_this_line);
        if self.advance()? {
            return Err(self.malformed("there is more after the end; restore the file from a copy".to_owned()));
        }
        (self.number, self.crc_before_this_line) = (number, crc);
        Ok(())
    }

    fn cut_off(&self) -> FileError {
        FileError::Truncated { path: self.path.clone(), line: self.number }
    }

    fn malformed(&self, fault: String) -> FileError {
        FileError::Malformed { path: self.path.clone(), line: self.number, fault }
    }
}

/// The fault without the line, which is always 1 within a line of its own.
fn json_fault(fault: &serde_json::Error) -> String {
    let text = fault.to_string();
    let place = format!(" at line {} column {}", fault.line(), fault.column());
    let text = text.strip_suffix(&place).unwrap_or(&text);
    format!("{text} (column {}); restore the file from a copy", fault.column())
}
