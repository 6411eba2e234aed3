//! Where an OpenAI-compatible service is, and how it is asked.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use http::{HeaderValue, Uri};

use super::wire::EncodingFormat;
use crate::error::ProviderError;

pub(super) const SERVICE: &str = "an OpenAI-compatible service";

/// How [`super::OpenAiEmbeddings`] asks its service. Every field may be set; [`super::OpenAiEmbeddings::connect`] checks them.
#[derive(Clone)]
pub struct OpenAiConfig {
    /// What `/embeddings` is put after: `https://api.openai.com/v1`, or another service's own.
    pub base_url: String,
    /// Sent as a bearer token, where the service wants one.
    pub api_key: Option<String>,
    /// The model's name, as the service knows it.
    pub model: String,
    /// Asks for shorter vectors, of models that can; absent: the model's own dimension. 1 to 65,536.
    pub dimensions: Option<u32>,
    /// Put before every query; empty by default.
    pub query_instruction: String,
    /// Put before every document; empty by default.
    pub document_instruction: String,
    /// How answers carry vectors.
    pub encoding_format: EncodingFormat,
    /// Most texts of one request: 1 to 2048, 256 by default.
    pub batch_texts: usize,
    /// Most bytes of texts of one request, a longer text travels alone: 1 KiB to 16 MiB, 256 KiB by default, which keeps a
    /// request below OpenAI's bound of 300,000 tokens whatever its texts.
    pub batch_bytes: usize,
    /// Most requests of one call at a time: 1 to 64, 4 by default.
    pub parallel_requests: usize,
    /// How long the start keeps trying to reach the service: up to 1 h, 60 s by default.
    pub start_timeout: Duration,
}

impl OpenAiConfig {
    /// For a model of the service at `base_url`, with defaults for everything else.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            api_key: None,
            model: model.into(),
            dimensions: None,
            query_instruction: String::new(),
            document_instruction: String::new(),
            encoding_format: EncodingFormat::default(),
            batch_texts: 256,
            batch_bytes: 256 * 1024,
            parallel_requests: 4,
            start_timeout: Duration::from_secs(60),
        }
    }

    pub(super) fn check(&self) -> Result<(), ProviderError> {
        if self.model.is_empty() {
            let expected = "the name of a model".to_owned();
            return Err(ProviderError::Setting { field: "model", expected, got: "nothing".to_owned() });
        }
        in_range("dimensions", self.dimensions.unwrap_or(1) as usize, &(1..=toller_core::vector::MAX_DIMENSION))?;
        in_range("batch_texts", self.batch_texts, &(1..=2048))?;
        in_range("batch_bytes", self.batch_bytes, &(1024..=16 << 20))?;
        in_range("parallel_requests", self.parallel_requests, &(1..=64))?;
        in_range("start_timeout in seconds", self.start_timeout.as_secs(), &(0..=3600))
    }

    /// The URL of one of the service's paths.
    pub(super) fn url(&self, path: &str) -> Result<Uri, ProviderError> {
        url(&self.base_url, path)
    }

    pub(super) fn authorization(&self) -> Result<Option<HeaderValue>, ProviderError> {
        authorization(&self.base_url, self.api_key.as_deref())
    }
}

/// The URL of one of the paths of the service at `base_url`.
///
/// # Errors
/// Says what is wrong with `base_url`.
pub(super) fn url(base_url: &str, path: &str) -> Result<Uri, ProviderError> {
    let fault = |fault: String| ProviderError::Url {
        url: base_url.to_owned(),
        service: SERVICE,
        fault,
        example: "https://api.openai.com/v1",
    };
    let base: Uri = base_url.parse().map_err(|wrong| fault(format!("is no URL ({wrong})")))?;
    if !matches!(base.scheme_str(), Some("http" | "https")) {
        return Err(fault("must begin with http:// or https://".to_owned()));
    }
    if base.authority().is_none_or(|authority| authority.as_str().contains('@')) {
        return Err(fault("must name a host, and no user: the API key is a setting of its own".to_owned()));
    }
    if base.query().is_some() {
        return Err(fault("must not have a query".to_owned()));
    }
    let url = format!("{}/{path}", base_url.trim_end_matches('/'));
    url.parse().map_err(|wrong| fault(format!("is no URL ({wrong})")))
}

/// The header that carries `api_key` to the service at `base_url`; none without a key.
///
/// # Errors
/// When a header cannot carry it.
pub(super) fn authorization(base_url: &str, api_key: Option<&str>) -> Result<Option<HeaderValue>, ProviderError> {
    let Some(key) = api_key else { return Ok(None) };
    let mut value = HeaderValue::try_from(format!("Bearer {key}"))
        .map_err(|_| ProviderError::ApiKey { address: base_url.to_owned() })?;
    value.set_sensitive(true);
    Ok(Some(value))
}

impl fmt::Debug for OpenAiConfig {
    /// Without the API key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("OpenAiConfig");
        shown.field("base_url", &self.base_url).field("model", &self.model).finish_non_exhaustive()
    }
}

pub(super) fn in_range<T: PartialOrd + fmt::Display>(
    field: &'static str,
    value: T,
    range: &RangeInclusive<T>,
) -> Result<(), ProviderError> {
    if range.contains(&value) {
        return Ok(());
    }
    let expected = format!("{} to {}", range.start(), range.end());
    Err(ProviderError::Setting { field, expected, got: value.to_string() })
}
