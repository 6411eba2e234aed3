//! The second layer: records by vector. A backend gives a few things; relevance, thresholds and MMR follow from them, the
//! same on every backend.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::collection::{CollectionName, Durability, VectorParams};
use crate::context::RequestContext;
use crate::document::{DocumentId, Record};
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::keyword::{KEYWORD_SOURCE, KeywordSearch};
use crate::metric::Metric;
use crate::mmr::maximal_marginal_relevance;
use crate::relevance::RelevanceFunction;
use crate::score::{ScoredDocument, SourceScore};
use crate::vector::Vector;
use crate::vector_space::VectorName;

/// Which records an operation is about.
#[derive(Debug, Clone, PartialEq)]
pub enum Selector {
    /// These ids; none selects nothing.
    Ids(Vec<DocumentId>),
    /// All that match.
    Filter(Filter),
    /// Every record.
    All,
}

/// A search by vector.
#[derive(Debug, Clone, Copy)]
pub struct VectorSearch<'a> {
    /// The query, in the dimension of the space that is searched.
    pub vector: &'a Vector,
    /// The named space that is searched, in its metric; none is the main one. Records without a vector in it are never
    /// found, and are no matches.
    pub using: Option<&'a VectorName>,
    /// Which records take part, decided before scoring.
    pub filter: Option<&'a Filter>,
    /// Most hits; exactly min(limit, matches) come back.
    pub limit: usize,
}

/// A record with its score for a query.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredRecord {
    /// The record.
    pub record: Record,
    /// The value of the metric of the space that was searched; for keywords the BM25 score.
    pub score: f64,
}

/// A part of a collection, in a stable order.
#[derive(Debug, Clone, PartialEq)]
pub struct ScrollPage {
    /// Up to the asked number of records.
    pub records: Vec<Record>,
    /// Where the next page begins; none when this was the last one.
    pub next: Option<DocumentId>,
}

/// Takes the records of a [`VectorStore::snapshot`], some at a time, on a thread where it may block.
pub type RecordSink = Box<dyn FnMut(Vec<Record>) -> Result<()> + Send>;

/// Records that come some at a time, for [`VectorStore::apply`]. Memory holds as many as one answer has, so answers had better
/// be of some hundreds. A list of batches is one.
#[async_trait]
pub trait RecordSource: Send {
    /// The next records; none when there are no more. An empty list is not the end.
    ///
    /// # Errors
    /// Whatever keeps them from being had; then nothing is changed.
    async fn next(&mut self) -> Result<Option<Vec<Record>>>;
}

#[async_trait]
impl RecordSource for std::vec::IntoIter<Vec<Record>> {
    async fn next(&mut self) -> Result<Option<Vec<Record>>> {
        Ok(Iterator::next(self))
    }
}

/// What [`VectorStore::apply`] is to change.
pub struct ChangeSet {
    /// Records to remove; missing ids are no error, and an id that is written as well is written.
    pub delete: Vec<DocumentId>,
    /// Records to write, replacing those with the same ids.
    pub upsert: Box<dyn RecordSource>,
}

impl ChangeSet {
    /// Removes what has these ids, and writes records that are there already.
    pub fn new(delete: Vec<DocumentId>, upsert: Vec<Vec<Record>>) -> Self {
        Self { delete, upsert: Box::new(upsert.into_iter()) }
    }
}

impl fmt::Debug for ChangeSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ChangeSet").field("delete", &self.delete.len()).finish_non_exhaustive()
    }
}

/// What [`VectorStore::apply`] changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Applied {
    /// Records that were written.
    pub upserted: u64,
    /// Records that were there and are not any more.
    pub deleted: u64,
}

/// Which hits are good enough. Both bounds are inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Thresholds {
    /// Least relevance, in [0, 1].
    pub relevance: Option<f64>,
    /// The metric's own value: at least this for cosine and dot, at most this for Euclidean.
    pub raw_score: Option<f64>,
}

/// How scores are told and judged.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Scoring {
    /// How relevance follows from the metric's value.
    pub relevance: RelevanceFunction,
    /// Which hits are good enough.
    pub thresholds: Thresholds,
}

/// How [`VectorStore::max_marginal_relevance`] chooses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MmrParams {
    /// Most hits.
    pub k: usize,
    /// Candidates to choose from; at least `k` are taken.
    pub fetch_k: usize,
    /// 1 is pure relevance, 0 is pure diversity.
    pub lambda_mult: f64,
}

/// Keeps records by vector. The tenant of the context is part of every key: no call can reach another tenant's records.
///
/// Order is total on every backend: better score first, then (memory) insertion order, then id bytes.
#[allow(clippy::too_many_arguments, reason = "a search has that many independent parts")]
#[async_trait]
pub trait VectorStore: Send + Sync {
    /// The backend's name, such as `memory`; also the value of the span attribute `toller.store`.
    fn backend(&self) -> &'static str;

    /// What an acknowledged write survives.
    fn durability(&self) -> Durability;

    /// Makes room for a collection.
    ///
    /// # Errors
    /// `AlreadyExists`; `InvalidArgument` for a dimension out of range, named spaces of
    /// [`check_named_spaces`](crate::vector_space::check_named_spaces), or a quantisation that the backend does not have.
    async fn create(&self, context: &RequestContext, collection: &CollectionName, params: VectorParams) -> Result<()>;

    /// Drops a collection with all it holds.
    ///
    /// # Errors
    /// `NotFound`.
    async fn drop_collection(&self, context: &RequestContext, collection: &CollectionName) -> Result<()>;

    /// What the collection was made with.
    ///
    /// # Errors
    /// `NotFound`.
    async fn params(&self, context: &RequestContext, collection: &CollectionName) -> Result<VectorParams>;

    /// Writes records, replacing those with the same ids; all or none. Ids within one call are distinct.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument` for an id that stands twice, a vector of another dimension, or one in a space that the
    /// collection does not have.
    async fn upsert(&self, context: &RequestContext, collection: &CollectionName, records: Vec<Record>) -> Result<()>;

    /// Removes records; missing ids are no error. Returns how many were there.
    ///
    /// # Errors
    /// `NotFound`.
    async fn delete(&self, context: &RequestContext, collection: &CollectionName, selector: &Selector) -> Result<u64>;

    /// Removes and writes any number of records in one commit: readers see all of it or nothing, and so does the next process
    /// after a crash at any moment. Where a commit fails late, a store may still finish it after it was told so.
    ///
    /// Memory holds one answer of the source at a time and all ids; the memory store holds everything. Other writes may have to
    /// wait until it is done, reads do not, but for the moment in which records are removed and replaced.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument` as [`Self::upsert`], also for an id that stands twice in different answers of the source;
    /// what the source returns. After those nothing is changed.
    async fn apply(&self, context: &RequestContext, collection: &CollectionName, changes: ChangeSet)
    -> Result<Applied>;

    /// Up to `limit` ids in the order of their bytes, from the id `from` on (inclusive). Neither texts nor vectors are read.
    ///
    /// # Errors
    /// `NotFound`.
    async fn ids(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        from: Option<&DocumentId>,
        limit: usize,
    ) -> Result<Vec<DocumentId>>;

    /// Records by id, aligned with the input: none where missing, repeated where an id is repeated.
    ///
    /// # Errors
    /// `NotFound` for the collection.
    async fn get(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        ids: &[DocumentId],
    ) -> Result<Vec<Option<Record>>>;

    /// The best records for a vector: filter, then score, then exactly min(limit, matches) in the total order.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument` for a vector of another dimension, or for `vector_name` when there is no such space.
    async fn search(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        search: VectorSearch<'_>,
    ) -> Result<Vec<ScoredRecord>>;

    /// The best records for keywords: filter, then BM25, then exactly min(limit, matches) in the total order. A record
    /// matches when its text has at least one term of the query.
    ///
    /// The score is that of `toller_store::keyword`: above 0, without an upper bound, more is better. Its statistics
    /// are those of all records of the collection, whatever the filter.
    ///
    /// # Errors
    /// `NotFound`; `FailedPrecondition` of [`keyword_not_indexed`](crate::keyword::keyword_not_indexed) when the
    /// collection was made without keyword parameters.
    async fn keyword_search(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        search: KeywordSearch<'_>,
    ) -> Result<Vec<ScoredRecord>>;

    /// Up to `limit` matching records in the order of id bytes, from the id `from` on (inclusive).
    ///
    /// The cursor is an id, so that it stays right while others write.
    ///
    /// # Errors
    /// `NotFound`.
    async fn scroll(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        filter: Option<&Filter>,
        from: Option<&DocumentId>,
        limit: usize,
    ) -> Result<ScrollPage>;

    /// How many records match.
    ///
    /// # Errors
    /// `NotFound`.
    async fn count(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        filter: Option<&Filter>,
    ) -> Result<u64>;

    /// Hands every record to `sink`, all as of one moment, in no particular order: a write meanwhile is in it whole or not
    /// at all. Reads go on; where writes have to wait for the sink, it had better be quick. Returns how many there were.
    ///
    /// # Errors
    /// `NotFound`; what the sink returns, at once.
    async fn snapshot(&self, context: &RequestContext, collection: &CollectionName, sink: RecordSink) -> Result<u64>;

    /// Similarity search with scores and relevance. Filter, then score, then threshold, then the best `k`.
    ///
    /// Thresholds are monotone in the score, so that applying them to the best `k` is the same as applying them first.
    ///
    /// # Errors
    /// As [`Self::search`]; `InvalidArgument` when the relevance function does not apply to the metric of the space.
    async fn similarity(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        search: VectorSearch<'_>,
        scoring: Scoring,
    ) -> Result<Vec<ScoredDocument>> {
        let metric = self.params(context, collection).await?.space(search.using)?.metric;
        check_relevance(scoring.relevance, metric)?;
        let using = search.using;
        let hits = self.search(context, collection, search).await?;
        Ok(hits
            .into_iter()
            .map(|hit| scored_document(hit, using, metric, scoring.relevance))
            .filter(|hit| passes(hit, metric, scoring.thresholds))
            .zip(1..)
            .map(|(hit, rank)| ScoredDocument {
                sources: vec![SourceScore { source: SIMILARITY_SOURCE.to_owned(), score: hit.score, rank }],
                rank,
                ..hit
            })
            .collect())
    }

    /// Search by maximal marginal relevance among the best max(k, fetch_k) matches that pass the thresholds.
    ///
    /// Hits come in the order of the picks; `sources` carries the similarity score with its rank among the candidates, and
    /// the MMR score with the rank of the pick. O(k·n·d) after the search, for n candidates.
    ///
    /// # Errors
    /// As [`Self::similarity`].
    async fn max_marginal_relevance(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        vector: &Vector,
        using: Option<&VectorName>,
        filter: Option<&Filter>,
        params: MmrParams,
        scoring: Scoring,
    ) -> Result<Vec<ScoredDocument>> {
        let search = VectorSearch { vector, using, filter, limit: params.fetch_k.max(params.k) };
        let candidates = self.similarity(context, collection, search, scoring).await?;
        Ok(choose_by_marginal_relevance(candidates, vector, params.k, params.lambda_mult))
    }
}

/// Chooses up to `k` of the hits of a similarity search by maximal marginal relevance: what
/// [`VectorStore::max_marginal_relevance`] does after its search.
///
/// Hits without a vector are passed over. O(k·n·d) for n candidates of dimension d.
pub fn choose_by_marginal_relevance(
    candidates: Vec<ScoredDocument>,
    vector: &Vector,
    k: usize,
    lambda_mult: f64,
) -> Vec<ScoredDocument> {
    let mut candidates: Vec<Option<ScoredDocument>> =
        candidates.into_iter().filter(|hit| hit.vector.is_some()).map(Some).collect();
    let vectors: Vec<&[f32]> =
        candidates.iter().flatten().filter_map(|hit| hit.vector.as_ref().map(Vector::as_slice)).collect();
    let picks = maximal_marginal_relevance(vector.as_slice(), &vectors, k, lambda_mult);
    let mut hits = Vec::with_capacity(picks.len());
    for (pick, rank) in picks.into_iter().zip(1..) {
        if let Some(mut hit) = candidates.get_mut(pick.index).and_then(Option::take) {
            hit.rank = rank;
            hit.sources.push(SourceScore { source: MMR_SOURCE.to_owned(), score: pick.score, rank });
            hits.push(hit);
        }
    }
    hits
}

/// The hits of a keyword search as scored documents, in their order: without relevance, since a BM25 score has no upper
/// bound, and without a metric.
pub fn keyword_documents(hits: Vec<ScoredRecord>) -> Vec<ScoredDocument> {
    let ranked = hits.into_iter().zip(1..);
    let scored = ranked.map(|(hit, rank)| ScoredDocument {
        document: hit.record.document,
        score: hit.score,
        relevance: None,
        metric: None,
        rank,
        sources: vec![SourceScore { source: KEYWORD_SOURCE.to_owned(), score: hit.score, rank }],
        vector: Some(hit.record.vector),
        matched_children: Vec::new(),
        extracts: Vec::new(),
    });
    scored.collect()
}

/// Shared ownership of a store.
pub type SharedVectorStore = Arc<dyn VectorStore>;

/// The leg that ranks by the collection's metric.
pub const SIMILARITY_SOURCE: &str = "similarity";

/// The leg that ranks by maximal marginal relevance.
pub const MMR_SOURCE: &str = "mmr";

/// Refuses a relevance function that is not defined for the metric.
///
/// # Errors
/// `InvalidArgument` for `relevance_fn`.
pub fn check_relevance(relevance: RelevanceFunction, metric: Metric) -> Result<()> {
    if relevance.applies_to(metric) {
        return Ok(());
    }
    Err(Error::invalid("relevance_fn", format!("{relevance} is not defined for the collection's metric {metric}")))
}

fn scored_document(
    hit: ScoredRecord,
    using: Option<&VectorName>,
    metric: Metric,
    relevance: RelevanceFunction,
) -> ScoredDocument {
    let (document, vector) = hit.record.into_parts(using);
    ScoredDocument {
        document,
        score: hit.score,
        relevance: Some(relevance.relevance(metric, hit.score)),
        metric: Some(metric),
        rank: 0,
        sources: Vec::new(),
        vector,
        matched_children: Vec::new(),
        extracts: Vec::new(),
    }
}

fn passes(hit: &ScoredDocument, metric: Metric, thresholds: Thresholds) -> bool {
    thresholds.relevance.is_none_or(|least| hit.relevance.is_some_and(|relevance| relevance >= least))
        && thresholds.raw_score.is_none_or(|bound| metric.reaches(hit.score, bound))
}
