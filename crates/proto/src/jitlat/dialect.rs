//! Dialect of a control connection.

use super::message::DecodeError;
use super::v3::frame::PREFACE;
use core::fmt;

/// Dialect of a control connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Classic protocol (DRDC TM 2011-047), with 44-byte workorders: IPv4, one flow, no authentication.
    Classic,
    /// Version 3, with length-prefixed frames of tagged fields.
    #[default]
    V3,
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dialect::Classic => "classic",
            Dialect::V3 => "version 3",
        })
    }
}

/// Detects the dialect from the first bytes of a connection: the preface `JLT3` of version 3, or the command of a
/// classic workorder, a number from 1 to 65535. Numbers that are not commands count as classic, too, because that
/// protocol answers them with NAK. Returns `None` while both dialects are possible.
pub(crate) fn sniff(first: &[u8]) -> Result<Option<Dialect>, DecodeError> {
    let head = &first[..first.len().min(4)];
    let v3 = PREFACE.starts_with(head);
    let classic = match head {
        [0, 0, high, low] => *high != 0 || *low != 0,
        _ => head.iter().all(|b| *b == 0),
    };
    match (head.len(), v3, classic) {
        (4, true, _) => Ok(Some(Dialect::V3)),
        (4, _, true) => Ok(Some(Dialect::Classic)),
        (0..4, true, _) | (0..4, _, true) => Ok(None),
        _ => {
            let mut shown = [0; 4];
            shown[..head.len()].copy_from_slice(head);
            Err(DecodeError::Preface(shown))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_bytes_tell() {
        assert_eq!(sniff(b"JLT3\0\0"), Ok(Some(Dialect::V3)));
        assert_eq!(sniff(&[0, 0, 0, 7, 9]), Ok(Some(Dialect::Classic)));
        // Commands that do not exist.
        assert_eq!(sniff(&[0, 0, 0, 8]), Ok(Some(Dialect::Classic)));
        assert_eq!(sniff(&[0, 0, 255, 0]), Ok(Some(Dialect::Classic)));
        for early in [&b""[..], b"J", b"JLT", &[0], &[0, 0, 0]] {
            assert_eq!(sniff(early), Ok(None));
        }
        for wrong in [&b"GET "[..], b"JLT4", b"X", &[0, 0, 0, 0], &[0, 1, 0, 0], &[0, 1]] {
            assert!(sniff(wrong).is_err(), "{wrong:?}");
        }
    }
}
