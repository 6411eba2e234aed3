//! One run of a tree: what all its nodes share, and what it tells besides the hits.
//!
//! This is a value of its own, and not a part of the trait `Retriever` or of the request's context: the lower layers have no use
//! for it, and a retriever that is no tree need not know it. Nodes reach it by reference, each with its own place in the tree, and
//! whatever they tell is put in the order of the tree at the end, so that the order of completion never shows.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use toller_core::{ChatMessage, Embeddings, Metadata, RequestContext, Result, ScoredDocument};

use crate::hyde::Hypothesis;
use crate::query_memo::QueryMemo;

/// What a caller may say about a run.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// Facts about the request, for routers.
    pub metadata: Metadata,
    /// The conversation before the query, oldest message first, for retrievers that rephrase.
    pub history: Vec<ChatMessage>,
    /// Shall the answer have a trace?
    pub with_trace: bool,
    /// The present moment; none for the system's clock, read once when the run begins.
    pub now: Option<SystemTime>,
}

/// What a run gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Best first.
    pub hits: Vec<ScoredDocument>,
    /// In the order of the tree.
    pub warnings: Vec<Warning>,
    /// The nodes that ran to their end, in the order of the tree; empty unless asked for.
    pub trace: Vec<TraceNode>,
}

/// Something that the caller should know about an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Path of the retriever or compressor; empty for the outermost one.
    pub path: String,
    /// Lower case, no final stop.
    pub message: String,
}

/// One node that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceNode {
    /// Path; empty for the outermost one.
    pub path: String,
    /// The kind of retriever.
    pub kind: &'static str,
    /// The given name, or the kind.
    pub name: String,
    /// Since it began.
    pub duration: Duration,
    /// Number of its hits, or why it failed.
    pub outcome: std::result::Result<usize, String>,
}

/// Where a node is in its tree.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The path of its message; empty for the outermost one.
    pub(crate) path: Arc<str>,
    /// Its number in the order of the tree, parents before children.
    pub(crate) order: usize,
}

/// The run, as one node sees it.
#[derive(Clone)]
pub(crate) struct Run {
    /// The request's context, with the node's deadline.
    pub(crate) context: RequestContext,
    place: Place,
    /// Which of several runs of the same node this is, from the outermost retriever that asks one below it several times inwards.
    turns: Vec<usize>,
    /// What is searched with instead of the query.
    hypothesis: Option<Arc<Hypothesis>>,
    shared: Arc<Shared>,
}

/// What is told is put in the order of the tree, and within a node in that of its turns.
type Order = (usize, Vec<usize>);

struct Shared {
    queries: QueryMemo,
    now: SystemTime,
    metadata: Metadata,
    history: Vec<ChatMessage>,
    warnings: Mutex<Vec<(Order, Warning)>>,
    trace: Option<Mutex<Vec<(Order, TraceNode)>>>,
}

impl Run {
    pub(crate) fn new(context: &RequestContext, options: RunOptions) -> Self {
        let shared = Shared {
            queries: QueryMemo::default(),
            now: options.now.unwrap_or_else(SystemTime::now),
            metadata: options.metadata,
            history: options.history,
            warnings: Mutex::default(),
            trace: options.with_trace.then(Mutex::default),
        };
        let place = Place { path: "".into(), order: 0 };
        Self { context: context.clone(), place, turns: Vec::new(), hypothesis: None, shared: Arc::new(shared) }
    }

    /// The run as the node at `place` sees it, which has `timeout` at most.
    pub(crate) fn enter(&self, place: &Place, timeout: Option<Duration>) -> Self {
        let own = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let deadline = [self.context.deadline(), own].into_iter().flatten().min();
        let context = self.context.clone().with_deadline(deadline);
        Self { context, place: place.clone(), ..self.clone() }
    }

    /// The run as a node sees it that is asked several times, at its `turn`.
    pub(crate) fn at_turn(&self, turn: usize) -> Self {
        let mut run = self.clone();
        run.turns.push(turn);
        run
    }

    /// The run in which `hypothesis` is searched with.
    pub(crate) fn supposing(&self, hypothesis: Hypothesis) -> Self {
        Self { hypothesis: Some(Arc::new(hypothesis)), ..self.clone() }
    }

    /// The vector to search with for `text`: that of the query, or what stands for it.
    ///
    /// # Errors
    /// What embedding reports.
    pub(crate) async fn search_vector(&self, model: &dyn Embeddings, text: &str) -> Result<Vec<f32>> {
        match &self.hypothesis {
            Some(hypothesis) if hypothesis.stands_for(text) => hypothesis.vector(self, model).await,
            _ => self.queries().vector(&self.context, model, text).await,
        }
    }

    /// The vectors of queries that this run has embedded.
    pub(crate) fn queries(&self) -> &QueryMemo {
        &self.shared.queries
    }

    /// The present moment, the same for every node.
    pub(crate) fn now(&self) -> SystemTime {
        self.shared.now
    }

    /// What the request says about itself.
    pub(crate) fn metadata(&self) -> &Metadata {
        &self.shared.metadata
    }

    /// The conversation before the query.
    pub(crate) fn history(&self) -> &[ChatMessage] {
        &self.shared.history
    }

    /// Tells the caller something about this node.
    pub(crate) fn warn(&self, message: impl Into<String>) {
        self.warn_at(&self.place.path, message);
    }

    /// Tells the caller something about a part of this node that has a path of its own.
    pub(crate) fn warn_at(&self, path: &str, message: impl Into<String>) {
        let warning = Warning { path: path.to_owned(), message: message.into() };
        tracing::debug!(path = warning.path, warning = warning.message, "a retriever went on with a warning");
        self.shared.warnings.lock().push((self.order(), warning));
    }

    /// Adds this node to the trace, where there is one.
    pub(crate) fn trace(&self, node: impl FnOnce() -> TraceNode) {
        if let Some(trace) = &self.shared.trace {
            trace.lock().push((self.order(), node()));
        }
    }

    fn order(&self) -> Order {
        (self.place.order, self.turns.clone())
    }

    /// The answer with all that was told, in the order of the tree.
    pub(crate) fn answer(&self, hits: Vec<ScoredDocument>) -> Answer {
        let warnings = in_order(&mut self.shared.warnings.lock());
        let trace = self.shared.trace.as_ref().map(|trace| in_order(&mut trace.lock())).unwrap_or_default();
        Answer { hits, warnings, trace }
    }
}

/// Sorted by node and turn; what one node told in one turn stays in its order.
fn in_order<T>(told: &mut Vec<(Order, T)>) -> Vec<T> {
    let mut told = std::mem::take(told);
    told.sort_by(|(left, _), (right, _)| left.cmp(right));
    told.into_iter().map(|(_, item)| item).collect()
}
