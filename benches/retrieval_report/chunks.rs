//! The chunks, their parents and the queries: words of a language with few frequent and many rare ones.

use toller_api::v1;
use toller_benches::clustered::{self, mixed};
use toller_tests::request::{DocumentExt, document, int, string};

/// Chunks in the collection.
pub const CHUNKS: u64 = 100_000;

/// Chunks of one parent.
pub const PER_PARENT: u64 = 4;

/// Different words.
const WORDS: f64 = 20_000.0;

/// Words of a chunk.
const LENGTH: u64 = 80;

/// Words of a query.
const QUERY_LENGTH: u64 = 8;

/// Chunk `number`, with its own vector.
pub fn chunk(number: u64) -> v1::Document {
    document(&format!("chunk-{number:09}"), &text(number, LENGTH))
        .with("bucket", int((mixed(number) % 100) as i64))
        .with("doc_id", string(&parent_id(number / PER_PARENT)))
        .vector(&clustered::row(number))
}

/// Parent `number`, with the texts of its chunks.
pub fn parent(number: u64) -> v1::Document {
    let chunks = number * PER_PARENT..(number + 1) * PER_PARENT;
    document(&parent_id(number), &chunks.map(|chunk| text(chunk, LENGTH)).collect::<Vec<_>>().join("\n"))
}

/// Query `number`.
pub fn query(number: u64) -> String {
    text(number ^ (1 << 40), QUERY_LENGTH)
}

fn parent_id(number: u64) -> String {
    format!("parent-{number:08}")
}

fn text(seed: u64, length: u64) -> String {
    let word = |position: u64| {
        let share = (mixed(seed.wrapping_mul(LENGTH).wrapping_add(position)) >> 11) as f64 / (1_u64 << 53) as f64;
        format!("word{}", (WORDS * share.powi(3)) as u64)
    };
    (0..length).map(word).collect::<Vec<_>>().join(" ")
}
