//! What a model may filter by.

use std::collections::BTreeMap;

use serde_json::json;
use toller_core::filter::KeyPath;
use toller_core::language_model::AnswerSchema;
use toller_core::retriever::{FieldKind, FieldSpec};

use crate::plan::Binder;

/// Most fields of one retriever.
const MAX_FIELDS: usize = 64;

/// The fields, by their names.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fields(BTreeMap<String, Field>);

/// One field.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    pub(super) key: KeyPath,
    pub(super) kind: FieldKind,
    description: String,
}

impl Fields {
    /// The fields of the message at `path`; none when there are faults.
    pub(super) fn bind(binder: &mut Binder<'_>, path: &str, specs: &[FieldSpec]) -> Option<Self> {
        if !(1..=MAX_FIELDS).contains(&specs.len()) {
            binder.fault(path, "fields", format!("must be from 1 to {MAX_FIELDS}, got {}", specs.len()));
        }
        let mut fields = BTreeMap::new();
        for (index, spec) in specs.iter().enumerate() {
            let name_path = format!("fields[{index}].name");
            let Some(key) = binder.key_path(path, &name_path, &spec.name) else { continue };
            let field = Field { key, kind: spec.kind, description: spec.description.trim().to_owned() };
            if fields.insert(spec.name.clone(), field).is_some() {
                binder.fault(path, &name_path, format!("is the name of another field already, got {:?}", spec.name));
            }
        }
        (!fields.is_empty()).then_some(Self(fields))
    }

    /// The field of that name.
    pub(super) fn get(&self, name: &str) -> Option<&Field> {
        self.0.get(name)
    }

    /// For the prompt: a field a line.
    pub(super) fn described(&self) -> String {
        let line = |(name, field): (&String, &Field)| match field.description.as_str() {
            "" => format!("- {name:?} ({})", field.kind.as_str()),
            description => format!("- {name:?} ({}): {description}", field.kind.as_str()),
        };
        self.0.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// The form of the answer, in which no other field can be named.
    pub(super) fn schema(&self) -> AnswerSchema {
        let names: Vec<&String> = self.0.keys().collect();
        let value = json!({"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]});
        let object = |properties: serde_json::Value| {
            let required: Vec<String> =
                properties.as_object().map(|own| own.keys().cloned().collect()).unwrap_or_default();
            json!({"type": "object", "additionalProperties": false, "required": required, "properties": properties})
        };
        let of = |ops: &[&str]| json!({"type": "string", "enum": ops});
        let field = json!({"type": "string", "enum": names});
        let inner = json!({"$ref": "#/$defs/filter"});
        let filter = json!({"anyOf": [
            object(json!({"op": of(&["and", "or", "not"]), "filters": {"type": "array", "items": inner}})),
            object(json!({
                "op": of(&["eq", "ne", "lt", "lte", "gt", "gte", "contains"]), "field": field, "value": value
            })),
            object(json!({"op": of(&["in", "nin"]), "field": field, "values": {"type": "array", "items": value}})),
        ]});
        let mut schema = object(json!({
            "query": {"type": "string"},
            "filter": {"anyOf": [inner, {"type": "null"}]},
            "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        }));
        if let Some(schema) = schema.as_object_mut() {
            schema.insert("$defs".to_owned(), json!({"filter": filter}));
        }
        AnswerSchema { name: "structured_query", json: schema.to_string() }
    }

    #[cfg(test)]
    pub(super) fn of(fields: &[(&str, FieldKind)]) -> Self {
        let field = |(name, kind): &(&str, FieldKind)| {
            let key = KeyPath::parse(name).unwrap();
            ((*name).to_owned(), Field { key, kind: *kind, description: String::new() })
        };
        Self(fields.iter().map(field).collect())
    }
}
