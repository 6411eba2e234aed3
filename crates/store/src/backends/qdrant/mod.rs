//! Everything in a Qdrant server or cluster, so that any number of gateways can share it and keep nothing themselves.
//!
//! Rows are never changed in place. A write adds rows under the number of a new commit and sets an end to those they replace,
//! and one swap of the collection's record (`record`, `entries`) makes all of it visible; a read looks up the record once, and
//! sees the rows of that commit (`rows`). One writer at a time has a turn at a collection (`turn`, `commit`), and takes along
//! what others in its process wait to write (`writers`); many changes are a commit of their own (`change_set`). What was replaced is taken away later (`collector`).
//!
//! Which records match, and in which order they come, is decided here and not by the server (`pushdown`, `search`, `keywords`,
//! `ordered`). The tenant is a part of every key and of every filter.
//!
//! What is where: `{prefix}catalog` has the catalogue and the records of collections, `{prefix}documents` the documents without
//! vectors, and `{prefix}{name}_{hash}` the rows of all collections of one name and with the same parameters, of all tenants.

mod catalog;
mod change_set;
mod client;
mod collector;
mod commit;
mod conditions;
mod config;
mod document_store;
mod draft;
mod entries;
mod error;
mod field_indexes;
mod keywords;
mod ordered;
mod patience;
mod physical;
mod point;
mod probe;
mod pushdown;
mod record;
mod rows;
mod search;
mod shared;
mod sort_key;
mod turn;
mod turn_rows;
mod vector_store;
mod writers;

use std::sync::Arc;

use toller_core::error::Error;

pub use catalog::QdrantCatalog;
pub use config::QdrantConfig;
pub use document_store::QdrantDocumentStore;
pub use error::QdrantError;
pub use vector_store::QdrantVectorStore;

use client::Client;
use patience::Patience;
use shared::Shared;

/// The three stores of one server. Cheap to clone; clones share their connection.
#[derive(Debug, Clone)]
pub struct QdrantStore {
    /// Records by vector.
    pub vectors: Arc<QdrantVectorStore>,
    /// Documents by id.
    pub documents: Arc<QdrantDocumentStore>,
    /// Collection specs and stored retrievers.
    pub catalog: Arc<QdrantCatalog>,
}

impl QdrantStore {
    /// Connects to a server, makes the collection for the catalogue where it is missing, and finds out whether the server knows
    /// the conditional writes that all others rest on.
    ///
    /// # Errors
    /// [`QdrantError`]: a wrong setting, a server that does not answer or refuses the key, or one that is too old.
    pub async fn connect(config: QdrantConfig) -> Result<Self, QdrantError> {
        check_prefix(&config.prefix)?;
        let client = Client::new(&config)?;
        let url = config.url.clone();
        let unusable = |fault: Error| QdrantError::Unusable { url: url.clone(), fault };
        let patience = Patience::Background;
        let version = client.version(patience).await.map_err(unusable)?;
        let catalog = physical::name_of_catalog(&config.prefix);
        physical::make_for_entries(&client, patience, &config, &catalog).await.map_err(unusable)?;
        let shared = Shared::new(config, client);
        if !probe::knows_conditions(&shared.entries, patience).await.map_err(unusable)? {
            return Err(QdrantError::TooOld { url, version });
        }
        tracing::info!(url, version, "connected to Qdrant");
        Ok(Self {
            vectors: Arc::new(QdrantVectorStore::new(shared.clone())),
            documents: Arc::new(QdrantDocumentStore::new(shared.clone())),
            catalog: Arc::new(QdrantCatalog::new(shared)),
        })
    }
}

/// Most bytes of a prefix: names of the server's collections have at most 255 bytes.
const MAX_PREFIX: usize = 64;

fn check_prefix(prefix: &str) -> Result<(), QdrantError> {
    let is_plain = prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if is_plain && !prefix.is_empty() && prefix.len() <= MAX_PREFIX {
        return Ok(());
    }
    let what = format!("the prefix must be 1 to {MAX_PREFIX} letters, digits, '-' or '_', got {prefix:?}");
    Err(QdrantError::Config { what })
}

#[cfg(test)]
mod conformance_tests {
    use std::io::Write;
    use std::sync::Arc;

    use toller_core::{Catalog, DocumentStore, VectorStore};
    use toller_test_qdrant::TestQdrant;
    use uuid::Uuid;

    use super::{QdrantConfig, QdrantStore};

    /// Names a real server, to be tested in place of the one that comes with the tests.
    const REAL_SERVER: &str = "TOLLER_TEST_QDRANT_URL";

    async fn server() -> TestQdrant {
        TestQdrant::start().await.unwrap()
    }

    async fn store(server: &TestQdrant) -> QdrantStore {
        let url = std::env::var(REAL_SERVER).unwrap_or_else(|_| server.url());
        // A real server keeps what earlier runs left.
        let prefix = format!("t{}_", Uuid::now_v7().simple());
        QdrantStore::connect(QdrantConfig { url, prefix, exact: true, ..QdrantConfig::default() }).await.unwrap()
    }

    async fn vectors(server: &TestQdrant) -> Arc<dyn VectorStore> {
        store(server).await.vectors
    }

    async fn documents(server: &TestQdrant) -> Arc<dyn DocumentStore> {
        store(server).await.documents
    }

    async fn catalog(server: &TestQdrant) -> Arc<dyn Catalog> {
        store(server).await.catalog
    }

    #[test]
    fn it_is_said_which_server_is_tested() {
        let said = match std::env::var(REAL_SERVER) {
            Ok(url) => format!("=== Qdrant: tested against the server at {url}"),
            Err(_) => format!("=== Qdrant: NOT tested against a real server; set {REAL_SERVER} to do that"),
        };
        // Not by a macro, whose output of a test that passes is not shown.
        writeln!(std::io::stderr(), "{said}").unwrap();
    }

    // A server lives until the end of the statement that a case is.
    crate::vector_store_conformance!(vectors(&server().await));
    crate::document_store_conformance!(documents(&server().await));
    crate::catalog_conformance!(catalog(&server().await));
}
