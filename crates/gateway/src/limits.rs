//! Bounds on requests and answers that the services share.

use toller_core::filter::FilterLimits;
use toller_core::{ChatMessage, Error, Filter, Result};
use toller_retrieval::PlanLimits;

use crate::config::LimitsConfig;

/// Largest retriever that can be stored, as encoded in protobuf: more than any person writes, and a list of a hundred fits
/// into a message.
const MAX_STORED_RETRIEVER_BYTES: usize = 64 << 10;

/// The configured bounds, as checks.
#[derive(Debug, Clone)]
pub(crate) struct Limits(LimitsConfig);

impl Limits {
    pub(crate) fn new(config: LimitsConfig) -> Self {
        Self(config)
    }

    pub(crate) fn filter(&self) -> FilterLimits {
        FilterLimits { max_depth: self.0.max_filter_depth, max_nodes: self.0.max_filter_nodes }
    }

    pub(crate) fn plan(&self) -> PlanLimits {
        PlanLimits {
            max_k: self.0.max_k,
            max_nodes: self.0.max_retrievers,
            filter: self.filter(),
            ..PlanLimits::default()
        }
    }

    pub(crate) fn max_message_bytes(&self) -> usize {
        self.0.max_message_bytes
    }

    pub(crate) fn max_document_bytes(&self) -> usize {
        self.0.max_document_bytes
    }

    pub(crate) fn max_text_bytes(&self) -> usize {
        self.0.max_text_bytes
    }

    pub(crate) fn max_metadata_bytes(&self) -> usize {
        self.0.max_metadata_bytes
    }

    /// At most `limits.max_documents` documents or ids.
    pub(crate) fn check_documents(&self, field: &str, count: usize) -> Result<()> {
        check_count(field, count, self.0.max_documents, "limits.max_documents")
    }

    /// At most `limits.max_queries` queries.
    pub(crate) fn check_queries(&self, field: &str, count: usize) -> Result<()> {
        check_count(field, count, self.0.max_queries, "limits.max_queries")
    }

    /// A text of at most `limits.max_text_bytes` bytes.
    pub(crate) fn check_text(&self, field: impl FnOnce() -> String, text: &str) -> Result<()> {
        if text.len() <= self.0.max_text_bytes {
            return Ok(());
        }
        let description = format!(
            "must be at most {} bytes long (limits.max_text_bytes), got {}; split it first",
            self.0.max_text_bytes,
            text.len()
        );
        Err(Error::invalid(field(), description))
    }

    /// A conversation of at most `limits.max_text_bytes` bytes altogether; faults are in `history`.
    pub(crate) fn check_history(&self, history: &[ChatMessage]) -> Result<()> {
        let (most, bytes) = (self.0.max_text_bytes, history.iter().map(|message| message.content.len()).sum::<usize>());
        if bytes <= most {
            return Ok(());
        }
        let description = format!(
            "must be at most {most} bytes long altogether (limits.max_text_bytes), got {bytes}; leave out old messages"
        );
        Err(Error::invalid("history", description))
    }

    /// Metadata of at most `limits.max_metadata_bytes` bytes, as encoded; faults are in `metadata`.
    pub(crate) fn check_metadata(&self, encoded_bytes: usize) -> Result<()> {
        let most = self.0.max_metadata_bytes;
        if encoded_bytes <= most {
            return Ok(());
        }
        let description =
            format!("must be at most {most} bytes when encoded (limits.max_metadata_bytes), got {encoded_bytes}");
        Err(Error::invalid("metadata", description))
    }

    /// A retriever small enough to be stored; faults are in the retriever itself.
    pub(crate) fn check_stored_retriever(encoded_bytes: usize) -> Result<()> {
        if encoded_bytes <= MAX_STORED_RETRIEVER_BYTES {
            return Ok(());
        }
        let description = format!(
            "must be at most {MAX_STORED_RETRIEVER_BYTES} bytes when encoded, got {encoded_bytes}; make its filter smaller"
        );
        Err(Error::invalid("", description))
    }

    /// A list without pages that fits into a message. Its caller cannot ask for less: what is listed must shrink.
    pub(crate) fn check_list(&self, what: &str, encoded_bytes: usize) -> Result<()> {
        if encoded_bytes <= self.0.max_message_bytes {
            return Ok(());
        }
        Err(Error::FailedPrecondition {
            reason: "LIST_TOO_LARGE",
            message: format!(
                "the list of {what} takes {encoded_bytes} bytes, over the {} of limits.max_message_bytes; get them one by one, delete some, or raise the setting",
                self.0.max_message_bytes
            ),
        })
    }

    pub(crate) fn check_filter(&self, filter: Option<&Filter>) -> Result<()> {
        match filter {
            None => Ok(()),
            Some(filter) => filter.check(self.filter()).map_err(|error| error.within("filter")),
        }
    }

    /// An answer that fits into a message; `field` is what the caller can ask for less of.
    pub(crate) fn check_answer(&self, field: &str, encoded_bytes: usize) -> Result<()> {
        if encoded_bytes <= self.0.max_message_bytes {
            return Ok(());
        }
        let description = format!(
            "asks for an answer of {encoded_bytes} bytes, over the {} of limits.max_message_bytes; ask for less at a time",
            self.0.max_message_bytes
        );
        Err(Error::invalid(field, description))
    }

    /// Vectors that fit into a message; checked before they are computed.
    pub(crate) fn check_vectors(&self, field: &str, count: usize, dimension: u32) -> Result<()> {
        /// Protobuf's own bytes around a vector and its usage, rounded up.
        const OVERHEAD_BYTES: usize = 32;

        let bytes_each = dimension as usize * size_of::<f32>() + OVERHEAD_BYTES;
        self.check_answer(field, count.saturating_mul(bytes_each))
    }
}

fn check_count(field: &str, count: usize, most: usize, setting: &str) -> Result<()> {
    if count <= most {
        return Ok(());
    }
    Err(Error::invalid(
        field,
        format!("must be at most {most} ({setting}), got {count}; send them in several requests"),
    ))
}
