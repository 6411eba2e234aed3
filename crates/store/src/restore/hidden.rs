//! Collections that nobody sees yet, since a restore fills them.

use toller_core::catalog::Expected;
use toller_core::error::{Error, Result};
use toller_core::vector::MAX_DIMENSION;
use toller_core::vector_space::check_named_spaces;
use toller_core::{CollectionName, CollectionSpec, RequestContext};
use tracing::warn;

use super::claims::Claim;
use crate::collections::{Collections, check_texts};
use crate::record::{CollectionRecord, State, UPDATE_ATTEMPTS};

/// A collection whose record says `creating`, and whose name is taken.
#[derive(Debug)]
pub(crate) struct Hidden {
    pub(crate) name: CollectionName,
    pub(crate) claim: Claim,
    /// Records that were written to it.
    pub(crate) written: u64,
}

impl Collections {
    /// Does the tenant have a collection of that name, or one that is being restored?
    pub(crate) async fn is_taken(&self, context: &RequestContext, name: &CollectionName) -> Result<bool> {
        if self.claims.has(context.tenant(), name) {
            return Ok(true);
        }
        let found = self.records().find(context, name).await?;
        Ok(found.is_some_and(|(_, record)| record.state == State::Ready))
    }

    /// Makes a collection from the whole of its description, as [`Self::create_with`] does, but leaves it out of sight.
    ///
    /// # Errors
    /// `AlreadyExists`; `InvalidArgument` for parts of the description, and for `quantization` where the store has none.
    pub(crate) async fn create_hidden(&self, context: &RequestContext, spec: CollectionSpec) -> Result<Hidden> {
        check_texts(Some(&spec.description), Some(&spec.labels))?;
        check_named_spaces(&spec.named)?;
        let dimension = spec.fingerprint.dimension;
        if !(1..=MAX_DIMENSION).contains(&(dimension as usize)) {
            let description = format!("must be between 1 and {MAX_DIMENSION}, got {dimension}");
            return Err(Error::invalid("fingerprint.dimension", description));
        }
        let name = spec.name.clone();
        let _turn = self.turns.take(context.tenant(), &name).await;
        self.begin_creating(context, &spec).await?;
        let claim = self.claims.take(context.tenant(), &name);
        Ok(Hidden { name, claim, written: 0 })
    }

    /// Lets everybody see a collection that was hidden; one that can be seen already stays as it is.
    pub(crate) async fn show(&self, context: &RequestContext, name: &CollectionName) -> Result<()> {
        let _turn = self.turns.take(context.tenant(), name).await;
        let mut last_fault = None;
        for _ in 0..UPDATE_ATTEMPTS {
            match self.records().find(context, name).await? {
                Some((version, record)) if record.state == State::Creating => {
                    let ready = CollectionRecord { state: State::Ready, ..record };
                    match self.records().swap(context, Expected::Version(version), &ready).await {
                        Err(fault @ Error::Aborted(_)) => last_fault = Some(fault),
                        other => return other.map(drop),
                    }
                }
                Some(_) => return Ok(()),
                None => {
                    warn!(collection = %name, "a restored collection is gone before anybody could see it");
                    return Ok(());
                }
            }
        }
        Err(last_fault.unwrap_or_else(|| Error::Internal("nothing was tried".to_owned())))
    }

    /// Drops a collection that is still hidden.
    pub(crate) async fn discard_hidden(&self, context: &RequestContext, name: &CollectionName) -> Result<()> {
        let _turn = self.turns.take(context.tenant(), name).await;
        match self.records().find(context, name).await? {
            Some((version, record)) if record.state == State::Creating => {
                self.drop_and_forget(context, version, &record).await
            }
            _ => Ok(()),
        }
    }
}
