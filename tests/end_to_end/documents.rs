//! Documents: written, replaced, read, listed and deleted.

use std::collections::BTreeSet;

use toller_api::v1;
use toller_api::v1::documents_delete_request::Selector;
use toller_api::v1::filter::Kind;
use toller_tests::client::Client;
use toller_tests::request::*;
use toller_tests::server::{Server, Settings};
use tonic::Status;
use uuid::Uuid;

use crate::expect;

async fn server_with_points() -> (Server, Client) {
    let server = Settings::new().without_model().start().await;
    let client = server.client().await;
    client.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    (server, client)
}

fn add_request(documents: Vec<v1::Document>, request_id: Option<&str>) -> v1::DocumentsAddRequest {
    let request_id = request_id.map(str::to_owned);
    v1::DocumentsAddRequest { collection: "points".to_owned(), documents, request_id, truncate: None }
}

async fn delete(client: &Client, selector: Option<Selector>) -> Result<u64, Status> {
    let request = v1::DocumentsDeleteRequest { collection: "points".to_owned(), selector };
    Ok(client.documents().delete(request).await?.into_inner().deleted)
}

fn ids(ids: &[&str]) -> Option<Selector> {
    Some(Selector::Ids(v1::DocumentIds { ids: ids.iter().map(|id| (*id).to_owned()).collect() }))
}

#[tokio::test]
async fn the_server_makes_ids_where_there_are_none() {
    let (_server, client) = server_with_points().await;
    let without = |x: f32| text_only(&format!("at {x}")).vector(&[x, 1.0]);
    let documents = vec![without(1.0), point("mine", &[0.0, 1.0]), without(2.0)];
    let answer = client.documents().add(add_request(documents.clone(), None)).await.unwrap().into_inner();
    assert_eq!(answer.ids.len(), 3);
    assert_eq!(answer.ids[1], "mine");
    for (id, document) in answer.ids.iter().zip(&documents) {
        let [found] = client.get("points", &[id]).await.try_into().unwrap();
        assert_eq!(found.page_content, document.page_content, "ids are aligned with the documents");
        assert_eq!(found.vectors, document.vectors);
    }
    for made in [&answer.ids[0], &answer.ids[2]] {
        assert_eq!(Uuid::parse_str(made).unwrap().get_version_num(), 7);
    }
    assert!(answer.ids[0] < answer.ids[2], "ids that the server makes are in the order of their making");
    assert_eq!(answer.usage, vec![v1::TextUsage::default(); 3], "nothing was embedded");

    let again = client.documents().add(add_request(documents, None)).await.unwrap().into_inner();
    assert_eq!(again.ids.iter().chain(&answer.ids).collect::<BTreeSet<_>>().len(), 5, "new ids every time");
    assert_eq!(client.count("points").await, 5);
}

#[tokio::test]
async fn a_document_with_a_known_id_replaces_the_whole_of_it() {
    let (_server, client) = server_with_points().await;
    client.add("points", vec![point("a", &[1.0, 0.0]).with("old", int(1)), point("b", &[0.0, 1.0])]).await;
    client.add("points", vec![document("a", "new text").vector(&[0.5, 0.5]).with("new", int(2))]).await;
    let [a] = client.get("points", &["a"]).await.try_into().unwrap();
    assert_eq!(a, document("a", "new text").vector(&[0.5, 0.5]).with("new", int(2)));
    assert_eq!(client.count("points").await, 2);
    assert_eq!(client.search(vector_query(&[1.0, 1.0]), search_in("points")).await.ids(), ["a", "b"]);
}

#[tokio::test]
async fn metadata_comes_back_as_it_was_sent() {
    let (_server, client) = server_with_points().await;
    let sent = point("a", &[1.0, 0.0])
        .with("null", null())
        .with("true", boolean(true))
        .with("one", int(1))
        .with("one point zero", double(1.0))
        .with("minus zero", double(-0.0))
        .with("tiny", double(f64::MIN_POSITIVE))
        .with("text", string("ünï\u{0}code 👩‍👩‍👧"))
        .with("empty", string(""))
        .with("list", list([null(), list([]), map([("k", int(i64::MIN))])]))
        .with("map", map([("a.b", string("dot")), ("", boolean(false))]));
    // A map's names must not be empty: that one is refused with its path, the rest is kept exactly.
    let answer = client.documents().add(add_request(vec![sent.clone()], None)).await;
    expect::invalid("an empty name in a map", answer, "documents[0].metadata.map");
    let sent = sent.with("map", map([("a.b", string("dot"))]));
    client.add("points", vec![sent.clone()]).await;
    assert_eq!(client.get("points", &["a"]).await, std::slice::from_ref(&sent));
    assert_eq!(client.all("points").await, [sent]);
}

#[tokio::test]
async fn get_answers_in_the_order_of_the_question_and_names_what_is_missing() {
    let (_server, client) = server_with_points().await;
    client.add("points", vec![point("a", &[1.0, 0.0]), point("b", &[0.0, 1.0])]).await;
    let get = async |ids: &[&str], with_vectors: Option<bool>, encoding: v1::VectorEncoding| {
        let request = v1::DocumentsGetRequest {
            collection: "points".to_owned(),
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            with_vectors,
            encoding: encoding.into(),
        };
        client.documents().get(request).await.unwrap().into_inner()
    };
    let answer = get(&["b", "x", "a", "b", "y", "x"], None, v1::VectorEncoding::Unspecified).await;
    assert_eq!(answer.documents.clone().ids(), ["b", "a", "b"]);
    assert_eq!(answer.missing_ids, ["x", "y", "x"]);
    assert!(answer.documents.iter().all(|document| document.vectors.is_none()));

    let floats = get(&["b"], Some(true), v1::VectorEncoding::Floats).await;
    let dense = floats.documents[0].vectors.clone().unwrap().dense.unwrap();
    assert_eq!((dense.values.as_slice(), dense.packed.len()), ([0.0, 1.0].as_slice(), 0));
    let packed = get(&["b"], Some(true), v1::VectorEncoding::Packed).await;
    assert_eq!(packed.documents[0].elements(), [0.0, 1.0]);
    assert_eq!(get(&[], None, v1::VectorEncoding::Unspecified).await, v1::DocumentsGetResponse::default());
}

#[tokio::test]
async fn pages_are_right_while_others_write() {
    let (_server, client) = server_with_points().await;
    // Two bytes of UTF-8 come after all ASCII, so the order is that of bytes and not of an alphabet.
    let mut expected: Vec<String> =
        (0..25).map(|number| format!("{number:02}")).chain(["Z".into(), "a".into(), "é".into()]).collect();
    client.add("points", expected.iter().rev().map(|id| point(id, &[1.0, 0.0])).collect()).await;
    let page = async |token: &str, size: Option<u32>, ids_only: bool| {
        let request = v1::DocumentsListRequest {
            collection: "points".to_owned(),
            page_size: size,
            page_token: token.to_owned(),
            ids_only: Some(ids_only),
            ..Default::default()
        };
        client.documents().list(request).await.unwrap().into_inner()
    };
    let whole = page("", None, true).await;
    assert_eq!(whole.documents.clone().ids(), expected);
    assert_eq!(whole.next_page_token, "");
    for document in whole.documents {
        assert_eq!(document, v1::Document { id: document.id.clone(), ..Default::default() }, "ids alone");
    }

    // Between the pages documents before and after the cursor come and go.
    let mut seen = Vec::new();
    let mut token = String::new();
    for number in 0.. {
        let answer = page(&token, Some(7), false).await;
        assert!(answer.documents.iter().all(|document| !document.page_content.is_empty()));
        seen.extend(answer.documents.ids());
        token = answer.next_page_token;
        if token.is_empty() {
            break;
        }
        match number {
            0 => {
                delete(&client, ids(&["03", "07", "20"])).await.unwrap();
                client.add("points", vec![point("01b", &[1.0, 0.0]), point("21b", &[1.0, 0.0])]).await;
            }
            1 => client.add("points", vec![point("zz", &[1.0, 0.0])]).await.clear(),
            _ => {}
        }
    }
    // What was there all the time is seen exactly once; 07 began the second page and is passed over.
    expected.retain(|id| id != "07" && id != "20");
    expected.extend(["21b".to_owned(), "zz".to_owned()]);
    expected.sort();
    assert_eq!(seen, expected);

    let filtered = v1::DocumentsListRequest {
        collection: "points".to_owned(),
        filter: Some(compare(Kind::Eq, "kind", string("none"))),
        ..Default::default()
    };
    assert_eq!(client.documents().list(filtered).await.unwrap().into_inner(), v1::DocumentsListResponse::default());
}

#[tokio::test]
async fn documents_are_deleted_by_ids_by_filter_or_all_and_never_by_leaving_something_out() {
    let (_server, client) = server_with_points().await;
    let documents = (0..10).map(|number| point(&number.to_string(), &[1.0, number as f32]).with("n", int(number)));
    client.add("points", documents.collect()).await;

    expect::invalid(
        "no selector",
        client.documents().delete(v1::DocumentsDeleteRequest { collection: "points".into(), selector: None }).await,
        "selector",
    );
    let not_all = v1::DocumentsDeleteRequest { collection: "points".into(), selector: Some(Selector::All(false)) };
    expect::invalid("all = false", client.documents().delete(not_all).await, "all");
    assert_eq!(client.count("points").await, 10);

    assert_eq!(delete(&client, ids(&[])).await.unwrap(), 0);
    assert_eq!(delete(&client, ids(&["1", "1", "x", "2"])).await.unwrap(), 2);
    assert_eq!(delete(&client, Some(Selector::Filter(compare(Kind::Gte, "n", int(8))))).await.unwrap(), 2);
    assert_eq!(delete(&client, Some(Selector::Filter(combine(Kind::AnyOf, [])))).await.unwrap(), 0);
    assert_eq!(client.all("points").await.ids(), ["0", "3", "4", "5", "6", "7"]);
    let hits =
        client.search(vector_query(&[0.0, 1.0]), v1::VectorStoreRetriever { k: Some(100), ..search_in("points") });
    assert_eq!(hits.await.ids(), ["7", "6", "5", "4", "3", "0"], "what is deleted is not found");
    assert_eq!(delete(&client, Some(Selector::All(true))).await.unwrap(), 6);
    assert_eq!(delete(&client, Some(Selector::All(true))).await.unwrap(), 0);
    assert_eq!(client.count("points").await, 0);
}

#[tokio::test]
async fn a_retried_write_makes_no_duplicates_also_after_a_restart() {
    let (server, client) = server_with_points().await;
    let documents =
        || vec![text_only("one").vector(&[1.0, 0.0]).with("n", int(1)), text_only("two").vector(&[0.0, 1.0])];
    let add = async |client: &Client, documents, request_id| {
        client.documents().add(add_request(documents, Some(request_id))).await.unwrap().into_inner().ids
    };
    let first = add(&client, documents(), "request 1").await;
    assert_ne!(first[0], first[1]);
    assert_eq!(add(&client, documents(), "request 1").await, first);
    assert_eq!(client.count("points").await, 2);

    // The same id with other content is another write: it overwrites nothing.
    let changed = add(&client, vec![text_only("three").vector(&[1.0, 0.0])], "request 1").await;
    assert!(!first.contains(&changed[0]));
    assert_eq!(client.count("points").await, 3);
    let [one] = client.get("points", &[&first[0]]).await.try_into().unwrap();
    assert_eq!(one.page_content, "one");
    // Another request with the same content is another write too.
    assert!(add(&client, documents(), "request 2").await.iter().all(|id| !first.contains(id)));
    assert_eq!(client.count("points").await, 5);

    let server = server.restart().await;
    let client = server.client().await;
    assert_eq!(add(&client, documents(), "request 1").await, first);
    assert_eq!(client.count("points").await, 5);
}

#[tokio::test]
async fn truncation_is_reported_or_refused_before_anything_is_written() {
    let server = Settings::new().start().await;
    let client = server.client().await;
    client.create("points").await;
    let long = "word ".repeat(600);
    let fits = "word ".repeat(510);
    let documents = vec![document("short", "a short text"), document("long", &long), document("fits", &fits)];
    let request = |truncate| v1::DocumentsAddRequest { truncate, ..add_request(documents.clone(), None) };

    let answer = client.documents().add(request(Some(false))).await;
    expect::invalid("a long text that must not be cut", answer, "documents[1].page_content");
    assert_eq!(client.count("points").await, 0);

    let usage = client.documents().add(request(None)).await.unwrap().into_inner().usage;
    let reported: Vec<(Option<u32>, bool)> = usage.iter().map(|usage| (usage.token_count, usage.truncated)).collect();
    assert_eq!(reported, [(Some(5), false), (Some(512), true), (Some(512), false)]);
    let [stored] = client.get("points", &["long"]).await.try_into().unwrap();
    assert_eq!(stored.page_content, long, "the text itself is kept whole");

    // The same for the embedder alone; a query's instruction takes its room.
    let embed = |truncate| v1::EmbedDocumentsRequest {
        texts: vec![fits.clone(), long.clone()],
        truncate,
        ..Default::default()
    };
    expect::invalid("texts", client.embedder().embed_documents(embed(Some(false))).await, "texts[1]");
    let usage = client.embedder().embed_documents(embed(Some(true))).await.unwrap().into_inner().usage;
    assert_eq!(usage.iter().map(|usage| usage.truncated).collect::<Vec<_>>(), [false, true]);
    let query = v1::EmbedQueryRequest { text: fits, truncate: Some(false), ..Default::default() };
    expect::invalid("a query", client.embedder().embed_query(query).await, "text");
}

#[tokio::test]
async fn an_empty_list_does_nothing_and_an_empty_text_is_a_text() {
    let server = Settings::new().start().await;
    let client = server.client().await;
    client.create("points").await;
    let answer = client.documents().add(add_request(vec![], Some("r"))).await.unwrap().into_inner();
    assert_eq!(answer, v1::DocumentsAddResponse::default());
    assert_eq!(client.embed_documents(&[]).await.vectors, []);

    client.add("points", vec![document("empty", "")]).await;
    let [stored] = client.get("points", &["empty"]).await.try_into().unwrap();
    assert_eq!(stored.page_content, "");
    assert_eq!(stored.elements(), elements(&client.embed_documents(&[""]).await.vectors[0]));
    assert_eq!(client.find("", search_in("points")).await, ["empty"]);
}

#[tokio::test]
async fn metadata_is_bounded_and_a_list_with_vectors_makes_shorter_pages() {
    let limits = Settings::new().without_model().set("limits.max_message_bytes", "131072");
    let server = limits.set("limits.max_metadata_bytes", "50000").start().await;
    let client = server.client().await;
    client.create_for_vectors("points", 2048, v1::Metric::Cosine).await;
    let with_bytes = |id: &str, bytes: usize| point(id, &[1.0; 2048]).with("note", string(&"x".repeat(bytes)));
    let add = |documents| v1::DocumentsAddRequest { collection: "points".to_owned(), documents, ..Default::default() };

    let status = expect::refused(
        "much metadata",
        client.documents().add(add(vec![with_bytes("a", 10), with_bytes("b", 50_000)])).await,
    );
    assert!(status.message().starts_with("documents[1].metadata: "), "{status:?}");
    assert!(status.message().contains("limits.max_metadata_bytes"), "{status:?}");
    assert_eq!(client.count("points").await, 0, "nothing is written");

    let ids = ["a", "b", "c"];
    for id in ids {
        client.add("points", vec![with_bytes(id, 49_900)]).await;
    }
    let mut seen = Vec::new();
    let mut request =
        v1::DocumentsListRequest { collection: "points".to_owned(), with_vectors: Some(true), ..Default::default() };
    loop {
        let page = client.documents().list(request.clone()).await.unwrap().into_inner();
        assert!(page.documents.iter().all(|document| document.elements().len() == 2048));
        seen.push(page.documents.ids());
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(seen, [vec!["a", "b"], vec!["c"]]);
}
