//! What the benchmarks share: inputs that are the same on every machine and in every run, and reports of figures.

pub mod clustered;
pub mod report;

/// Vectors of uniform numbers in [-1, 1) from a small linear congruential generator (Knuth, MMIX constants).
pub fn vectors(count: usize, dimension: usize, seed: u64) -> Vec<Vec<f32>> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1_u32 << 23) as f32 - 1.0
    };
    (0..count).map(|_| (0..dimension).map(|_| next()).collect()).collect()
}

/// English-looking text of about `words` words, in sentences and paragraphs.
pub fn text(words: usize, seed: u64) -> String {
    const WORDS: [&str; 16] = [
        "the",
        "retriever",
        "finds",
        "documents",
        "of",
        "a",
        "collection",
        "by",
        "vector",
        "and",
        "returns",
        "them",
        "with",
        "scores",
        "in",
        "order",
    ];
    let mut state = seed;
    let mut text = String::with_capacity(words * 7);
    for position in 1..=words {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(WORDS[(state >> 60) as usize]);
        text.push_str(match position {
            _ if position % 120 == 0 => ".\n\n",
            _ if position % 15 == 0 => ". ",
            _ => " ",
        });
    }
    text
}
