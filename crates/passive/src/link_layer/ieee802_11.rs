//! Data frames of IEEE 802.11, with and without the headers of monitoring interfaces.

use super::{LinkType, NetworkLayer, Skip, after_llc};

/// Bits of the frame control field (IEEE 802.11-2020 §9.2.4.1) and of the QoS control field.
mod control {
    pub(super) const VERSION: u8 = 0x03;
    pub(super) const TYPE: u8 = 0x0c;
    pub(super) const DATA: u8 = 0x08;
    /// Bit of the subtypes without data.
    pub(super) const NULL: u8 = 0x40;
    /// Bit of the subtypes with a QoS control field.
    pub(super) const QOS: u8 = 0x80;
    /// Flags for frames to and from the distribution system. Frames with four addresses have both.
    pub(super) const FOUR_ADDRESSES: u8 = 0x03;
    pub(super) const PROTECTED: u8 = 0x40;
    /// Flag: an HT control field follows the QoS control field.
    pub(super) const HT: u8 = 0x80;
    /// Bit of the QoS control field: the frame contains several packets (A-MSDU).
    pub(super) const SEVERAL: u8 = 0x80;
}

/// Finds the network layer of a data frame that is not encrypted.
pub(super) fn find(link: LinkType, data: &[u8]) -> NetworkLayer {
    let (at, padded) = match link {
        LinkType::RADIOTAP => (usize::from(le16(data, 2)?), is_padded(data)),
        LinkType::PPI => (usize::from(le16(data, 2)?), false),
        LinkType::PRISM | LinkType::AVS => (monitor_header(data)?, false),
        _ => (0, false),
    };
    after_header(data, at, padded)
}

fn le16(data: &[u8], at: usize) -> Result<u16, Skip> {
    let word = data.get(at..).and_then(|b| b.first_chunk()).ok_or(Skip::Truncated)?;
    Ok(u16::from_le_bytes(*word))
}

/// True if the flags of the radiotap header say that the 802.11 header is padded to a multiple of four bytes.
fn is_padded(data: &[u8]) -> bool {
    const MORE: u32 = 1 << 31;
    const STAMP: u32 = 1;
    const FLAGS: u32 = 2;
    const PADDED: u8 = 0x20;
    let word = |k: usize| data.get(4 + 4 * k..)?.first_chunk().map(|w| u32::from_le_bytes(*w));
    let Some(present) = word(0).filter(|present| present & FLAGS != 0) else { return false };
    let words = (0..16).take_while(|k| word(*k).is_some_and(|w| w & MORE != 0)).count() + 1;
    let fields = 4 + 4 * words;
    let at = if present & STAMP != 0 { fields.next_multiple_of(8) + 8 } else { fields };
    data.get(at).is_some_and(|flags| flags & PADDED != 0)
}

/// Returns the length of a Prism or AVS header, in bytes.
fn monitor_header(data: &[u8]) -> Result<usize, Skip> {
    let word = |at: usize| data.get(at..).and_then(|b| b.first_chunk::<4>()).ok_or(Skip::Truncated);
    let first = u32::from_be_bytes(*word(0)?);
    // The magic numbers of AVS; a Prism header has 144 bytes, and its length in the second word.
    Ok(match first & 0xffff_f000 == 0x8021_1000 {
        true => u32::from_be_bytes(*word(4)?) as usize,
        false => 144,
    })
}

fn after_header(data: &[u8], from: usize, padded: bool) -> NetworkLayer {
    let [first, flags] = *data.get(from..).and_then(|f| f.first_chunk::<2>()).ok_or(Skip::Truncated)?;
    let is_data = first & control::VERSION == 0 && first & control::TYPE == control::DATA;
    if !is_data || first & control::NULL != 0 || flags & control::PROTECTED != 0 {
        return Err(Skip::NotIp);
    }
    let mut length = if flags & control::FOUR_ADDRESSES == control::FOUR_ADDRESSES { 30 } else { 24 };
    // A later fragment of a frame does not begin with a packet.
    if data.get(from + 22).ok_or(Skip::Truncated)? & 0x0f != 0 {
        return Err(Skip::NotIp);
    }
    let mut several = false;
    if first & control::QOS != 0 {
        several = data.get(from + length).ok_or(Skip::Truncated)? & control::SEVERAL != 0;
        length += if flags & control::HT != 0 { 6 } else { 2 };
    }
    if padded {
        length = length.next_multiple_of(4);
    }
    // The first of several packets, behind its addresses and length.
    after_llc(data, from + length + if several { 14 } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link_layer::Network;

    const SNAP: [u8; 8] = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];

    fn frame(first: u8, flags: u8, rest: usize) -> Vec<u8> {
        [&[first, flags][..], &vec![0; rest], &SNAP, &[0x45]].concat()
    }

    #[test]
    fn data_frames_lead_to_their_packet() {
        let of = |data: &[u8]| find(LinkType::IEEE802_11, data);
        assert_eq!(of(&frame(0x08, 1, 22)), Ok((Network::V4, 32)));
        assert_eq!(of(&frame(0x88, 2, 24)), Ok((Network::V4, 34)));
        assert_eq!(of(&frame(0x88, 3, 30)), Ok((Network::V4, 40)), "four addresses");
        assert_eq!(of(&frame(0x88, 0x81, 28)), Ok((Network::V4, 38)), "HT control");
        // Beacons, frames without data, encrypted frames.
        for (first, flags) in [(0x80, 0), (0x48, 1), (0xc8, 1), (0x08, 0x41)] {
            assert_eq!(of(&frame(first, flags, 24)), Err(Skip::NotIp));
        }
    }

    #[test]
    fn the_headers_of_monitors_are_stepped_over() {
        let with = |header: &[u8], rest| [header, &frame(0x88, 1, rest)].concat();
        let radiotap = [0, 0, 9, 0, 2, 0, 0, 0, 0x10];
        assert_eq!(find(LinkType::RADIOTAP, &with(&radiotap, 24)), Ok((Network::V4, 43)));
        let padded = [0, 0, 9, 0, 2, 0, 0, 0, 0x30];
        assert_eq!(find(LinkType::RADIOTAP, &with(&padded, 26)), Ok((Network::V4, 45)));
        let stamped = [0, 0, 25, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x30, 0, 0, 0, 0, 0, 0, 0, 0];
        // The timestamp is aligned to eight bytes, the flags follow.
        assert_eq!(find(LinkType::RADIOTAP, &with(&stamped, 26)).map(|f| f.1), Ok(61));
        assert_eq!(find(LinkType::RADIOTAP, &radiotap), Err(Skip::Truncated));
    }
}
