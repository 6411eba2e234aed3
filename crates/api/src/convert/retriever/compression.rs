//! Contextual compression and its compressors.

use toller_core::error::both;
use toller_core::retriever::{
    AskSpec, CompressionSpec, CompressorKind, CompressorSpec, EmbeddingsFilterSpec, ExtractSpec, LlmRerankSpec,
    RedundantFilterSpec, RerankSpec,
};
use toller_core::{Error, Result};

use super::{all_from_messages, child_from_message, on_error_from_message, on_error_to_message, retriever_to_message};
use crate::v1;
use crate::v1::compressor::Kind;

pub(super) fn compression_from_message(message: v1::ContextualCompressionRetriever) -> Result<CompressionSpec> {
    let retriever = child_from_message("retriever", message.retriever.map(|retriever| *retriever));
    let compressors = all_from_messages("compressors", message.compressors, compressor_from_message);
    let (retriever, compressors) = both(retriever, compressors)?;
    Ok(CompressionSpec { retriever: Box::new(retriever), compressors })
}

fn compressor_from_message(message: v1::Compressor) -> Result<CompressorSpec> {
    let kind = match message.kind {
        None => Err(Error::invalid("", "must have a kind, such as rerank")),
        Some(Kind::EmbeddingsFilter(v1::EmbeddingsFilter { threshold, k, model })) => {
            Ok(CompressorKind::EmbeddingsFilter(EmbeddingsFilterSpec { threshold, k, model }))
        }
        Some(Kind::RedundantFilter(v1::RedundantFilter { threshold, model })) => {
            Ok(CompressorKind::RedundantFilter(RedundantFilterSpec { threshold, model }))
        }
        Some(Kind::Rerank(v1::Rerank { model, top_n })) => Ok(CompressorKind::Rerank(RerankSpec { model, top_n })),
        Some(Kind::LongContextReorder(v1::LongContextReorder {})) => Ok(CompressorKind::LongContextReorder),
        Some(Kind::Extract(v1::Extract { threshold, max_sentences, model })) => {
            Ok(CompressorKind::Extract(ExtractSpec { threshold, max_sentences, model }))
        }
        Some(Kind::LlmExtract(v1::LlmExtract { model, prompt })) => {
            Ok(CompressorKind::LlmExtract(AskSpec { model, prompt }))
        }
        Some(Kind::LlmFilter(v1::LlmFilter { model, prompt })) => {
            Ok(CompressorKind::LlmFilter(AskSpec { model, prompt }))
        }
        Some(Kind::LlmRerank(v1::LlmRerank { model, prompt, top_n })) => {
            Ok(CompressorKind::LlmRerank(LlmRerankSpec { ask: AskSpec { model, prompt }, top_n }))
        }
    };
    let (on_error, kind) = both(on_error_from_message(message.on_error), kind)?;
    Ok(CompressorSpec { on_error, kind })
}

pub(super) fn compression_to_message(spec: &CompressionSpec) -> v1::ContextualCompressionRetriever {
    v1::ContextualCompressionRetriever {
        retriever: Some(Box::new(retriever_to_message(&spec.retriever))),
        compressors: spec.compressors.iter().map(compressor_to_message).collect(),
    }
}

fn compressor_to_message(spec: &CompressorSpec) -> v1::Compressor {
    let kind = match spec.kind.clone() {
        CompressorKind::EmbeddingsFilter(EmbeddingsFilterSpec { threshold, k, model }) => {
            Kind::EmbeddingsFilter(v1::EmbeddingsFilter { threshold, k, model })
        }
        CompressorKind::RedundantFilter(RedundantFilterSpec { threshold, model }) => {
            Kind::RedundantFilter(v1::RedundantFilter { threshold, model })
        }
        CompressorKind::Rerank(RerankSpec { model, top_n }) => Kind::Rerank(v1::Rerank { model, top_n }),
        CompressorKind::LongContextReorder => Kind::LongContextReorder(v1::LongContextReorder {}),
        CompressorKind::Extract(ExtractSpec { threshold, max_sentences, model }) => {
            Kind::Extract(v1::Extract { threshold, max_sentences, model })
        }
        CompressorKind::LlmExtract(AskSpec { model, prompt }) => Kind::LlmExtract(v1::LlmExtract { model, prompt }),
        CompressorKind::LlmFilter(AskSpec { model, prompt }) => Kind::LlmFilter(v1::LlmFilter { model, prompt }),
        CompressorKind::LlmRerank(LlmRerankSpec { ask: AskSpec { model, prompt }, top_n }) => {
            Kind::LlmRerank(v1::LlmRerank { model, prompt, top_n })
        }
    };
    v1::Compressor { on_error: on_error_to_message(spec.on_error), kind: Some(kind) }
}
