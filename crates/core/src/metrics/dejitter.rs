//! De-jitter buffers and voice quality (metrics §18).

use serde::{Deserialize, Serialize};

/// Loss that a play-out buffer would cause on this path, and the resulting voice quality.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Dejitter {
    /// Assumed codec.
    pub codec: String,
    /// One point per buffer size.
    pub curve: Vec<DejitterPoint>,
    /// Size of the smallest buffer that achieves the best MOS of the curve, in ms.
    pub best_buffer_ms: Option<f64>,
    /// Size of the smallest buffer of the curve with at most 1 % total loss, in ms; `None` if no buffer of the curve
    /// achieves that.
    pub smallest_buffer_for_1pct_loss_ms: Option<f64>,
    /// Smallest buffer size with which at most 1 % of packets are late, in ns; not limited to the sizes of the curve.
    pub buffer_for_1pct_late_ns: Option<i64>,
    /// Number of packets that would be lost with an adaptive buffer (Ramjee's algorithm 1), including packets that the
    /// network lost.
    pub adaptive_total_loss: Option<u64>,
    /// Mean play-out offset of the adaptive buffer above the minimum delay, in ns.
    pub adaptive_mean_buffer_ns: Option<f64>,
    /// Number of packets that would be lost with a fixed buffer of the same mean delay, including packets that the
    /// network lost.
    pub fixed_same_delay_total_loss: Option<u64>,
    /// Source of the path delay to which the buffer is added.
    pub delay_basis: DelayBasis,
    /// True if the user declared the codec's impairment figures.
    pub user_declared_codec: bool,
}

/// Source of the absolute delay in the E-model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DelayBasis {
    /// Raw one-way delay, which is correct only if the clocks agree.
    #[default]
    Raw,
    /// One-way delay, corrected by the clock estimate.
    Corrected,
    /// Half of the control channel's round trip.
    HalfRtt,
}

/// Figures for one buffer size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct DejitterPoint {
    /// Buffer size, in ms.
    pub buffer_ms: f64,
    /// Number of packets that arrived too late.
    pub late: u64,
    /// Number of packets that were late or lost.
    pub total_loss: u64,
    /// Burst ratio of the packets that the decoder misses.
    pub burst_ratio: Option<f64>,
    /// Mouth-to-ear delay, in ms.
    pub ta_ms: f64,
    /// Transmission rating R of the E-model.
    #[serde(rename = "R")]
    pub r: f64,
    /// Mean opinion score, from 1 to 4.5.
    #[serde(rename = "MOS")]
    pub mos: f64,
    /// True if loss is bursty and above 2 %, which is outside the range for which the model was validated.
    pub extrapolated: bool,
}

/// Codec parameters for the E-model (ITU-T G.113).
#[derive(Clone, Debug, PartialEq)]
pub struct VoiceCodec {
    /// Name of the codec.
    pub name: String,
    /// Equipment impairment Ie.
    pub ie: f64,
    /// Packet-loss robustness factor Bpl.
    pub bpl: f64,
    /// Packetisation and look-ahead, in ms.
    pub delay_ms: f64,
    /// True if the user gave the figures.
    pub user_declared: bool,
}

/// Default buffer sizes of the curve, in ms.
pub const DEFAULT_BUFFERS_MS: [i64; 19] =
    [0, 1, 2, 5, 10, 20, 30, 40, 60, 80, 100, 150, 200, 300, 500, 1000, 2000, 4000, 6000];

/// Codecs with published figures: name, Ie, Bpl, delay in ms.
const CODECS: [(&str, f64, f64, f64); 5] = [
    ("G.711", 0.0, 4.3, 20.0),
    ("G.711+PLC", 0.0, 25.1, 20.0),
    ("G.729A+VAD", 11.0, 19.0, 25.0),
    ("G.723.1-6.3+VAD", 15.0, 16.1, 37.5),
    ("GSM-EFR", 5.0, 10.0, 20.0),
];

impl VoiceCodec {
    /// Returns the codec with this name, in upper or lower case, if its figures are published; otherwise `None`.
    pub fn named(name: &str) -> Option<VoiceCodec> {
        let (name, ie, bpl, delay_ms) = *CODECS.iter().find(|c| c.0.eq_ignore_ascii_case(name))?;
        Some(VoiceCodec { name: name.to_owned(), ie, bpl, delay_ms, user_declared: false })
    }

    /// Iterates over the names that [`VoiceCodec::named`] accepts.
    pub fn names() -> impl Iterator<Item = &'static str> {
        CODECS.iter().map(|c| c.0)
    }
}

impl Default for VoiceCodec {
    /// G.711 with packet-loss concealment, 20 ms packets.
    fn default() -> VoiceCodec {
        VoiceCodec { name: "G.711+PLC".to_owned(), ie: 0.0, bpl: 25.1, delay_ms: 20.0, user_declared: false }
    }
}

use super::clock::ClockEstimate;
use super::emodel::{self, DelayModel};
use super::loss::burst_ratio;
use super::series::Series;
use crate::distribution::LogHistogram;
use crate::distribution::percentile::Percent;
use crate::distribution::sample::Sample;
use crate::time::Span;

/// Assumptions about the receiver.
#[derive(Clone, Copy, Debug)]
pub struct ReceiverModel<'a> {
    /// Assumed codec.
    pub codec: &'a VoiceCodec,
    /// Model of the effect of delay on quality.
    pub model: DelayModel,
    /// Buffer sizes of the curve.
    pub buffers: &'a [Span],
    /// Packets per talk spurt, for the adaptive buffer.
    pub spurt: u32,
}

/// Computes the de-jitter figures of `series`, which had `sent` packets; `sample` contains the sorted delays. `None` if
/// nothing was received.
pub fn dejitter(
    series: &Series<'_>,
    sample: &Sample,
    sent: u64,
    reference: (f64, DelayBasis),
    receiver: &ReceiverModel<'_>,
) -> Option<Dejitter> {
    let min = sample.min()?;
    let lost = sent.saturating_sub(series.len() as u64);
    let starts = run_starts(series, sent, min, &receiver.sorted());
    let losses = |k: usize, buffer| {
        let late = late(sample, min, buffer);
        (late, burst_ratio(lost + late, starts[k], sent))
    };
    let adaptive = adaptive(series, min, receiver.spurt, ALPHA);
    let same_delay = adaptive.mean_offset.map(|b| Span(b.min(i64::MAX as f64) as i64));
    Some(Dejitter {
        buffer_for_1pct_late_ns: on_time_share(sample, min, 99, 100),
        adaptive_total_loss: Some(lost + adaptive.late),
        adaptive_mean_buffer_ns: adaptive.mean_offset,
        fixed_same_delay_total_loss: same_delay.map(|b| lost + late(sample, min, b)),
        ..receiver.fixed(sent, lost, reference, losses)
    })
}

/// Computes the figures from a histogram of delays whose smallest is `min`. The numbers of late packets are as precise
/// as the histogram; burst ratios and the adaptive buffer are unknown.
pub fn approximate(
    delays: &LogHistogram,
    min: i64,
    sent: u64,
    reference: (f64, DelayBasis),
    receiver: &ReceiverModel<'_>,
) -> Dejitter {
    let lost = sent.saturating_sub(delays.len());
    let quantiles = delays.quantiles();
    let in_time = |buffer: Span| quantiles.count_at_most(min.saturating_add(buffer.0));
    let losses = |_, buffer: Span| (delays.len() - in_time(buffer), None);
    Dejitter {
        buffer_for_1pct_late_ns: quantiles.edf(Percent(99_000)).map(|x| x.saturating_sub(min)),
        ..receiver.fixed(sent, lost, reference, losses)
    }
}

impl ReceiverModel<'_> {
    /// Returns the buffers in ascending order, without duplicates.
    fn sorted(&self) -> Vec<Span> {
        let mut buffers = self.buffers.to_vec();
        buffers.sort_unstable();
        buffers.dedup();
        buffers
    }

    /// Computes the curve of fixed buffers for a stream of `sent` packets, of which the network lost `lost`.
    /// `losses` returns the number of late packets of the k-th buffer and the burst ratio of the packets that
    /// the decoder misses.
    fn fixed(
        &self,
        sent: u64,
        lost: u64,
        (reference, delay_basis): (f64, DelayBasis),
        losses: impl Fn(usize, Span) -> (u64, Option<f64>),
    ) -> Dejitter {
        let point = |(k, buffer): (usize, &Span)| {
            let (late, burst_ratio) = losses(k, *buffer);
            let total_loss = lost + late;
            let buffer_ms = buffer.0 as f64 / 1e6;
            let ta_ms = reference.max(0.0) / 1e6 + self.codec.delay_ms + buffer_ms;
            let ratio = total_loss as f64 / sent as f64;
            let r = self.model.base()
                - self.model.impairment(ta_ms)
                - emodel::equipment(self.codec.ie, self.codec.bpl, ratio, burst_ratio.unwrap_or(1.0));
            let extrapolated = ratio > 0.02 && burst_ratio.is_some_and(|b| b > 1.0);
            DejitterPoint {
                buffer_ms,
                late,
                total_loss,
                burst_ratio,
                ta_ms,
                r,
                mos: emodel::mos(r),
                extrapolated,
            }
        };
        let curve: Vec<DejitterPoint> = self.sorted().iter().enumerate().map(point).collect();
        let best = curve.iter().fold(None, |best: Option<&DejitterPoint>, p| match best {
            Some(b) if b.mos >= p.mos => Some(b),
            _ => Some(p),
        });
        let one_percent = curve.iter().find(|p| p.total_loss as f64 <= 0.01 * sent as f64);
        Dejitter {
            codec: self.codec.describe(),
            best_buffer_ms: best.map(|p| p.buffer_ms),
            smallest_buffer_for_1pct_loss_ms: one_percent.map(|p| p.buffer_ms),
            buffer_for_1pct_late_ns: None,
            adaptive_total_loss: None,
            adaptive_mean_buffer_ns: None,
            fixed_same_delay_total_loss: None,
            delay_basis,
            user_declared_codec: self.codec.user_declared,
            curve,
        }
    }
}

/// Returns the delay before any buffer, in ns, and its source: corrected if the clock offset is known, otherwise half
/// of the control channel's round trip, otherwise raw.
pub fn reference_delay(clock: &ClockEstimate, min: Option<i64>) -> Option<(f64, DelayBasis)> {
    let min = min?;
    Some(match (clock.correction_ns, clock.min_rtt_ns) {
        (Some(correction), _) => (min.saturating_sub(correction) as f64, DelayBasis::Corrected),
        (None, Some(rtt)) => (rtt as f64 / 2.0, DelayBasis::HalfRtt),
        (None, None) => (min as f64, DelayBasis::Raw),
    })
}

impl VoiceCodec {
    fn describe(&self) -> String {
        let VoiceCodec { name, ie, bpl, delay_ms, .. } = self;
        format!("{name} Ie={ie} Bpl={bpl} codec_delay_ms={delay_ms}")
    }
}

/// Returns the number of packets whose delay exceeds the smallest by more than `buffer`.
fn late(sample: &Sample, min: i64, buffer: Span) -> u64 {
    (sample.len() - sample.count_at_most(min.saturating_add(buffer.0))) as u64
}

/// Returns the smallest buffer with at least `part`/`whole` of the packets on time, in ns; `None` without packets.
fn on_time_share(sample: &Sample, min: i64, part: usize, whole: usize) -> Option<i64> {
    let on_time = (sample.len() as u128 * part as u128).div_ceil(whole as u128) as usize;
    Some(sample.at(on_time.max(1) - 1)?.saturating_sub(min))
}

/// Returns the number of runs of missing packets (lost or late) for each buffer, ascending, in one pass. A late packet
/// is missing for the smallest buffers, a lost one for all. A missing packet begins a run for each buffer with which
/// the previous packet was in time.
fn run_starts(series: &Series<'_>, sent: u64, min: i64, buffers: &[Span]) -> Vec<u64> {
    let all = buffers.len();
    let mut change = vec![0i64; all + 1];
    let mut begin = |before: usize, now: usize| {
        if now > before {
            change[before] += 1;
            change[now] -= 1;
        }
    };
    let (mut before, mut next) = (0, 0u64);
    // Range of waiting times that are late for exactly the same buffers as the previous packet's; nearly all packets
    // are in this range.
    let (mut least, mut most) = (i64::MAX, i64::MIN);
    series.iter().for_each(|packet| {
        let seq = u64::from(packet.seq);
        let above = packet.delay.saturating_sub(min);
        if seq == next && (least..=most).contains(&above) {
            next += 1;
            return;
        }
        if seq > next {
            begin(before, all);
            before = all;
        }
        next = seq + 1;
        let now = buffers.partition_point(|b| b.0 < above);
        begin(before, now);
        before = now;
        least = now.checked_sub(1).map_or(i64::MIN, |k| buffers[k].0.saturating_add(1));
        most = buffers.get(now).map_or(i64::MAX, |b| b.0);
    });
    if sent > next {
        begin(before, all);
    }
    let mut sum = 0;
    change[..all]
        .iter()
        .map(|c| {
            sum += c;
            sum as u64
        })
        .collect()
}

/// Smoothing constant of Ramjee's algorithm.
const ALPHA: f64 = 0.998_002;

struct Adaptive {
    late: u64,
    /// Mean play-out offset above the smallest delay over all packets, in ns; `None` without packets.
    mean_offset: Option<f64>,
}

/// Simulates the adaptive buffer of Ramjee et al., algorithm 1: running means of delay and of its deviation. The
/// play-out offset d + 4v changes only at talk-spurt boundaries. Delays are relative to the smallest.
fn adaptive(series: &Series<'_>, min: i64, spurt: u32, alpha: f64) -> Adaptive {
    let spurt = u64::from(spurt.max(1));
    // The estimates start with the first packet's delay.
    let first = if series.is_empty() { 0.0 } else { series.get(0).delay.saturating_sub(min) as f64 };
    let (mut d, mut v, mut offset, mut late, mut sum) = (first, 0.0, first, 0, 0.0);
    // Sequence number at which the next spurt begins. A run of loss may skip several spurts, which does not affect the
    // estimate.
    let mut spurt_end = 0;
    series.iter().for_each(|packet| {
        let seq = u64::from(packet.seq);
        let x = packet.delay.saturating_sub(min) as f64;
        if seq >= spurt_end {
            offset = d + 4.0 * v;
            spurt_end = (seq / spurt + 1) * spurt;
        }
        late += u64::from(x > offset);
        sum += offset;
        d = alpha * d + (1.0 - alpha) * x;
        v = alpha * v + (1.0 - alpha) * (d - x).abs();
    });
    Adaptive { late, mean_offset: (!series.is_empty()).then(|| sum / series.len() as f64) }
}

impl Dejitter {
    /// Returns the best mean opinion score over the buffer sizes of the curve; `None` if the curve is empty.
    pub fn best_mos(&self) -> Option<f64> {
        self.curve.iter().map(|p| p.mos).max_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::super::classify::AcceptedPacket;
    use super::super::series::Samples;
    use super::*;

    const MS: i64 = 1_000_000;

    fn stream() -> Samples {
        // metrics §18, V26: delays in ms, packet 6 lost.
        let delays = [30, 31, 30, 55, 40, 30, -1, 33, 90, 70, 50, 30];
        let mut samples = Samples::default();
        for (seq, delay) in (0..).zip(delays).filter(|d| d.1 >= 0) {
            samples.push(AcceptedPacket { seq, sent: 0, delay: delay * MS });
        }
        samples
    }

    #[test]
    fn fixed_buffers() {
        let samples = stream();
        let series = Series::new(&samples);
        let sample = Sample::new(samples.delay.iter().copied());
        let codec = VoiceCodec { delay_ms: 0.0, ..VoiceCodec::default() };
        let buffers = [0, 1, 5, 10, 20, 25, 40, 60, 100].map(Span::millis);
        let receiver = ReceiverModel { codec: &codec, model: DelayModel::Idd, buffers: &buffers, spurt: 50 };
        let d = dejitter(&series, &sample, 12, (30e6, DelayBasis::Raw), &receiver).unwrap();
        let expected = [
            (8, 7, 24.184381),
            (7, 6, 8.074552),
            (6, 5, 29.950999),
            (5, 4, 33.913929),
            (4, 3, 39.007188),
            (3, 2, 43.012162),
            (2, 1, 55.290982),
            (1, 0, 69.521037),
            (1, 0, 69.508849),
        ];
        for (p, (total, late, r)) in d.curve.iter().zip(expected) {
            assert_eq!((p.total_loss, p.late), (total, late), "{}", p.buffer_ms);
            assert!((p.r - r).abs() < 1e-6, "{} {}", p.r, r);
        }
        assert_eq!((d.best_buffer_ms, d.smallest_buffer_for_1pct_loss_ms), (Some(60.0), None));
        assert_eq!(d.buffer_for_1pct_late_ns, Some(60 * MS));
    }

    #[test]
    fn adaptive_buffer() {
        let samples = stream();
        let a = adaptive(&Series::new(&samples), 30 * MS, 4, 0.9);
        // Missing packets 0 1 0 1 0 0 1 0 1 1 1 0, of which the network lost packet 6; offsets 30, 41.8726
        // and 43.0085058 in the three spurts.
        assert_eq!(a.late, 5);
        let sum = 4.0 * 30.0 + 3.0 * 41.8726 + 4.0 * 43.0085058;
        assert!((a.mean_offset.unwrap() / 1e6 - (sum / 11.0 - 30.0)).abs() < 1e-4);
    }

    #[test]
    fn nothing_arrived() {
        let samples = Samples::default();
        let codec = VoiceCodec::default();
        let receiver = ReceiverModel { codec: &codec, model: DelayModel::Idd, buffers: &[], spurt: 50 };
        let sample = Sample::new(core::iter::empty());
        let series = Series::new(&samples);
        assert_eq!(dejitter(&series, &sample, 9, (0.0, DelayBasis::Raw), &receiver), None);
    }

    #[test]
    fn what_is_lost_and_what_is_late() {
        let samples = stream();
        let series = Series::new(&samples);
        let sample = Sample::new(samples.delay.iter().copied());
        let codec = VoiceCodec::named("g.711").unwrap();
        assert_eq!((codec.name.as_str(), codec.bpl, VoiceCodec::named("G.7")), ("G.711", 4.3, None));
        // The curve is ascending, regardless of order and repetitions of the buffers.
        let buffers = [60, 0, 20, 60].map(Span::millis);
        let receiver = ReceiverModel { codec: &codec, model: DelayModel::Idd, buffers: &buffers, spurt: 4 };
        let d = dejitter(&series, &sample, 12, (30e6, DelayBasis::Corrected), &receiver).unwrap();
        assert_eq!(d.codec, "G.711 Ie=0 Bpl=4.3 codec_delay_ms=20");
        assert_eq!(
            d.curve.iter().map(|p| (p.buffer_ms, p.late)).collect::<Vec<_>>(),
            [(0.0, 7), (20.0, 3), (60.0, 0)]
        );
        assert_eq!(d.curve.iter().map(|p| p.ta_ms).collect::<Vec<_>>(), [50.0, 70.0, 110.0]);
        let best = d.curve.iter().map(|p| p.mos).fold(0.0, f64::max);
        assert_eq!((d.best_mos(), d.delay_basis), (Some(best), DelayBasis::Corrected));
        let adaptive = adaptive(&series, 30 * MS, 4, ALPHA);
        assert_eq!(d.adaptive_total_loss, Some(1 + adaptive.late));
        assert_eq!(d.adaptive_mean_buffer_ns, adaptive.mean_offset);
        let same = Span(adaptive.mean_offset.unwrap() as i64);
        assert_eq!(d.fixed_same_delay_total_loss, Some(1 + late(&sample, 30 * MS, same)));

        // A histogram gives the same figures, except for bursts and the adaptive buffer.
        let mut delays = LogHistogram::new(crate::distribution::Precision::STREAM);
        samples.delay.iter().for_each(|x| delays.add(*x));
        let a = approximate(&delays, 30 * MS, 12, (30e6, DelayBasis::Corrected), &receiver);
        let counts = |d: &Dejitter| d.curve.iter().map(|p| (p.late, p.total_loss)).collect::<Vec<_>>();
        assert_eq!((counts(&a), a.buffer_for_1pct_late_ns), (counts(&d), d.buffer_for_1pct_late_ns));
        assert!(a.curve.iter().all(|p| p.burst_ratio.is_none() && !p.extrapolated));
        assert_eq!(a.adaptive_total_loss, None);
    }

    #[test]
    fn bursty_loss_above_2_percent_is_beyond_the_model() {
        let codec = VoiceCodec::default();
        let receiver =
            ReceiverModel { codec: &codec, model: DelayModel::Idd, buffers: &[Span(0)], spurt: 50 };
        let of = |lost, ratio| {
            let d = receiver.fixed(100, lost, (0.0, DelayBasis::Raw), |_, _| (0, ratio));
            (d.curve[0].extrapolated, d.smallest_buffer_for_1pct_loss_ms)
        };
        assert_eq!(of(1, Some(2.0)), (false, Some(0.0)));
        assert_eq!(of(2, Some(2.0)), (false, None));
        assert_eq!([Some(2.0), Some(1.0), Some(0.9), None].map(|r| of(3, r).0), [true, false, false, false]);
    }

    #[test]
    fn the_delay_before_any_buffer() {
        let clock =
            |correction_ns, min_rtt_ns| ClockEstimate { correction_ns, min_rtt_ns, ..Default::default() };
        let of = |clock: ClockEstimate| reference_delay(&clock, Some(100));
        assert_eq!(of(clock(Some(30), Some(9))), Some((70.0, DelayBasis::Corrected)));
        assert_eq!(of(clock(None, Some(9))), Some((4.5, DelayBasis::HalfRtt)));
        assert_eq!(of(clock(None, None)), Some((100.0, DelayBasis::Raw)));
        assert_eq!(reference_delay(&clock(Some(30), None), None), None);
    }

    #[test]
    fn runs_of_what_is_missing() {
        let of = |delays: &[i64], sent| {
            let mut samples = Samples::default();
            for (seq, delay) in (0..).zip(delays).filter(|d| *d.1 >= 0) {
                samples.push(AcceptedPacket { seq, sent: 0, delay: *delay });
            }
            run_starts(&Series::new(&samples), sent, 0, &[Span(5), Span(20)])
        };
        assert_eq!(of(&[0, 0, 0], 3), [0, 0]);
        // Losses at the start, in the middle, and at the end.
        assert_eq!(of(&[-1, 0, 0], 3), [1, 1]);
        assert_eq!(of(&[0, -1, 0], 3), [1, 1]);
        assert_eq!(of(&[0, 0], 4), [1, 1]);
        // Late for the small buffer next to a packet lost for both.
        assert_eq!(of(&[0, 10, -1, 0], 4), [1, 1]);
        assert_eq!(of(&[0, 5, 6, 20, 21, 0], 6), [1, 1]);
        assert_eq!(of(&[30, 0, 10], 3), [2, 1]);
    }
}
