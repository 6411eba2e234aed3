//! A server with two tenants: one whose every call is malformed, and one that must not notice.

use sha2::{Digest, Sha256};
use toller_api::v1;
use toller_tests::client::Client;
use toller_tests::request::*;
use toller_tests::server::{Server, Settings};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;

/// The key of the tenant whose calls are malformed.
pub const KEY_OF_THE_FUZZER: &str = "key-of-the-fuzzer";

const KEY_OF_THE_OTHER: &str = "key-of-the-other";

/// Collections of the fuzzing tenant that are always there, with their dimension; [`super::messages`] names them too.
pub const COLLECTIONS: [&str; 2] = ["docs", "points"];

/// A stored retriever of the fuzzing tenant that is always there.
pub const RETRIEVER: &str = "best";

/// The server, and what the other tenant has in it.
pub struct Known {
    pub server: Server,
    hits: Vec<v1::ScoredDocument>,
    documents: Vec<v1::Document>,
}

impl Known {
    /// Starts a server with documents of both tenants.
    pub async fn start() -> Self {
        let mut file = String::new();
        for (key, tenant) in [(KEY_OF_THE_FUZZER, "fuzzer"), (KEY_OF_THE_OTHER, "other")] {
            let digest: String = Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect();
            file.push_str(&format!(
                "[[auth.keys]]\nname = \"{key}\"\nsha256 = \"{digest}\"\nrole = \"admin\"\ntenant = \"{tenant}\"\n"
            ));
        }
        // Room for the calls that are never finished besides those that are checked.
        let settings = Settings::new().set("limits.max_concurrent_requests", "1024").file(&file);
        let server = settings.start().await;
        let client = server.client_with_key(KEY_OF_THE_OTHER).await;
        client.create("docs").await;
        client
            .add("docs", vec![document("a", "the smallest retriever"), document("b", "a duck"), document("c", "")])
            .await;
        let mut known = Self { server, hits: Vec::new(), documents: client.all("docs").await };
        known.hits = known.query(&client).await;
        assert_eq!(known.hits.len(), 3);
        known.reset().await;
        known
    }

    /// A client of the fuzzing tenant.
    pub async fn fuzzer(&self) -> Client {
        self.server.client_with_key(KEY_OF_THE_FUZZER).await
    }

    /// A client of the other tenant.
    pub async fn client(&self) -> Client {
        self.server.client_with_key(KEY_OF_THE_OTHER).await
    }

    async fn query(&self, client: &Client) -> Vec<v1::ScoredDocument> {
        client.search(text_query("who fetches the duck?"), search_in("docs")).await
    }

    /// Asserts that the server is healthy, and that the other tenant finds what it always did.
    pub async fn is_served(&self) {
        let client = self.client().await;
        let health =
            client.health().check(HealthCheckRequest::default()).await.expect("health is answered").into_inner();
        assert_eq!(health.status(), ServingStatus::Serving);
        let hits = self.query(&client).await;
        assert_eq!(hits.clone().ids(), self.hits.clone().ids());
        for (hit, before) in hits.iter().zip(&self.hits) {
            // The rounding depends on what else is in the batch.
            assert!((hit.score - before.score).abs() < 1e-4, "{hit:?} instead of {before:?}");
        }
        assert_eq!(client.all("docs").await, self.documents);
    }

    /// Brings the fuzzing tenant back to what it began with, so that neither time nor memory grow.
    pub async fn reset(&self) {
        let client = self.fuzzer().await;
        let retrievers = client.retrievers().list(v1::RetrieversListRequest {}).await.unwrap().into_inner().retrievers;
        for stored in retrievers {
            let name = stored.retriever.unwrap().name;
            // Others may be faster: it is gone either way.
            let _ = client.retrievers().delete(v1::RetrieversDeleteRequest { name }).await;
        }
        let collections =
            client.collections().list(v1::CollectionsListRequest {}).await.unwrap().into_inner().collections;
        for collection in collections {
            let _ = client.collections().delete(v1::CollectionsDeleteRequest { name: collection.name }).await;
        }
        let [docs, points] = COLLECTIONS;
        let create = v1::CollectionsCreateRequest { name: docs.to_owned(), ..Default::default() };
        let _ = client.collections().create(create).await;
        let create = v1::CollectionsCreateRequest {
            name: points.to_owned(),
            vectors: Some(v1::collections_create_request::Vectors::Client(v1::ClientVectors { dimension: 2 })),
            ..Default::default()
        };
        let _ = client.collections().create(create).await;
        let put = v1::RetrieversPutRequest {
            retriever: Some(vector_store(RETRIEVER, search_in(docs))),
            expected_version: None,
        };
        let _ = client.retrievers().put(put).await;
    }

    /// Ends the server in order. It must have had no fault of its own.
    pub async fn stop(self) {
        let exit = self.server.stop().await.expect(0);
        for bad in ["panicked", "call failed"] {
            assert!(!exit.stderr.contains(bad), "{bad}:\n{}", exit.stderr);
        }
    }
}
