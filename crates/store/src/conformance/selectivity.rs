//! Exactly min(limit, matches) results, the best ones, however few documents match.

use std::sync::Arc;

use toller_core::{Filter, Metadata, Metric, Value, VectorStore};

use super::fixture::{Numbers, Scene, assert_score, key, metadata, record};

const RECORDS: usize = 20_000;
const DIMENSION: usize = 8;
const BATCH: usize = 2_000;

/// Filters that match 50 %, 1 % and 0.01 % of 20 000 records, against a plain scan with the metric's definition.
pub async fn exactly_the_best_matches_at_any_selectivity(store: Arc<dyn VectorStore>) {
    let scene = Scene::new(store, Metric::Cosine, DIMENSION as u32).await;
    let mut numbers = Numbers(7);
    let records: Vec<(String, Vec<f32>, Metadata)> = (0..RECORDS)
        .map(|index| {
            let metadata = metadata([("n", Value::Int(index as i64)), ("half", Value::Bool(index % 2 == 0))]);
            (format!("{index:05}"), numbers.vector(DIMENSION), metadata)
        })
        .collect();
    for batch in records.chunks(BATCH) {
        scene.put(batch.iter().map(|(id, vector, metadata)| record(id, vector, metadata.clone())).collect()).await;
    }

    let below = |bound: i64| Filter::Lt(key("n"), Value::Int(bound));
    let filters = [
        (Filter::Eq(key("half"), Value::Bool(true)), RECORDS / 2),
        (below(RECORDS as i64 / 100), RECORDS / 100),
        (below(RECORDS as i64 / 10_000), RECORDS / 10_000),
    ];
    for (filter, matches) in filters {
        assert_eq!(scene.count(Some(&filter)).await, matches as u64);
        for limit in [1, 10, 250] {
            let query = numbers.vector(DIMENSION);
            let mut expected: Vec<(f64, &str)> = records
                .iter()
                .filter(|(_, _, metadata)| filter.matches(metadata))
                .map(|(id, vector, _)| (Metric::Cosine.score(&query, vector), id.as_str()))
                .collect();
            expected.sort_by(|left, right| right.0.total_cmp(&left.0));
            expected.truncate(limit);
            let hits = scene.search(&query, Some(&filter), limit).await;
            assert_eq!(hits.len(), limit.min(matches));
            for (hit, (score, id)) in hits.iter().zip(&expected) {
                assert_eq!(hit.record.document.id.as_str(), *id);
                assert_score(hit.score, *score);
            }
        }
    }
}
