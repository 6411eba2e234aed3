//! A vector that is safe to compute with.

use crate::metric::Metric;

/// Largest dimension of a vector.
pub const MAX_DIMENSION: usize = 65_536;

/// A non-empty vector of finite numbers; where the metric is cosine, its length is not zero.
///
/// Built only through [`Vector::new`], so that no score is ever NaN.
#[derive(Debug, Clone, PartialEq)]
pub struct Vector(Box<[f32]>);

impl Vector {
    /// Checks `values` for `metric`.
    ///
    /// # Errors
    /// Says which element is at fault: not finite, too many, none at all, or (for cosine) a zero vector.
    pub fn new(values: Vec<f32>, metric: Metric) -> Result<Self, String> {
        if values.is_empty() {
            return Err("must have at least one dimension".to_owned());
        }
        if values.len() > MAX_DIMENSION {
            return Err(format!("must have at most {MAX_DIMENSION} dimensions, got {}", values.len()));
        }
        if let Some((index, value)) = values.iter().enumerate().find(|(_, value)| !value.is_finite()) {
            return Err(format!("element {index} must be a finite number, got {value}"));
        }
        if metric == Metric::Cosine && values.iter().all(|value| *value == 0.0) {
            return Err("must not be the zero vector: its cosine similarity is undefined".to_owned());
        }
        Ok(Self(values.into_boxed_slice()))
    }

    /// The elements.
    pub fn as_slice(&self) -> &[f32] {
        &self.0
    }

    /// Number of elements, at least 1.
    pub fn dimension(&self) -> usize {
        self.0.len()
    }

    /// The elements, by value.
    pub fn into_vec(self) -> Vec<f32> {
        self.0.into_vec()
    }
}

impl AsRef<[f32]> for Vector {
    fn as_ref(&self) -> &[f32] {
        &self.0
    }
}
