//! Conditions of the server's filters, in short.

use qdrant_client::qdrant::condition::ConditionOneOf;
use qdrant_client::qdrant::r#match::MatchValue;
use qdrant_client::qdrant::points_selector::PointsSelectorOneOf;
use qdrant_client::qdrant::{
    Condition, FieldCondition, Filter, HasIdCondition, Match, PointId, PointsSelector, Range, RepeatedIntegers,
    RepeatedStrings,
};

/// The field has this value, or one of these.
pub(super) fn is(field: &str, value: MatchValue) -> Condition {
    let condition = FieldCondition {
        key: field.to_owned(),
        r#match: Some(Match { match_value: Some(value) }),
        ..FieldCondition::default()
    };
    Condition { condition_one_of: Some(ConditionOneOf::Field(condition)) }
}

/// The field is this text.
pub(super) fn is_text(field: &str, text: &str) -> Condition {
    is(field, MatchValue::Keyword(text.to_owned()))
}

/// The field is one of these texts.
pub(super) fn is_one_of_texts(field: &str, texts: Vec<String>) -> Condition {
    is(field, MatchValue::Keywords(RepeatedStrings { strings: texts }))
}

/// The field is this number.
pub(super) fn is_number(field: &str, number: u64) -> Condition {
    is(field, MatchValue::Integer(number as i64))
}

/// The field is one of these numbers.
pub(super) fn is_one_of_numbers(field: &str, numbers: &[u64]) -> Condition {
    let integers = numbers.iter().map(|number| *number as i64).collect();
    is(field, MatchValue::Integers(RepeatedIntegers { integers }))
}

/// The field is within the range.
pub(super) fn within(field: &str, range: Range) -> Condition {
    let condition = FieldCondition { key: field.to_owned(), range: Some(range), ..FieldCondition::default() };
    Condition { condition_one_of: Some(ConditionOneOf::Field(condition)) }
}

/// The field is at most this number, which a double holds exactly.
pub(super) fn at_most(field: &str, number: u64) -> Condition {
    within(field, Range { lte: Some(number as f64), ..Range::default() })
}

/// The field is more than this number, which a double holds exactly.
pub(super) fn more_than(field: &str, number: u64) -> Condition {
    within(field, Range { gt: Some(number as f64), ..Range::default() })
}

/// The point is one of these.
pub(super) fn has_one_of_ids(has_id: Vec<PointId>) -> Condition {
    Condition { condition_one_of: Some(ConditionOneOf::HasId(HasIdCondition { has_id })) }
}

/// One of the conditions holds; there is at least one.
pub(super) fn any_of(should: Vec<Condition>) -> Condition {
    nested(Filter { should, ..Filter::default() })
}

/// The whole filter holds.
pub(super) fn nested(filter: Filter) -> Condition {
    Condition { condition_one_of: Some(ConditionOneOf::Filter(filter)) }
}

/// The points that pass a filter.
pub(super) fn all_that_pass(filter: Filter) -> Option<PointsSelector> {
    Some(PointsSelector { points_selector_one_of: Some(PointsSelectorOneOf::Filter(filter)) })
}
