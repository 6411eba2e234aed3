//! A server under a random mix of calls from many clients: every answer that is determined is checked, memory must level off,
//! and an orderly stop must keep everything.
//!
//! Each client owns the documents whose ids begin with its prefix, in every collection, so that it knows them exactly however
//! the others' calls fall. Clients of the two tenants come in pairs with the same prefix: nothing but the tenant keeps their
//! documents apart.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use sha2::{Digest, Sha256};
use tokio::task::JoinSet;
use toller_api::v1;
use toller_api::v1::documents_delete_request::Selector;
use toller_api::v1::filter::Kind as FilterKind;
use toller_tests::client::Client;
use toller_tests::request::*;
use toller_tests::server::{Server, Settings};
use tonic::{Code, Response, Status};

use crate::process;
use crate::run::Run;

/// Keys and their tenants.
const TENANTS: [(&str, &str); 2] = [("key-of-acme", "acme"), ("key-of-umbrella", "umbrella")];

const CLIENTS_PER_TENANT: u64 = 16;

/// Ids of a client in a collection; they bound what the server holds.
const IDS: u32 = 48;

/// Groups that a client's documents fall into.
const GROUPS: i64 = 4;

/// Collections, with the metric where clients bring the vectors and none where the server embeds.
const COLLECTIONS: [(&str, Option<v1::Metric>); 3] =
    [("notes", None), ("letters", None), ("points", Some(v1::Metric::Euclidean))];

/// Dimension of the vectors that clients bring.
const DIMENSION: usize = 24;

/// Largest difference between a score and the same computed here in f64.
const SCORE_ERROR: f64 = 1e-4;

/// Most growth of the median memory from the second third of a run to the last: what an allocator and a few more documents
/// may take, and far less than a leak of a few bytes per call would.
const GROWTH_FACTOR: f64 = 1.05;
const GROWTH_KIB: f64 = 8.0 * 1024.0;

/// Times that a call is made again when the server says that it is full.
const MAX_ATTEMPTS: usize = 1000;

const WORDS: [&str; 16] = [
    "toller",
    "duck",
    "water",
    "smallest",
    "retriever",
    "fetches",
    "red",
    "quick",
    "naïve",
    "狩猟犬",
    "the",
    "of",
    "who",
    "🦆",
    "Nova",
    "Scotia",
];

/// Documents with their vectors, by collection and id.
type Known = BTreeMap<&'static str, BTreeMap<String, v1::Document>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: run with make test-long"]
async fn soak() {
    let run = Run::start("soak");
    let server = Settings::new().file(&keys()).start().await;
    let mut retrievers = BTreeMap::new();
    for (key, tenant) in TENANTS {
        let client = server.client_with_key(key).await;
        for (name, metric) in COLLECTIONS {
            match metric {
                None => client.create(name).await,
                Some(metric) => client.create_for_vectors(name, DIMENSION as u32, metric).await,
            }
        }
        retrievers.insert(tenant, BTreeMap::new());
    }

    let mut working = JoinSet::new();
    for (part, (key, tenant)) in (0_u64..).zip(TENANTS) {
        for number in 0..CLIENTS_PER_TENANT {
            let soaker = Soaker {
                client: server.client_with_key(key).await,
                random: run.random(part * CLIENTS_PER_TENANT + number),
                tenant,
                prefix: format!("c{number:02}-"),
                known: COLLECTIONS.into_iter().map(|(name, _)| (name, BTreeMap::new())).collect(),
                retriever: None,
                refusals: 0,
            };
            working.spawn(soaker.work(Arc::clone(&run)));
        }
    }
    let process = server.id();
    let samples = {
        let run = Arc::clone(&run);
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(Duration::from_millis(500));
            let mut samples = Vec::new();
            while run.elapsed() < run.length() {
                ticks.tick().await;
                samples.push(process::resident_kib(process));
            }
            samples
        })
    };

    let mut documents: BTreeMap<&str, Known> = BTreeMap::new();
    let mut refusals = 0;
    while let Some(finished) = working.join_next().await {
        let soaker = finished.expect("a client found a fault");
        refusals += soaker.refusals;
        retrievers.get_mut(soaker.tenant).unwrap().extend(soaker.retriever.map(|stored| (soaker.prefix, stored)));
        for (collection, own) in soaker.known {
            documents.entry(soaker.tenant).or_default().entry(collection).or_default().extend(own);
        }
    }
    run.say(format_args!("{} calls and more, {refusals} of them refused for a while", run.steps()));
    levels_off(&run, &samples.await.unwrap());

    holds(&server, &documents, &retrievers).await;
    let settings = server.settings.clone();
    let exit = server.stop().await.expect(0);
    for bad in ["panicked", "a call panicked", "call failed"] {
        assert!(!exit.stderr.contains(bad), "{bad}:\n{}", exit.stderr);
    }
    let server = settings.start().await;
    holds(&server, &documents, &retrievers).await;
    server.stop().await.expect(0);
}

fn keys() -> String {
    let mut file = String::new();
    for (key, tenant) in TENANTS {
        let digest: String = Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect();
        file.push_str(&format!(
            "[[auth.keys]]\nname = \"{key}\"\nsha256 = \"{digest}\"\nrole = \"admin\"\ntenant = \"{tenant}\"\n"
        ));
    }
    file
}

/// Asserts that memory does not grow without end. The first third is for filling up.
fn levels_off(run: &Run, samples: &[u64]) {
    let third = samples.len() / 3;
    let median = |samples: &[u64]| {
        let mut samples = samples.to_vec();
        samples.sort_unstable();
        samples.get(samples.len() / 2).copied().unwrap_or_default()
    };
    let [first, second, last] = [&samples[..third], &samples[third..2 * third], &samples[2 * third..]].map(median);
    run.say(format_args!("resident memory by thirds: {first}, {second} and {last} KiB"));
    let bound = second as f64 * GROWTH_FACTOR + GROWTH_KIB;
    assert!((last as f64) <= bound, "resident memory grew from {second} to {last} KiB, over {bound:.0}");
}

/// Asserts that the server holds exactly these documents and retrievers.
async fn holds(
    server: &Server,
    documents: &BTreeMap<&str, Known>,
    retrievers: &BTreeMap<&str, BTreeMap<String, v1::StoredRetriever>>,
) {
    for (key, tenant) in TENANTS {
        let client = server.client_with_key(key).await;
        for (collection, expected) in &documents[tenant] {
            let mut found = BTreeMap::new();
            let mut page_token = String::new();
            loop {
                let request = v1::DocumentsListRequest {
                    collection: (*collection).to_owned(),
                    page_size: Some(1000),
                    with_vectors: Some(true),
                    page_token,
                    ..Default::default()
                };
                let page = client.documents().list(request).await.unwrap().into_inner();
                found.extend(page.documents.into_iter().map(|document| (document.id_text().to_owned(), document)));
                page_token = page.next_page_token;
                if page_token.is_empty() {
                    break;
                }
            }
            assert!(found == *expected, "{tenant} {collection}: {:?}", difference(expected, &found));
            assert_eq!(client.count(collection).await, expected.len() as u64);
        }
        let found = client.retrievers().list(v1::RetrieversListRequest {}).await.unwrap().into_inner().retrievers;
        let expected: BTreeSet<_> = retrievers[tenant].values().map(|stored| format!("{stored:?}")).collect();
        assert_eq!(found.iter().map(|stored| format!("{stored:?}")).collect::<BTreeSet<_>>(), expected, "{tenant}");
    }
}

/// What is missing, too much and another, by id.
fn difference(expected: &BTreeMap<String, v1::Document>, found: &BTreeMap<String, v1::Document>) -> Vec<String> {
    let ids: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    let others = ids.into_iter().filter(|id| expected.get(*id) != found.get(*id));
    others.take(5).map(|id| format!("{id}: {:?} instead of {:?}", found.get(id), expected.get(id))).collect()
}

/// One client, and what it knows to be in the server.
struct Soaker {
    client: Client,
    random: Rng,
    tenant: &'static str,
    prefix: String,
    known: Known,
    retriever: Option<v1::StoredRetriever>,
    refusals: u64,
}

/// Makes a call, again while the server is full.
macro_rules! try_call {
    ($soaker:ident, $service:ident . $method:ident, $request:expr) => {{
        let (client, request) = ($soaker.client.clone(), $request);
        $soaker
            .answer(|| {
                let (mut service, request) = (client.$service(), request.clone());
                async move { service.$method(request).await }
            })
            .await
    }};
}

/// Makes a call that must succeed.
macro_rules! call {
    ($soaker:ident, $service:ident . $method:ident, $request:expr) => {
        try_call!($soaker, $service.$method, $request).unwrap_or_else(|status| {
            panic!("{} {}{}.{}: {status:?}", $soaker.tenant, $soaker.prefix, stringify!($service), stringify!($method))
        })
    };
}

impl Soaker {
    async fn work(mut self, run: Arc<Run>) -> Self {
        for (collection, _) in COLLECTIONS {
            self.add(collection, IDS as usize / 2).await;
        }
        while run.step() {
            let collection = COLLECTIONS[self.random.usize(..COLLECTIONS.len())].0;
            match self.random.u32(..100) {
                0..20 => {
                    let count = self.random.usize(1..=6);
                    self.add(collection, count).await;
                }
                20..24 => self.add_without_ids(collection).await,
                24..32 => self.delete_by_ids(collection).await,
                32..37 => self.delete_by_filter(collection).await,
                37..47 => self.get(collection).await,
                47..52 => self.list(collection).await,
                52..60 => self.count(collection).await,
                60..68 => self.search(collection).await,
                68..75 => self.search_by_threshold(collection).await,
                75..82 => self.search_by_mmr(collection).await,
                82..86 => self.search_everything(collection).await,
                86..92 => self.embed().await,
                92..98 => self.use_retriever(collection).await,
                _ => self.use_own_collection().await,
            }
        }
        self
    }

    async fn answer<T, F: Future<Output = Result<Response<T>, Status>>>(
        &mut self,
        call: impl Fn() -> F,
    ) -> Result<T, Status> {
        for _ in 0..MAX_ATTEMPTS {
            match call().await {
                Ok(answer) => return Ok(answer.into_inner()),
                Err(status) if status.code() == Code::ResourceExhausted => {
                    self.refusals += 1;
                    // What a client is told to do.
                    tokio::time::sleep(Duration::from_millis(self.random.u64(50..300))).await;
                }
                Err(status) => return Err(status),
            }
        }
        panic!("the server was full {MAX_ATTEMPTS} times in a row")
    }

    fn text(&mut self) -> String {
        let count = self.random.usize(..12);
        (0..count).map(|_| WORDS[self.random.usize(..WORDS.len())]).collect::<Vec<_>>().join(" ")
    }

    fn elements(&mut self) -> Vec<f32> {
        (0..DIMENSION).map(|_| self.random.f32() * 2.0 - 1.0).collect()
    }

    fn document(&mut self, collection: &str, id: &str) -> v1::Document {
        let document = document(id, &self.text())
            .with("tenant", string(self.tenant))
            .with("owner", string(&self.prefix))
            .with("group", int(self.random.i64(..GROUPS)))
            .with("number", double(f64::from(self.random.i32(..1000)) / 8.0));
        if is_embedded(collection) { document } else { document.vector(&self.elements()) }
    }

    /// Ids of its own, each once, whether they are there or not.
    fn ids(&mut self, count: usize) -> Vec<String> {
        let numbers = self.random.choose_multiple(0..IDS, count);
        numbers.into_iter().map(|number| format!("{}{number:03}", self.prefix)).collect()
    }

    fn own(&self, collection: &str) -> &BTreeMap<String, v1::Document> {
        &self.known[collection]
    }

    fn own_mut(&mut self, collection: &str) -> &mut BTreeMap<String, v1::Document> {
        self.known.get_mut(collection).expect("all collections are known")
    }

    /// A filter for some of its documents, and those.
    fn filter(&mut self, collection: &str) -> (v1::Filter, BTreeMap<String, v1::Document>) {
        let group = self.random.i64(..GROUPS);
        let number = f64::from(self.random.i32(..1000)) / 8.0;
        let owner = compare(FilterKind::Eq, "owner", string(&self.prefix));
        let kind = self.random.u32(..5);
        let more = match kind {
            0 => combine(FilterKind::AllOf, []),
            1 => compare(FilterKind::Eq, "group", int(group)),
            2 => negate(compare(FilterKind::Eq, "group", double(group as f64))),
            3 => compare(FilterKind::Lt, "number", double(number)),
            _ => compare_list(FilterKind::InValues, "group", [int(group), int(0), string("1")]),
        };
        let matches = |document: &v1::Document| match kind {
            0 => true,
            1 => document.metadata["group"] == int(group),
            2 => document.metadata["group"] != int(group),
            3 => matches!(document.metadata["number"].kind, Some(v1::value::Kind::DoubleValue(own)) if own < number),
            _ => [int(group), int(0)].contains(&document.metadata["group"]),
        };
        let matching = self.own(collection).iter().filter(|(_, document)| matches(document));
        let matching = matching.map(|(id, document)| (id.clone(), document.clone())).collect();
        (combine(FilterKind::AllOf, [owner, more]), matching)
    }

    async fn add(&mut self, collection: &'static str, count: usize) {
        let ids = self.ids(count);
        let documents: Vec<_> = ids.iter().map(|id| self.document(collection, id)).collect();
        let request = v1::DocumentsAddRequest {
            collection: collection.to_owned(),
            documents: documents.clone(),
            ..Default::default()
        };
        let answer = call!(self, documents.add, request);
        assert_eq!(answer.ids, ids);
        assert_eq!(answer.usage.len(), ids.len());
        let stored = self.stored(collection, &ids).await;
        for (sent, stored) in documents.into_iter().zip(stored) {
            let expected = match sent.vectors {
                Some(_) => sent.clone(),
                // Which vector the server made is known from now on.
                None => v1::Document { vectors: stored.vectors.clone(), ..sent.clone() },
            };
            assert_eq!(stored, expected);
            self.own_mut(collection).insert(sent.id_text().to_owned(), stored);
        }
    }

    /// Documents that must all be there, with their vectors.
    async fn stored(&mut self, collection: &str, ids: &[String]) -> Vec<v1::Document> {
        let request = v1::DocumentsGetRequest {
            collection: collection.to_owned(),
            ids: ids.to_vec(),
            with_vectors: Some(true),
            ..Default::default()
        };
        let answer = call!(self, documents.get, request);
        assert_eq!(answer.missing_ids, Vec::<String>::new());
        assert_eq!(answer.documents.len(), ids.len());
        answer.documents
    }

    /// The server makes the ids, the same ones for a retry; afterwards the documents are deleted.
    async fn add_without_ids(&mut self, collection: &'static str) {
        let mut documents: Vec<_> = (0..3).map(|_| self.document(collection, "")).collect();
        documents.iter_mut().for_each(|document| document.id = None);
        let request = v1::DocumentsAddRequest {
            collection: collection.to_owned(),
            documents,
            request_id: Some(format!("{}{}", self.prefix, self.random.u64(..))),
            ..Default::default()
        };
        let ids = call!(self, documents.add, request.clone()).ids;
        assert_eq!(call!(self, documents.add, request).ids, ids);
        self.stored(collection, &ids).await;
        assert_eq!(self.delete(collection, Selector::Ids(v1::DocumentIds { ids })).await, 3);
    }

    async fn delete(&mut self, collection: &str, selector: Selector) -> u64 {
        let request = v1::DocumentsDeleteRequest { collection: collection.to_owned(), selector: Some(selector) };
        call!(self, documents.delete, request).deleted
    }

    async fn delete_by_ids(&mut self, collection: &'static str) {
        let count = self.random.usize(..4);
        let ids = self.ids(count);
        let deleted = self.delete(collection, Selector::Ids(v1::DocumentIds { ids: ids.clone() })).await;
        let known = ids.iter().filter_map(|id| self.own_mut(collection).remove(id)).count();
        assert_eq!(deleted, known as u64);
    }

    async fn delete_by_filter(&mut self, collection: &'static str) {
        let (owners, matching) = self.filter(collection);
        // One id at least, so that a client's documents are not all gone again and again.
        let group = int(self.random.i64(..GROUPS));
        let filter = combine(FilterKind::AllOf, [owners, compare(FilterKind::Eq, "group", group.clone())]);
        let gone: Vec<_> = matching.into_iter().filter(|(_, document)| document.metadata["group"] == group).collect();
        assert_eq!(self.delete(collection, Selector::Filter(filter)).await, gone.len() as u64);
        for (id, _) in gone {
            self.own_mut(collection).remove(&id);
        }
    }

    async fn get(&mut self, collection: &str) {
        let count = self.random.usize(..8);
        let mut ids = self.ids(count);
        ids.extend(ids.first().cloned());
        let with_vectors = self.random.bool();
        let request = v1::DocumentsGetRequest {
            collection: collection.to_owned(),
            ids: ids.clone(),
            with_vectors: Some(with_vectors),
            ..Default::default()
        };
        let answer = call!(self, documents.get, request);
        let own = self.own(collection);
        let expected: Vec<_> =
            ids.iter().filter_map(|id| own.get(id)).map(|document| shown(document, with_vectors)).collect();
        assert_eq!(answer.documents, expected);
        assert_eq!(answer.missing_ids, ids.into_iter().filter(|id| !own.contains_key(id)).collect::<Vec<_>>());
    }

    async fn list(&mut self, collection: &str) {
        let (filter, matching) = self.filter(collection);
        let with_vectors = self.random.bool();
        let mut request = v1::DocumentsListRequest {
            collection: collection.to_owned(),
            filter: Some(filter),
            page_size: Some(self.random.u32(5..50)),
            with_vectors: Some(with_vectors),
            ..Default::default()
        };
        let mut found = Vec::new();
        loop {
            let page = call!(self, documents.list, request.clone());
            assert!(page.documents.len() <= request.page_size() as usize);
            found.extend(page.documents);
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                break;
            }
        }
        assert_eq!(found, matching.values().map(|document| shown(document, with_vectors)).collect::<Vec<_>>());
    }

    async fn count(&mut self, collection: &str) {
        let (filter, matching) = self.filter(collection);
        let request = v1::DocumentsCountRequest { collection: collection.to_owned(), filter: Some(filter) };
        assert_eq!(call!(self, documents.count, request).count, matching.len() as u64);
    }

    /// A query, and the score of each of `documents` for it.
    async fn query(
        &mut self,
        collection: &str,
        documents: &BTreeMap<String, v1::Document>,
    ) -> (v1::Query, BTreeMap<String, f64>) {
        let (query, elements) = if is_embedded(collection) {
            let text = self.text();
            let embedded =
                call!(self, embedder.embed_query, v1::EmbedQueryRequest { text: text.clone(), ..Default::default() });
            (text_query(&text), elements(&embedded.vector.unwrap()))
        } else {
            let elements = self.elements();
            (vector_query(&elements), elements)
        };
        let score = |document: &v1::Document| score(collection, &elements, &document.elements());
        (query, documents.iter().map(|(id, document)| (id.clone(), score(document))).collect())
    }

    async fn hits(&mut self, query: v1::Query, search: v1::VectorStoreRetriever) -> Vec<v1::ScoredDocument> {
        let request = v1::SearchRequest { query: Some(query), search: Some(search), ..Default::default() };
        call!(self, retrieval.search, request).hits
    }

    /// Asserts that hits are some of `documents`, each once, ranked, and with the right scores; in order unless it is MMR's.
    fn check_hits(
        &self,
        hits: &[v1::ScoredDocument],
        documents: &BTreeMap<String, v1::Document>,
        scores: &BTreeMap<String, f64>,
    ) -> BTreeSet<String> {
        let mut ids = BTreeSet::new();
        for (hit, rank) in hits.iter().zip(1..) {
            let document = hit.document.as_ref().unwrap();
            let id = document.id_text();
            assert_eq!(*document, shown(&documents[id], false));
            assert!(
                (hit.score - scores[id]).abs() < SCORE_ERROR,
                "{id} scored {} instead of {}",
                hit.score,
                scores[id]
            );
            assert_eq!(hit.rank, rank);
            assert!(ids.insert(id.to_owned()), "{id} came twice");
        }
        ids
    }

    async fn search(&mut self, collection: &str) {
        let (filter, matching) = self.filter(collection);
        let (query, scores) = self.query(collection, &matching).await;
        let k = self.random.u32(1..20);
        let search = v1::VectorStoreRetriever { k: Some(k), filter: Some(filter), ..search_in(collection) };
        let hits = self.hits(query, search).await;
        assert_eq!(hits.len(), matching.len().min(k as usize));
        let found = self.check_hits(&hits, &matching, &scores);
        assert!(hits.is_sorted_by(|a, b| !is_better(collection, b.score, a.score)), "hits are in order");
        if let Some(last) = hits.last() {
            for (id, score) in scores.iter().filter(|(id, _)| !found.contains(*id)) {
                assert!(!is_clearly_better(collection, *score, last.score), "{id} with {score} was left out: {hits:?}");
            }
        }
    }

    async fn search_by_threshold(&mut self, collection: &str) {
        let (filter, matching) = self.filter(collection);
        let (query, scores) = self.query(collection, &matching).await;
        let Some(threshold) = self.random.choice(scores.values().copied()) else { return };
        // Relevance is clamped to [0, 1], which is the cosine itself there.
        let by_relevance = is_embedded(collection) && self.random.bool();
        let threshold = if by_relevance { threshold.clamp(0.0, 1.0) } else { threshold };
        let search = v1::VectorStoreRetriever {
            search_type: v1::SearchType::SimilarityScoreThreshold.into(),
            k: Some(1000),
            score_threshold: by_relevance.then_some(threshold),
            raw_score_threshold: (!by_relevance).then_some(threshold),
            filter: Some(filter),
            ..search_in(collection)
        };
        let hits = self.hits(query, search).await;
        let found = self.check_hits(&hits, &matching, &scores);
        for (id, score) in &scores {
            if found.contains(id) {
                let is_clamped = by_relevance && threshold == 0.0;
                assert!(
                    is_clamped || !is_clearly_better(collection, threshold, *score),
                    "{id} with {score}, under {threshold}"
                );
            } else {
                assert!(!is_clearly_better(collection, *score, threshold), "{id} with {score} left out by {threshold}");
            }
        }
    }

    async fn search_by_mmr(&mut self, collection: &str) {
        let (filter, matching) = self.filter(collection);
        let (query, scores) = self.query(collection, &matching).await;
        let (k, fetch_k, lambda_mult) = (self.random.u32(1..10), self.random.u32(1..40), self.random.f64());
        let search = v1::VectorStoreRetriever { filter: Some(filter), ..mmr_in(collection, k, fetch_k, lambda_mult) };
        let hits = self.hits(query, search).await;
        assert_eq!(hits.len(), matching.len().min(k as usize));
        self.check_hits(&hits, &matching, &scores);
        // Similarity within MMR is always cosine, which is the score in one of the metrics only.
        if let Some(first) = hits.first()
            && is_embedded(collection)
        {
            for (id, score) in &scores {
                assert!(!is_clearly_better(collection, *score, first.score), "{id} with {score} is more similar");
            }
        }
    }

    /// The others' documents take part; of those, only the tenant is known.
    async fn search_everything(&mut self, collection: &str) {
        let (query, _) = self.query(collection, &BTreeMap::new()).await;
        let k = self.random.u32(1..200);
        let hits = self.hits(query, v1::VectorStoreRetriever { k: Some(k), ..search_in(collection) }).await;
        assert!(hits.len() <= k as usize);
        assert!(hits.is_sorted_by(|a, b| !is_better(collection, b.score, a.score)), "hits are in order");
        for hit in &hits {
            let document = hit.document.as_ref().unwrap();
            assert_eq!(document.metadata["tenant"], string(self.tenant), "{document:?}");
            if document.metadata["owner"] == string(&self.prefix) {
                assert_eq!(*document, shown(&self.own(collection)[document.id_text()], false));
            }
        }
    }

    async fn embed(&mut self) {
        let texts: Vec<_> = (0..self.random.usize(..6)).map(|_| self.text()).collect();
        let request = v1::EmbedDocumentsRequest { texts: texts.clone(), ..Default::default() };
        let (first, second) =
            (call!(self, embedder.embed_documents, request.clone()), call!(self, embedder.embed_documents, request));
        assert_eq!(
            (first.vectors.len(), first.usage.len(), second.vectors.len()),
            (texts.len(), texts.len(), texts.len())
        );
        for (first, second) in first.vectors.iter().zip(&second.vectors) {
            // The rounding depends on what else is in the batch.
            let similarity = score("notes", &elements(first), &elements(second));
            assert!(similarity > 1.0 - SCORE_ERROR, "the same text, twice: {similarity}");
        }
        if let (Some(text), Some(vector)) = (texts.first(), first.vectors.first()) {
            let query =
                call!(self, embedder.embed_query, v1::EmbedQueryRequest { text: text.clone(), ..Default::default() });
            assert_eq!(elements(&query.vector.unwrap()).len(), elements(vector).len());
        }
    }

    async fn use_retriever(&mut self, collection: &str) {
        let name = format!("{}retriever", self.prefix);
        let (filter, matching) = self.filter(collection);
        let (query, scores) = self.query(collection, &matching).await;
        // With the defaults said, since what comes back says them.
        let search = v1::VectorStoreRetriever {
            search_type: v1::SearchType::Similarity.into(),
            k: Some(1000),
            filter: Some(filter),
            with_vectors: Some(false),
            ..search_in(collection)
        };
        let retriever = vector_store(&name, search);
        let version = self.retriever.as_ref().map_or(0, |stored| stored.version);
        let put = |expected_version| v1::RetrieversPutRequest {
            retriever: Some(retriever.clone()),
            expected_version: Some(expected_version),
        };
        let refused = try_call!(self, retrievers.put, put(version + 1_000_000));
        assert_eq!(refused.expect_err("another version").code(), Code::Aborted);
        let stored = call!(self, retrievers.put, put(version)).stored.unwrap();
        assert!(stored.version > version, "{stored:?}");
        assert_eq!(stored.retriever.as_ref(), Some(&retriever));
        let get = v1::RetrieversGetRequest { name: name.clone() };
        assert_eq!(call!(self, retrievers.get, get).stored.as_ref(), Some(&stored));
        self.retriever = Some(stored);

        let retrieve = v1::BatchRetrieveRequest {
            queries: vec![query; 2],
            retriever: Some(reference("by-name", &name)),
            ..Default::default()
        };
        let results = call!(self, retrieval.batch_retrieve, retrieve).results;
        assert_eq!(results.len(), 2);
        for result in results {
            assert_eq!(self.check_hits(&result.hits, &matching, &scores).len(), matching.len());
        }
        if self.random.bool() {
            call!(self, retrievers.delete, v1::RetrieversDeleteRequest { name: name.clone() });
            self.retriever = None;
            let gone = try_call!(self, retrievers.get, v1::RetrieversGetRequest { name });
            assert_eq!(gone.expect_err("it is gone").code(), Code::NotFound);
        }
    }

    /// A collection that comes and goes.
    async fn use_own_collection(&mut self) {
        let name = format!("{}collection", self.prefix);
        let create = v1::CollectionsCreateRequest {
            name: name.clone(),
            metric: v1::Metric::Dot.into(),
            vectors: Some(v1::collections_create_request::Vectors::Client(v1::ClientVectors { dimension: 4096 })),
            ..Default::default()
        };
        call!(self, collections.create, create.clone());
        assert_eq!(try_call!(self, collections.create, create).expect_err("it is there").code(), Code::AlreadyExists);
        let documents: Vec<_> = (0..20).map(|number| point(&number.to_string(), &[number as f32; 4096])).collect();
        let add = v1::DocumentsAddRequest { collection: name.clone(), documents, ..Default::default() };
        call!(self, documents.add, add);
        assert_eq!(
            call!(self, collections.stats, v1::CollectionsStatsRequest { name: name.clone() }).document_count,
            20
        );
        let all = call!(self, collections.list, v1::CollectionsListRequest {}).collections;
        assert!(all.iter().any(|collection| collection.name == name), "{all:?}");
        call!(self, collections.delete, v1::CollectionsDeleteRequest { name: name.clone() });
        let gone = try_call!(self, documents.count, v1::DocumentsCountRequest { collection: name, filter: None });
        assert_eq!(gone.expect_err("it is gone").code(), Code::NotFound);
    }
}

fn is_embedded(collection: &str) -> bool {
    COLLECTIONS.contains(&(collection, None))
}

/// The score by the collection's metric, in f64.
fn score(collection: &str, a: &[f32], b: &[f32]) -> f64 {
    let pairs = || a.iter().zip(b).map(|(a, b)| (f64::from(*a), f64::from(*b)));
    if is_embedded(collection) {
        let product = |pairs: &mut dyn Iterator<Item = (f64, f64)>| pairs.map(|(a, b)| a * b).sum::<f64>();
        let [a_squared, b_squared] =
            [product(&mut pairs().map(|(a, _)| (a, a))), product(&mut pairs().map(|(_, b)| (b, b)))];
        product(&mut pairs()) / (a_squared * b_squared).sqrt()
    } else {
        pairs().map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }
}

fn is_better(collection: &str, a: f64, b: f64) -> bool {
    if is_embedded(collection) { a > b } else { a < b }
}

/// Better by more than rounding explains.
fn is_clearly_better(collection: &str, a: f64, b: f64) -> bool {
    is_better(collection, a, b) && (a - b).abs() > 2.0 * SCORE_ERROR
}

/// A document as answers show it.
fn shown(document: &v1::Document, with_vectors: bool) -> v1::Document {
    let vectors = if with_vectors { document.vectors.clone() } else { None };
    v1::Document { vectors, ..document.clone() }
}
