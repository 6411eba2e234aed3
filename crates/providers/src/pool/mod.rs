//! A pool of embedding workers: the `Embedder` services of other processes, as one provider.
//!
//! [`WorkerPool::start`] waits for a first worker and takes its models as those of the pool; [`WorkerPool::embeddings`] and
//! [`WorkerPool::rerankers`] then answer like models in this process. `members` knows which workers there are and probes
//! them, `standing` decides which of them are healthy, `call` chooses one and retries, `split` spreads large batches, and
//! `failure` says what an answer that is none means. Fingerprints are the workers' own, so that a collection can be served by
//! a model in process today and by a pool tomorrow.

mod address;
mod call;
mod config;
mod embeddings;
mod failure;
mod fault;
mod load;
mod members;
mod models;
mod probe;
mod reranker;
mod resolve;
mod split;
mod standing;
mod worker;

use std::sync::Arc;

use async_trait::async_trait;
use toller_core::{Error, Result};

pub use address::{WorkerAddress, WorkerAddresses};
pub use config::{PoolConfig, PoolConfigBuilder};
pub use embeddings::PooledEmbeddings;
pub use models::{PoolModel, PoolModelKind};
pub use reranker::PooledReranker;
pub use resolve::{Resolve, SystemResolver};

use self::call::Caller;
use self::members::{Members, Task};
use crate::error::ProviderError;
use crate::reachable::Reachable;

/// The provider of rerankers: the kind of the service that is called.
const PROVIDER: &str = "toller";

/// Parts of one batch for each healthy worker: one in work and one on its way.
const PARTS_PER_WORKER: usize = 2;

/// What all models of a pool share. Its tasks end when the last of them is dropped.
struct Pool {
    caller: Caller,
    _keeper: Task,
}

impl Pool {
    /// How many parts of one batch are with workers at a time.
    fn parallel(&self) -> usize {
        let (_, healthy) = self.caller.members.numbers();
        self.caller.members.config.parallel_parts.min(PARTS_PER_WORKER * healthy.max(1))
    }
}

/// How many workers a pool has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerCounts {
    /// All that its addresses lead to.
    pub known: usize,
    /// Those that calls are sent to.
    pub healthy: usize,
}

/// A pool of workers, all with the same models. Cheap to clone; it lives as long as one of its clones or models.
///
/// A call goes to the less loaded of two healthy workers drawn at random, by the tokens that wait there. It is sent again, to
/// another worker, when the connection breaks, the worker stops or is full, as long as the deadline, a number of attempts and
/// a budget over all calls allow; what every worker would refuse is never sent again. Workers that fail are left out until a
/// probe succeeds. Without any worker, calls are `Unavailable` after [`PoolConfigBuilder::recovery_wait`].
#[derive(Clone)]
pub struct WorkerPool(Arc<Pool>);

impl WorkerPool {
    /// Waits for a first worker that serves, and begins to watch all of them. Workers that come later are found by probes.
    ///
    /// # Errors
    /// [`ProviderError::Unusable`] when there is none within the start's time-out, or at once when all refuse us.
    pub async fn start(config: PoolConfig) -> Result<Self, ProviderError> {
        let (members, keeper) = Members::start(config).await?;
        Ok(Self(Arc::new(Pool { caller: Caller::new(members), _keeper: keeper })))
    }

    /// The models that every worker has, as the first one listed them.
    pub fn models(&self) -> &[PoolModel] {
        self.0.caller.members.models()
    }

    /// Every embedding model, the default one first.
    pub fn embeddings(&self) -> Vec<PooledEmbeddings> {
        let make = |model: &PoolModel| {
            let fingerprint = model.fingerprint()?.clone();
            let (name, is_default) = (model.name.clone(), model.is_default);
            Some(PooledEmbeddings { pool: Arc::clone(&self.0), fingerprint, name, is_default })
        };
        self.default_first().into_iter().filter_map(make).collect()
    }

    /// Every reranker, the default one first.
    pub fn rerankers(&self) -> Vec<PooledReranker> {
        let make = |model: &PoolModel| PooledReranker {
            pool: Arc::clone(&self.0),
            name: model.name.clone(),
            is_default: model.is_default,
            max_tokens: model.max_tokens,
        };
        let rerankers = self.default_first().into_iter().filter(|model| model.kind == PoolModelKind::Reranker);
        rerankers.map(make).collect()
    }

    /// How many workers there are now.
    pub fn workers(&self) -> WorkerCounts {
        let (known, healthy) = self.0.caller.members.numbers();
        WorkerCounts { known, healthy }
    }

    fn default_first(&self) -> Vec<&PoolModel> {
        let (mut models, others): (Vec<_>, Vec<_>) = self.models().iter().partition(|model| model.is_default);
        models.extend(others);
        models
    }
}

#[async_trait]
impl Reachable for WorkerPool {
    /// Is any worker healthy, as far as its last probe and the last calls say? Asks nobody.
    async fn reach(&self) -> Result<()> {
        if self.workers().healthy > 0 {
            return Ok(());
        }
        let faults = self.0.caller.members.faults();
        Err(Error::Unavailable(format!("no embedding worker can be used: {faults}")))
    }
}
