//! Named vector spaces: further vectors of a record beside its main one, each with a dimension and a metric of its own.
//!
//! Their vectors are the client's own, in writes as in queries: no model embeds texts for them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{Error, FieldViolation, Result};
use crate::metric::Metric;
use crate::vector::{MAX_DIMENSION, Vector};

/// Most named spaces of a collection.
pub const MAX_NAMED_VECTORS: usize = 8;

/// Longest name of a space in bytes.
pub const MAX_VECTOR_NAME_BYTES: usize = 64;

/// The name of a vector space, unique within its collection: 1 to [`MAX_VECTOR_NAME_BYTES`] ASCII letters, digits, `-` and
/// `_`. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct VectorName(Arc<str>);

impl VectorName {
    /// Checks a name.
    ///
    /// # Errors
    /// Says what the rule is and what was given.
    pub fn new(name: &str) -> Result<Self, String> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if (1..=MAX_VECTOR_NAME_BYTES).contains(&name.len()) && name.bytes().all(allowed) {
            return Ok(Self(name.into()));
        }
        let shown: String = name.chars().take(MAX_VECTOR_NAME_BYTES).collect();
        Err(format!("must be 1 to {MAX_VECTOR_NAME_BYTES} ASCII letters, digits, '-' or '_', got {shown:?}"))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for VectorName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for VectorName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::new(&name).map_err(serde::de::Error::custom)
    }
}

/// A space of vectors that can be compared with one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VectorSpace {
    /// Dimension of every vector, 1 to [`MAX_DIMENSION`].
    pub dimension: u32,
    /// How they are compared.
    pub metric: Metric,
}

impl VectorSpace {
    /// A vector of this space.
    ///
    /// # Errors
    /// Says what is wrong: another dimension, or what [`Vector::new`] refuses.
    pub fn vector(self, values: Vec<f32>) -> Result<Vector, String> {
        self.check_dimension(values.len())?;
        Vector::new(values, self.metric)
    }

    /// A vector has as many elements as the space has dimensions.
    ///
    /// # Errors
    /// Says both numbers.
    pub fn check_dimension(self, dimension: usize) -> Result<(), String> {
        if dimension == self.dimension as usize {
            return Ok(());
        }
        Err(format!("must have the collection's {} dimensions, got {dimension}", self.dimension))
    }
}

/// The vectors of a record beside its main one, by the names of their spaces.
pub type NamedVectors = BTreeMap<VectorName, Vector>;

/// The named spaces of a new collection are few enough, can be told apart wherever case is ignored (as names of files are, on
/// some systems), and have dimensions within the range.
///
/// # Errors
/// `InvalidArgument` for `named_vectors` or `named_vectors["name"].dimension`, all that are at fault.
pub fn check_named_spaces(named: &BTreeMap<VectorName, VectorSpace>) -> Result<()> {
    let mut violations = Vec::new();
    let mut fault = |field: String, description: String| violations.push(FieldViolation { field, description });
    if named.len() > MAX_NAMED_VECTORS {
        fault("named_vectors".to_owned(), format!("must be at most {MAX_NAMED_VECTORS}, got {}", named.len()));
    }
    let mut folded: BTreeMap<String, &VectorName> = BTreeMap::new();
    for (name, space) in named {
        if let Some(other) = folded.insert(name.as_str().to_ascii_lowercase(), name) {
            fault("named_vectors".to_owned(), format!("\"{other}\" and \"{name}\" must differ in more than case"));
        }
        if !(1..=MAX_DIMENSION).contains(&(space.dimension as usize)) {
            let description = format!("must be between 1 and {MAX_DIMENSION}, got {}", space.dimension);
            fault(format!("named_vectors[\"{name}\"].dimension"), description);
        }
    }
    Error::from_violations(violations)
}

/// What is wrong with a name that no space of the collection has.
pub fn no_such_space(name: impl fmt::Display, named: &BTreeMap<VectorName, VectorSpace>) -> String {
    if named.is_empty() {
        return format!("the collection has no named vectors, got \"{name}\"");
    }
    let known: Vec<String> = named.keys().map(|known| format!("\"{known}\"")).collect();
    format!("the collection has no vectors named \"{name}\"; it has {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spaces(names: &[&str], dimension: u32) -> BTreeMap<VectorName, VectorSpace> {
        let space = VectorSpace { dimension, metric: Metric::Dot };
        names.iter().map(|name| (VectorName::new(name).unwrap(), space)).collect()
    }

    #[test]
    fn names_are_plain() {
        for good in ["a", "Title_2", "-x", &"x".repeat(MAX_VECTOR_NAME_BYTES)] {
            assert_eq!(VectorName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "a.b", "a/b", "a b", "ü", "a\0", &"x".repeat(MAX_VECTOR_NAME_BYTES + 1)] {
            assert!(VectorName::new(bad).is_err(), "{bad:?} must be refused");
        }
        assert!(serde_json::from_str::<VectorName>("\"a.b\"").is_err());
    }

    #[test]
    fn spaces_are_few_told_apart_and_in_range() {
        assert!(check_named_spaces(&spaces(&["a", "b", "c", "d", "e", "f", "g", "h"], 65_536)).is_ok());
        let fault = |names: &[&str], dimension| check_named_spaces(&spaces(names, dimension)).unwrap_err().to_string();
        let nine = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
        assert_eq!(fault(&nine, 1), "named_vectors: must be at most 8, got 9");
        assert_eq!(
            fault(&["Title", "title"], 1),
            "named_vectors: \"Title\" and \"title\" must differ in more than case"
        );
        let expected = "named_vectors[\"a\"].dimension: must be between 1 and 65536, got 0";
        assert_eq!(fault(&["a"], 0), expected);
    }

    #[test]
    fn an_unknown_name_is_told_with_the_known_ones() {
        let known = no_such_space("x", &spaces(&["title", "image"], 1));
        assert_eq!(known, "the collection has no vectors named \"x\"; it has \"image\", \"title\"");
        assert!(no_such_space("x", &BTreeMap::new()).contains("no named vectors"));
    }

    #[test]
    fn vectors_fit_their_space() {
        let space = VectorSpace { dimension: 2, metric: Metric::Cosine };
        assert!(space.vector(vec![1.0, 0.0]).is_ok());
        assert_eq!(space.vector(vec![1.0]).unwrap_err(), "must have the collection's 2 dimensions, got 1");
        assert!(space.vector(vec![0.0, 0.0]).unwrap_err().contains("zero vector"));
    }
}
