//! The rules of `Catalog`.

use std::sync::Arc;

use toller_core::Catalog;
use toller_core::catalog::{Expected, RecordKind, Versioned};
use toller_core::error::Error;

use super::fixture::context;

const KIND: RecordKind = RecordKind::Collection;

/// A swap or removal against another state is `Aborted` and changes nothing.
pub async fn a_swap_needs_the_expected_state(catalog: Arc<dyn Catalog>) {
    let context = context("conformance");
    assert_eq!(catalog.get(&context, KIND, "a").await.unwrap(), None);
    let fault = catalog.swap(&context, KIND, "a", Expected::Version(1), b"x".to_vec()).await.unwrap_err();
    assert!(matches!(fault, Error::Aborted(_)), "{fault:?}");

    let first = catalog.swap(&context, KIND, "a", Expected::Absent, b"1".to_vec()).await.unwrap();
    assert!(first >= 1);
    let fault = catalog.swap(&context, KIND, "a", Expected::Absent, b"x".to_vec()).await.unwrap_err();
    assert!(matches!(fault, Error::Aborted(_)), "{fault:?}");
    let second = catalog.swap(&context, KIND, "a", Expected::Version(first), b"2".to_vec()).await.unwrap();
    assert_ne!(first, second);
    for stale in [
        catalog.swap(&context, KIND, "a", Expected::Version(first), b"x".to_vec()).await.map(|_| ()),
        catalog.remove(&context, KIND, "a", first).await,
        catalog.remove(&context, KIND, "missing", first).await,
    ] {
        assert!(matches!(stale, Err(Error::Aborted(_))), "{stale:?}");
    }
    let expected = Versioned { name: "a".to_owned(), version: second, value: b"2".to_vec() };
    assert_eq!(catalog.get(&context, KIND, "a").await.unwrap(), Some(expected));
    catalog.remove(&context, KIND, "a", second).await.unwrap();
    assert_eq!(catalog.get(&context, KIND, "a").await.unwrap(), None);
}

/// A record that was removed and made again has a new version: an old swap does not mistake it for the old one.
pub async fn versions_are_never_given_twice(catalog: Arc<dyn Catalog>) {
    let context = context("conformance");
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..5 {
        let made = catalog.swap(&context, KIND, "a", Expected::Absent, vec![round]).await.unwrap();
        let changed = catalog.swap(&context, KIND, "a", Expected::Version(made), vec![round]).await.unwrap();
        catalog.remove(&context, KIND, "a", changed).await.unwrap();
        assert!(seen.insert(made) && seen.insert(changed), "versions {made} and {changed} among {seen:?}");
    }
}

/// A list holds the records of one kind, by name; values are any bytes.
pub async fn records_are_listed_by_name_and_kind(catalog: Arc<dyn Catalog>) {
    let context = context("conformance");
    for name in ["b", "a", "c"] {
        catalog.swap(&context, KIND, name, Expected::Absent, vec![0, 255, 10]).await.unwrap();
    }
    catalog.swap(&context, RecordKind::Retriever, "a", Expected::Absent, Vec::new()).await.unwrap();
    let listed = catalog.list(&context, KIND).await.unwrap();
    let names: Vec<&str> = listed.iter().map(|record| record.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert!(listed.iter().all(|record| record.value == [0, 255, 10]));
    assert_eq!(catalog.list(&context, RecordKind::Retriever).await.unwrap().len(), 1);
}

/// The tenant is part of every key.
pub async fn records_of_tenants_are_apart(catalog: Arc<dyn Catalog>) {
    let (ours, theirs) = (context("conformance"), context("other"));
    let version = catalog.swap(&ours, KIND, "a", Expected::Absent, b"ours".to_vec()).await.unwrap();
    assert_eq!(catalog.get(&theirs, KIND, "a").await.unwrap(), None);
    assert_eq!(catalog.list(&theirs, KIND).await.unwrap(), []);
    assert!(catalog.remove(&theirs, KIND, "a", version).await.is_err());
    assert!(catalog.swap(&theirs, KIND, "a", Expected::Version(version), Vec::new()).await.is_err());
    catalog.swap(&theirs, KIND, "a", Expected::Absent, b"theirs".to_vec()).await.unwrap();
    assert_eq!(catalog.get(&ours, KIND, "a").await.unwrap().unwrap().value, b"ours");
    assert_eq!(catalog.list(&ours, KIND).await.unwrap().len(), 1);
}

/// Tenants are told by the kind of record that they have.
pub async fn tenants_with_records_of_a_kind_are_found(catalog: Arc<dyn Catalog>) {
    assert_eq!(catalog.tenants(RecordKind::Operation).await.unwrap(), []);
    let mut versions = Vec::new();
    for (tenant, kind, name) in [
        ("b", RecordKind::Operation, "1"),
        ("b", RecordKind::Operation, "2"),
        ("a", RecordKind::Operation, "1"),
        ("c", KIND, "1"),
    ] {
        versions.push(catalog.swap(&context(tenant), kind, name, Expected::Absent, Vec::new()).await.unwrap());
    }
    let found = async |kind| -> Vec<String> {
        catalog.tenants(kind).await.unwrap().iter().map(|tenant| tenant.as_str().to_owned()).collect()
    };
    assert_eq!(found(RecordKind::Operation).await, ["a", "b"]);
    assert_eq!(found(KIND).await, ["c"]);
    catalog.remove(&context("a"), RecordKind::Operation, "1", versions[2]).await.unwrap();
    assert_eq!(found(RecordKind::Operation).await, ["b"]);
}

/// Counters that many tasks raise by compare-and-swap lose no step.
pub async fn of_many_swaps_at_once_one_wins(catalog: Arc<dyn Catalog>) {
    const TASKS: usize = 4;
    const STEPS: usize = 50;
    let context = context("conformance");
    catalog.swap(&context, KIND, "counter", Expected::Absent, 0_u64.to_le_bytes().to_vec()).await.unwrap();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (catalog, context) = (Arc::clone(&catalog), context.clone());
            tokio::spawn(async move {
                let mut steps = 0;
                while steps < STEPS {
                    let record = catalog.get(&context, KIND, "counter").await.unwrap().unwrap();
                    let count = u64::from_le_bytes(record.value.try_into().unwrap());
                    let expected = Expected::Version(record.version);
                    let raised = (count + 1).to_le_bytes().to_vec();
                    match catalog.swap(&context, KIND, "counter", expected, raised).await {
                        Ok(_) => steps += 1,
                        Err(fault) => assert!(matches!(fault, Error::Aborted(_)), "{fault:?}"),
                    }
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let record = catalog.get(&context, KIND, "counter").await.unwrap().unwrap();
    assert_eq!(record.value, ((TASKS * STEPS) as u64).to_le_bytes());
}
