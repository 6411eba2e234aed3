//! Which workers there are: found, watched, left out, and let in again.
//!
//! One task keeps the set of workers; one task per worker probes it. A healthy worker is probed now and then, one that is left
//! out when its pause is over, and any at once when a call asks for it. All end with the pool.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use parking_lot::RwLock;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use toller_telemetry::metrics::PoolMetrics;

use super::address::{WorkerAddress, WorkerAddresses};
use super::config::PoolConfig;
use super::fault::Fault;
use super::models::{PoolModel, check_models};
use super::probe::probe;
use super::standing::Epoch;
use super::worker::Worker;
use crate::error::ProviderError;

/// What a pool looks for, in errors.
pub(crate) const SERVICE: &str = "the pool of embedding workers";

/// Time for one look-up of a name.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Shortest time between two look-ups of a name, or two probes of a worker, however many calls ask for them.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// Pause between two rounds of looking for a first worker.
const PAUSE_BETWEEN_ROUNDS: Duration = Duration::from_millis(250);

/// Most workers of a name; further addresses are left out.
const MAX_WORKERS: usize = 1024;

/// Most workers whose faults a message lists.
const MAX_LISTED_FAULTS: usize = 4;

/// The workers of a pool.
pub(crate) struct Members {
    pub(crate) config: PoolConfig,
    pub(crate) metrics: PoolMetrics,
    /// What every worker must have.
    models: Vec<PoolModel>,
    workers: RwLock<Arc<[Arc<Worker>]>>,
    /// Changes whenever a worker becomes healthy.
    recoveries: watch::Sender<u64>,
    /// Asks for a look-up before its time.
    resolve_now: Notify,
}

/// A task that ends when this is dropped.
pub(crate) struct Task(JoinHandle<()>);

impl Task {
    fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Members {
    /// Waits for a first worker, whose models become the pool's, and watches over all from then on, as long as the task lives.
    ///
    /// # Errors
    /// [`ProviderError::Unusable`] says what each address said.
    pub(crate) async fn start(config: PoolConfig) -> Result<(Arc<Self>, Task), ProviderError> {
        let (models, known) = find_first(&config).await?;
        let members = Arc::new(Self {
            config,
            metrics: PoolMetrics::new(),
            models,
            workers: RwLock::new(known.values().cloned().collect()),
            recoveries: watch::Sender::new(0),
            resolve_now: Notify::new(),
        });
        members.count();
        let task = Task::spawn(Arc::clone(&members).keep(known));
        Ok((members, task))
    }

    pub(crate) fn models(&self) -> &[PoolModel] {
        &self.models
    }

    /// All workers, healthy or not.
    pub(crate) fn all(&self) -> Arc<[Arc<Worker>]> {
        Arc::clone(&self.workers.read())
    }

    /// How many there are, and how many of them are healthy.
    pub(crate) fn numbers(&self) -> (usize, usize) {
        let workers = self.all();
        (workers.len(), workers.iter().filter(|worker| worker.is_healthy()).count())
    }

    /// A receiver that changes when a worker recovers from now on.
    pub(crate) fn watch_recoveries(&self) -> watch::Receiver<u64> {
        self.recoveries.subscribe()
    }

    /// A call showed that `worker` cannot be used: sends it no more until a probe succeeds.
    pub(crate) fn broke(&self, worker: &Worker, epoch: Epoch, fault: Fault) {
        let (reason, said) = (fault.reason(), fault.to_string());
        let left_out = worker.standing.lock().broke(epoch, fault, Instant::now());
        if left_out {
            self.tell_left_out(worker, reason, &said);
        }
    }

    /// Counts a failed call, which may be the last one before `worker` is left out.
    pub(crate) fn failed(&self, worker: &Worker, epoch: Epoch, said: &str) {
        let left_out = worker.standing.lock().failed(epoch, said, Instant::now());
        if left_out {
            self.tell_left_out(worker, "failing", said);
        }
    }

    fn failed_probe(&self, worker: &Worker, fault: Fault) {
        let (reason, said) = (fault.reason(), fault.to_string());
        let was_healthy = worker.standing.lock().leave_out(fault, Instant::now());
        if was_healthy {
            self.tell_left_out(worker, reason, &said);
        }
    }

    fn tell_left_out(&self, worker: &Worker, reason: &'static str, fault: &str) {
        tracing::warn!(worker = %worker.address, reason, fault, "an embedding worker is left out until it recovers");
        self.metrics.record_ejection(reason);
        self.count();
        worker.wake.notify_one();
        self.resolve_now.notify_one();
    }

    /// Asks for probes of all workers that are left out, and for a look-up.
    pub(crate) fn hurry(&self) {
        self.resolve_now.notify_one();
        for worker in self.all().iter().filter(|worker| !worker.is_healthy()) {
            worker.ask_for_probe();
        }
    }

    /// What is wrong with each worker, for a message.
    pub(crate) fn faults(&self) -> String {
        let workers = self.all();
        if workers.is_empty() {
            return format!("{} has no address", self.config.addresses);
        }
        let faults: Vec<(String, String)> = workers
            .iter()
            .filter_map(|worker| {
                let fault = worker.standing.lock().fault()?.to_string();
                Some((worker.address.to_string(), fault))
            })
            .collect();
        list_faults(&faults)
    }

    /// The one fault of all workers, where all have another model than the pool.
    pub(crate) fn other_model(&self) -> Option<String> {
        let workers = self.all();
        let other_model = |worker: &Arc<Worker>| match worker.standing.lock().fault() {
            Some(fault @ Fault::OtherModel(_)) => Some(format!("{}: {fault}", worker.address)),
            _ => None,
        };
        let faults: Option<Vec<String>> = workers.iter().map(other_model).collect();
        faults?.into_iter().next()
    }

    fn count(&self) {
        let (known, healthy) = self.numbers();
        self.metrics.set_workers(known, healthy);
    }

    /// Keeps the set of workers as the addresses say, and a task for each.
    async fn keep(self: Arc<Self>, known: HashMap<WorkerAddress, Arc<Worker>>) {
        let mut kept: HashMap<WorkerAddress, (Arc<Worker>, Task)> = HashMap::new();
        for (address, worker) in known {
            let task = Task::spawn(Arc::clone(&self).watch(Arc::clone(&worker)));
            kept.insert(address, (worker, task));
        }
        let WorkerAddresses::Dns { .. } = &self.config.addresses else {
            // The list stays as it is; the tasks live in `kept`.
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep(SHORTEST_PAUSE).await;
            let rest = self.config.resolve_interval.saturating_sub(SHORTEST_PAUSE);
            let _either = tokio::time::timeout(rest, self.resolve_now.notified()).await;
            match addresses(&self.config).await {
                Ok(found) if !found.is_empty() => self.replace(&mut kept, found),
                // Nobody stops workers by taking the whole name away; more likely the name server is in trouble.
                Ok(_) => tracing::debug!(name = %self.config.addresses, "the name has no address; the workers stay"),
                Err(fault) => tracing::warn!(%fault, "the workers stay as they are"),
            }
        }
    }

    fn replace(self: &Arc<Self>, kept: &mut HashMap<WorkerAddress, (Arc<Worker>, Task)>, found: Vec<WorkerAddress>) {
        let before = kept.len();
        kept.retain(|address, _| {
            let stays = found.contains(address);
            if !stays {
                tracing::info!(worker = %address, "an embedding worker is gone from its name");
            }
            stays
        });
        let mut changed = kept.len() != before;
        for address in found {
            if kept.contains_key(&address) {
                continue;
            }
            match Worker::new(address.clone(), &self.config) {
                Ok(worker) => {
                    tracing::info!(worker = %address, "an embedding worker was found");
                    let worker = Arc::new(worker);
                    let task = Task::spawn(Arc::clone(self).watch(Arc::clone(&worker)));
                    kept.insert(address, (worker, task));
                    changed = true;
                }
                Err(fault) => tracing::warn!(%fault, "an embedding worker cannot be used"),
            }
        }
        if changed {
            *self.workers.write() = kept.values().map(|(worker, _)| Arc::clone(worker)).collect();
            self.count();
        }
    }

    /// Probes one worker for ever.
    async fn watch(self: Arc<Self>, worker: Arc<Worker>) {
        loop {
            let due = match worker.standing.lock().probe_at() {
                Some(at) => at,
                None => Instant::now() + jittered(self.config.probe_interval),
            };
            tokio::select! {
                () = tokio::time::sleep_until(due.into()) => {}
                () = worker.wake.notified() => {
                    if !worker.takes_probe_request() {
                        // Its standing has changed, and with it the time of the next probe.
                        continue;
                    }
                }
            }
            let proved = match probe(&worker).await {
                Ok(listed) => check_models(&self.models, &listed).map_err(Fault::OtherModel),
                Err(fault) => Err(fault),
            };
            match proved {
                Ok(()) => {
                    let recovered = worker.standing.lock().proved(Instant::now());
                    if recovered {
                        tracing::info!(worker = %worker.address, "an embedding worker is healthy");
                        self.count();
                        self.recoveries.send_modify(|count| *count = count.wrapping_add(1));
                    }
                }
                Err(fault) => self.failed_probe(&worker, fault),
            }
            // However often calls ask for a probe.
            tokio::time::sleep(SHORTEST_PAUSE).await;
        }
    }
}

/// Looks for a worker that answers, until the time for the start is over.
async fn find_first(
    config: &PoolConfig,
) -> Result<(Vec<PoolModel>, HashMap<WorkerAddress, Arc<Worker>>), ProviderError> {
    let give_up = Instant::now() + config.start_timeout;
    let mut known: HashMap<WorkerAddress, Arc<Worker>> = HashMap::new();
    loop {
        let (fault, is_final) = match addresses(config).await {
            Err(fault) => (fault, false),
            Ok(found) => {
                known.retain(|address, _| found.contains(address));
                for address in found {
                    if let Entry::Vacant(free) = known.entry(address) {
                        let worker = Worker::new(free.key().clone(), config)?;
                        free.insert(Arc::new(worker));
                    }
                }
                let mut probes: FuturesUnordered<_> =
                    known.values().map(|worker| async { (Arc::clone(worker), probe(worker).await) }).collect();
                let mut faults = Vec::new();
                let mut all_final = !known.is_empty();
                let mut first = None;
                while let Some((worker, answer)) = probes.next().await {
                    match answer {
                        Ok(models) => {
                            worker.standing.lock().proved(Instant::now());
                            first = Some(models);
                            break;
                        }
                        Err(fault) => {
                            all_final &= fault.is_final();
                            faults.push((worker.address.to_string(), fault.to_string()));
                        }
                    }
                }
                drop(probes);
                if let Some(models) = first {
                    return Ok((models, known));
                }
                let none = || format!("{} has no address", config.addresses);
                (if faults.is_empty() { none() } else { list_faults(&faults) }, all_final)
            }
        };
        let now = Instant::now();
        if is_final || now >= give_up {
            let waited = config.start_timeout;
            let fault = if is_final { fault } else { format!("no worker was ready within {waited:?}: {fault}") };
            return Err(ProviderError::Unusable { service: SERVICE, address: config.addresses.to_string(), fault });
        }
        tokio::time::sleep(PAUSE_BETWEEN_ROUNDS.min(give_up - now)).await;
    }
}

/// The addresses of today: those listed, or those of the name.
///
/// # Errors
/// Says that the name cannot be looked up, and why.
async fn addresses(config: &PoolConfig) -> Result<Vec<WorkerAddress>, String> {
    let (host, port) = match &config.addresses {
        WorkerAddresses::List(listed) => return Ok(listed.clone()),
        WorkerAddresses::Dns { host, port } => (host, *port),
    };
    let looked_up = tokio::time::timeout(RESOLVE_TIMEOUT, config.resolver.resolve(host, port)).await;
    let mut found = match looked_up {
        Ok(Ok(found)) => found,
        Ok(Err(fault)) => return Err(format!("the name {host:?} cannot be looked up: {fault}")),
        Err(_) => return Err(format!("the look-up of the name {host:?} takes longer than {RESOLVE_TIMEOUT:?}")),
    };
    found.sort_unstable();
    found.dedup();
    found.truncate(MAX_WORKERS);
    Ok(found.into_iter().map(|address| WorkerAddress::found(host, address)).collect())
}

fn list_faults(faults: &[(String, String)]) -> String {
    let mut listed: Vec<String> =
        faults.iter().take(MAX_LISTED_FAULTS).map(|(address, fault)| format!("{address}: {fault}")).collect();
    if faults.len() > MAX_LISTED_FAULTS {
        listed.push(format!("and {} more", faults.len() - MAX_LISTED_FAULTS));
    }
    listed.join("; ")
}

/// Between three quarters of `time` and all of it, so that many gateways do not ask at the same moment.
fn jittered(time: Duration) -> Duration {
    time.mul_f64(0.75 + 0.25 * fastrand::f64())
}
