//! How much a record takes, before it is written.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use toller_core::collection::VectorParams;
use toller_core::value::metadata_bytes;
use toller_core::{Document, Record, Vector};

/// What a record takes beside what can be counted: its ids, and its places in the engine's tables.
const ALL_ELSE: usize = 1024;

/// Bytes of a term and its weight.
const TERM: usize = size_of::<u32>() + size_of::<f32>();

/// About how many bytes a record is. O(values in its metadata).
pub(super) fn of_record(record: &Record, params: &VectorParams) -> u64 {
    let elements: usize = record.vector.dimension() + record.named.values().map(Vector::dimension).sum::<usize>();
    let text = record.document.page_content.len();
    // A term is hardly shorter than three letters with what parts it from the next.
    let terms = if params.keyword.is_some() { text / 4 * TERM } else { 0 };
    (elements * size_of::<f32>() + terms) as u64 + of_document(&record.document)
}

/// About how many bytes a document is. O(values in its metadata).
pub(super) fn of_document(document: &Document) -> u64 {
    (document.page_content.len() + metadata_bytes(&document.metadata) + ALL_ELSE) as u64
}

/// How many bytes of the disk the files in a folder take. O(files).
pub(super) fn of_folder(folder: &Path) -> u64 {
    // Files come and go while they are counted.
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(file) if file.is_dir() => of_folder(&entry.path()),
        Ok(file) => file.blocks().saturating_mul(512),
        Err(_) => 0,
    };
    entries.flatten().map(of).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use toller_core::{DocumentId, KeywordParams, Metadata, Metric, Value};

    use super::*;

    fn document(metadata: Metadata) -> Document {
        Document { id: DocumentId::new("a").unwrap(), page_content: "x".repeat(1000), metadata }
    }

    #[test]
    fn everything_of_a_record_counts() {
        let plain = VectorParams::new(100, Metric::Dot);
        let vector = Vector::new(vec![1.0; 100], Metric::Dot).unwrap();
        let record = Record::new(Arc::new(document(Metadata::new())), vector);
        assert_eq!(of_record(&record, &plain), 1024 + 1000 + 400);
        let keyword = VectorParams { keyword: Some(KeywordParams::default()), ..plain };
        assert_eq!(of_record(&record, &keyword), 1024 + 1000 + 400 + 2000);
    }

    #[test]
    fn folders_count_with_those_in_them() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("a")).unwrap();
        fs::write(folder.path().join("b"), vec![1; 100_000]).unwrap();
        fs::write(folder.path().join("a/c"), vec![1; 100_000]).unwrap();
        for file in ["b", "a/c"] {
            fs::File::open(folder.path().join(file)).unwrap().sync_all().unwrap();
        }
        let taken = of_folder(folder.path());
        assert!((200_000..300_000).contains(&taken), "{taken}");
        assert_eq!(of_folder(&folder.path().join("none")), 0);
    }

    #[test]
    fn metadata_counts_as_it_is_written() {
        let list = Value::List(vec![Value::String("long ".repeat(10_000)), Value::Int(1), Value::Null]);
        let metadata = Metadata::from([("map".to_owned(), Value::Map(Metadata::from([("list".to_owned(), list)])))]);
        let written = serde_json::to_vec(&metadata).unwrap().len() as u64;
        let counted = of_document(&document(metadata)) - of_document(&document(Metadata::new()));
        assert!((written..written + 50).contains(&counted), "{counted} for {written} bytes");
    }
}
