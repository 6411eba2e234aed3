//! Vectors in groups, as those of texts are: made from their numbers, so that nobody has to hold them.

use std::sync::LazyLock;

/// Dimension of every vector: that of MiniLM and BGE small.
pub const DIMENSION: usize = 384;

/// Rows that share a centre are alike, as texts about one thing are.
const CENTRES: usize = 500;

/// How far rows are from their centre, beside the centre's own length of about 1.
const SPREAD: f32 = 0.6;

/// Numbers from here on are those of queries.
const QUERIES_FROM: u64 = 1 << 40;

static CENTRE_VECTORS: LazyLock<Vec<Vec<f32>>> =
    LazyLock::new(|| (0..CENTRES as u64).map(|centre| direction(u64::MAX - centre)).collect());

/// Row `number`.
pub fn row(number: u64) -> Vec<f32> {
    let centre = &CENTRE_VECTORS[(mixed(number ^ 0x5bd1) % CENTRES as u64) as usize];
    centre.iter().zip(direction(number)).map(|(centre, own)| centre + SPREAD * own).collect()
}

/// Query `number`: from the same distribution as the rows, and none of them.
pub fn query(number: u64) -> Vec<f32> {
    row(QUERIES_FROM + number)
}

/// About a unit vector in any direction.
fn direction(seed: u64) -> Vec<f32> {
    let scale = (3.0 / DIMENSION as f32).sqrt();
    let mut state = mixed(seed);
    (0..DIMENSION)
        .map(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            scale * ((mixed(state) >> 40) as f32 / (1_u32 << 23) as f32 - 1.0)
        })
        .collect()
}

/// The output function of SplitMix64 (Steele, Lea and Flood 2014).
pub fn mixed(state: u64) -> u64 {
    let mut mixed = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
