//! Collections: a name, a metric, a dimension, and the fingerprint of what fills them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use crate::collection_name::CollectionName;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::keyword::KeywordParams;
use crate::metric::Metric;
use crate::quantization::Quantization;
use crate::vector_space::{VectorName, VectorSpace, no_such_space};

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Nothing but an orderly shutdown: data is in RAM.
    None,
    /// A crash of the process.
    Process,
    /// Power loss.
    Fsync,
}

/// What a store needs to know of a collection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VectorParams {
    /// Dimension of every main vector, at least 1.
    pub dimension: u32,
    /// How main vectors are compared.
    pub metric: Metric,
    /// How texts are indexed for keyword search; none where they are not.
    #[serde(default)]
    pub keyword: Option<KeywordParams>,
    /// The vector spaces beside the main one, by name; at most [`MAX_NAMED_VECTORS`](crate::vector_space::MAX_NAMED_VECTORS).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub named: BTreeMap<VectorName, VectorSpace>,
    /// How vectors of every space are kept beside their full form; none where they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantization: Option<Quantization>,
}

impl VectorParams {
    /// Those of a collection of one vector for each record, with nothing beside it.
    pub const fn new(dimension: u32, metric: Metric) -> Self {
        Self { dimension, metric, keyword: None, named: BTreeMap::new(), quantization: None }
    }

    /// The space that a search looks in: the main one, or the one of a name. O(log spaces).
    ///
    /// # Errors
    /// `InvalidArgument` for `vector_name` when there is none of that name.
    pub fn space(&self, using: Option<&VectorName>) -> Result<VectorSpace> {
        let main = VectorSpace { dimension: self.dimension, metric: self.metric };
        space_of(main, &self.named, using)
    }
}

/// A collection as the catalogue records it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CollectionSpec {
    /// Its name.
    pub name: CollectionName,
    /// For people; may be empty.
    pub description: String,
    /// For the caller; never read by Toller.
    pub labels: BTreeMap<String, String>,
    /// How vectors are compared.
    pub metric: Metric,
    /// What fills it; carries the dimension.
    pub fingerprint: Fingerprint,
    /// Milliseconds since 1970-01-01 UTC.
    pub created_at_ms: i64,
    /// How texts are indexed for keyword search; none where they are not, as in records of before there was one.
    #[serde(default)]
    pub keyword: Option<KeywordParams>,
    /// The vector spaces beside the main one, by name. Their vectors are the client's own: no model fills them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub named: BTreeMap<VectorName, VectorSpace>,
    /// How vectors are kept beside their full form; none where they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantization: Option<Quantization>,
    /// Is it for tenants with a name of their own only? See [`Tenant::is_default`](crate::Tenant::is_default).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub require_tenant: bool,
}

impl CollectionSpec {
    /// What its store needs to know.
    pub fn vector_params(&self) -> VectorParams {
        VectorParams {
            dimension: self.fingerprint.dimension,
            metric: self.metric,
            keyword: self.keyword,
            named: self.named.clone(),
            quantization: self.quantization,
        }
    }

    /// As [`VectorParams::space`].
    ///
    /// # Errors
    /// As there.
    pub fn space(&self, using: Option<&VectorName>) -> Result<VectorSpace> {
        let main = VectorSpace { dimension: self.fingerprint.dimension, metric: self.metric };
        space_of(main, &self.named, using)
    }
}

fn space_of(
    main: VectorSpace,
    named: &BTreeMap<VectorName, VectorSpace>,
    using: Option<&VectorName>,
) -> Result<VectorSpace> {
    match using {
        None => Ok(main),
        Some(name) => named.get(name).copied().ok_or_else(|| Error::invalid("vector_name", no_such_space(name, named))),
    }
}
