//! What the catalogue keeps of a collection: its spec, its state, and which generations of it the store holds.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toller_core::catalog::{Expected, RecordKind, Versioned};
use toller_core::error::{Error, ResourceKind, Result};
use toller_core::{Catalog, CollectionName, CollectionSpec, Fingerprint, RequestContext};

use crate::collections::check_tenant;

/// How often a change is tried again when another writer was first.
pub(crate) const UPDATE_ATTEMPTS: usize = 16;

/// The spec with its state beside its fields.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CollectionRecord {
    #[serde(flatten)]
    pub(crate) spec: CollectionSpec,
    pub(crate) state: State,
    /// Absent in records of before there were any.
    #[serde(default)]
    pub(crate) generations: Generations,
    /// Id of the restore that fills it, while it is out of everybody's sight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) restore: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Creating,
    Ready,
    Deleting,
}

/// The generations of a collection, by number. The spec's fingerprint is that of the current one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Generations {
    /// The one that is read.
    pub(crate) current: u32,
    /// Id of the operation that made the current one; none for the first generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) made_by: Option<String>,
    /// The highest number that was ever given; none is given twice, so that leftovers are never taken for something else.
    pub(crate) last: u32,
    /// The one that is being filled, and written besides the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) building: Option<Building>,
    /// The one that was read before, as it was when the current one took its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) previous: Option<Generation>,
}

/// A generation with what fills it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Generation {
    pub(crate) number: u32,
    pub(crate) fingerprint: Fingerprint,
}

/// A generation that is being filled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Building {
    /// Id of the operation that fills it.
    pub(crate) operation: String,
    pub(crate) generation: Generation,
}

impl Default for Generations {
    fn default() -> Self {
        Self { current: 1, made_by: None, last: 1, building: None, previous: None }
    }
}

impl CollectionRecord {
    /// A collection in its first generation.
    pub(crate) fn new(spec: CollectionSpec, state: State) -> Self {
        Self { spec, state, generations: Generations::default(), restore: None }
    }

    /// What the store keeps the current generation under.
    pub(crate) fn current_name(&self) -> CollectionName {
        self.spec.name.generation(self.generations.current)
    }

    /// Every name that the store may hold something of this collection under.
    pub(crate) fn all_names(&self) -> impl Iterator<Item = CollectionName> {
        // One more than was recorded: the room of a generation is made before its number is recorded.
        let generations = (1..=self.generations.last.saturating_add(1)).map(|number| self.spec.name.generation(number));
        generations.chain([self.spec.name.staging()])
    }

    /// Does it have a generation of this number?
    pub(crate) fn has_generation(&self, number: u32) -> bool {
        let Generations { current, building, previous, .. } = &self.generations;
        let building = building.as_ref().map(|building| building.generation.number);
        let previous = previous.as_ref().map(|previous| previous.number);
        [Some(*current), building, previous].contains(&Some(number))
    }

    /// Is the operation `id` filling a generation of it?
    pub(crate) fn is_built_by(&self, id: &str) -> bool {
        self.generations.building.as_ref().is_some_and(|building| building.operation == id)
    }
}

/// The records of collections in a catalogue. Cheap to clone.
#[derive(Clone)]
pub(crate) struct CollectionRecords {
    pub(crate) catalog: Arc<dyn Catalog>,
}

impl CollectionRecords {
    /// The record with its version, whatever its state; none when there is none.
    pub(crate) async fn find(
        &self,
        context: &RequestContext,
        name: &CollectionName,
    ) -> Result<Option<(u64, CollectionRecord)>> {
        match self.catalog.get(context, RecordKind::Collection, name.logical()).await? {
            Some(versioned) => Ok(Some((versioned.version, decode(&versioned)?))),
            None => Ok(None),
        }
    }

    /// The record of a collection that callers can see.
    pub(crate) async fn ready(
        &self,
        context: &RequestContext,
        name: &CollectionName,
    ) -> Result<(u64, CollectionRecord)> {
        match self.find(context, name).await? {
            Some((version, record)) if record.state == State::Ready => {
                check_tenant(context, &record.spec)?;
                Ok((version, record))
            }
            _ => Err(not_found(name)),
        }
    }

    /// All records of the tenant, by name.
    pub(crate) async fn list(&self, context: &RequestContext) -> Result<Vec<CollectionRecord>> {
        self.catalog.list(context, RecordKind::Collection).await?.iter().map(decode).collect()
    }

    /// Writes a record if the present one is as `expected`; returns its version.
    pub(crate) async fn swap(
        &self,
        context: &RequestContext,
        expected: Expected,
        record: &CollectionRecord,
    ) -> Result<u64> {
        let name = record.spec.name.logical();
        let value = serde_json::to_vec(record).map_err(|fault| {
            Error::Internal(format!("the record of collection \"{name}\" cannot be written: {fault}"))
        })?;
        self.catalog.swap(context, RecordKind::Collection, name, expected, value).await
    }

    /// Changes the record of a collection that callers can see, again where another writer was first.
    ///
    /// # Errors
    /// `NotFound`; what `change` returns, and then nothing is written; `Aborted` when other writers were first too often.
    pub(crate) async fn change(
        &self,
        context: &RequestContext,
        name: &CollectionName,
        change: impl Fn(&mut CollectionRecord) -> Result<()>,
    ) -> Result<CollectionRecord> {
        let mut last_fault = None;
        for _ in 0..UPDATE_ATTEMPTS {
            let (version, mut record) = self.ready(context, name).await?;
            change(&mut record)?;
            match self.swap(context, Expected::Version(version), &record).await {
                Ok(_) => return Ok(record),
                Err(fault @ Error::Aborted(_)) => last_fault = Some(fault),
                Err(fault) => return Err(fault),
            }
        }
        Err(last_fault.unwrap_or_else(|| Error::Internal("no update was tried".to_owned())))
    }

    /// Removes a record in exactly this version.
    pub(crate) async fn remove(&self, context: &RequestContext, name: &CollectionName, version: u64) -> Result<()> {
        self.catalog.remove(context, RecordKind::Collection, name.logical(), version).await
    }
}

fn decode(versioned: &Versioned) -> Result<CollectionRecord> {
    serde_json::from_slice(&versioned.value).map_err(|fault| {
        Error::Internal(format!("the catalogue's record of collection \"{}\" cannot be read: {fault}", versioned.name))
    })
}

pub(crate) fn not_found(name: &CollectionName) -> Error {
    Error::NotFound { kind: ResourceKind::Collection, name: name.to_string() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use toller_core::Metric;

    use super::*;

    #[test]
    fn a_record_of_before_there_were_generations_is_in_its_first() {
        let spec = CollectionSpec {
            name: CollectionName::new("docs").unwrap(),
            description: String::new(),
            labels: BTreeMap::new(),
            metric: Metric::Cosine,
            fingerprint: Fingerprint::client(3),
            created_at_ms: 7,
            keyword: None,
            named: BTreeMap::new(),
            quantization: None,
            require_tenant: false,
        };
        let mut value = serde_json::to_value(CollectionRecord::new(spec, State::Ready)).unwrap();
        assert!(value.as_object_mut().unwrap().remove("generations").is_some());
        let record: CollectionRecord = serde_json::from_value(value).unwrap();
        assert_eq!(record.generations, Generations::default());
        assert_eq!(record.current_name().as_str(), "docs");
        let names: Vec<String> = record.all_names().map(|name| name.as_str().to_owned()).collect();
        assert_eq!(names, ["docs", "docs@v2", "docs@staging"], "a generation may have been begun and not recorded");
    }
}
