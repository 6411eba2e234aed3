//! Bad input to every RPC: the right code, the field at fault, nothing half-written, and a server that goes on.

use std::f64;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use toller_api::v1;
use toller_api::v1::collections_create_request::Vectors;
use toller_api::v1::documents_delete_request::Selector;
use toller_api::v1::filter::Kind;
use toller_tests::PATIENCE;
use toller_tests::client::{Client, plain_http};
use toller_tests::request::*;
use toller_tests::server::{Server, Settings};
use tonic::Code;

use crate::expect::{self, invalid, invalid_fields, not_found};

/// A server with one collection of each kind, and what they hold.
struct World {
    server: Server,
    client: Client,
    before: Vec<Vec<v1::Document>>,
}

const COLLECTIONS: [&str; 4] = ["docs", "points", "dots", "far"];

impl World {
    async fn new() -> Self {
        let server = Settings::new().start().await;
        let client = server.client().await;
        client.create("docs").await;
        client.add("docs", vec![document("d", "a text")]).await;
        for (name, metric) in
            [("points", v1::Metric::Cosine), ("dots", v1::Metric::Dot), ("far", v1::Metric::Euclidean)]
        {
            client.create_for_vectors(name, 2, metric).await;
            client.add(name, vec![point("a", &[1.0, 0.0]).with("n", int(1)), point("b", &[0.5, 0.5])]).await;
        }
        let mut world = Self { server, client, before: Vec::new() };
        world.before = world.contents().await;
        world
    }

    async fn contents(&self) -> Vec<Vec<v1::Document>> {
        let mut contents = Vec::new();
        for name in COLLECTIONS {
            contents.push(self.client.all(name).await);
        }
        contents
    }

    /// The server lives, nobody panicked, and everything is as it was.
    async fn assert_unharmed(self) {
        assert_eq!(self.contents().await, self.before, "nothing is written by a refused call");
        let list = self.client.collections().list(v1::CollectionsListRequest {}).await.unwrap().into_inner();
        let names: Vec<String> = list.collections.into_iter().map(|collection| collection.name).collect();
        assert_eq!(names, ["docs", "dots", "far", "points"]);
        let retrievers = self.client.retrievers().list(v1::RetrieversListRequest {}).await.unwrap().into_inner();
        assert_eq!(retrievers.retrievers, []);
        let exit = self.server.stop().await.expect(0);
        assert!(!exit.stderr.contains("panicked"), "{}", exit.stderr);
    }
}

/// Filters that must be refused, each with the path of its fault.
fn bad_filters() -> Vec<(&'static str, v1::Filter, String)> {
    let mut deep = compare(Kind::Eq, "n", int(1));
    let mut path = String::from("filter");
    for level in 0..17 {
        deep = negate(deep);
        if level > 0 {
            path.push_str(".negate");
        }
    }
    let no_value = v1::Comparison { key: "n".to_owned(), value: None };
    let in_list = combine(Kind::AllOf, [compare(Kind::Eq, "n", int(1)), v1::Filter::default()]);
    let cases = vec![
        ("no kind", v1::Filter::default(), "filter"),
        ("no kind within", in_list, "filter.all_of.filters[1]"),
        ("no kind negated", negate(v1::Filter::default()), "filter.negate"),
        ("no value", filter(Kind::Eq(no_value)), "filter.eq.value"),
        ("a value without a kind", compare(Kind::Ne, "n", v1::Value::default()), "filter.ne.value"),
        ("a value that is no number", compare(Kind::Eq, "n", double(f64::NAN)), "filter.eq.value"),
        ("an empty key", compare(Kind::Contains, "", int(1)), "filter.contains.key"),
        ("an empty name in a key", compare(Kind::Eq, "a..b", int(1)), "filter.eq.key"),
        ("a backslash alone", compare(Kind::Eq, "a\\b", int(1)), "filter.eq.key"),
        ("an empty key that exists", filter(Kind::Exists(v1::Exists::default())), "filter.exists.key"),
        (
            "a value of a list",
            compare_list(Kind::InValues, "n", [int(1), v1::Value::default()]),
            "filter.in_values.values[1]",
        ),
        (
            "infinity in a list",
            compare_list(Kind::NinValues, "n", [double(f64::INFINITY)]),
            "filter.nin_values.values[0]",
        ),
        ("an order of lists", compare(Kind::Lt, "n", list([int(1)])), "filter.lt.value"),
        ("an order of booleans", compare(Kind::Gte, "n", boolean(true)), "filter.gte.value"),
        (
            "an order of nulls, within",
            combine(Kind::AnyOf, [negate(compare(Kind::Gt, "n", null()))]),
            "filter.any_of.filters[0].negate.gt.value",
        ),
        ("too many values", compare_list(Kind::InValues, "n", (0..4096).map(int)), "filter"),
    ];
    let mut cases: Vec<_> = cases.into_iter().map(|(what, filter, field)| (what, filter, field.to_owned())).collect();
    cases.push(("too deep", deep, path));
    cases
}

/// Vectors of two dimensions that must be refused by a cosine collection, each with the path of its fault.
fn bad_vectors() -> Vec<(&'static str, v1::Vector, &'static str)> {
    let both = v1::Vector { values: vec![1.0, 2.0], ..packed(&[1.0, 2.0]) };
    let torn = v1::Vector { packed: vec![0; 7], ..packed(&[1.0, 2.0]) };
    let longer = v1::Vector { dimension: 2, ..packed(&[1.0, 2.0, 3.0]) };
    vec![
        ("another dimension", packed(&[1.0, 2.0, 3.0]), ""),
        ("NaN", packed(&[1.0, f32::NAN]), ""),
        ("infinity", floats(&[f32::NEG_INFINITY, 1.0]), ""),
        ("a zero vector", packed(&[0.0, -0.0]), ""),
        ("no elements", v1::Vector::default(), ""),
        ("both encodings", both, ""),
        ("half an element", torn, ".packed"),
        ("more elements than dimensions", longer, ".packed"),
        ("packed without a dimension", v1::Vector { dimension: 0, ..packed(&[1.0, 2.0]) }, ".dimension"),
        ("a huge dimension", v1::Vector { dimension: 65_537, ..floats(&[1.0, 2.0]) }, ".dimension"),
        ("fewer floats than dimensions", v1::Vector { dimension: 2, ..floats(&[1.0]) }, ".values"),
    ]
}

#[tokio::test]
async fn bad_collections_are_refused() {
    let world = World::new().await;
    let mut client = world.client.collections();
    let bad_names = ["", ".", "-x", "a/b", "a b", "ü", "a\0", &"x".repeat(129)];
    for name in bad_names {
        let request = v1::CollectionsCreateRequest { name: name.to_owned(), ..Default::default() };
        invalid(&format!("Create {name:?}"), client.create(request).await, "name");
        let name = name.to_owned();
        invalid("Get", client.get(v1::CollectionsGetRequest { name: name.clone() }).await, "name");
        invalid("Stats", client.stats(v1::CollectionsStatsRequest { name: name.clone() }).await, "name");
        let request = v1::CollectionsUpdateRequest { name: name.clone(), ..Default::default() };
        invalid("Update", client.update(request).await, "name");
        invalid("Delete", client.delete(v1::CollectionsDeleteRequest { name }).await, "name");
    }
    let name = || "nowhere".to_owned();
    not_found("Get", client.get(v1::CollectionsGetRequest { name: name() }).await, "collection", "nowhere");
    not_found("Stats", client.stats(v1::CollectionsStatsRequest { name: name() }).await, "collection", "nowhere");
    let request = v1::CollectionsUpdateRequest { name: name(), ..Default::default() };
    not_found("Update", client.update(request).await, "collection", "nowhere");
    not_found("Delete", client.delete(v1::CollectionsDeleteRequest { name: name() }).await, "collection", "nowhere");

    let labels = |count: usize| (0..count).map(|number| (number.to_string(), String::new())).collect();
    let dimension = |dimension| Some(Vectors::Client(v1::ClientVectors { dimension }));
    let keyword = |language, disabled| Some(v1::KeywordIndex { language, disabled });
    let new = || v1::CollectionsCreateRequest { name: "new".to_owned(), ..Default::default() };
    for (what, request, field) in [
        ("an unknown metric", v1::CollectionsCreateRequest { metric: 99, ..new() }, "metric"),
        ("a negative metric", v1::CollectionsCreateRequest { metric: -1, ..new() }, "metric"),
        (
            "an unknown language",
            v1::CollectionsCreateRequest { keyword: keyword(99, false), ..new() },
            "keyword.language",
        ),
        (
            "a language of no index",
            v1::CollectionsCreateRequest { keyword: keyword(v1::Language::English.into(), true), ..new() },
            "keyword.language",
        ),
        ("no dimension", v1::CollectionsCreateRequest { vectors: dimension(0), ..new() }, "client.dimension"),
        ("a huge dimension", v1::CollectionsCreateRequest { vectors: dimension(65_537), ..new() }, "client.dimension"),
        ("a long description", v1::CollectionsCreateRequest { description: "x".repeat(4097), ..new() }, "description"),
        ("many labels", v1::CollectionsCreateRequest { labels: labels(65), ..new() }, "labels"),
        (
            "a label without a name",
            v1::CollectionsCreateRequest { labels: [(String::new(), String::new())].into(), ..new() },
            "labels",
        ),
    ] {
        invalid(what, client.create(request).await, field);
    }
    let update = || v1::CollectionsUpdateRequest { name: "docs".to_owned(), ..Default::default() };
    let request = v1::CollectionsUpdateRequest { description: Some("x".repeat(4097)), ..update() };
    invalid("a long description", client.update(request).await, "description");
    let request = v1::CollectionsUpdateRequest { labels: Some(v1::Labels { labels: labels(65) }), ..update() };
    invalid("many labels", client.update(request).await, "labels");
    world.assert_unharmed().await;
}

#[tokio::test]
async fn bad_documents_are_refused_and_nothing_of_their_request_is_written() {
    let world = World::new().await;
    let mut client = world.client.documents();
    // A good document stands first, so that a half-written request would show.
    let add = |collection: &str, documents: Vec<v1::Document>| v1::DocumentsAddRequest {
        collection: collection.to_owned(),
        documents,
        ..Default::default()
    };
    let after_a_good_one = |bad: v1::Document| add("points", vec![point("good", &[1.0, 1.0]), bad]);

    for name in ["", "a/b"] {
        invalid("Add", client.add(add(name, vec![])).await, "collection");
    }
    not_found("Add", client.add(add("nowhere", vec![point("a", &[1.0, 0.0])])).await, "collection", "nowhere");
    not_found("Add of nothing", client.add(add("nowhere", vec![])).await, "collection", "nowhere");

    let mut deep = int(1);
    for _ in 0..33 {
        deep = list([deep]);
    }
    let x = |value: v1::Value| point("x", &[1.0, 0.0]).with("x", value);
    let wrong_null = v1::Value { kind: Some(v1::value::Kind::NullValue(3)) };
    for (what, bad, field) in [
        ("an empty id", point("", &[1.0, 0.0]), "id"),
        ("a long id", point(&"x".repeat(1025), &[1.0, 0.0]), "id"),
        ("an id that stands twice", point("good", &[1.0, 0.0]), "id"),
        ("a long text", document("x", &"x".repeat((1 << 20) + 1)).vector(&[1.0, 0.0]), "page_content"),
        (
            "vectors without a vector",
            v1::Document { vectors: Some(v1::Vectors::default()), ..document("x", "") },
            "vectors.dense",
        ),
        ("a value without a kind", x(v1::Value::default()), "metadata.x"),
        ("a value without a kind, within", x(list([int(1), map([("k", v1::Value::default())])])), "metadata.x[1].k"),
        ("a null that is none", x(wrong_null), "metadata.x.null_value"),
        ("NaN", x(double(f64::NAN)), "metadata.x"),
        ("infinity, within", x(map([("k", list([double(f64::INFINITY)]))])), "metadata.x.k[0]"),
        ("an empty key", point("x", &[1.0, 0.0]).with("", int(1)), "metadata"),
        ("a reserved key", point("x", &[1.0, 0.0]).with("_Toller.x", int(1)), "metadata._Toller\\.x"),
    ] {
        invalid(what, client.add(after_a_good_one(bad)).await, &format!("documents[1].{field}"));
    }
    let status = expect::refused("a deep value", client.add(after_a_good_one(x(deep))).await);
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    for (what, vector, field) in bad_vectors() {
        let bad = v1::Document {
            vectors: Some(v1::Vectors { dense: Some(vector), ..Default::default() }),
            ..document("x", "")
        };
        let field = format!("documents[1].vectors.dense{field}");
        invalid(what, client.add(after_a_good_one(bad)).await, &field);
    }
    for request_id in [String::new(), "x".repeat(129)] {
        let request = v1::DocumentsAddRequest { request_id: Some(request_id), ..add("points", vec![]) };
        invalid("a request id", client.add(request).await, "request_id");
    }
    let many = (0..1001).map(|number| point(&number.to_string(), &[1.0, 0.0])).collect();
    invalid("too many documents", client.add(add("points", many)).await, "documents");
    // Every fault is told, not only the first.
    let bad = vec![point("", &[1.0, 0.0]), point("a", &[1.0]), point("b", &[f32::NAN, 0.0])];
    let fields = ["documents[0].id", "documents[1].vectors.dense", "documents[2].vectors.dense"];
    invalid_fields("three faults", client.add(add("points", bad)).await, &fields);
    // Zero vectors are a matter of the cosine alone.
    assert_eq!(client.add(add("dots", vec![])).await.unwrap().into_inner().ids, [""; 0]);
    world.assert_unharmed().await;
}

#[tokio::test]
async fn bad_reads_and_deletes_of_documents_are_refused() {
    let world = World::new().await;
    let mut client = world.client.documents();
    let points = || "points".to_owned();
    let get = || v1::DocumentsGetRequest { collection: points(), ids: vec!["a".to_owned()], ..Default::default() };
    let strings = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>();
    for (what, request, field) in [
        ("no collection", v1::DocumentsGetRequest { collection: String::new(), ..get() }, "collection"),
        ("an empty id", v1::DocumentsGetRequest { ids: vec!["a".into(), String::new()], ..get() }, "ids[1]"),
        ("a long id", v1::DocumentsGetRequest { ids: vec!["x".repeat(1025)], ..get() }, "ids[0]"),
        ("too many ids", v1::DocumentsGetRequest { ids: strings(1001), ..get() }, "ids"),
        ("an unknown encoding", v1::DocumentsGetRequest { encoding: 9, ..get() }, "encoding"),
    ] {
        invalid(what, client.get(request).await, field);
    }
    let list = || v1::DocumentsListRequest { collection: points(), ..Default::default() };
    for (what, request, field) in [
        ("no collection", v1::DocumentsListRequest { collection: String::new(), ..list() }, "collection"),
        ("no page", v1::DocumentsListRequest { page_size: Some(0), ..list() }, "page_size"),
        ("a huge page", v1::DocumentsListRequest { page_size: Some(1001), ..list() }, "page_size"),
        ("a token of nobody", v1::DocumentsListRequest { page_token: "???".into(), ..list() }, "page_token"),
        ("a token that is no text", v1::DocumentsListRequest { page_token: "_w".into(), ..list() }, "page_token"),
        (
            "vectors of ids",
            v1::DocumentsListRequest { ids_only: Some(true), with_vectors: Some(true), ..list() },
            "with_vectors",
        ),
        ("an unknown encoding", v1::DocumentsListRequest { encoding: -9, ..list() }, "encoding"),
    ] {
        invalid(what, client.list(request).await, field);
    }
    let delete = |selector| v1::DocumentsDeleteRequest { collection: points(), selector: Some(selector) };
    let ids = |ids| Selector::Ids(v1::DocumentIds { ids });
    for (what, selector, field) in [
        ("an empty id", ids(vec!["a".into(), String::new()]), "ids.ids[1]"),
        ("too many ids", ids(strings(1001)), "ids.ids"),
        ("not all", Selector::All(false), "all"),
    ] {
        invalid(what, client.delete(delete(selector)).await, field);
    }
    let request = v1::DocumentsDeleteRequest { collection: points(), selector: None };
    invalid("no selector", client.delete(request).await, "selector");

    for (what, filter, field) in bad_filters() {
        let request = v1::DocumentsListRequest { filter: Some(filter.clone()), ..list() };
        invalid(what, client.list(request).await, &field);
        invalid(what, client.delete(delete(Selector::Filter(filter.clone()))).await, &field);
        let request = v1::DocumentsCountRequest { collection: points(), filter: Some(filter) };
        invalid(what, client.count(request).await, &field);
    }
    let nowhere = || "nowhere".to_owned();
    let request = v1::DocumentsGetRequest { collection: nowhere(), ..Default::default() };
    not_found("Get", client.get(request).await, "collection", "nowhere");
    let request = v1::DocumentsListRequest { collection: nowhere(), ..Default::default() };
    not_found("List", client.list(request).await, "collection", "nowhere");
    let request = v1::DocumentsCountRequest { collection: nowhere(), filter: None };
    not_found("Count", client.count(request).await, "collection", "nowhere");
    let request = v1::DocumentsDeleteRequest { collection: nowhere(), selector: Some(Selector::All(true)) };
    not_found("Delete", client.delete(request).await, "collection", "nowhere");
    world.assert_unharmed().await;
}

/// Searches that must be refused, each with the path of its fault below the search.
fn bad_searches() -> Vec<(&'static str, v1::VectorStoreRetriever, &'static str)> {
    let search = || search_in("points");
    let mmr = || v1::VectorStoreRetriever { search_type: v1::SearchType::Mmr.into(), ..search() };
    let with_relevance = |collection: &str, function: v1::RelevanceFunction| v1::VectorStoreRetriever {
        relevance_fn: function.into(),
        ..search_in(collection)
    };
    vec![
        ("no collection", search_in(""), "collection"),
        ("a bad name", search_in("a/b"), "collection"),
        ("k = 0", v1::VectorStoreRetriever { k: Some(0), ..search() }, "k"),
        ("a large k", v1::VectorStoreRetriever { k: Some(1001), ..search() }, "k"),
        ("a huge k", v1::VectorStoreRetriever { k: Some(u32::MAX), ..search() }, "k"),
        ("fetch_k = 0", v1::VectorStoreRetriever { fetch_k: Some(0), ..mmr() }, "fetch_k"),
        ("a large fetch_k", v1::VectorStoreRetriever { fetch_k: Some(1001), ..mmr() }, "fetch_k"),
        ("fetch_k without mmr", v1::VectorStoreRetriever { fetch_k: Some(20), ..search() }, "fetch_k"),
        ("lambda without mmr", v1::VectorStoreRetriever { lambda_mult: Some(0.5), ..search() }, "lambda_mult"),
        ("lambda 1.5", v1::VectorStoreRetriever { lambda_mult: Some(1.5), ..mmr() }, "lambda_mult"),
        ("lambda -0.1", v1::VectorStoreRetriever { lambda_mult: Some(-0.1), ..mmr() }, "lambda_mult"),
        ("lambda NaN", v1::VectorStoreRetriever { lambda_mult: Some(f64::NAN), ..mmr() }, "lambda_mult"),
        ("threshold -0.1", v1::VectorStoreRetriever { score_threshold: Some(-0.1), ..search() }, "score_threshold"),
        ("threshold 1.1", v1::VectorStoreRetriever { score_threshold: Some(1.1), ..search() }, "score_threshold"),
        ("threshold NaN", v1::VectorStoreRetriever { score_threshold: Some(f64::NAN), ..mmr() }, "score_threshold"),
        (
            "raw NaN",
            v1::VectorStoreRetriever { raw_score_threshold: Some(f64::NAN), ..search() },
            "raw_score_threshold",
        ),
        (
            "raw infinity",
            v1::VectorStoreRetriever { raw_score_threshold: Some(f64::INFINITY), ..search() },
            "raw_score_threshold",
        ),
        (
            "a threshold search without one",
            v1::VectorStoreRetriever { search_type: v1::SearchType::SimilarityScoreThreshold.into(), ..search() },
            "score_threshold",
        ),
        ("an unknown search type", v1::VectorStoreRetriever { search_type: 99, ..search() }, "search_type"),
        ("an unknown relevance", v1::VectorStoreRetriever { relevance_fn: 99, ..search() }, "relevance_fn"),
        ("reciprocal of dot", with_relevance("dots", v1::RelevanceFunction::Reciprocal), "relevance_fn"),
        ("half cosine of a distance", with_relevance("far", v1::RelevanceFunction::HalfCosine), "relevance_fn"),
        ("sigmoid of a distance", with_relevance("far", v1::RelevanceFunction::Sigmoid), "relevance_fn"),
    ]
}

#[tokio::test]
async fn bad_searches_are_refused() {
    let world = World::new().await;
    let mut client = world.client.retrieval();
    let query = || Some(vector_query(&[1.0, 0.0]));
    let search = |search| v1::SearchRequest { query: query(), search: Some(search), ..Default::default() };
    let retrieve = |retriever| v1::RetrieveRequest { query: query(), retriever: Some(retriever), ..Default::default() };
    let batch =
        |queries, retriever| v1::BatchRetrieveRequest { queries, retriever: Some(retriever), ..Default::default() };
    let good = || vector_store("", search_in("points"));

    let mut faults: Vec<(&str, v1::VectorStoreRetriever, String)> = Vec::new();
    faults.extend(bad_searches().into_iter().map(|(what, search, field)| (what, search, field.to_owned())));
    faults.extend(bad_filters().into_iter().map(|(what, filter, field)| {
        (what, v1::VectorStoreRetriever { filter: Some(filter), ..search_in("points") }, field)
    }));
    for (what, bad, field) in faults {
        invalid(what, client.search(search(bad.clone())).await, &format!("search.{field}"));
        let path = format!("retriever.vector_store.{field}");
        let retriever = vector_store("x", bad);
        invalid(what, client.retrieve(retrieve(retriever.clone())).await, &path);
        invalid(what, client.batch_retrieve(batch(vec![], retriever.clone())).await, &path);
        let request = v1::RetrieversPutRequest { retriever: Some(retriever), expected_version: None };
        invalid(what, world.client.retrievers().put(request).await, &path);
    }
    let several = v1::VectorStoreRetriever { k: Some(0), lambda_mult: Some(7.0), ..mmr_in("points", 0, 0, 0.0) };
    let fields = ["search.k", "search.fetch_k", "search.lambda_mult"];
    invalid_fields("several faults", client.search(search(several)).await, &fields);

    for (what, vector, field) in bad_vectors() {
        let bad = v1::Query { kind: Some(v1::query::Kind::Vector(vector)) };
        let request = v1::SearchRequest { query: Some(bad.clone()), ..search(search_in("points")) };
        invalid(what, client.search(request).await, &format!("query.vector{field}"));
        let request = v1::RetrieveRequest { query: Some(bad.clone()), ..retrieve(good()) };
        invalid(what, client.retrieve(request).await, &format!("query.vector{field}"));
        let queries = vec![vector_query(&[1.0, 0.0]), bad];
        invalid(what, client.batch_retrieve(batch(queries, good())).await, &format!("queries[1].vector{field}"));
    }
    let long = text_query(&"x".repeat((1 << 20) + 1));
    for (what, query, field) in [
        ("no query", None, "query"),
        ("a query without a kind", Some(v1::Query::default()), "query"),
        ("a long query", Some(long), "query.text"),
    ] {
        let request = v1::SearchRequest { query: query.clone(), ..search(search_in("docs")) };
        invalid(what, client.search(request).await, field);
        let request = v1::RetrieveRequest { query, ..retrieve(vector_store("", search_in("docs"))) };
        invalid(what, client.retrieve(request).await, field);
    }
    let queries = vec![vector_query(&[1.0, 0.0]), v1::Query::default()];
    invalid("a query without a kind", client.batch_retrieve(batch(queries, good())).await, "queries[1]");
    let queries = vec![vector_query(&[1.0, 0.0]); 101];
    invalid("too many queries", client.batch_retrieve(batch(queries, good())).await, "queries");

    invalid(
        "no search",
        client.search(v1::SearchRequest { search: None, ..search(search_in("points")) }).await,
        "search",
    );
    let request = v1::SearchRequest { encoding: 9, ..search(search_in("points")) };
    invalid("an unknown encoding", client.search(request).await, "encoding");
    let tagged = |tags: Vec<String>| v1::Retriever { tags, ..good() };
    for (what, retriever, field) in [
        ("no retriever", None, "retriever"),
        ("a retriever without a kind", Some(v1::Retriever::default()), "retriever"),
        ("a bad name", Some(vector_store("a/b", search_in("points"))), "retriever.name"),
        ("a bad reference", Some(reference("", "a b")), "retriever.ref"),
        ("an empty reference", Some(reference("", "")), "retriever.ref"),
        ("many tags", Some(tagged(vec!["x".into(); 17])), "retriever.tags"),
        ("an empty tag", Some(tagged(vec!["x".into(), String::new()])), "retriever.tags[1]"),
        ("a long tag", Some(tagged(vec!["x".repeat(65)])), "retriever.tags[0]"),
    ] {
        let request = v1::RetrieveRequest { retriever: retriever.clone(), ..retrieve(good()) };
        invalid(what, client.retrieve(request).await, field);
        let request = v1::BatchRetrieveRequest { retriever: retriever.clone(), ..batch(vec![], good()) };
        invalid(what, client.batch_retrieve(request).await, field);
        // A name is given, so that it is not the one fault.
        let named = retriever.map(|retriever| v1::Retriever {
            name: if retriever.name.is_empty() { "named".to_owned() } else { retriever.name.clone() },
            ..retriever
        });
        let request = v1::RetrieversPutRequest { retriever: named, expected_version: None };
        invalid(what, world.client.retrievers().put(request).await, field);
    }
    let request = v1::RetrieversPutRequest { retriever: Some(good()), expected_version: None };
    invalid("no key", world.client.retrievers().put(request).await, "retriever.name");
    let mut retrievers = world.client.retrievers();
    for name in ["", "a/b"] {
        let name = || name.to_owned();
        invalid("Get", retrievers.get(v1::RetrieversGetRequest { name: name() }).await, "name");
        invalid("Delete", retrievers.delete(v1::RetrieversDeleteRequest { name: name() }).await, "name");
    }
    invalid("Validate", retrievers.validate(v1::RetrieversValidateRequest { retriever: None }).await, "retriever");

    not_found("a search", client.search(search(search_in("nowhere"))).await, "collection", "nowhere");
    not_found(
        "a retrieval",
        client.retrieve(retrieve(vector_store("", search_in("nowhere")))).await,
        "collection",
        "nowhere",
    );
    not_found("a reference", client.retrieve(retrieve(reference("", "nowhere"))).await, "retriever", "nowhere");
    let request = v1::RetrieversPutRequest { retriever: Some(reference("x", "nowhere")), expected_version: None };
    not_found("a stored reference", retrievers.put(request).await, "retriever", "nowhere");
    world.assert_unharmed().await;
}

#[tokio::test]
async fn bad_texts_to_embed_are_refused() {
    let world = World::new().await;
    let mut client = world.client.embedder();
    let long = || "x".repeat((1 << 20) + 1);
    let documents = |texts| v1::EmbedDocumentsRequest { texts, ..Default::default() };
    let query = |text| v1::EmbedQueryRequest { text, ..Default::default() };
    invalid("long texts", client.embed_documents(documents(vec!["x".into(), long()])).await, "texts[1]");
    invalid("a long query", client.embed_query(query(long())).await, "text");
    let request = v1::EmbedDocumentsRequest { encoding: 3, ..documents(vec![]) };
    invalid("an unknown encoding", client.embed_documents(request).await, "encoding");
    let request = v1::EmbedQueryRequest { encoding: -1, ..query(String::new()) };
    invalid("an unknown encoding", client.embed_query(request).await, "encoding");
    let model = || Some("nowhere/nothing".to_owned());
    let request = v1::EmbedDocumentsRequest { model: model(), ..documents(vec![]) };
    not_found("an unknown model", client.embed_documents(request).await, "model", "nowhere/nothing");
    let request = v1::EmbedQueryRequest { model: model(), ..query(String::new()) };
    not_found("an unknown model", client.embed_query(request).await, "model", "nowhere/nothing");
    world.assert_unharmed().await;
}

#[tokio::test]
async fn messages_over_the_limit_are_refused_in_both_directions() {
    let server = Settings::new().without_model().set("limits.max_message_bytes", "65536").start().await;
    let client = server.client().await;
    client.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    let large = |id: &str| document(id, &"x".repeat(30_000)).vector(&[1.0, 0.0]);
    for id in ["a", "b", "c"] {
        client.add("points", vec![large(id)]).await;
    }
    let documents = vec![large("d"), large("e"), large("f")];
    let request = v1::DocumentsAddRequest { collection: "points".to_owned(), documents, ..Default::default() };
    let status = expect::refused("a large message", client.documents().add(request).await);
    assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
    assert!(status.message().contains("65536"), "the limit is named: {}", status.message());
    assert_eq!(client.count("points").await, 3);

    let ids = ["a", "b", "c"].map(str::to_owned).to_vec();
    let request = v1::DocumentsGetRequest { collection: "points".to_owned(), ids, ..Default::default() };
    invalid("a large answer", client.documents().get(request).await, "ids");
    let search = v1::SearchRequest {
        query: Some(vector_query(&[1.0, 0.0])),
        search: Some(search_in("points")),
        ..Default::default()
    };
    invalid("a large answer", client.retrieval().search(search).await, "search.k");
    // A list only makes its pages shorter.
    let mut seen = Vec::new();
    let mut request = v1::DocumentsListRequest { collection: "points".to_owned(), ..Default::default() };
    loop {
        let page = client.documents().list(request.clone()).await.unwrap().into_inner();
        seen.push(page.documents.ids());
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(seen, [vec!["a", "b"], vec!["c"]]);
}

/// Numbers that look random and are the same in every run (xorshift, Marsaglia 2003).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        let length = self.next() % most;
        (0..length).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}

#[tokio::test]
async fn noise_in_the_place_of_messages_is_answered_with_an_error() {
    const METHODS: [&str; 7] = [
        "toller.v1.Documents/Add",
        "toller.v1.Documents/Delete",
        "toller.v1.Retrieval/Search",
        "toller.v1.Retrievers/Put",
        "toller.v1.Collections/Create",
        "toller.v1.Embedder/EmbedDocuments",
        "toller.v1.Backups/Restore",
    ];
    const ROUNDS: usize = 200;

    let world = World::new().await;
    let http = plain_http::<Full<Bytes>>();
    let mut noise = Noise(0x746f_6c6c_6572);
    for round in 0..ROUNDS {
        for method in METHODS {
            let message = noise.bytes(200);
            let mut body = vec![0];
            // Now and then also the length before the message is wrong.
            let length = if round % 7 == 0 { noise.next() as u32 } else { message.len() as u32 };
            body.extend(length.to_be_bytes());
            body.extend(message);
            let request = hyper::Request::post(format!("{}/{method}", world.server.url()))
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .header("grpc-timeout", "10S")
                .body(Full::new(Bytes::from(body)))
                .unwrap();
            let answer = timeout(PATIENCE, http.request(request)).await.expect("noise is answered").unwrap();
            let in_headers = answer.headers().get("grpc-status").cloned();
            let trailers = answer.into_body().collect().await.unwrap().trailers().cloned().unwrap_or_default();
            let status = in_headers.or_else(|| trailers.get("grpc-status").cloned()).expect("a status");
            // Fields that nobody knows make an empty message, and to embed nothing is no mistake.
            let may_be_empty = method.ends_with("EmbedDocuments");
            assert!(may_be_empty || status != "0", "{method} takes noise for a message");
            // UNKNOWN and INTERNAL would say that the server is at fault.
            assert!(status != "2" && status != "13", "{method} answers noise with status {status:?}");
        }
    }
    world.assert_unharmed().await;
}

#[tokio::test]
async fn noise_in_the_place_of_http_ends_its_connection_alone() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    let world = World::new().await;
    let mut noise = Noise(0x646f_6773);
    let mut openings: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(),
        PREFACE.to_vec(),
        // A frame that promises 16 MiB and brings nothing.
        [PREFACE, &[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]].concat(),
    ];
    for _ in 0..20 {
        openings.push(noise.bytes(2000));
        openings.push([PREFACE.to_vec(), noise.bytes(2000)].concat());
    }
    for opening in openings {
        let mut connection = TcpStream::connect(world.server.address).await.unwrap();
        // The server may close before it has read everything.
        let _ = connection.write_all(&opening).await;
        let _ = connection.shutdown().await;
        let mut answer = Vec::new();
        let closed = timeout(PATIENCE, connection.read_to_end(&mut answer)).await;
        assert!(closed.is_ok(), "the server closes what is no HTTP/2: {opening:?}");
        assert_eq!(world.client.count("points").await, 2, "others go on");
    }
    world.assert_unharmed().await;
}
