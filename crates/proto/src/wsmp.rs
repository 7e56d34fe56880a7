//! WSMP version 3 (IEEE 1609.3): the header of a wave short message, which vehicles send over 802.11p without IP.
//!
//! Messages to one service are read if they have neither routing nor extensions of the transport header; extensions of
//! the network header are skipped. Everything else is rejected, and so is every length that does not fit.
//!
//! ```
//! use jitlat_proto::wsmp::{self, Psid};
//!
//! let psid: Psid = "0x7f".parse()?;
//! let mut message = Vec::new();
//! assert!(wsmp::write(&mut message, psid, b"data"));
//! assert_eq!(message, b"\x03\x00\x7f\x04data");
//! assert_eq!(wsmp::parse(&message), Some(wsmp::Message { psid, data: b"data" }));
//! # Ok::<(), String>(())
//! ```

use core::fmt;
use core::str::FromStr;

/// EtherType of WSMP.
pub const ETHERTYPE: u16 = 0x88dc;

/// Version in the first byte.
const VERSION: u8 = 3;
/// Bits of the version in the first byte.
const VERSION_BITS: u8 = 0x07;
/// Bit in the first byte that is set if extensions follow.
const EXTENDED: u8 = 0x08;
/// Type of the transport header that consists of a PSID, without extensions.
const WITH_PSID: u8 = 0;
/// Largest length that two bytes express.
const MAX_LENGTH: usize = 0x3fff;

/// Provider service identifier: the service to which a message belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Psid(u32);

/// Smallest PSID of each encoded length, from 1 to 4 bytes. It is subtracted before the PSID is encoded.
const PSID_OFFSETS: [u32; 4] = [0, 0x80, 0x4080, 0x20_4080];
/// Services whose messages must be signed, so that receivers would reject LaMP.
const SIGNED: [u32; 2] = [0x20, 0x82];

impl Psid {
    /// PSID of the service for tests.
    pub const TESTING: Psid = Psid(0x7f);
    /// Largest PSID.
    pub const MAX: u32 = 0x1020_407f;

    /// Creates the PSID with this number; `None` above [`Psid::MAX`].
    pub const fn new(number: u32) -> Option<Psid> {
        if number <= Psid::MAX { Some(Psid(number)) } else { None }
    }

    /// Returns the length of the encoded PSID, in bytes.
    fn length(self) -> usize {
        PSID_OFFSETS.iter().rposition(|offset| self.0 >= *offset).map_or(1, |k| k + 1)
    }

    fn write(self, out: &mut Vec<u8>) {
        let length = self.length();
        // A first byte that begins with k ones and a zero means k + 1 bytes.
        let ones = [0, 0x80, 0xc0, 0xe0][length - 1];
        let bytes = (self.0 - PSID_OFFSETS[length - 1]).to_be_bytes();
        let start = out.len();
        out.extend(&bytes[4 - length..]);
        out[start] |= ones;
    }

    fn read(bytes: &mut &[u8]) -> Option<Psid> {
        let ones = bytes.first()?.leading_ones() as usize;
        let offset = PSID_OFFSETS.get(ones)?;
        let (encoded, rest) = bytes.split_at_checked(ones + 1)?;
        *bytes = rest;
        let all = encoded.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
        // The number has seven bits for each byte.
        Some(Psid((all & ((1 << (7 * encoded.len())) - 1)) + offset))
    }
}

impl fmt::Display for Psid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl FromStr for Psid {
    type Err = String;

    /// Parses a number, hexadecimal after `0x`, otherwise decimal. Rejects services whose messages must be signed.
    fn from_str(text: &str) -> Result<Psid, String> {
        let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => text.parse(),
        };
        let psid = number.ok().and_then(Psid::new);
        let psid =
            psid.ok_or_else(|| format!("'{text}' is not a PSID: give a number up to {:#x}", Psid::MAX))?;
        if SIGNED.contains(&psid.0) {
            return Err(format!(
                "messages of PSID {psid} are signed, and LaMP is not: use another PSID, for example {}",
                Psid::TESTING
            ));
        }
        Ok(psid)
    }
}

/// A wave short message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Service to which the message belongs.
    pub psid: Psid,
    /// Data, without the padding of the frame.
    pub data: &'a [u8],
}

/// Parses the message at the start of `bytes`, after which padding may follow; `None` if there is none.
pub fn parse(bytes: &[u8]) -> Option<Message<'_>> {
    let (first, mut rest) = bytes.split_first()?;
    // The upper half has the kind of networking; 0 is none.
    if first & !EXTENDED != VERSION & VERSION_BITS {
        return None;
    }
    if first & EXTENDED != 0 {
        for _ in 0..read_length(&mut rest)? {
            let (_id, after) = rest.split_first()?;
            rest = after;
            let length = read_length(&mut rest)?;
            rest = rest.get(length..)?;
        }
    }
    let (kind, mut rest) = rest.split_first()?;
    if *kind != WITH_PSID {
        return None;
    }
    let psid = Psid::read(&mut rest)?;
    let length = read_length(&mut rest)?;
    Some(Message { psid, data: rest.get(..length)? })
}

/// Appends a message to `psid` with `data` to `out`. Returns false, and appends nothing, if `data` is too long.
pub fn write(out: &mut Vec<u8>, psid: Psid, data: &[u8]) -> bool {
    if data.len() > MAX_LENGTH {
        return false;
    }
    out.extend([VERSION, WITH_PSID]);
    psid.write(out);
    match data.len() {
        length @ ..=0x7f => out.push(length as u8),
        length => out.extend((0x8000 | length as u16).to_be_bytes()),
    }
    out.extend(data);
    true
}

/// Returns the length of the header, in bytes, of a message to `psid` with `length` bytes of data.
pub fn header_length(psid: Psid, length: usize) -> usize {
    2 + psid.length() + if length > 0x7f { 2 } else { 1 }
}

/// Reads a length or count, which has one byte up to 127, otherwise two bytes that begin with the bits 10.
fn read_length(bytes: &mut &[u8]) -> Option<usize> {
    let (first, rest) = bytes.split_first()?;
    let (length, rest) = match first.leading_ones() {
        0 => (usize::from(*first), rest),
        1 => {
            let (second, rest) = rest.split_first()?;
            (usize::from(*first & 0x3f) << 8 | usize::from(*second), rest)
        }
        _ => return None,
    };
    *bytes = rest;
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_of_a_psid_is_written_and_read() {
        let known: [(u32, &[u8]); 9] = [
            (0, &[0]),
            (0x7f, &[0x7f]),
            (0x80, &[0x80, 0]),
            (0x407f, &[0xbf, 0xff]),
            (0x4080, &[0xc0, 0, 0]),
            (0x20_407f, &[0xdf, 0xff, 0xff]),
            (0x20_4080, &[0xe0, 0, 0, 0]),
            (Psid::MAX, &[0xef, 0xff, 0xff, 0xff]),
            (0x1234, &[0x91, 0xb4]),
        ];
        for (number, bytes) in known {
            let psid = Psid::new(number).unwrap();
            let mut out = Vec::new();
            psid.write(&mut out);
            assert_eq!(out, bytes, "{psid}");
            let mut rest = bytes;
            assert_eq!((Psid::read(&mut rest), rest.len()), (Some(psid), 0), "{psid}");
            for cut in 0..bytes.len() {
                assert_eq!(Psid::read(&mut &bytes[..cut]), None, "{psid} cut to {cut}");
            }
        }
        assert_eq!((Psid::new(Psid::MAX + 1), Psid::read(&mut &[0xf0, 0, 0, 0, 0][..])), (None, None));
    }

    #[test]
    fn a_psid_is_a_number_whose_messages_need_no_signature() {
        let read = |text: &str| text.parse::<Psid>();
        assert_eq!(
            (read("127"), read("0x7f"), read("0x10")),
            (Ok(Psid::TESTING), Ok(Psid::TESTING), Ok(Psid(16)))
        );
        for (text, why) in [
            ("0x20", "signed"),
            ("130", "signed"),
            ("0x10204080", "not a PSID"),
            ("x", "not a PSID"),
            ("", "not a PSID"),
        ] {
            assert!(read(text).unwrap_err().contains(why), "{text}");
        }
    }

    /// The header of frame 3 of the decoded examples: power, channel and rate before the service.
    const EXTENDED_HEADER: [u8; 14] = [0x0b, 3, 4, 1, 0x14, 0x0f, 1, 0xac, 0x10, 1, 0x0c, 0, 0x7f, 0x18];

    #[test]
    fn messages_decoded_by_another_program_are_read() {
        let data = [7; 0x18];
        let plain = [&[3, 0, 0x7f, 0x18][..], &data, &[0; 18]].concat();
        let extended = [&EXTENDED_HEADER[..], &data].concat();
        let long = [&[3, 0, 0x7f, 0x80, 0xe0][..], &[9; 224]].concat();
        for (bytes, data) in [(&plain, &data[..]), (&extended, &data), (&long, &[9; 224])] {
            assert_eq!(parse(bytes), Some(Message { psid: Psid::TESTING, data }));
        }
        let mut out = Vec::new();
        assert!(write(&mut out, Psid::TESTING, &[9; 224]) && out == long);
        assert_eq!(header_length(Psid::TESTING, 224), 5);
        assert!(!write(&mut out, Psid::TESTING, &[0; MAX_LENGTH + 1]) && out == long);
    }

    #[test]
    fn every_length_is_checked() {
        let whole = [&EXTENDED_HEADER[..], &[7; 0x18]].concat();
        for cut in 0..whole.len() {
            assert_eq!(parse(&whole[..cut]), None, "cut to {cut}");
        }
        // Each byte of the header is set to every value: nothing panics, and data are never beyond the frame.
        for at in 0..EXTENDED_HEADER.len() {
            for value in 0..=255 {
                let mut changed = whole.clone();
                changed[at] = value;
                assert!(parse(&changed).is_none_or(|message| message.data.len() < whole.len()));
            }
        }
        let refused: [&[u8]; 7] = [
            &[2, 0, 0x7f, 0],
            &[0x13, 0, 0x7f, 0],
            &[3, 1, 0x7f, 0],
            &[3, 0, 0xf0, 0],
            &[3, 0, 0x7f, 0xc0, 0],
            &[0x0b, 0xbf, 0xff, 0, 0, 0x7f, 0],
            &[0x0b, 1, 4, 0xbf, 0xff, 0, 0x7f, 0],
        ];
        for bytes in refused {
            assert_eq!(parse(bytes), None, "{bytes:x?}");
        }
    }
}
