//! Random numbers.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

/// Returns a uniformly distributed number in (0, 1], made from the top 53 bits of a random integer. It is never 0, so
/// its logarithm is finite.
pub(super) fn unit(rng: &mut ChaCha8Rng) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}
