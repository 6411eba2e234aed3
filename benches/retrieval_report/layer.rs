//! The retriever layer alone: a tree over a store that answers from memory, in this process, less what the store takes.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use toller_api::convert::retriever_from_message;
use toller_api::v1;
use toller_benches::report::{Report, micros, percentile};
use toller_core::vector_store::{Scoring, VectorSearch};
use toller_core::{
    Catalog, CollectionName, Metadata, Metric, Models, Principal, Query, RequestContext, Vector, VectorStore,
};
use toller_retrieval::{PlanLimits, Planner, RunOptions, StoredRetrievers};
use toller_store::{Collections, MemoryStore, NewCollection, NewDocument, VectorSource};
use toller_tests::request::{retriever, search_in, vector_store};

const LEAVES: usize = 8;
const ROUNDS: usize = 5000;

/// Microseconds for each node of an ensemble of eight, planning included: the median run, less eight medians of the store.
pub async fn measure(report: &mut Report) -> Result<(), Box<dyn Error>> {
    let memory = MemoryStore::new();
    let catalog = Arc::clone(&memory.catalog) as Arc<dyn Catalog>;
    let store = Arc::clone(&memory.vectors) as Arc<dyn VectorStore>;
    let collections = Arc::new(Collections::new(Arc::clone(&store), Arc::clone(&catalog), Models::default()));
    let planner = Planner::new(Arc::clone(&collections), StoredRetrievers::new(catalog), PlanLimits::default());
    let context = RequestContext::new(Principal::anonymous());
    let name = CollectionName::new("few")?;
    let new = NewCollection {
        name: name.clone(),
        description: String::new(),
        labels: Default::default(),
        metric: Metric::Cosine,
        vectors: VectorSource::Client { dimension: 2 },
    };
    collections.create(&context, new).await?;
    let documents = (0..16_u8).map(|number| NewDocument {
        id: Some(number.to_string()),
        page_content: "a text".to_owned(),
        metadata: Metadata::new(),
        vector: Some(vec![1.0, f32::from(number)]),
        ..NewDocument::default()
    });
    collections.open(&context, &name).await?.add(&context, documents.collect(), None).await?;

    let leaves = vec![vector_store("", search_in("few")); LEAVES];
    let ensemble = v1::EnsembleRetriever { retrievers: leaves, ..Default::default() };
    let spec = retriever_from_message(retriever("", v1::retriever::Kind::Ensemble(ensemble)))?;
    let elements = vec![1.0, 0.5];
    let (query, vector) = (Query::Vector(elements.clone()), Vector::new(elements, Metric::Cosine)?);
    let (mut whole, mut alone) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let plan = planner.plan(&context, &spec).await?;
        let answer = plan.run(&context, &query, RunOptions::default()).await?;
        whole.push(started.elapsed());
        assert_eq!(answer.hits.len(), 4);

        let started = Instant::now();
        let search = VectorSearch { vector: &vector, using: None, filter: None, limit: 4 };
        store.similarity(&context, &name, search, Scoring::default()).await?;
        alone.push(started.elapsed());
    }
    let nodes = (LEAVES + 1) as f64;
    let median = |spent: &mut Vec<Duration>| micros(percentile(spent, 0.5));
    let (whole, alone) = (median(&mut whole), median(&mut alone));
    report.number("layer", "ensemble_of_eight_us", whole);
    report.number("layer", "store_search_us", alone);
    report.number("layer", "overhead_us_per_node", (whole - LEAVES as f64 * alone) / nodes);
    Ok(())
}
