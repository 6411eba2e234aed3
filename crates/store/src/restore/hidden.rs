//! Collections that nobody sees yet, since a restore fills them.

use toller_core::catalog::Expected;
use toller_core::error::{Error, Result};
use toller_core::vector::MAX_DIMENSION;
use toller_core::vector_space::check_named_spaces;
use toller_core::{CollectionName, CollectionSpec, RequestContext};
use tracing::warn;

use super::is_open;
use crate::collections::{Collections, check_texts};
use crate::record::{CollectionRecord, State, UPDATE_ATTEMPTS};

/// A collection whose record says `creating`, and names the restore.
#[derive(Debug)]
pub(crate) struct Hidden {
    pub(crate) name: CollectionName,
    /// Records that were written to it.
    pub(crate) written: u64,
}

impl Collections {
    /// Does the tenant have a collection of that name, or one that is being restored?
    pub(crate) async fn is_taken(&self, context: &RequestContext, name: &CollectionName) -> Result<bool> {
        match self.records().find(context, name).await? {
            Some((_, record)) => Ok(record.state == State::Ready || self.is_restored(context, &record).await?),
            None => Ok(false),
        }
    }

    /// Is the collection of that record being restored, by whichever process?
    pub(crate) async fn is_restored(&self, context: &RequestContext, record: &CollectionRecord) -> Result<bool> {
        match &record.restore {
            Some(id) => is_open(self.catalog().as_ref(), context, id).await,
            None => Ok(false),
        }
    }

    /// Makes a collection from the whole of its description, as [`Self::create_with`] does, but leaves it out of sight, for the
    /// restore of that id.
    ///
    /// # Errors
    /// `AlreadyExists`; `InvalidArgument` for parts of the description, and for `quantization` where the store has none.
    pub(crate) async fn create_hidden(
        &self,
        context: &RequestContext,
        spec: CollectionSpec,
        restore: &str,
    ) -> Result<Hidden> {
        check_texts(Some(&spec.description), Some(&spec.labels))?;
        check_named_spaces(&spec.named)?;
        let dimension = spec.fingerprint.dimension;
        if !(1..=MAX_DIMENSION).contains(&(dimension as usize)) {
            let description = format!("must be between 1 and {MAX_DIMENSION}, got {dimension}");
            return Err(Error::invalid("fingerprint.dimension", description));
        }
        let name = spec.name.clone();
        let _turn = self.turns.take(context.tenant(), &name).await;
        self.begin_creating(context, &spec, Some(restore)).await?;
        Ok(Hidden { name, written: 0 })
    }

    /// Lets everybody see a collection that was hidden for a restore; one that can be seen already stays as it is.
    pub(crate) async fn show(&self, context: &RequestContext, name: &CollectionName, restore: &str) -> Result<()> {
        let _turn = self.turns.take(context.tenant(), name).await;
        let mut last_fault = None;
        for _ in 0..UPDATE_ATTEMPTS {
            match self.records().find(context, name).await? {
                // Records of before they named it are its own as well.
                Some((version, record))
                    if is_hidden(&record) && record.restore.as_deref().is_none_or(|id| id == restore) =>
                {
                    let ready = CollectionRecord { state: State::Ready, restore: None, ..record };
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

    /// Drops a collection that is still hidden for a restore.
    pub(crate) async fn discard_hidden(
        &self,
        context: &RequestContext,
        name: &CollectionName,
        restore: &str,
    ) -> Result<()> {
        let _turn = self.turns.take(context.tenant(), name).await;
        match self.records().find(context, name).await? {
            Some((version, record)) if is_hidden(&record) && record.restore.as_deref() == Some(restore) => {
                self.drop_and_forget(context, version, &record).await
            }
            _ => Ok(()),
        }
    }
}

fn is_hidden(record: &CollectionRecord) -> bool {
    record.state == State::Creating
}
