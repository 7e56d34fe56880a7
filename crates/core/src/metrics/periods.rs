//! Mean periods, rates and user throughput (metrics §9).

use crate::session::Session;
use serde::{Deserialize, Serialize};

/// A mean period and the resulting rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MeanRate {
    /// Mean time between packets, in ns.
    pub period_ns: f64,
    /// Packets per second.
    pub rate_pps: f64,
    /// Payload bits per second; `None` if the payload is unknown.
    pub throughput_bps: Option<f64>,
}

/// Mean time between packets and the resulting rates: as requested, as sent, and as received.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MeanPeriods {
    /// Requested period and rate; `None` if the header of a log has no valid period.
    pub target: Option<MeanRate>,
    /// Period and rate at which packets were sent, from the send times of the lowest and the highest accepted sequence
    /// number. Loss does not bias them.
    pub tx: Option<MeanRate>,
    /// Period and rate at which packets were received, from the number of accepted packets and the times of the first
    /// and the last arrival. Loss lowers the rate.
    pub rx: Option<MeanRate>,
}

impl MeanRate {
    /// Returns the rate of packets of `payload` bytes every `period_ns`.
    pub fn new(period_ns: f64, payload: Option<u16>) -> MeanRate {
        let rate_pps = 1e9 / period_ns;
        MeanRate { period_ns, rate_pps, throughput_bps: payload.map(|l| f64::from(l) * 8.0 * rate_pps) }
    }
}

impl MeanPeriods {
    /// Returns the requested period and rate only, as known before anything was sent.
    pub fn target_only(session: &Session) -> MeanPeriods {
        let target = session.period().map(|p| MeanRate::new(p.0 as f64, session.payload()));
        MeanPeriods { target, tx: None, rx: None }
    }
}

use super::classify::AcceptedPacket;
use super::one_pass::{Merge, OnePass};
use super::series::Series;

/// The first and last accepted packets by sequence number and by arrival, which determine the mean periods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PacketExtent {
    n: u64,
    /// Lowest accepted sequence number, with its send time.
    lowest: Option<(u32, i64)>,
    /// Highest accepted sequence number, with its send time.
    highest: Option<(u32, i64)>,
    first_arrival: i64,
    last_arrival: i64,
}

impl PacketExtent {
    /// Returns the extent of a complete stream.
    pub fn of(series: &Series<'_>) -> PacketExtent {
        let Some(last) = series.len().checked_sub(1) else { return PacketExtent::default() };
        let number_and_time = |k: usize| Some((series.get(k).seq, series.get(k).sent));
        let ends = [series.arrived(0), series.arrived(last)];
        PacketExtent {
            n: series.len() as u64,
            lowest: number_and_time(0),
            highest: number_and_time(last),
            first_arrival: ends[0],
            last_arrival: ends[1],
        }
    }

    /// Adds the next accepted packets: `length` packets with consecutive sequence numbers, of which `first` and `last`
    /// are given.
    pub(crate) fn push_run(&mut self, length: usize, first: &AcceptedPacket, last: &AcceptedPacket) {
        self.push(first);
        if length > 1 {
            self.push(last);
            self.n += length as u64 - 2;
        }
    }

    /// Returns true if this can be the extent of `n` packets numbered below `packets`.
    pub(crate) fn is_possible(&self, n: u64, packets: u32) -> bool {
        let numbers = match (self.lowest, self.highest) {
            (Some((low, _)), Some((high, _))) => n > 0 && low <= high && high < packets,
            (low, high) => n == 0 && low.is_none() && high.is_none(),
        };
        self.n == n && numbers
    }

    /// Adds the packets that `whole` contains in addition to its earlier state `lead`.
    pub(crate) fn join(&mut self, whole: PacketExtent, lead: &PacketExtent) {
        let n = whole.n.saturating_sub(lead.n);
        if n > 0 {
            let before = self.n;
            self.merge(whole);
            self.n = before + n;
        }
    }

    /// Returns the mean transmit and receive period, in ns; `None` if there are fewer than two packets or sequence
    /// numbers, or if the times do not advance.
    pub fn periods(&self) -> (Option<f64>, Option<f64>) {
        let over = |time: i128, steps: u64| (steps > 0 && time > 0).then(|| time as f64 / steps as f64);
        let tx = match (self.lowest, self.highest) {
            (Some((a, from)), Some((b, to))) => over(i128::from(to) - i128::from(from), (b - a).into()),
            _ => None,
        };
        let rx =
            over(i128::from(self.last_arrival) - i128::from(self.first_arrival), self.n.saturating_sub(1));
        (tx, rx)
    }
}

impl OnePass for PacketExtent {
    type Output = (Option<f64>, Option<f64>);

    #[inline]
    fn push(&mut self, packet: &AcceptedPacket) {
        if self.n == 0 {
            self.first_arrival = packet.arrived();
        }
        self.n += 1;
        self.last_arrival = packet.arrived();
        let here = (packet.seq, packet.sent);
        if self.lowest.is_none_or(|l| here.0 < l.0) {
            self.lowest = Some(here);
        }
        if self.highest.is_none_or(|h| here.0 > h.0) {
            self.highest = Some(here);
        }
    }

    fn output(&self) -> (Option<f64>, Option<f64>) {
        self.periods()
    }
}

impl Merge for PacketExtent {
    fn merge(&mut self, next: PacketExtent) {
        if next.n == 0 {
            return;
        }
        if self.n == 0 {
            *self = next;
            return;
        }
        self.n += next.n;
        self.last_arrival = next.last_arrival;
        self.lowest = self.lowest.min(next.lowest);
        self.highest = self.highest.max(next.highest);
    }
}

impl MeanPeriods {
    /// Returns the mean time between packets, in ns: the requested one, or the transmit period if none was requested.
    /// `None` if both are unknown.
    pub fn mean(&self) -> Option<f64> {
        self.target.or(self.tx).map(|rate| rate.period_ns)
    }

    /// Computes the requested, transmitted and received periods and rates.
    pub fn new(session: &Session, extent: &PacketExtent) -> MeanPeriods {
        let (tx, rx) = extent.periods();
        let rate = |period| MeanRate::new(period, session.payload());
        MeanPeriods { tx: tx.map(rate), rx: rx.map(rate), ..MeanPeriods::target_only(session) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::series::Samples;
    use super::*;
    use crate::spec::{Direction, Schedule, TestSpec, Transport};
    use crate::time::Span;

    #[test]
    fn loss_lengthens_only_the_receive_period() {
        // metrics §9, V13.
        let rows = [(0, 0), (1, 20_000_000), (2, 40_050_000), (4, 80_010_000), (5, 100_000_000)];
        let mut extent = PacketExtent::default();
        for (k, (seq, sent)) in (0..).zip(rows) {
            extent.push(&AcceptedPacket { seq, sent, delay: 1_000_000 + 1000 * k });
        }
        let p = Span::millis(20);
        let spec = TestSpec::new(Direction::Up, Transport::Udp, 6, 80, p, Schedule::Periodic).unwrap();
        let periods = MeanPeriods::new(&Session::new(spec), &extent);
        let (tx, rx) = (periods.tx.unwrap(), periods.rx.unwrap());
        assert_eq!((tx.period_ns, tx.rate_pps, tx.throughput_bps), (20e6, 50.0, Some(32_000.0)));
        assert_eq!(rx.period_ns, 25_001_000.0);
        assert!((rx.rate_pps - 39.998_400_064).abs() < 1e-9);
    }

    #[test]
    fn the_lowest_and_the_highest_number_count_whatever_arrives_first() {
        let of = |rows: &[(u32, i64, i64)]| {
            let mut extent = PacketExtent::default();
            rows.iter().for_each(|&(seq, sent, delay)| extent.push(&AcceptedPacket { seq, sent, delay }));
            extent
        };
        let rows = [(2, 40, 5), (0, 0, 60), (1, 20, 45), (4, 84, 3), (4, 99, 9), (0, 7, 101)];
        let whole = of(&rows);
        // Sent from 0 to 84 over 4 numbers, received from 45 to 108 over 6 packets.
        assert_eq!(whole.output(), (Some(21.0), Some(12.6)));
        for cut in 0..=rows.len() {
            let mut halves = of(&rows[..cut]);
            halves.merge(of(&rows[cut..]));
            assert_eq!(halves.n, whole.n);
            assert_eq!(halves.output().1, whole.output().1, "{cut}");
        }
        let mut halves = of(&rows[..2]);
        halves.merge(of(&rows[2..4]));
        assert_eq!(halves, of(&rows[..4]));
        assert_eq!(of(&[(0, 10, 5), (1, 10, 5)]).output(), (None, None), "the times do not advance");
        assert_eq!(of(&[(0, 10, 5), (0, 30, 5)]).output(), (None, Some(20.0)), "one number");
    }

    #[test]
    fn one_packet_has_no_period() {
        let mut extent = PacketExtent::default();
        assert_eq!(extent.periods(), (None, None));
        extent.push(&AcceptedPacket { seq: 3, sent: 5, delay: 1 });
        assert_eq!(extent.periods(), (None, None));
    }

    #[test]
    fn later_packets_are_added_to_those_before() {
        let of = |rows: std::ops::Range<u32>| {
            let mut extent = PacketExtent::default();
            rows.for_each(|seq| {
                extent.push(&AcceptedPacket { seq, sent: i64::from(seq) * 20, delay: 5 + i64::from(seq) });
            });
            extent
        };
        let mut mine = of(0..10);
        mine.join(of(7..30), &of(7..10));
        assert_eq!(mine, of(0..30));
        mine.join(of(40..50), &of(40..50));
        assert_eq!(mine, of(0..30));
    }

    #[test]
    fn a_state_has_nothing_beyond_its_packets() {
        let of = |n, lowest, highest| PacketExtent { n, lowest, highest, ..PacketExtent::default() };
        let at = |seq| Some((seq, 0));
        assert!(of(2, at(3), at(9)).is_possible(2, 10) && of(1, at(9), at(9)).is_possible(1, 10));
        assert!(of(0, None, None).is_possible(0, 0));
        for (extent, n) in [
            (of(3, at(3), at(9)), 2),
            (of(0, at(3), at(9)), 0),
            (of(2, at(9), at(3)), 2),
            (of(2, at(3), at(10)), 2),
            (of(2, None, None), 2),
            (of(0, at(3), None), 0),
            (of(0, None, at(3)), 0),
        ] {
            assert!(!extent.is_possible(n, 10), "{extent:?}");
        }
    }

    #[test]
    fn of_a_series_they_are_those_of_its_packets() {
        let rows = [(3, 40, 5), (4, 60, 9), (5, 90, 5)];
        let mut samples = Samples::default();
        let mut extent = PacketExtent::default();
        for (seq, sent, delay) in rows {
            let packet = AcceptedPacket { seq, sent, delay };
            samples.push(packet);
            extent.push(&packet);
        }
        assert_eq!(PacketExtent::of(&Series::new(&samples)), extent);
        // 50 from number 3 to number 5, and the same from the first arrival to the third.
        assert_eq!(extent.periods(), (Some(25.0), Some(25.0)));
    }

    #[test]
    fn the_period_is_the_one_requested_or_else_the_one_sent() {
        let spec =
            |ms| TestSpec::new(Direction::Up, Transport::Udp, 6, 80, Span::millis(ms), Schedule::Periodic);
        let session = Session::new(spec(20).unwrap());
        let target = MeanPeriods::target_only(&session);
        assert_eq!(target.target, Some(MeanRate::new(20e6, session.payload())));
        assert_eq!((target.tx, target.rx, target.mean()), (None, None, Some(20e6)));
        let sent = MeanPeriods { tx: Some(MeanRate::new(30e6, None)), ..MeanPeriods::default() };
        assert_eq!(
            (sent.mean(), MeanPeriods { target: target.target, ..sent }.mean()),
            (Some(30e6), Some(20e6))
        );
        assert_eq!(MeanPeriods::default().mean(), None);
    }
}
