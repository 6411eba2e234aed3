//! What makes two hits of different lists the same document.

use toller_core::filter::KeyPath;
use toller_core::{ScoredDocument, Value};

use crate::run::Run;

/// By what hits are told apart.
pub(crate) enum Identity {
    /// The document's id.
    Id,
    /// The value at a path of the metadata; where there is none, the id.
    Metadata(KeyPath),
}

/// A key of a hit. Ids and values of metadata never coincide.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Id(String),
    Value(String),
}

impl Identity {
    /// The keys of `hits`, in order. Tells when some lack theirs.
    pub(crate) fn keys(&self, run: &Run, hits: &[ScoredDocument]) -> Vec<Key> {
        let by_id = |hit: &ScoredDocument| Key::Id(hit.document.id.as_str().to_owned());
        let Self::Metadata(path) = self else { return hits.iter().map(by_id).collect() };
        let mut missing = 0_usize;
        let keys = hits.iter().map(|hit| match path.find(&hit.document.metadata) {
            Some(value) => Key::Value(canonical(value)),
            None => {
                missing += 1;
                by_id(hit)
            }
        });
        let keys = keys.collect();
        if missing > 0 {
            run.warn(format!(
                "{missing} hits have no {:?} in their metadata and are told apart by their ids",
                path.as_str()
            ));
        }
        keys
    }
}

/// A text that two values share exactly when they are the same by [`Value::same`].
fn canonical(value: &Value) -> String {
    match value {
        // What a double holds without a fraction is the same as the integer.
        Value::Double(number)
            if number.trunc() == *number && Value::Double(*number).same(&Value::Int(*number as i64)) =>
        {
            format!("{:?}", Value::Int(*number as i64))
        }
        Value::List(items) => format!("list {:?}", items.iter().map(canonical).collect::<Vec<_>>()),
        Value::Map(entries) => {
            format!("map {:?}", entries.iter().map(|(name, value)| (name, canonical(value))).collect::<Vec<_>>())
        }
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_values_have_the_same_text() {
        let values = [
            Value::Int(1),
            Value::Double(1.0),
            Value::from("1"),
            Value::Bool(true),
            Value::Null,
            Value::Double(1.5),
            Value::Int((1 << 53) + 1),
            Value::Double((1_i64 << 53) as f64),
            Value::Double(1e300),
            Value::List(vec![Value::Int(1)]),
            Value::List(vec![Value::Double(1.0)]),
            Value::Double(-0.0),
            Value::Int(0),
        ];
        for left in &values {
            for right in &values {
                assert_eq!(canonical(left) == canonical(right), left.same(right), "{left:?} and {right:?}");
            }
        }
    }
}
