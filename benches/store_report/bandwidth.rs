//! How fast numbers come from memory when next to nothing is done with them.

use std::hint::black_box;
use std::time::Instant;

/// Sums that are added up side by side, so that no addition waits for the one before.
const LANES: usize = 64;

/// Bytes per second of a plain sum on one thread, as many as a search of the memory store has.
pub fn bytes_per_second(numbers: &[f32]) -> f64 {
    let started = Instant::now();
    let mut sums = [0_f32; LANES];
    for lane in black_box(numbers).chunks_exact(LANES) {
        for (sum, number) in sums.iter_mut().zip(lane) {
            *sum += number;
        }
    }
    black_box(sums);
    size_of_val(numbers) as f64 / started.elapsed().as_secs_f64()
}
