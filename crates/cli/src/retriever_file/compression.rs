//! Contextual compression and its compressors.

use serde::{Deserialize, Serialize};
use toller_api::v1;
use toller_api::v1::compressor::Kind;

use super::{RetrieverFile, at_most_one};
use crate::error::Error;
use crate::names::OnError;

/// Hits pass through compressors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContextualCompression {
    pub(super) retriever: RetrieverFile,
    compressors: Vec<Compressor>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Compressor {
    #[serde(skip_serializing_if = "Option::is_none")]
    on_error: Option<OnError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    embeddings_filter: Option<EmbeddingsFilter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    redundant_filter: Option<RedundantFilter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rerank: Option<Rerank>,
    #[serde(skip_serializing_if = "Option::is_none")]
    long_context_reorder: Option<LongContextReorder>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extract: Option<Extract>,
    #[serde(skip_serializing_if = "Option::is_none")]
    llm_extract: Option<Ask>,
    #[serde(skip_serializing_if = "Option::is_none")]
    llm_filter: Option<Ask>,
    #[serde(skip_serializing_if = "Option::is_none")]
    llm_rerank: Option<LlmRerank>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EmbeddingsFilter {
    #[serde(skip_serializing_if = "Option::is_none")]
    threshold: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    k: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RedundantFilter {
    #[serde(skip_serializing_if = "Option::is_none")]
    threshold: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rerank {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_n: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LongContextReorder {}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Extract {
    #[serde(skip_serializing_if = "Option::is_none")]
    threshold: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_sentences: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ask {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LlmRerank {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_n: Option<u32>,
}

impl ContextualCompression {
    pub(super) fn into_message(self) -> Result<v1::ContextualCompressionRetriever, Error> {
        Ok(v1::ContextualCompressionRetriever {
            retriever: Some(Box::new(self.retriever.into_message()?)),
            compressors: self.compressors.into_iter().map(Compressor::into_message).collect::<Result<_, _>>()?,
        })
    }

    pub(super) fn from_message(message: v1::ContextualCompressionRetriever) -> Result<Self, Error> {
        Ok(Self {
            retriever: RetrieverFile::from_message(message.retriever.map(|inner| *inner).unwrap_or_default())?,
            compressors: message.compressors.into_iter().map(Compressor::from_message).collect(),
        })
    }
}

impl Compressor {
    fn into_message(self) -> Result<v1::Compressor, Error> {
        let kinds = [
            self.embeddings_filter.map(|EmbeddingsFilter { threshold, k, model }| {
                Ok(Kind::EmbeddingsFilter(v1::EmbeddingsFilter { threshold, k, model }))
            }),
            self.redundant_filter.map(|RedundantFilter { threshold, model }| {
                Ok(Kind::RedundantFilter(v1::RedundantFilter { threshold, model }))
            }),
            self.rerank.map(|Rerank { model, top_n }| Ok(Kind::Rerank(v1::Rerank { model, top_n }))),
            self.long_context_reorder
                .map(|LongContextReorder {}| Ok(Kind::LongContextReorder(v1::LongContextReorder {}))),
            self.extract.map(|Extract { threshold, max_sentences, model }| {
                Ok(Kind::Extract(v1::Extract { threshold, max_sentences, model }))
            }),
            self.llm_extract.map(|Ask { model, prompt }| Ok(Kind::LlmExtract(v1::LlmExtract { model, prompt }))),
            self.llm_filter.map(|Ask { model, prompt }| Ok(Kind::LlmFilter(v1::LlmFilter { model, prompt }))),
            self.llm_rerank
                .map(|LlmRerank { model, prompt, top_n }| Ok(Kind::LlmRerank(v1::LlmRerank { model, prompt, top_n }))),
        ];
        Ok(v1::Compressor {
            on_error: self.on_error.map_or(0, i32::from),
            kind: at_most_one("a compressor", "rerank", kinds)?,
        })
    }

    fn from_message(message: v1::Compressor) -> Self {
        let mut compressor = Self {
            on_error: OnError::from_message(message.on_error),
            embeddings_filter: None,
            redundant_filter: None,
            rerank: None,
            long_context_reorder: None,
            extract: None,
            llm_extract: None,
            llm_filter: None,
            llm_rerank: None,
        };
        match message.kind {
            None => {}
            Some(Kind::EmbeddingsFilter(v1::EmbeddingsFilter { threshold, k, model })) => {
                compressor.embeddings_filter = Some(EmbeddingsFilter { threshold, k, model });
            }
            Some(Kind::RedundantFilter(v1::RedundantFilter { threshold, model })) => {
                compressor.redundant_filter = Some(RedundantFilter { threshold, model });
            }
            Some(Kind::Rerank(v1::Rerank { model, top_n })) => compressor.rerank = Some(Rerank { model, top_n }),
            Some(Kind::LongContextReorder(_)) => compressor.long_context_reorder = Some(LongContextReorder {}),
            Some(Kind::Extract(v1::Extract { threshold, max_sentences, model })) => {
                compressor.extract = Some(Extract { threshold, max_sentences, model });
            }
            Some(Kind::LlmExtract(v1::LlmExtract { model, prompt })) => {
                compressor.llm_extract = Some(Ask { model, prompt });
            }
            Some(Kind::LlmFilter(v1::LlmFilter { model, prompt })) => {
                compressor.llm_filter = Some(Ask { model, prompt });
            }
            Some(Kind::LlmRerank(v1::LlmRerank { model, prompt, top_n })) => {
                compressor.llm_rerank = Some(LlmRerank { model, prompt, top_n });
            }
        }
        compressor
    }
}
