//! Filters: messages become the JSON of the other interface of Qdrant, which the engine reads.

use qdrant_client::qdrant::condition::ConditionOneOf;
use qdrant_client::qdrant::r#match::MatchValue;
use qdrant_client::qdrant::{Condition, FieldCondition, Filter, PointId, point_id};
use qdrant_edge as engine;
use serde_json::{Value as Json, json};
use tonic::Status;

use crate::service::not_served;

/// A message's filter for the engine.
pub(crate) fn to_engine(filter: Filter) -> Result<engine::Filter, Status> {
    serde_json::from_value(of_filter(filter)?).map_err(|fault| Status::invalid_argument(format!("filter: {fault}")))
}

/// A message's id of a point for the engine.
pub(crate) fn id_to_engine(id: Option<PointId>) -> Result<engine::PointId, Status> {
    match id.and_then(|id| id.point_id_options) {
        Some(point_id::PointIdOptions::Num(number)) => Ok(engine::PointId::NumId(number)),
        Some(point_id::PointIdOptions::Uuid(text)) => {
            let unreadable = |_| Status::invalid_argument(format!("Unable to parse UUID: {text}"));
            Ok(engine::PointId::Uuid(text.parse().map_err(unreadable)?))
        }
        None => Err(Status::invalid_argument("No ID options provided")),
    }
}

/// The engine's id of a point as a message's.
pub(crate) fn id_to_message(id: engine::PointId) -> PointId {
    let options = match id {
        engine::PointId::NumId(number) => point_id::PointIdOptions::Num(number),
        engine::PointId::Uuid(uuid) => point_id::PointIdOptions::Uuid(uuid.to_string()),
    };
    PointId { point_id_options: Some(options) }
}

fn of_filter(filter: Filter) -> Result<Json, Status> {
    if filter.min_should.is_some() {
        return Err(not_served("min_should of a filter"));
    }
    let all = |conditions: Vec<Condition>| conditions.into_iter().map(of_condition).collect::<Result<Vec<_>, _>>();
    let mut object = serde_json::Map::new();
    for (name, conditions) in [("must", filter.must), ("should", filter.should), ("must_not", filter.must_not)] {
        if !conditions.is_empty() {
            object.insert(name.to_owned(), Json::Array(all(conditions)?));
        }
    }
    Ok(Json::Object(object))
}

fn of_condition(condition: Condition) -> Result<Json, Status> {
    match condition.condition_one_of {
        Some(ConditionOneOf::Field(field)) => of_field(field),
        Some(ConditionOneOf::Filter(filter)) => of_filter(filter),
        Some(ConditionOneOf::HasId(wanted)) => {
            let ids = wanted.has_id.into_iter().map(|id| id_to_engine(Some(id))).collect::<Result<Vec<_>, _>>()?;
            Ok(json!({ "has_id": ids }))
        }
        Some(other) => Err(not_served(&format!("the condition {other:?}"))),
        None => Err(Status::invalid_argument("Malformed condition type")),
    }
}

fn of_field(field: FieldCondition) -> Result<Json, Status> {
    match field {
        FieldCondition { key, r#match: Some(wanted), range: None, .. } => {
            let wanted = match wanted.match_value {
                Some(MatchValue::Keyword(text)) => json!({ "value": text }),
                Some(MatchValue::Integer(number)) => json!({ "value": number }),
                Some(MatchValue::Boolean(value)) => json!({ "value": value }),
                Some(MatchValue::Keywords(texts)) => json!({ "any": texts.strings }),
                Some(MatchValue::Integers(numbers)) => json!({ "any": numbers.integers }),
                other => return Err(not_served(&format!("the match {other:?}"))),
            };
            Ok(json!({ "key": key, "match": wanted }))
        }
        FieldCondition { key, r#match: None, range: Some(range), .. } => {
            let bounds = json!({ "lt": range.lt, "gt": range.gt, "lte": range.lte, "gte": range.gte });
            Ok(json!({ "key": key, "range": bounds }))
        }
        other => Err(not_served(&format!("the condition {other:?}"))),
    }
}
