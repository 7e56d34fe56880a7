//! A two-way test in the format of irtt's client (`-o FILE.json`, JSON format 1), for programs that read this format,
//! such as flent and dashboards. See `docs/formats/irtt-json.md`.
//!
//! * [`text`] – what irtt's client prints
//!
//! Times are in ns. Unknown values are left out, except statistics that these programs expect in every test, which are
//! 0 without samples.

pub mod text;

use jitlat_core::record::Moment;
use jitlat_core::twoway::{LossSide, processing, round_trip};
use jitlat_core::{PacketRecord, Session, Span};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Version of irtt whose format is written.
const IRTT: &str = "0.9.0";

/// Writes the two-way test `session` with its `records`, in order of arrival.
///
/// # Errors
/// Errors of `out`.
pub fn write(
    out: &mut dyn Write,
    session: &Session,
    records: impl Iterator<Item = PacketRecord>,
) -> io::Result<()> {
    let test = ExportedTest::new(session, records);
    serde_json::to_writer_pretty(&mut *out, &test.document())?;
    out.write_all(b"\n")
}

#[derive(Serialize)]
struct IrttDocument {
    version: VersionEntry,
    config: ConfigEntry,
    stats: StatsEntry,
    round_trips: Vec<RoundTrip>,
}

#[derive(Serialize)]
struct VersionEntry {
    irtt: &'static str,
    protocol: u8,
    json_format: u8,
}

#[derive(Serialize)]
struct ConfigEntry {
    #[serde(skip_serializing_if = "Option::is_none")]
    local_address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remote_address: Option<String>,
    params: ParamsEntry,
    ip_version: &'static str,
}

#[derive(Serialize)]
struct ParamsEntry {
    proto_version: u8,
    duration: i64,
    interval: i64,
    length: u16,
    /// The whole TOS octet, as in irtt.
    dscp: u8,
}

#[derive(Serialize)]
struct StatsEntry {
    #[serde(skip_serializing_if = "Option::is_none")]
    start_time: Option<String>,
    rtt: DurationStats,
    send_delay: DurationStats,
    receive_delay: DurationStats,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_packets_received: Option<u64>,
    bytes_sent: u64,
    bytes_received: u64,
    duplicates: u64,
    late_packets: u64,
    duration: i64,
    packets_sent: u64,
    packets_received: u64,
    packet_loss_percent: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream_loss_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    downstream_loss_percent: Option<f64>,
    duplicate_percent: f64,
    late_packets_percent: f64,
    ipdv_send: DurationStats,
    ipdv_receive: DurationStats,
    ipdv_round_trip: DurationStats,
    server_processing_time: DurationStats,
    send_rate: RateEntry,
    receive_rate: RateEntry,
}

/// Statistics of durations. The standard deviation has the divisor n − 1, and is 0 for a single value.
#[derive(Debug, Default, PartialEq, Serialize)]
struct DurationStats {
    total: i64,
    n: u64,
    min: i64,
    max: i64,
    mean: i64,
    median: i64,
    stddev: i64,
    variance: i64,
}

impl DurationStats {
    fn of(mut values: Vec<i64>) -> DurationStats {
        values.sort_unstable();
        let (Some(min), Some(max)) = (values.first().copied(), values.last().copied()) else {
            return DurationStats::default();
        };
        let n = values.len();
        let total: i128 = values.iter().map(|v| i128::from(*v)).sum();
        let mean = total as f64 / n as f64;
        let squares: f64 = values.iter().map(|v| (*v as f64 - mean).powi(2)).sum();
        let variance = squares / n.saturating_sub(1).max(1) as f64;
        let (upper, lower) = (values[n / 2], values[(n - 1) / 2]);
        DurationStats {
            total: i64::try_from(total).unwrap_or(i64::MAX),
            n: n as u64,
            min,
            max,
            mean: mean as i64,
            median: ((i128::from(lower) + i128::from(upper)) / 2) as i64,
            stddev: variance.sqrt() as i64,
            variance: variance as i64,
        }
    }
}

#[derive(Serialize)]
struct RateEntry {
    bps: u64,
    string: String,
}

impl RateEntry {
    /// Creates the rate of `bytes` bytes in the time `lasted` from the first to the last packet.
    fn new(bytes: u64, lasted: Option<Span>) -> RateEntry {
        let seconds = lasted.filter(|l| l.0 > 0).map(Span::as_seconds);
        let bps = seconds.map_or(0.0, |s| bytes as f64 * 8.0 / s);
        let units = [(1e9, "Gbps"), (1e6, "Mbps"), (1e3, "Kbps")];
        let unit = units.into_iter().find(|(unit, _)| bps >= *unit);
        let string = unit.map_or(format!("{bps:.0} bps"), |(of, name)| format!("{:.1} {name}", bps / of));
        RateEntry { bps: bps as u64, string }
    }
}

#[derive(Clone, Default, Serialize)]
struct RoundTrip {
    seqno: u32,
    /// Loss of the packet: `false`, `true`, `true_up` or `true_down`.
    lost: &'static str,
    timestamps: Timestamps,
    delay: Three,
    ipdv: Three,
}

#[derive(Clone, Default, Serialize)]
struct Timestamps {
    client: ServerStamps,
    server: ServerStamps,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    late: bool,
}

#[derive(Clone, Copy, Default, Serialize)]
struct ServerStamps {
    receive: InstantEntry,
    send: InstantEntry,
}

#[derive(Clone, Copy, Default, Serialize)]
struct InstantEntry {
    #[serde(skip_serializing_if = "Option::is_none")]
    wall: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    monotonic: Option<i64>,
}

/// Statistics of both directions and of the round trip.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Three {
    #[serde(skip_serializing_if = "Option::is_none")]
    receive: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    send: Option<i64>,
}

impl Three {
    fn minus(self, earlier: Three) -> Three {
        let minus = |a: Option<i64>, b: Option<i64>| Some(a?.saturating_sub(b?));
        Three {
            receive: minus(self.receive, earlier.receive),
            rtt: minus(self.rtt, earlier.rtt),
            send: minus(self.send, earlier.send),
        }
    }
}

/// A test, and the first answer to each request.
struct ExportedTest<'a> {
    session: &'a Session,
    answered: BTreeMap<u32, PacketRecord>,
    late: Vec<u32>,
    duplicates: u64,
    bytes_received: u64,
    sent: u32,
}

impl<'a> ExportedTest<'a> {
    fn new(session: &'a Session, records: impl Iterator<Item = PacketRecord>) -> ExportedTest<'a> {
        let mut test = ExportedTest {
            session,
            answered: BTreeMap::new(),
            late: Vec::new(),
            duplicates: 0,
            bytes_received: 0,
            sent: 0,
        };
        let mut last = None;
        for record in records {
            let Ok(seq) = u32::try_from(record.seq) else { continue };
            if record.time(Moment::Returned).is_none() {
                continue;
            }
            if test.answered.contains_key(&seq) {
                test.duplicates += 1;
                continue;
            }
            if last.is_some_and(|last| seq < last) {
                test.late.push(seq);
            }
            last = Some(seq);
            test.bytes_received += u64::from(record.size().unwrap_or(session.spec.payload()));
            test.answered.insert(seq, record);
        }
        test.late.sort_unstable();
        let highest = test.answered.keys().next_back().map_or(0, |seq| seq + 1);
        // A truncated log contains nothing about requests after the last answer.
        test.sent = session.sent.unwrap_or(highest).max(highest);
        test
    }

    fn document(&self) -> IrttDocument {
        let round_trips = self.round_trips();
        let Session { spec, src, dst, .. } = self.session;
        let address = |ip: &Option<std::net::IpAddr>, port| {
            ip.map(|ip| std::net::SocketAddr::new(ip, port).to_string())
        };
        IrttDocument {
            version: VersionEntry { irtt: IRTT, protocol: 1, json_format: 1 },
            config: ConfigEntry {
                local_address: address(src, spec.src_port),
                remote_address: address(dst, spec.dst_port),
                params: ParamsEntry {
                    proto_version: 1,
                    duration: spec.duration().0,
                    interval: spec.period().0,
                    length: spec.payload(),
                    dscp: spec.dscp.value() << 2,
                },
                ip_version: if dst.is_some_and(|ip| ip.is_ipv6()) { "IPv6" } else { "IPv4" },
            },
            stats: self.stats(&round_trips),
            round_trips,
        }
    }

    fn round_trips(&self) -> Vec<RoundTrip> {
        let far_clock = self.session.two_way.as_ref().is_some_and(|t| t.far_clock);
        let start = self.send_time(0).unwrap_or(0);
        let mut before: Option<Three> = None;
        (0..self.sent)
            .map(|seq| {
                let client = |wall: Option<i64>| InstantEntry { wall, monotonic: wall.map(|t| t - start) };
                let send = client(self.send_time(seq));
                let Some(record) = self.answered.get(&seq) else {
                    before = None;
                    let timestamps = Timestamps {
                        client: ServerStamps { send, ..ServerStamps::default() },
                        ..Timestamps::default()
                    };
                    return RoundTrip {
                        seqno: seq,
                        lost: self.lost(seq),
                        timestamps,
                        ..RoundTrip::default()
                    };
                };
                let time = |moment| record.time(moment).map(|t| t.0);
                let far = |moment| InstantEntry { wall: time(moment).filter(|_| far_clock), monotonic: None };
                let between = |from, to| {
                    let (from, to) = (record.time(from)?, record.time(to)?);
                    to.checked_since(from).filter(|_| far_clock).map(|span| span.0)
                };
                let delay = Three {
                    receive: between(Moment::Answered, Moment::Returned),
                    rtt: round_trip(record).map(|span| span.0),
                    send: between(Moment::Sent, Moment::Arrived),
                };
                let ipdv = before.replace(delay).map(|before| delay.minus(before)).unwrap_or_default();
                RoundTrip {
                    seqno: seq,
                    lost: "false",
                    timestamps: Timestamps {
                        client: ServerStamps { receive: client(time(Moment::Returned)), send },
                        server: ServerStamps { receive: far(Moment::Arrived), send: far(Moment::Answered) },
                        late: self.late.binary_search(&seq).is_ok(),
                    },
                    delay,
                    ipdv,
                }
            })
            .collect()
    }

    /// Returns the time at which request `seq` was sent, in ns. For a request without an answer, it is extrapolated by
    /// the period from the last answered request before it, or from the first one after it.
    fn send_time(&self, seq: u32) -> Option<i64> {
        let before = self.answered.range(..=seq).next_back();
        let (near, record) = before.or_else(|| self.answered.range(seq..).next())?;
        let sent = record.time(Moment::Sent)?.0;
        let apart = i64::from(seq) - i64::from(*near);
        Some(sent.saturating_add(self.session.spec.period().0.saturating_mul(apart)))
    }

    fn lost(&self, seq: u32) -> &'static str {
        let losses = self.session.two_way.as_ref().map_or(&[][..], |t| &t.losses);
        let run = losses.iter().find(|run| (run.first..run.first + run.length).contains(&seq));
        match run.map(|run| run.side) {
            Some(LossSide::Up) => "true_up",
            Some(LossSide::Down) => "true_down",
            Some(LossSide::Either) | None => "true",
        }
    }

    fn stats(&self, round_trips: &[RoundTrip]) -> StatsEntry {
        let of = |value: fn(&RoundTrip) -> Option<i64>| {
            DurationStats::of(round_trips.iter().filter_map(value).collect())
        };
        let processing = self.answered.values().filter_map(processing).map(|span| span.0);
        let (sent, received) = (u64::from(self.sent), self.answered.len() as u64);
        let percent =
            |part: u64, whole: u64| if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 };
        let directions = self.session.two_way.as_ref().and_then(|t| t.directions);
        let arrived = directions
            .filter(|d| d.unknown_lost == 0)
            .map(|d| (sent.saturating_sub(d.up_lost), d.up_duplicates, d.down_lost));
        let times = |moment| {
            let mut times = self.answered.values().filter_map(move |r| r.time(moment));
            let first = times.next()?;
            let (low, high) = times.fold((first, first), |(low, high), t| (low.min(t), high.max(t)));
            Some(high - low)
        };
        let (sending, receiving) = (times(Moment::Sent), times(Moment::Returned));
        let start = self.answered.values().filter_map(|r| r.time(Moment::Sent)).min();
        let end = self.answered.values().filter_map(|r| r.time(Moment::Returned)).max();
        let bytes_sent = sent * u64::from(self.session.spec.payload());
        StatsEntry {
            start_time: start
                .and_then(|at| jiff::Timestamp::from_nanosecond(at.0.into()).ok())
                .map(|at| at.to_string()),
            rtt: of(|r| r.delay.rtt),
            send_delay: of(|r| r.delay.send),
            receive_delay: of(|r| r.delay.receive),
            server_packets_received: arrived.map(|(arrived, copies, _)| arrived + copies),
            bytes_sent,
            bytes_received: self.bytes_received,
            duplicates: self.duplicates,
            late_packets: self.late.len() as u64,
            duration: start.zip(end).map_or(0, |(start, end)| (end - start).0),
            packets_sent: sent,
            packets_received: received + self.duplicates,
            packet_loss_percent: percent(sent - received, sent),
            upstream_loss_percent: arrived.map(|(arrived, ..)| percent(sent - arrived, sent)),
            downstream_loss_percent: arrived.map(|(arrived, _, lost)| percent(lost, arrived)),
            duplicate_percent: percent(self.duplicates, received + self.duplicates),
            late_packets_percent: percent(self.late.len() as u64, received + self.duplicates),
            ipdv_send: of(|r| r.ipdv.send.map(i64::abs)),
            ipdv_receive: of(|r| r.ipdv.receive.map(i64::abs)),
            ipdv_round_trip: of(|r| r.ipdv.rtt.map(i64::abs)),
            server_processing_time: DurationStats::of(processing.collect()),
            send_rate: RateEntry::new(bytes_sent, sending),
            receive_rate: RateEntry::new(self.bytes_received, receiving),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::time::{Stamp, StampSource, WallTime};
    use jitlat_core::twoway::{Directions, LossRun, TwoWay};
    use jitlat_core::{Direction, Schedule, TestSpec, Transport};
    use serde_json::Value;

    /// Answer to a request sent every 10 ms from 1 s after 1970, with delays `up` and `down` and 1 µs of processing.
    fn answer(seq: i64, up: i64, down: i64) -> PacketRecord {
        let sent = 1_000_000_000 + seq * 10_000_000;
        let mut record = PacketRecord::new(seq);
        let times = [sent, sent + up, sent + up + 1000, sent + up + 1000 + down];
        for (moment, at) in
            [Moment::Sent, Moment::Arrived, Moment::Answered, Moment::Returned].into_iter().zip(times)
        {
            record.set(moment, Stamp { at: WallTime(at), source: StampSource::User });
        }
        record.set_size(Some(60));
        record
    }

    /// A test of six requests. 1 and 5 are lost.
    pub(super) fn session(far_clock: bool) -> Session {
        let spec = TestSpec::new(Direction::Up, Transport::Udp, 6, 60, Span::millis(10), Schedule::Periodic)
            .unwrap();
        let mut session = Session::new(spec);
        session.sent = Some(6);
        session.two_way = Some(Box::new(TwoWay {
            far_clock,
            directions: far_clock.then(|| Directions {
                stateful: true,
                up_lost: 1,
                down_lost: 1,
                ..Directions::default()
            }),
            losses: vec![
                LossRun { first: 1, length: 1, side: LossSide::Up },
                LossRun { first: 5, length: 1, side: LossSide::Down },
            ],
            ..TwoWay::default()
        }));
        session
    }

    /// Answers to the requests of [`session`]: 3 arrives after 4, 2 arrives twice.
    pub(super) fn answers() -> [PacketRecord; 5] {
        let answers = [(0, 50, 70), (2, 60, 80), (2, 60, 90), (4, 50, 100), (3, 90, 70)];
        answers.map(|(seq, up, down)| answer(seq, up * 1000, down * 1000))
    }

    fn written(far_clock: bool) -> Value {
        let mut text = Vec::new();
        write(&mut text, &session(far_clock), answers().into_iter()).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    #[test]
    fn what_is_known_of_each_round_trip() {
        let document = written(true);
        let trips = document["round_trips"].as_array().unwrap();
        let lost: Vec<&str> = trips.iter().map(|t| t["lost"].as_str().unwrap()).collect();
        assert_eq!(lost, ["false", "true_up", "false", "false", "false", "true_down"]);
        assert_eq!(trips[1]["timestamps"]["client"]["send"]["wall"], 1_010_000_000);
        assert_eq!(trips[5]["timestamps"]["client"]["send"]["wall"], 1_050_000_000);
        let delay = &trips[3]["delay"];
        assert_eq!(
            (&delay["rtt"], &delay["send"], &delay["receive"]),
            (&160_000.into(), &90_000.into(), &70_000.into())
        );
        // Number 2 follows a lost one, 3 follows 2.
        assert_eq!(trips[2]["ipdv"], serde_json::json!({}));
        assert_eq!(trips[3]["ipdv"], serde_json::json!({"receive": -10_000, "rtt": 20_000, "send": 30_000}));
        assert_eq!(
            (&trips[3]["timestamps"]["late"], &trips[4]["timestamps"]["late"]),
            (&true.into(), &Value::Null)
        );
        assert_eq!(trips[0]["timestamps"]["server"]["receive"]["wall"], 1_000_050_000);
    }

    #[test]
    fn statistics_count_each_request_once() {
        let stats = &written(true)["stats"];
        let counts =
            ["packets_sent", "packets_received", "duplicates", "late_packets", "server_packets_received"];
        assert_eq!(counts.map(|name| stats[name].as_u64().unwrap()), [6, 5, 1, 1, 5]);
        let percents = ["packet_loss_percent", "upstream_loss_percent", "downstream_loss_percent"];
        let [lost, up, down] = percents.map(|name| stats[name].as_f64().unwrap());
        assert!((lost - 100.0 / 3.0).abs() < 1e-9 && (up - 100.0 / 6.0).abs() < 1e-9 && down == 20.0);
        // 120, 140, 160 and 150 µs.
        let rtt = &stats["rtt"];
        let figures = ["n", "min", "max", "mean", "median", "total", "stddev"];
        assert_eq!(
            figures.map(|name| rtt[name].as_i64().unwrap()),
            [4, 120_000, 160_000, 142_500, 145_000, 570_000, 17_078]
        );
        assert_eq!(stats["ipdv_send"]["mean"], 35_000, "absolute values: 30 and 40 us");
        assert_eq!(stats["start_time"], "1970-01-01T00:00:01Z");
    }

    #[test]
    fn what_is_not_known_is_left_out_but_for_statistics() {
        let document = written(false);
        let trip = &document["round_trips"][0];
        assert_eq!(trip["delay"], serde_json::json!({"rtt": 120_000}));
        assert_eq!(trip["timestamps"]["server"], serde_json::json!({"receive": {}, "send": {}}));
        assert_eq!(
            (&document["stats"]["send_delay"]["n"], &document["stats"]["send_delay"]["mean"]),
            (&0.into(), &0.into())
        );
        assert_eq!(document["stats"]["upstream_loss_percent"], Value::Null);
    }
}
