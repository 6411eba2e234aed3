//! Contextual compression: hits pass through compressors, one after the other (LangChain's `ContextualCompressionRetriever`).
//!
//! Ids, metadata and sources survive, and no hits in are no hits out. One file for each compressor.

mod embeddings_filter;
mod extract;
mod llm_extract;
mod llm_filter;
mod llm_rerank;
mod long_context_reorder;
mod per_hit;
mod redundant_filter;
mod rerank;

use std::sync::Arc;

use async_trait::async_trait;
use toller_core::error::join_path;
use toller_core::retriever::{CompressionSpec, CompressorKind, CompressorSpec, OnError};
use toller_core::{EmbeddingRole, Embeddings, Error, Query, Result, ScoredDocument};

use self::embeddings_filter::EmbeddingsFilter;
use self::extract::Extract;
use self::llm_extract::LlmExtract;
use self::llm_filter::LlmFilter;
use self::llm_rerank::LlmRerank;
use self::long_context_reorder::LongContextReorder;
use self::redundant_filter::RedundantFilter;
use self::rerank::Rerank;
use crate::failure::Failure;
use crate::node::{Found, Node, Operator, is_skippable};
use crate::plan::Binder;
use crate::run::Run;

/// Passes the hits of a retriever through compressors.
pub(crate) struct ContextualCompression {
    retriever: Node,
    stages: Vec<Stage>,
}

/// Changes a list of hits.
#[async_trait]
trait Compressor: Send + Sync {
    /// The hits that stay, in their new order. There is at least one.
    async fn compress(&self, run: &Run, query: &Query, hits: Vec<ScoredDocument>) -> Result<Vec<ScoredDocument>>;
}

struct Stage {
    path: Arc<str>,
    on_error: OnError,
    /// Or why there is none, such as a model that is not loaded; only where it may be skipped.
    compressor: Result<Box<dyn Compressor>>,
}

impl ContextualCompression {
    pub(crate) async fn bind(binder: &mut Binder<'_>, path: &str, spec: &CompressionSpec) -> Result<Option<Self>> {
        let retriever = binder.node(&spec.retriever, join_path(path, "retriever")).await?;
        if spec.compressors.is_empty() {
            binder.fault(path, "compressors", "must be at least 1, got 0");
        }
        let mut stages = Vec::with_capacity(spec.compressors.len());
        for (index, compressor) in spec.compressors.iter().enumerate() {
            stages.extend(Stage::bind(binder, &join_path(path, &format!("compressors[{index}]")), compressor)?);
        }
        let is_whole = stages.len() == spec.compressors.len();
        Ok(retriever.filter(|_| is_whole).map(|retriever| Self { retriever, stages }))
    }
}

#[async_trait]
impl Operator for ContextualCompression {
    async fn run(&self, run: &Run, query: &Query) -> Found {
        let mut hits = self.retriever.run(run, query).await?;
        for stage in &self.stages {
            if hits.is_empty() {
                break;
            }
            hits = stage.run(run, query, hits).await?;
        }
        Ok(hits)
    }
}

impl Stage {
    /// A compressor whose parameters are below `path`; none when there are faults.
    fn bind(binder: &mut Binder<'_>, path: &str, spec: &CompressorSpec) -> Result<Option<Self>> {
        let inner = join_path(path, spec.kind.as_str());
        let compressor: Result<Box<dyn Compressor>> = match &spec.kind {
            CompressorKind::EmbeddingsFilter(spec) => boxed(EmbeddingsFilter::bind(binder, &inner, spec)),
            CompressorKind::RedundantFilter(spec) => boxed(RedundantFilter::bind(binder, &inner, spec)),
            CompressorKind::Rerank(spec) => boxed(Rerank::bind(binder, &inner, spec)),
            CompressorKind::LongContextReorder => Ok(Box::new(LongContextReorder)),
            CompressorKind::Extract(spec) => boxed(Extract::bind(binder, &inner, spec)),
            CompressorKind::LlmExtract(spec) => boxed(LlmExtract::bind(binder, &inner, spec)),
            CompressorKind::LlmFilter(spec) => boxed(LlmFilter::bind(binder, &inner, spec)),
            CompressorKind::LlmRerank(spec) => boxed(LlmRerank::bind(binder, &inner, spec)),
        };
        let compressor = match (compressor, spec.on_error) {
            (compressor @ Ok(_), _) | (compressor @ Err(_), OnError::Skip) => compressor,
            (Err(missing), OnError::Fail) => {
                return binder.note(&join_path(&inner, "model"), Err(missing));
            }
        };
        Ok(Some(Self { path: path.into(), on_error: spec.on_error, compressor }))
    }

    async fn run(&self, run: &Run, query: &Query, hits: Vec<ScoredDocument>) -> Found {
        let compressor = match &self.compressor {
            Ok(compressor) => compressor,
            Err(missing) => {
                run.warn_at(&self.path, format!("skipped: {missing}"));
                return Ok(hits);
            }
        };
        // Cheap: documents are shared.
        let kept = (self.on_error == OnError::Skip).then(|| hits.clone());
        match (compressor.compress(run, query, hits).await, kept) {
            (Ok(hits), _) => Ok(hits),
            (Err(error), Some(kept)) if is_skippable(run, &error) => {
                run.warn_at(&self.path, format!("skipped: {error}"));
                Ok(kept)
            }
            (Err(error), _) => Err(Failure::from(error).at(&self.path)),
        }
    }
}

fn boxed<C: Compressor + 'static>(compressor: Result<C>) -> Result<Box<dyn Compressor>> {
    compressor.map(|compressor| Box::new(compressor) as Box<dyn Compressor>)
}

/// The text of the query.
///
/// # Errors
/// `InvalidArgument` for a query by vector, which `compressor` cannot read.
fn query_text<'a>(query: &'a Query, compressor: &str) -> Result<&'a str> {
    match query {
        Query::Text(text) => Ok(text),
        Query::Vector(_) => Err(Error::invalid("query.vector", format!("{compressor} needs a query by text"))),
    }
}

/// The vectors of `texts` in the role of documents, aligned with them.
async fn embed_documents(run: &Run, model: &dyn Embeddings, texts: Vec<String>) -> Result<Vec<Vec<f32>>> {
    run.context.check("before the hits were embedded")?;
    let count = texts.len();
    let embeddings = model.embed(&run.context, EmbeddingRole::Document, texts).await?;
    if embeddings.len() != count {
        return Err(Error::Internal(format!("the model gave {} vectors for {count} texts", embeddings.len())));
    }
    Ok(embeddings.into_iter().map(|embedding| embedding.vector).collect())
}

fn texts(hits: &[ScoredDocument]) -> Vec<String> {
    hits.iter().map(|hit| hit.document.page_content.clone()).collect()
}

/// The hits' own vectors, when all have one of the same dimension.
fn own_vectors(hits: &[ScoredDocument]) -> Option<Vec<&[f32]>> {
    let vectors = hits.iter().map(|hit| hit.vector.as_ref().map(AsRef::as_ref)).collect::<Option<Vec<&[f32]>>>()?;
    let dimension = vectors.first()?.len();
    vectors.iter().all(|vector| vector.len() == dimension).then_some(vectors)
}

/// The hits at `positions`, in that order; each position comes once at most.
fn pick(hits: Vec<ScoredDocument>, positions: impl IntoIterator<Item = usize>) -> Vec<ScoredDocument> {
    let mut hits: Vec<Option<ScoredDocument>> = hits.into_iter().map(Some).collect();
    positions.into_iter().filter_map(|position| hits.get_mut(position).and_then(Option::take)).collect()
}
