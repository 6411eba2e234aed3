//! What a model writes for a query: a text, a filter, a limit. All of it is right, or none of it counts.

use serde_json::{Map, Value as Json};
use toller_core::filter::FilterLimits;
use toller_core::retriever::FieldKind;
use toller_core::{Filter, Value};

use super::fields::{Field, Fields};
use crate::language_model::{Said, find_object};

/// Longest text to search for in bytes.
const MAX_QUERY_BYTES: usize = 8192;

/// What a query is made of.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Structured {
    /// What to search for; none for the query as it came.
    pub(super) query: Option<String>,
    /// Which documents take part.
    pub(super) filter: Option<Filter>,
    /// How many hits the query asks for; at least 1.
    pub(super) limit: Option<usize>,
}

/// Reads an answer.
///
/// # Errors
/// Says what is wrong; continues "the answer …".
pub(super) fn read(said: &Said, fields: &Fields, limits: FilterLimits) -> Result<Structured, String> {
    let Some(mut object) = find_object(&said.text) else {
        let cut = if said.is_cut { ", it was cut" } else { "" };
        return Err(format!("has no JSON object in it{cut}"));
    };
    let query = match object.remove("query") {
        None | Some(Json::Null) => None,
        Some(Json::String(text)) if text.len() > MAX_QUERY_BYTES => {
            return Err(format!("has a query of more than {MAX_QUERY_BYTES} bytes"));
        }
        Some(Json::String(text)) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
        Some(_) => return Err("has a query that is no string".to_owned()),
    };
    let filter = match object.remove("filter") {
        None | Some(Json::Null) => None,
        Some(filter) => Some(read_filter(&filter, fields)?),
    };
    if let Some(Err(fault)) = filter.as_ref().map(|filter| filter.check(limits)) {
        return Err(format!("has a filter that cannot be used: {fault}"));
    }
    let limit = match object.remove("limit") {
        None | Some(Json::Null) => None,
        Some(limit) => match limit.as_u64().and_then(|limit| usize::try_from(limit).ok()) {
            Some(limit) if limit > 0 => Some(limit),
            _ => return Err("has a limit that is no whole number above 0".to_owned()),
        },
    };
    Ok(Structured { query, filter, limit })
}

fn read_filter(json: &Json, fields: &Fields) -> Result<Filter, String> {
    let Json::Object(object) = json else { return Err("has a filter that is no object".to_owned()) };
    let Some(Json::String(op)) = object.get("op") else { return Err("has a filter without op".to_owned()) };
    match op.as_str() {
        "and" | "or" | "not" => {
            check_keys(object, op, &["op", "filters"])?;
            combine(op, object.get("filters"), fields)
        }
        "in" | "nin" => {
            check_keys(object, op, &["op", "field", "values"])?;
            let field = field_of(object, op, fields)?;
            let Some(Json::Array(values)) = object.get("values") else {
                return Err(format!("has {op} without values"));
            };
            let values = values.iter().map(|value| scalar(op, field, value)).collect::<Result<Vec<Value>, _>>()?;
            let make = if op == "in" { Filter::In } else { Filter::Nin };
            Ok(make(field.key.clone(), values))
        }
        "eq" | "ne" | "lt" | "lte" | "gt" | "gte" | "contains" => {
            check_keys(object, op, &["op", "field", "value"])?;
            let field = field_of(object, op, fields)?;
            let value = object.get("value").ok_or_else(|| format!("has {op} without a value"))?;
            compare(op, field, scalar(op, field, value)?)
        }
        other => Err(format!("has a filter with the unknown op {}", shown(other))),
    }
}

fn combine(op: &str, filters: Option<&Json>, fields: &Fields) -> Result<Filter, String> {
    let Some(Json::Array(filters)) = filters else { return Err(format!("has {op} without filters")) };
    let mut filters = filters.iter().map(|filter| read_filter(filter, fields)).collect::<Result<Vec<_>, _>>()?;
    match (op, filters.len()) {
        // Nothing ANDed is true and nothing ORed is false, and neither is what a query can mean.
        (_, 0) => Err(format!("has {op} of no filters")),
        ("and", _) => Ok(Filter::And(filters)),
        ("or", _) => Ok(Filter::Or(filters)),
        (_, 1) => {
            filters.pop().map(|filter| Filter::Not(Box::new(filter))).ok_or_else(|| "has not of nothing".to_owned())
        }
        (_, count) => Err(format!("has not of {count} filters instead of one")),
    }
}

fn compare(op: &str, field: &Field, value: Value) -> Result<Filter, String> {
    let is_list = field.kind == FieldKind::StringList;
    let has_order = !matches!(field.kind, FieldKind::Boolean | FieldKind::StringList);
    let has_parts = matches!(field.kind, FieldKind::String | FieldKind::StringList);
    let make = match op {
        "eq" if !is_list => Filter::Eq,
        "ne" if !is_list => Filter::Ne,
        "lt" if has_order => Filter::Lt,
        "lte" if has_order => Filter::Lte,
        "gt" if has_order => Filter::Gt,
        "gte" if has_order => Filter::Gte,
        "contains" if has_parts => Filter::Contains,
        _ => return Err(format!("has {op} of {:?}, which is of type {}", field.key.as_str(), field.kind.as_str())),
    };
    Ok(make(field.key.clone(), value))
}

fn field_of<'f>(object: &Map<String, Json>, op: &str, fields: &'f Fields) -> Result<&'f Field, String> {
    let Some(Json::String(name)) = object.get("field") else { return Err(format!("has {op} without a field")) };
    let field = fields.get(name).ok_or_else(|| format!("has a filter by the unknown field {}", shown(name)))?;
    match (op, field.kind) {
        ("in" | "nin", FieldKind::StringList) => Err(format!("has {op} of {name:?}, which is of type string_list")),
        _ => Ok(field),
    }
}

/// A value of the field's type. An integer that is written as 2020.0 is one; nothing else is made to fit.
fn scalar(op: &str, field: &Field, json: &Json) -> Result<Value, String> {
    /// Up to here every whole double is one integer.
    const EXACT: f64 = 9_007_199_254_740_992.0;

    let value = match (field.kind, json) {
        (FieldKind::String | FieldKind::StringList, Json::String(text)) => Some(Value::String(text.clone())),
        (FieldKind::Boolean, Json::Bool(value)) => Some(Value::Bool(*value)),
        (FieldKind::Integer, Json::Number(number)) => number.as_i64().map(Value::Int).or_else(|| {
            let double = number.as_f64().filter(|double| double.fract() == 0.0 && double.abs() <= EXACT);
            double.map(|double| Value::Int(double as i64))
        }),
        (FieldKind::Number, Json::Number(number)) => {
            number.as_i64().map(Value::Int).or_else(|| number.as_f64().map(Value::Double))
        }
        _ => None,
    };
    let (name, kind) = (field.key.as_str(), field.kind.as_str());
    value.ok_or_else(|| format!("has {op} of {name:?} with a value that is not of its type {kind}"))
}

/// A part of a filter that is not understood may be what narrows it.
fn check_keys(object: &Map<String, Json>, op: &str, known: &[&str]) -> Result<(), String> {
    match object.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(format!("has {op} with the unknown part {}", shown(key))),
        None => Ok(()),
    }
}

/// A word of the model's, cut where it is long.
fn shown(word: &str) -> String {
    const MOST_CHARACTERS: usize = 40;

    format!("{:?}", word.chars().take(MOST_CHARACTERS).collect::<String>())
}

#[cfg(test)]
mod tests {
    use toller_core::filter::KeyPath;

    use super::*;

    fn fields() -> Fields {
        Fields::of(&[
            ("year", FieldKind::Integer),
            ("rating", FieldKind::Number),
            ("genre", FieldKind::String),
            ("tags", FieldKind::StringList),
            ("in_print", FieldKind::Boolean),
            ("author.name", FieldKind::String),
        ])
    }

    fn answer(text: &str) -> Result<Structured, String> {
        read(&Said { text: text.to_owned(), is_cut: false }, &fields(), FilterLimits::default())
    }

    fn key(path: &str) -> KeyPath {
        KeyPath::parse(path).unwrap()
    }

    #[test]
    fn filters_are_read_with_their_types() {
        let text = r#"Sure: ```json
            {"query": " dogs ", "limit": 2, "filter": {"op": "and", "filters": [
                {"op": "gte", "field": "year", "value": 2020.0},
                {"op": "or", "filters": [{"op": "in", "field": "genre", "values": ["a", "b"]},
                                         {"op": "not", "filters": [{"op": "eq", "field": "in_print", "value": true}]}]},
                {"op": "lt", "field": "rating", "value": 8.5},
                {"op": "contains", "field": "tags", "value": "rust"},
                {"op": "ne", "field": "author.name", "value": "Ann"}]}}
            ```"#;
        let expected = Filter::And(vec![
            Filter::Gte(key("year"), Value::Int(2020)),
            Filter::Or(vec![
                Filter::In(key("genre"), vec![Value::from("a"), Value::from("b")]),
                Filter::Not(Box::new(Filter::Eq(key("in_print"), Value::Bool(true)))),
            ]),
            Filter::Lt(key("rating"), Value::Double(8.5)),
            Filter::Contains(key("tags"), Value::from("rust")),
            Filter::Ne(key("author.name"), Value::from("Ann")),
        ]);
        let structured = answer(text).unwrap();
        assert_eq!(structured, Structured { query: Some("dogs".to_owned()), filter: Some(expected), limit: Some(2) });
        let none = Structured { query: None, filter: None, limit: None };
        assert_eq!(answer(r#"{"query": "", "filter": null, "limit": null}"#), Ok(none.clone()));
        assert_eq!(answer(r#"{"explanation": "nothing to do"}"#), Ok(none));
    }

    #[test]
    fn what_is_wrong_is_all_wrong() {
        let filter = |filter: &str| format!(r#"{{"query": "q", "filter": {filter}}}"#);
        for (text, expected) in [
            (String::new(), "has no JSON object"),
            ("I cannot do that.".to_owned(), "has no JSON object"),
            (r#"{"query": "q", "filter": {"op": "eq", "fie"#.to_owned(), "has no JSON object"),
            (r#"{"query": 5}"#.to_owned(), "query that is no string"),
            (r#"{"limit": 0}"#.to_owned(), "no whole number above 0"),
            (r#"{"limit": -1}"#.to_owned(), "no whole number above 0"),
            (r#"{"limit": "all"}"#.to_owned(), "no whole number above 0"),
            (filter("\"year > 2020\""), "no object"),
            (filter("{}"), "without op"),
            (filter(r#"{"op": "eq", "field": "yeer", "value": 1}"#), "unknown field \"yeer\""),
            (filter(r#"{"op": "eq", "field": "year", "value": "2020"}"#), "not of its type integer"),
            (filter(r#"{"op": "eq", "field": "year", "value": 2020.5}"#), "not of its type integer"),
            (filter(r#"{"op": "eq", "field": "year", "value": 99999999999999999999}"#), "not of its type integer"),
            (filter(r#"{"op": "eq", "field": "genre", "value": null}"#), "not of its type string"),
            (filter(r#"{"op": "eq", "field": "in_print", "value": 1}"#), "not of its type boolean"),
            (filter(r#"{"op": "eq", "field": "tags", "value": "a"}"#), "which is of type string_list"),
            (filter(r#"{"op": "in", "field": "tags", "values": ["a"]}"#), "which is of type string_list"),
            (filter(r#"{"op": "lt", "field": "in_print", "value": true}"#), "which is of type boolean"),
            (filter(r#"{"op": "contains", "field": "year", "value": 1}"#), "which is of type integer"),
            (filter(r#"{"op": "like", "field": "genre", "value": "a"}"#), "unknown op \"like\""),
            (filter(r#"{"op": "eq", "field": "genre"}"#), "without a value"),
            (filter(r#"{"op": "in", "field": "genre", "value": "a"}"#), "unknown part \"value\""),
            (filter(r#"{"op": "eq", "field": "genre", "value": "a", "and": {}}"#), "unknown part \"and\""),
            (filter(r#"{"op": "and", "filters": []}"#), "of no filters"),
            (
                filter(
                    r#"{"op": "not", "filters": [{"op":"eq","field":"year","value":1},{"op":"eq","field":"year","value":2}]}"#,
                ),
                "instead of one",
            ),
            // One wrong part of several.
            (
                filter(
                    r#"{"op": "or", "filters": [{"op":"eq","field":"year","value":1},{"op":"eq","field":"x","value":2}]}"#,
                ),
                "unknown field \"x\"",
            ),
        ] {
            let fault = answer(&text).unwrap_err();
            assert!(fault.contains(expected), "{text}: {fault}");
        }
        let deep = format!(
            "{}{}{}",
            r#"{"op":"not","filters":["#.repeat(30),
            r#"{"op":"eq","field":"year","value":1}"#,
            "]}".repeat(30)
        );
        assert!(answer(&filter(&deep)).unwrap_err().contains("nested at most"));
        let deeper = format!("{}1{}", r#"{"op":"not","filters":["#.repeat(5000), "]}".repeat(5000));
        assert!(answer(&filter(&deeper)).is_err());
    }
}
