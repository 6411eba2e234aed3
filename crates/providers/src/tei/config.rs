//! Where a text-embeddings-inference server is, and how it is asked.

use std::fmt;
use std::time::Duration;

use http::Uri;
use tonic::metadata::{Ascii, MetadataValue};

use crate::error::ProviderError;

pub(super) const SERVICE: &str = "a text-embeddings-inference server";

/// How a text-embeddings-inference server is asked over gRPC.
#[derive(Clone)]
pub struct TeiConfig {
    /// Such as `http://tei:8080`: a server that was built with gRPC.
    pub address: String,
    /// Sent as a bearer token, for a proxy that wants one.
    pub api_key: Option<String>,
    /// Put before every query; empty by default.
    pub query_instruction: String,
    /// Put before every document; empty by default.
    pub document_instruction: String,
    /// Most texts of one call that are with the server at a time: 1 to 512, 32 by default. The server's own limit goes first.
    pub parallel_requests: usize,
    /// How long the start keeps trying to reach the server, which may still be loading its model: up to 1 h, 60 s by default.
    pub start_timeout: Duration,
}

impl TeiConfig {
    /// For the server at `address`, with defaults for everything else.
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            api_key: None,
            query_instruction: String::new(),
            document_instruction: String::new(),
            parallel_requests: 32,
            start_timeout: Duration::from_secs(60),
        }
    }

    pub(super) fn check(&self) -> Result<(), ProviderError> {
        let setting = |field, expected: &str, got: String| {
            Err(ProviderError::Setting { field, expected: expected.to_owned(), got })
        };
        if !(1..=512).contains(&self.parallel_requests) {
            return setting("parallel_requests", "1 to 512", self.parallel_requests.to_string());
        }
        if self.start_timeout > Duration::from_secs(3600) {
            return setting("start_timeout", "at most 3600 s", format!("{:?}", self.start_timeout));
        }
        let fault = |fault: String| {
            let url = self.address.clone();
            Err(ProviderError::Url { url, service: SERVICE, fault, example: "http://tei:8080" })
        };
        match self.address.parse::<Uri>() {
            Err(wrong) => fault(format!("is no URL ({wrong})")),
            Ok(url) if url.scheme_str() == Some("https") => {
                fault("must begin with http://, since TLS to it is not built in".to_owned())
            }
            Ok(url) if url.scheme_str() != Some("http") || url.authority().is_none() => {
                fault("must begin with http://".to_owned())
            }
            Ok(url) if !matches!(url.path(), "" | "/") || url.query().is_some() => {
                fault("must end after the port".to_owned())
            }
            Ok(_) => Ok(()),
        }
    }

    pub(super) fn authorization(&self) -> Result<Option<MetadataValue<Ascii>>, ProviderError> {
        let Some(key) = &self.api_key else { return Ok(None) };
        let value = MetadataValue::try_from(format!("Bearer {key}"));
        value.map(Some).map_err(|_| ProviderError::ApiKey { address: self.address.clone() })
    }
}

impl fmt::Debug for TeiConfig {
    /// Without the API key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TeiConfig").field("address", &self.address).finish_non_exhaustive()
    }
}
