//! Vectors, in both encodings.

use std::collections::BTreeMap;

use toller_core::error::both;
use toller_core::vector::MAX_DIMENSION;
use toller_core::{Error, Record, Result, Vector};

use crate::v1;

/// How an answer carries its vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Little-endian f32 bytes.
    Packed,
    /// `repeated float`.
    Floats,
}

/// The encoding that a request asks for.
///
/// # Errors
/// `InvalidArgument` for an unknown enum value.
pub fn encoding_from_message(number: i32) -> Result<Encoding> {
    match v1::VectorEncoding::try_from(number) {
        Ok(v1::VectorEncoding::Unspecified | v1::VectorEncoding::Packed) => Ok(Encoding::Packed),
        Ok(v1::VectorEncoding::Floats) => Ok(Encoding::Floats),
        Err(_) => Err(Error::invalid("encoding", format!("unknown value {number}"))),
    }
}

/// The elements of a vector message. Whether they are finite is checked by `toller_core::Vector::new`.
///
/// # Errors
/// `InvalidArgument` when not exactly one of `packed` and `values` is set, or the lengths disagree with `dimension`.
pub fn vector_from_message(message: v1::Vector) -> Result<Vec<f32>> {
    let dimension = message.dimension as usize;
    if dimension > MAX_DIMENSION {
        return Err(Error::invalid("dimension", format!("must be at most {MAX_DIMENSION}, got {dimension}")));
    }
    match (message.packed.is_empty(), message.values.is_empty()) {
        (false, false) => Err(Error::invalid("", "must have either packed or values, not both")),
        (true, true) => Err(Error::invalid("", "must have elements in packed or in values")),
        (true, false) if dimension != 0 && dimension != message.values.len() => Err(Error::invalid(
            "values",
            format!("must have as many elements as dimension says ({dimension}), got {}", message.values.len()),
        )),
        (true, false) => Ok(message.values),
        (false, true) => {
            let (elements, rest) = message.packed.as_chunks::<4>();
            if dimension == 0 {
                return Err(Error::invalid("dimension", "must be given with packed"));
            }
            if !rest.is_empty() || elements.len() != dimension {
                return Err(Error::invalid(
                    "packed",
                    format!(
                        "must have 4 bytes for each of the {dimension} dimensions ({}), got {}",
                        4 * dimension,
                        message.packed.len()
                    ),
                ));
            }
            Ok(elements.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
        }
    }
}

/// The message of a vector.
pub fn vector_to_message(elements: &[f32], encoding: Encoding) -> v1::Vector {
    let dimension = u32::try_from(elements.len()).unwrap_or(u32::MAX);
    match encoding {
        Encoding::Packed => {
            let packed = elements.iter().flat_map(|element| element.to_le_bytes()).collect();
            v1::Vector { dimension, packed, values: Vec::new() }
        }
        Encoding::Floats => v1::Vector { dimension, packed: Vec::new(), values: elements.to_vec() },
    }
}

/// The message of a record's vectors: the main one, and those of named spaces.
pub fn vectors_to_message(record: &Record, encoding: Encoding) -> v1::Vectors {
    let message = |vector: &Vector| vector_to_message(vector.as_slice(), encoding);
    v1::Vectors {
        dense: Some(message(&record.vector)),
        named: record.named.iter().map(|(name, vector)| (name.as_str().to_owned(), message(vector))).collect(),
    }
}

/// What a document of a write brings: the elements of its main vector, where it has one, and of the named ones.
///
/// # Errors
/// `InvalidArgument` for `dense` when there is nothing, and for the parts of `dense` and `named["name"]`.
pub fn vectors_from_message(message: v1::Vectors) -> Result<(Option<Vec<f32>>, BTreeMap<String, Vec<f32>>)> {
    let v1::Vectors { dense, named } = message;
    if dense.is_none() && named.is_empty() {
        return Err(Error::invalid("dense", "must be given"));
    }
    let dense = dense.map(vector_from_message).transpose().map_err(|error| error.within("dense"));
    let named = named.into_iter().map(|(name, vector)| {
        let elements = vector_from_message(vector).map_err(|error| error.within(&format!("named[{name:?}]")));
        Ok((name, elements?))
    });
    both(dense, named.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_encodings_survive_the_round_trip() {
        let elements = vec![1.5, -0.0, f32::MIN_POSITIVE, 3.4e38];
        for encoding in [Encoding::Packed, Encoding::Floats] {
            assert_eq!(vector_from_message(vector_to_message(&elements, encoding)), Ok(elements.clone()));
        }
    }

    #[test]
    fn named_vectors_may_stand_without_a_main_one_but_nothing_may_not() {
        let vector = |values: &[f32]| vector_to_message(values, Encoding::Packed);
        let named = BTreeMap::from([("title".to_owned(), vector(&[1.0, 2.0]))]);
        let elements = BTreeMap::from([("title".to_owned(), vec![1.0, 2.0])]);
        let alone = v1::Vectors { dense: None, named: named.clone() };
        assert_eq!(vectors_from_message(alone), Ok((None, elements.clone())));
        let both = v1::Vectors { dense: Some(vector(&[3.0])), named };
        assert_eq!(vectors_from_message(both), Ok((Some(vec![3.0]), elements)));
        let nothing = vectors_from_message(v1::Vectors::default()).unwrap_err();
        assert_eq!(nothing.to_string(), "dense: must be given");
        let named = BTreeMap::from([("title".to_owned(), v1::Vector::default())]);
        let faults = vectors_from_message(v1::Vectors { dense: Some(v1::Vector::default()), named }).unwrap_err();
        let said = faults.to_string();
        assert!(said.starts_with("dense: must have") && said.contains("named[\"title\"]: must have"), "{said}");
    }

    #[test]
    fn lengths_that_disagree_are_refused() {
        let cases = [
            (v1::Vector { dimension: 2, packed: vec![0; 7], values: vec![] }, "packed"),
            (v1::Vector { dimension: 3, packed: vec![0; 8], values: vec![] }, "packed"),
            (v1::Vector { dimension: 0, packed: vec![0; 8], values: vec![] }, "dimension"),
            (v1::Vector { dimension: 3, packed: vec![], values: vec![1.0] }, "values"),
            (v1::Vector { dimension: 1, packed: vec![0; 4], values: vec![1.0] }, "must have either"),
            (v1::Vector { dimension: 1, packed: vec![], values: vec![] }, "must have elements"),
            (v1::Vector { dimension: u32::MAX, packed: vec![0; 4], values: vec![] }, "dimension"),
        ];
        for (message, expected) in cases {
            let error = vector_from_message(message).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
