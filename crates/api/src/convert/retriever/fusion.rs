//! Merger and ensemble.

use toller_core::error::both;
use toller_core::retriever::{EnsembleSpec, Fusion, MergerSpec};
use toller_core::{Error, Result};

use super::{children_from_message, children_to_message};
use crate::v1;

pub(super) fn merger_from_message(message: v1::MergerRetriever) -> Result<MergerSpec> {
    Ok(MergerSpec {
        retrievers: children_from_message(message.retrievers)?,
        allow_duplicates: message.allow_duplicates.unwrap_or(false),
        k: message.k,
        id_key: message.id_key,
    })
}

pub(super) fn ensemble_from_message(message: v1::EnsembleRetriever) -> Result<EnsembleSpec> {
    let fusion = fusion_from_message(message.fusion);
    let (retrievers, fusion) = both(children_from_message(message.retrievers), fusion)?;
    Ok(EnsembleSpec {
        retrievers,
        weights: message.weights,
        fusion,
        c: message.c,
        id_key: message.id_key,
        k: message.k,
    })
}

pub(super) fn fusion_from_message(number: i32) -> Result<Fusion> {
    match v1::Fusion::try_from(number) {
        Ok(v1::Fusion::Unspecified | v1::Fusion::Rrf) => Ok(Fusion::Rrf),
        Ok(v1::Fusion::MinMax) => Ok(Fusion::MinMax),
        Ok(v1::Fusion::DistributionBased) => Ok(Fusion::DistributionBased),
        Ok(v1::Fusion::Convex) => Ok(Fusion::Convex),
        Err(_) => Err(Error::invalid("fusion", format!("unknown value {number}"))),
    }
}

pub(super) fn fusion_to_message(fusion: Fusion) -> i32 {
    match fusion {
        Fusion::Rrf => v1::Fusion::Rrf,
        Fusion::MinMax => v1::Fusion::MinMax,
        Fusion::DistributionBased => v1::Fusion::DistributionBased,
        Fusion::Convex => v1::Fusion::Convex,
    }
    .into()
}

pub(super) fn merger_to_message(spec: &MergerSpec) -> v1::MergerRetriever {
    v1::MergerRetriever {
        retrievers: children_to_message(&spec.retrievers),
        allow_duplicates: Some(spec.allow_duplicates),
        k: spec.k,
        id_key: spec.id_key.clone(),
    }
}

pub(super) fn ensemble_to_message(spec: &EnsembleSpec) -> v1::EnsembleRetriever {
    v1::EnsembleRetriever {
        retrievers: children_to_message(&spec.retrievers),
        weights: spec.weights.clone(),
        fusion: fusion_to_message(spec.fusion),
        c: spec.c,
        id_key: spec.id_key.clone(),
        k: spec.k,
    }
}
