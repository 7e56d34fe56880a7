//! [`LoadResult`]: bytes of a load stream that arrived, over time.

use jitlat_core::load::{ArrivedBytes, LoadStream, TestLoad, TestPhase};
use jitlat_core::{Direction, Transport, WallTime};

/// Result of one stream of load.
#[derive(Clone, Debug)]
pub struct LoadResult {
    /// Description of the load, as given by the user.
    pub load: String,
    /// Direction of the stream.
    pub direction: Direction,
    /// Transport protocol.
    pub transport: Transport,
    /// Requested payload rate in bit/s; `None`: as fast as TCP can send.
    pub offered_bps: Option<f64>,
    /// Rate in bit/s above which this host or the server does not send; `None`: unlimited.
    pub target_bps: Option<f64>,
    /// Bytes that arrived, on the clock of this host; `None` if unknown.
    pub arrived: Option<ArrivedBytes>,
    /// Packets sent.
    pub sent: u64,
    /// Share of packets lost, 0…1; `None` if unknown.
    pub loss: Option<f64>,
    /// Reason why the stream ended before the test did; `None` if it did not.
    pub failure: Option<String>,
}

/// A stream filled the path if less than this share of its rate arrived: pacing and the edges of intervals cost less.
const FILLED: f64 = 0.95;
/// Share of lost packets from which on a UDP stream filled the path, although most of it arrived. The end of a TCP stream
/// that is stopped is not lost on the path.
const FILLED_LOSS: f64 = 0.01;

impl LoadResult {
    /// Returns true if it is known that nothing arrived.
    pub fn is_nothing(&self) -> bool {
        self.arrived.as_ref().is_some_and(ArrivedBytes::is_empty)
    }

    /// Describes the stream during a test that lasted from `from` to `to`, on the clock of this host.
    fn during(&self, from: WallTime, to: WallTime) -> LoadStream {
        let received_bps = self.arrived.as_ref().map(|arrived| arrived.rate(from, to).round());
        let filled = received_bps.map(|received| {
            let slower = self.target_bps.is_none_or(|target| received < FILLED * target);
            let loss = self.loss.filter(|_| self.transport == Transport::Udp);
            slower || loss.is_some_and(|loss| loss >= FILLED_LOSS)
        });
        LoadStream {
            load: self.load.clone(),
            direction: self.direction,
            offered_bps: self.offered_bps,
            received_bps,
            filled,
            sent: self.sent,
            loss: self.loss,
            failure: self.failure.clone(),
        }
    }
}

/// Describes the load of a test that lasted from `from` to `to`, on the clock of this host.
pub(super) fn during(results: &[LoadResult], from: WallTime, to: WallTime) -> TestLoad {
    let of_direction = |direction| {
        let mut all = ArrivedBytes::default();
        let of = results.iter().filter(|result| result.direction == direction);
        of.filter_map(|result| result.arrived.as_ref()).for_each(|arrived| all.add_all(arrived));
        all.throughput(direction, to)
    };
    TestLoad {
        phase: TestPhase::Loaded,
        streams: results.iter().map(|result| result.during(from, to)).collect(),
        throughput: Direction::BOTH.into_iter().filter_map(of_direction).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn stream(direction: Direction, target_bps: Option<f64>, received_mbit: u64) -> LoadResult {
        let mut arrived = ArrivedBytes::default();
        let at = |k: i64| WallTime(100 * SECOND + k * SECOND / 100);
        (0..1000).for_each(|k| arrived.add(at(k), received_mbit * 1250));
        LoadResult {
            load: "tcp".into(),
            direction,
            transport: Transport::Tcp,
            offered_bps: None,
            target_bps,
            arrived: Some(arrived),
            sent: 1000,
            loss: None,
            failure: None,
        }
    }

    #[test]
    fn a_path_is_full_if_less_arrives_than_was_to_be_sent() {
        let [up, down] = Direction::BOTH;
        let streams = [
            stream(up, Some(100e6), 20),
            stream(up, Some(20e6), 20),
            stream(down, None, 5),
            LoadResult { loss: Some(0.2), transport: Transport::Udp, ..stream(down, Some(5e6), 5) },
            LoadResult { arrived: None, ..stream(down, Some(5e6), 5) },
        ];
        let load = during(&streams, WallTime(102 * SECOND), WallTime(109 * SECOND - 1));
        let filled: Vec<Option<bool>> = load.streams.iter().map(|s| s.filled).collect();
        assert_eq!(filled, [Some(true), Some(false), Some(true), Some(true), None]);
        assert_eq!(
            load.streams.iter().map(|s| s.received_bps).collect::<Vec<_>>(),
            [Some(20e6), Some(20e6), Some(5e6), Some(5e6), None]
        );
        assert_eq!((load.received_bps(Some(up)), load.received_bps(None)), (Some(40e6), Some(50e6)));
        let [of_up, of_down] = &load.throughput[..] else { panic!("{load:#?}") };
        assert_eq!((of_up.direction, of_up.bps[10], of_down.bps[10]), (up, 40e6, 10e6));
        assert_eq!((of_up.start, of_up.bps.len()), (WallTime(100 * SECOND), 90));
    }
}
