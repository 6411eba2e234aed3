//! Names of collections that are being restored in this process.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use toller_core::{CollectionName, Tenant};

type Key = (Tenant, CollectionName);

/// Their records say `creating`, as those of a create that was cut off do; these must not be cleared away.
#[derive(Debug, Default)]
pub(crate) struct Claims(Arc<Mutex<HashSet<Key>>>);

impl Claims {
    /// Is the name taken?
    pub(crate) fn has(&self, tenant: &Tenant, name: &CollectionName) -> bool {
        self.0.lock().contains(&(tenant.clone(), name.clone()))
    }

    /// Takes a name. The caller has the collection's turn and has seen that it is free.
    pub(crate) fn take(&self, tenant: &Tenant, name: &CollectionName) -> Claim {
        let key = (tenant.clone(), name.clone());
        self.0.lock().insert(key.clone());
        Claim { claims: Arc::clone(&self.0), key: Some(key) }
    }
}

/// A name that is taken, until this is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    claims: Arc<Mutex<HashSet<Key>>>,
    key: Option<Key>,
}

impl Claim {
    /// Keeps the name as long as the process lives.
    pub(crate) fn keep(mut self) {
        self.key = None;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.claims.lock().remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_until_its_claim_is_dropped_unless_it_is_kept() {
        let claims = Claims::default();
        let (tenant, docs) = (Tenant::default(), CollectionName::new("docs").unwrap());
        let claim = claims.take(&tenant, &docs);
        assert!(claims.has(&tenant, &docs));
        assert!(!claims.has(&Tenant::new("other").unwrap(), &docs));
        drop(claim);
        assert!(!claims.has(&tenant, &docs));
        claims.take(&tenant, &docs).keep();
        assert!(claims.has(&tenant, &docs));
    }
}
