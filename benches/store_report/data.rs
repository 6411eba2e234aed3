//! Rows and queries: made from their numbers, so that nothing but the store holds them.

use std::sync::{Arc, LazyLock};

use toller_core::{Document, DocumentId, Metadata, Metric, Record, Value, Vector};

/// Dimension of every vector: that of MiniLM and BGE small.
pub const DIMENSION: usize = 384;

/// Rows that share a centre are alike, as texts about one thing are.
const CENTRES: usize = 500;

/// How far rows are from their centre, beside the centre's own length of about 1.
const SPREAD: f32 = 0.6;

/// Values of the metadata field `bucket`: one of them selects 1 % of the rows.
pub const BUCKETS: u64 = 100;

/// Numbers from here on are those of queries.
const QUERIES_FROM: u64 = 1 << 40;

static CENTRE_VECTORS: LazyLock<Vec<Vec<f32>>> =
    LazyLock::new(|| (0..CENTRES as u64).map(|centre| direction(u64::MAX - centre)).collect());

/// The record of row `number`.
pub fn record(number: u64) -> Record {
    let document = Document {
        id: DocumentId::new(format!("document-{number:09}")).expect("an id"),
        page_content: format!("The text of document {number}."),
        metadata: Metadata::from([("bucket".to_owned(), Value::Int((mixed(number) % BUCKETS) as i64))]),
    };
    Record::new(Arc::new(document), vector(number))
}

/// Query `number`: from the same distribution as the rows, and none of them.
pub fn query(number: usize) -> Vector {
    vector(QUERIES_FROM + number as u64)
}

fn vector(number: u64) -> Vector {
    let centre = &CENTRE_VECTORS[(mixed(number ^ 0x5bd1) % CENTRES as u64) as usize];
    let elements = centre.iter().zip(direction(number)).map(|(centre, own)| centre + SPREAD * own).collect();
    Vector::new(elements, Metric::Cosine).expect("a vector")
}

/// About a unit vector in any direction.
fn direction(seed: u64) -> Vec<f32> {
    let scale = (3.0 / DIMENSION as f32).sqrt();
    let mut state = mixed(seed);
    (0..DIMENSION)
        .map(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            scale * ((mixed(state) >> 40) as f32 / (1_u32 << 23) as f32 - 1.0)
        })
        .collect()
}

/// The output function of SplitMix64 (Steele, Lea and Flood 2014).
fn mixed(state: u64) -> u64 {
    let mut mixed = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
