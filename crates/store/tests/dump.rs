//! Dump and load: everything comes back, and a file that was damaged in any way is refused.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests: they fail by panicking"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use toller_core::catalog::{Expected, RecordKind};
use toller_core::collection::VectorParams;
use toller_core::vector_store::{Selector, VectorSearch};
use toller_core::{
    Catalog, CollectionName, Document, DocumentId, DocumentStore, Metadata, Metric, Principal, Record, RequestContext,
    Role, Tenant, Value, Vector, VectorName, VectorSpace, VectorStore,
};
use toller_store::{FileError, MemoryStore};

fn context(tenant: &str) -> RequestContext {
    let tenant = Tenant::new(tenant).unwrap();
    RequestContext::new(Principal { name: "test".into(), tenant, role: Role::Admin })
}

fn name(name: &str) -> CollectionName {
    CollectionName::new(name).unwrap()
}

fn id(id: &str) -> DocumentId {
    DocumentId::new(id).unwrap()
}

fn document(text: &str, metadata: &[(&str, Value)]) -> Document {
    let metadata: Metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    Document { id: id(text), page_content: format!("text of {text}\nwith \"quotes\" and \u{2028} é"), metadata }
}

fn record(text: &str, vector: &[f32], metadata: &[(&str, Value)]) -> Record {
    let vector = Vector::new(vector.to_vec(), Metric::Dot).unwrap();
    Record::new(Arc::new(document(text, metadata)), vector)
}

/// Two tenants, three metrics, tombstones, numbers of both kinds, catalogue records with gaps in their versions.
async fn filled() -> MemoryStore {
    let store = MemoryStore::new();
    let (ours, theirs) = (context("ours"), context("theirs"));
    for (context, collection, metric) in
        [(&ours, "cosine", Metric::Cosine), (&ours, "empty", Metric::Dot), (&theirs, "cosine", Metric::Euclidean)]
    {
        let params = VectorParams::new(3, metric);
        store.vectors.create(context, &name(collection), params).await.unwrap();
    }
    let numbers = [
        ("beyond_doubles", Value::Int((1 << 53) + 1)),
        ("one", Value::Int(1)),
        ("one_as_double", Value::Double(1.0)),
        ("negative_zero", Value::Double(-0.0)),
        ("tenth", Value::Double(0.1)),
        ("large", Value::Double(1.797_693_134_862_315_7e308)),
        ("nested", Value::from(vec![Value::Map(Metadata::new()), Value::Null, Value::Bool(false)])),
    ];
    let records = vec![
        record("z", &[1.0, 2.0, 3.0], &numbers),
        record("gone", &[1.0, 1.0, 1.0], &[]),
        record("a", &[f32::MIN_POSITIVE, -0.0, 1e-40], &[]),
        record("m", &[0.1, 0.2, f32::MAX], &[]),
    ];
    store.vectors.upsert(&ours, &name("cosine"), records).await.unwrap();
    let gone = Selector::Ids(vec![id("gone")]);
    assert_eq!(store.vectors.delete(&ours, &name("cosine"), &gone).await.unwrap(), 1);
    store.vectors.upsert(&theirs, &name("cosine"), vec![record("z", &[0.0; 3], &[])]).await.unwrap();
    let documents = vec![document("p2", &numbers), document("p1", &[])];
    store.documents.put(&ours, &name("parents"), documents).await.unwrap();
    store.documents.put(&theirs, &name("parents"), vec![document("p2", &[])]).await.unwrap();
    for (context, kind, key) in [
        (&ours, RecordKind::Collection, "c"),
        (&ours, RecordKind::Retriever, "r"),
        (&theirs, RecordKind::Collection, "c"),
    ] {
        let version = store.catalog.swap(context, kind, key, Expected::Absent, vec![0, 255]).await.unwrap();
        let value = format!("value of {key}").into_bytes();
        store.catalog.swap(context, kind, key, Expected::Version(version), value).await.unwrap();
    }
    let last = store.catalog.swap(&ours, RecordKind::Retriever, "last", Expected::Absent, Vec::new()).await.unwrap();
    store.catalog.remove(&ours, RecordKind::Retriever, "last", last).await.unwrap();
    store
}

fn dumped(store: &MemoryStore, path: &Path) -> String {
    store.dump(path).unwrap();
    std::fs::read_to_string(path).unwrap()
}

#[tokio::test]
async fn everything_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.jsonl");
    let store = filled().await;
    let first = dumped(&store, &path);
    let (loaded, counts) = MemoryStore::load(&path).unwrap();
    assert_eq!((counts.collections, counts.records, counts.documents, counts.catalog_records), (3, 4, 3, 3));
    assert_eq!(dumped(&loaded, &path), first, "a dump of what was loaded is the same file");

    let ours = context("ours");
    for asked in ["z", "a", "m", "gone"] {
        let ids = [id(asked)];
        let before = store.vectors.get(&ours, &name("cosine"), &ids).await.unwrap();
        assert_eq!(loaded.vectors.get(&ours, &name("cosine"), &ids).await.unwrap(), before, "{asked}");
    }
    let ids = [id("p1"), id("p2")];
    let before = store.documents.get(&ours, &name("parents"), &ids).await.unwrap();
    assert_eq!(loaded.documents.get(&ours, &name("parents"), &ids).await.unwrap(), before);
    let tenth = &before[1].as_ref().unwrap().metadata["tenth"];
    assert!(matches!(tenth, Value::Double(value) if value.to_bits() == 0.1_f64.to_bits()));
    assert!(matches!(before[1].as_ref().unwrap().metadata["one_as_double"], Value::Double(_)));
    assert!(matches!(before[1].as_ref().unwrap().metadata["one"], Value::Int(1)));

    for kind in [RecordKind::Collection, RecordKind::Retriever] {
        let before = store.catalog.list(&ours, kind).await.unwrap();
        assert_eq!(loaded.catalog.list(&ours, kind).await.unwrap(), before);
    }
    let next = async |store: &MemoryStore| {
        store.catalog.swap(&ours, RecordKind::Retriever, "next", Expected::Absent, Vec::new()).await.unwrap()
    };
    assert_eq!(next(&loaded).await, next(&store).await, "versions go on where they stopped");
}

#[tokio::test]
async fn an_empty_store_comes_back_empty() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.jsonl");
    assert_eq!(dumped(&MemoryStore::new(), &path).lines().count(), 2);
    let (loaded, counts) = MemoryStore::load(&path).unwrap();
    assert_eq!(counts, Default::default());
    assert_eq!(loaded.catalog.list(&context("ours"), RecordKind::Collection).await.unwrap(), []);
}

#[tokio::test]
async fn a_file_cut_off_anywhere_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.jsonl");
    let whole = dumped(&filled().await, &path).into_bytes();
    for length in 0..whole.len() - 1 {
        std::fs::write(&path, &whole[..length]).unwrap();
        let fault = MemoryStore::load(&path).expect_err("a part must be refused");
        let header_length = whole.iter().position(|byte| *byte == b'\n').unwrap();
        if length < header_length {
            assert!(matches!(fault, FileError::NotADump { .. }), "{length}: {fault}");
        } else {
            assert!(matches!(fault, FileError::Truncated { .. }), "{length}: {fault}");
            assert!(fault.to_string().contains("data.jsonl:"), "{fault}");
        }
    }
}

#[tokio::test]
async fn a_file_with_any_changed_byte_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.jsonl");
    let whole = dumped(&filled().await, &path).into_bytes();
    for index in 0..whole.len() {
        for flip in [0x01, 0x20] {
            let mut damaged = whole.clone();
            damaged[index] ^= flip;
            std::fs::write(&path, &damaged).unwrap();
            assert!(MemoryStore::load(&path).is_err(), "byte {index} with {flip:#x} flipped must be noticed");
        }
    }
}

#[tokio::test]
async fn lines_that_are_lost_moved_or_repeated_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.jsonl");
    let text = dumped(&filled().await, &path);
    let lines: Vec<&str> = text.lines().collect();
    let fault_of = |lines: &[&str]| {
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        MemoryStore::load(&path).expect_err("must be refused").to_string()
    };
    for index in 1..lines.len() - 1 {
        let mut lost = lines.clone();
        lost.remove(index);
        fault_of(&lost);
        let mut repeated = lines.clone();
        repeated.insert(index, lines[index]);
        fault_of(&repeated);
    }
    let mut more = lines.clone();
    more.push("{}");
    let fault = fault_of(&more);
    assert!(
        fault.contains(&format!("data.jsonl:{}", lines.len() + 1)) && fault.contains("more after the end"),
        "{fault}"
    );
}

#[tokio::test]
async fn a_file_of_before_keyword_search_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.jsonl");
    let records = concat!(
        r#"{"format":"toller-memory-dump","version":1,"last_catalog_version":0}"#,
        "\n",
        r#"{"collection":{"tenant":"ours","name":"docs","dimension":2,"metric":"cosine"}}"#,
        "\n",
        r#"{"record":{"id":"a","page_content":"toll","metadata":{},"vector":"AACAPwAAAEA="}}"#,
        "\n",
    );
    let crc32 = crc32fast::hash(records.as_bytes());
    let counts = r#"{"catalog_records":0,"collections":1,"records":1,"documents":0}"#;
    std::fs::write(&path, format!("{records}{{\"end\":{{\"counts\":{counts},\"crc32\":{crc32}}}}}\n")).unwrap();
    let (loaded, _) = MemoryStore::load(&path).unwrap();
    let (ours, docs) = (context("ours"), name("docs"));
    assert_eq!(loaded.vectors.params(&ours, &docs).await.unwrap().keyword, None);
    assert!(loaded.vectors.get(&ours, &docs, &[id("a")]).await.unwrap()[0].is_some());
}

/// A collection with two named spaces, and records with vectors in both, one and none of them.
#[tokio::test]
async fn named_vectors_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.jsonl");
    let store = MemoryStore::new();
    let (ours, docs) = (context("ours"), name("docs"));
    let of = |name: &str| VectorName::new(name).unwrap();
    let named = BTreeMap::from([
        (of("title"), VectorSpace { dimension: 2, metric: Metric::Euclidean }),
        (of("image"), VectorSpace { dimension: 1, metric: Metric::Dot }),
    ]);
    let params = VectorParams { named, ..VectorParams::new(3, Metric::Cosine) };
    store.vectors.create(&ours, &docs, params.clone()).await.unwrap();
    let with = |id: &str, vectors: &[(&str, &[f32])]| {
        let mut record = record(id, &[1.0, 2.0, 3.0], &[]);
        let vectors =
            vectors.iter().map(|(name, vector)| (of(name), Vector::new(vector.to_vec(), Metric::Dot).unwrap()));
        record.named.extend(vectors);
        record
    };
    let records = vec![
        with("a", &[("title", &[0.1, -0.0]), ("image", &[-1.0])]),
        with("b", &[("title", &[0.0, 0.0])]),
        with("c", &[]),
    ];
    store.vectors.upsert(&ours, &docs, records.clone()).await.unwrap();
    store.dump(&path).unwrap();
    let (loaded, _) = MemoryStore::load(&path).unwrap();
    assert_eq!(loaded.vectors.params(&ours, &docs).await.unwrap(), params);
    let page = loaded.vectors.scroll(&ours, &docs, None, None, 10).await.unwrap();
    assert_eq!(page.records, records);
    let query = Vector::new(vec![3.0, 4.0], Metric::Euclidean).unwrap();
    let search = VectorSearch { vector: &query, using: Some(&of("title")), filter: None, limit: 10 };
    let hits = loaded.vectors.search(&ours, &docs, search).await.unwrap();
    let hits: Vec<&str> = hits.iter().map(|hit| hit.record.document.id.as_str()).collect();
    assert_eq!(hits, ["a", "b"]);
}

#[tokio::test]
async fn faults_say_where_and_what() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.jsonl");
    let header = r#"{"format":"toller-memory-dump","version":1,"last_catalog_version":1}"#;
    let collection = r#"{"collection":{"tenant":"t","name":"c","dimension":2,"metric":"cosine"}}"#;
    let record = |id: &str, vector: &str| {
        format!(r#"{{"record":{{"id":"{id}","page_content":"","metadata":{{}},"vector":"{vector}"}}}}"#)
    };
    // 1, 2; 1; 0, 0; NaN, 1.
    let (good, short, zero, nan) = ("AACAPwAAAEA=", "AACAPw==", "AAAAAAAAAAA=", "AADAfwAAgD8=");
    let with_title = r#"{"collection":{"tenant":"t","name":"c","dimension":2,"metric":"cosine","named":{"title":{"dimension":1,"metric":"dot"}}}}"#;
    let titled =
        |name: &str, vector: &str| record("a", good).replace("}}", &format!(r#","named":{{"{name}":"{vector}"}}}}}}"#));
    for (lines, expected) in [
        (vec![header.into(), with_title.into(), titled("title", good)], vec!["data.jsonl:3:", "has 2 dimensions"]),
        (vec![header.into(), with_title.into(), titled("other", short)], vec!["data.jsonl:3:", "none of that name"]),
        (vec![header.into(), with_title.replace("title", "a.b")], vec!["data.jsonl:2:", "ASCII letters"]),
        (
            vec![header.into(), with_title.replace(":1,", ":0,")],
            vec!["data.jsonl:2:", "named_vectors[\"title\"].dimension"],
        ),
        (vec!["{}".to_owned()], vec!["is not a dump"]),
        (vec!["PK\u{3}\u{4}".to_owned()], vec!["is not a dump"]),
        (
            vec![r#"{"format":"toller-memory-dump","version":9}"#.to_owned()],
            vec!["version 9", "reads versions up to 3"],
        ),
        (vec![header.to_owned()], vec!["data.jsonl:1:", "cut off"]),
        (vec![header.to_owned(), record("a", good)], vec!["data.jsonl:2:", "before any collection"]),
        (vec![header.to_owned(), "{\"x\":1}".to_owned()], vec!["data.jsonl:2:", "unknown variant `x`"]),
        (vec![header.into(), collection.into(), record("a", short)], vec!["data.jsonl:3:", "\"a\" has 1 dimensions"]),
        (vec![header.into(), collection.into(), record("a", zero)], vec!["data.jsonl:3:", "zero vector"]),
        (vec![header.into(), collection.into(), record("a", nan)], vec!["data.jsonl:3:", "finite"]),
        (vec![header.into(), collection.into(), record("a", "AAA=")], vec!["data.jsonl:3:", "within a number"]),
        (vec![header.into(), collection.into(), record("a", "?")], vec!["data.jsonl:3:", "base64"]),
        (vec![header.into(), collection.into(), record("", good)], vec!["data.jsonl:3:", "must not be empty"]),
        (
            vec![header.into(), collection.into(), record("a", good), record("a", good)],
            vec!["data.jsonl:4:", "\"a\" stands in the file twice"],
        ),
        (vec![header.into(), collection.into(), collection.into()], vec!["data.jsonl:3:", "stands in the file twice"]),
        (
            vec![
                header.into(),
                r#"{"catalog":{"tenant":"t","kind":"collection","name":"c","version":2,"value":""}}"#.into(),
            ],
            vec!["data.jsonl:2:", "version 2", "header's 1"],
        ),
    ] {
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        let fault = MemoryStore::load(&path).expect_err("must be refused").to_string();
        for part in expected {
            assert!(fault.contains(part), "{fault:?} must contain {part:?}");
        }
    }
}

#[tokio::test]
async fn a_dump_that_fails_leaves_the_old_file_and_no_litter() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled().await;
    let fault = store.dump(&folder.path().join("missing/data.jsonl")).unwrap_err();
    assert!(fault.to_string().contains("missing") && fault.to_string().contains("check that the folder exists"));

    // A folder of that name cannot be replaced by a file.
    let occupied = folder.path().join("occupied");
    std::fs::create_dir(&occupied).unwrap();
    std::fs::write(occupied.join("inside"), "kept").unwrap();
    assert!(matches!(store.dump(&occupied), Err(FileError::Io { .. })));
    assert_eq!(std::fs::read_to_string(occupied.join("inside")).unwrap(), "kept");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["occupied"], "no temporary file stays behind");

    let missing = MemoryStore::load(&folder.path().join("nothing.jsonl")).unwrap_err();
    assert!(matches!(missing, FileError::Io { .. }) && missing.to_string().contains("nothing.jsonl"), "{missing}");
}

#[test]
fn what_a_killed_dump_left_is_removed_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    for name in [".toller-dump-Ab12.partial", ".toller-dump-.partial"] {
        std::fs::write(folder.path().join(name), "half a li").unwrap();
    }
    let others = [".toller-dump-Ab12", "memory.dump", "my.toller-dump-1.partial"];
    for name in others {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    std::fs::create_dir(folder.path().join(".toller-dump-folder.partial")).unwrap();
    assert_eq!(MemoryStore::remove_unfinished_dumps(folder.path()).unwrap(), 2);
    assert_eq!(MemoryStore::remove_unfinished_dumps(folder.path()).unwrap(), 0);
    assert!(others.iter().all(|name| folder.path().join(name).is_file()));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), others.len() + 1);

    let missing = folder.path().join("missing");
    let fault = MemoryStore::remove_unfinished_dumps(&missing).unwrap_err().to_string();
    assert!(fault.contains("missing"), "{fault}");
}
