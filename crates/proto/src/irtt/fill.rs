//! [`Fill`]: contents of the padding.

use core::fmt;
use core::str::FromStr;

/// Default padding of irtt's servers.
const DEFAULT_PATTERN: &[u8] = b"irtt";

/// Padding of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Zeros in a client's packets; the bytes of the request in a server's answers.
    None,
    /// Random bytes.
    Random,
    /// Repetition of these bytes, continued from packet to packet.
    Pattern(Vec<u8>),
}

impl Default for Fill {
    /// Returns the default of servers.
    fn default() -> Fill {
        Fill::Pattern(DEFAULT_PATTERN.to_vec())
    }
}

/// Error: the text does not name a fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write none, rand or pattern:HEX")]
pub struct NoFill;

impl FromStr for Fill {
    type Err = NoFill;

    fn from_str(text: &str) -> Result<Fill, NoFill> {
        match text {
            "none" => Ok(Fill::None),
            "rand" => Ok(Fill::Random),
            _ => {
                let digits = text.strip_prefix("pattern:").ok_or(NoFill)?;
                if digits.is_empty() {
                    return Ok(Fill::default());
                }
                let digit = |c: &u8| char::from(*c).to_digit(16).map(|d| d as u8);
                let pairs = digits.as_bytes().chunks(2);
                let bytes = pairs.map(|pair| Some(digit(pair.first()?)? << 4 | digit(pair.get(1)?)?));
                bytes.collect::<Option<Vec<u8>>>().map(Fill::Pattern).ok_or(NoFill)
            }
        }
    }
}

impl fmt::Display for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fill::None => f.write_str("none"),
            Fill::Random => f.write_str("rand"),
            Fill::Pattern(bytes) => {
                f.write_str("pattern:")?;
                bytes.iter().try_for_each(|b| write!(f, "{b:02x}"))
            }
        }
    }
}

/// Pads packets.
#[derive(Clone, Debug)]
pub(crate) struct Filler {
    fill: Fill,
    /// Position in the pattern, or state of the random number generator, which need not be secret.
    state: u64,
}

impl Filler {
    /// Creates a filler. Fillers with different `seed`s produce different random bytes.
    pub fn new(fill: Fill, seed: u64) -> Filler {
        let state = match fill {
            Fill::Random => seed | 1,
            _ => 0,
        };
        Filler { fill, state }
    }

    /// Overwrites `payload`; does nothing with [`Fill::None`].
    pub fn fill(&mut self, payload: &mut [u8]) {
        match &self.fill {
            Fill::None => {}
            Fill::Pattern(pattern) if pattern.is_empty() => payload.fill(0),
            Fill::Pattern(pattern) => {
                for byte in payload {
                    *byte = pattern[self.state as usize];
                    self.state = (self.state + 1) % pattern.len() as u64;
                }
            }
            Fill::Random => {
                for eight in payload.chunks_mut(8) {
                    // xorshift64*
                    self.state ^= self.state >> 12;
                    self.state ^= self.state << 25;
                    self.state ^= self.state >> 27;
                    let bytes = self.state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes();
                    eight.copy_from_slice(&bytes[..eight.len()]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_irtt() {
        for name in ["none", "rand", "pattern:cafe"] {
            assert_eq!(name.parse::<Fill>().unwrap().to_string(), name);
        }
        assert_eq!("pattern:".parse::<Fill>().unwrap().to_string(), "pattern:69727474");
        for bad in ["", "zero", "pattern:c", "pattern:xx"] {
            assert_eq!(bad.parse::<Fill>(), Err(NoFill), "{bad}");
        }
    }

    #[test]
    fn a_pattern_goes_on_from_packet_to_packet() {
        let mut filler = Filler::new(Fill::default(), 0);
        let mut packets = [[0; 6]; 2];
        packets.iter_mut().for_each(|p| filler.fill(p));
        assert_eq!(packets, [*b"irttir", *b"ttirtt"]);
        let mut random = [[0; 21]; 2];
        let mut filler = Filler::new(Fill::Random, 0);
        random.iter_mut().for_each(|p| filler.fill(p));
        assert!(random[0] != random[1] && random[0] != [0; 21]);
        Filler::new(Fill::None, 5).fill(&mut packets[0]);
        assert_eq!(packets[0], *b"irttir");
    }
}
