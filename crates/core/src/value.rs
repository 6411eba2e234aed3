//! The typed value of document metadata and of filters.
//!
//! Integers and doubles are different types that compare by value (1 = 1.0), so that 2^53 + 1 stays itself; everything
//! else of different types is different (1 ≠ "1", 1 ≠ true).

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::num::IntErrorKind;

use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::join_path;
use crate::filter::escape_name;

/// Metadata of a document: a map from names to values, ordered by name.
pub type Metadata = BTreeMap<String, Value>;

/// Deepest nesting of lists and maps in metadata.
pub const MAX_VALUE_DEPTH: usize = 32;

/// A metadata value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing; distinct from a missing key only when it is stored.
    Null,
    /// A truth value; never equal to a number.
    Bool(bool),
    /// A 64-bit signed integer.
    Int(i64),
    /// A finite 64-bit float (checked at the door, see [`Value::check`]).
    Double(f64),
    /// A Unicode string.
    String(String),
    /// An ordered list.
    List(Vec<Value>),
    /// A map from names to values.
    Map(BTreeMap<String, Value>),
}

impl Value {
    /// A number of things, or the place of one among them, as an integer. No text or list in memory is as long as the largest
    /// of them.
    ///
    /// ```
    /// use toller_core::Value;
    /// assert_eq!(Value::from_count("dogs".len()), Value::Int(4));
    /// ```
    pub fn from_count(count: usize) -> Self {
        Self::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }

    fn json_bytes(&self) -> usize {
        match self {
            Self::Null | Self::Bool(_) => 5,
            Self::Int(_) | Self::Double(_) => 20,
            Self::String(text) => text.len() + 2,
            Self::List(values) => values.iter().map(|value| value.json_bytes() + 1).sum::<usize>() + 2,
            Self::Map(map) => metadata_bytes(map) + 2,
        }
    }

    /// Equality by value: numbers compare across their two types, all else only within one type.
    ///
    /// ```
    /// use toller_core::Value;
    /// assert!(Value::Int(1).same(&Value::Double(1.0)));
    /// assert!(!Value::Int(1).same(&Value::from("1")));
    /// assert!(!Value::Int((1 << 53) + 1).same(&Value::Double(9007199254740992.0)));
    /// ```
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(left), Self::List(right)) => {
                left.len() == right.len() && left.iter().zip(right).all(|(l, r)| l.same(r))
            }
            (Self::Map(left), Self::Map(right)) => {
                left.len() == right.len() && left.iter().zip(right).all(|((lk, lv), (rk, rv))| lk == rk && lv.same(rv))
            }
            (Self::Null, Self::Null) => true,
            (Self::Bool(left), Self::Bool(right)) => left == right,
            _ => self.compare(other) == Some(Ordering::Equal),
        }
    }

    /// Order of two numbers or of two strings (by code point); `None` for every other pair of types.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(left), Self::Int(right)) => Some(left.cmp(right)),
            (Self::Double(left), Self::Double(right)) => left.partial_cmp(right),
            (Self::Int(left), Self::Double(right)) => compare_int_with_double(*left, *right),
            (Self::Double(left), Self::Int(right)) => compare_int_with_double(*right, *left).map(Ordering::reverse),
            (Self::String(left), Self::String(right)) => Some(left.cmp(right)),
            _ => None,
        }
    }

    /// Checks what the type cannot say: doubles are finite, keys are not empty, and nesting is at most [`MAX_VALUE_DEPTH`].
    ///
    /// The error is the path inside this value and the fault. O(size of the value).
    pub fn check(&self) -> Result<(), (String, String)> {
        self.check_below(MAX_VALUE_DEPTH)
    }

    fn check_below(&self, depth_left: usize) -> Result<(), (String, String)> {
        match self {
            Self::Double(number) if !number.is_finite() => {
                Err((String::new(), format!("must be a finite number, got {number}")))
            }
            Self::List(_) | Self::Map(_) if depth_left == 0 => {
                Err((String::new(), format!("must be nested at most {MAX_VALUE_DEPTH} levels deep")))
            }
            Self::List(items) => items.iter().enumerate().try_for_each(|(index, item)| {
                item.check_below(depth_left - 1)
                    .map_err(|(path, fault)| (join_path(&format!("[{index}]"), &path), fault))
            }),
            Self::Map(entries) if entries.contains_key("") => {
                Err((String::new(), "must not have an empty key".to_owned()))
            }
            Self::Map(entries) => entries.iter().try_for_each(|(key, item)| {
                item.check_below(depth_left - 1).map_err(|(path, fault)| (join_path(&escape_name(key), &path), fault))
            }),
            _ => Ok(()),
        }
    }
}

/// What the names of metadata entries must not begin with, whatever the case: they are kept for what the service may
/// have to say of a document itself.
pub const RESERVED_METADATA_PREFIX: &str = "_toller";

/// About how many bytes metadata take: those of its JSON, without what has to be escaped. O(values).
///
/// ```
/// use toller_core::{Metadata, Value, value::metadata_bytes};
/// let metadata = Metadata::from([("title".to_owned(), Value::from("Tollers"))]);
/// assert_eq!(metadata_bytes(&metadata), r#""title":"Tollers","#.len());
/// ```
pub fn metadata_bytes(metadata: &Metadata) -> usize {
    // Quotation marks, a colon and a comma.
    metadata.iter().map(|(key, value)| key.len() + 4 + value.json_bytes()).sum()
}

/// Checks the metadata of a document: finite numbers, bounded depth, no empty key, no entry whose name begins with
/// [`RESERVED_METADATA_PREFIX`].
///
/// # Errors
/// The path within the metadata, in the spelling of filters (`\\.` is a dot within a name), and the fault.
pub fn check_metadata(metadata: &Metadata) -> Result<(), (String, String)> {
    for (key, value) in metadata {
        if key.is_empty() {
            return Err((String::new(), "must not have an empty key".to_owned()));
        }
        let start = key.as_bytes().get(..RESERVED_METADATA_PREFIX.len()).unwrap_or_default();
        if start.eq_ignore_ascii_case(RESERVED_METADATA_PREFIX.as_bytes()) {
            let fault = format!("has a name that is reserved: it begins with {RESERVED_METADATA_PREFIX:?}");
            return Err((escape_name(key), fault));
        }
        value.check().map_err(|(path, fault)| (join_path(&escape_name(key), &path), fault))?;
    }
    Ok(())
}

/// The first integer of a JSON text that is outside the 64-bit signed integers, as it is written there.
///
/// From 2^64 upwards (and below -2^63) serde_json hands out a double in silence, where it can no longer be told from
/// `1e20`; so readers of JSON ask this first. Numbers with a fraction or an exponent are doubles by intent. Of a text that
/// is no JSON it may say anything. O(length of the text).
///
/// ```
/// use toller_core::value::oversized_integer;
/// assert_eq!(oversized_integer(r#"{"id": 18446744073709551616}"#), Some("18446744073709551616"));
/// assert_eq!(oversized_integer(r#"{"id": "18446744073709551616", "double": 1e20}"#), None);
/// ```
pub fn oversized_integer(json: &str) -> Option<&str> {
    let mut rest = json;
    loop {
        let start = rest.find(|character: char| matches!(character, '"' | '-' | '0'..='9'))?;
        rest = rest.get(start..)?;
        if let Some(text) = rest.strip_prefix('"') {
            rest = after_string(text)?;
            continue;
        }
        let end = rest.find(|character: char| !matches!(character, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
        let (number, after) = rest.split_at_checked(end.unwrap_or(rest.len()))?;
        let is_integer = !number.contains(['.', 'e', 'E']);
        let fault = number.parse::<i64>().err().map(|fault| *fault.kind());
        if is_integer && matches!(fault, Some(IntErrorKind::PosOverflow | IntErrorKind::NegOverflow)) {
            return Some(number);
        }
        rest = after;
    }
}

/// What follows the closing quote of a JSON string; none when it does not end.
fn after_string(mut text: &str) -> Option<&str> {
    loop {
        let stop = text.find(['"', '\\'])?;
        text = text.get(stop..)?;
        match text.strip_prefix('"') {
            Some(after) => return Some(after),
            None => text = text.get(2..)?,
        }
    }
}

/// Exact: the integer is never rounded to a double.
fn compare_int_with_double(int: i64, double: f64) -> Option<Ordering> {
    const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;
    if double.is_nan() {
        return None;
    }
    if double >= TWO_POW_63 {
        return Some(Ordering::Less);
    }
    if double < -TWO_POW_63 {
        return Some(Ordering::Greater);
    }
    // |double| < 2^63, so its integral part converts without loss.
    let whole = double.trunc();
    let fraction = double - whole;
    Some(int.cmp(&(whole as i64)).then_with(|| 0.0_f64.partial_cmp(&fraction).unwrap_or(Ordering::Equal)))
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}
impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}
impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Double(value)
    }
}
impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::String(value.to_owned())
    }
}
impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::String(value)
    }
}
impl From<Vec<Value>> for Value {
    fn from(value: Vec<Value>) -> Self {
        Self::List(value)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::Double(value) => serializer.serialize_f64(*value),
            Self::String(value) => serializer.serialize_str(value),
            Self::List(items) => items.serialize(serializer),
            Self::Map(entries) => entries.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("null, a boolean, a number, a string, a list or a map")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Deserialize::deserialize(deserializer)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value))
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        i64::try_from(value).map(Value::Int).map_err(|_| {
            E::custom(format!("integer {value} is above the largest 64-bit signed integer; pass it as a string"))
        })
    }
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Double(value))
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }
    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Value::List(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut entries = BTreeMap::new();
        while let Some((key, value)) = access.next_entry()? {
            entries.insert(key, value);
        }
        Ok(Value::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn integers_and_doubles_compare_exactly() {
        let big = (1_i64 << 53) + 1;
        assert_eq!(Value::Int(big).compare(&Value::Double((1_i64 << 53) as f64)), Some(Ordering::Greater));
        assert_eq!(Value::Int(i64::MAX).compare(&Value::Double(i64::MAX as f64)), Some(Ordering::Less));
        assert_eq!(Value::Int(i64::MIN).compare(&Value::Double(i64::MIN as f64)), Some(Ordering::Equal));
        assert_eq!(Value::Int(-1).compare(&Value::Double(-1.5)), Some(Ordering::Greater));
        assert_eq!(Value::Int(1).compare(&Value::Double(1.5)), Some(Ordering::Less));
        assert_eq!(Value::Int(0).compare(&Value::Double(f64::NAN)), None);
        assert_eq!(Value::Int(0).compare(&Value::Double(f64::INFINITY)), Some(Ordering::Less));
    }

    #[test]
    fn types_never_coerce() {
        for (left, right) in [
            (Value::Int(1), Value::from("1")),
            (Value::Int(1), Value::Bool(true)),
            (Value::Null, Value::Bool(false)),
            (Value::List(vec![]), Value::Null),
        ] {
            assert!(!left.same(&right), "{left:?} and {right:?} must differ");
        }
    }

    #[test]
    fn json_keeps_integers_apart_from_doubles() {
        let text = r#"{"big":9007199254740993,"double":1.0,"list":[null,true,"x"]}"#;
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&value).unwrap(), text);
        let fault = serde_json::from_str::<Value>("18446744073709551615").unwrap_err().to_string();
        assert!(fault.contains("pass it as a string"), "{fault}");
    }

    #[test]
    fn integers_beyond_64_bits_are_found_in_json() {
        for (json, expected) in [
            ("9223372036854775807", None),
            ("-9223372036854775808", None),
            ("9223372036854775808", Some("9223372036854775808")),
            ("-9223372036854775809", Some("-9223372036854775809")),
            (r#"{"a":[1,{"b":99999999999999999999}]}"#, Some("99999999999999999999")),
            (r#"{"99999999999999999999":"99999999999999999999"}"#, None),
            (r#"{"a\"99999999999999999999":1}"#, None),
            (r#"{"a\\":99999999999999999999}"#, Some("99999999999999999999")),
            ("[99999999999999999999.0, 1e20, 1E+20, -1.5e300, -0]", None),
            (r#"["open 99999999999999999999"#, None),
            (r#""\ü"#, None),
            ("", None),
        ] {
            assert_eq!(oversized_integer(json), expected, "{json}");
        }
    }

    #[test]
    fn paths_escape_dots_as_filters_do() {
        let value = Value::Map([("b\\c".to_owned(), Value::Double(f64::NAN))].into());
        let metadata = Metadata::from([("a.b".to_owned(), value)]);
        assert_eq!(check_metadata(&metadata).unwrap_err().0, r"a\.b.b\\c");
    }

    #[test]
    fn check_names_the_path() {
        let value = Value::Map([("a".to_owned(), Value::List(vec![Value::Double(f64::NAN)]))].into());
        assert_eq!(value.check().unwrap_err().0, "a[0]");
        let mut deep = Value::Null;
        for _ in 0..=MAX_VALUE_DEPTH {
            deep = Value::List(vec![deep]);
        }
        assert!(deep.check().is_err());
    }

    proptest! {
        #[test]
        fn json_of_a_value_has_no_oversized_integer(text in any::<String>(), int in any::<i64>(), double in -1e300..1e300) {
            let value = Value::List(vec![text.into(), Value::Int(int), Value::Double(double)]);
            let json = serde_json::to_string(&value).unwrap();
            prop_assert_eq!(oversized_integer(&json), None, "{}", json);
        }

        #[test]
        fn comparison_is_antisymmetric(int in any::<i64>(), double in any::<f64>()) {
            let (left, right) = (Value::Int(int), Value::Double(double));
            prop_assert_eq!(left.compare(&right), right.compare(&left).map(Ordering::reverse));
        }
    }
}
