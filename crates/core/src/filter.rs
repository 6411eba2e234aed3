//! Filters on metadata, and their one evaluator: the definition of right for every backend.
//!
//! A key is a path: `a.b` is key `b` of the map at key `a`; a backslash before a dot makes it part of a name. `ne` is exactly
//! `not(eq)` and `nin` exactly `not(in)`, so a document without the key matches both. Types never coerce; see
//! [`Value::same`].

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::error::{Error, FieldViolation, Result};
use crate::value::{Metadata, Value};

/// A condition on the metadata of a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Filter {
    /// Every one matches; true for none.
    And(Vec<Filter>),
    /// At least one matches; false for none.
    Or(Vec<Filter>),
    /// The inner one does not match.
    Not(Box<Filter>),
    /// The value at the key is the same.
    Eq(KeyPath, Value),
    /// The value at the key is another one, or there is none.
    Ne(KeyPath, Value),
    /// The value at the key is the same as one of these.
    In(KeyPath, Vec<Value>),
    /// The value at the key is none of these, or there is none.
    Nin(KeyPath, Vec<Value>),
    /// Less than; numbers with numbers, strings with strings, else no match.
    Lt(KeyPath, Value),
    /// Less than or equal.
    Lte(KeyPath, Value),
    /// Greater than.
    Gt(KeyPath, Value),
    /// Greater than or equal.
    Gte(KeyPath, Value),
    /// The key is there (a null counts) or, with false, is not.
    Exists(KeyPath, bool),
    /// The list at the key has this element, or the string at the key has this string within it.
    Contains(KeyPath, Value),
}

/// Where in the metadata to look; never empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyPath {
    text: String,
    names: Vec<String>,
}

impl KeyPath {
    /// Parses a path such as `a.b` or `file\.name`.
    ///
    /// # Errors
    /// Says what is wrong: an empty path or an empty name in it, or a backslash before anything but a dot or a backslash.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut names = vec![String::new()];
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            match character {
                '.' => names.push(String::new()),
                '\\' => match characters.next() {
                    Some(escaped @ ('.' | '\\')) => push_to_last(&mut names, escaped),
                    _ => return Err(format!("a backslash must stand before a dot or a backslash, in {text:?}")),
                },
                other => push_to_last(&mut names, other),
            }
        }
        if names.iter().any(String::is_empty) {
            return Err(if text.is_empty() {
                "must not be empty".to_owned()
            } else {
                format!("must not have an empty name between dots, in {text:?}; write \\. for a dot within a name")
            });
        }
        Ok(Self { text: text.to_owned(), names })
    }

    /// The path of one top-level name, whatever characters it has; `None` when the name is empty.
    pub fn of_name(name: &str) -> Option<Self> {
        (!name.is_empty()).then(|| Self { text: escape_name(name), names: vec![name.to_owned()] })
    }

    /// The path as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The names from the outermost map inwards; at least one.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The value there, or none when a key is missing or something on the way is no map. O(depth · log keys).
    pub fn find<'a>(&self, metadata: &'a Metadata) -> Option<&'a Value> {
        let (first, rest) = self.names.split_first()?;
        rest.iter().try_fold(metadata.get(first)?, |value, name| match value {
            Value::Map(entries) => entries.get(name),
            _ => None,
        })
    }
}

/// `name` as it stands in a path: a backslash goes before each dot and each backslash.
pub fn escape_name(name: &str) -> String {
    name.replace('\\', "\\\\").replace('.', "\\.")
}

fn push_to_last(names: &mut [String], character: char) {
    if let Some(last) = names.last_mut() {
        last.push(character);
    }
}

impl TryFrom<String> for KeyPath {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl From<KeyPath> for String {
    fn from(path: KeyPath) -> Self {
        path.text
    }
}

/// How large a filter may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterLimits {
    /// Deepest nesting of and, or and not.
    pub max_depth: usize,
    /// Most conditions and values altogether.
    pub max_nodes: usize,
}

impl Default for FilterLimits {
    fn default() -> Self {
        Self { max_depth: 16, max_nodes: 4096 }
    }
}

impl Filter {
    /// Does a document with this metadata match? O(size of the filter).
    ///
    /// ```
    /// use toller_core::filter::{Filter, KeyPath};
    /// use toller_core::{Metadata, Value};
    /// let metadata = Metadata::from([("year".to_owned(), Value::Int(2024))]);
    /// let year = KeyPath::parse("year").unwrap();
    /// assert!(Filter::Gte(year.clone(), Value::Double(2024.0)).matches(&metadata));
    /// assert!(Filter::Ne(KeyPath::parse("author").unwrap(), Value::from("Ann")).matches(&metadata));
    /// assert!(!Filter::Eq(year, Value::from("2024")).matches(&metadata));
    /// ```
    pub fn matches(&self, metadata: &Metadata) -> bool {
        match self {
            Self::And(parts) => parts.iter().all(|part| part.matches(metadata)),
            Self::Or(parts) => parts.iter().any(|part| part.matches(metadata)),
            Self::Not(part) => !part.matches(metadata),
            Self::Eq(key, wanted) => key.find(metadata).is_some_and(|value| value.same(wanted)),
            Self::Ne(key, wanted) => !key.find(metadata).is_some_and(|value| value.same(wanted)),
            Self::In(key, wanted) => is_one_of(key.find(metadata), wanted),
            Self::Nin(key, wanted) => !is_one_of(key.find(metadata), wanted),
            Self::Lt(key, bound) => compares(key.find(metadata), bound, Ordering::is_lt),
            Self::Lte(key, bound) => compares(key.find(metadata), bound, Ordering::is_le),
            Self::Gt(key, bound) => compares(key.find(metadata), bound, Ordering::is_gt),
            Self::Gte(key, bound) => compares(key.find(metadata), bound, Ordering::is_ge),
            Self::Exists(key, wanted) => key.find(metadata).is_some() == *wanted,
            Self::Contains(key, wanted) => match key.find(metadata) {
                Some(Value::List(items)) => items.iter().any(|item| item.same(wanted)),
                Some(Value::String(text)) => matches!(wanted, Value::String(part) if text.contains(part.as_str())),
                _ => false,
            },
        }
    }

    /// Checks size and values: depth and nodes within `limits`, no non-finite number, and order bounds that can be ordered.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] with the path of every fault, in the names of the public contract, such as
    /// `all_of.filters[0].lt.value`.
    pub fn check(&self, limits: FilterLimits) -> Result<()> {
        let mut violations = Vec::new();
        let mut nodes = 0;
        self.check_below(limits, limits.max_depth, &mut nodes, "", &mut violations);
        if nodes > limits.max_nodes {
            violations.push(FieldViolation {
                field: String::new(),
                description: format!("must have at most {} conditions and values, got {nodes}", limits.max_nodes),
            });
        }
        Error::from_violations(violations)
    }

    fn check_below(
        &self,
        limits: FilterLimits,
        depth_left: usize,
        nodes: &mut usize,
        path: &str,
        violations: &mut Vec<FieldViolation>,
    ) {
        *nodes += 1;
        if *nodes > limits.max_nodes {
            return;
        }
        let mut parts = |name: &str, parts: &[Self]| {
            if depth_left == 0 {
                violations.push(FieldViolation {
                    field: path.to_owned(),
                    description: format!("must be nested at most {} levels deep", limits.max_depth),
                });
                return;
            }
            for (index, part) in parts.iter().enumerate() {
                let below = crate::error::join_path(path, &format!("{name}.filters[{index}]"));
                part.check_below(limits, depth_left - 1, nodes, &below, violations);
            }
        };
        let name = self.name();
        let below = |field: &str| crate::error::join_path(path, &format!("{name}.{field}"));
        match self {
            Self::And(filters) | Self::Or(filters) => parts(name, filters),
            Self::Not(_) if depth_left == 0 => parts(name, &[]),
            Self::Not(filter) => {
                let below = crate::error::join_path(path, name);
                filter.check_below(limits, depth_left - 1, nodes, &below, violations);
            }
            Self::In(_, values) | Self::Nin(_, values) => {
                *nodes += values.len();
                for (index, value) in values.iter().enumerate() {
                    check_value(value, || below(&format!("values[{index}]")), violations);
                }
            }
            Self::Lt(key, bound) | Self::Lte(key, bound) | Self::Gt(key, bound) | Self::Gte(key, bound) => {
                check_value(bound, || below("value"), violations);
                if !matches!(bound, Value::Int(_) | Value::Double(_) | Value::String(_)) {
                    violations.push(FieldViolation {
                        field: below("value"),
                        description: format!("an order comparison of {:?} needs a number or a string", key.as_str()),
                    });
                }
            }
            Self::Eq(_, value) | Self::Ne(_, value) | Self::Contains(_, value) => {
                check_value(value, || below("value"), violations);
            }
            Self::Exists(..) => {}
        }
    }

    /// Name of the kind, in the spelling of the public contract.
    fn name(&self) -> &'static str {
        match self {
            Self::And(_) => "all_of",
            Self::Or(_) => "any_of",
            Self::Not(_) => "negate",
            Self::Eq(..) => "eq",
            Self::Ne(..) => "ne",
            Self::In(..) => "in_values",
            Self::Nin(..) => "nin_values",
            Self::Lt(..) => "lt",
            Self::Lte(..) => "lte",
            Self::Gt(..) => "gt",
            Self::Gte(..) => "gte",
            Self::Exists(..) => "exists",
            Self::Contains(..) => "contains",
        }
    }
}

fn is_one_of(value: Option<&Value>, wanted: &[Value]) -> bool {
    value.is_some_and(|value| wanted.iter().any(|wanted| value.same(wanted)))
}

fn compares(value: Option<&Value>, bound: &Value, wanted: impl Fn(Ordering) -> bool) -> bool {
    value.and_then(|value| value.compare(bound)).is_some_and(wanted)
}

fn check_value(value: &Value, path: impl FnOnce() -> String, violations: &mut Vec<FieldViolation>) {
    if let Err((inner, description)) = value.check() {
        violations.push(FieldViolation { field: crate::error::join_path(&path(), &inner), description });
    }
}
