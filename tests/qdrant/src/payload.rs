//! Payloads, as messages and as the engine has them.

use std::collections::HashMap;

use qdrant_client::qdrant::value::Kind;
use qdrant_client::qdrant::{ListValue, Struct, Value};
use qdrant_edge as engine;
use qdrant_edge::external::serde_json::{Map, Number, Value as Json};
use tonic::Status;

/// A message's payload for the engine.
pub(crate) fn to_engine(payload: HashMap<String, Value>) -> Result<engine::Payload, Status> {
    Ok(engine::Payload(object(payload)?))
}

/// The engine's payload as a message's.
pub(crate) fn to_message(payload: Option<engine::Payload>) -> HashMap<String, Value> {
    payload.map(|payload| fields(payload.0)).unwrap_or_default()
}

fn object(fields: HashMap<String, Value>) -> Result<Map<String, Json>, Status> {
    fields.into_iter().map(|(key, value)| Ok((key, json(value)?))).collect()
}

fn json(value: Value) -> Result<Json, Status> {
    Ok(match value.kind {
        None | Some(Kind::NullValue(_)) => Json::Null,
        Some(Kind::BoolValue(value)) => Json::Bool(value),
        Some(Kind::IntegerValue(value)) => Json::Number(value.into()),
        Some(Kind::DoubleValue(value)) => {
            let number = Number::from_f64(value);
            Json::Number(number.ok_or_else(|| Status::invalid_argument("cannot convert to json number"))?)
        }
        Some(Kind::StringValue(value)) => Json::String(value),
        Some(Kind::ListValue(list)) => Json::Array(list.values.into_iter().map(json).collect::<Result<_, _>>()?),
        Some(Kind::StructValue(value)) => Json::Object(object(value.fields)?),
    })
}

fn fields(object: Map<String, Json>) -> HashMap<String, Value> {
    object.into_iter().map(|(key, value)| (key, message(value))).collect()
}

fn message(value: Json) -> Value {
    let kind = match value {
        Json::Null => Kind::NullValue(0),
        Json::Bool(value) => Kind::BoolValue(value),
        Json::Number(number) => match number.as_i64() {
            Some(integer) => Kind::IntegerValue(integer),
            None => Kind::DoubleValue(number.as_f64().unwrap_or_default()),
        },
        Json::String(text) => Kind::StringValue(text),
        Json::Array(values) => Kind::ListValue(ListValue { values: values.into_iter().map(message).collect() }),
        Json::Object(object) => Kind::StructValue(Struct { fields: fields(object) }),
    };
    Value { kind: Some(kind) }
}
