//! How vectors are kept beside their full form.

use toller_core::{Error, Quantization, QuantizationKind, Result};

use crate::v1;

/// The quantisation of a new collection.
///
/// # Errors
/// `InvalidArgument` for `kind` (absent or unknown) or `oversampling`.
pub fn quantization_from_message(message: v1::Quantization) -> Result<Quantization> {
    let kind = match v1::QuantizationKind::try_from(message.kind) {
        Ok(v1::QuantizationKind::Int8) => QuantizationKind::Int8,
        Ok(v1::QuantizationKind::Binary) => QuantizationKind::Binary,
        Ok(v1::QuantizationKind::Unspecified) => return Err(Error::invalid("kind", "must be given")),
        Err(_) => return Err(Error::invalid("kind", format!("unknown value {}", message.kind))),
    };
    Quantization::new(kind, message.oversampling)
}

/// The message of a collection's quantisation.
pub fn quantization_to_message(quantization: Quantization) -> v1::Quantization {
    let kind = match quantization.kind {
        QuantizationKind::Int8 => v1::QuantizationKind::Int8,
        QuantizationKind::Binary => v1::QuantizationKind::Binary,
    };
    v1::Quantization { kind: kind.into(), oversampling: Some(quantization.oversampling) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantisation_there_and_back() {
        for kind in [v1::QuantizationKind::Int8, v1::QuantizationKind::Binary] {
            let message = v1::Quantization { kind: kind.into(), oversampling: Some(2.5) };
            assert_eq!(quantization_to_message(quantization_from_message(message).unwrap()), message);
            let default = v1::Quantization { kind: kind.into(), oversampling: None };
            let default = quantization_to_message(quantization_from_message(default).unwrap());
            assert_eq!(default.kind(), kind);
            assert!(default.oversampling > Some(1.0));
        }
        let fault = |kind, oversampling| {
            quantization_from_message(v1::Quantization { kind, oversampling }).unwrap_err().to_string()
        };
        assert_eq!(fault(0, None), "kind: must be given");
        assert_eq!(fault(9, None), "kind: unknown value 9");
        assert!(fault(1, Some(0.0)).starts_with("oversampling: "));
    }
}
