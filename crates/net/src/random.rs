//! Random bytes from the kernel, and padding of test packets.

use std::io;
use std::sync::OnceLock;

/// Fills `bytes` with random bytes, by a system call that needs neither a descriptor nor `/dev`.
pub fn fill(bytes: &mut [u8]) -> io::Result<()> {
    getrandom::fill(bytes).map_err(io::Error::from)
}

/// Number of different start positions of padding; a power of two.
const OFFSETS: usize = 1 << 16;

/// Padding for test packets: random, so that the path cannot compress it, and different from packet to
/// packet, although the random bytes are generated only once per program. Padding is not copied.
#[derive(Clone, Copy)]
pub struct Padding {
    pool: &'static [u8],
    length: usize,
}

impl Padding {
    /// Prepares padding of `length` bytes per packet.
    pub fn new(length: usize) -> io::Result<Padding> {
        static POOL: OnceLock<Box<[u8]>> = OnceLock::new();
        let pool = match POOL.get() {
            Some(pool) => pool,
            None => {
                let mut bytes = vec![0; OFFSETS + usize::from(u16::MAX)].into_boxed_slice();
                fill(&mut bytes)?;
                POOL.get_or_init(|| bytes)
            }
        };
        Ok(Padding { pool, length: length.min(u16::MAX.into()) })
    }

    /// Returns the padding of packet `seq`: a window into the random bytes. All `OFFSETS` positions are used
    /// before one repeats.
    #[inline]
    pub fn of(&self, seq: i32) -> &'static [u8] {
        let at = (seq as usize).wrapping_mul(0x9e3b) % OFFSETS;
        &self.pool[at..at + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_differs_from_packet_to_packet() {
        let padding = Padding::new(68).unwrap();
        let seen: std::collections::HashSet<&[u8]> = (0..OFFSETS as i32).map(|s| padding.of(s)).collect();
        assert_eq!(seen.len(), OFFSETS);
        let longest = Padding::new(65_495).unwrap();
        assert!([-1, -2, 0, i32::MAX, i32::MIN].iter().all(|s| longest.of(*s).len() == 65_495));
    }
}
