//! [`RtcpItem`]: the parts of RTCP packets that describe a call (RFC 3550 §6, RFC 3611).

use serde::Serialize;

/// RTCP packet types, by which RTCP is recognised on the port of RTP (RFC 5761 §4).
const TYPES: core::ops::RangeInclusive<u8> = 192..=223;
/// Length of a report block, in bytes.
const REPORT: usize = 24;
/// Length of the fields of a VoIP metrics block after its header, in bytes.
const VOIP_METRICS: usize = 32;

/// Packet types (RFC 3550 §12.1, RFC 3611 §2).
mod kind {
    pub(super) const SENDER_REPORT: u8 = 200;
    pub(super) const RECEIVER_REPORT: u8 = 201;
    pub(super) const DESCRIPTION: u8 = 202;
    pub(super) const BYE: u8 = 203;
    pub(super) const EXTENDED_REPORT: u8 = 207;
}

/// Type of the canonical name in a source description (RFC 3550 §6.5.1).
const CANONICAL_NAME: u8 = 1;

/// Block types of extended reports (RFC 3611 §4).
mod block {
    pub(super) const LOSS_RUNS: u8 = 1;
    pub(super) const STATISTICS: u8 = 6;
    pub(super) const RECEIVER_TIME: u8 = 4;
    pub(super) const DELAY_SINCE_RECEIVER_TIME: u8 = 5;
    pub(super) const VOIP_METRICS: u8 = 7;
}

/// A part of an RTCP packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RtcpItem {
    /// Time that a source sent, as the middle 32 bits of an NTP timestamp: in a sender report, or as a receiver's time
    /// in an extended report.
    Time {
        ssrc: u32,
        ntp: u32,
        /// True for a sender report.
        is_sender: bool,
    },
    /// A receiver's report about the packets of a source.
    Report(ReportBlock),
    /// Answer to the time that the receiver `ssrc` sent: `last` is this time, `delay` the time since it arrived, in
    /// 1/65536 s.
    Answer { ssrc: u32, last: u32, delay: u32 },
    /// Figures of the packets of a source, as computed by a phone.
    Voip(u32, VoipMetrics),
    /// Losses that the receiver of a source lists.
    Losses(u32, ReportedLosses),
    /// Losses and jitter of a source, as computed by its receiver.
    Statistics(u32, StatisticsSummary),
    /// Hash of the canonical name of a source: all sources of a participant have the same.
    Name(u32, u64),
    /// This source has left.
    Bye(u32),
}

/// Packets of a source in the lists of lost packets that its receiver sends (RFC 3611 §4.1), as reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReportedLosses {
    /// Packets in the lists.
    pub packets: u64,
    /// Packets among them that the receiver did not receive.
    pub lost: u64,
    /// Number of packets in the longest run of lost packets within one list.
    pub longest_run: u64,
}

/// Losses, duplicates and jitter of a source, as its receiver computes them (RFC 3611 §4.6); null where it reports none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatisticsSummary {
    /// Packets lost.
    pub lost: Option<u32>,
    /// Duplicates received.
    pub duplicates: Option<u32>,
    /// Smallest, mean and largest interarrival jitter, in units of the media clock.
    pub jitter: Option<[u32; 3]>,
}

/// A report block of a sender or receiver report (RFC 3550 §6.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReportBlock {
    /// Source that the report is about.
    pub(super) ssrc: u32,
    /// Share of packets lost since the last report, in 1/256.
    pub(super) fraction_lost: u8,
    /// Total number of packets lost; negative if duplicates were counted.
    pub(super) lost: i32,
    /// Interarrival jitter, in units of the media clock.
    pub(super) jitter: u32,
    /// Time in the last sender report that arrived; 0 if none did.
    pub(super) last: u32,
    /// Delay since that report arrived, in 1/65536 s.
    pub(super) delay: u32,
}

/// Figures of a call as computed and reported by a phone (RFC 3611 §4.7); null where the phone reports none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VoipMetrics {
    /// Share of packets lost by the network.
    pub loss_rate: f64,
    /// Share of packets that arrived too late or too early for the play-out buffer.
    pub discard_rate: f64,
    /// Share of packets missing within bursts.
    pub burst_density: f64,
    /// Share of packets missing between bursts.
    pub gap_density: f64,
    /// Mean duration of bursts, in ms.
    pub burst_ms: u16,
    /// Mean duration of gaps between bursts, in ms.
    pub gap_ms: u16,
    /// Round trip between the phones' RTP interfaces, in ms.
    pub round_trip_ms: u16,
    /// Delay within the phone that reports, in ms.
    pub end_system_delay_ms: u16,
    /// Level of the received speech, in dBm0.
    pub signal_level_dbm: Option<i8>,
    /// Level of the received noise, in dBm0.
    pub noise_level_dbm: Option<i8>,
    /// Transmission rating R.
    pub r_factor: Option<u8>,
    /// Mean opinion score of listening quality.
    pub mos_lq: Option<f64>,
    /// Mean opinion score of conversational quality.
    pub mos_cq: Option<f64>,
    /// Current size of the play-out buffer, in ms.
    pub buffer_ms: u16,
    /// Largest size that the play-out buffer has had, in ms.
    pub buffer_max_ms: u16,
    /// Largest size that the play-out buffer can have, in ms.
    pub buffer_limit_ms: u16,
}

/// True if a datagram looks like RTCP.
#[inline]
pub(super) fn is_rtcp(data: &[u8]) -> bool {
    matches!(data, [flags, kind, _, _, ..] if flags >> 6 == 2 && TYPES.contains(kind))
}

/// Passes the parts of a compound packet to `each`. Returns false, and passes nothing, if the lengths of the packets do
/// not agree with the length of the datagram, as in encrypted RTCP and in a capture that cuts packets.
pub(super) fn read(data: &[u8], length: u32, mut each: impl FnMut(RtcpItem)) -> bool {
    if !is_whole(data, length) {
        return false;
    }
    let mut rest = data;
    while let Some((packet, after)) = split(rest) {
        rest = after;
        let (count, kind) = (usize::from(packet[0] & 31), packet[1]);
        let Some(ssrc) = word(packet, 4) else { continue };
        match kind {
            kind::SENDER_REPORT => {
                if let Some(ntp) = middle(packet, 8) {
                    each(RtcpItem::Time { ssrc, ntp, is_sender: true });
                }
                reports(packet.get(28..), count).for_each(|r| each(RtcpItem::Report(r)));
            }
            kind::RECEIVER_REPORT => {
                reports(packet.get(8..), count).for_each(|r| each(RtcpItem::Report(r)));
            }
            kind::DESCRIPTION => names(&packet[4..], count, &mut each),
            kind::BYE if count > 0 => each(RtcpItem::Bye(ssrc)),
            kind::EXTENDED_REPORT => blocks(&packet[8..], ssrc, &mut each),
            _ => {}
        }
    }
    true
}

/// True if the packets fill the datagram exactly.
fn is_whole(data: &[u8], length: u32) -> bool {
    if data.len() as u64 != u64::from(length) {
        return false;
    }
    let mut rest = data;
    while let Some((_, after)) = split(rest) {
        rest = after;
    }
    rest.is_empty()
}

/// Returns the first RTCP packet and the bytes after it; `None` if `data` does not begin with an RTCP packet of at
/// least 8 bytes.
fn split(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let [flags, kind, a, b, ..] = *data else { return None };
    let length = 4 + 4 * usize::from(u16::from_be_bytes([a, b]));
    let is_packet = flags >> 6 == 2 && TYPES.contains(&kind) && (8..=data.len()).contains(&length);
    is_packet.then(|| data.split_at(length))
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*data.get(at..)?.first_chunk()?))
}

/// Middle 32 bits of the NTP timestamp at `at`.
fn middle(data: &[u8], at: usize) -> Option<u32> {
    word(data, at + 2)
}

fn reports(blocks: Option<&[u8]>, count: usize) -> impl Iterator<Item = ReportBlock> + '_ {
    let block = |b: &[u8]| {
        let [f, l0, l1, l2] = *b.get(4..)?.first_chunk()?;
        Some(ReportBlock {
            ssrc: word(b, 0)?,
            fraction_lost: f,
            // Sign extension of 24 bits.
            lost: i32::from_be_bytes([l0, l1, l2, 0]) >> 8,
            jitter: word(b, 12)?,
            last: word(b, 16)?,
            delay: word(b, 20)?,
        })
    };
    blocks.unwrap_or_default().chunks_exact(REPORT).take(count).filter_map(block)
}

/// Reads the blocks of an extended report sent by `ssrc`.
fn blocks(mut data: &[u8], ssrc: u32, each: &mut impl FnMut(RtcpItem)) {
    while let [kind, specific, a, b, ..] = *data {
        let length = 4 + 4 * usize::from(u16::from_be_bytes([a, b]));
        let Some((block, rest)) = data.split_at_checked(length) else { return };
        data = rest;
        match kind {
            block::RECEIVER_TIME => {
                if let Some(ntp) = middle(block, 4) {
                    each(RtcpItem::Time { ssrc, ntp, is_sender: false });
                }
            }
            block::DELAY_SINCE_RECEIVER_TIME => {
                for answer in block[4..].chunks_exact(12) {
                    if let (Some(ssrc), Some(last), Some(delay)) =
                        (word(answer, 0), word(answer, 4), word(answer, 8))
                    {
                        each(RtcpItem::Answer { ssrc, last, delay });
                    }
                }
            }
            block::LOSS_RUNS => {
                if let Some((of, losses)) = block.get(4..).and_then(|b| loss_runs(b, specific & 15)) {
                    each(RtcpItem::Losses(of, losses));
                }
            }
            block::STATISTICS => {
                if let Some((of, statistics)) = block.get(4..).and_then(|b| statistics(b, specific)) {
                    each(RtcpItem::Statistics(of, statistics));
                }
            }
            block::VOIP_METRICS => {
                if let Some((of, metrics)) = block.get(4..).and_then(voip_metrics) {
                    each(RtcpItem::Voip(of, metrics));
                }
            }
            _ => {}
        }
    }
}

/// Reads the chunks of a source description.
fn names(mut data: &[u8], count: usize, each: &mut impl FnMut(RtcpItem)) {
    for _ in 0..count {
        let Some(ssrc) = word(data, 0) else { return };
        let mut at = 4;
        while let [kind, length, ..] = *data.get(at..).unwrap_or_default() {
            if kind == 0 {
                break;
            }
            let end = at + 2 + usize::from(length);
            let Some(text) = data.get(at + 2..end) else { return };
            if kind == CANONICAL_NAME && !text.is_empty() {
                each(RtcpItem::Name(
                    ssrc,
                    text.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
                        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
                    }),
                ));
            }
            at = end;
        }
        // The list ends with at least one zero, and at a multiple of four bytes.
        let Some(rest) = data.get((at / 4 + 1) * 4..) else { return };
        data = rest;
    }
}

/// Reads a list of runs of received and lost packets, of which each stands for 2^`thinning` packets in the sequence.
fn loss_runs(b: &[u8], thinning: u8) -> Option<(u32, ReportedLosses)> {
    // A thinned list does not show the packets between its entries.
    if thinning != 0 {
        return None;
    }
    let (of, chunks) = (word(b, 0)?, b.get(8..)?);
    let [b0, b1, e0, e1] = *b.get(4..)?.first_chunk()?;
    let covered = u64::from(u16::from_be_bytes([e0, e1]).wrapping_sub(u16::from_be_bytes([b0, b1])));
    let mut found = ReportedLosses::default();
    let mut run = 0;
    let mut packet = |is_received: bool| {
        if found.packets >= covered {
            return;
        }
        found.packets += 1;
        found.lost += u64::from(!is_received);
        run = if is_received { 0 } else { run + 1 };
        found.longest_run = found.longest_run.max(run);
    };
    for chunk in chunks.chunks_exact(2) {
        let chunk = u16::from_be_bytes([chunk[0], chunk[1]]);
        match chunk {
            0 => break,
            vector if vector & 0x8000 != 0 => (0..15).rev().for_each(|bit| packet(vector >> bit & 1 != 0)),
            runs => (0..runs & 0x3fff).for_each(|_| packet(runs & 0x4000 != 0)),
        }
    }
    (found.packets > 0).then_some((of, found))
}

fn statistics(b: &[u8], flags: u8) -> Option<(u32, StatisticsSummary)> {
    let value = |flag: u8, at: usize| (flags & flag != 0).then(|| word(b, at)).flatten();
    let (lost, duplicates) = (value(0x80, 8), value(0x40, 12));
    let jitter = || Some([value(0x20, 16)?, value(0x20, 24)?, value(0x20, 20)?]);
    Some((word(b, 0)?, StatisticsSummary { lost, duplicates, jitter: jitter() }))
}

fn voip_metrics(b: &[u8]) -> Option<(u32, VoipMetrics)> {
    let b = b.first_chunk::<VOIP_METRICS>()?;
    let share = |at: usize| f64::from(b[at]) / 256.0;
    let wide = |at: usize| u16::from_be_bytes([b[at], b[at + 1]]);
    // 127 means unavailable.
    let known = |at: usize| (b[at] != 127).then_some(b[at]);
    let level = |at: usize| known(at).map(u8::cast_signed);
    let mos = |at: usize| known(at).map(|tenths| f64::from(tenths) / 10.0);
    let metrics = VoipMetrics {
        loss_rate: share(4),
        discard_rate: share(5),
        burst_density: share(6),
        gap_density: share(7),
        burst_ms: wide(8),
        gap_ms: wide(10),
        round_trip_ms: wide(12),
        end_system_delay_ms: wide(14),
        signal_level_dbm: level(16),
        noise_level_dbm: level(17),
        r_factor: known(20),
        mos_lq: mos(22),
        mos_cq: mos(23),
        buffer_ms: wide(26),
        buffer_max_ms: wide(28),
        buffer_limit_ms: wide(30),
    };
    Some((word(b, 0)?, metrics))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_be_bytes()).collect()
    }

    /// A sender report of source 1 with one block about source 2.
    fn sender_report() -> Vec<u8> {
        words(&[
            0x81c8_000c,
            1,
            0xaaaa_1234,
            0x5678_bbbb,
            9,
            10,
            11, // times and counts of the sender
            2,
            0x40ff_fffe,
            99,
            80,
            0x1234_5678,
            0x0001_0000,
        ])
    }

    fn items(data: &[u8]) -> (bool, Vec<RtcpItem>) {
        let mut found = Vec::new();
        let whole = read(data, data.len() as u32, |item| found.push(item));
        (whole, found)
    }

    #[test]
    fn a_compound_packet_is_read() {
        let mut data = sender_report();
        data.extend(words(&[0x81cb_0001, 1]));
        let report = ReportBlock {
            ssrc: 2,
            fraction_lost: 64,
            lost: -2,
            jitter: 80,
            last: 0x1234_5678,
            delay: 65_536,
        };
        let expected = [
            RtcpItem::Time { ssrc: 1, ntp: 0x1234_5678, is_sender: true },
            RtcpItem::Report(report),
            RtcpItem::Bye(1),
        ];
        assert_eq!(items(&data), (true, expected.to_vec()));
        assert!(is_rtcp(&data));
        // Encrypted RTCP is longer than its packets; so is one that is cut.
        assert_eq!(items(&[&data[..], &[0; 14]].concat()), (false, Vec::new()));
        assert_eq!(items(&data[..40]), (false, Vec::new()));
    }

    #[test]
    fn extended_reports_are_read_as_the_phones_write_them() {
        let mut data = words(&[0x80cf_0011, 7, 0x0400_0002, 0x0000_1111, 0x2222_0000, 0x0500_0003, 8, 3, 4]);
        data.extend(words(&[0x0700_0008, 9, 0x0d1a_8000, 0x0064_03e8, 0x0032_0014]));
        data.extend([0xec, 0xc4, 127, 16, 80, 127, 41, 127, 0xb0, 0, 0, 40, 0, 60, 0, 120]);
        let (whole, found) = items(&data);
        assert!(whole);
        assert_eq!(found[0], RtcpItem::Time { ssrc: 7, ntp: 0x1111_2222, is_sender: false });
        assert_eq!(found[1], RtcpItem::Answer { ssrc: 8, last: 3, delay: 4 });
        let RtcpItem::Voip(of, m) = found[2] else { panic!("{found:?}") };
        assert_eq!((of, m.loss_rate, m.discard_rate, m.burst_density), (9, 13.0 / 256.0, 26.0 / 256.0, 0.5));
        assert_eq!((m.burst_ms, m.gap_ms, m.round_trip_ms, m.end_system_delay_ms), (100, 1000, 50, 20));
        assert_eq!((m.signal_level_dbm, m.noise_level_dbm), (Some(-20), Some(-60)));
        assert_eq!((m.r_factor, m.mos_lq, m.mos_cq), (Some(80), Some(4.1), None));
        assert_eq!((m.buffer_ms, m.buffer_max_ms, m.buffer_limit_ms), (40, 60, 120));
    }

    #[test]
    fn lists_of_losses_statistics_and_names_are_read() {
        // 20 packets from 100 on: 4 received, 3 lost, then 13 as bits, of which the second is lost.
        let mut data = words(&[0x80cf_0010, 7, 0x0100_0004, 9, 0x0064_0078]);
        data.extend([0x40, 4, 0, 3, 0b1101_1111, 0xff, 0, 0]);
        data.extend(words(&[0x06e0_0009, 9, 0x0064_0078, 4, 1, 10, 30, 20, 5, 0]));
        // Two sources with the same name, and another item before the second one.
        data.extend(words(&[0x82ca_0007, 7]));
        data.extend([1, 3, b'a', b'@', b'b', 0, 0, 0]);
        data.extend(words(&[8]));
        data.extend([2, 1, b'n', 1, 3, b'a', b'@', b'b', 0, 0, 0, 0]);
        let (whole, found) = items(&data);
        assert!(whole, "{}", data.len());
        let losses = ReportedLosses { packets: 20, lost: 4, longest_run: 3 };
        let summary = StatisticsSummary { lost: Some(4), duplicates: Some(1), jitter: Some([10, 20, 30]) };
        assert_eq!(found[..2], [RtcpItem::Losses(9, losses), RtcpItem::Statistics(9, summary)]);
        let [RtcpItem::Name(7, one), RtcpItem::Name(8, two)] = found[2..] else { panic!("{found:?}") };
        assert_eq!(one, two);
        // Thinned lists do not show runs.
        data[9] = 1;
        assert_eq!(items(&data).1.len(), 3);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut data in prop::collection::vec(any::<u8>(), 0..200), kind in 200u8..210) {
            if let [flags, k, _, length, ..] = &mut data[..] {
                (*flags, *k) = (0x81, kind);
                *length &= 31;
            }
            read(&data, data.len() as u32, |_| ());
        }
    }
}
