//! From small documents to those that they stand for.
//!
//! LangChain's `k` counts children, so that four chunks of one document are all that it answers; here it counts parents. Parents
//! carry scores and the children that led to them, and children without a parent are reported.

use std::collections::BTreeMap;
use std::sync::Arc;

use toller_core::filter::KeyPath;
use toller_core::retriever::{DEFAULT_ID_KEY, DEFAULT_K, ParentScore, ParentSource};
use toller_core::{
    CollectionName, Document, DocumentId, DocumentStore, Error, MatchedChild, Metric, RequestContext, Result,
    ScoredDocument, TextSpan, Value,
};
use toller_store::CollectionHandle;

use crate::plan::Binder;
use crate::run::Run;

/// Where a chunk begins in the text that it was cut from, in code points: what Toller's and LangChain's splitters write.
const START_INDEX: &str = "start_index";
/// Why distances are not added up.
const NO_SUM: &str = "sum is not defined for Euclidean distances: more children would make a parent worse";
/// Most ids that a warning names.
const NAMED_IDS: usize = 3;

/// The parents of one retriever.
pub(crate) struct Parents {
    source: Source,
    id_key: KeyPath,
    pub(crate) k: usize,
    score: ParentScore,
}

enum Source {
    Collection(CollectionHandle),
    Documents(Arc<dyn DocumentStore>, CollectionName),
}

/// What a declaration says about parents.
pub(crate) struct Declared<'a> {
    pub(crate) source: &'a ParentSource,
    pub(crate) id_key: Option<&'a str>,
    pub(crate) k: Option<u32>,
    pub(crate) score: ParentScore,
}

impl Parents {
    /// Checks what the message at `path` says about parents; none when there are faults.
    pub(crate) async fn bind(binder: &mut Binder<'_>, path: &str, declared: Declared<'_>) -> Result<Option<Self>> {
        binder.check_count(path, "k", declared.k);
        let id_key = binder.key_path(path, "id_key", declared.id_key.unwrap_or(DEFAULT_ID_KEY));
        let source = match declared.source {
            ParentSource::Collection(name) => {
                binder.collection(path, "parents.collection", name).await?.map(Source::Collection)
            }
            ParentSource::DocumentStore(name) => match binder.documents() {
                Some(documents) => Some(Source::Documents(documents, name.clone())),
                None => {
                    binder.fault(path, "parents.document_store", "this server has no document store");
                    None
                }
            },
        };
        let k = declared.k.unwrap_or(DEFAULT_K) as usize;
        Ok(source.zip(id_key).map(|(source, id_key)| Self { source, id_key, k, score: declared.score }))
    }

    /// Documents by id, aligned with `ids`.
    async fn get(&self, context: &RequestContext, ids: &[DocumentId]) -> Result<Vec<Option<Arc<Document>>>> {
        match &self.source {
            Source::Collection(collection) => {
                let records = collection.get(context, ids).await?;
                Ok(records.into_iter().map(|record| record.map(|record| record.document)).collect())
            }
            Source::Documents(documents, name) => {
                let found = documents.get(context, name, ids).await?;
                Ok(found.into_iter().map(|document| document.map(Arc::new)).collect())
            }
        }
    }
}

/// Children by parent, while children are still being fetched.
#[derive(Default)]
pub(crate) struct Families {
    /// In the order of their first children.
    families: Vec<Family>,
    /// Parents that were looked up; none for those that do not exist.
    known: BTreeMap<DocumentId, Option<Arc<Document>>>,
    without_parent_id: usize,
}

struct Family {
    parent: DocumentId,
    children: Vec<ScoredDocument>,
}

impl Families {
    /// Takes `children`, best first, in place of those before: a later batch begins with all of an earlier one.
    pub(crate) fn replace(&mut self, parents: &Parents, children: Vec<ScoredDocument>) {
        self.families.clear();
        self.without_parent_id = 0;
        let mut positions: BTreeMap<DocumentId, usize> = BTreeMap::new();
        for child in children {
            let parent = match parents.id_key.find(&child.document.metadata) {
                Some(Value::String(id)) => DocumentId::new(id).ok(),
                _ => None,
            };
            let Some(parent) = parent else {
                self.without_parent_id += 1;
                continue;
            };
            let position = *positions.entry(parent.clone()).or_insert(self.families.len());
            match self.families.get_mut(position) {
                Some(family) => family.children.push(child),
                None => self.families.push(Family { parent, children: vec![child] }),
            }
        }
    }

    /// Looks up the parents that are not known yet, and returns how many there are of all.
    pub(crate) async fn look_up(&mut self, parents: &Parents, context: &RequestContext) -> Result<usize> {
        let is_new = |family: &&Family| !self.known.contains_key(&family.parent);
        let ids: Vec<DocumentId> = self.families.iter().filter(is_new).map(|family| family.parent.clone()).collect();
        if !ids.is_empty() {
            let found = parents.get(context, &ids).await?;
            self.known.extend(ids.into_iter().zip(found));
        }
        Ok(self.families.iter().filter(|family| self.parent(family).is_some()).count())
    }

    fn parent(&self, family: &Family) -> Option<&Arc<Document>> {
        self.known.get(&family.parent)?.as_ref()
    }

    /// The parents of the best children, at most k, in the order of their own scores.
    ///
    /// # Errors
    /// `InvalidArgument` for a sum of Euclidean distances.
    pub(crate) fn into_hits(self, parents: &Parents, run: &Run) -> Result<Vec<ScoredDocument>> {
        let mut dangling: Vec<&DocumentId> = Vec::new();
        let mut hits = Vec::new();
        for family in &self.families {
            if hits.len() == parents.k {
                break;
            }
            match self.parent(family) {
                None => dangling.push(&family.parent),
                Some(parent) => hits.extend(parent_hit(parent, &family.children, parents.score)?),
            }
        }
        if !dangling.is_empty() {
            let named: Vec<&str> = dangling.iter().take(NAMED_IDS).map(|id| id.as_str()).collect();
            let more = if dangling.len() > NAMED_IDS { ", …" } else { "" };
            let count = dangling.len();
            run.warn(format!("{count} parents of matching children do not exist: {}{more}", named.join(", ")));
        }
        if self.without_parent_id > 0 {
            let (count, key) = (self.without_parent_id, parents.id_key.as_str());
            run.warn(format!("{count} matching children have no parent's id, a string, at {key:?} in their metadata"));
        }
        // Stable: ties stay in the order of the best children.
        hits.sort_by(|left, right| match left.metric {
            Some(metric) => metric.better_first(left.score, right.score),
            None => right.score.total_cmp(&left.score),
        });
        Ok(hits)
    }
}

/// A parent with the scores of its children; none without children.
fn parent_hit(
    parent: &Arc<Document>,
    children: &[ScoredDocument],
    score: ParentScore,
) -> Result<Option<ScoredDocument>> {
    let Some(first) = children.first() else { return Ok(None) };
    // Children of one search have one metric; where they come from several there is none that they share.
    let metric = first.metric.filter(|metric| children.iter().all(|child| child.metric == Some(*metric)));
    let better = |left: &&ScoredDocument, right: &&ScoredDocument| match metric {
        Some(metric) => metric.better_first(left.score, right.score),
        None => right.score.total_cmp(&left.score),
    };
    // Of equal ones the first.
    let best = children.iter().min_by(better).unwrap_or(first);
    let count = children.len() as f64;
    let sum = children.iter().map(|child| child.score).sum::<f64>();
    let relevances = children.iter().map(|child| child.relevance).collect::<Option<Vec<f64>>>();
    let (value, relevance, metric) = match score {
        ParentScore::Max => (best.score, best.relevance, metric),
        ParentScore::First => (first.score, first.relevance, metric),
        ParentScore::Mean => {
            let mean = relevances.map(|relevances| (relevances.iter().sum::<f64>() / count).clamp(0.0, 1.0));
            (sum / count, mean, metric)
        }
        ParentScore::Sum if children.iter().any(|child| child.metric == Some(Metric::Euclidean)) => {
            return Err(Error::invalid("score", NO_SUM));
        }
        ParentScore::Sum => (sum, None, None),
    };
    Ok(Some(ScoredDocument {
        document: Arc::clone(parent),
        score: value,
        relevance,
        metric,
        rank: 0,
        sources: best.sources.clone(),
        vector: None,
        matched_children: children.iter().map(|child| matched_child(parent, child)).collect(),
        extracts: Vec::new(),
    }))
}

fn matched_child(parent: &Document, child: &ScoredDocument) -> MatchedChild {
    MatchedChild {
        document: Arc::clone(&child.document),
        score: child.score,
        relevance: child.relevance,
        rank: child.rank,
        span: span_within(parent, &child.document),
    }
}

/// Where the child says that its text is in its parent's; none unless it is there. O(length of the parent's text).
fn span_within(parent: &Document, child: &Document) -> Option<TextSpan> {
    let Some(Value::Int(start)) = child.metadata.get(START_INDEX) else { return None };
    let start = usize::try_from(*start).ok()?;
    let begin = parent.page_content.char_indices().map(|(byte, _)| byte).nth(start)?;
    let is_there = parent.page_content.get(begin..)?.starts_with(&child.page_content);
    is_there.then(|| TextSpan { start, end: start + child.page_content.chars().count() })
}

/// Refuses a sum of Euclidean distances where the metric is known before anything runs.
pub(crate) fn check_sum(binder: &mut Binder<'_>, path: &str, score: ParentScore, metric: Metric) {
    if score == ParentScore::Sum && metric == Metric::Euclidean {
        binder.fault(path, "score", NO_SUM);
    }
}
