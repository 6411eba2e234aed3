//! Points that are in the engine already and that nobody is to see yet.

use qdrant_edge as engine;

/// The points of a commit that is under way, but for those it replaces. A clone is cheap where there are many.
#[derive(Debug, Clone)]
pub(super) struct Unseen(engine::HasIdCondition);

impl Unseen {
    pub(super) fn new(points: impl Iterator<Item = engine::PointId>) -> Self {
        Self(points.collect())
    }

    pub(super) fn contains(&self, point: &engine::PointId) -> bool {
        self.0.has_id.contains(point)
    }

    /// The filter that passes what passes `filter`, without them.
    pub(super) fn left_out_of(&self, filter: Option<engine::Filter>) -> engine::Filter {
        let mut filter = filter.unwrap_or_default();
        filter.must_not.get_or_insert_default().push(engine::Condition::HasId(self.0.clone()));
        filter
    }
}
