//! Conversions between messages and core types, one file per type.
//!
//! Each direction is a plain function. From messages: faults are [`toller_core::Error::InvalidArgument`] with field paths
//! relative to the message converted; the caller puts its own field before them with `within`.

mod collection;
mod document;
mod filter;
mod fingerprint;
mod keyword;
mod metric;
mod operation;
mod quantization;
mod retriever;
mod role;
mod score;
mod value;
mod vector;
mod vector_space;

pub use collection::{
    collection_from_message, collection_name_from_message, collection_to_message, durability_to_message,
};
pub use document::{
    document_from_message, document_to_message, ids_from_message, metadata_from_message, metadata_to_message,
    record_from_message,
};
pub use filter::{filter_from_message, filter_to_message, optional_filter_from_message};
pub use fingerprint::{fingerprint_from_message, fingerprint_to_message};
pub use keyword::{keyword_from_message, keyword_to_message, language_to_message};
pub use metric::{
    metric_from_message, metric_to_message, relevance_function_from_message, relevance_function_to_message,
};
pub use operation::operation_to_message;
pub use quantization::{quantization_from_message, quantization_to_message};
pub use retriever::{
    history_from_messages, history_to_messages, query_from_message, retriever_from_message,
    retriever_name_from_message, retriever_to_message, vector_store_retriever_from_message,
};
pub use role::role_from_message;
pub use score::{hit_to_message, hits_to_message};
pub use value::{value_from_message, value_to_message};
pub use vector::{
    Encoding, GivenVectors, encoding_from_message, vector_from_message, vector_to_message, vectors_from_message,
    vectors_to_message,
};
pub use vector_space::{named_spaces_from_message, named_spaces_to_message, vector_name_from_message};

/// Milliseconds since 1970-01-01 UTC; parts of one are cut off.
///
/// # Errors
/// `InvalidArgument` for `nanos` out of range, or `seconds` too far from then.
pub fn millis_from_timestamp(moment: prost_types::Timestamp) -> toller_core::Result<i64> {
    let prost_types::Timestamp { seconds, nanos } = moment;
    if !(0..1_000_000_000).contains(&nanos) {
        return Err(toller_core::Error::invalid("nanos", format!("must be from 0 to 999999999, got {nanos}")));
    }
    let millis = seconds.checked_mul(1000).and_then(|millis| millis.checked_add(i64::from(nanos / 1_000_000)));
    millis.ok_or_else(|| toller_core::Error::invalid("seconds", format!("{seconds} is too far away")))
}

/// The message of a moment in milliseconds since 1970-01-01 UTC.
pub fn timestamp_from_millis(millis: i64) -> prost_types::Timestamp {
    let nanos = i32::try_from(millis.rem_euclid(1000)).unwrap_or(0) * 1_000_000;
    prost_types::Timestamp { seconds: millis.div_euclid(1000), nanos }
}
