//! Random numbers.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

/// Returns a uniform number on (0, 1] from the top 53 bits, so that its logarithm is finite.
pub(super) fn unit(rng: &mut ChaCha8Rng) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}
