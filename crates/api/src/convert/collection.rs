//! Collections.

use toller_core::error::both;
use toller_core::{CollectionName, CollectionSpec, Durability, Error, Result};

use super::fingerprint::{fingerprint_from_message, fingerprint_to_message};
use super::keyword::{keyword_from_message, keyword_to_message};
use super::metric::{metric_from_message, metric_to_message};
use super::quantization::{quantization_from_message, quantization_to_message};
use super::vector_space::{named_spaces_from_message, named_spaces_to_message};
use crate::v1;

/// The name of a collection, in the request's field `field`.
///
/// # Errors
/// `InvalidArgument` for `field`.
pub fn collection_name_from_message(field: &str, name: &str) -> Result<CollectionName> {
    CollectionName::new(name).map_err(|fault| Error::invalid(field, fault))
}

/// A whole collection as a server describes it, but for what keeps it: `store` and `durability` are not looked at.
///
/// # Errors
/// `InvalidArgument` for every part that is at fault, and for `fingerprint` and `created_at` where they are missing.
pub fn collection_from_message(message: v1::Collection) -> Result<CollectionSpec> {
    let missing = |field| Error::invalid(field, "must be given");
    let name = collection_name_from_message("name", &message.name);
    let metric = match message.metric() {
        // A default is for those who ask, not for those who tell.
        v1::Metric::Unspecified if message.metric == 0 => Err(missing("metric")),
        _ => metric_from_message(message.metric),
    };
    let fingerprint = message
        .fingerprint
        .ok_or_else(|| missing("fingerprint"))
        .and_then(|fingerprint| fingerprint_from_message(fingerprint).map_err(|fault| fault.within("fingerprint")));
    let created_at = message
        .created_at
        .ok_or_else(|| missing("created_at"))
        .and_then(|moment| super::millis_from_timestamp(moment).map_err(|fault| fault.within("created_at")));
    let keyword = match message.keyword {
        None => Ok(None),
        index => keyword_from_message(index).map_err(|fault| fault.within("keyword")),
    };
    let named = named_spaces_from_message(message.named_vectors);
    let quantization = message.quantization.map(quantization_from_message).transpose();
    let quantization = quantization.map_err(|fault| fault.within("quantization"));
    let head = both(both(name, metric), both(fingerprint, created_at));
    let tail = both(both(keyword, named), quantization);
    let (((name, metric), (fingerprint, created_at_ms)), ((keyword, named), quantization)) = both(head, tail)?;
    Ok(CollectionSpec {
        name,
        description: message.description,
        labels: message.labels,
        metric,
        fingerprint,
        created_at_ms,
        keyword,
        named,
        quantization,
        require_tenant: message.require_tenant,
    })
}

/// The message of a collection that the backend `store` keeps.
pub fn collection_to_message(spec: &CollectionSpec, store: &str, durability: Durability) -> v1::Collection {
    v1::Collection {
        name: spec.name.as_str().to_owned(),
        description: spec.description.clone(),
        labels: spec.labels.clone(),
        metric: metric_to_message(Some(spec.metric)).into(),
        fingerprint: Some(fingerprint_to_message(&spec.fingerprint)),
        store: store.to_owned(),
        durability: durability_to_message(durability).into(),
        created_at: Some(super::timestamp_from_millis(spec.created_at_ms)),
        keyword: spec.keyword.map(keyword_to_message),
        named_vectors: named_spaces_to_message(&spec.named),
        quantization: spec.quantization.map(quantization_to_message),
        require_tenant: spec.require_tenant,
    }
}

/// The message of a durability.
pub fn durability_to_message(durability: Durability) -> v1::Durability {
    match durability {
        Durability::None => v1::Durability::None,
        Durability::Process => v1::Durability::Process,
        Durability::Fsync => v1::Durability::Fsync,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use toller_core::fingerprint::Pooling;
    use toller_core::{
        Fingerprint, KeywordParams, Language, Metric, Quantization, QuantizationKind, VectorName, VectorSpace,
    };

    use super::*;

    fn spec() -> CollectionSpec {
        CollectionSpec {
            name: CollectionName::new("docs").unwrap(),
            description: "for people".to_owned(),
            labels: BTreeMap::from([("team".to_owned(), "search".to_owned())]),
            metric: Metric::Euclidean,
            fingerprint: Fingerprint {
                provider: "candle".to_owned(),
                model: "tiny".to_owned(),
                revision: "abc".to_owned(),
                pooling: Some(Pooling::Mean),
                normalized: true,
                query_instruction: "query: ".to_owned(),
                document_instruction: "passage: ".to_owned(),
                max_tokens: 512,
                weights_sha256: "00ff".to_owned(),
                ..Fingerprint::client(3)
            },
            created_at_ms: 1_700_000_000_123,
            keyword: Some(KeywordParams { language: Language::Swedish }),
            named: BTreeMap::from([(
                VectorName::new("title").unwrap(),
                VectorSpace { dimension: 5, metric: Metric::Dot },
            )]),
            quantization: Some(Quantization::new(QuantizationKind::Int8, Some(2.5)).unwrap()),
            require_tenant: true,
        }
    }

    #[test]
    fn a_collection_survives_the_round_trip() {
        let plain = CollectionSpec {
            keyword: None,
            named: BTreeMap::new(),
            quantization: None,
            require_tenant: false,
            created_at_ms: -1,
            fingerprint: Fingerprint::client(1),
            ..spec()
        };
        for spec in [spec(), plain] {
            let message = collection_to_message(&spec, "memory", Durability::None);
            assert_eq!(collection_from_message(message), Ok(spec));
        }
    }

    #[test]
    fn every_part_at_fault_is_named() {
        let good = collection_to_message(&spec(), "memory", Durability::None);
        let bad = v1::Collection {
            name: "a b".to_owned(),
            metric: 0,
            fingerprint: None,
            created_at: Some(prost_types::Timestamp { seconds: 0, nanos: -1 }),
            keyword: Some(v1::KeywordIndex { language: 99, disabled: false }),
            quantization: Some(v1::Quantization::default()),
            ..good
        };
        let said = collection_from_message(bad).unwrap_err().to_string();
        for field in
            ["name: ", "metric: ", "fingerprint: ", "created_at.nanos: ", "keyword.language: ", "quantization.kind: "]
        {
            assert!(said.contains(field), "{field} is not in {said}");
        }
    }
}
