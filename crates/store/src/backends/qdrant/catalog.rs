//! Small records with compare-and-swap versions, in Qdrant.

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use toller_core::catalog::{Expected, RecordKind, Versioned};
use toller_core::error::{Error, Result};
use toller_core::{Catalog, RequestContext, Tenant};

use super::entries::{Entry, EntryKey};
use super::error::damaged;
use super::patience::Patience;
use super::shared::Shared;

/// Keeps catalogue records in a Qdrant server or cluster. See the [module](super).
///
/// Versions grow with the clock, so that a record that is removed and made again does not get one that it had.
#[derive(Debug)]
pub struct QdrantCatalog {
    shared: Shared,
}

impl QdrantCatalog {
    pub(super) fn new(shared: Shared) -> Self {
        Self { shared }
    }
}

fn key(context: &RequestContext, kind: RecordKind, name: &str) -> EntryKey {
    EntryKey { kind: kind.as_str(), tenant: context.tenant().clone(), name: name.to_owned() }
}

fn versioned(entry: Entry) -> Result<Versioned> {
    let value =
        STANDARD.decode(&entry.value).map_err(|fault| damaged(format!("of the catalogue cannot be read: {fault}")))?;
    Ok(Versioned { name: entry.name, version: entry.version, value })
}

fn changed(kind: RecordKind, name: &str) -> Error {
    Error::Aborted(format!("{} \"{name}\" was changed by another writer; read it again and retry", kind.as_str()))
}

#[async_trait]
impl Catalog for QdrantCatalog {
    async fn get(&self, context: &RequestContext, kind: RecordKind, name: &str) -> Result<Option<Versioned>> {
        let found = self.shared.entries.get(Patience::Of(context), &key(context, kind, name)).await?;
        found.map(versioned).transpose()
    }

    async fn list(&self, context: &RequestContext, kind: RecordKind) -> Result<Vec<Versioned>> {
        let entries = self.shared.entries.list(Patience::Of(context), kind.as_str(), context.tenant()).await?;
        entries.into_iter().map(versioned).collect()
    }

    async fn swap(
        &self,
        context: &RequestContext,
        kind: RecordKind,
        name: &str,
        expected: Expected,
        value: Vec<u8>,
    ) -> Result<u64> {
        let key = key(context, kind, name);
        let patience = Patience::Of(context);
        let present = match expected {
            Expected::Absent => None,
            Expected::Version(version) => {
                let present = self.shared.entries.get(patience, &key).await?;
                Some(present.filter(|entry| entry.version == version).ok_or_else(|| changed(kind, name))?)
            }
        };
        let written = self.shared.entries.swap(patience, &key, present.as_ref(), STANDARD.encode(value)).await?;
        Ok(written.ok_or_else(|| changed(kind, name))?.version)
    }

    async fn remove(&self, context: &RequestContext, kind: RecordKind, name: &str, version: u64) -> Result<()> {
        let key = key(context, kind, name);
        let patience = Patience::Of(context);
        let present = self.shared.entries.get(patience, &key).await?.filter(|entry| entry.version == version);
        let present = present.ok_or_else(|| changed(kind, name))?;
        if self.shared.entries.remove(patience, &key, &present).await? {
            return Ok(());
        }
        Err(changed(kind, name))
    }

    async fn tenants(&self, kind: RecordKind) -> Result<Vec<Tenant>> {
        self.shared.entries.tenants(Patience::Background, kind.as_str()).await
    }
}
