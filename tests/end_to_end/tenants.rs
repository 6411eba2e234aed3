//! Three tenants do whatever they like, with the same names and ids, through every call that reads or writes. After each step
//! every answer to each of them is what a simple model of that tenant alone says.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sha2::{Digest, Sha256};
use toller_api::v1;
use toller_api::v1::documents_delete_request::Selector;
use toller_api::v1::filter::Kind as FilterKind;
use toller_api::v1::retriever::Kind;
use toller_tests::client::Client;
use toller_tests::request::*;
use toller_tests::server::{Server, Settings};
use tonic::{Code, Status};

const TENANTS: [&str; 3] = ["acme", "umbrella", "initech"];
const COLLECTIONS: [&str; 2] = ["docs", "notes"];
const RETRIEVERS: [&str; 2] = ["best", "other"];
const IDS: u8 = 6;
const BUCKETS: u8 = 2;

/// What a tenant may do. Numbers choose among the names above.
#[derive(Debug, Clone)]
enum Step {
    Create(usize),
    Drop(usize),
    Describe(usize, u8),
    Add(usize, BTreeSet<u8>, u8),
    DeleteIds(usize, BTreeSet<u8>),
    DeleteBucket(usize, u8),
    DeleteAll(usize),
    Store(usize, usize),
    Forget(usize),
    Keep(usize, BTreeSet<u8>),
    Discard(usize, BTreeSet<u8>),
}

fn step() -> impl Strategy<Value = Step> {
    let collection = || 0..COLLECTIONS.len();
    let ids = || proptest::collection::btree_set(0..IDS, 0..4);
    prop_oneof![
        3 => collection().prop_map(Step::Create),
        1 => collection().prop_map(Step::Drop),
        1 => (collection(), any::<u8>()).prop_map(|(collection, text)| Step::Describe(collection, text)),
        8 => (collection(), ids(), 0..BUCKETS).prop_map(|(collection, ids, bucket)| Step::Add(collection, ids, bucket)),
        2 => (collection(), ids()).prop_map(|(collection, ids)| Step::DeleteIds(collection, ids)),
        1 => (collection(), 0..BUCKETS).prop_map(|(collection, bucket)| Step::DeleteBucket(collection, bucket)),
        1 => collection().prop_map(Step::DeleteAll),
        2 => (0..RETRIEVERS.len(), collection()).prop_map(|(name, collection)| Step::Store(name, collection)),
        1 => (0..RETRIEVERS.len()).prop_map(Step::Forget),
        2 => (collection(), ids()).prop_map(|(store, ids)| Step::Keep(store, ids)),
        1 => (collection(), ids()).prop_map(|(store, ids)| Step::Discard(store, ids)),
    ]
}

/// Text and bucket of documents by id.
type Rows = BTreeMap<String, (String, u8)>;

/// What one tenant should find.
#[derive(Debug, Default)]
struct Model {
    /// Description and documents (text and bucket by id) of each collection.
    collections: BTreeMap<&'static str, (String, Rows)>,
    /// The collection that each stored retriever searches.
    retrievers: BTreeMap<&'static str, &'static str>,
    /// Texts by id in each document store, which has the name of a collection.
    kept: BTreeMap<&'static str, BTreeMap<String, String>>,
}

struct Tenant {
    name: &'static str,
    client: Client,
    model: Model,
}

impl Tenant {
    /// Does a step and checks its answer.
    async fn take(&mut self, step: &Step, number: usize) {
        match step {
            Step::Create(at) => {
                let name = COLLECTIONS[*at];
                let vectors = v1::collections_create_request::Vectors::Client(v1::ClientVectors { dimension: 2 });
                let request = v1::CollectionsCreateRequest {
                    name: name.to_owned(),
                    description: self.name.to_owned(),
                    metric: v1::Metric::Dot.into(),
                    vectors: Some(vectors),
                    ..Default::default()
                };
                let answer = self.client.collections().create(request).await;
                if self.model.collections.contains_key(name) {
                    assert_eq!(answer.unwrap_err().code(), Code::AlreadyExists);
                } else {
                    answer.unwrap();
                    self.model.collections.insert(name, (self.name.to_owned(), BTreeMap::new()));
                }
            }
            Step::Drop(at) => {
                let name = COLLECTIONS[*at];
                let request = v1::CollectionsDeleteRequest { name: name.to_owned() };
                check(self.client.collections().delete(request).await, self.model.collections.remove(name));
            }
            Step::Describe(at, text) => {
                let name = COLLECTIONS[*at];
                let description = format!("{} {text}", self.name);
                let request = v1::CollectionsUpdateRequest {
                    name: name.to_owned(),
                    description: Some(description.clone()),
                    labels: None,
                };
                let known = self.model.collections.get_mut(name);
                check(self.client.collections().update(request).await, known.map(|known| known.0 = description));
            }
            Step::Add(at, ids, bucket) => {
                let text = format!("secret of {} {number}", self.name);
                let document = |id: &u8| {
                    document(&format!("id{id}"), &text)
                        .with("bucket", int((*bucket).into()))
                        .vector(&[1.0, f32::from(*id)])
                };
                let request = v1::DocumentsAddRequest {
                    collection: COLLECTIONS[*at].to_owned(),
                    documents: ids.iter().map(document).collect(),
                    ..Default::default()
                };
                let known = self.model.collections.get_mut(COLLECTIONS[*at]);
                let rows = ids.iter().map(|id| (format!("id{id}"), (text.clone(), *bucket)));
                check(self.client.documents().add(request).await, known.map(|known| known.1.extend(rows)));
            }
            Step::DeleteIds(at, ids) => {
                let ids: BTreeSet<String> = ids.iter().map(|id| format!("id{id}")).collect();
                let selector = Selector::Ids(v1::DocumentIds { ids: ids.iter().cloned().collect() });
                self.delete(*at, selector, |id, _| ids.contains(id)).await;
            }
            Step::DeleteBucket(at, bucket) => {
                let filter = compare(FilterKind::Eq, "bucket", int((*bucket).into()));
                self.delete(*at, Selector::Filter(filter), |_, of| of == *bucket).await;
            }
            Step::DeleteAll(at) => self.delete(*at, Selector::All(true), |_, _| true).await,
            Step::Store(at, collection) => {
                let collection = COLLECTIONS[*collection];
                let retriever = vector_store(RETRIEVERS[*at], search(collection, None));
                let request = v1::RetrieversPutRequest { retriever: Some(retriever), expected_version: None };
                // One over a collection that is not there is refused.
                let known = self.model.collections.contains_key(collection).then_some(());
                if let Ok(answer) = self.client.retrievers().put(request).await {
                    assert_eq!(answer.into_inner().stored.unwrap().retriever.unwrap().name, RETRIEVERS[*at]);
                    self.model.retrievers.insert(RETRIEVERS[*at], collection);
                } else {
                    assert_eq!(known, None, "a retriever over a collection of one's own is stored");
                }
            }
            Step::Forget(at) => {
                let request = v1::RetrieversDeleteRequest { name: RETRIEVERS[*at].to_owned() };
                check(self.client.retrievers().delete(request).await, self.model.retrievers.remove(RETRIEVERS[*at]));
            }
            Step::Keep(at, ids) => {
                let text = format!("parent of {} {number}", self.name);
                let documents = ids.iter().map(|id| document(&format!("id{id}"), &text)).collect();
                let document_store = COLLECTIONS[*at].to_owned();
                let request = v1::DocumentStoresPutRequest { document_store, documents };
                self.client.document_stores().put(request).await.unwrap();
                let rows = ids.iter().map(|id| (format!("id{id}"), text.clone()));
                self.model.kept.entry(COLLECTIONS[*at]).or_default().extend(rows);
            }
            Step::Discard(at, ids) => {
                let ids: BTreeSet<String> = ids.iter().map(|id| format!("id{id}")).collect();
                let ids_to_go = v1::DocumentIds { ids: ids.iter().cloned().collect() };
                let request = v1::DocumentStoresDeleteRequest {
                    document_store: COLLECTIONS[*at].to_owned(),
                    selector: Some(v1::document_stores_delete_request::Selector::Ids(ids_to_go)),
                    ..Default::default()
                };
                let answer = self.client.document_stores().delete(request).await.unwrap().into_inner();
                let rows = self.model.kept.entry(COLLECTIONS[*at]).or_default();
                let before = rows.len();
                rows.retain(|id, _| !ids.contains(id));
                assert_eq!(answer.deleted, (before - rows.len()) as u64);
            }
        }
    }

    async fn delete(&mut self, at: usize, selector: Selector, is_gone: impl Fn(&str, u8) -> bool) {
        let request = v1::DocumentsDeleteRequest { collection: COLLECTIONS[at].to_owned(), selector: Some(selector) };
        let answer = self.client.documents().delete(request).await;
        let gone = self.model.collections.get_mut(COLLECTIONS[at]).map(|(_, rows)| {
            let before = rows.len();
            rows.retain(|id, (_, bucket)| !is_gone(id, *bucket));
            (before - rows.len()) as u64
        });
        if let Some(answer) = check(answer, gone) {
            assert_eq!(Some(answer.into_inner().deleted), gone);
        }
    }

    /// Asks everything that can be asked.
    async fn look(&self) {
        let listed = self.client.collections().list(v1::CollectionsListRequest {}).await.unwrap().into_inner();
        let listed: BTreeMap<String, String> =
            listed.collections.into_iter().map(|found| (found.name, found.description)).collect();
        let wanted = self.model.collections.iter().map(|(name, (text, _))| ((*name).to_owned(), text.clone()));
        assert_eq!(listed, wanted.collect(), "collections of {}", self.name);
        for name in COLLECTIONS {
            self.look_into(name).await;
            let kept = self.model.kept.get(name).cloned().unwrap_or_default();
            let request = v1::DocumentStoresListRequest { document_store: name.to_owned(), ..Default::default() };
            let found = self.client.document_stores().list(request).await.unwrap().into_inner();
            assert_eq!(rows(found.documents), kept);
            let ids = (0..IDS).map(|id| format!("id{id}")).collect();
            let request = v1::DocumentStoresGetRequest { document_store: name.to_owned(), ids };
            let found = self.client.document_stores().get(request).await.unwrap().into_inner();
            assert_eq!(rows(found.documents), kept);
        }
        let operations = self.client.operations().list(v1::OperationsListRequest {}).await.unwrap().into_inner();
        assert_eq!(operations.operations, [], "nobody began one");
        let listed = self.client.retrievers().list(v1::RetrieversListRequest {}).await.unwrap().into_inner();
        let listed: BTreeSet<String> =
            listed.retrievers.into_iter().filter_map(|stored| Some(stored.retriever?.name)).collect();
        assert_eq!(listed, self.model.retrievers.keys().map(|name| (*name).to_owned()).collect());
        for name in RETRIEVERS {
            let request = v1::RetrieversGetRequest { name: name.to_owned() };
            check(self.client.retrievers().get(request).await, self.model.retrievers.get(name));
            let inline = reference("", name);
            let request = v1::RetrieversValidateRequest { retriever: Some(inline.clone()) };
            let answer = self.client.retrievers().validate(request).await.unwrap();
            let is_valid = answer.into_inner().violations.is_empty();
            let of = self.model.retrievers.get(name).and_then(|of| self.model.collections.get(of));
            assert_eq!(is_valid, of.is_some(), "{name} of {}", self.name);
            let request = v1::RetrieveRequest {
                query: Some(vector_query(&[1.0, 1.0])),
                retriever: Some(inline),
                ..Default::default()
            };
            match self.client.retrieval().retrieve(request).await {
                Ok(answer) => same(&texts(answer.into_inner().hits), &of.expect("it is one's own").1),
                Err(status) => assert!(of.is_none(), "{status:?}"),
            }
        }
    }

    async fn look_into(&self, name: &'static str) {
        let known = self.model.collections.get(name);
        let collection = || name.to_owned();
        let get = v1::CollectionsGetRequest { name: collection() };
        if let Some(found) = check(self.client.collections().get(get).await, known) {
            assert_eq!(Some(found.into_inner().collection.unwrap().description), known.map(|known| known.0.clone()));
        }
        let stats = v1::CollectionsStatsRequest { name: collection() };
        if let Some(found) = check(self.client.collections().stats(stats).await, known) {
            assert_eq!(Some(found.into_inner().document_count), known.map(|known| known.1.len() as u64));
        }
        let list = v1::DocumentsListRequest { collection: collection(), ..Default::default() };
        if let (Some(found), Some(known)) = (check(self.client.documents().list(list).await, known), known) {
            same(&rows(found.into_inner().documents), &known.1);
        }
        let ids = (0..IDS).map(|id| format!("id{id}")).collect();
        let get = v1::DocumentsGetRequest { collection: collection(), ids, ..Default::default() };
        if let (Some(found), Some(known)) = (check(self.client.documents().get(get).await, known), known) {
            same(&rows(found.into_inner().documents), &known.1);
        }
        for bucket in [None, Some(0), Some(1)] {
            let filter = || bucket.map(|bucket: u8| compare(FilterKind::Eq, "bucket", int(bucket.into())));
            let wanted = known.map(|known| {
                let mut rows = known.1.clone();
                rows.retain(|_, (_, of)| bucket.is_none_or(|bucket| *of == bucket));
                rows
            });
            let count = v1::DocumentsCountRequest { collection: collection(), filter: filter() };
            if let Some(found) = check(self.client.documents().count(count).await, known) {
                assert_eq!(Some(found.into_inner().count), wanted.as_ref().map(|rows| rows.len() as u64));
            }
            let found = self.client.try_search(vector_query(&[1.0, 1.0]), search(name, filter())).await;
            if let (Some(hits), Some(wanted)) = (check(found, known), &wanted) {
                same(&texts(hits), wanted);
            }
            let keyword = v1::KeywordRetriever {
                collection: collection(),
                k: Some(IDS.into()),
                filter: filter(),
                with_vectors: None,
            };
            let request = v1::BatchRetrieveRequest {
                retriever: Some(retriever("", Kind::Keyword(keyword))),
                queries: vec![text_query("secret")],
                ..Default::default()
            };
            let found = self.client.retrieval().batch_retrieve(request).await;
            match (found, &wanted) {
                (Ok(answer), Some(wanted)) => {
                    answer.into_inner().results.into_iter().for_each(|answer| same(&texts(answer.hits), wanted));
                }
                (Ok(_), None) => panic!("a collection that this tenant does not have was searched"),
                (Err(status), wanted) => assert!(wanted.is_none(), "{status:?}"),
            }
        }
    }
}

/// A search that finds everything that there may be.
fn search(collection: &str, filter: Option<v1::Filter>) -> v1::VectorStoreRetriever {
    v1::VectorStoreRetriever { k: Some(IDS.into()), filter, ..search_in(collection) }
}

/// The answer to a call about something: `NOT_FOUND` unless the model knows it.
#[track_caller]
fn check<T, K>(answer: Result<T, Status>, known: Option<K>) -> Option<T> {
    match (answer, known) {
        (Ok(answer), Some(_)) => Some(answer),
        (Ok(_), None) => panic!("something that this tenant does not have was found"),
        (Err(status), None) => {
            assert_eq!(status.code(), Code::NotFound, "{status:?}");
            None
        }
        (Err(status), Some(_)) => panic!("{status:?}"),
    }
}

#[track_caller]
fn same(found: &BTreeMap<String, String>, wanted: &BTreeMap<String, (String, u8)>) {
    let wanted: BTreeMap<String, String> = wanted.iter().map(|(id, (text, _))| (id.clone(), text.clone())).collect();
    assert_eq!(found, &wanted);
}

fn rows(documents: Vec<v1::Document>) -> BTreeMap<String, String> {
    documents.into_iter().map(|document| (document.id_text().to_owned(), document.page_content)).collect()
}

fn texts(hits: Vec<v1::ScoredDocument>) -> BTreeMap<String, String> {
    rows(hits.into_iter().filter_map(|hit| hit.document).collect())
}

/// A server with an admin's key for each tenant.
async fn server(settings: Settings) -> Server {
    let keys = TENANTS.map(|tenant| {
        let digest: String = Sha256::digest(tenant).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("[[auth.keys]]\nname = \"{tenant}\"\nsha256 = \"{digest}\"\nrole = \"admin\"\ntenant = \"{tenant}\"\n")
    });
    settings.without_model().file(&keys.concat()).start().await
}

fn nothing_crosses(settings: Settings, cases: u32) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(server(settings));
    let steps = proptest::collection::vec((0..TENANTS.len(), step()), 1..40);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&steps, |steps| {
        runtime.block_on(async {
            let mut tenants = Vec::new();
            for name in TENANTS {
                let client = Client::connect(&server.url(), Some(name)).await;
                // What the case before left.
                for name in COLLECTIONS.map(str::to_owned) {
                    let _ = client.collections().delete(v1::CollectionsDeleteRequest { name }).await;
                }
                for document_store in COLLECTIONS.map(str::to_owned) {
                    let selector = Some(v1::document_stores_delete_request::Selector::All(true));
                    let request = v1::DocumentStoresDeleteRequest { document_store, selector, ..Default::default() };
                    client.document_stores().delete(request).await.unwrap();
                }
                for name in RETRIEVERS.map(str::to_owned) {
                    let _ = client.retrievers().delete(v1::RetrieversDeleteRequest { name }).await;
                }
                tenants.push(Tenant { name, client, model: Model::default() });
            }
            for (number, (tenant, step)) in steps.iter().enumerate() {
                tenants[*tenant].take(step, number).await;
                // Every tenant from time to time, each after its own steps.
                tenants[*tenant].look().await;
                tenants[number % TENANTS.len()].look().await;
            }
            for tenant in &tenants {
                tenant.look().await;
            }
        });
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn nothing_crosses_in_the_memory_store() {
    nothing_crosses(Settings::new(), 16);
}

#[test]
fn nothing_crosses_in_the_edge_store() {
    nothing_crosses(Settings::new().on_disk().set("store.durability", "process"), 8);
}
