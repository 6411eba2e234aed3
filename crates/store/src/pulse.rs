//! Signs of life of work that another process would go on with, or undo, if it were left: a small record of the catalogue that changes
//! for as long as the work goes on.
//!
//! No clocks are compared: who asks takes work for left where it has no such record, or once it has watched the record unchanged for
//! a while.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use toller_core::catalog::{Expected, RecordKind};
use toller_core::error::{Error, Result};
use toller_core::{Catalog, RequestContext};
use tracing::warn;
use uuid::Uuid;

/// How often signs are given, unless it is said otherwise.
pub(crate) const BEAT: Duration = Duration::from_secs(5);

/// How often one who watches looks, at most.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often a record is written again that somebody else wrote at the same time.
const ATTEMPTS: usize = 4;

/// The signs of life of one piece of work of this process. Dropping it ends them.
pub(crate) struct Pulse {
    place: Place,
    beats: Option<JoinHandle<()>>,
}

#[derive(Clone)]
struct Place {
    catalog: Arc<dyn Catalog>,
    context: RequestContext,
    name: String,
    whose: String,
}

/// What is recorded.
#[derive(Debug, Serialize, Deserialize)]
struct Sign {
    /// Whose they are.
    whose: String,
    /// How many there were.
    beats: u64,
}

impl Pulse {
    /// Begins to give signs for the work of that name, every so often. Whoever gave them before gives none any more.
    ///
    /// # Errors
    /// As the catalogue.
    pub(crate) async fn begin(
        catalog: &Arc<dyn Catalog>,
        context: &RequestContext,
        name: &str,
        every: Duration,
    ) -> Result<Self> {
        let place = Place {
            catalog: Arc::clone(catalog),
            context: context.clone(),
            name: name.to_owned(),
            whose: Uuid::now_v7().to_string(),
        };
        let mut attempts_left = ATTEMPTS;
        let version = loop {
            let expected = match version_of(catalog.as_ref(), context, name).await? {
                None => Expected::Absent,
                Some(version) => Expected::Version(version),
            };
            match place.write(expected, 0).await {
                Err(Error::Aborted(_)) if attempts_left > 0 => attempts_left -= 1,
                other => break other?,
            }
        };
        let beats = tokio::spawn(beat(place.clone(), version, every));
        Ok(Self { place, beats: Some(beats) })
    }

    /// Ends them, and waits until that is recorded.
    pub(crate) async fn end(mut self) {
        if let Some(beats) = self.beats.take() {
            end(&self.place, beats).await;
        }
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        let Some(beats) = self.beats.take() else { return };
        beats.abort();
        // Outside a runtime, as in a process that ends, those who watch find out.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let place = self.place.clone();
            runtime.spawn(async move { end(&place, beats).await });
        }
    }
}

async fn end(place: &Place, beats: JoinHandle<()>) {
    beats.abort();
    // It ends because it was told to.
    let _ = beats.await;
    let removed = match place.own_version().await {
        Ok(Some(version)) => place.catalog.remove(&place.context, RecordKind::Pulse, &place.name, version).await,
        Ok(None) => Ok(()),
        Err(fault) => Err(fault),
    };
    if let Err(fault) = removed {
        warn!(work = place.name, %fault, "that work has ended could not be recorded; others take it for ended after a while");
    }
}

/// Does somebody else still give signs of life for that work? Takes `silence` to say that nobody does any more, and no time where
/// nobody ever did.
///
/// # Errors
/// As the catalogue.
pub(crate) async fn is_alive(
    catalog: &dyn Catalog,
    context: &RequestContext,
    name: &str,
    silence: Duration,
) -> Result<bool> {
    let Some(first) = version_of(catalog, context, name).await? else { return Ok(false) };
    let since = Instant::now();
    while since.elapsed() < silence {
        tokio::time::sleep(LOOK_EVERY.min(silence / 4)).await;
        match version_of(catalog, context, name).await? {
            None => return Ok(false),
            Some(version) if version != first => return Ok(true),
            Some(_) => {}
        }
    }
    Ok(false)
}

async fn version_of(catalog: &dyn Catalog, context: &RequestContext, name: &str) -> Result<Option<u64>> {
    Ok(catalog.get(context, RecordKind::Pulse, name).await?.map(|found| found.version))
}

/// Gives signs until the record is somebody else's.
async fn beat(place: Place, mut version: u64, every: Duration) {
    for beats in 1.. {
        tokio::time::sleep(every).await;
        let faulty = match place.write(Expected::Version(version), beats).await {
            Ok(written) => {
                version = written;
                continue;
            }
            // An earlier write may have arrived without its answer.
            Err(Error::Aborted(_)) => match place.own_version().await {
                Ok(Some(found)) => {
                    version = found;
                    continue;
                }
                Ok(None) => return,
                Err(fault) => fault,
            },
            Err(fault) => fault,
        };
        warn!(work = place.name, fault = %faulty, "that work goes on could not be recorded");
    }
}

impl Place {
    async fn write(&self, expected: Expected, beats: u64) -> Result<u64> {
        let sign = Sign { whose: self.whose.clone(), beats };
        let value = serde_json::to_vec(&sign)
            .map_err(|fault| Error::Internal(format!("a sign of life cannot be written: {fault}")))?;
        self.catalog.swap(&self.context, RecordKind::Pulse, &self.name, expected, value).await
    }

    /// The version of the record, while it is this one's.
    async fn own_version(&self) -> Result<Option<u64>> {
        let Some(found) = self.catalog.get(&self.context, RecordKind::Pulse, &self.name).await? else {
            return Ok(None);
        };
        let sign: Sign = serde_json::from_slice(&found.value)
            .map_err(|fault| Error::Internal(format!("the sign of life of {} cannot be read: {fault}", self.name)))?;
        Ok((sign.whose == self.whose).then_some(found.version))
    }
}

#[cfg(test)]
mod tests {
    use toller_core::Principal;

    use super::*;
    use crate::MemoryStore;

    const EVERY: Duration = Duration::from_millis(10);
    const SILENCE: Duration = Duration::from_secs(2);

    fn room() -> (Arc<dyn Catalog>, RequestContext) {
        (MemoryStore::new().catalog, RequestContext::new(Principal::anonymous()))
    }

    #[tokio::test]
    async fn work_is_alive_until_it_ends() {
        let (catalog, context) = room();
        assert!(!is_alive(catalog.as_ref(), &context, "work", SILENCE).await.unwrap());
        let pulse = Pulse::begin(&catalog, &context, "work", EVERY).await.unwrap();
        assert!(is_alive(catalog.as_ref(), &context, "work", SILENCE).await.unwrap());
        assert!(!is_alive(catalog.as_ref(), &context, "other work", SILENCE).await.unwrap());
        pulse.end().await;
        assert!(!is_alive(catalog.as_ref(), &context, "work", SILENCE).await.unwrap());
        assert_eq!(catalog.list(&context, RecordKind::Pulse).await.unwrap(), []);
    }

    #[tokio::test]
    async fn work_of_a_process_that_was_killed_is_left_after_a_while() {
        let (catalog, context) = room();
        let hours = Duration::from_secs(10_000);
        let still = Pulse::begin(&catalog, &context, "work", hours).await.unwrap();
        let asked = Instant::now();
        let silence = Duration::from_millis(200);
        assert!(!is_alive(catalog.as_ref(), &context, "work", silence).await.unwrap());
        assert!(asked.elapsed() >= silence);
        // Whoever goes on with it gives signs in its place, and the first one's end does not end those.
        let next = Pulse::begin(&catalog, &context, "work", EVERY).await.unwrap();
        still.end().await;
        assert!(is_alive(catalog.as_ref(), &context, "work", SILENCE).await.unwrap());
        drop(next);
        while version_of(catalog.as_ref(), &context, "work").await.unwrap().is_some() {
            tokio::time::sleep(EVERY).await;
        }
    }
}
