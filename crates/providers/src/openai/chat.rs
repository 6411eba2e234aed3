//! Asks language models of services that speak OpenAI's `POST /v1/chat/completions`.

use std::fmt;
use std::time::{Duration, Instant};

use ::http::Uri;
use async_trait::async_trait;
use hyper::body::Bytes;
use tokio::sync::Semaphore;
use toller_core::language_model::{Completion, CompletionOptions};
use toller_core::{ChatMessage, Error, LanguageModel, RequestContext, Result};

use super::chat_wire::{self, Read};
use super::config::{SERVICE, authorization, in_range, url};
use super::failure;
use super::http::HttpClient;
use crate::budget::RetryBudget;
use crate::error::ProviderError;
use crate::retry::{Failure, with_retries};

const PROVIDER: &str = "openai";

const ANSWERING: &str = "while the language model was asked";

/// Largest body of an answer: what retrievers ask for are lines and short lists, and whatever is longer went wrong.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// Longest time for an answer that may be set.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(600);

/// How [`OpenAiChat`] asks its service. Every field may be set; [`OpenAiChat::new`] checks them.
#[derive(Clone)]
pub struct ChatConfig {
    /// What `/chat/completions` is put after: `https://api.openai.com/v1`, or another service's own.
    pub base_url: String,
    /// Sent as a bearer token, where the service wants one.
    pub api_key: Option<String>,
    /// The model's name, as the service knows it.
    pub model: String,
    /// Longest time for one question, with all its tries: 1 ms to 10 min, 30 s by default. The caller's deadline may end it earlier.
    pub timeout: Duration,
    /// Does the service know `response_format` with a JSON schema? True by default; where false, schemas are not sent.
    pub structured_output: bool,
    /// Most questions at a time, of all callers; others wait. 1 to 1024, 16 by default.
    pub parallel_requests: usize,
}

impl ChatConfig {
    /// For a model of the service at `base_url`, with defaults for everything else.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            api_key: None,
            model: model.into(),
            timeout: Duration::from_secs(30),
            structured_output: true,
            parallel_requests: 16,
        }
    }

    fn check(&self) -> Result<(), ProviderError> {
        if self.model.is_empty() {
            let expected = "the name of a model".to_owned();
            return Err(ProviderError::Setting { field: "model", expected, got: "nothing".to_owned() });
        }
        let milliseconds = |time: Duration| time.as_millis();
        in_range("timeout in milliseconds", milliseconds(self.timeout), &(1..=milliseconds(LONGEST_TIMEOUT)))?;
        in_range("parallel_requests", self.parallel_requests, &(1..=1024))
    }
}

impl fmt::Debug for ChatConfig {
    /// Without the API key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("ChatConfig");
        shown.field("base_url", &self.base_url).field("model", &self.model).finish_non_exhaustive()
    }
}

/// A language model of an OpenAI-compatible service.
///
/// It is asked at temperature 0, and again after what may pass (429, 5xx, a broken connection), as long as its timeout and the caller's
/// deadline allow. An answer is at most 1 MiB.
pub struct OpenAiChat {
    config: ChatConfig,
    client: HttpClient,
    completions_url: Uri,
    budget: RetryBudget,
    places: Semaphore,
}

impl OpenAiChat {
    /// Checks the settings. The service is not asked: a gateway is of use without its language model, and starts without it.
    ///
    /// # Errors
    /// `Setting`, `Url` or `ApiKey`.
    pub fn new(config: ChatConfig) -> Result<Self, ProviderError> {
        config.check()?;
        let completions_url = url(&config.base_url, "chat/completions")?;
        let authorization = authorization(&config.base_url, config.api_key.as_deref())?;
        let unusable =
            |fault: String| ProviderError::Unusable { service: SERVICE, address: config.base_url.clone(), fault };
        let client = HttpClient::new(authorization).map_err(unusable)?.with_max_body(MAX_BODY_BYTES);
        let places = Semaphore::new(config.parallel_requests);
        Ok(Self { config, client, completions_url, budget: RetryBudget::new(), places })
    }

    fn said(&self, fault: &str) -> String {
        format!("the language model at {}: {fault}", self.config.base_url)
    }

    /// One try.
    async fn ask(&self, body: Bytes) -> Result<Completion, Failure> {
        let answer = match self.client.post(self.completions_url.clone(), body).await {
            Ok(answer) => answer,
            Err(fault) => {
                return Err(Failure::Passing { error: Error::Unavailable(self.said(&fault)), after: None });
            }
        };
        if !answer.status.is_success() {
            return Err(refused(failure(&answer, |fault| self.said(fault))));
        }
        match chat_wire::read(&answer.body) {
            Ok(Read::Completion(completion)) => Ok(completion),
            Ok(Read::Refusal(refusal)) => Err(Failure::Final(Error::FailedPrecondition {
                reason: "PROVIDER_REFUSED",
                message: self.said(&format!("it will not answer: {}", shortened(&refusal))),
            })),
            // Another answer, or another service, may do: this is no defect of ours.
            Err(fault) => Err(Failure::Final(Error::Unavailable(self.said(&format!("it answered {fault}"))))),
        }
    }
}

/// The fields of a question that a service finds wrong are ours or its settings', and none of the caller's request.
fn refused(failure: Failure) -> Failure {
    match failure {
        Failure::Final(Error::InvalidArgument(violations)) => {
            let said: Vec<String> = violations.into_iter().map(|violation| violation.description).collect();
            let hint = "; a service without response_format needs structured output turned off";
            let message = format!("{}{hint}", said.join("; "));
            Failure::Final(Error::FailedPrecondition { reason: "PROVIDER_REFUSED", message })
        }
        // What no client can mend by another request, such as a wrong address.
        Failure::Final(Error::Internal(message)) => {
            Failure::Final(Error::FailedPrecondition { reason: "PROVIDER_REFUSED", message })
        }
        other => other,
    }
}

/// The beginning of a text of the service's.
fn shortened(text: &str) -> String {
    const MOST_CHARACTERS: usize = 300;

    text.chars().take(MOST_CHARACTERS).collect()
}

#[async_trait]
impl LanguageModel for OpenAiChat {
    fn provider(&self) -> &str {
        PROVIDER
    }

    fn model(&self) -> &str {
        &self.config.model
    }

    async fn complete(
        &self,
        context: &RequestContext,
        messages: &[ChatMessage],
        options: &CompletionOptions,
    ) -> Result<Completion> {
        let schema = options.schema.as_ref().filter(|_| self.config.structured_output);
        let request = chat_wire::Request::new(&self.config.model, messages, schema);
        let body = request.and_then(|request| serde_json::to_vec(&request));
        let body = Bytes::from(body.map_err(|fault| Error::Internal(format!("writing JSON: {fault}")))?);

        let give_up = Instant::now() + self.config.timeout;
        let is_callers = context.deadline().is_some_and(|deadline| deadline <= give_up);
        let bounded = if is_callers { context.clone() } else { context.clone().with_deadline(Some(give_up)) };
        let asking = async {
            let _place = self.places.acquire().await.map_err(|fault| Error::Internal(fault.to_string()))?;
            with_retries(&bounded, ANSWERING, &self.budget, || self.ask(body.clone())).await
        };
        let until = bounded.deadline().unwrap_or(give_up);
        let answer = match tokio::time::timeout_at(until.into(), asking).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::DeadlineExceeded(ANSWERING)),
        };
        match answer {
            // The caller still has time: it is the service that is slow.
            Err(Error::DeadlineExceeded(_)) if !is_callers => {
                Err(Error::Unavailable(self.said(&format!("no answer within {:?}", self.config.timeout))))
            }
            answer => answer,
        }
    }
}
