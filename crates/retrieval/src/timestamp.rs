//! Moments in the metadata of documents.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use toller_core::Value;

/// Seconds since 1970-01-01 UTC of a number of such seconds, or of a string in RFC 3339; none for what is neither.
pub(crate) fn unix_seconds(value: &Value) -> Option<f64> {
    match value {
        Value::Int(seconds) => Some(*seconds as f64),
        Value::Double(seconds) => Some(*seconds),
        Value::String(text) => {
            let moment = OffsetDateTime::parse(text, &Rfc3339).ok()?;
            Some(moment.unix_timestamp() as f64 + f64::from(moment.nanosecond()) / 1e9)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_rfc_3339_are_moments() {
        for (value, expected) in [
            (Value::Int(1_700_000_000), Some(1_700_000_000.0)),
            (Value::Double(0.5), Some(0.5)),
            (Value::from("1970-01-02T00:00:00Z"), Some(86_400.0)),
            (Value::from("1970-01-02T00:00:00.5+01:00"), Some(82_800.5)),
            (Value::from("1970-01-02"), None),
            (Value::from("now"), None),
            (Value::Null, None),
        ] {
            assert_eq!(unix_seconds(&value), expected, "{value:?}");
        }
    }
}
