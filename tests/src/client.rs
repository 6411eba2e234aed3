//! A client of every service, and short forms of the calls that most tests make.

use std::net::SocketAddr;

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use toller_api::v1;
use toller_api::v1::backups_client::BackupsClient;
use toller_api::v1::collections_client::CollectionsClient;
use toller_api::v1::document_stores_client::DocumentStoresClient;
use toller_api::v1::documents_client::DocumentsClient;
use toller_api::v1::embedder_client::EmbedderClient;
use toller_api::v1::operations_client::OperationsClient;
use toller_api::v1::retrieval_client::RetrievalClient;
use toller_api::v1::retrievers_client::RetrieversClient;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_health::pb::health_client::HealthClient;

use crate::PATIENCE;
use crate::request::{Ids, text_query};

/// Largest answer in bytes.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// What calls go through: a connection, an API key, and a deadline for calls that bring none.
pub type Service = InterceptedService<Channel, Caller>;

/// Puts the key and the deadline on every call.
#[derive(Debug, Clone)]
pub struct Caller {
    authorization: Option<MetadataValue<Ascii>>,
}

impl Interceptor for Caller {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if !request.metadata().contains_key("grpc-timeout") {
            request.set_timeout(PATIENCE);
        }
        if let Some(authorization) = &self.authorization {
            request.metadata_mut().insert("authorization", authorization.clone());
        }
        Ok(request)
    }
}

/// A connection to a server.
#[derive(Debug, Clone)]
pub struct Client {
    service: Service,
}

impl Client {
    /// Connects.
    pub async fn connect(url: &str, key: Option<&str>) -> Self {
        let endpoint = Endpoint::from_shared(url.to_owned()).expect("a URL").connect_timeout(PATIENCE);
        let channel = endpoint.connect().await.expect("the server takes connections");
        let authorization = key.map(|key| format!("Bearer {key}").parse().expect("a header"));
        Self { service: InterceptedService::new(channel, Caller { authorization }) }
    }

    /// `toller.v1.Backups`.
    pub fn backups(&self) -> BackupsClient<Service> {
        BackupsClient::new(self.service.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// `toller.v1.Collections`.
    pub fn collections(&self) -> CollectionsClient<Service> {
        CollectionsClient::new(self.service.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// `toller.v1.Documents`.
    pub fn documents(&self) -> DocumentsClient<Service> {
        DocumentsClient::new(self.service.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// `toller.v1.DocumentStores`.
    pub fn document_stores(&self) -> DocumentStoresClient<Service> {
        DocumentStoresClient::new(self.service.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// `toller.v1.Embedder`.
    pub fn embedder(&self) -> EmbedderClient<Service> {
        EmbedderClient::new(self.service.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// `toller.v1.Operations`.
    pub fn operations(&self) -> OperationsClient<Service> {
        OperationsClient::new(self.service.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// `toller.v1.Retrieval`.
    pub fn retrieval(&self) -> RetrievalClient<Service> {
        RetrievalClient::new(self.service.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// `toller.v1.Retrievers`.
    pub fn retrievers(&self) -> RetrieversClient<Service> {
        RetrieversClient::new(self.service.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// `grpc.health.v1.Health`.
    pub fn health(&self) -> HealthClient<Service> {
        HealthClient::new(self.service.clone())
    }

    /// The connection itself, for services that have no method here.
    pub fn service(&self) -> Service {
        self.service.clone()
    }

    /// Makes a collection that the server's model fills.
    pub async fn create(&self, name: &str) {
        let request = v1::CollectionsCreateRequest { name: name.to_owned(), ..Default::default() };
        self.collections().create(request).await.expect("the collection is made");
    }

    /// Makes a collection whose vectors the client brings.
    pub async fn create_for_vectors(&self, name: &str, dimension: u32, metric: v1::Metric) {
        let request = v1::CollectionsCreateRequest {
            name: name.to_owned(),
            metric: metric.into(),
            vectors: Some(v1::collections_create_request::Vectors::Client(v1::ClientVectors { dimension })),
            ..Default::default()
        };
        self.collections().create(request).await.expect("the collection is made");
    }

    /// Adds documents, and returns their ids.
    pub async fn add(&self, collection: &str, documents: Vec<v1::Document>) -> Vec<String> {
        let request = v1::DocumentsAddRequest { collection: collection.to_owned(), documents, ..Default::default() };
        self.documents().add(request).await.expect("the documents are added").into_inner().ids
    }

    /// The documents with these ids that exist, with their vectors.
    pub async fn get(&self, collection: &str, ids: &[&str]) -> Vec<v1::Document> {
        let request = v1::DocumentsGetRequest {
            collection: collection.to_owned(),
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            with_vectors: Some(true),
            ..Default::default()
        };
        self.documents().get(request).await.expect("documents can be read").into_inner().documents
    }

    /// The number of documents.
    pub async fn count(&self, collection: &str) -> u64 {
        self.count_matching(collection, None).await
    }

    /// The number of documents that match.
    pub async fn count_matching(&self, collection: &str, filter: Option<v1::Filter>) -> u64 {
        let request = v1::DocumentsCountRequest { collection: collection.to_owned(), filter };
        self.documents().count(request).await.expect("documents can be counted").into_inner().count
    }

    /// Every document with its vector, in the order of ids.
    pub async fn all(&self, collection: &str) -> Vec<v1::Document> {
        let request = v1::DocumentsListRequest {
            collection: collection.to_owned(),
            page_size: Some(1000),
            with_vectors: Some(true),
            ..Default::default()
        };
        let page = self.documents().list(request).await.expect("documents can be listed").into_inner();
        assert_eq!(page.next_page_token, "", "the collection fits into one page");
        page.documents
    }

    /// Searches.
    pub async fn search(&self, query: v1::Query, search: v1::VectorStoreRetriever) -> Vec<v1::ScoredDocument> {
        self.try_search(query, search).await.expect("the search succeeds")
    }

    /// Searches, and returns also the error.
    pub async fn try_search(
        &self,
        query: v1::Query,
        search: v1::VectorStoreRetriever,
    ) -> Result<Vec<v1::ScoredDocument>, Status> {
        let request = v1::SearchRequest { query: Some(query), search: Some(search), ..Default::default() };
        Ok(self.retrieval().search(request).await?.into_inner().hits)
    }

    /// The ids that a text finds, in order.
    pub async fn find(&self, text: &str, search: v1::VectorStoreRetriever) -> Vec<String> {
        self.search(text_query(text), search).await.ids()
    }

    /// The vector of a text as a query.
    pub async fn embed_query(&self, text: &str) -> v1::EmbedQueryResponse {
        let request = v1::EmbedQueryRequest { text: text.to_owned(), ..Default::default() };
        self.embedder().embed_query(request).await.expect("the query is embedded").into_inner()
    }

    /// The vectors of texts as documents.
    pub async fn embed_documents(&self, texts: &[&str]) -> v1::EmbedDocumentsResponse {
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        let request = v1::EmbedDocumentsRequest { texts, ..Default::default() };
        self.embedder().embed_documents(request).await.expect("the documents are embedded").into_inner()
    }
}

/// A connection that, unlike tonic's own, has no clock of its own: what comes back is what the server answered.
pub type PlainService<B> = hyper_util::client::legacy::Client<HttpConnector, B>;

/// An HTTP/2 client for bodies of any kind.
pub fn plain_http<B>() -> PlainService<B>
where
    B: hyper::body::Body + Send,
    B::Data: Send,
{
    let mut connector = HttpConnector::new();
    // Else each call waits 40 ms for the acknowledgement of its headers.
    connector.set_nodelay(true);
    hyper_util::client::legacy::Client::builder(TokioExecutor::new()).http2_only(true).build(connector)
}

/// A client of `toller.v1.Embedder` that leaves deadlines to the server.
pub fn embedder_without_clock(address: SocketAddr) -> EmbedderClient<PlainService<tonic::body::Body>> {
    let origin = format!("http://{address}").parse().expect("a URL");
    EmbedderClient::with_origin(plain_http(), origin)
}
