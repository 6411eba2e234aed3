//! Stores to test on, and what a collection holds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use toller_core::filter::KeyPath;
use toller_core::{
    Catalog, CollectionName, DocumentId, Embeddings, Filter, Metadata, Metric, Models, Principal, RequestContext, Role,
    Tenant, Value, VectorStore,
};
use toller_store::{CollectionHandle, Collections, MemoryStore, NewCollection, NewDocument, VectorSource};
#[cfg(feature = "edge")]
use toller_store::{EdgeConfig, EdgeError, EdgeStore};

use crate::model::TestModel;

/// The caller whose calls no gate holds up.
pub(crate) const WRITER: &str = "writer";

/// A store that can be closed and opened again.
pub(crate) enum Ground {
    Memory(MemoryStore),
    #[cfg(feature = "edge")]
    Edge(TempDir, Option<EdgeStore>),
}

/// Runs a test on every backend.
pub(crate) async fn on_every_backend(test: impl AsyncFn(&mut Ground)) {
    test(&mut Ground::memory()).await;
    #[cfg(feature = "edge")]
    test(&mut Ground::edge().await).await;
}

impl Ground {
    pub(crate) fn memory() -> Self {
        Self::Memory(MemoryStore::new())
    }

    #[cfg(feature = "edge")]
    pub(crate) async fn edge() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder).await;
        Self::Edge(folder, Some(store))
    }

    fn parts(&self) -> (Arc<dyn VectorStore>, Arc<dyn Catalog>) {
        match self {
            Self::Memory(store) => (Arc::clone(&store.vectors) as _, Arc::clone(&store.catalog) as _),
            #[cfg(feature = "edge")]
            Self::Edge(_, store) => {
                let store = store.as_ref().unwrap();
                (Arc::clone(&store.vectors) as _, Arc::clone(&store.catalog) as _)
            }
        }
    }

    /// A process over the store.
    pub(crate) fn collections(&mut self, models: Models) -> Collections {
        let (vectors, catalog) = self.parts();
        Collections::new(vectors, catalog, models).with_reembed_batch(10)
    }

    /// Closes the store and opens what it left.
    pub(crate) async fn reopen(&mut self) {
        match self {
            Self::Memory(store) => {
                let folder: TempDir = tempfile::tempdir().unwrap();
                let file = folder.path().join("dump");
                store.dump(&file).unwrap();
                *store = MemoryStore::load(&file).unwrap().0;
            }
            #[cfg(feature = "edge")]
            Self::Edge(folder, store) => {
                let closed = store.take();
                tokio::task::spawn_blocking(move || drop(closed)).await.unwrap();
                *store = Some(open(folder).await);
            }
        }
    }
}

#[cfg(feature = "edge")]
async fn open(folder: &TempDir) -> EdgeStore {
    let path = folder.path().to_owned();
    let config = EdgeConfig { durability: toller_core::Durability::Process, exact: true, ..EdgeConfig::default() };
    let open = move || {
        // What an operation that was suspended had begun on another thread holds the folder a moment longer.
        for _ in 0..6000 {
            match EdgeStore::open(&path, config) {
                Err(EdgeError::InUse { .. }) => std::thread::sleep(std::time::Duration::from_millis(10)),
                other => return other.unwrap(),
            }
        }
        panic!("the folder is in use still");
    };
    tokio::task::spawn_blocking(open).await.unwrap()
}

fn context_of(principal: &str, tenant: &str) -> RequestContext {
    let tenant = Tenant::new(tenant).unwrap();
    RequestContext::new(Principal { name: principal.into(), tenant, role: Role::Admin })
}

pub(crate) fn context() -> RequestContext {
    context_of("admin", "ours")
}

pub(crate) fn writer() -> RequestContext {
    context_of(WRITER, "ours")
}

pub(crate) fn theirs() -> RequestContext {
    context_of("admin", "theirs")
}

pub(crate) fn name(name: &str) -> CollectionName {
    CollectionName::new(name).unwrap()
}

pub(crate) fn id(id: &str) -> DocumentId {
    DocumentId::new(id).unwrap()
}

pub(crate) fn new_collection(text: &str, vectors: VectorSource) -> NewCollection {
    NewCollection {
        name: name(text),
        description: String::new(),
        labels: BTreeMap::new(),
        metric: Metric::Cosine,
        vectors,
    }
}

/// What a filter can tell texts apart by.
pub(crate) fn parity(text: &str) -> i64 {
    text.len() as i64 % 3
}

pub(crate) fn with_parity(parity: i64) -> Filter {
    Filter::Eq(KeyPath::parse("parity").unwrap(), Value::Int(parity))
}

pub(crate) fn document(id: &str, text: &str) -> NewDocument {
    let metadata = Metadata::from([("parity".to_owned(), Value::Int(parity(text)))]);
    NewDocument { id: Some(id.to_owned()), page_content: text.to_owned(), metadata, ..NewDocument::default() }
}

/// A collection filled by a model, with so many documents.
pub(crate) async fn make(collections: &Collections, text: &str, model: &str, documents: usize) -> CollectionHandle {
    let new = new_collection(text, VectorSource::NamedModel(model.to_owned()));
    collections.create(&context(), new).await.unwrap();
    let handle = collections.open(&context(), &name(text)).await.unwrap();
    let documents = (0..documents).map(|n| document(&format!("d{n:03}"), &format!("text {n}"))).collect();
    handle.add(&writer(), documents, None).await.unwrap();
    handle
}

/// Everything that a document is stored with.
pub(crate) type Stored = BTreeMap<String, (String, Metadata, Vec<u32>)>;

pub(crate) async fn contents(handle: &CollectionHandle) -> Stored {
    let mut stored = Stored::new();
    let mut from = None;
    loop {
        let page = handle.scroll(&context(), None, from.as_ref(), 7).await.unwrap();
        for record in page.records {
            let document = &record.document;
            let bits = record.vector.as_slice().iter().map(|value| value.to_bits()).collect();
            let stand_in = (document.page_content.clone(), document.metadata.clone(), bits);
            assert_eq!(stored.insert(document.id.to_string(), stand_in), None);
        }
        match page.next {
            Some(next) => from = Some(next),
            None => break,
        }
    }
    assert_eq!(handle.count(&context(), None).await.unwrap(), stored.len() as u64);
    stored
}

/// What a collection holds that is made now, by that model, of these ids and texts.
pub(crate) async fn expected(collections: &Collections, model: &Arc<TestModel>, kept: &[(String, String)]) -> Stored {
    let scratch = "scratch";
    let model_name = model.fingerprint().model.clone();
    let new = new_collection(scratch, VectorSource::NamedModel(model_name));
    collections.create(&context(), new).await.unwrap();
    let handle = collections.open(&context(), &name(scratch)).await.unwrap();
    let documents: Vec<NewDocument> = kept.iter().map(|(id, text)| document(id, text)).collect();
    handle.add(&writer(), documents, None).await.unwrap();
    let stored = contents(&handle).await;
    collections.delete(&context(), &name(scratch)).await.unwrap();
    stored
}

/// Looks until it is so.
pub(crate) async fn until(is_so: impl AsyncFn() -> bool) {
    for _ in 0..2_000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it never was so");
}
