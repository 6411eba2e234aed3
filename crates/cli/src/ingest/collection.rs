//! The collection that files go into: made when there is none, and asked which sources it holds.

use std::collections::BTreeSet;
use std::time::Duration;

use toller_api::v1;
use toller_indexing::version::source_of;
use tonic::{Code, Request, Status};

use crate::client::Connection;
use crate::ingest::progress::Progress;
use crate::ingest::retry::with_retries;

/// Ids that are asked for at a time.
const PAGE: u32 = 1000;

/// Longest wait for a call that should take a moment; runs take as long as they take.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Is there such a collection?
///
/// # Errors
/// What the call ends with.
pub(crate) async fn exists(connection: &Connection, name: &str, progress: &Progress) -> Result<bool, Status> {
    let client = connection.collections();
    let found = with_retries(progress, || {
        let mut client = client.clone();
        async move { client.get(short(v1::CollectionsGetRequest { name: name.to_owned() })).await }
    });
    match found.await {
        Ok(_) => Ok(true),
        Err(status) if status.code() == Code::NotFound => Ok(false),
        Err(status) => Err(status),
    }
}

/// Makes the collection when there is none.
///
/// # Errors
/// What a call ends with.
pub(crate) async fn open_or_create(connection: &Connection, name: &str, progress: &Progress) -> Result<(), Status> {
    if exists(connection, name, progress).await? {
        return Ok(());
    }
    let request =
        v1::CollectionsCreateRequest { name: name.to_owned(), metric: v1::Metric::Cosine.into(), ..Default::default() };
    match connection.collections().create(short(request)).await {
        Ok(_) => Ok(()),
        // Someone else was quicker.
        Err(status) if status.code() == Code::AlreadyExists => Ok(()),
        Err(status) => Err(status),
    }
}

/// The sources of all that is indexed in the collection. O(documents) ids are read, a page at a time; the names are kept.
///
/// # Errors
/// What a call ends with.
pub(crate) async fn indexed_sources(
    connection: &Connection,
    name: &str,
    progress: &Progress,
) -> Result<BTreeSet<String>, Status> {
    let client = connection.documents();
    let mut sources = BTreeSet::new();
    let mut page_token = String::new();
    loop {
        let request = v1::DocumentsListRequest {
            collection: name.to_owned(),
            page_size: Some(PAGE),
            page_token,
            ids_only: Some(true),
            ..Default::default()
        };
        let page = with_retries(progress, || {
            let (mut client, request) = (client.clone(), request.clone());
            async move { client.list(short(request)).await }
        });
        let page = page.await?.into_inner();
        for source in page.documents.iter().filter_map(|document| source_of(document.id())) {
            if !sources.contains(source) {
                sources.insert(source.to_owned());
            }
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(sources);
        }
    }
}

/// A call that should take a moment. A deadline of the command line goes before.
fn short<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(CALL_TIMEOUT);
    request
}
