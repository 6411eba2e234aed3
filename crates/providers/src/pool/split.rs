//! Large batches in parts, and their answers in order again.

use futures::{StreamExt, TryStreamExt, stream};
use toller_core::{Error, FieldViolation, Result};

use super::load::estimated_tokens;

/// Fewest tokens of a part: a few forward passes, so that a part is worth its call.
const FEWEST_TOKENS: u64 = 2_048;

/// Most tokens of a part: what a worker computes in a few seconds, so that a lost part is soon made up for.
const MOST_TOKENS: u64 = 16_384;

/// Protobuf's own bytes around a text, a vector and its usage, rounded up.
const OVERHEAD_BYTES: usize = 64;

/// How large a part may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartLimits {
    /// Healthy workers, over which a batch is spread.
    pub(crate) workers: usize,
    /// Largest message.
    pub(crate) max_message_bytes: usize,
    /// Bytes in every message beside the texts.
    pub(crate) fixed_bytes: usize,
    /// Bytes that the answer to one text takes.
    pub(crate) answer_bytes: usize,
    /// What the model reads of one text; 0 where no bound is known.
    pub(crate) max_tokens: u32,
    /// Tokens that are read beside each text, such as the query of a pair.
    pub(crate) tokens_beside: u64,
}

/// Texts that travel together.
#[derive(Debug, PartialEq)]
pub(crate) struct Part {
    /// The index of its first text in the batch.
    pub(crate) start: usize,
    pub(crate) texts: Vec<String>,
    /// An estimate of its tokens.
    pub(crate) tokens: u64,
}

/// Cuts a batch into parts, in order, each of at least one text.
pub(crate) fn split(texts: Vec<String>, limits: PartLimits) -> Vec<Part> {
    let cost = |text: &String| {
        let tokens = estimated_tokens(text.len(), limits.max_tokens).saturating_add(limits.tokens_beside);
        if limits.max_tokens == 0 { tokens } else { tokens.min(u64::from(limits.max_tokens)) }
    };
    let total = texts.iter().map(cost).fold(0_u64, u64::saturating_add);
    let workers = u64::try_from(limits.workers.max(1)).unwrap_or(u64::MAX);
    let most_tokens = total.div_ceil(workers).clamp(FEWEST_TOKENS, MOST_TOKENS);

    let mut parts: Vec<Part> = Vec::new();
    let mut bytes = 0;
    for (index, text) in texts.into_iter().enumerate() {
        let text_tokens = cost(&text);
        let text_bytes = OVERHEAD_BYTES + text.len().max(limits.answer_bytes);
        if let Some(part) = parts.last_mut()
            && part.tokens.saturating_add(text_tokens) <= most_tokens
            && bytes + text_bytes <= limits.max_message_bytes
        {
            part.tokens = part.tokens.saturating_add(text_tokens);
            part.texts.push(text);
            bytes += text_bytes;
            continue;
        }
        bytes = OVERHEAD_BYTES + limits.fixed_bytes + text_bytes;
        parts.push(Part { start: index, texts: vec![text], tokens: text_tokens });
    }
    parts
}

/// Answers all parts, `parallel` at a time, and joins the answers in the order of the texts. The first part that fails for
/// good fails the batch and ends the others.
///
/// # Errors
/// Of that part; faults of texts name their index in the batch.
pub(crate) async fn answer_parts<'a, A: Send>(
    parts: Vec<Part>,
    parallel: usize,
    answer: impl Fn(Part) -> futures::future::BoxFuture<'a, Result<Vec<A>>> + Send + Sync,
) -> Result<Vec<A>> {
    let count = parts.len();
    let mut answers: Vec<(usize, Vec<A>)> = Vec::with_capacity(count);
    let mut running = stream::iter(parts)
        .map(|part| {
            let (start, wanted) = (part.start, part.texts.len());
            let answer = answer(part);
            async move {
                match answer.await {
                    Ok(answer) if answer.len() == wanted => Ok((start, answer)),
                    Ok(answer) => {
                        let got = answer.len();
                        Err(Error::Internal(format!("an embedding worker answered {got} items for {wanted}")))
                    }
                    Err(error) => Err(in_batch(error, start)),
                }
            }
        })
        .buffer_unordered(parallel.max(1));
    while let Some(answer) = running.try_next().await? {
        answers.push(answer);
    }
    answers.sort_unstable_by_key(|(start, _)| *start);
    Ok(answers.into_iter().flat_map(|(_, answer)| answer).collect())
}

/// `error` with `texts[i]` and `documents[i]` counted from the beginning of the batch.
fn in_batch(error: Error, start: usize) -> Error {
    let Error::InvalidArgument(violations) = error else { return error };
    let shift = |violation: FieldViolation| {
        let shifted = ["texts[", "documents["].into_iter().find_map(|list| {
            let (index, rest) = violation.field.strip_prefix(list)?.split_once(']')?;
            let index: usize = index.parse().ok()?;
            Some(format!("{list}{}]{rest}", index + start))
        });
        FieldViolation { field: shifted.unwrap_or(violation.field), description: violation.description }
    };
    Error::InvalidArgument(violations.into_iter().map(shift).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt;
    use proptest::prelude::*;

    use super::*;

    fn limits(workers: usize) -> PartLimits {
        PartLimits {
            workers,
            max_message_bytes: 1 << 24,
            fixed_bytes: 0,
            answer_bytes: 1536,
            max_tokens: 512,
            tokens_beside: 0,
        }
    }

    #[test]
    fn small_batches_stay_whole_and_large_ones_spread_over_the_workers() {
        let texts = |count| vec!["x".repeat(400); count];
        assert_eq!(split(Vec::new(), limits(4)), []);
        assert_eq!(split(texts(20), limits(4)).len(), 1);
        // 200 texts of 102 tokens: 20,400.
        assert_eq!(split(texts(200), limits(4)).len(), 4);
        assert_eq!(split(texts(200), limits(1)).len(), 2);
        let by_bytes = PartLimits { max_message_bytes: 5 * (1536 + OVERHEAD_BYTES), ..limits(1) };
        let parts: Vec<usize> = split(texts(9), by_bytes).iter().map(|part| part.texts.len()).collect();
        assert_eq!(parts, [4, 4, 1]);
        // What the query adds to each pair counts.
        let pairs = PartLimits { tokens_beside: 300, ..limits(4) };
        assert_eq!(split(texts(20), pairs).iter().map(|part| part.tokens).sum::<u64>(), 20 * 402);
        assert_eq!(split(texts(20), pairs).len(), 4);
    }

    #[test]
    fn faults_of_texts_are_counted_from_the_beginning_of_the_batch() {
        let shifted = |field: &str| in_batch(Error::invalid(field, "is too long"), 10);
        assert_eq!(shifted("texts[3]"), Error::invalid("texts[13]", "is too long"));
        assert_eq!(shifted("documents[0].x"), Error::invalid("documents[10].x", "is too long"));
        assert_eq!(shifted("query"), Error::invalid("query", "is too long"));
        assert_eq!(in_batch(Error::Cancelled, 10), Error::Cancelled);
    }

    proptest! {
        /// Whatever the sizes, the limits and the order in which parts are answered.
        #[test]
        fn the_answer_is_in_the_order_of_the_texts(
            sizes in prop::collection::vec(0_usize..4000, 0..120),
            workers in 0_usize..6,
            parallel in 0_usize..6,
            max_message_bytes in 4096_usize..40_000,
            delays in prop::collection::vec(0_u8..5, 1..10),
        ) {
            let texts: Vec<String> =
                sizes.iter().enumerate().map(|(index, size)| format!("{index} {}", "x".repeat(*size))).collect();
            let limits = PartLimits { max_message_bytes, ..limits(workers) };
            let parts = split(texts.clone(), limits);
            for part in &parts {
                let bytes: usize = part.texts.iter().map(|text| OVERHEAD_BYTES + text.len().max(1536)).sum();
                prop_assert!(part.texts.len() == 1 || (bytes <= max_message_bytes && part.tokens <= MOST_TOKENS));
            }
            let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let answer = answer_parts(parts, parallel, |part| {
                let delay = delays[part.start % delays.len()];
                let (running, most) = (&running, &most);
                async move {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    for _ in 0..delay {
                        tokio::task::yield_now().await;
                    }
                    running.fetch_sub(1, Ordering::SeqCst);
                    Ok(part.texts)
                }
                .boxed()
            });
            let answer = tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(answer);
            prop_assert_eq!(answer, Ok(texts));
            prop_assert!(most.into_inner() <= parallel.max(1));
        }
    }
}
