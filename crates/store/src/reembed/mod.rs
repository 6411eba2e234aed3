//! Embeds a collection anew, from its stored texts, with another model, while it is read and written.
//!
//! 1. Room for another generation is made in the store, and the collection's record names it: from now on writes go to both
//!    (`targets`), while reads go to the current one.
//! 2. Every document is copied, in the order of ids (`copy`). Texts are embedded in front of the fence; behind it, while no
//!    write runs, they are looked at again, and only those that are still the same are written. So an older text never replaces
//!    a newer one, and what was deleted does not come back.
//! 3. Both generations are compared, ids and documents, a page at a time behind the fence (`compare`); what differs is mended.
//!    What agreed stays so, since writes go to both. A write that may have reached one of them only starts the comparison anew.
//! 4. Behind the fence, when the counts are equal too, one compare-and-swap of the collection's record makes the new generation
//!    the current one. The old one stays, as it was at that moment, until the collection is embedded anew again or deleted; its
//!    vectors are used when its model is asked for again and a text is still the same.
//!
//! Progress is recorded after every batch. What is done a second time after a crash, at most one batch, changes nothing.

mod begin;
mod compare;
mod copy;
mod task;

pub(crate) use begin::{begin, context_of, resume};

/// Reason of the error when a collection is being embedded anew already.
pub const REEMBED_RUNNING: &str = "REEMBED_RUNNING";
