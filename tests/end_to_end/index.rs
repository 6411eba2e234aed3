//! `Documents.Index` as a client of any language would call it.

use sha2::{Digest, Sha256};
use toller_api::v1;
use toller_api::v1::documents_index_request::Step;
use toller_tests::client::Client;
use toller_tests::request::*;
use toller_tests::server::{Server, Settings};
use tonic::{Code, Status};

fn begin(cleanup: v1::IndexCleanup) -> v1::IndexBegin {
    v1::IndexBegin { collection: "docs".to_owned(), cleanup: cleanup.into(), ..Default::default() }
}

fn source(name: &str, text: &str) -> v1::SourceDocument {
    let content = Some(v1::source_document::Content::Text(text.to_owned()));
    v1::SourceDocument { source: name.to_owned(), content, ..Default::default() }
}

fn documents(documents: Vec<v1::SourceDocument>) -> Step {
    Step::Documents(v1::IndexDocuments { documents, ..Default::default() })
}

/// All answers to a stream of these steps.
async fn answers(client: &Client, steps: Vec<Step>) -> Result<Vec<v1::DocumentsIndexResponse>, Status> {
    let steps = steps.into_iter().map(|step| v1::DocumentsIndexRequest { step: Some(step) });
    let mut stream = client.documents().index(tokio_stream::iter(steps.collect::<Vec<_>>())).await?.into_inner();
    let mut answers = Vec::new();
    while let Some(answer) = stream.message().await? {
        answers.push(answer);
    }
    Ok(answers)
}

/// The last answer of a run that ends with its commit, with the changes and problems of all answers: a slow run tells
/// them as they come.
async fn index(
    client: &Client,
    begin: v1::IndexBegin,
    sources: Vec<v1::SourceDocument>,
) -> Result<v1::DocumentsIndexResponse, Status> {
    let steps = vec![Step::Begin(begin), documents(sources), Step::Commit(v1::IndexCommit {})];
    let answers = answers(client, steps).await?;
    let told = answers.into_iter().reduce(|mut told, answer| {
        told.problems.extend(answer.problems);
        told.changes.extend(answer.changes);
        v1::DocumentsIndexResponse { problems: told.problems, changes: told.changes, ..answer }
    });
    let told = told.unwrap();
    assert!(told.committed);
    Ok(told)
}

fn progress(answer: &v1::DocumentsIndexResponse) -> v1::IndexProgress {
    answer.progress.unwrap()
}

async fn texts(client: &Client) -> Vec<String> {
    let mut texts: Vec<String> = client.all("docs").await.into_iter().map(|document| document.page_content).collect();
    texts.sort();
    texts
}

#[tokio::test]
async fn bytes_of_any_format_become_chunks_that_are_found() {
    let server = Settings::new().start().await;
    let client = server.client().await;
    client.create("docs").await;
    let page = b"<html><title>Tollers</title><script>no()</script><h1>Dogs</h1><p>Tollers <b>ret</b>rieve.</p></html>";
    let page = v1::SourceDocument {
        content: Some(v1::source_document::Content::Data(page.to_vec())),
        metadata: [("tag".to_owned(), string("web"))].into(),
        ..source("page.html", "")
    };
    let rows = source("rows.csv", "name,text\na,first row\nb,second row\n");
    let answer = index(&client, begin(v1::IndexCleanup::Full), vec![page, rows]).await.unwrap();
    assert_eq!((progress(&answer).added, progress(&answer).chunks), (2, 3));
    let hits = client.search(text_query("what do tollers do?"), search_in("docs")).await;
    let page =
        hits.iter().find_map(|hit| hit.document.clone().filter(|hit| hit.metadata["source"] == string("page.html")));
    let page = page.unwrap();
    assert!(page.page_content.contains("Tollers retrieve.") && !page.page_content.contains("no()"), "{page:?}");
    assert_eq!(page.metadata["title"], string("Tollers"));
    assert_eq!((&page.metadata["tag"], &page.metadata["media_type"]), (&string("web"), &string("text/html")));

    let again = vec![source("rows.csv", "name,text\na,first row\nb,another row\n")];
    let answer = index(&client, begin(v1::IndexCleanup::Full), again).await.unwrap();
    let counts = progress(&answer);
    assert_eq!((counts.added, counts.deleted, counts.embedded, counts.reused), (1, 2, 1, 1), "{counts:?}");
    let gone = v1::IndexDocuments { removed_sources: vec!["rows.csv".to_owned()], ..Default::default() };
    let steps =
        vec![Step::Begin(begin(v1::IndexCleanup::None)), Step::Documents(gone), Step::Commit(v1::IndexCommit {})];
    answers(&client, steps).await.unwrap();
    assert_eq!(client.count("docs").await, 0);
}

#[tokio::test]
async fn children_lead_to_parents_that_live_and_die_with_them() {
    let server = Settings::new().start().await;
    let client = server.client().await;
    client.create("docs").await;
    let small = v1::RecursiveSplitter { chunk_size: Some(30), chunk_overlap: Some(0), ..Default::default() };
    let with_parents = || v1::IndexBegin {
        splitter: Some(v1::Splitter { kind: Some(v1::splitter::Kind::Recursive(small.clone())), overlong: 0 }),
        parents: Some(v1::ParentIndexing { splitter: None }),
        ..begin(v1::IndexCleanup::Incremental)
    };
    let text = "Tollers retrieve ducks.\n\nThey also dance on beaches.";
    index(&client, with_parents(), vec![source("a.txt", text), source("b.txt", "Bread is baked.")]).await.unwrap();
    assert_eq!(client.count("docs").await, 3);
    let retriever = || {
        let parents = v1::ParentSource { kind: Some(v1::parent_source::Kind::DocumentStore("docs".to_owned())) };
        let parent_document = v1::ParentDocumentRetriever {
            search: Some(search_in("docs")),
            parents: Some(parents),
            k: Some(1),
            ..Default::default()
        };
        retriever("", v1::retriever::Kind::ParentDocument(parent_document))
    };
    let ask = async |question: &str| {
        let request = v1::RetrieveRequest {
            query: Some(text_query(question)),
            retriever: Some(retriever()),
            ..Default::default()
        };
        let hits = client.retrieval().retrieve(request).await.unwrap().into_inner().hits;
        hits.into_iter().map(|hit| hit.document.unwrap().page_content).collect::<Vec<_>>()
    };
    assert_eq!(ask("They also dance on beaches.").await, [text]);

    let changed = "Tollers retrieve ducks.\n\nThey also swim.";
    let answer = index(&client, with_parents(), vec![source("a.txt", changed)]).await.unwrap();
    assert_eq!((progress(&answer).reused, progress(&answer).embedded), (1, 1));
    assert_eq!(ask("Tollers retrieve ducks.").await, [changed]);

    let all = v1::DocumentsDeleteRequest {
        collection: "docs".to_owned(),
        selector: Some(v1::documents_delete_request::Selector::All(true)),
    };
    client.documents().delete(all).await.unwrap();
    let parents = async || {
        let request = v1::DocumentStoresListRequest { document_store: "docs".to_owned(), ..Default::default() };
        client.document_stores().list(request).await.unwrap().into_inner().documents.len()
    };
    // They go a while after their children.
    while parents().await > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    index(&client, with_parents(), vec![source("a.txt", text)]).await.unwrap();
    assert_eq!(parents().await, 1);
    client.collections().delete(v1::CollectionsDeleteRequest { name: "docs".to_owned() }).await.unwrap();
    assert_eq!(parents().await, 0, "they go with the collection");
}

#[tokio::test]
async fn streams_that_are_wrong_name_the_fault_and_change_nothing() {
    let server = Settings::new().start().await;
    let client = server.client().await;
    client.create("docs").await;
    index(&client, begin(v1::IndexCleanup::Full), vec![source("a", "as it was")]).await.unwrap();
    let splitter = |kind| Some(v1::Splitter { kind: Some(kind), overlong: 0 });
    let none = begin(v1::IndexCleanup::None);
    let faults = [
        (vec![Step::Commit(v1::IndexCommit {})], Code::InvalidArgument, "begin"),
        (vec![Step::Begin(none.clone()), Step::Begin(none.clone())], Code::InvalidArgument, "begin"),
        (vec![Step::Begin(none.clone()), documents(vec![source("b", "b")])], Code::Aborted, "without a commit"),
        (vec![Step::Begin(v1::IndexBegin { cleanup: 9, ..none.clone() })], Code::InvalidArgument, "begin.cleanup"),
        (
            vec![Step::Begin(v1::IndexBegin { allow_empty_full: true, ..none.clone() })],
            Code::InvalidArgument,
            "begin.allow_empty_full",
        ),
        (
            vec![Step::Begin(v1::IndexBegin { collection: "none".to_owned(), ..none.clone() })],
            Code::NotFound,
            "\"none\" does not exist",
        ),
        (
            vec![Step::Begin(v1::IndexBegin {
                splitter: splitter(v1::splitter::Kind::Token(v1::TokenSplitter {
                    chunk_size: Some(4),
                    chunk_overlap: Some(4),
                })),
                ..none.clone()
            })],
            Code::InvalidArgument,
            "begin.splitter.token.chunk_overlap",
        ),
        (
            vec![Step::Begin(v1::IndexBegin {
                load: Some(v1::LoadOptions {
                    json: Some(v1::JsonLoading { content: "no pointer".to_owned(), ..Default::default() }),
                    ..Default::default()
                }),
                ..none.clone()
            })],
            Code::InvalidArgument,
            "begin.load.json",
        ),
        (
            vec![Step::Begin(begin(v1::IndexCleanup::Full)), Step::Commit(v1::IndexCommit {})],
            Code::FailedPrecondition,
            "allow_empty_full",
        ),
        (
            vec![Step::Begin(v1::IndexBegin {
                generated: vec![v1::GeneratedTexts { kind: 1, ..Default::default() }],
                ..none.clone()
            })],
            Code::FailedPrecondition,
            "language model",
        ),
    ];
    for (steps, code, part) in faults {
        let status = answers(&client, steps).await.unwrap_err();
        assert_eq!(status.code(), code, "{status:?}");
        assert!(status.message().contains(part), "{part}: {status:?}");
    }
    assert_eq!(texts(&client).await, ["as it was"]);
}

#[tokio::test]
async fn every_problem_is_told() {
    let server = Settings::new().start().await;
    let client = server.client().await;
    client.create("docs").await;
    let table = format!("a,b\n{}1,2\n", "1,2,3\n".repeat(900));
    let answer = index(&client, begin(v1::IndexCleanup::None), vec![source("rows.csv", &table)]).await.unwrap();
    assert_eq!((answer.problems.len(), answer.untold_problems), (900, 0));
    assert_eq!(texts(&client).await, ["a: 1\nb: 2"]);
}

#[tokio::test]
async fn runs_are_counted_also_when_their_client_goes_away() {
    let mut server = Settings::new().set("telemetry.metrics_listen", "127.0.0.1:0").start().await;
    let metrics = server.metrics().await;
    let client = server.client().await;
    client.create("docs").await;
    index(&client, begin(v1::IndexCleanup::None), vec![source("a", "a")]).await.unwrap();
    metrics.until("toller_index_runs_total", &[("outcome", "committed")], |runs| runs == 1.0).await;
    metrics.until("toller_index_documents_total", &[("outcome", "added")], |documents| documents == 1.0).await;

    let (sender, receiver) = tokio::sync::mpsc::channel(2);
    let begin = Step::Begin(begin(v1::IndexCleanup::None));
    sender.send(v1::DocumentsIndexRequest { step: Some(begin) }).await.unwrap();
    let stream = tokio_stream::wrappers::ReceiverStream::new(receiver);
    drop(client.documents().index(stream).await.unwrap());
    metrics.until("toller_index_runs_total", &[("outcome", "failed")], |runs| runs == 1.0).await;
}

#[tokio::test]
async fn many_small_messages_at_once_are_taken() {
    let server = Settings::new().start().await;
    let client = server.client().await;
    client.create("docs").await;
    let small = (0..5000).map(|number| documents(vec![source(&format!("s{number}"), "row")]));
    let dry = v1::IndexBegin { dry_run: true, ..begin(v1::IndexCleanup::Full) };
    let steps = [Step::Begin(dry)].into_iter().chain(small).chain([Step::Commit(v1::IndexCommit {})]);
    let answers = answers(&client, steps.collect()).await.unwrap();
    assert_eq!(progress(answers.last().unwrap()).added, 5000);
}

#[tokio::test]
async fn a_run_that_waits_says_so() {
    let server = Settings::new().start().await;
    let client = server.client().await;
    client.create("docs").await;
    let (sender, receiver) = tokio::sync::mpsc::channel(2);
    let message = |step| v1::DocumentsIndexRequest { step: Some(step) };
    sender.send(message(Step::Begin(begin(v1::IndexCleanup::Full)))).await.unwrap();
    sender.send(message(documents(vec![source("a", "first")]))).await.unwrap();
    let stream = tokio_stream::wrappers::ReceiverStream::new(receiver);
    let mut first = client.documents().index(stream).await.unwrap().into_inner();
    // Its document is counted, so that it has its turn.
    while progress(&first.message().await.unwrap().unwrap()).added == 0 {}
    let steps = [Step::Begin(begin(v1::IndexCleanup::Full)), documents(vec![source("b", "second")])];
    let steps = steps.into_iter().chain([Step::Commit(v1::IndexCommit {})]).map(message);
    let mut second =
        client.documents().index(tokio_stream::iter(steps.collect::<Vec<_>>())).await.unwrap().into_inner();
    assert!(second.message().await.unwrap().unwrap().waiting);
    // It vanishes, and the other one gets its turn.
    drop((sender, first));
    let mut last = None;
    while let Some(answer) = second.message().await.unwrap() {
        last = Some(answer);
    }
    assert!(last.unwrap().committed);
    assert_eq!(texts(&client).await, ["second"]);
}

#[tokio::test]
async fn collections_of_clients_vectors_take_no_runs() {
    let server = Settings::new().start().await;
    let client = server.client().await;
    client.create_for_vectors("docs", 2, v1::Metric::Dot).await;
    let status = index(&client, begin(v1::IndexCleanup::None), vec![source("a", "a")]).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
}

#[tokio::test]
async fn tokens_are_those_of_the_model() {
    let server = Settings::new().start().await;
    let client = server.client().await;
    client.create("docs").await;
    let token = v1::TokenSplitter { chunk_size: Some(16), chunk_overlap: Some(0) };
    let with_tokens = v1::IndexBegin {
        splitter: Some(v1::Splitter { kind: Some(v1::splitter::Kind::Token(token)), overlong: 0 }),
        ..begin(v1::IndexCleanup::Full)
    };
    let text = "the dog retrieves ducks on the beach and dances there ".repeat(20);
    index(&client, with_tokens, vec![source("a", &text)]).await.unwrap();
    let chunks = texts(&client).await;
    assert!(chunks.len() > 10, "{}", chunks.len());
    let letters = |text: &str| text.split_whitespace().collect::<String>().len();
    assert_eq!(chunks.iter().map(|chunk| letters(chunk)).sum::<usize>(), letters(&text), "nothing is lost");
    let usage = client.embed_documents(&chunks.iter().map(String::as_str).collect::<Vec<_>>()).await.usage;
    // Two special tokens, and a word that is cut may be two tokens more.
    assert!(usage.iter().all(|usage| usage.token_count.unwrap() <= 16 + 2 + 2), "{usage:?}");
}

/// A server with a writer and a reader of one tenant, and an admin for each of two.
async fn server_with_keys() -> Server {
    let keys = [("acme", "admin", "acme"), ("umbrella", "admin", "umbrella"), ("looker", "reader", "acme")];
    let keys = keys.map(|(name, role, tenant)| {
        let digest: String = Sha256::digest(name).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("[[auth.keys]]\nname = \"{name}\"\nsha256 = \"{digest}\"\nrole = \"{role}\"\ntenant = \"{tenant}\"\n")
    });
    Settings::new().file(&keys.concat()).start().await
}

#[tokio::test]
async fn tenants_index_the_same_sources_apart_and_readers_do_not() {
    let server = server_with_keys().await;
    let clients = [server.client_with_key("acme").await, server.client_with_key("umbrella").await];
    let with_parents =
        || v1::IndexBegin { parents: Some(v1::ParentIndexing { splitter: None }), ..begin(v1::IndexCleanup::Full) };
    for (client, text) in clients.iter().zip(["secret of acme", "secret of umbrella"]) {
        client.create("docs").await;
        index(client, with_parents(), vec![source("a", text), source("b", "the same")]).await.unwrap();
    }
    // A full run of one removes nothing of the other's, and its dry run tells nothing of it.
    let dry = v1::IndexBegin { dry_run: true, ..with_parents() };
    let answer = index(&clients[0], dry, vec![source("c", "c")]).await.unwrap();
    let told: Vec<&str> = answer.changes.iter().map(|change| change.source.as_str()).collect();
    assert_eq!(told, ["c", "a", "b"]);
    let answer = index(&clients[0], with_parents(), vec![source("c", "c")]).await.unwrap();
    assert_eq!(progress(&answer).deleted, 2);
    assert_eq!(texts(&clients[0]).await, ["c"]);
    assert_eq!(texts(&clients[1]).await, ["secret of umbrella", "the same"]);
    let parents = v1::DocumentStoresListRequest { document_store: "docs".to_owned(), ..Default::default() };
    let parents = clients[1].document_stores().list(parents).await.unwrap().into_inner().documents;
    assert_eq!(parents.len(), 2);

    let reader = server.client_with_key("looker").await;
    let status = index(&reader, begin(v1::IndexCleanup::None), vec![source("d", "d")]).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
}
