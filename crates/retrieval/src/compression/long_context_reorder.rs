//! Puts the best hits at both ends, since language models read the middle of a long context least (LangChain's `LongContextReorder`).

use async_trait::async_trait;
use toller_core::{Query, Result, ScoredDocument};

use super::{Compressor, pick};
use crate::run::Run;
use crate::selection::long_context_order;

pub(super) struct LongContextReorder;

#[async_trait]
impl Compressor for LongContextReorder {
    async fn compress(&self, _: &Run, _: &Query, hits: Vec<ScoredDocument>) -> Result<Vec<ScoredDocument>> {
        let order = long_context_order(hits.len());
        Ok(pick(hits, order))
    }
}
