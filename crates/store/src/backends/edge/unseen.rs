//! Points that are in the engine and that nobody is to see: not yet, or not any more.

use qdrant_edge as engine;

/// The points of a commit that is under way, but for those it replaces; or what is being removed. A clone is cheap where there
/// are many.
#[derive(Debug, Clone)]
pub(super) enum Unseen {
    /// These.
    Points(engine::HasIdCondition),
    /// All that there are.
    Everything,
}

impl Unseen {
    pub(super) fn new(points: impl Iterator<Item = engine::PointId>) -> Self {
        Self::Points(points.collect())
    }

    pub(super) fn contains(&self, point: &engine::PointId) -> bool {
        match self {
            Self::Points(points) => points.has_id.contains(point),
            Self::Everything => true,
        }
    }

    /// The filter that passes what passes `filter`, without them.
    pub(super) fn left_out_of(&self, filter: Option<engine::Filter>) -> engine::Filter {
        match self {
            Self::Points(points) => {
                let mut filter = filter.unwrap_or_default();
                filter.must_not.get_or_insert_default().push(engine::Condition::HasId(points.clone()));
                filter
            }
            // No point is one of none.
            Self::Everything => engine::Filter::new_must(engine::Condition::HasId(std::iter::empty().collect())),
        }
    }
}
