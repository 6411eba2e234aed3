//! Four documents, a model of four words, and a language model behind a service.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use toller_core::embeddings::Embedding;
use toller_core::retriever::{
    AskSpec, CompressionSpec, CompressorKind, CompressorSpec, OnError, RetrieverKind, RetrieverSpec,
    VectorStoreRetrieverSpec,
};
use toller_core::{
    Catalog, ChatMessage, CollectionName, EmbeddingRole, Embeddings, Error, Fingerprint, Metadata, Metric, Models,
    Principal, Query, RequestContext, Result, ScoredDocument, Value, VectorStore,
};
use toller_retrieval::{Answer, PlanLimits, Planner, RunOptions, StoredRetrievers};
use toller_store::{Collections, MemoryStore, NewCollection, NewDocument, VectorSource};

use crate::service::Service;

/// Longest wait for an answer of the service, which comes at once where it is to come.
const PATIENT: Duration = Duration::from_secs(30);

/// What the embedding model knows of the world.
const WORDS: [&str; 4] = ["toller", "cat", "fish", "bird"];

/// Id, text, kind and year of each document.
const DOCUMENTS: [(&str, &str, &str, i64); 4] = [
    ("a", "A toller is a dog. It fetches ducks. It is red.", "dog", 2020),
    ("b", "A cat sleeps. It purrs at night.", "cat", 2021),
    ("c", "A fish swims in the sea.", "fish", 2022),
    ("d", "A bird sings. It flies south.", "bird", 2023),
];

/// Embeds a text as its counts of the known words, at unit length.
pub(crate) struct WordModel {
    fingerprint: Fingerprint,
    embedded: Mutex<Vec<(EmbeddingRole, String)>>,
}

#[async_trait]
impl Embeddings for WordModel {
    fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    async fn embed(&self, _: &RequestContext, role: EmbeddingRole, texts: Vec<String>) -> Result<Vec<Embedding>> {
        let embed = |text: &String| {
            let lower = text.to_lowercase();
            // A little of everything, so that no vector is zero.
            let counts = WORDS.map(|word| lower.matches(word).count() as f32 + 0.01);
            let length = counts.iter().map(|count| count * count).sum::<f32>().sqrt();
            let vector = counts.iter().map(|count| count / length).collect();
            Embedding { vector, token_count: None, truncated: false }
        };
        let embeddings = texts.iter().map(embed).collect();
        self.embedded.lock().unwrap().extend(texts.into_iter().map(|text| (role, text)));
        Ok(embeddings)
    }
}

pub(crate) struct World {
    pub(crate) service: Arc<Service>,
    pub(crate) context: RequestContext,
    pub(crate) planner: Planner,
    model: Arc<WordModel>,
}

impl World {
    /// A world whose service knows schemas.
    pub(crate) async fn new() -> Self {
        Self::with(true, true, PATIENT).await
    }

    /// A world that waits this long for an answer of the service.
    pub(crate) async fn waiting_for(answer_time: Duration) -> Self {
        Self::with(true, true, answer_time).await
    }

    pub(crate) async fn without_schemas() -> Self {
        Self::with(true, false, PATIENT).await
    }

    pub(crate) async fn without_language_model() -> Self {
        Self::with(false, false, PATIENT).await
    }

    async fn with(language_model: bool, structured_output: bool, answer_time: Duration) -> Self {
        let deadline = Instant::now() + Duration::from_secs(60);
        let context = RequestContext::new(Principal::anonymous()).with_deadline(Some(deadline));
        let fingerprint = Fingerprint {
            provider: "test".to_owned(),
            model: "words".to_owned(),
            normalized: true,
            ..Fingerprint::client(4)
        };
        let model = Arc::new(WordModel { fingerprint, embedded: Mutex::default() });
        let mut models = Models::from(Arc::clone(&model) as Arc<dyn Embeddings>);
        let (service, chat) = Service::start(structured_output, answer_time).await;
        if language_model {
            models.language_models.add_default("talker", chat).unwrap();
            let thinker = service.client("thinker", structured_output, answer_time);
            models.language_models.add("thinker", thinker).unwrap();
        }
        let memory = MemoryStore::new();
        let catalog = Arc::clone(&memory.catalog) as Arc<dyn Catalog>;
        let store = Arc::clone(&memory.vectors) as Arc<dyn VectorStore>;
        let collections = Arc::new(Collections::new(store, Arc::clone(&catalog), models));
        let name = CollectionName::new("docs").unwrap();
        let new = NewCollection {
            name: name.clone(),
            description: String::new(),
            labels: Default::default(),
            metric: Metric::Cosine,
            vectors: VectorSource::Model,
        };
        collections.create(&context, new).await.unwrap();
        let handle = collections.open(&context, &name).await.unwrap();
        let documents = DOCUMENTS.map(|(id, text, kind, year)| NewDocument {
            id: Some(id.to_owned()),
            page_content: text.to_owned(),
            metadata: Metadata::from([
                ("kind".to_owned(), Value::from(kind)),
                ("year".to_owned(), Value::Int(year)),
                ("tags".to_owned(), Value::List(vec![Value::from(kind), Value::from("animal")])),
            ]),
            vector: None,
            ..NewDocument::default()
        });
        handle.add(&context, documents.into(), None).await.unwrap();
        model.embedded.lock().unwrap().clear();
        let planner = Planner::new(collections, StoredRetrievers::new(catalog), PlanLimits::default());
        Self { service, context, planner, model }
    }

    /// What was embedded since the last time.
    pub(crate) fn take_embedded(&self) -> Vec<(EmbeddingRole, String)> {
        std::mem::take(&mut *self.model.embedded.lock().unwrap())
    }

    pub(crate) async fn try_run(&self, kind: RetrieverKind, text: &str, history: &[ChatMessage]) -> Result<Answer> {
        let plan = self.planner.plan(&self.context, &RetrieverSpec::new(kind)).await?;
        let options = RunOptions { history: history.to_vec(), ..RunOptions::default() };
        plan.run(&self.context, &Query::Text(text.to_owned()), options).await
    }

    pub(crate) async fn run(&self, kind: RetrieverKind, text: &str) -> Answer {
        self.try_run(kind, text, &[]).await.unwrap()
    }

    /// Why `kind` cannot be planned.
    pub(crate) async fn fault(&self, kind: RetrieverKind) -> Error {
        match self.planner.plan(&self.context, &RetrieverSpec::new(kind)).await {
            Ok(_) => panic!("the plan must be refused"),
            Err(error) => error,
        }
    }
}

pub(crate) fn search(k: u32) -> VectorStoreRetrieverSpec {
    VectorStoreRetrieverSpec { k: Some(k), ..VectorStoreRetrieverSpec::new(CollectionName::new("docs").unwrap()) }
}

/// A search of the collection with `k` hits at most.
pub(crate) fn leaf(k: u32) -> Box<RetrieverSpec> {
    Box::new(RetrieverSpec::new(RetrieverKind::VectorStore(search(k))))
}

/// All four documents through one compressor.
pub(crate) fn compressed(kind: CompressorKind, on_error: OnError) -> RetrieverKind {
    RetrieverKind::ContextualCompression(CompressionSpec {
        retriever: leaf(4),
        compressors: vec![CompressorSpec { on_error, kind }],
    })
}

pub(crate) fn prompt(text: &str) -> AskSpec {
    AskSpec { model: None, prompt: Some(text.to_owned()) }
}

pub(crate) fn ids(hits: &[ScoredDocument]) -> Vec<&str> {
    hits.iter().map(|hit| hit.document.id.as_str()).collect()
}

pub(crate) fn warnings(answer: &Answer) -> Vec<String> {
    answer.warnings.iter().map(|warning| format!("{}: {}", warning.path, warning.message)).collect()
}
