//! Section `llm`: the language model that retrievers may ask.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ConfigError, Origins};

/// Longest time for an answer in milliseconds: ten minutes, the longest deadline by default.
const MAX_TIMEOUT_MS: u64 = 600_000;

/// Section `llm`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LlmConfig {
    /// What `/chat/completions` is put after; none for no language model.
    pub address: Option<String>,
    /// The model's name, as the service knows it.
    pub model: Option<String>,
    /// Its API key.
    pub api_key: Option<String>,
    /// Longest time for one answer, with all tries.
    pub timeout_ms: u64,
    /// Does the service know `response_format` with a JSON schema?
    pub structured_output: bool,
}

impl Default for LlmConfig {
    fn default() -> Self {
        Self { address: None, model: None, api_key: None, timeout_ms: 30_000, structured_output: true }
    }
}

impl fmt::Debug for LlmConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LlmConfig")
            .field("address", &self.address)
            .field("model", &self.model)
            .field("api_key", &self.api_key.as_ref().map(|_| "(hidden)"))
            .finish_non_exhaustive()
    }
}

impl LlmConfig {
    pub(super) fn check(&self, origins: &Origins<'_>) -> Result<(), ConfigError> {
        if self.address.is_none() {
            let of_the_model = ["llm.model", "llm.api_key", "llm.timeout_ms", "llm.structured_output"];
            return match of_the_model.into_iter().find(|key| origins.of(key).is_some()) {
                Some(key) => Err(origins.invalid(key, "is of use with llm.address only; leave it out")),
                None => Ok(()),
            };
        }
        if self.model.as_deref().is_none_or(str::is_empty) {
            let description = "must be given with llm.address: the model's name as the service knows it";
            return Err(origins.invalid("llm.model", description));
        }
        if !(1..=MAX_TIMEOUT_MS).contains(&self.timeout_ms) {
            let description = format!("must be 1 to {MAX_TIMEOUT_MS}, got {}", self.timeout_ms);
            return Err(origins.invalid("llm.timeout_ms", description));
        }
        Ok(())
    }
}
