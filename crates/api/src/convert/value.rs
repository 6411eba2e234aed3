//! Metadata values.

use std::collections::BTreeMap;

use toller_core::filter::escape_name;
use toller_core::{Error, Result, Value};

use crate::v1;
use crate::v1::value::Kind;

/// A value from its message. The message's nesting is bounded by the decoder; the value's by `toller_core::Value::check`.
///
/// # Errors
/// `InvalidArgument` for a message without a kind, with the path inside the value.
pub fn value_from_message(message: v1::Value) -> Result<Value> {
    match message.kind {
        None => Err(Error::invalid("", "must have a kind; say null with null_value")),
        Some(Kind::NullValue(number)) if number != 0 => {
            Err(Error::invalid("null_value", format!("must be NULL_VALUE_UNSPECIFIED, got {number}")))
        }
        Some(Kind::NullValue(_)) => Ok(Value::Null),
        Some(Kind::BoolValue(value)) => Ok(Value::Bool(value)),
        Some(Kind::IntValue(value)) => Ok(Value::Int(value)),
        Some(Kind::DoubleValue(value)) => Ok(Value::Double(value)),
        Some(Kind::StringValue(value)) => Ok(Value::String(value)),
        Some(Kind::ListValue(list)) => {
            let items = list.values.into_iter().enumerate();
            items
                .map(|(index, item)| value_from_message(item).map_err(|error| error.within(&format!("[{index}]"))))
                .collect::<Result<_>>()
                .map(Value::List)
        }
        Some(Kind::MapValue(map)) => entries_from_message(map.entries).map(Value::Map),
    }
}

/// Map entries from their messages; the path of a fault begins with the key, escaped as in filters.
pub(super) fn entries_from_message(entries: BTreeMap<String, v1::Value>) -> Result<BTreeMap<String, Value>> {
    entries
        .into_iter()
        .map(|(key, value)| match value_from_message(value) {
            Ok(value) => Ok((key, value)),
            Err(error) => Err(error.within(&escape_name(&key))),
        })
        .collect()
}

/// The message of a value.
pub fn value_to_message(value: &Value) -> v1::Value {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(value) => Kind::BoolValue(*value),
        Value::Int(value) => Kind::IntValue(*value),
        Value::Double(value) => Kind::DoubleValue(*value),
        Value::String(value) => Kind::StringValue(value.clone()),
        Value::List(items) => Kind::ListValue(v1::ListValue { values: items.iter().map(value_to_message).collect() }),
        Value::Map(entries) => Kind::MapValue(v1::MapValue {
            entries: entries.iter().map(|(key, value)| (key.clone(), value_to_message(value))).collect(),
        }),
    };
    v1::Value { kind: Some(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_the_round_trip() {
        let value = Value::List(vec![
            Value::Null,
            Value::Bool(true),
            Value::Int((1 << 53) + 1),
            Value::Double(1.0),
            Value::from("ünï"),
            Value::Map([("a".to_owned(), Value::Int(i64::MIN))].into()),
        ]);
        assert_eq!(value_from_message(value_to_message(&value)), Ok(value));
    }

    #[test]
    fn a_missing_kind_is_named_with_its_path() {
        let map = v1::MapValue { entries: [("a.b".to_owned(), v1::Value { kind: None })].into() };
        let list = v1::ListValue { values: vec![v1::Value { kind: Some(Kind::MapValue(map)) }] };
        let error = value_from_message(v1::Value { kind: Some(Kind::ListValue(list)) }).unwrap_err();
        assert!(error.to_string().starts_with(r"[0].a\.b: "), "{error}");
    }
}
