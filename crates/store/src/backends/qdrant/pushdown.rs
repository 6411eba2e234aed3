//! What of a filter the server can be given: conditions that hold for every record that matches, and for few others.
//!
//! The server compares numbers as doubles and looks into lists, so what it finds is checked again with the filter itself.
//! What would leave out a match (negations, nulls, the order of texts) is not given to it.

use qdrant_client::qdrant::r#match::MatchValue;
use qdrant_client::qdrant::{Condition, Filter as ServerFilter, Range};
use toller_core::filter::KeyPath;
use toller_core::{Filter, Value};

use super::conditions::{any_of, is, nested, within};
use super::point::METADATA;

/// A condition that holds wherever the filter matches; none where the server cannot be given any.
pub(super) fn weaken(filter: &Filter) -> Option<Condition> {
    match filter {
        Filter::And(parts) => {
            let must: Vec<_> = parts.iter().filter_map(weaken).collect();
            (!must.is_empty()).then(|| nested(ServerFilter { must, ..ServerFilter::default() }))
        }
        Filter::Or(parts) => any(parts.iter().map(weaken).collect::<Option<_>>()?),
        // With a text, it may mean a part of a text, which the server cannot look for as it is meant.
        Filter::Contains(_, Value::String(_)) => None,
        Filter::Eq(key, value) | Filter::Contains(key, value) => same(key, value),
        Filter::In(key, values) => any(values.iter().map(|value| same(key, value)).collect::<Option<_>>()?),
        Filter::Lt(key, bound) | Filter::Lte(key, bound) => {
            range(key, Range { lte: as_double(bound), ..Range::default() })
        }
        Filter::Gt(key, bound) | Filter::Gte(key, bound) => {
            range(key, Range { gte: as_double(bound), ..Range::default() })
        }
        _ => None,
    }
}

/// None for no parts: the server takes an empty list of alternatives for no condition at all.
fn any(should: Vec<Condition>) -> Option<Condition> {
    (!should.is_empty()).then(|| any_of(should))
}

fn same(key: &KeyPath, value: &Value) -> Option<Condition> {
    match value {
        Value::String(text) => Some(is(&path_of(key)?, MatchValue::Keyword(text.clone()))),
        Value::Bool(value) => Some(is(&path_of(key)?, MatchValue::Boolean(*value))),
        Value::Int(_) | Value::Double(_) => {
            let bound = as_double(value);
            range(key, Range { gte: bound, lte: bound, ..Range::default() })
        }
        Value::Null | Value::List(_) | Value::Map(_) => None,
    }
}

fn range(key: &KeyPath, range: Range) -> Option<Condition> {
    if range.lte.is_none() && range.gte.is_none() {
        return None;
    }
    Some(within(&path_of(key)?, range))
}

/// Rounding to a double keeps the order, so bounds that are rounded and inclusive leave out no match.
fn as_double(value: &Value) -> Option<f64> {
    match value {
        Value::Int(value) => Some(*value as f64),
        Value::Double(value) => Some(*value),
        _ => None,
    }
}

/// The path in the server's spelling; none for names that it would have to quote.
fn path_of(key: &KeyPath) -> Option<String> {
    let is_plain = |name: &String| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
    };
    key.names().iter().all(is_plain).then(|| format!("{METADATA}.{}", key.names().join(".")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(path: &str) -> KeyPath {
        KeyPath::parse(path).unwrap()
    }

    #[test]
    fn what_would_leave_out_a_match_is_not_given() {
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
            assert!(weaken(&filter).is_none(), "{filter:?}");
        }
    }

    #[test]
    fn the_part_of_a_conjunction_that_can_be_given_is() {
        let filter = Filter::And(vec![
            Filter::Ne(key("a"), Value::Null),
            Filter::Eq(key("b.c"), Value::Bool(true)),
            Filter::Lt(key("n"), Value::Int(3)),
        ]);
        let expected = nested(ServerFilter {
            must: vec![
                is("metadata.b.c", MatchValue::Boolean(true)),
                within("metadata.n", Range { lte: Some(3.0), ..Range::default() }),
            ],
            ..ServerFilter::default()
        });
        assert_eq!(weaken(&filter), Some(expected));
    }
}
