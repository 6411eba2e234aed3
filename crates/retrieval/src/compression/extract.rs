//! Keeps of each hit the sentences nearest to the query: what LangChain's `LLMChainExtractor` is for, without a language model.

use std::sync::Arc;

use async_trait::async_trait;
use toller_core::retriever::{DEFAULT_MAX_SENTENCES, ExtractSpec};
use toller_core::{Document, Embeddings, Query, Result, ScoredDocument, TextSpan};

use super::{Compressor, embed_documents, query_text};
use crate::plan::Binder;
use crate::run::Run;
use crate::selection::nearest;
use crate::sentences::{Sentence, sentences};

/// Between sentences that did not stand side by side.
const GAP: &str = "\n";

pub(super) struct Extract {
    threshold: Option<f64>,
    limit: Option<usize>,
    model: Arc<dyn Embeddings>,
}

impl Extract {
    /// # Errors
    /// `NotFound` for the model that it names; `FailedPrecondition` without a default one.
    pub(super) fn bind(binder: &mut Binder<'_>, path: &str, spec: &ExtractSpec) -> Result<Self> {
        binder.check_range(path, "threshold", spec.threshold, -1.0..=1.0);
        binder.check_count(path, "max_sentences", spec.max_sentences);
        let model = Arc::clone(binder.models().embedding_model(spec.model.as_deref())?);
        let default = spec.threshold.is_none().then_some(DEFAULT_MAX_SENTENCES);
        let limit = spec.max_sentences.or(default).map(|most| most as usize);
        Ok(Self { threshold: spec.threshold, limit, model })
    }
}

#[async_trait]
impl Compressor for Extract {
    async fn compress(&self, run: &Run, query: &Query, hits: Vec<ScoredDocument>) -> Result<Vec<ScoredDocument>> {
        let text = query_text(query, "extract")?;
        let query_vector = run.queries().vector(&run.context, self.model.as_ref(), text).await?;
        let split: Vec<Vec<Sentence<'_>>> = hits.iter().map(|hit| sentences(&hit.document.page_content)).collect();
        // One call for the sentences of all hits.
        let texts: Vec<String> = split.iter().flatten().map(|sentence| sentence.text.to_owned()).collect();
        let mut vectors = embed_documents(run, self.model.as_ref(), texts).await?.into_iter();

        let mut extracts = Vec::with_capacity(hits.len());
        for (hit, sentences) in hits.iter().zip(&split) {
            let own: Vec<Vec<f32>> = vectors.by_ref().take(sentences.len()).collect();
            let mut kept: Vec<usize> = nearest(&query_vector, &own, self.threshold, self.limit)
                .into_iter()
                .map(|(position, _)| position)
                .collect();
            kept.sort_unstable();
            extracts.extend(extract(hit, sentences, &kept));
        }
        Ok(extracts)
    }
}

/// The hit with the sentences at `kept` alone, ascending; none without any.
pub(super) fn extract(hit: &ScoredDocument, sentences: &[Sentence<'_>], kept: &[usize]) -> Option<ScoredDocument> {
    let text = &hit.document.page_content;
    let mut content = String::new();
    let mut extracts: Vec<TextSpan> = Vec::new();
    let mut last: Option<(usize, &Sentence<'_>)> = None;
    for position in kept {
        let sentence = sentences.get(*position)?;
        match (last, extracts.last_mut()) {
            // Side by side: what stands between them stays.
            (Some((before, previous)), Some(span)) if before + 1 == *position => {
                content.push_str(text.get(previous.bytes.end..sentence.bytes.end)?);
                span.end = sentence.chars.end;
            }
            (before, _) => {
                content.push_str(if before.is_some() { GAP } else { "" });
                content.push_str(sentence.text);
                extracts.push(sentence.chars);
            }
        }
        last = Some((*position, sentence));
    }
    if extracts.is_empty() {
        return None;
    }
    let document = Document { page_content: content, ..(*hit.document).clone() };
    Some(ScoredDocument { document: Arc::new(document), extracts, ..hit.clone() })
}
