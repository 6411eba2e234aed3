//! Indexes on the metadata that filters look at, made by the server in the background once a filter asks for one.
//!
//! They make filters faster and are no condition for them: a fault is only noted, and tried again by the next process.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;
use qdrant_client::qdrant::condition::ConditionOneOf;
use qdrant_client::qdrant::r#match::MatchValue;
use qdrant_client::qdrant::{Condition, CreateFieldIndexCollection, FieldCondition, FieldType};
use toller_core::Filter;

use super::client::Client;
use super::patience::Patience;
use super::pushdown::weaken;
use super::record::Snapshot;

/// Most indexes on metadata of one of the server's collections; fields that are filtered on later get none.
const MAX_FIELDS: usize = 16;

/// Records from which on an index on metadata is worth its upkeep.
const INDEX_FROM: u64 = 1000;

/// The fields of a payload that conditions look at, with the kind of index that serves them.
type Fields = BTreeMap<String, FieldType>;

/// Which fields have an index, by the server's collection, as far as this process asked for them.
#[derive(Debug, Default)]
pub(super) struct FieldIndexes(Mutex<HashMap<String, Fields>>);

impl FieldIndexes {
    /// Has indexes made on what a filter looks at, where this process has not asked for them yet. Nobody waits for them.
    pub(super) fn want(&self, client: &Client, snapshot: &Snapshot, filter: Option<&Filter>) {
        if snapshot.len < INDEX_FROM {
            return;
        }
        let Some(condition) = filter.and_then(weaken) else { return };
        let mut wanted = Fields::new();
        collect(&condition, &mut wanted);
        let mut known = self.0.lock();
        let known = known.entry(snapshot.physical.clone()).or_default();
        for (field, kind) in wanted {
            if known.len() >= MAX_FIELDS || known.contains_key(&field) {
                continue;
            }
            known.insert(field.clone(), kind);
            let (client, physical) = (client.clone(), snapshot.physical.clone());
            tokio::spawn(async move {
                let request = CreateFieldIndexCollection {
                    collection_name: physical,
                    wait: Some(false),
                    field_name: field.clone(),
                    field_type: Some(kind.into()),
                    ..CreateFieldIndexCollection::default()
                };
                if let Err(fault) = client.for_long_calls().create_index(Patience::Background, request).await {
                    tracing::warn!(%field, %fault, "an index on metadata could not be made");
                }
            });
        }
    }
}

fn collect(condition: &Condition, fields: &mut Fields) {
    match &condition.condition_one_of {
        Some(ConditionOneOf::Field(field)) => {
            if let Some(kind) = kind_of(field) {
                fields.insert(field.key.clone(), kind);
            }
        }
        Some(ConditionOneOf::Filter(filter)) => {
            filter.must.iter().chain(&filter.should).for_each(|condition| collect(condition, fields));
        }
        _ => {}
    }
}

/// Numbers are compared as doubles, see [`super::pushdown`].
fn kind_of(field: &FieldCondition) -> Option<FieldType> {
    match field.r#match.as_ref().and_then(|value| value.match_value.as_ref()) {
        Some(MatchValue::Keyword(_)) => Some(FieldType::Keyword),
        Some(MatchValue::Boolean(_)) => Some(FieldType::Bool),
        _ => field.range.as_ref().map(|_| FieldType::Float),
    }
}

#[cfg(test)]
mod tests {
    use toller_core::Value;
    use toller_core::filter::KeyPath;

    use super::*;

    #[test]
    fn every_field_that_the_server_is_given_is_found() {
        let key = |path: &str| KeyPath::parse(path).unwrap();
        let filter = Filter::And(vec![
            Filter::Eq(key("lang"), Value::from("en")),
            Filter::Or(vec![Filter::Lt(key("a.year"), Value::Int(3)), Filter::Eq(key("new"), Value::Bool(true))]),
            Filter::Ne(key("unseen"), Value::Int(1)),
        ]);
        let mut fields = Fields::new();
        collect(&weaken(&filter).unwrap(), &mut fields);
        let expected = [
            ("metadata.a.year", FieldType::Float),
            ("metadata.lang", FieldType::Keyword),
            ("metadata.new", FieldType::Bool),
        ];
        assert_eq!(fields, expected.map(|(field, kind)| (field.to_owned(), kind)).into());
    }
}
