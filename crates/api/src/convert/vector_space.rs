//! Named vector spaces.

use std::collections::BTreeMap;

use toller_core::error::{FieldViolation, both};
use toller_core::{Error, Result, VectorName, VectorSpace};

use super::metric::{metric_from_message, metric_to_message};
use crate::v1;

/// The name of a space, where the field `vector_name` is given.
///
/// # Errors
/// `InvalidArgument` for `vector_name`.
pub fn vector_name_from_message(name: Option<&str>) -> Result<Option<VectorName>> {
    name.map(VectorName::new).transpose().map_err(|fault| Error::invalid("vector_name", fault))
}

/// The named spaces of a new collection. Whether they are few and their dimensions in range is checked where it is made.
///
/// # Errors
/// `InvalidArgument` for `named_vectors` (a name) and `named_vectors["name"].metric`, all that are at fault.
pub fn named_spaces_from_message(
    message: BTreeMap<String, v1::VectorSpace>,
) -> Result<BTreeMap<VectorName, VectorSpace>> {
    let mut spaces = BTreeMap::new();
    let mut violations = Vec::new();
    for (text, space) in message {
        let name = VectorName::new(&text).map_err(|fault| Error::invalid("named_vectors", format!("names {fault}")));
        let metric = metric_from_message(space.metric);
        let metric = metric.map_err(|error| error.within(&format!("named_vectors[{text:?}]")));
        match both(name, metric) {
            Ok((name, metric)) => {
                spaces.insert(name, VectorSpace { dimension: space.dimension, metric });
            }
            Err(Error::InvalidArgument(more)) => violations.extend::<Vec<FieldViolation>>(more),
            Err(other) => return Err(other),
        }
    }
    Error::from_violations(violations)?;
    Ok(spaces)
}

/// The messages of a collection's named spaces.
pub fn named_spaces_to_message(spaces: &BTreeMap<VectorName, VectorSpace>) -> BTreeMap<String, v1::VectorSpace> {
    let message = |space: &VectorSpace| v1::VectorSpace {
        dimension: space.dimension,
        metric: metric_to_message(Some(space.metric)).into(),
    };
    spaces.iter().map(|(name, space)| (name.as_str().to_owned(), message(space))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_there_and_back_with_every_fault_named() {
        let space = |metric: i32| v1::VectorSpace { dimension: 3, metric };
        let message = BTreeMap::from([
            ("image".to_owned(), space(v1::Metric::Euclidean.into())),
            ("title".to_owned(), space(v1::Metric::Cosine.into())),
        ]);
        let spaces = named_spaces_from_message(message.clone()).unwrap();
        assert_eq!(named_spaces_to_message(&spaces), message);
        let unspecified = named_spaces_from_message(BTreeMap::from([("a".to_owned(), space(0))])).unwrap();
        assert_eq!(named_spaces_to_message(&unspecified)["a"].metric(), v1::Metric::Cosine);

        let wrong = BTreeMap::from([("a.b".to_owned(), space(0)), ("c".to_owned(), space(99))]);
        let said = named_spaces_from_message(wrong).unwrap_err().to_string();
        assert!(said.starts_with("named_vectors: names must be 1 to 64 ASCII letters"), "{said}");
        assert!(said.ends_with("named_vectors[\"c\"].metric: unknown value 99"), "{said}");
    }

    #[test]
    fn an_absent_name_is_none_and_an_empty_one_a_fault() {
        assert_eq!(vector_name_from_message(None), Ok(None));
        assert!(vector_name_from_message(Some("")).unwrap_err().to_string().starts_with("vector_name: "));
    }
}
