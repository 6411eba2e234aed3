//! One question to a language model for each hit.

use futures::{StreamExt, TryStreamExt, stream};
use toller_core::language_model::AnswerSchema;
use toller_core::{Error, Result};

use crate::language_model::{Asker, CONCURRENT_QUESTIONS, Said};
use crate::run::Run;

/// Most hits that are asked about: each is a call that somebody pays for.
const MAX_HITS: usize = 100;

/// Most code points of one document that a model is shown.
pub(super) const MAX_CHARS: usize = 8000;

/// The answers about each of `items`, aligned with them; `field` is its placeholder.
///
/// # Errors
/// `InvalidArgument` for more than [`MAX_HITS`] hits; what the model reports.
pub(super) async fn ask_for_each(
    asker: &Asker,
    run: &Run,
    query: &str,
    (field, items): (&str, &[String]),
    schema: &AnswerSchema,
) -> Result<Vec<Said>> {
    if items.len() > MAX_HITS {
        let description = format!(
            "asks a language model about each hit, of at most {MAX_HITS}, got {}: lower the k below it",
            items.len()
        );
        return Err(Error::invalid("", description));
    }
    let asking: Vec<_> =
        items
            .iter()
            .map(|item| async move {
                asker.ask(run, &[("query", query), (field, item.as_str())], Some(schema.clone())).await
            })
            .collect();
    stream::iter(asking).buffered(CONCURRENT_QUESTIONS).try_collect().await
}

/// The beginning of a text, as a model is shown it.
pub(super) fn excerpt(text: &str) -> String {
    text.chars().take(MAX_CHARS).collect()
}
