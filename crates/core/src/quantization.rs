//! Quantisation: vectors that are kept a second time with fewer bits, for searches that touch less memory.
//!
//! It decides which records are looked at, never their scores: hits are scored from the vectors as they were written.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Greatest [`Quantization::oversampling`].
pub const MAX_OVERSAMPLING: f64 = 64.0;

/// With how many bits an element is kept beside its full form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuantizationKind {
    /// Eight bits: a quarter of the memory.
    Int8,
    /// One bit: a thirty-second of the memory. For vectors of many dimensions, whose elements are about as often above 0 as below.
    Binary,
}

impl QuantizationKind {
    /// Its spelling, such as `int8`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Int8 => "int8",
            Self::Binary => "binary",
        }
    }

    /// The oversampling where none is chosen: the fewer bits, the more candidates.
    pub fn default_oversampling(self) -> f64 {
        match self {
            Self::Int8 => 1.5,
            Self::Binary => 3.0,
        }
    }
}

impl fmt::Display for QuantizationKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// How the vectors of a collection are kept beside their full form. Fixed when the collection is made.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantization {
    /// With how many bits.
    pub kind: QuantizationKind,
    /// How many times as many candidates as are wanted are taken by the quantised vectors, to be scored from the full
    /// ones; 1 to [`MAX_OVERSAMPLING`].
    pub oversampling: f64,
}

impl Quantization {
    /// Checks the oversampling; none is the kind's default.
    ///
    /// # Errors
    /// `InvalidArgument` for `oversampling`.
    pub fn new(kind: QuantizationKind, oversampling: Option<f64>) -> Result<Self> {
        let oversampling = oversampling.unwrap_or_else(|| kind.default_oversampling());
        if (1.0..=MAX_OVERSAMPLING).contains(&oversampling) {
            return Ok(Self { kind, oversampling });
        }
        Err(Error::invalid("oversampling", format!("must be from 1 to {MAX_OVERSAMPLING}, got {oversampling}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oversampling_has_a_range_and_a_default_for_each_kind() {
        for kind in [QuantizationKind::Int8, QuantizationKind::Binary] {
            assert_eq!(Quantization::new(kind, None).unwrap().oversampling, kind.default_oversampling());
            assert!(Quantization::new(kind, Some(1.0)).is_ok() && Quantization::new(kind, Some(64.0)).is_ok());
            for wrong in [0.0, 0.99, 64.5, -1.0, f64::NAN, f64::INFINITY] {
                let fault = Quantization::new(kind, Some(wrong)).unwrap_err().to_string();
                assert!(fault.starts_with("oversampling: must be from 1 to 64"), "{fault}");
            }
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{kind}\""));
        }
    }
}
