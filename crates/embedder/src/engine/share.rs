//! How queries and documents share the computing time: queries first, and a fifth for documents whatever comes.

use std::time::Duration;

/// Queries get so many times the time that waiting documents get, at most.
const QUERIES_TO_DOCUMENTS: u32 = 4;
/// Queries may be ahead of their share by so much: a burst of them passes at once.
const MOST_LEAD: Duration = Duration::from_millis(200);

/// How far queries are ahead of their share, in computing time.
#[derive(Debug, Default)]
pub(super) struct Share {
    lead: Duration,
}

impl Share {
    /// Must queries wait until documents have computed?
    pub(super) fn is_documents_turn(&self) -> bool {
        self.lead >= MOST_LEAD
    }

    /// Queries have computed for `elapsed`. Only what documents had to wait for counts.
    pub(super) fn queries_computed(&mut self, elapsed: Duration, documents_wait: bool) {
        self.lead = if documents_wait { self.lead.saturating_add(elapsed) } else { Duration::ZERO };
    }

    /// Documents have computed for `elapsed`.
    pub(super) fn documents_computed(&mut self, elapsed: Duration) {
        self.lead = self.lead.saturating_sub(elapsed.saturating_mul(QUERIES_TO_DOCUMENTS));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_burst_passes_and_then_documents_get_their_part() {
        let mut share = Share::default();
        share.queries_computed(199 * MS, true);
        assert!(!share.is_documents_turn());
        share.queries_computed(MS, true);
        assert!(share.is_documents_turn());
        share.documents_computed(MS);
        assert!(!share.is_documents_turn(), "1 ms for documents is 4 ms for queries");
        share.queries_computed(10_000 * MS, false);
        assert!(!share.is_documents_turn(), "nobody had to wait");
    }

    proptest! {
        /// Under a flood of both, documents get a fifth of the time, but for one burst and one pass of queries.
        #[test]
        fn documents_never_starve(slices in prop::collection::vec((1_u32..50, 1_u32..50), 1..300)) {
            let mut share = Share::default();
            let (mut queries, mut documents) = (Duration::ZERO, Duration::ZERO);
            for (query, document) in slices {
                if share.is_documents_turn() {
                    share.documents_computed(document * MS);
                    documents += document * MS;
                } else {
                    share.queries_computed(query * MS, true);
                    queries += query * MS;
                }
                prop_assert!(queries <= documents * QUERIES_TO_DOCUMENTS + MOST_LEAD + 50 * MS);
            }
        }
    }
}
