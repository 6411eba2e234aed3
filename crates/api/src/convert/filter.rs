//! Filters.

use toller_core::filter::KeyPath;
use toller_core::{Error, Filter, Result, Value};

use super::value::{value_from_message, value_to_message};
use crate::v1;
use crate::v1::filter::Kind;

/// A filter from its message. Its size is checked by `toller_core::Filter::check`; the decoder bounds its nesting.
///
/// # Errors
/// `InvalidArgument` with the path inside the filter.
pub fn filter_from_message(message: v1::Filter) -> Result<Filter> {
    let Some(kind) = message.kind else {
        return Err(Error::invalid("", "must have a condition"));
    };
    match kind {
        Kind::AllOf(list) => list_from_message("all_of", list).map(Filter::And),
        Kind::AnyOf(list) => list_from_message("any_of", list).map(Filter::Or),
        Kind::Negate(inner) => filter_from_message(*inner)
            .map(|inner| Filter::Not(Box::new(inner)))
            .map_err(|error| error.within("negate")),
        Kind::Eq(comparison) => comparison_from_message("eq", comparison, Filter::Eq),
        Kind::Ne(comparison) => comparison_from_message("ne", comparison, Filter::Ne),
        Kind::InValues(comparison) => list_comparison_from_message("in_values", comparison, Filter::In),
        Kind::NinValues(comparison) => list_comparison_from_message("nin_values", comparison, Filter::Nin),
        Kind::Lt(comparison) => comparison_from_message("lt", comparison, Filter::Lt),
        Kind::Lte(comparison) => comparison_from_message("lte", comparison, Filter::Lte),
        Kind::Gt(comparison) => comparison_from_message("gt", comparison, Filter::Gt),
        Kind::Gte(comparison) => comparison_from_message("gte", comparison, Filter::Gte),
        Kind::Exists(exists) => {
            let key = key_from_message(&exists.key).map_err(|error| error.within("exists"))?;
            Ok(Filter::Exists(key, exists.exists.unwrap_or(true)))
        }
        Kind::Contains(comparison) => comparison_from_message("contains", comparison, Filter::Contains),
    }
}

/// A filter that may be absent.
///
/// # Errors
/// As [`filter_from_message`], below `filter`.
pub fn optional_filter_from_message(message: Option<v1::Filter>) -> Result<Option<Filter>> {
    message.map(filter_from_message).transpose().map_err(|error| error.within("filter"))
}

fn list_from_message(field: &str, list: v1::FilterList) -> Result<Vec<Filter>> {
    let filters = list.filters.into_iter().enumerate();
    filters
        .map(|(index, filter)| {
            filter_from_message(filter).map_err(|error| error.within(&format!("{field}.filters[{index}]")))
        })
        .collect()
}

fn comparison_from_message(
    field: &str,
    comparison: v1::Comparison,
    make: fn(KeyPath, Value) -> Filter,
) -> Result<Filter> {
    let convert = || {
        let key = key_from_message(&comparison.key)?;
        let value = comparison.value.ok_or_else(|| Error::invalid("value", "must be given"))?;
        let value = value_from_message(value).map_err(|error| error.within("value"))?;
        Ok(make(key, value))
    };
    convert().map_err(|error: Error| error.within(field))
}

fn list_comparison_from_message(
    field: &str,
    comparison: v1::ListComparison,
    make: fn(KeyPath, Vec<Value>) -> Filter,
) -> Result<Filter> {
    let convert = || {
        let key = key_from_message(&comparison.key)?;
        let values = comparison.values.into_iter().enumerate();
        let values = values
            .map(|(index, value)| value_from_message(value).map_err(|error| error.within(&format!("values[{index}]"))))
            .collect::<Result<_>>()?;
        Ok(make(key, values))
    };
    convert().map_err(|error: Error| error.within(field))
}

fn key_from_message(key: &str) -> Result<KeyPath> {
    KeyPath::parse(key).map_err(|fault| Error::invalid("key", fault))
}

/// The message of a filter.
pub fn filter_to_message(filter: &Filter) -> v1::Filter {
    let list = |filters: &[Filter]| v1::FilterList { filters: filters.iter().map(filter_to_message).collect() };
    let comparison = |key: &KeyPath, value: &Value| v1::Comparison {
        key: key.as_str().to_owned(),
        value: Some(value_to_message(value)),
    };
    let list_comparison = |key: &KeyPath, values: &[Value]| v1::ListComparison {
        key: key.as_str().to_owned(),
        values: values.iter().map(value_to_message).collect(),
    };
    let kind = match filter {
        Filter::And(filters) => Kind::AllOf(list(filters)),
        Filter::Or(filters) => Kind::AnyOf(list(filters)),
        Filter::Not(inner) => Kind::Negate(Box::new(filter_to_message(inner))),
        Filter::Eq(key, value) => Kind::Eq(comparison(key, value)),
        Filter::Ne(key, value) => Kind::Ne(comparison(key, value)),
        Filter::In(key, values) => Kind::InValues(list_comparison(key, values)),
        Filter::Nin(key, values) => Kind::NinValues(list_comparison(key, values)),
        Filter::Lt(key, value) => Kind::Lt(comparison(key, value)),
        Filter::Lte(key, value) => Kind::Lte(comparison(key, value)),
        Filter::Gt(key, value) => Kind::Gt(comparison(key, value)),
        Filter::Gte(key, value) => Kind::Gte(comparison(key, value)),
        Filter::Exists(key, exists) => Kind::Exists(v1::Exists { key: key.as_str().to_owned(), exists: Some(*exists) }),
        Filter::Contains(key, value) => Kind::Contains(comparison(key, value)),
    };
    v1::Filter { kind: Some(kind) }
}
