//! The models of a process, as the configuration says.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use toller_core::{Embeddings, Models, Reranker, Result};
use toller_embedder::{EmbedderConfig, Engine, Model, Overrides, Repository, RerankModel, RerankOverrides, Source};
use toller_providers::{
    CachedEmbeddings, ChatConfig, EmbeddingCache, OpenAiChat, OpenAiConfig, OpenAiEmbeddings, PoolConfig,
    ProviderError, Reachable, TeiConfig, TeiEmbeddings, TeiReranker, WorkerPool,
};
use toller_telemetry::traced::{TracedEmbeddings, TracedLanguageModel, TracedReranker};

use crate::config::{
    Config, Device, Dtype, EmbeddingConfig, EmbeddingProvider, LlmConfig, NamedModelConfig, RerankProvider,
};
use crate::error::GatewayError;
use crate::queue_report::QueuedTokens;
use crate::watchdog::{Pulse, Watched};

/// How long a gateway waits for workers that are still loading their models.
const REMOTE_START_TIMEOUT: Duration = Duration::from_secs(60);

/// All models, and what they stand on.
#[derive(Default)]
pub(crate) struct LoadedModels {
    pub(crate) models: Models,
    /// What health follows.
    pub(crate) watched: Vec<Watched>,
    engine: Option<Arc<Engine>>,
}

impl LoadedModels {
    /// How many tokens wait in this process.
    pub(crate) fn queued_tokens(&self) -> QueuedTokens {
        let engine = self.engine.clone();
        Arc::new(move || engine.as_ref().map_or(0, |engine| engine.queued_tokens()))
    }
}

#[async_trait]
impl Pulse for Engine {
    async fn check_alive(&self, patience: Duration) -> Result<()> {
        Self::check_alive(self, patience).await
    }
}

/// A service that computes elsewhere. Without it everything but texts goes on, and a restart would help nobody.
struct Remote<M>(Arc<M>);

#[async_trait]
impl<M: Reachable> Pulse for Remote<M> {
    async fn check_alive(&self, patience: Duration) -> Result<()> {
        let late = || toller_core::Error::Unavailable(format!("no answer within {} s", patience.as_secs_f64()));
        tokio::time::timeout(patience, self.0.reach()).await.unwrap_or_else(|_| Err(late()))
    }
}

fn openai_config(embedding: &EmbeddingConfig) -> OpenAiConfig {
    OpenAiConfig {
        api_key: embedding.api_key.clone(),
        dimensions: embedding.dimensions,
        query_instruction: embedding.query_instruction.clone().unwrap_or_default(),
        document_instruction: embedding.document_instruction.clone().unwrap_or_default(),
        start_timeout: REMOTE_START_TIMEOUT,
        ..OpenAiConfig::new(embedding.address.as_deref().unwrap_or_default(), &embedding.model)
    }
}

fn tei_config(embedding: &EmbeddingConfig) -> TeiConfig {
    TeiConfig {
        api_key: embedding.api_key.clone(),
        query_instruction: embedding.query_instruction.clone().unwrap_or_default(),
        document_instruction: embedding.document_instruction.clone().unwrap_or_default(),
        start_timeout: REMOTE_START_TIMEOUT,
        ..TeiConfig::new(embedding.address.as_deref().unwrap_or_default())
    }
}

/// Loads, connects, or does without.
///
/// # Errors
/// Why a model cannot be had, and the way out.
pub(crate) async fn load(config: &Config) -> Result<LoadedModels, GatewayError> {
    let mut loader = Loader::new(config)?;
    match config.embedding.provider {
        EmbeddingProvider::None => {}
        EmbeddingProvider::Candle => {
            let spec = ModelSpec::of_default(&config.embedding);
            loader.load_embeddings("embedding", None, spec).await?;
        }
        EmbeddingProvider::Toller => loader.connect_pool(config).await?,
        EmbeddingProvider::Openai => {
            let model = OpenAiEmbeddings::connect(openai_config(&config.embedding))
                .await
                .map_err(reached_by("embedding.address"))?;
            loader.add_remote(Arc::new(model))?;
        }
        EmbeddingProvider::Tei => {
            let model =
                TeiEmbeddings::connect(tei_config(&config.embedding)).await.map_err(reached_by("embedding.address"))?;
            loader.add_remote(Arc::new(model))?;
        }
    }
    for (index, entry) in config.embedding.models.iter().enumerate() {
        let spec = ModelSpec::of_entry(entry, config.embedding.device);
        loader.load_embeddings(&format!("embedding.models[{index}]"), Some(&entry.name), spec).await?;
    }
    let rerank = &config.rerank;
    let of = |model: &str, revision: &Option<String>, max_tokens: Option<u32>, dtype: Dtype| RerankSpec {
        model: model.to_owned(),
        revision: revision.clone(),
        overrides: RerankOverrides {
            max_tokens: max_tokens.map(|tokens| tokens as usize),
            device: config.embedding.device.into(),
            dtype: dtype.into(),
            ..RerankOverrides::default()
        },
    };
    if rerank.provider == RerankProvider::Tei {
        let reranker = TeiReranker::connect(TeiConfig {
            api_key: rerank.api_key.clone(),
            start_timeout: REMOTE_START_TIMEOUT,
            ..TeiConfig::new(rerank.address.as_deref().unwrap_or_default())
        });
        loader.add_remote_reranker(Arc::new(reranker.await.map_err(reached_by("rerank.address"))?))?;
    }
    if let Some(model) = &rerank.model {
        loader.load_reranker("rerank", None, of(model, &rerank.revision, rerank.max_tokens, rerank.dtype)).await?;
    }
    for (index, entry) in rerank.models.iter().enumerate() {
        let spec = of(&entry.model, &entry.revision, entry.max_tokens, entry.dtype);
        loader.load_reranker(&format!("rerank.models[{index}]"), Some(&entry.name), spec).await?;
    }
    loader.take_rerankers_of_pool()?;
    loader.add_language_model(&config.llm)?;
    Ok(loader.loaded)
}

/// Collects models.
struct Loader {
    loaded: LoadedModels,
    /// One for all models; none keeps nothing.
    cache: Option<Arc<EmbeddingCache>>,
    pool: Option<WorkerPool>,
}

impl Loader {
    /// With threads for models in this process, where there are any.
    fn new(config: &Config) -> Result<Self, GatewayError> {
        let embedding = &config.embedding;
        let mut loaded = LoadedModels::default();
        if embedding.has_local_model() || config.rerank.has_local_model() {
            let engine = engine_config(embedding).and_then(Engine::start);
            let engine = engine.map_err(|fault| name_setting("embedding", fault))?;
            loaded.watched.push(Watched { pulse: Arc::clone(&engine) as _, whole_server: true });
            loaded.engine = Some(engine);
        }
        let cache = (embedding.cache_bytes > 0).then(|| Arc::new(EmbeddingCache::new(embedding.cache_bytes)));
        Ok(Self { loaded, cache, pool: None })
    }

    fn engine(&self) -> Result<&Arc<Engine>, GatewayError> {
        let missing = || GatewayError::Internal("a model in this process has no threads".to_owned());
        self.loaded.engine.as_ref().ok_or_else(missing)
    }

    /// The model as everybody uses it. The cache is outside of spans and metrics, which count what is embedded.
    fn decorated(&self, model: Arc<dyn Embeddings>) -> Arc<dyn Embeddings> {
        let traced: Arc<dyn Embeddings> = Arc::new(TracedEmbeddings::new(model));
        match &self.cache {
            Some(cache) => Arc::new(CachedEmbeddings::new(traced, Arc::clone(cache))),
            None => traced,
        }
    }

    /// Loads a model under `name`, or as the default one under its own name, and has it embed a text, so that the first
    /// request finds weights in memory.
    async fn load_embeddings(&mut self, key: &str, name: Option<&str>, spec: ModelSpec) -> Result<(), GatewayError> {
        let model = blocking(key, move || spec.load()).await?;
        let local = self.engine()?.embeddings(model);
        local.warm_up().await.map_err(|fault| first_pass(key, &fault))?;
        let own_name = local.fingerprint().model.clone();
        let model = self.decorated(Arc::new(local));
        let embeddings = &mut self.loaded.models.embeddings;
        match name {
            None => embeddings.add_default(&own_name, model).map_err(named(format!("{key}.model"))),
            Some(name) => embeddings.add(name, model).map_err(named(format!("{key}.name"))),
        }
    }

    /// As [`Self::load_embeddings`], for a reranker.
    async fn load_reranker(&mut self, key: &str, name: Option<&str>, spec: RerankSpec) -> Result<(), GatewayError> {
        let model = blocking(key, move || spec.load()).await?;
        let local = self.engine()?.reranker(model);
        local.warm_up().await.map_err(|fault| first_pass(key, &fault))?;
        let own_name = local.model().to_owned();
        let model = Arc::new(TracedReranker::new(Arc::new(local)));
        let rerankers = &mut self.loaded.models.rerankers;
        match name {
            None => rerankers.add_default(&own_name, model).map_err(named(format!("{key}.model"))),
            Some(name) => rerankers.add(name, model).map_err(named(format!("{key}.name"))),
        }
    }

    /// Takes the model of a service as the default one.
    fn add_remote<M: Embeddings + Reachable + 'static>(&mut self, model: Arc<M>) -> Result<(), GatewayError> {
        let name = model.fingerprint().model.clone();
        let decorated = self.decorated(Arc::clone(&model) as _);
        self.loaded.models.embeddings.add_default(&name, decorated).map_err(named("embedding.model".to_owned()))?;
        self.loaded.watched.push(Watched { pulse: Arc::new(Remote(model)), whole_server: false });
        Ok(())
    }

    /// As [`Self::add_remote`], for a reranker.
    fn add_remote_reranker<M: Reranker + Reachable + 'static>(&mut self, model: Arc<M>) -> Result<(), GatewayError> {
        let name = model.model().to_owned();
        let traced = Arc::new(TracedReranker::new(Arc::clone(&model) as _));
        self.loaded.models.rerankers.add_default(&name, traced).map_err(named("rerank.address".to_owned()))?;
        self.loaded.watched.push(Watched { pulse: Arc::new(Remote(model)), whole_server: false });
        Ok(())
    }

    /// Connects to the workers and takes their embedding models.
    async fn connect_pool(&mut self, config: &Config) -> Result<(), GatewayError> {
        let address = config.embedding.address.as_deref().unwrap_or_default();
        let pool = PoolConfig::builder(address.parse()?)
            .api_key(config.embedding.api_key.clone())
            .start_timeout(REMOTE_START_TIMEOUT)
            .max_message_bytes(config.limits.max_message_bytes)
            .build()?;
        let pool = WorkerPool::start(pool).await?;
        for model in pool.embeddings() {
            let (name, is_default) = (model.name().to_owned(), model.is_default());
            let model = self.decorated(Arc::new(model));
            let embeddings = &mut self.loaded.models.embeddings;
            let added = if is_default { embeddings.add_default(&name, model) } else { embeddings.add(&name, model) };
            added.map_err(named("embedding.address".to_owned()))?;
        }
        self.loaded.watched.push(Watched { pulse: Arc::new(Remote(Arc::new(pool.clone()))), whole_server: false });
        self.pool = Some(pool);
        Ok(())
    }

    /// Takes the language model, where there is one. It is not asked yet, and health does not follow it: without it all else goes on.
    fn add_language_model(&mut self, llm: &LlmConfig) -> Result<(), GatewayError> {
        let (Some(address), Some(model)) = (&llm.address, &llm.model) else { return Ok(()) };
        let config = ChatConfig {
            api_key: llm.api_key.clone(),
            timeout: Duration::from_millis(llm.timeout_ms),
            structured_output: llm.structured_output,
            ..ChatConfig::new(address, model)
        };
        let chat = OpenAiChat::new(config).map_err(reached_by("llm.address"))?;
        let traced = Arc::new(TracedLanguageModel::new(Arc::new(chat)));
        self.loaded.models.language_models.add_default(model, traced).map_err(named("llm.model".to_owned()))
    }

    /// Takes the rerankers of the workers, after those of this process: one here is the default where there is one.
    fn take_rerankers_of_pool(&mut self) -> Result<(), GatewayError> {
        let rerankers = &mut self.loaded.models.rerankers;
        for model in self.pool.iter().flat_map(WorkerPool::rerankers) {
            let (name, is_default) = (model.model().to_owned(), model.is_default() && rerankers.get(None).is_none());
            let model = Arc::new(TracedReranker::new(Arc::new(model)));
            let added = if is_default { rerankers.add_default(&name, model) } else { rerankers.add(&name, model) };
            added.map_err(named("embedding.address".to_owned()))?;
        }
        Ok(())
    }
}

/// A URL that leads nowhere is the fault of the setting `key`.
fn reached_by(key: &'static str) -> impl FnOnce(ProviderError) -> GatewayError {
    move |fault| match fault {
        ProviderError::Url { .. } => {
            GatewayError::Setting { key: key.to_owned(), problem: format!("cannot be used: {fault}") }
        }
        other => other.into(),
    }
}

fn first_pass(key: &str, fault: &toller_core::Error) -> GatewayError {
    GatewayError::Internal(format!("the first forward pass of {key} failed: {fault}"))
}

/// Reading and packing weights is blocking work.
async fn blocking<T: Send + 'static>(
    key: &str,
    load: impl FnOnce() -> toller_embedder::Result<T> + Send + 'static,
) -> Result<T, GatewayError> {
    tokio::task::spawn_blocking(load)
        .await
        .map_err(|fault| GatewayError::Internal(format!("loading the model of {key}: {fault}")))?
        .map_err(|fault| name_setting(key, fault))
}

/// The error about the setting `key`.
fn named(key: String) -> impl FnOnce(String) -> GatewayError {
    move |problem| GatewayError::Setting { key, problem }
}

/// What a model in this process is loaded from, and what overrides its own files.
struct ModelSpec {
    model: String,
    revision: Option<String>,
    overrides: Overrides,
}

impl ModelSpec {
    fn of_default(embedding: &EmbeddingConfig) -> Self {
        Self {
            model: embedding.model.clone(),
            revision: embedding.revision.clone(),
            overrides: Overrides {
                name: None,
                device: embedding.device.into(),
                dtype: embedding.dtype.into(),
                pooling: embedding.pooling,
                normalize: embedding.normalize,
                max_tokens: embedding.max_tokens.map(|tokens| tokens as usize),
                query_instruction: embedding.query_instruction.clone(),
                document_instruction: embedding.document_instruction.clone(),
            },
        }
    }

    fn of_entry(entry: &NamedModelConfig, device: Device) -> Self {
        Self {
            model: entry.model.clone(),
            revision: entry.revision.clone(),
            overrides: Overrides {
                name: None,
                device: device.into(),
                dtype: entry.dtype.into(),
                pooling: entry.pooling,
                normalize: entry.normalize,
                max_tokens: entry.max_tokens.map(|tokens| tokens as usize),
                query_instruction: entry.query_instruction.clone(),
                document_instruction: entry.document_instruction.clone(),
            },
        }
    }

    fn load(&self) -> toller_embedder::Result<Model> {
        Model::load(&source(&self.model, self.revision.as_deref())?, &self.overrides)
    }
}

/// What a reranker in this process is loaded from, and what overrides its own files.
struct RerankSpec {
    model: String,
    revision: Option<String>,
    overrides: RerankOverrides,
}

impl RerankSpec {
    fn load(&self) -> toller_embedder::Result<RerankModel> {
        RerankModel::load(&source(&self.model, self.revision.as_deref())?, &self.overrides)
    }
}

fn source(model: &str, revision: Option<&str>) -> toller_embedder::Result<Source> {
    Ok(match (Source::parse(model)?, revision) {
        (Source::Hub(repository), Some(revision)) => Source::Hub(Repository::new(repository.name(), Some(revision))?),
        (source, _) => source,
    })
}

/// The embedder names its own fields; people know them as settings of the section or entry `key`.
fn name_setting(key: &str, fault: toller_embedder::Error) -> GatewayError {
    match fault {
        toller_embedder::Error::Invalid { field: field @ ("max_tokens" | "dtype"), problem } => {
            GatewayError::Setting { key: format!("{key}.{field}"), problem }
        }
        toller_embedder::Error::Invalid {
            field: field @ ("workers" | "threads_per_worker" | "queue_tokens" | "batch_tokens" | "device"),
            problem,
        } => {
            let field = if field == "threads_per_worker" { "threads" } else { field };
            GatewayError::Setting { key: format!("embedding.{field}"), problem }
        }
        other => GatewayError::Model(other),
    }
}

fn engine_config(embedding: &EmbeddingConfig) -> toller_embedder::Result<EmbedderConfig> {
    let mut builder = EmbedderConfig::builder()
        .workers(embedding.workers)
        .queue_tokens(embedding.queue_tokens)
        .batch_tokens(embedding.batch_tokens);
    if embedding.threads > 0 {
        builder = builder.processors(embedding.threads);
    }
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_settings_carry_their_key() {
        let fault = |field| toller_embedder::Error::Invalid { field, problem: "must be 1 to 512, got 9".to_owned() };
        let text = |key, field| name_setting(key, fault(field)).to_string();
        assert_eq!(text("embedding", "max_tokens"), "embedding.max_tokens must be 1 to 512, got 9");
        let entry = text("embedding.models[2]", "max_tokens");
        assert_eq!(entry, "embedding.models[2].max_tokens must be 1 to 512, got 9");
        let shared = text("embedding.models[2]", "threads_per_worker");
        assert_eq!(shared, "embedding.threads must be 1 to 512, got 9");
        assert_eq!(text("embedding", "HF_ENDPOINT"), "HF_ENDPOINT: must be 1 to 512, got 9");
    }
}
