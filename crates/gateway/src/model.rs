//! The default embedding model, as the configuration says.

use std::sync::Arc;
use std::time::Duration;

use toller_core::Embeddings;
use toller_embedder::{EmbedderConfig, LocalEmbeddings, Model, Overrides, Repository, Source};
use toller_providers::{TollerEmbeddings, TollerEmbeddingsConfig};
use toller_telemetry::traced::TracedEmbeddings;

use crate::config::{Config, EmbeddingConfig, EmbeddingProvider};
use crate::error::GatewayError;

/// How long a gateway waits for another Toller that is still loading its model.
const REMOTE_START_TIMEOUT: Duration = Duration::from_secs(60);

/// The embeddings that everybody uses, and what they stand on where that is a model in this process, for its health.
pub(crate) struct LoadedModel {
    pub(crate) embeddings: Arc<dyn Embeddings>,
    pub(crate) local: Option<Arc<LocalEmbeddings>>,
}

/// Loads, connects, or does without.
///
/// # Errors
/// Why the model cannot be had, and the way out.
pub(crate) async fn load(config: &Config) -> Result<Option<LoadedModel>, GatewayError> {
    let embedding = &config.embedding;
    match embedding.provider {
        EmbeddingProvider::None => Ok(None),
        EmbeddingProvider::Candle => {
            let embedding = embedding.clone();
            // Reading and packing weights is blocking work.
            let local = tokio::task::spawn_blocking(move || load_local(&embedding)).await;
            let local = local
                .map_err(|fault| GatewayError::Internal(format!("loading the model: {fault}")))?
                .map_err(name_setting)?;
            local
                .warm_up()
                .await
                .map_err(|fault| GatewayError::Internal(format!("the first forward pass failed: {fault}")))?;
            let local = Arc::new(local);
            let embeddings = Arc::new(TracedEmbeddings::new(Arc::clone(&local) as Arc<dyn Embeddings>));
            Ok(Some(LoadedModel { embeddings, local: Some(local) }))
        }
        EmbeddingProvider::Toller => {
            let remote = TollerEmbeddings::connect(TollerEmbeddingsConfig {
                address: embedding.address.clone().unwrap_or_default(),
                api_key: embedding.api_key.clone(),
                start_timeout: REMOTE_START_TIMEOUT,
                max_message_bytes: config.limits.max_message_bytes,
            })
            .await?;
            Ok(Some(LoadedModel { embeddings: Arc::new(TracedEmbeddings::new(Arc::new(remote))), local: None }))
        }
    }
}

/// The embedder names its own fields; people know them as settings.
fn name_setting(fault: GatewayError) -> GatewayError {
    match fault {
        GatewayError::Model(toller_embedder::Error::Invalid {
            field: field @ ("max_tokens" | "queue_tokens"),
            problem,
        }) => GatewayError::EmbeddingSetting { field, problem },
        other => other,
    }
}

fn load_local(embedding: &EmbeddingConfig) -> Result<LocalEmbeddings, GatewayError> {
    let source = match &embedding.revision {
        Some(revision) => match Source::parse(&embedding.model)? {
            Source::Hub(repository) => Source::Hub(Repository::new(repository.name(), Some(revision))?),
            folder @ Source::Folder(_) => folder,
        },
        None => Source::parse(&embedding.model)?,
    };
    let overrides = Overrides {
        name: None,
        pooling: embedding.pooling,
        normalize: embedding.normalize,
        max_tokens: embedding.max_tokens.map(|tokens| tokens as usize),
        query_instruction: embedding.query_instruction.clone(),
        document_instruction: embedding.document_instruction.clone(),
        ..Overrides::default()
    };
    let model = Model::load(&source, &overrides)?;
    let mut builder = EmbedderConfig::builder().queue_tokens(embedding.queue_tokens);
    if embedding.threads > 0 {
        builder = builder.processors(embedding.threads);
    }
    Ok(LocalEmbeddings::start(model, builder.build()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_settings_carry_their_key() {
        let fault = |field| toller_embedder::Error::Invalid { field, problem: "must be 1 to 512, got 9".to_owned() };
        let named = name_setting(fault("max_tokens").into());
        assert_eq!(named.to_string(), "embedding.max_tokens must be 1 to 512, got 9");
        let other = name_setting(fault("HF_ENDPOINT").into());
        assert_eq!(other.to_string(), "HF_ENDPOINT: must be 1 to 512, got 9");
    }
}
