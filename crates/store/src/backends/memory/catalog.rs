//! Small records with compare-and-swap versions, in RAM.

use std::collections::BTreeMap;

use async_trait::async_trait;
use parking_lot::RwLock;
use toller_core::catalog::{Expected, RecordKind, Versioned};
use toller_core::error::{Error, Result};
use toller_core::{Catalog, RequestContext, Tenant};

/// Keeps catalogue records in RAM.
///
/// Versions come from one counter for all records, which a dump carries along: a version is never given twice, so a
/// swap cannot mistake a record that was removed and made again for the one that it read.
#[derive(Debug, Default)]
pub struct MemoryCatalog {
    pub(super) state: RwLock<CatalogState>,
}

#[derive(Debug, Default)]
pub(super) struct CatalogState {
    pub(super) last_version: u64,
    pub(super) records: BTreeMap<(Tenant, RecordKind, String), Entry>,
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) version: u64,
    pub(super) value: Vec<u8>,
}

impl MemoryCatalog {
    /// An empty catalogue.
    pub fn new() -> Self {
        Self::default()
    }
}

fn key(context: &RequestContext, kind: RecordKind, name: &str) -> (Tenant, RecordKind, String) {
    (context.tenant().clone(), kind, name.to_owned())
}

fn changed(kind: RecordKind, name: &str) -> Error {
    Error::Aborted(format!("{} \"{name}\" was changed by another writer; read it again and retry", kind.as_str()))
}

#[async_trait]
impl Catalog for MemoryCatalog {
    async fn get(&self, context: &RequestContext, kind: RecordKind, name: &str) -> Result<Option<Versioned>> {
        let state = self.state.read();
        let entry = state.records.get(&key(context, kind, name));
        Ok(entry.map(|entry| Versioned { name: name.to_owned(), version: entry.version, value: entry.value.clone() }))
    }

    async fn list(&self, context: &RequestContext, kind: RecordKind) -> Result<Vec<Versioned>> {
        let state = self.state.read();
        let of_tenant_and_kind = state
            .records
            .range(key(context, kind, "")..)
            .take_while(|((tenant, its_kind, _), _)| tenant == context.tenant() && *its_kind == kind);
        Ok(of_tenant_and_kind
            .map(|((_, _, name), entry)| Versioned {
                name: name.clone(),
                version: entry.version,
                value: entry.value.clone(),
            })
            .collect())
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
        let mut state = self.state.write();
        let found = match state.records.get(&key) {
            Some(entry) => Expected::Version(entry.version),
            None => Expected::Absent,
        };
        if found != expected {
            return Err(changed(kind, name));
        }
        state.last_version += 1;
        let version = state.last_version;
        state.records.insert(key, Entry { version, value });
        Ok(version)
    }

    async fn remove(&self, context: &RequestContext, kind: RecordKind, name: &str, version: u64) -> Result<()> {
        let key = key(context, kind, name);
        let mut state = self.state.write();
        if state.records.get(&key).is_none_or(|entry| entry.version != version) {
            return Err(changed(kind, name));
        }
        state.records.remove(&key);
        Ok(())
    }

    async fn tenants(&self, kind: RecordKind) -> Result<Vec<Tenant>> {
        let state = self.state.read();
        let mut tenants: Vec<Tenant> = state
            .records
            .keys()
            .filter(|(_, its_kind, _)| *its_kind == kind)
            .map(|(tenant, ..)| tenant.clone())
            .collect();
        // They come in order.
        tenants.dedup();
        Ok(tenants)
    }
}
