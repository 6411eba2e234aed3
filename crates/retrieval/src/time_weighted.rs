//! The retriever that prefers what is recent (LangChain's `TimeWeightedVectorStoreRetriever`).
//!
//! Unlike LangChain's it keeps nothing in the process alone: times are those of the stored documents, in UTC, and where the declaration
//! names an access log also those at which documents were last found. The documents themselves are never changed. What lies in the
//! future counts as now, so that no score is above 1 for recency.

use std::time::UNIX_EPOCH;

use async_trait::async_trait;
use toller_core::error::join_path;
use toller_core::filter::KeyPath;
use toller_core::retriever::{
    DEFAULT_DECAY_RATE, DEFAULT_K, DEFAULT_TIME_WEIGHTED_CANDIDATES, DEFAULT_TIMESTAMP_FIELD, RetrieverKind,
    TimeWeightedSpec,
};
use toller_core::{CollectionName, Query, Result, ScoredDocument, SourceScore, Value};

use crate::access_log::AccessLog;
use crate::failure::Failure;
use crate::node::{Found, Node, Operator, is_skippable};
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
    accesses: Option<Accesses>,
}

/// A log, and its name in the document store.
struct Accesses {
    log: AccessLog,
    name: CollectionName,
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
        let Some(accesses) = Accesses::bind(binder, path, spec.access_log.as_ref()) else { return Ok(None) };
        Ok(timestamp.zip(retriever).map(|(timestamp, retriever)| Self {
            retriever,
            decay_rate: spec.decay_rate.unwrap_or(DEFAULT_DECAY_RATE),
            timestamp,
            other_scores,
            k: spec.k.unwrap_or(DEFAULT_K) as usize,
            accesses,
        }))
    }

    /// When each of `hits` was last found, where that is recorded. A log that cannot be read is told and counts for nothing.
    async fn last_accesses(&self, run: &Run, hits: &[ScoredDocument]) -> Result<Vec<Option<f64>>, Failure> {
        let Some(Accesses { log, name }) = &self.accesses else { return Ok(vec![None; hits.len()]) };
        match log.last(&run.context, name, hits).await {
            Err(error) if is_skippable(run, &error) => {
                run.warn(format!("the access log could not be read, and only the documents' own times count: {error}"));
                Ok(vec![None; hits.len()])
            }
            accesses => Ok(accesses?),
        }
    }

    /// (1 − decay)^hours since the document's own time or `access`, whichever is later; none when it has neither.
    fn recency(&self, hit: &ScoredDocument, access: Option<f64>, now: f64) -> Option<f64> {
        let own = self.timestamp.find(&hit.document.metadata).and_then(unix_seconds);
        let moment = [own, access].into_iter().flatten().reduce(f64::max)?;
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

impl Accesses {
    /// The log that the message at `path` names, or none where it names none; nothing with a fault.
    fn bind(binder: &mut Binder<'_>, path: &str, declared: Option<&CollectionName>) -> Option<Option<Self>> {
        const FIELD: &str = "access_log";

        let Some(declared) = declared else { return Some(None) };
        let Some(log) = binder.access_log() else {
            binder.fault(path, FIELD, "this server has no document store to keep it in");
            return None;
        };
        match AccessLog::stored_name(declared) {
            Ok(name) => Some(Some(Self { log, name })),
            Err(fault) => {
                binder.fault(path, FIELD, format!("is too long: its name in the document store {fault}"));
                None
            }
        }
    }
}

#[async_trait]
impl Operator for TimeWeighted {
    async fn run(&self, run: &Run, query: &Query) -> Found {
        let mut hits = self.retriever.run(run, query).await?;
        let now = run.now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let accesses = self.last_accesses(run, &hits).await?;
        let mut without_time = 0_usize;
        for (hit, access) in hits.iter_mut().zip(accesses) {
            let recency = self.recency(hit, access, now);
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
        if let Some(Accesses { log, name }) = &self.accesses {
            log.record(&run.context, name, &hits, now);
        }
        Ok(hits)
    }
}
