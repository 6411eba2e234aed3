//! What `toller ingest` and `toller watch` have in common on the command line.

use toller_api::v1;

use crate::error::Error;
use crate::ingest::generated_flags::GeneratedFlags;
use crate::ingest::load_flags::LoadFlags;
use crate::ingest::splitter_flags::SplitterFlags;
use crate::ingest::walk_flags::WalkFlags;
use crate::terminal::say;

/// Into which collection files go, and what becomes of them on the way.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Flags {
    /// Collection; made when there is none, with the server's model and cosine
    #[arg(long, value_name = "NAME", default_value = "docs")]
    pub(crate) collection: String,
    #[command(flatten)]
    pub(crate) walk: WalkFlags,
    #[command(flatten)]
    load: LoadFlags,
    #[command(flatten)]
    splitter: SplitterFlags,
    #[command(flatten)]
    generated: GeneratedFlags,
}

impl Flags {
    /// The first message of a run that keeps a collection in step with files.
    ///
    /// # Errors
    /// `Usage`, naming the flag.
    pub(crate) fn begin(&self, cleanup: v1::IndexCleanup) -> Result<v1::IndexBegin, Error> {
        let begin = v1::IndexBegin {
            collection: self.collection.clone(),
            cleanup: cleanup.into(),
            conflict: v1::IndexConflict::Wait.into(),
            splitter: Some(self.splitter.splitter()?),
            parents: self.splitter.parents()?,
            load: self.load.options()?,
            generated: self.generated.texts()?,
            ..Default::default()
        };
        if self.splitter.overlaps_by_more_than_half() {
            say("warning: with --chunk-overlap above half of --chunk-size most text is stored several times over");
        }
        Ok(begin)
    }
}
