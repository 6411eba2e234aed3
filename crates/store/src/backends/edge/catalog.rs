//! Small records with compare-and-swap versions, on disk.

use async_trait::async_trait;
use redb::ReadableTable;
use toller_core::catalog::{Expected, RecordKind, Versioned};
use toller_core::error::{Error, Result};
use toller_core::{Catalog, Principal, RequestContext, Tenant};

use super::database::{CATALOG, Kind, Records, VERSIONS, fault};

/// The one key of [`VERSIONS`].
const LAST: &str = "last";

/// Keeps catalogue records on disk; every write survives power loss.
///
/// Versions come from one counter for all records, so none is ever given twice.
#[derive(Debug, Clone)]
pub struct EdgeCatalog {
    records: Records,
}

impl EdgeCatalog {
    pub(super) fn new(records: Records) -> Self {
        Self { records }
    }
}

fn changed(kind: RecordKind, name: &str) -> Error {
    Error::Aborted(format!("{} \"{name}\" was changed by another writer; read it again and retry", kind.as_str()))
}

#[async_trait]
impl Catalog for EdgeCatalog {
    async fn get(&self, context: &RequestContext, kind: RecordKind, name: &str) -> Result<Option<Versioned>> {
        let (tenant, name) = (context.tenant().clone(), name.to_owned());
        self.records
            .read(context, move |transaction| {
                let table = transaction.open_table(CATALOG).map_err(fault)?;
                let found = table.get((tenant.as_str(), kind.as_str(), name.as_str())).map_err(fault)?;
                Ok(found.map(|entry| {
                    let (version, value) = entry.value();
                    Versioned { name: name.clone(), version, value: value.to_vec() }
                }))
            })
            .await
    }

    async fn list(&self, context: &RequestContext, kind: RecordKind) -> Result<Vec<Versioned>> {
        let tenant = context.tenant().clone();
        self.records
            .read(context, move |transaction| {
                let table = transaction.open_table(CATALOG).map_err(fault)?;
                let mut listed = Vec::new();
                for entry in table.range((tenant.as_str(), kind.as_str(), "")..).map_err(fault)? {
                    let (key, entry) = entry.map_err(fault)?;
                    let (its_tenant, its_kind, name) = key.value();
                    if its_tenant != tenant.as_str() || its_kind != kind.as_str() {
                        break;
                    }
                    let (version, value) = entry.value();
                    listed.push(Versioned { name: name.to_owned(), version, value: value.to_vec() });
                }
                Ok(listed)
            })
            .await
    }

    async fn swap(
        &self,
        context: &RequestContext,
        kind: RecordKind,
        name: &str,
        expected: Expected,
        value: Vec<u8>,
    ) -> Result<u64> {
        let (tenant, name, bytes) = (context.tenant().clone(), name.to_owned(), value.len() as u64);
        self.records
            .write(context, Kind::Record(bytes), move |transaction| {
                let key = (tenant.as_str(), kind.as_str(), name.as_str());
                let mut table = transaction.open_table(CATALOG).map_err(fault)?;
                let found = table.get(key).map_err(fault)?.map(|entry| entry.value().0);
                if found.map_or(Expected::Absent, Expected::Version) != expected {
                    return Err(changed(kind, &name).into());
                }
                let mut versions = transaction.open_table(VERSIONS).map_err(fault)?;
                let last = versions.get(LAST).map_err(fault)?.map_or(0, |version| version.value());
                let version = last + 1;
                versions.insert(LAST, version).map_err(fault)?;
                table.insert(key, (version, value.as_slice())).map_err(fault)?;
                Ok(version)
            })
            .await
    }

    async fn remove(&self, context: &RequestContext, kind: RecordKind, name: &str, version: u64) -> Result<()> {
        let (tenant, name) = (context.tenant().clone(), name.to_owned());
        self.records
            .write(context, Kind::Removal, move |transaction| {
                let key = (tenant.as_str(), kind.as_str(), name.as_str());
                let mut table = transaction.open_table(CATALOG).map_err(fault)?;
                let found = table.get(key).map_err(fault)?.map(|entry| entry.value().0);
                if found != Some(version) {
                    return Err(changed(kind, &name).into());
                }
                table.remove(key).map_err(fault)?;
                Ok(())
            })
            .await
    }

    async fn tenants(&self, kind: RecordKind) -> Result<Vec<Tenant>> {
        // The pool wants to know who waits: here it is the process itself.
        let context = RequestContext::new(Principal::anonymous());
        self.records
            .read(&context, move |transaction| {
                let table = transaction.open_table(CATALOG).map_err(fault)?;
                let mut tenants: Vec<Tenant> = Vec::new();
                for entry in table.iter().map_err(fault)? {
                    let (key, _) = entry.map_err(fault)?;
                    let (tenant, its_kind, _) = key.value();
                    // They come in order.
                    if its_kind == kind.as_str() && tenants.last().is_none_or(|last| last.as_str() != tenant) {
                        let broken = |fault| Error::Internal(format!("a tenant in the catalogue {fault}"));
                        tenants.push(Tenant::new(tenant).map_err(broken)?);
                    }
                }
                Ok(tenants)
            })
            .await
    }
}
