//! Runs that keep a collection in step with its sources.
//!
//! A run ([`IndexRun`]) takes documents as their sources have them, finds out which of them changed, reads and cuts those
//! (`preparing`), embeds what is new (`pipeline`) into a room that nobody sees, and shows all of it in one commit. What is indexed is read from the ids of
//! the collection itself ([`version`], `known`): there is no book beside it that could disagree. Parents of chunks ([`parents`]) stand in the
//! document store of the collection's name.
//!
//! Memory is bounded by one document, some batches on their way, and the names of what came.

mod automatic;
pub mod cutting;
mod draft;
pub mod generated;
mod joining;
mod known;
pub mod parents;
mod patience;
mod pipeline;
mod place;
mod preparing;
pub mod progress;
pub mod run;
pub mod settings;
pub mod source_document;
pub mod version;

pub use generated::{GeneratedKind, GeneratedTexts};
pub use parents::ParentRoom;
pub use progress::{Action, Board, Change, News, Problem, Progress};
pub use run::IndexRun;
pub use settings::{Cleanup, Cut, Cutting, IndexSettings, Parents};
pub use source_document::{Content, RelatedText, SourceDocument};
