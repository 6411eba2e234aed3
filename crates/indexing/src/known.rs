//! What a place holds of each source, read from its ids.

use std::collections::BTreeMap;

use toller_core::error::{Error, Result};
use toller_core::{DocumentId, RequestContext};
use toller_store::CollectionHandle;
use toller_store::staging::Staging;

use crate::version::{Part, VersionHash, parse, prefix_of_source};

/// Ids that are read at once: those of the sources that are likely to be asked for next, since walks go by name.
const WINDOW: usize = 1000;

/// Where ids are.
pub(crate) enum Place {
    Collection(CollectionHandle),
    Staging(Staging),
}

/// The records of one version that are there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct KnownVersion {
    pub(crate) ids: Vec<DocumentId>,
    total: u64,
}

impl KnownVersion {
    /// Are all of its records there?
    pub(crate) fn is_whole(&self) -> bool {
        self.ids.len() as u64 == self.total
    }
}

/// The versions of a source that are there.
pub(crate) type KnownVersions = BTreeMap<VersionHash, KnownVersion>;

/// Ids of a place, with a window over those that were read last.
pub(crate) struct KnownIds {
    place: Place,
    /// Ascending, without a gap.
    window: Vec<DocumentId>,
    /// Where the window begins: no id that is left out lies between this and its last id.
    from: String,
    /// Does nothing come after the window?
    is_last: bool,
}

impl KnownIds {
    pub(crate) fn new(place: Place) -> Self {
        Self { place, window: Vec::new(), from: String::new(), is_last: false }
    }

    /// The versions of a source. O(its records + log window) where sources are asked for in order; else one read more.
    pub(crate) async fn of_source(&mut self, context: &RequestContext, source: &str) -> Result<KnownVersions> {
        let prefix = prefix_of_source(source);
        // Nothing at all may come after where the window begins.
        let is_within = self.from.as_str() <= prefix.as_str()
            && (self.is_last || self.window.last().is_some_and(|last| prefix.as_str() <= last.as_str()));
        if !is_within {
            self.read_from(context, &prefix).await?;
        }
        let mut versions = KnownVersions::new();
        loop {
            let start = self.window.partition_point(|id| id.as_str() < prefix.as_str());
            let rest = self.window.get(start..).unwrap_or_default();
            let count = rest.iter().take_while(|id| id.as_str().starts_with(&prefix)).count();
            if count == rest.len() && !self.is_last {
                self.read_on(context, &prefix).await?;
                continue;
            }
            for id in rest.iter().take(count) {
                // A longer name may begin with this one and the mark.
                let Some(parts) = parse(id.as_str()).filter(|parts| parts.source == source) else { continue };
                if let Part::Record { total, .. } = parts.part {
                    let version = versions.entry(parts.hash).or_default();
                    version.total = total;
                    version.ids.push(id.clone());
                }
            }
            return Ok(versions);
        }
    }

    /// Up to `limit` ids from `from` on.
    pub(crate) async fn page(
        &self,
        context: &RequestContext,
        from: Option<&DocumentId>,
        limit: usize,
    ) -> Result<Vec<DocumentId>> {
        match &self.place {
            Place::Collection(collection) => collection.ids(context, from, limit).await,
            Place::Staging(staging) => staging.ids(context, from, limit).await,
        }
    }

    async fn read_from(&mut self, context: &RequestContext, from: &str) -> Result<()> {
        let first = id(from)?;
        self.window = self.page(context, Some(&first), WINDOW).await?;
        self.is_last = self.window.len() < WINDOW;
        from.clone_into(&mut self.from);
        Ok(())
    }

    /// Makes the window longer, and forgets what is before `from`.
    async fn read_on(&mut self, context: &RequestContext, from: &str) -> Result<()> {
        let Some(last) = self.window.last().cloned() else { return self.read_from(context, from).await };
        let more = self.page(context, Some(&last), WINDOW + 1).await?;
        self.is_last = more.len() <= WINDOW;
        self.window.retain(|id| id.as_str() >= from);
        from.clone_into(&mut self.from);
        // The last one comes again, unless it is gone by now.
        self.window.extend(more.into_iter().filter(|id| *id > last));
        Ok(())
    }
}

/// The beginning of ids, as an id to read from.
fn id(prefix: &str) -> Result<DocumentId> {
    DocumentId::new(prefix).map_err(|fault| Error::Internal(format!("{prefix:?} as an id {fault}")))
}
