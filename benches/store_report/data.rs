//! Rows and queries as the stores take them.

use std::sync::Arc;

use toller_benches::clustered;
use toller_core::{Document, DocumentId, Metadata, Metric, Record, Value, Vector};

pub use toller_benches::clustered::DIMENSION;

/// Values of the metadata field `bucket`: one of them selects 1 % of the rows.
const BUCKETS: u64 = 100;

/// The record of row `number`.
pub fn record(number: u64) -> Record {
    let document = Document {
        id: DocumentId::new(format!("document-{number:09}")).expect("an id"),
        page_content: format!("The text of document {number}."),
        metadata: Metadata::from([("bucket".to_owned(), Value::Int((clustered::mixed(number) % BUCKETS) as i64))]),
    };
    let vector = Vector::new(clustered::row(number), Metric::Cosine).expect("a vector");
    Record::new(Arc::new(document), vector)
}

/// Query `number`.
pub fn query(number: usize) -> Vector {
    Vector::new(clustered::query(number as u64), Metric::Cosine).expect("a vector")
}
