//! What of a filter the engine can be given: conditions that hold for every record that matches, and for few others.
//!
//! The engine compares numbers as doubles, looks into lists, and takes an empty list for a missing key, so what it finds is
//! checked again with the filter itself. What would leave out a match (negations, nulls, the order of texts) is not given to it.

use std::collections::BTreeMap;

use qdrant_edge as engine;
use qdrant_edge::external::ordered_float::OrderedFloat;
use toller_core::filter::KeyPath;
use toller_core::{Filter, Value};

use super::point::METADATA;

/// A field of the payload that a condition looks at, with the kind of index that would serve it.
pub(super) type Fields = BTreeMap<String, engine::PayloadSchemaType>;

/// Conditions for the engine.
#[derive(Debug, Clone)]
pub(super) struct Pushed {
    /// Keeps at least all matches.
    pub(super) filter: engine::Filter,
    /// What the conditions look at.
    pub(super) fields: Fields,
}

/// The part of `filter` that the engine can be given; none when that is nothing.
pub(super) fn push_down(filter: &Filter) -> Option<Pushed> {
    let mut fields = Fields::new();
    let condition = weaken(filter, &mut fields)?;
    Some(Pushed { filter: engine::Filter::new_must(condition), fields })
}

/// A condition that holds wherever the filter matches.
fn weaken(filter: &Filter, fields: &mut Fields) -> Option<engine::Condition> {
    match filter {
        Filter::And(parts) => {
            let must: Vec<_> = parts.iter().filter_map(|part| weaken(part, fields)).collect();
            (!must.is_empty())
                .then(|| engine::Condition::Filter(engine::Filter { must: Some(must), ..engine::Filter::new() }))
        }
        Filter::Or(parts) => any_of(parts.iter().map(|part| weaken(part, fields)).collect::<Option<_>>()?),
        Filter::Eq(key, value) | Filter::Contains(key, value) if !is_part_of_text(filter) => same(key, value, fields),
        Filter::In(key, values) => any_of(values.iter().map(|value| same(key, value, fields)).collect::<Option<_>>()?),
        Filter::Lt(key, bound) | Filter::Lte(key, bound) => {
            range(key, engine::Range { lte: as_double(bound), ..engine::Range::default() }, fields)
        }
        Filter::Gt(key, bound) | Filter::Gte(key, bound) => {
            range(key, engine::Range { gte: as_double(bound), ..engine::Range::default() }, fields)
        }
        _ => None,
    }
}

/// `contains` with a text may mean a part of a text, which the engine cannot look for as it is meant.
fn is_part_of_text(filter: &Filter) -> bool {
    matches!(filter, Filter::Contains(_, Value::String(_)))
}

/// None for no parts: the engine takes an empty list of alternatives for no condition at all.
fn any_of(should: Vec<engine::Condition>) -> Option<engine::Condition> {
    (!should.is_empty())
        .then(|| engine::Condition::Filter(engine::Filter { should: Some(should), ..engine::Filter::new() }))
}

fn same(key: &KeyPath, value: &Value, fields: &mut Fields) -> Option<engine::Condition> {
    let (value, kind) = match value {
        Value::String(text) => (engine::ValueVariants::String(text.clone()), engine::PayloadSchemaType::Keyword),
        Value::Bool(value) => (engine::ValueVariants::Bool(*value), engine::PayloadSchemaType::Bool),
        Value::Int(_) | Value::Double(_) => {
            let bound = as_double(value);
            return range(key, engine::Range { gte: bound, lte: bound, ..engine::Range::default() }, fields);
        }
        Value::Null | Value::List(_) | Value::Map(_) => return None,
    };
    let (name, path) = path_of(key)?;
    fields.insert(name, kind);
    Some(engine::Condition::Field(engine::FieldCondition::new_match(path, engine::Match::new_value(value))))
}

fn range(key: &KeyPath, range: engine::Range<OrderedFloat<f64>>, fields: &mut Fields) -> Option<engine::Condition> {
    if range.lte.is_none() && range.gte.is_none() {
        return None;
    }
    let (name, path) = path_of(key)?;
    fields.insert(name, engine::PayloadSchemaType::Float);
    Some(engine::Condition::Field(engine::FieldCondition::new_range(path, range)))
}

/// Rounding to a double keeps the order, so bounds that are rounded and inclusive leave out no match.
fn as_double(value: &Value) -> Option<OrderedFloat<f64>> {
    match value {
        Value::Int(value) => Some(OrderedFloat(*value as f64)),
        Value::Double(value) => Some(OrderedFloat(*value)),
        _ => None,
    }
}

/// The path in the engine's spelling; none for names that it would have to quote.
fn path_of(key: &KeyPath) -> Option<(String, engine::JsonPath)> {
    let is_plain = |name: &String| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
    };
    if !key.names().iter().all(is_plain) {
        return None;
    }
    let name = format!("{METADATA}.{}", key.names().join("."));
    let path = name.parse().ok()?;
    Some((name, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(path: &str) -> KeyPath {
        KeyPath::parse(path).unwrap()
    }

    #[test]
    fn what_would_leave_out_a_match_is_not_pushed() {
        let text = || Value::from("x");
        let eq = |path: &str| Filter::Eq(key(path), text());
        for filter in [
            Filter::Ne(key("a"), text()),
            Filter::Nin(key("a"), vec![text()]),
            Filter::Not(Box::new(eq("a"))),
            Filter::Exists(key("a"), true),
            Filter::Contains(key("a"), text()),
            Filter::Eq(key("a"), Value::Null),
            Filter::Eq(key("a\\.b"), text()),
            Filter::Gt(key("a"), text()),
            Filter::Or(vec![eq("a"), Filter::Ne(key("a"), text())]),
            Filter::And(vec![]),
            Filter::Or(vec![]),
            Filter::In(key("a"), vec![]),
        ] {
            assert!(push_down(&filter).is_none(), "{filter:?}");
        }
    }

    #[test]
    fn the_part_of_a_conjunction_that_can_be_pushed_is() {
        let filter = Filter::And(vec![
            Filter::Ne(key("a"), Value::Null),
            Filter::Eq(key("b.c"), Value::Bool(true)),
            Filter::Lt(key("n"), Value::Int(3)),
        ]);
        let pushed = push_down(&filter).unwrap();
        let fields: Vec<&str> = pushed.fields.keys().map(String::as_str).collect();
        assert_eq!(fields, ["metadata.b.c", "metadata.n"]);
    }
}
