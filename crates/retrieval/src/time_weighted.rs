//! The retriever that prefers what is recent (LangChain's `TimeWeightedVectorStoreRetriever`).
//!
//! Unlike LangChain's it keeps nothing in the process: times are those of the stored documents, in UTC, and reading changes none.
//! What lies in the future counts as now, so that no score is above 1 for recency.

use std::time::UNIX_EPOCH;

use async_trait::async_trait;
use toller_core::error::join_path;
use toller_core::filter::KeyPath;
use toller_core::retriever::{
    DEFAULT_DECAY_RATE, DEFAULT_K, DEFAULT_TIME_WEIGHTED_CANDIDATES, DEFAULT_TIMESTAMP_FIELD, RetrieverKind,
    TimeWeightedSpec,
};
use toller_core::{Query, Result, ScoredDocument, SourceScore, Value};

use crate::node::{Found, Node, Operator};
use crate::plan::Binder;
use crate::run::Run;
use crate::timestamp::unix_seconds;

/// The name of its part in `sources`.
const SOURCE: &str = "time_weighted";
const SECONDS_PER_HOUR: f64 = 3600.0;
/// Largest score to both sides: numbers in metadata may be of any size, and fusions square what they get.
const MAX_SCORE: f64 = 1e100;

/// Scores by relevance and recency.
pub(crate) struct TimeWeighted {
    retriever: Node,
    decay_rate: f64,
    timestamp: KeyPath,
    other_scores: Vec<KeyPath>,
    k: usize,
}

impl TimeWeighted {
    pub(crate) async fn bind(binder: &mut Binder<'_>, path: &str, spec: &TimeWeightedSpec) -> Result<Option<Self>> {
        binder.check_count(path, "k", spec.k);
        binder.check_range(path, "decay_rate", spec.decay_rate, 0.0..=1.0);
        let field = spec.timestamp_field.as_deref().unwrap_or(DEFAULT_TIMESTAMP_FIELD);
        let timestamp = binder.key_path(path, "timestamp_field", field);
        let mut other_scores = Vec::new();
        for (index, key) in spec.other_score_keys.iter().enumerate() {
            other_scores.extend(binder.key_path(path, &format!("other_score_keys[{index}]"), key));
        }

        let mut inner = (*spec.retriever).clone();
        if let RetrieverKind::VectorStore(search) = &mut inner.kind
            && search.k.is_none()
        {
            search.k = Some(DEFAULT_TIME_WEIGHTED_CANDIDATES.min(binder.max_k()));
        }
        let retriever = binder.node(&inner, join_path(path, "retriever")).await?;
        Ok(timestamp.zip(retriever).map(|(timestamp, retriever)| Self {
            retriever,
            decay_rate: spec.decay_rate.unwrap_or(DEFAULT_DECAY_RATE),
            timestamp,
            other_scores,
            k: spec.k.unwrap_or(DEFAULT_K) as usize,
        }))
    }

    /// (1 − decay)^hours; none when the document has no time.
    fn recency(&self, hit: &ScoredDocument, now: f64) -> Option<f64> {
        let moment = self.timestamp.find(&hit.document.metadata).and_then(unix_seconds)?;
        let hours = ((now - moment) / SECONDS_PER_HOUR).max(0.0);
        Some((1.0 - self.decay_rate).powf(hours))
    }

    fn other_scores(&self, hit: &ScoredDocument) -> f64 {
        let values = self.other_scores.iter().filter_map(|key| match key.find(&hit.document.metadata)? {
            Value::Int(number) => Some(*number as f64),
            Value::Double(number) => Some(*number),
            _ => None,
        });
        values.sum()
    }
}

#[async_trait]
impl Operator for TimeWeighted {
    async fn run(&self, run: &Run, query: &Query) -> Found {
        let mut hits = self.retriever.run(run, query).await?;
        let now = run.now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let mut without_time = 0_usize;
        for hit in &mut hits {
            let recency = self.recency(hit, now);
            without_time += usize::from(recency.is_none());
            // Several finite numbers of metadata may have an infinite sum, and infinities of both signs no sum at all.
            let score = hit.relevance.unwrap_or(0.0) + recency.unwrap_or(0.0) + self.other_scores(hit);
            hit.score = if score.is_nan() { 0.0 } else { score.clamp(-MAX_SCORE, MAX_SCORE) };
            hit.metric = None;
        }
        if without_time > 0 {
            let key = self.timestamp.as_str();
            run.warn(format!(
                "{without_time} hits have no time at {key:?} in their metadata: they got nothing for recency"
            ));
        }
        // Stable: ties stay in the order of relevance.
        hits.sort_by(|left, right| right.score.total_cmp(&left.score));
        hits.truncate(self.k);
        for (hit, rank) in hits.iter_mut().zip(1..) {
            hit.sources.push(SourceScore { source: SOURCE.to_owned(), score: hit.score, rank });
        }
        Ok(hits)
    }
}
