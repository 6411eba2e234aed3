//! Parents of chunks, in the document store that has the collection's name.
//!
//! A parent's id names its version, so that the parents of a new version stand beside those of the old one, and nobody is led to
//! them before the commit. Those of a version that is gone are removed a while later, since a reader who found a child just before the
//! commit is about to ask for its parent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use toller_core::error::Result;
use toller_core::{CollectionName, Document, DocumentId, DocumentStore, RequestContext};
use toller_store::{CollectionHandle, RunConflict};
use tracing::warn;

use crate::version::{Part, Version, parse, prefix_of_source, source_of};

/// Name, in a child's metadata, of its parent's id: where the retrievers look by default.
pub const PARENT_KEY: &str = toller_core::retriever::DEFAULT_ID_KEY;

/// How long parents stay whose children are gone: longer than a retrieval takes.
pub const PARENT_GRACE: Duration = Duration::from_secs(10);

/// Parents that are written, read or removed at a time.
const BATCH: usize = 100;

/// Children that are looked for at most under one version: one that is no chunk says nothing.
const LOOK: usize = 8;

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
    async fn has_any(&self, context: &RequestContext) -> Result<bool> {
        Ok(!self.documents.scroll(context, &self.collection.spec().name, None, 1).await?.is_empty())
    }

    /// Notes, also for a process that comes after this one, that parents are about to lose their children; nothing where there are
    /// no parents.
    pub(crate) async fn mark_for_sweep(&self, context: &RequestContext) -> Result<()> {
        if self.has_any(context).await? { self.collection.set_to_be_swept(context).await } else { Ok(()) }
    }

    /// Removes, in the background and after a while, parents whose children are gone: of these sources, or of all where none are
    /// named. To be called when children were removed.
    ///
    /// # Errors
    /// As the store.
    pub async fn sweep_later(&self, context: &RequestContext, sources: Option<Vec<Arc<str>>>) -> Result<()> {
        if sources.as_ref().is_some_and(Vec::is_empty) || !self.has_any(context).await? {
            return Ok(());
        }
        self.collection.set_to_be_swept(context).await?;
        let (room, context) = (self.clone(), RequestContext::new(context.principal().clone()));
        tokio::spawn(async move {
            tokio::time::sleep(room.grace).await;
            if let Err(fault) = room.sweep(&context, sources).await {
                warn!(%fault, collection = %room.collection.spec().name, "parents whose children are gone could not be removed; the next index run tries again");
            }
        });
        Ok(())
    }

    /// [`Self::sweep_later`] for children that were removed by their ids.
    ///
    /// # Errors
    /// As the store.
    pub async fn sweep_children_later(&self, context: &RequestContext, ids: &[DocumentId]) -> Result<()> {
        let sources: BTreeSet<&str> = ids.iter().filter_map(|id| source_of(id.as_str())).collect();
        self.sweep_later(context, Some(sources.into_iter().map(Arc::from).collect())).await
    }

    /// Removes parents whose children are gone, while no run is under way: one that is may have written parents for children that
    /// are to come. Returns how many there were.
    pub(crate) async fn sweep(&self, context: &RequestContext, sources: Option<Vec<Arc<str>>>) -> Result<u64> {
        let _turn = self.collection.run_turn(context, RunConflict::Wait).await?;
        let mut removed = 0;
        match sources {
            None => {
                removed += self.sweep_from(context, None, "").await?;
                self.collection.clear_to_be_swept(context).await?;
            }
            Some(sources) => {
                for source in sources {
                    let prefix = prefix_of_source(&source);
                    let after = DocumentId::new(&prefix).ok();
                    removed += self.sweep_from(context, after, &prefix).await?;
                }
                self.collection.clear_to_be_swept(context).await?;
            }
        }
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

/// Removes every parent of a collection that is gone, and nothing else of the document store of its name.
///
/// # Errors
/// As the store.
pub async fn remove_parents(
    documents: &dyn DocumentStore,
    context: &RequestContext,
    collection: &CollectionName,
) -> Result<()> {
    let mut after = None;
    loop {
        let page = documents.scroll(context, collection, after.as_ref(), BATCH).await?;
        let is_last = page.len() < BATCH;
        let ids: Vec<DocumentId> = page.into_iter().map(|parent| parent.id).collect();
        let is_parent =
            |id: &&DocumentId| parse(id.as_str()).is_some_and(|parts| matches!(parts.part, Part::Parent(_)));
        let parents: Vec<DocumentId> = ids.iter().filter(is_parent).cloned().collect();
        if !parents.is_empty() {
            documents.delete(context, collection, &parents).await?;
        }
        after = ids.last().cloned();
        if is_last {
            return Ok(());
        }
    }
}
