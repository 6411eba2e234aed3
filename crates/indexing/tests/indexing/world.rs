//! A place to index into: a store in memory, and a model that counts what it embeds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use toller_core::embeddings::Embedding;
use toller_core::error::{Error, Result};
use toller_core::language_model::{ChatMessage, Completion, CompletionOptions, TokenUsage};
use toller_core::{
    CollectionName, DocumentId, DocumentStore, EmbeddingRole, Embeddings, Fingerprint, LanguageModel, Metric, Models,
    Principal, RequestContext, Value, VectorStore,
};
use toller_indexing::{Board, Cleanup, Content, Cut, Cutting, IndexRun, IndexSettings, News, SourceDocument};
use toller_ingest::{LoadOptions, RecursiveSpec, SplitterSpec};
use toller_store::{Collections, MemoryStore, NewCollection, RunConflict, VectorSource};

/// Embeds a text as counts of its bytes, and counts the texts.
pub(crate) struct Model {
    fingerprint: Fingerprint,
    pub(crate) embedded: AtomicUsize,
    /// Texts after which it fails.
    pub(crate) fails_after: AtomicUsize,
}

/// What a text begins with that no model takes.
pub(crate) const REFUSED: &str = "refused";

const DIMENSION: u32 = 8;

impl Model {
    pub(crate) fn new(name: &str) -> Arc<Self> {
        let fingerprint =
            Fingerprint { provider: "test".to_owned(), model: name.to_owned(), ..Fingerprint::client(DIMENSION) };
        let (embedded, fails_after) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
        Arc::new(Self { fingerprint, embedded, fails_after })
    }
}

#[async_trait]
impl Embeddings for Model {
    fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    async fn embed(&self, _: &RequestContext, _: EmbeddingRole, texts: Vec<String>) -> Result<Vec<Embedding>> {
        if self.embedded.load(Ordering::SeqCst) + texts.len() > self.fails_after.load(Ordering::SeqCst) {
            return Err(Error::Internal("the model failed".to_owned()));
        }
        if let Some(index) = texts.iter().position(|text| text.starts_with(REFUSED)) {
            return Err(Error::invalid(format!("texts[{index}]"), "is not for this model"));
        }
        self.embedded.fetch_add(texts.len(), Ordering::SeqCst);
        let vector = |text: &String| {
            let mut vector = vec![0.1; DIMENSION as usize];
            text.bytes().for_each(|byte| vector[byte as usize % DIMENSION as usize] += 1.0);
            Embedding { vector, token_count: Some(text.split_whitespace().count() as u32), truncated: false }
        };
        Ok(texts.iter().map(vector).collect())
    }
}

/// A language model that answers with the last line it is shown, and counts how often it is asked.
#[derive(Default)]
pub(crate) struct Author {
    pub(crate) asked: AtomicUsize,
    /// Does it know one question only?
    pub(crate) is_short: AtomicBool,
}

#[async_trait]
impl LanguageModel for Author {
    fn provider(&self) -> &str {
        "test"
    }

    fn model(&self) -> &str {
        "author"
    }

    async fn complete(
        &self,
        _: &RequestContext,
        messages: &[ChatMessage],
        options: &CompletionOptions,
    ) -> Result<Completion> {
        let shown = &messages.last().unwrap().content;
        let line = shown.lines().rev().find(|line| !line.starts_with("</")).unwrap_or_default();
        self.asked.fetch_add(1, Ordering::SeqCst);
        if line.starts_with(REFUSED) {
            return Err(Error::invalid("", "400 this is not answered"));
        }
        let text = match options.schema {
            None if line == "silence" => String::new(),
            None => format!("about {line}"),
            Some(_) if self.is_short.load(Ordering::SeqCst) => format!("{{\"questions\": [\"what is {line}?\"]}}"),
            Some(_) => format!("{{\"questions\": [\"what is {line}?\", \"why {line}?\", \"one too many?\"]}}"),
        };
        Ok(Completion { text, is_cut: false, usage: TokenUsage::default() })
    }
}

pub(crate) struct World {
    pub(crate) collections: Collections,
    pub(crate) documents: Arc<dyn DocumentStore>,
    pub(crate) model: Arc<Model>,
    pub(crate) author: Arc<Author>,
    pub(crate) context: RequestContext,
    pub(crate) name: CollectionName,
}

impl World {
    pub(crate) async fn new() -> Self {
        let store = MemoryStore::new();
        Self::over(store.vectors, store.documents, store.catalog).await
    }

    pub(crate) async fn over(
        vectors: Arc<dyn VectorStore>,
        documents: Arc<dyn DocumentStore>,
        catalog: Arc<dyn toller_core::Catalog>,
    ) -> Self {
        let model = Model::new("counting");
        let mut models = Models::default();
        models.embeddings.add_default("counting", model.clone()).unwrap();
        let author = Arc::new(Author::default());
        models.language_models.add_default("author", author.clone()).unwrap();
        let collections = Collections::new(vectors, catalog, models);
        let context = RequestContext::new(Principal::anonymous());
        let name = CollectionName::new("docs").unwrap();
        let world = Self { collections, documents, model, author, context, name };
        world.create().await;
        world
    }

    /// Makes the collection where it is missing.
    pub(crate) async fn create(&self) {
        let new = NewCollection {
            name: self.name.clone(),
            description: String::new(),
            labels: BTreeMap::new(),
            metric: Metric::Cosine,
            vectors: VectorSource::Model,
        };
        match self.collections.create(&self.context, new).await {
            Ok(_) | Err(Error::AlreadyExists { .. }) => {}
            Err(fault) => panic!("{fault}"),
        }
    }

    pub(crate) async fn begin(&self, settings: IndexSettings, board: &Board) -> Result<IndexRun> {
        let documents = Arc::clone(&self.documents);
        IndexRun::begin(&self.collections, documents, &self.context, &self.name, settings, board.clone()).await
    }

    /// A run of these documents, to its commit.
    pub(crate) async fn index(&self, settings: IndexSettings, documents: Vec<SourceDocument>) -> Result<News> {
        let board = Board::default();
        let mut run = self.begin(settings, &board).await?;
        for document in documents {
            run.add(document).await?;
        }
        run.commit().await?;
        Ok(board.take_some(usize::MAX))
    }

    /// Every record: id, text, and what its metadata has under these names.
    pub(crate) async fn records(&self) -> BTreeMap<DocumentId, (String, toller_core::Metadata)> {
        let collection = self.collections.open(&self.context, &self.name).await.unwrap();
        let page = collection.scroll(&self.context, None, None, usize::MAX).await.unwrap();
        let documents = page.records.into_iter().map(|record| record.document);
        documents
            .map(|document| (document.id.clone(), (document.page_content.clone(), document.metadata.clone())))
            .collect()
    }

    /// Every text with its source.
    pub(crate) async fn texts(&self) -> Vec<(String, String)> {
        let records = self.records().await;
        let mut texts: Vec<(String, String)> =
            records.into_values().map(|(text, metadata)| (text, string(&metadata["source"]))).collect();
        texts.sort();
        texts
    }

    /// The ids of the parents.
    pub(crate) async fn parents(&self) -> BTreeSet<String> {
        let page = self.documents.scroll(&self.context, &self.name, None, usize::MAX).await.unwrap();
        page.into_iter().map(|parent| parent.id.to_string()).collect()
    }

    pub(crate) fn embedded(&self) -> usize {
        self.model.embedded.load(Ordering::SeqCst)
    }
}

pub(crate) fn string(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Whole documents as chunks, and nothing removed.
pub(crate) fn settings(cleanup: Cleanup) -> IndexSettings {
    IndexSettings {
        cleanup,
        dry_run: false,
        allow_empty_full: false,
        force: false,
        conflict: RunConflict::Wait,
        cutting: Cutting { cut: Cut::By(SplitterSpec::Whole {}), split_overlong: false },
        parents: None,
        load: LoadOptions::default(),
        generated: Vec::new(),
        document_key: None,
        parent_grace: Duration::from_millis(200),
        max_document_bytes: 1 << 20,
        max_text_bytes: 1 << 20,
        max_metadata_bytes: 1 << 16,
    }
}

pub(crate) fn document(source: &str, text: &str) -> SourceDocument {
    SourceDocument {
        source: source.to_owned(),
        content: Content::Text(text.to_owned()),
        media_type: "text/plain".to_owned(),
        metadata: toller_core::Metadata::new(),
        title: None,
        continued: false,
        related: Vec::new(),
    }
}

/// The joints of a text, without overlap.
pub(crate) fn recursive(chunk_size: usize) -> SplitterSpec {
    SplitterSpec::Recursive(RecursiveSpec { chunk_size, chunk_overlap: Some(0), ..RecursiveSpec::default() })
}
