//! Parents of chunks, in the document store that has the collection's name.
//!
//! A parent's id names its version, so that the parents of a new version stand beside those of the old one, and nobody is led to
//! them before the commit. Those of a version that is gone are removed a while later, since a reader who found a child just before the
//! commit is about to ask for its parent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use toller_core::error::{Error, Result};
use toller_core::{CollectionName, Document, DocumentId, DocumentStore, RequestContext};
use toller_store::{CollectionHandle, Collections, SweepMark};
use tracing::warn;

use crate::version::{Part, Version, parse, prefix_of_source, source_of};

/// How long parents stay whose children are gone: longer than a retrieval takes.
pub const PARENT_GRACE: Duration = Duration::from_secs(10);

/// Parents that are written, read or removed at a time.
const BATCH: usize = 100;

/// Children that are looked for at most under one version: one that is no chunk says nothing.
const LOOK: usize = 8;

/// What was noted before parents come, or lose their children.
#[derive(Debug, Clone, Copy)]
pub struct SweepNote {
    /// Was there a note already, of somebody who may have been killed before the sweep?
    pub(crate) was_noted: bool,
    pub(crate) mark: SweepMark,
}

/// The parents of one collection. Cheap to clone.
#[derive(Clone)]
pub struct ParentRoom {
    collection: CollectionHandle,
    documents: Arc<dyn DocumentStore>,
    grace: Duration,
}

impl ParentRoom {
    /// The parents of a collection.
    pub fn new(collection: CollectionHandle, documents: Arc<dyn DocumentStore>) -> Self {
        Self { collection, documents, grace: PARENT_GRACE }
    }

    /// Has parents whose children are gone stay for so long; without this ten seconds.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Writes parents.
    pub(crate) async fn put(&self, context: &RequestContext, parents: Vec<Document>) -> Result<()> {
        let mut parents = parents.into_iter();
        loop {
            let batch: Vec<Document> = parents.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                return Ok(());
            }
            self.documents.put(context, &self.collection.spec().name, batch).await?;
        }
    }

    /// Are there any?
    pub(crate) async fn has_any(&self, context: &RequestContext) -> Result<bool> {
        Ok(!self.documents.scroll(context, &self.collection.spec().name, None, 1).await?.is_empty())
    }

    /// Notes, also for a process that comes after this one, that there are, or are about to be, parents without children.
    ///
    /// # Errors
    /// As the catalogue.
    pub(crate) async fn note_sweep(&self, context: &RequestContext) -> Result<SweepNote> {
        let was_noted = self.collection.sweep_mark(context).await?.is_some();
        Ok(SweepNote { was_noted, mark: self.collection.set_sweep_mark(context).await? })
    }

    /// Notes that documents are about to be removed, of these ids or of any, where that may leave parents without children:
    /// [`Self::sweep_later`] is to be called once they are.
    ///
    /// # Errors
    /// As the stores.
    pub async fn before_children_go(
        &self,
        context: &RequestContext,
        ids: Option<&[DocumentId]>,
    ) -> Result<Option<SweepNote>> {
        let are_others = ids.is_some_and(|ids| ids.iter().all(|id| source_of(id.as_str()).is_none()));
        if are_others || !self.has_any(context).await? { Ok(None) } else { self.note_sweep(context).await.map(Some) }
    }

    /// Removes, in the background and after a while, parents whose children are gone: of the sources of these ids, or of all where
    /// none are given.
    pub fn sweep_later(&self, context: &RequestContext, note: SweepNote, ids: Option<&[DocumentId]>) {
        let sources = ids.map(|ids| {
            let sources: BTreeSet<&str> = ids.iter().filter_map(|id| source_of(id.as_str())).collect();
            sources.into_iter().map(Arc::from).collect()
        });
        self.sweep_sources_later(context, note, sources);
    }

    /// The same for sources by name.
    pub(crate) fn sweep_sources_later(
        &self,
        context: &RequestContext,
        note: SweepNote,
        sources: Option<Vec<Arc<str>>>,
    ) {
        let (room, context) = (self.clone(), RequestContext::new(context.principal().clone()));
        tokio::spawn(async move {
            tokio::time::sleep(room.grace).await;
            let swept = match note.was_noted {
                // What was to be swept and was not, since a process was killed, may be of any source.
                true => room.sweep_all_if_last(&context, note.mark).await,
                false => room.sweep(&context, sources, note.mark).await,
            };
            if let Err(fault) = swept {
                warn!(%fault, collection = %room.collection.spec().name, "parents whose children are gone could not be removed; the next index run tries again");
            }
        });
    }

    /// Of many who note the same, one is enough: whoever noted it last.
    async fn sweep_all_if_last(&self, context: &RequestContext, mark: SweepMark) -> Result<u64> {
        match self.collection.sweep_mark(context).await? {
            Some(last) if last == mark => self.sweep(context, None, mark).await,
            _ => Ok(0),
        }
    }

    /// Removes parents whose children are gone, while no run is under way: one that is may have written parents for children that
    /// are to come. Returns how many there were. The mark stays when it was set anew since: who set it sweeps, too.
    pub(crate) async fn sweep(
        &self,
        context: &RequestContext,
        sources: Option<Vec<Arc<str>>>,
        mark: SweepMark,
    ) -> Result<u64> {
        let turn = self.collection.sweep_turn(context).await?;
        let mut removed = 0;
        match sources {
            None => removed += self.sweep_from(context, None, "").await?,
            Some(sources) => {
                for source in sources {
                    let prefix = prefix_of_source(&source);
                    let after = DocumentId::new(&prefix).ok();
                    removed += self.sweep_from(context, after, &prefix).await?;
                }
            }
        }
        turn.check()?;
        self.collection.clear_sweep_mark(context, mark).await?;
        Ok(removed)
    }

    /// The same for the ids after one of them, for as long as they begin with the prefix.
    async fn sweep_from(&self, context: &RequestContext, after: Option<DocumentId>, prefix: &str) -> Result<u64> {
        let name = &self.collection.spec().name;
        let (mut after, mut removed) = (after, 0);
        loop {
            let page = self.documents.scroll(context, name, after.as_ref(), BATCH).await?;
            let is_last = page.len() < BATCH;
            let ids: Vec<DocumentId> = page.into_iter().map(|parent| parent.id).collect();
            let mut by_version: BTreeMap<Version, Vec<DocumentId>> = BTreeMap::new();
            let mut is_past = false;
            for id in &ids {
                is_past |= !id.as_str().starts_with(prefix);
                let Some(parts) = parse(id.as_str()).filter(|_| id.as_str().starts_with(prefix)) else { continue };
                if let Part::Parent(_) = parts.part {
                    let version = Version { source: parts.source.into(), hash: parts.hash };
                    by_version.entry(version).or_default().push(id.clone());
                }
            }
            for (version, parents) in by_version {
                if !self.has_children(context, &version).await? {
                    removed += self.documents.delete(context, name, &parents).await?;
                }
            }
            after = ids.last().cloned();
            if is_last || is_past {
                return Ok(removed);
            }
        }
    }

    async fn has_children(&self, context: &RequestContext, version: &Version) -> Result<bool> {
        let prefix = version.prefix();
        let Ok(from) = DocumentId::new(&prefix) else { return Ok(false) };
        let ids = self.collection.ids(context, Some(&from), LOOK).await?;
        Ok(ids.iter().take_while(|id| id.as_str().starts_with(&prefix)).any(|id| parse(id.as_str()).is_some()))
    }
}

/// Removes every parent of a collection that is gone, and nothing else of the document store of its name. When there is a collection of the
/// name again, its parents stay.
///
/// # Errors
/// As the stores.
pub async fn remove_parents(
    collections: &Collections,
    documents: &Arc<dyn DocumentStore>,
    context: &RequestContext,
    name: &CollectionName,
) -> Result<()> {
    if documents.scroll(context, name, None, 1).await?.is_empty() {
        return Ok(());
    }
    // A run of a new collection may have written parents whose children are to come.
    let _turn = collections.sweep_turn(context, name).await?;
    match collections.open(context, name).await {
        Ok(collection) => {
            ParentRoom::new(collection, Arc::clone(documents)).sweep_from(context, None, "").await?;
            Ok(())
        }
        Err(Error::NotFound { .. }) => remove_all(documents.as_ref(), context, name).await,
        Err(fault) => Err(fault),
    }
}

async fn remove_all(documents: &dyn DocumentStore, context: &RequestContext, name: &CollectionName) -> Result<()> {
    let mut after = None;
    loop {
        let page = documents.scroll(context, name, after.as_ref(), BATCH).await?;
        let is_last = page.len() < BATCH;
        let ids: Vec<DocumentId> = page.into_iter().map(|parent| parent.id).collect();
        let is_parent =
            |id: &&DocumentId| parse(id.as_str()).is_some_and(|parts| matches!(parts.part, Part::Parent(_)));
        let parents: Vec<DocumentId> = ids.iter().filter(is_parent).cloned().collect();
        if !parents.is_empty() {
            documents.delete(context, name, &parents).await?;
        }
        after = ids.last().cloned();
        if is_last {
            return Ok(());
        }
    }
}
