//! The models of a process, as the configuration says.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use toller_core::{Embeddings, Models, Result};
use toller_embedder::{EmbedderConfig, LocalEmbeddings, Model, Overrides, Repository, Source};
use toller_providers::{PoolConfig, PooledEmbeddings, WorkerPool};
use toller_telemetry::traced::TracedEmbeddings;

use crate::config::{Config, EmbeddingConfig, EmbeddingProvider, NamedModelConfig};
use crate::error::GatewayError;
use crate::queue_report::QueuedTokens;
use crate::watchdog::Pulse;

/// How long a gateway waits for another Toller that is still loading its model.
const REMOTE_START_TIMEOUT: Duration = Duration::from_secs(60);

/// All models, and what those in this process stand on, for its health.
#[derive(Default)]
pub(crate) struct LoadedModels {
    pub(crate) models: Models,
    pub(crate) local: Option<Arc<LocalModels>>,
}

impl LoadedModels {
    /// How many tokens wait in this process.
    pub(crate) fn queued_tokens(&self) -> QueuedTokens {
        let local = self.local.clone();
        Arc::new(move || local.as_ref().map_or(0, |local| local.queued_tokens()))
    }
}

/// The models in this process.
pub(crate) struct LocalModels(Vec<Arc<LocalEmbeddings>>);

impl LocalModels {
    pub(crate) fn new(models: Vec<Arc<LocalEmbeddings>>) -> Self {
        Self(models)
    }

    fn queued_tokens(&self) -> usize {
        self.0.iter().map(|model| model.waiting_tokens()).sum()
    }
}

#[async_trait]
impl Pulse for LocalModels {
    async fn check_alive(&self, patience: Duration) -> Result<()> {
        for model in &self.0 {
            model.check_alive(patience).await?;
        }
        Ok(())
    }
}

/// Loads, connects, or does without.
///
/// # Errors
/// Why a model cannot be had, and the way out.
pub(crate) async fn load(config: &Config) -> Result<LoadedModels, GatewayError> {
    let embedding = &config.embedding;
    let mut loaded = LoadedModels::default();
    let mut local = Vec::new();
    match embedding.provider {
        EmbeddingProvider::None => {}
        EmbeddingProvider::Candle => {
            let model = load_local("embedding", ModelSpec::of_default(embedding), embedding).await?;
            let name = model.fingerprint().model.clone();
            loaded
                .models
                .embeddings
                .add_default(&name, traced(Arc::clone(&model) as _))
                .map_err(named("embedding.model"))?;
            local.push(model);
        }
        EmbeddingProvider::Toller => {
            let address = embedding.address.as_deref().unwrap_or_default();
            let pool = PoolConfig::builder(address.parse()?)
                .api_key(embedding.api_key.clone())
                .start_timeout(REMOTE_START_TIMEOUT)
                .max_message_bytes(config.limits.max_message_bytes)
                .build()?;
            let pool = WorkerPool::start(pool).await?;
            // Without one, requests that name no model are told so.
            if let Some(default) = pool.embeddings().into_iter().find(PooledEmbeddings::is_default) {
                let name = default.name().to_owned();
                loaded
                    .models
                    .embeddings
                    .add_default(&name, traced(Arc::new(default)))
                    .map_err(named("embedding.address"))?;
            }
        }
    }
    for (index, entry) in embedding.models.iter().enumerate() {
        let key = format!("embedding.models[{index}]");
        let model = load_local(&key, ModelSpec::of_entry(entry), embedding).await?;
        loaded
            .models
            .embeddings
            .add(&entry.name, traced(Arc::clone(&model) as _))
            .map_err(named(&format!("{key}.name")))?;
        local.push(model);
    }
    if !local.is_empty() {
        loaded.local = Some(Arc::new(LocalModels::new(local)));
    }
    Ok(loaded)
}

fn traced(model: Arc<dyn Embeddings>) -> Arc<dyn Embeddings> {
    Arc::new(TracedEmbeddings::new(model))
}

/// The error about the setting `key`.
fn named(key: &str) -> impl FnOnce(String) -> GatewayError {
    let key = key.to_owned();
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
                pooling: embedding.pooling,
                normalize: embedding.normalize,
                max_tokens: embedding.max_tokens.map(|tokens| tokens as usize),
                query_instruction: embedding.query_instruction.clone(),
                document_instruction: embedding.document_instruction.clone(),
            },
        }
    }

    fn of_entry(entry: &NamedModelConfig) -> Self {
        Self {
            model: entry.model.clone(),
            revision: entry.revision.clone(),
            overrides: Overrides {
                name: None,
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

fn source(model: &str, revision: Option<&str>) -> toller_embedder::Result<Source> {
    Ok(match (Source::parse(model)?, revision) {
        (Source::Hub(repository), Some(revision)) => Source::Hub(Repository::new(repository.name(), Some(revision))?),
        (source, _) => source,
    })
}

/// The embedder names its own fields; people know them as settings of the section or entry `key`.
fn name_setting(key: &str, fault: toller_embedder::Error) -> GatewayError {
    match fault {
        toller_embedder::Error::Invalid { field: "max_tokens", problem } => {
            GatewayError::Setting { key: format!("{key}.max_tokens"), problem }
        }
        toller_embedder::Error::Invalid {
            field: field @ ("workers" | "threads_per_worker" | "queue_tokens" | "batch_tokens"),
            problem,
        } => {
            let field = if field == "threads_per_worker" { "threads" } else { field };
            GatewayError::Setting { key: format!("embedding.{field}"), problem }
        }
        other => GatewayError::Model(other),
    }
}

/// Loads a model and has it embed a text, so that the first request finds threads started and weights in memory.
async fn load_local(
    key: &str,
    spec: ModelSpec,
    embedding: &EmbeddingConfig,
) -> Result<Arc<LocalEmbeddings>, GatewayError> {
    let config = engine_config(embedding).map_err(|fault| name_setting(key, fault))?;
    // Reading and packing weights is blocking work.
    let local = tokio::task::spawn_blocking(move || LocalEmbeddings::start(spec.load()?, config)).await;
    let local = local
        .map_err(|fault| GatewayError::Internal(format!("loading the model: {fault}")))?
        .map_err(|fault| name_setting(key, fault))?;
    local
        .warm_up()
        .await
        .map_err(|fault| GatewayError::Internal(format!("the first forward pass of {key} failed: {fault}")))?;
    Ok(Arc::new(local))
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
