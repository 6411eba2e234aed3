//! The JSON form of metadata filters: the one that people know from Chroma, Pinecone and Mongo.
//!
//! ```json
//! {"lang": "en", "year": {"$gte": 2020, "$lt": 2025}}
//! {"$or": [{"tags": {"$contains": "rust"}}, {"author.name": {"$in": ["Ann", "Bo"]}}]}
//! {"$not": {"draft": true}}
//! ```
//!
//! Several conditions in one object are ANDed. A key is a path (`author.name`; `\.` is a dot within a name, and a leading
//! `\$` a dollar sign). Where the known forms differ or hide mistakes, this one asks: a key that stands twice, an object
//! without conditions, and a bare list or map as a value are errors that say what to write instead.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toller_core::filter::KeyPath;
use toller_core::value::oversized_integer;
use toller_core::{Filter, Value};

/// A filter that reads and writes its JSON form.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonFilter(pub(crate) Filter);

/// Reads the JSON form.
///
/// # Errors
/// Names the path of the fault, such as `year.$gt3`.
pub(crate) fn parse(text: &str) -> Result<Filter, String> {
    check_integers(text)?;
    serde_json::from_str::<JsonFilter>(text).map(|JsonFilter(filter)| filter).map_err(|fault| fault.to_string())
}

/// Refuses JSON with an integer that would become a double in silence.
///
/// # Errors
/// Names the first integer outside the 64-bit signed ones.
pub(crate) fn check_integers(json: &str) -> Result<(), String> {
    match oversized_integer(json) {
        None => Ok(()),
        Some(integer) => Err(format!(
            "integer {integer} is outside the 64-bit signed integers; pass it as a string, or with .0 as a double"
        )),
    }
}

impl<'de> Deserialize<'de> for JsonFilter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        conditions(Node::deserialize(deserializer)?, "").map(Self).map_err(de::Error::custom)
    }
}

impl Serialize for JsonFilter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        to_json(&self.0).serialize(serializer)
    }
}

/// The operators that compare the value at a key.
const COMPARISONS: &str = "$eq, $ne, $in, $nin, $lt, $lte, $gt, $gte, $exists, $contains, $not";

/// An object of conditions, all of which must hold.
fn conditions(node: Node, path: &str) -> Result<Filter, String> {
    let Node::Object(entries) = node else {
        return Err(fault(path, r#"must be an object of conditions, such as {"lang":"en"}"#));
    };
    if entries.is_empty() {
        return Err(fault(path, "must have at least one condition; leave the filter out to match everything"));
    }
    let parts = entries.into_iter().map(|(key, node)| condition(&key, node, path)).collect::<Result<_, _>>()?;
    Ok(all_of(parts))
}

fn condition(key: &str, node: Node, path: &str) -> Result<Filter, String> {
    let here = join(path, key);
    match key {
        "$and" => list_of_conditions(node, &here).map(Filter::And),
        "$or" => list_of_conditions(node, &here).map(Filter::Or),
        "$not" => conditions(node, &here).map(|inner| Filter::Not(Box::new(inner))),
        _ if key.starts_with('$') => Err(fault(
            &here,
            &format!("unknown operator; here stand $and, $or, $not or a key with one of {COMPARISONS}"),
        )),
        _ => {
            let key = key.strip_prefix('\\').filter(|rest| rest.starts_with('$')).unwrap_or(key);
            let key = KeyPath::parse(key).map_err(|description| fault(&here, &format!("the key {description}")))?;
            comparisons(&key, node, &here)
        }
    }
}

fn list_of_conditions(node: Node, path: &str) -> Result<Vec<Filter>, String> {
    let Node::List(items) = node else {
        return Err(fault(path, "must be a list of objects"));
    };
    items.into_iter().enumerate().map(|(index, item)| conditions(item, &format!("{path}[{index}]"))).collect()
}

/// What must hold for the value at `key`: a plain value it equals, or an object of operators.
fn comparisons(key: &KeyPath, node: Node, path: &str) -> Result<Filter, String> {
    match node {
        Node::Scalar(value) => Ok(Filter::Eq(key.clone(), value)),
        Node::List(_) => Err(fault(
            path,
            r#"a bare list is ambiguous; write {"$in": […]} for one of these, or {"$eq": […]} for the list itself"#,
        )),
        Node::Object(operators) if operators.is_empty() => {
            Err(fault(path, &format!("must have at least one operator of {COMPARISONS}")))
        }
        Node::Object(operators) => {
            let parts = operators.into_iter().map(|(operator, node)| comparison(key, &operator, node, path));
            Ok(all_of(parts.collect::<Result<_, _>>()?))
        }
    }
}

fn comparison(key: &KeyPath, operator: &str, node: Node, path: &str) -> Result<Filter, String> {
    let here = join(path, operator);
    let key = key.clone();
    match operator {
        "$eq" => Ok(Filter::Eq(key, node.into_value())),
        "$ne" => Ok(Filter::Ne(key, node.into_value())),
        "$in" => Ok(Filter::In(key, list_of_values(node, &here)?)),
        "$nin" => Ok(Filter::Nin(key, list_of_values(node, &here)?)),
        "$lt" => Ok(Filter::Lt(key, bound(node, &here)?)),
        "$lte" => Ok(Filter::Lte(key, bound(node, &here)?)),
        "$gt" => Ok(Filter::Gt(key, bound(node, &here)?)),
        "$gte" => Ok(Filter::Gte(key, bound(node, &here)?)),
        "$contains" => Ok(Filter::Contains(key, node.into_value())),
        "$exists" => match node {
            Node::Scalar(Value::Bool(wanted)) => Ok(Filter::Exists(key, wanted)),
            _ => Err(fault(&here, "must be true or false")),
        },
        "$not" => match node {
            Node::Object(_) => comparisons(&key, node, &here).map(|inner| Filter::Not(Box::new(inner))),
            _ => Err(fault(&here, r#"must be an object of operators, such as {"$gt": 1}; use $ne for a value"#)),
        },
        _ if operator.starts_with('$') => Err(fault(&here, &format!("unknown operator; there are {COMPARISONS}"))),
        _ => Err(fault(
            &here,
            &format!(
                "operators begin with $ ({COMPARISONS}); write the path with a dot for a value within a map, or $eq to compare a whole map"
            ),
        )),
    }
}

fn list_of_values(node: Node, path: &str) -> Result<Vec<Value>, String> {
    match node {
        Node::List(items) => Ok(items.into_iter().map(Node::into_value).collect()),
        _ => Err(fault(path, "must be a list of values")),
    }
}

fn bound(node: Node, path: &str) -> Result<Value, String> {
    match node {
        Node::Scalar(value @ (Value::Int(_) | Value::Double(_) | Value::String(_))) => Ok(value),
        _ => Err(fault(path, "must be a number or a string")),
    }
}

/// One condition stays itself; several are ANDed.
fn all_of(mut parts: Vec<Filter>) -> Filter {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            Filter::And(parts)
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn fault(path: &str, description: &str) -> String {
    if path.is_empty() { format!("filter: {description}") } else { format!("{path}: {description}") }
}

/// The JSON form of a filter: `parse` of its text is the same filter. (Numbers are finite in filters that a server accepted.)
fn to_json(filter: &Filter) -> serde_json::Value {
    let list = |filters: &[Filter]| filters.iter().map(to_json).collect::<serde_json::Value>();
    let values = |values: &[Value]| values.iter().map(value_to_json).collect::<serde_json::Value>();
    match filter {
        Filter::And(filters) => object("$and", list(filters)),
        Filter::Or(filters) => object("$or", list(filters)),
        Filter::Not(inner) => object("$not", to_json(inner)),
        Filter::Eq(key, value) => match value {
            Value::List(_) | Value::Map(_) => operator(key, "$eq", value_to_json(value)),
            scalar => object(&key_to_json(key), value_to_json(scalar)),
        },
        Filter::Ne(key, value) => operator(key, "$ne", value_to_json(value)),
        Filter::In(key, wanted) => operator(key, "$in", values(wanted)),
        Filter::Nin(key, wanted) => operator(key, "$nin", values(wanted)),
        Filter::Lt(key, value) => operator(key, "$lt", value_to_json(value)),
        Filter::Lte(key, value) => operator(key, "$lte", value_to_json(value)),
        Filter::Gt(key, value) => operator(key, "$gt", value_to_json(value)),
        Filter::Gte(key, value) => operator(key, "$gte", value_to_json(value)),
        Filter::Exists(key, wanted) => operator(key, "$exists", (*wanted).into()),
        Filter::Contains(key, value) => operator(key, "$contains", value_to_json(value)),
    }
}

fn object(key: &str, value: serde_json::Value) -> serde_json::Value {
    serde_json::Value::Object([(key.to_owned(), value)].into_iter().collect())
}

fn operator(key: &KeyPath, operator: &str, value: serde_json::Value) -> serde_json::Value {
    object(&key_to_json(key), object(operator, value))
}

fn key_to_json(key: &KeyPath) -> String {
    let text = key.as_str();
    if text.starts_with('$') { format!("\\{text}") } else { text.to_owned() }
}

fn value_to_json(value: &Value) -> serde_json::Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// JSON as it was written: integers apart from doubles, keys in order, and none twice.
enum Node {
    Scalar(Value),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    fn into_value(self) -> Value {
        match self {
            Self::Scalar(value) => value,
            Self::List(items) => Value::List(items.into_iter().map(Self::into_value).collect()),
            Self::Object(entries) => {
                Value::Map(entries.into_iter().map(|(key, node)| (key, node.into_value())).collect())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }
    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }
    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Bool(value)))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Int(value)))
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Node, E> {
        let value = i64::try_from(value).map_err(|_| {
            E::custom(format!("integer {value} is above the largest 64-bit signed integer; pass it as a string"))
        })?;
        Ok(Node::Scalar(Value::Int(value)))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Double(value)))
    }
    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(Value::from(value)))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        let mut seen = BTreeSet::new();
        while let Some((key, node)) = access.next_entry::<String, Node>()? {
            if !seen.insert(key.clone()) {
                return Err(de::Error::custom(format!("the key {key:?} stands twice in one object")));
            }
            entries.push((key, node));
        }
        Ok(Node::Object(entries))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(text: &str) -> KeyPath {
        KeyPath::parse(text).unwrap()
    }

    #[test]
    fn the_forms_by_example() {
        let cases = [
            (r#"{"lang":"en"}"#, Filter::Eq(key("lang"), "en".into())),
            (r#"{"a.b":null}"#, Filter::Eq(key("a.b"), Value::Null)),
            (r#"{"file\\.name":true}"#, Filter::Eq(key("file\\.name"), true.into())),
            (r#"{"\\$price":1}"#, Filter::Eq(key("$price"), Value::Int(1))),
            (
                r#"{"year":{"$gte":2020,"$lt":2025}}"#,
                Filter::And(vec![
                    Filter::Gte(key("year"), Value::Int(2020)),
                    Filter::Lt(key("year"), Value::Int(2025)),
                ]),
            ),
            (
                r#"{"lang":"en","year":{"$lte":2020.0}}"#,
                Filter::And(vec![
                    Filter::Eq(key("lang"), "en".into()),
                    Filter::Lte(key("year"), Value::Double(2020.0)),
                ]),
            ),
            (
                r#"{"$or":[{"a":{"$in":[1,"x"]}},{"b":{"$nin":[]}}]}"#,
                Filter::Or(vec![Filter::In(key("a"), vec![Value::Int(1), "x".into()]), Filter::Nin(key("b"), vec![])]),
            ),
            (r#"{"$and":[]}"#, Filter::And(vec![])),
            (r#"{"$not":{"a":{"$ne":1}}}"#, Filter::Not(Box::new(Filter::Ne(key("a"), Value::Int(1))))),
            (r#"{"a":{"$not":{"$gt":1}}}"#, Filter::Not(Box::new(Filter::Gt(key("a"), Value::Int(1))))),
            (r#"{"a":{"$exists":false}}"#, Filter::Exists(key("a"), false)),
            (r#"{"a":{"$contains":"x"}}"#, Filter::Contains(key("a"), "x".into())),
            (
                r#"{"a":{"$eq":{"b":[1,1.0]}}}"#,
                Filter::Eq(
                    key("a"),
                    Value::Map([("b".to_owned(), Value::List(vec![Value::Int(1), Value::Double(1.0)]))].into()),
                ),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn integers_stay_exact_and_doubles_stay_doubles() {
        let Ok(Filter::Eq(_, big)) = parse(r#"{"n":9007199254740993}"#) else { panic!() };
        assert_eq!(big, Value::Int((1 << 53) + 1));
        let Ok(Filter::Eq(_, one)) = parse(r#"{"n":1.0}"#) else { panic!() };
        assert_eq!(one, Value::Double(1.0));
        for integer in ["9223372036854775808", "18446744073709551616", "-9223372036854775809"] {
            let fault = parse(&format!(r#"{{"n":{{"$in":[1,{integer}]}}}}"#)).unwrap_err();
            assert!(fault.contains(integer) && fault.contains("pass it as a string"), "{fault}");
        }
        let quoted = parse(r#"{"n":"18446744073709551616"}"#).unwrap();
        assert_eq!(quoted, Filter::Eq(key("n"), "18446744073709551616".into()));
    }

    #[test]
    fn faults_name_their_path() {
        let cases = [
            (r#"{"year":{"$gt3":1}}"#, "year.$gt3: unknown operator"),
            (r#"{"year":{"gte":1}}"#, "year.gte: operators begin with $"),
            (r#"{"$gte":1}"#, "$gte: unknown operator"),
            (r#"{"$and":[{"a":1},{"b":{"$in":1}}]}"#, "$and[1].b.$in: must be a list"),
            (r#"{"$or":{"a":1}}"#, "$or: must be a list"),
            (r#"{"$not":[]}"#, "$not: must be an object"),
            (r#"{"$not":{}}"#, "$not: must have at least one condition"),
            (r#"{"a":{"$not":1}}"#, "a.$not: must be an object of operators"),
            (r#"{"a":{"$exists":1}}"#, "a.$exists: must be true or false"),
            (r#"{"a":{"$lt":true}}"#, "a.$lt: must be a number or a string"),
            (r#"{"a":{"$gt":[1]}}"#, "a.$gt: must be a number or a string"),
            (r#"{"a":[1,2]}"#, "a: a bare list is ambiguous"),
            (r#"{"a":{}}"#, "a: must have at least one operator"),
            (r#"{"a..b":1}"#, "a..b: the key must not have an empty name"),
            (r#"{"":1}"#, "filter: the key must not be empty"),
            ("{}", "filter: must have at least one condition"),
            ("[]", "filter: must be an object"),
            ("3", "filter: must be an object"),
            (r#"{"a":1,"a":2}"#, "the key \"a\" stands twice"),
            (r#"{"a":1"#, "EOF while parsing"),
            (r#"{"a":1e999}"#, "number out of range"),
        ];
        for (text, expected) in cases {
            let fault = parse(text).unwrap_err();
            assert!(fault.starts_with(expected), "{text}: {fault}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::Int),
            prop::num::f64::NORMAL.prop_map(Value::Double),
            Just(Value::Double(-0.0)),
            any::<String>().prop_map(Value::String),
        ];
        scalar.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::List),
                prop::collection::btree_map(any::<String>(), inner, 0..4).prop_map(Value::Map),
            ]
        })
    }

    fn any_key() -> impl Strategy<Value = KeyPath> {
        prop_oneof![
            prop::collection::vec("[a-z$]{1,3}", 1..3).prop_map(|names| key(&names.join("."))),
            any::<String>().prop_filter_map("not empty", |name| KeyPath::of_name(&name)),
        ]
    }

    fn orderable() -> impl Strategy<Value = Value> {
        value().prop_filter("orderable", |value| matches!(value, Value::Int(_) | Value::Double(_) | Value::String(_)))
    }

    fn filter() -> impl Strategy<Value = Filter> {
        let values = || prop::collection::vec(value(), 0..3);
        let leaf = prop_oneof![
            (any_key(), value()).prop_map(|(key, value)| Filter::Eq(key, value)),
            (any_key(), value()).prop_map(|(key, value)| Filter::Ne(key, value)),
            (any_key(), value()).prop_map(|(key, value)| Filter::Contains(key, value)),
            (any_key(), values()).prop_map(|(key, values)| Filter::In(key, values)),
            (any_key(), values()).prop_map(|(key, values)| Filter::Nin(key, values)),
            (any_key(), orderable()).prop_map(|(key, value)| Filter::Lt(key, value)),
            (any_key(), orderable()).prop_map(|(key, value)| Filter::Lte(key, value)),
            (any_key(), orderable()).prop_map(|(key, value)| Filter::Gt(key, value)),
            (any_key(), orderable()).prop_map(|(key, value)| Filter::Gte(key, value)),
            (any_key(), any::<bool>()).prop_map(|(key, wanted)| Filter::Exists(key, wanted)),
        ];
        leaf.prop_recursive(3, 16, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Filter::And),
                prop::collection::vec(inner.clone(), 0..3).prop_map(Filter::Or),
                inner.prop_map(|inner| Filter::Not(Box::new(inner))),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_filter_survives_the_round_trip(filter in filter()) {
            let text = serde_json::to_string(&JsonFilter(filter.clone())).unwrap();
            prop_assert_eq!(parse(&text), Ok(filter), "{}", text);
        }

        #[test]
        fn nothing_panics(text in any::<String>()) {
            let _ = parse(&text);
        }
    }
}
