//! Parts of requests that several calls have.

use qdrant_client::qdrant::points_selector::PointsSelectorOneOf;
use qdrant_client::qdrant::{
    Filter, PointsSelector, WithPayloadSelector, WithVectorsSelector, with_payload_selector, with_vectors_selector,
};
use qdrant_edge as engine;
use tonic::Status;

use crate::filter;
use crate::service::not_served;

/// Which fields of a payload are to come along.
pub(crate) fn with_payload(selector: Option<WithPayloadSelector>) -> Result<engine::WithPayloadInterface, Status> {
    match selector.and_then(|selector| selector.selector_options) {
        None => Ok(engine::WithPayloadInterface::Bool(false)),
        Some(with_payload_selector::SelectorOptions::Enable(all)) => Ok(engine::WithPayloadInterface::Bool(all)),
        Some(with_payload_selector::SelectorOptions::Include(fields)) => {
            let path = |field: &String| {
                field.parse().map_err(|()| Status::invalid_argument(format!("Invalid json path: '{field}'")))
            };
            let paths = fields.fields.iter().map(path).collect::<Result<_, _>>()?;
            Ok(engine::WithPayloadInterface::Fields(paths))
        }
        Some(with_payload_selector::SelectorOptions::Exclude(_)) => Err(not_served("excluded fields of a payload")),
    }
}

/// Which vectors are to come along.
pub(crate) fn with_vectors(selector: Option<WithVectorsSelector>) -> engine::WithVector {
    match selector.and_then(|selector| selector.selector_options) {
        None => engine::WithVector::Bool(false),
        Some(with_vectors_selector::SelectorOptions::Enable(all)) => engine::WithVector::Bool(all),
        Some(with_vectors_selector::SelectorOptions::Include(names)) => engine::WithVector::Selector(names.names),
    }
}

/// The filter of a request.
pub(crate) fn filter(filter: Option<Filter>) -> Result<Option<engine::Filter>, Status> {
    filter.map(filter::to_engine).transpose()
}

/// The filter that selects points; they are never listed.
pub(crate) fn selected(selector: Option<PointsSelector>) -> Result<engine::Filter, Status> {
    match selector.and_then(|selector| selector.points_selector_one_of) {
        Some(PointsSelectorOneOf::Filter(filter)) => filter::to_engine(filter),
        Some(PointsSelectorOneOf::Points(_)) => Err(not_served("a list of points")),
        None => Err(Status::invalid_argument("PointSelector is missing")),
    }
}
