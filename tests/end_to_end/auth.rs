//! API keys: who is let in, what each role may do, and tenants that never see each other.

use sha2::{Digest, Sha256};
use tokio_stream::StreamExt;
use toller_api::v1;
use toller_api::v1::documents_delete_request::Selector;
use toller_tests::client::Client;
use toller_tests::request::*;
use toller_tests::server::{Server, Settings};
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;

use crate::expect;

const KEYS: [(&str, &str, &str); 6] = [
    ("key-of-a-reader", "acme", "reader"),
    ("key-of-a-writer", "acme", "writer"),
    ("key-of-an-admin", "acme", "admin"),
    ("another-admin", "umbrella", "admin"),
    ("another-reader", "umbrella", "reader"),
    ("key-without-tenant", "", "admin"),
];

async fn server() -> Server {
    let mut file = String::new();
    for (key, tenant, role) in KEYS {
        let digest: String = Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect();
        file.push_str(&format!("[[auth.keys]]\nname = \"{key}\"\nsha256 = \"{digest}\"\nrole = \"{role}\"\n"));
        if !tenant.is_empty() {
            file.push_str(&format!("tenant = \"{tenant}\"\n"));
        }
    }
    Settings::new().file(&file).start().await
}

/// The least role that may make a call.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
enum Least {
    Reader,
    Writer,
    Admin,
}

/// Every call that the server offers, with the error that it was answered with.
async fn every_call(client: &Client) -> Vec<(&'static str, Least, Result<(), Status>)> {
    let docs = || "docs".to_owned();
    let mut answers = Vec::new();
    macro_rules! call {
        ($least:ident, $service:ident . $method:ident, $request:expr) => {
            let answer = client.$service().$method($request).await;
            answers.push((concat!(stringify!($service), ".", stringify!($method)), Least::$least, answer.map(drop)));
        };
    }
    let retriever = || vector_store("best", search_in("docs"));
    let query = || Some(vector_query(&[1.0, 0.0]));
    let vectors = || Some(v1::collections_create_request::Vectors::Client(v1::ClientVectors { dimension: 2 }));
    call!(
        Admin,
        collections.create,
        v1::CollectionsCreateRequest { name: docs(), vectors: vectors(), ..Default::default() }
    );
    call!(Reader, collections.get, v1::CollectionsGetRequest { name: docs() });
    call!(Reader, collections.list, v1::CollectionsListRequest {});
    call!(Reader, collections.stats, v1::CollectionsStatsRequest { name: docs() });
    call!(Admin, collections.update, v1::CollectionsUpdateRequest { name: docs(), ..Default::default() });
    call!(
        Writer,
        documents.add,
        v1::DocumentsAddRequest { collection: docs(), documents: vec![point("a", &[1.0, 0.0])], ..Default::default() }
    );
    call!(
        Reader,
        documents.get,
        v1::DocumentsGetRequest { collection: docs(), ids: vec!["a".into()], ..Default::default() }
    );
    call!(Reader, documents.list, v1::DocumentsListRequest { collection: docs(), ..Default::default() });
    call!(Reader, documents.count, v1::DocumentsCountRequest { collection: docs(), filter: None });
    let parents = || "parents".to_owned();
    call!(
        Writer,
        document_stores.put,
        v1::DocumentStoresPutRequest { document_store: parents(), documents: vec![document("p", "all of it")] }
    );
    call!(
        Reader,
        document_stores.get,
        v1::DocumentStoresGetRequest { document_store: parents(), ids: vec!["p".into()] }
    );
    call!(
        Reader,
        document_stores.list,
        v1::DocumentStoresListRequest { document_store: parents(), ..Default::default() }
    );
    call!(
        Writer,
        document_stores.delete,
        v1::DocumentStoresDeleteRequest {
            document_store: parents(),
            selector: Some(v1::document_stores_delete_request::Selector::All(true)),
            children: None
        }
    );
    call!(Reader, embedder.embed_documents, v1::EmbedDocumentsRequest::default());
    call!(Reader, embedder.embed_query, v1::EmbedQueryRequest::default());
    call!(Reader, embedder.list_models, v1::ListModelsRequest {});
    call!(
        Reader,
        retrieval.search,
        v1::SearchRequest { query: query(), search: Some(search_in("docs")), ..Default::default() }
    );
    call!(
        Reader,
        retrieval.retrieve,
        v1::RetrieveRequest { query: query(), retriever: Some(retriever()), ..Default::default() }
    );
    call!(
        Reader,
        retrieval.batch_retrieve,
        v1::BatchRetrieveRequest { retriever: Some(retriever()), ..Default::default() }
    );
    call!(Admin, retrievers.put, v1::RetrieversPutRequest { retriever: Some(retriever()), expected_version: None });
    call!(Reader, retrievers.get, v1::RetrieversGetRequest { name: "best".to_owned() });
    call!(Reader, retrievers.list, v1::RetrieversListRequest {});
    call!(Reader, retrievers.validate, v1::RetrieversValidateRequest { retriever: Some(retriever()) });
    call!(Admin, retrievers.delete, v1::RetrieversDeleteRequest { name: "best".to_owned() });
    call!(
        Writer,
        documents.delete,
        v1::DocumentsDeleteRequest { collection: docs(), selector: Some(Selector::All(true)) }
    );
    // Of a collection with client vectors, and of no operation: refused, but not for the role.
    call!(Admin, collections.reembed, v1::CollectionsReembedRequest { name: docs(), model: None });
    call!(Reader, operations.list, v1::OperationsListRequest {});
    call!(Reader, operations.get, v1::OperationsGetRequest { id: "none".to_owned() });
    call!(Reader, operations.wait, v1::OperationsWaitRequest { id: "none".to_owned() });
    call!(Admin, operations.cancel, v1::OperationsCancelRequest { id: "none".to_owned() });
    call!(Admin, backups.save, v1::BackupsSaveRequest::default());
    // Nothing of what must come: refused, but not for the role.
    call!(Admin, backups.restore, tokio_stream::iter([]));
    call!(Admin, collections.delete, v1::CollectionsDeleteRequest { name: docs() });
    answers
}

#[tokio::test]
async fn without_a_valid_key_there_is_nothing_but_health_and_reflection() {
    let server = server().await;
    let wrong = [None, Some("nobody's key"), Some(""), Some("key-of-an-admin-"), Some("KEY-OF-AN-ADMIN")];
    for key in wrong {
        let client = Client::connect(&server.url(), key).await;
        for (call, _, answer) in every_call(&client).await {
            let status = answer.expect_err(call);
            assert_eq!(status.code(), Code::Unauthenticated, "{call} with {key:?}: {status:?}");
            assert!(!status.message().is_empty());
        }
        let health = client.health().check(HealthCheckRequest::default()).await.unwrap().into_inner();
        assert_eq!(health.status(), ServingStatus::Serving);
        let request = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::ListServices(String::new())),
        };
        let mut reflection = ServerReflectionClient::new(client.service());
        let mut answers = reflection.server_reflection_info(tokio_stream::once(request)).await.unwrap().into_inner();
        assert!(answers.next().await.unwrap().is_ok());
    }
    assert_eq!(list(&server.client_with_key("key-of-an-admin").await).await, [""; 0], "nothing was made");
}

#[tokio::test]
async fn each_role_may_do_what_it_says_and_what_lesser_ones_may() {
    let server = server().await;
    let roles =
        [("key-of-a-reader", Least::Reader), ("key-of-a-writer", Least::Writer), ("key-of-an-admin", Least::Admin)];
    for (key, role) in roles {
        let client = server.client_with_key(key).await;
        for (call, least, answer) in every_call(&client).await {
            if role >= least {
                // Readers and writers find no collection, since they could not make one.
                let code = answer.as_ref().map_or_else(Status::code, |()| Code::Ok);
                let allowed = match call {
                    "backups.restore" => vec![Code::InvalidArgument],
                    "collections.reembed" => vec![Code::FailedPrecondition],
                    "operations.get" | "operations.wait" | "operations.cancel" => vec![Code::NotFound],
                    _ if role == Least::Admin => vec![Code::Ok],
                    _ => vec![Code::Ok, Code::NotFound],
                };
                assert!(allowed.contains(&code), "{call} as {role:?}: {answer:?}");
            } else {
                let status = answer.expect_err(call);
                assert_eq!(status.code(), Code::PermissionDenied, "{call} as {role:?}: {status:?}");
            }
        }
    }
}

#[tokio::test]
async fn writers_write_and_readers_read_what_an_admin_has_made() {
    let server = server().await;
    let admin = server.client_with_key("key-of-an-admin").await;
    admin.create_for_vectors("docs", 2, v1::Metric::Cosine).await;
    let writer = server.client_with_key("key-of-a-writer").await;
    writer.add("docs", vec![point("a", &[1.0, 0.0])]).await;
    let reader = server.client_with_key("key-of-a-reader").await;
    assert_eq!(reader.search(vector_query(&[1.0, 0.0]), search_in("docs")).await.ids(), ["a"]);
}

async fn list(client: &Client) -> Vec<String> {
    let answer = client.collections().list(v1::CollectionsListRequest {}).await.unwrap().into_inner();
    answer.collections.into_iter().map(|collection| collection.name).collect()
}

#[tokio::test]
async fn tenants_with_the_same_names_never_see_each_other() {
    let server = server().await;
    let acme = server.client_with_key("key-of-an-admin").await;
    let umbrella = server.client_with_key("another-admin").await;
    let default = server.client_with_key("key-without-tenant").await;
    let put = |k| v1::RetrieversPutRequest {
        retriever: Some(vector_store("best", v1::VectorStoreRetriever { k: Some(k), ..search_in("docs") })),
        expected_version: None,
    };
    let retrieve = async |client: &Client| {
        let request = v1::RetrieveRequest {
            query: Some(vector_query(&[1.0, 0.0])),
            retriever: Some(reference("", "best")),
            ..Default::default()
        };
        client.retrieval().retrieve(request).await
    };

    acme.create_for_vectors("docs", 2, v1::Metric::Cosine).await;
    acme.create_for_vectors("only-acme", 2, v1::Metric::Cosine).await;
    acme.retrievers().put(put(5)).await.unwrap();
    acme.add("docs", vec![point("shared", &[1.0, 0.0]).with("of", string("acme")), point("acme", &[0.9, 0.1])]).await;
    acme.add("only-acme", vec![point("secret", &[1.0, 0.0])]).await;
    let secret = v1::DocumentStoresPutRequest {
        document_store: "parents".to_owned(),
        documents: vec![document("p", "a secret")],
    };
    acme.document_stores().put(secret).await.unwrap();

    // Before it has made anything of its own, the other tenant finds nothing at all.
    assert_eq!(list(&umbrella).await, [""; 0]);
    for (call, least, answer) in every_call(&server.client_with_key("another-reader").await).await {
        if least == Least::Reader
            && !call.starts_with("embedder")
            && !call.starts_with("document_stores")
            && !call.ends_with("list")
            && !call.ends_with("validate")
        {
            assert_eq!(answer.expect_err(call).code(), Code::NotFound, "{call}");
        }
    }
    // A store that is not there is an empty one.
    let get = || v1::DocumentStoresGetRequest { document_store: "parents".to_owned(), ids: vec!["p".to_owned()] };
    let all_parents = v1::DocumentStoresDeleteRequest {
        document_store: "parents".to_owned(),
        selector: Some(v1::document_stores_delete_request::Selector::All(true)),
        children: None,
    };
    let found = umbrella.document_stores().get(get()).await.unwrap().into_inner();
    assert_eq!((found.documents.len(), found.missing_ids), (0, vec!["p".to_owned()]));
    let list_parents = v1::DocumentStoresListRequest { document_store: "parents".to_owned(), ..Default::default() };
    let listed = umbrella.document_stores().list(list_parents).await.unwrap().into_inner();
    assert_eq!(listed, v1::DocumentStoresListResponse::default());
    assert_eq!(umbrella.document_stores().delete(all_parents).await.unwrap().into_inner().deleted, 0);
    assert_eq!(acme.document_stores().get(get()).await.unwrap().into_inner().documents.ids(), ["p"]);
    umbrella.create_for_vectors("docs", 2, v1::Metric::Cosine).await;
    assert_eq!(umbrella.count("docs").await, 0);
    assert_eq!(retrieve(&umbrella).await.unwrap_err().code(), Code::NotFound);
    umbrella.retrievers().put(put(1)).await.unwrap();
    umbrella
        .add("docs", vec![point("shared", &[0.0, 1.0]).with("of", string("umbrella")), point("umbrella", &[0.1, 0.9])])
        .await;
    default.create_for_vectors("docs", 3, v1::Metric::Dot).await;

    let search = || v1::VectorStoreRetriever { k: Some(100), ..search_in("docs") };
    for (client, own, best) in [(&acme, "acme", ["shared", "acme"]), (&umbrella, "umbrella", ["umbrella", "shared"])] {
        assert_eq!(client.search(vector_query(&[1.0, 0.0]), search()).await.ids(), best);
        assert_eq!(client.search(vector_query(&[1.0, 0.0]), mmr_in("docs", 100, 100, 0.5)).await.len(), 2);
        assert_eq!(client.all("docs").await.ids(), [own.min("shared"), own.max("shared")]);
        assert_eq!(client.count("docs").await, 2);
        let stats = v1::CollectionsStatsRequest { name: "docs".to_owned() };
        assert_eq!(client.collections().stats(stats).await.unwrap().into_inner().document_count, 2);
        let found = client.get("docs", &["shared", "acme", "umbrella"]).await;
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].metadata["of"], string(own));
        // No filter reaches further, whatever it says.
        let everything = negate(combine(v1::filter::Kind::AnyOf, []));
        assert_eq!(client.count_matching("docs", Some(everything)).await, 2);
    }
    assert_eq!(retrieve(&acme).await.unwrap().into_inner().hits.ids(), ["shared", "acme"]);
    assert_eq!(retrieve(&umbrella).await.unwrap().into_inner().hits.ids(), ["umbrella"]);
    let foreign = v1::DocumentsGetRequest {
        collection: "only-acme".to_owned(),
        ids: vec!["secret".into()],
        ..Default::default()
    };
    expect::not_found("another's collection", umbrella.documents().get(foreign).await, "collection", "only-acme");

    // What one deletes, the other keeps; also after a restart.
    let delete = |selector| v1::DocumentsDeleteRequest { collection: "docs".to_owned(), selector: Some(selector) };
    let ids = Selector::Ids(v1::DocumentIds { ids: vec!["acme".to_owned()] });
    assert_eq!(umbrella.documents().delete(delete(ids)).await.unwrap().into_inner().deleted, 0);
    assert_eq!(umbrella.documents().delete(delete(Selector::All(true))).await.unwrap().into_inner().deleted, 2);
    umbrella.collections().delete(v1::CollectionsDeleteRequest { name: "docs".to_owned() }).await.unwrap();
    umbrella.retrievers().delete(v1::RetrieversDeleteRequest { name: "best".to_owned() }).await.unwrap();
    let server = server.restart().await;
    let acme = server.client_with_key("key-of-an-admin").await;
    assert_eq!(acme.all("docs").await.ids(), ["acme", "shared"]);
    assert_eq!(retrieve(&acme).await.unwrap().into_inner().hits.ids(), ["shared", "acme"]);
    assert_eq!(list(&server.client_with_key("another-admin").await).await, [""; 0]);
    assert_eq!(list(&server.client_with_key("key-without-tenant").await).await, ["docs"]);
}

#[tokio::test]
async fn keys_never_show_in_logs_or_errors() {
    let server = server().await;
    let client = Client::connect(&server.url(), Some("a-key-that-nobody-has")).await;
    let status = client.collections().list(v1::CollectionsListRequest {}).await.unwrap_err();
    assert!(!format!("{status:?}").contains("a-key-that-nobody-has"));
    list(&server.client_with_key("key-of-an-admin").await).await;
    let log = server.stop().await.expect(0).stderr;
    assert!(!log.contains("a-key-that-nobody-has"), "{log}");
}

#[tokio::test]
async fn a_collection_that_requires_a_tenant_is_for_tenants_only() {
    let server = server().await;
    let request = || v1::CollectionsCreateRequest {
        name: "docs".to_owned(),
        vectors: Some(v1::collections_create_request::Vectors::Client(v1::ClientVectors { dimension: 2 })),
        require_tenant: true,
        ..Default::default()
    };
    let without = Client::connect(&server.url(), Some("key-without-tenant")).await;
    let answer = without.collections().create(request()).await;
    expect::refused_with("no tenant", answer, Code::FailedPrecondition, "TENANT_REQUIRED");
    without.create_for_vectors("docs", 2, v1::Metric::Dot).await;

    let with = Client::connect(&server.url(), Some("key-of-an-admin")).await;
    let made = with.collections().create(request()).await.unwrap().into_inner().collection.unwrap();
    assert!(made.require_tenant);
    with.add("docs", vec![point("a", &[1.0, 0.0])]).await;
    assert_eq!(with.all("docs").await.ids(), ["a"]);
    assert_eq!(without.count("docs").await, 0, "another collection, of no tenant");
}

#[tokio::test]
async fn where_tenants_are_required_a_key_without_one_keeps_the_server_from_starting() {
    let key = |tenant: &str| {
        let digest: String = Sha256::digest("secret").iter().map(|byte| format!("{byte:02x}")).collect();
        format!(
            "[auth]\nrequire_tenant = true\n[[auth.keys]]\nname = \"web\"\nsha256 = \"{digest}\"\nrole = \"admin\"\n{tenant}"
        )
    };
    let message = Settings::new().without_model().file(&key("")).run().await.expect(2).stderr;
    for part in ["auth.require_tenant", "\"web\"", "tenant"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let settings = Settings::new().without_model().file(&key("tenant = \"acme\"\n"));
    settings.start().await.stop().await.expect(0);
}
