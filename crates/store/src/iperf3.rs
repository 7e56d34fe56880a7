//! A one-way test in the formats of iperf3's client for UDP (`iperf3 -u -c`): JSON, and text.
//!
//! Bytes are those of the payload, as in iperf3. The rate of the sender is over the time in which it sent, that of the
//! receiver over the same time, or the time in which packets arrived if it is longer. Unknown values (the load of the processors) are left out.

use jiff::fmt::rfc2822::DateTimePrinter;
use jitlat_core::metrics::rfc3550::JitterEstimator;
use jitlat_core::{Direction, PacketRecord, Session, Span, WallTime};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};

/// Number that iperf3 gives to the socket of the first stream.
const SOCKET: u32 = 5;
/// Maximum number of intervals.
const MAX_INTERVALS: i64 = 100_000;

/// Packets of one interval, or of the whole test.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    start: Span,
    end: Span,
    /// Number of packets that were sent or, at the receiver, that should have arrived.
    packets: u64,
    bytes: u64,
    lost: u64,
    out_of_order: u64,
    /// RTP jitter (RFC 3550) after the last packet, in ms; 0 at the sender.
    jitter: f64,
}

impl Part {
    fn seconds(&self) -> f64 {
        (self.end - self.start).as_seconds()
    }

    fn bits_per_second(&self) -> f64 {
        let seconds = self.seconds();
        if seconds > 0.0 { self.bytes as f64 * 8.0 / seconds } else { 0.0 }
    }

    fn lost_percent(&self) -> f64 {
        if self.packets == 0 { 0.0 } else { 100.0 * self.lost as f64 / self.packets as f64 }
    }

    fn json(&self, sender: bool) -> Value {
        json!({
            "start": self.start.as_seconds(), "end": self.end.as_seconds(), "seconds": self.seconds(),
            "bytes": self.bytes, "bits_per_second": self.bits_per_second(), "jitter_ms": self.jitter,
            "lost_packets": self.lost, "packets": self.packets, "lost_percent": self.lost_percent(),
            "sender": sender,
        })
    }
}

/// A test in the terms of iperf3.
#[derive(Debug)]
pub struct Iperf3Test<'a> {
    session: &'a Session,
    /// Length of the intervals.
    interval: Span,
    /// Parts of the test as the client saw them.
    intervals: Vec<Part>,
    sent: Part,
    received: Part,
}

impl<'a> Iperf3Test<'a> {
    /// Divides the one-way test `session` with its `records`, in order of arrival, into intervals of length `interval`.
    /// There are none if it is zero. `limit` is the length of a test that was to end after this time; in any other
    /// test, the last packet takes one period, like the others.
    pub fn new(
        session: &'a Session,
        records: &[PacketRecord],
        interval: Span,
        limit: Option<Span>,
    ) -> Iperf3Test<'a> {
        let length = u64::from(session.spec.payload());
        let packets = session.packets();
        let mut sent_at: BTreeMap<i64, WallTime> = BTreeMap::new();
        let clean = |r: &&PacketRecord| r.flags.is_clean() && r.seq >= 0 && (r.seq as u64) < packets;
        let arrivals: Vec<(i64, WallTime, Span)> = records
            .iter()
            .filter(clean)
            .filter_map(|r| {
                sent_at.entry(r.seq).or_insert(r.sent()?);
                Some((r.seq, r.arrived()?, r.delay()?))
            })
            .collect();
        let period = session.spec.period();
        let scheduled = |seq: i64| {
            let near = sent_at.range(..=seq).next_back().or_else(|| sent_at.iter().next())?;
            Some(WallTime(near.1.0.saturating_add(period.0.saturating_mul(seq - near.0))))
        };
        let whole = session.spec.duration();
        let begun = scheduled(0).unwrap_or(WallTime(0));
        let ended = scheduled(packets.saturating_sub(1) as i64).unwrap_or(begun);
        let sending = (ended - begun + period).max(Span::ZERO).min(whole.max(period).times(100));
        let sending = limit.map_or(sending, |limit| sending.min(limit.max(ended - begun)));
        let sent = Part { end: sending, packets, bytes: packets * length, ..Part::default() };
        let mut counter = Counter::new(length);
        let first = arrivals.first().map_or(begun, |a| a.1);
        let last = arrivals.iter().map(|a| a.1).max().unwrap_or(first);
        arrivals.iter().for_each(|(seq, _, delay)| counter.push(*seq, *delay));
        let mut received = counter.part(Span::ZERO, (last - first).max(sending));
        received.packets = packets;
        received.lost = packets - (sent_at.len() as u64).min(packets);
        let mut test = Iperf3Test { session, interval, intervals: Vec::new(), sent, received };
        if interval > Span::ZERO && sending.0 / interval.0 < MAX_INTERVALS {
            test.intervals = match session.spec.direction() {
                Direction::Up => test.sending_intervals(),
                Direction::Down => test.receiving_intervals(&arrivals, first),
            };
        }
        test
    }

    fn sending_intervals(&self) -> Vec<Part> {
        let (length, period) = (u64::from(self.session.spec.payload()), self.session.spec.period().0.max(1));
        let mut parts = Vec::new();
        let (mut start, mut before) = (Span::ZERO, 0);
        while start < self.sent.end {
            let end = self.interval_end(start, self.sent.end);
            let until = (end.0 as u64).div_ceil(period as u64).min(self.sent.packets);
            let packets = if end == self.sent.end { self.sent.packets } else { until } - before;
            before += packets;
            parts.push(Part { start, end, packets, bytes: packets * length, ..Part::default() });
            start = end;
        }
        parts
    }

    fn receiving_intervals(&self, arrivals: &[(i64, WallTime, Span)], first: WallTime) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut counter = Counter::new(self.session.spec.payload().into());
        let (mut start, end) = (Span::ZERO, self.sent.end.max(self.received.end));
        let mut rest = arrivals.iter().peekable();
        while start < end {
            let until = self.interval_end(start, end);
            while let Some((seq, _, delay)) = rest.next_if(|a| a.1 - first < until || until == end) {
                counter.push(*seq, *delay);
            }
            parts.push(counter.part(start, until));
            start = until;
        }
        parts
    }

    /// Returns the end of the interval that begins at `start`. A remainder of less than a tenth of an interval belongs
    /// to the last one.
    fn interval_end(&self, start: Span, end: Span) -> Span {
        let until = start + self.interval;
        if (end - until).0 < self.interval.0 / 10 { end } else { until }
    }

    fn is_reverse(&self) -> bool {
        self.session.spec.direction() == Direction::Down
    }

    /// Returns the address and port of the client and of the server.
    fn endpoints(&self) -> [(IpAddr, u16); 2] {
        let unspecified = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let Session { src, dst, spec, .. } = self.session;
        let (src, dst) = (src.unwrap_or(unspecified), dst.unwrap_or(unspecified));
        let ends = [(src, spec.src_port), (dst, spec.dst_port)];
        if self.is_reverse() { [ends[1], ends[0]] } else { ends }
    }

    /// Returns the configured bit rate, in bits per second.
    fn target(&self) -> f64 {
        f64::from(self.session.spec.payload()) * 8e9 / self.session.spec.period().0.max(1) as f64
    }

    /// Returns the document of `iperf3 -u -c … -J`. `host` is the name of the server as it was given, `port` that of
    /// its control connection; `program` the name and version of this program.
    pub fn document(&self, host: &str, port: u16, program: &str) -> Value {
        let spec = &self.session.spec;
        let [near, far] = self.endpoints();
        let reverse = self.is_reverse();
        let created = self.session.created.unwrap_or(WallTime(0));
        let time = jiff::Timestamp::from_nanosecond(created.0.into()).unwrap_or_default();
        let intervals = self.intervals.iter().map(|part| {
            let mut sum = part.json(!reverse);
            if !reverse && let Some(members) = sum.as_object_mut() {
                members
                    .retain(|key, _| !["jitter_ms", "lost_packets", "lost_percent"].contains(&key.as_str()));
            }
            sum["omitted"] = false.into();
            let mut stream = sum.clone();
            stream["socket"] = SOCKET.into();
            json!({ "streams": [stream], "sum": sum })
        });
        let intervals: Vec<Value> = intervals.collect();
        // Bytes and rate are those of the sender, jitter and loss those of the receiver.
        let Part { lost, out_of_order, jitter, .. } = self.received;
        let sum = Part { lost, jitter, ..self.sent };
        let mut stream = sum.json(!reverse);
        (stream["socket"], stream["out_of_order"]) = (SOCKET.into(), out_of_order.into());
        json!({
            "start": {
                "connected": [{
                    "socket": SOCKET, "local_host": near.0.to_string(), "local_port": near.1,
                    "remote_host": far.0.to_string(), "remote_port": far.1,
                }],
                "version": program,
                "system_info": self.session.client.system.clone().unwrap_or_default(),
                "timestamp": {
                    "time": DateTimePrinter::new().timestamp_to_rfc9110_string(&time).unwrap_or_default(),
                    "timesecs": created.0.div_euclid(1_000_000_000),
                },
                "connecting_to": { "host": host, "port": port },
                "target_bitrate": self.target() as u64,
                "test_start": {
                    "protocol": "UDP", "num_streams": 1, "blksize": spec.payload(), "omit": 0,
                    "duration": self.sent.end.as_seconds().round() as u64, "bytes": 0, "blocks": 0,
                    "reverse": u8::from(reverse), "tos": spec.dscp.octet(), "target_bitrate": self.target() as u64,
                },
            },
            "intervals": intervals,
            "end": {
                "streams": [{ "udp": stream }],
                "sum": sum.json(!reverse),
                "sum_sent": self.sent.json(true),
                "sum_received": self.received.json(false),
            },
        })
    }

    /// Returns the text of `iperf3 -u -c`. `host` and `port` are as in [`document`](Self::document).
    pub fn text(&self, host: &str, port: u16) -> String {
        let mut out = format!("Connecting to host {host}, port {port}\n");
        let reverse = self.is_reverse();
        if reverse {
            let _ = writeln!(out, "Reverse mode, remote host {host} is sending");
        }
        let [near, far] = self.endpoints();
        let _ = writeln!(
            out,
            "[{SOCKET:3}] local {} port {} connected to {} port {}",
            near.0, near.1, far.0, far.1
        );
        let loss_heading =
            "[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams\n";
        out += if reverse {
            loss_heading
        } else {
            "[ ID] Interval           Transfer     Bitrate         Total Datagrams\n"
        };
        for part in &self.intervals {
            out += &match reverse {
                true => format!("{}{}  \n", rate(part), loss(part)),
                false => format!("{}{}  \n", rate(part), part.packets),
            };
        }
        out += "- - - - - - - - - - - - - - - - - - - - - - - - -\n";
        out += loss_heading;
        let _ = writeln!(out, "{}{}  sender", rate(&self.sent), loss(&self.sent));
        let _ = writeln!(out, "{}{}  receiver\n\niperf Done.", rate(&self.received), loss(&self.received));
        out
    }
}

/// Returns the document of `iperf3 -J` for a test that failed for the reason `error`; `program` is the name and version
/// of this program.
pub fn error_document(program: &str, error: &str) -> Value {
    json!({ "start": { "connected": [], "version": program }, "intervals": [], "end": {}, "error": error })
}

/// Formats interval, bytes and rate.
fn rate(part: &Part) -> String {
    let bytes = adaptive(part.bytes as f64, 1024.0);
    let bits = adaptive(part.bits_per_second(), 1000.0);
    format!(
        "[{SOCKET:3}] {:6.2}-{:<6.2} sec  {bytes}Bytes  {bits}bits/sec  ",
        part.start.as_seconds(),
        part.end.as_seconds()
    )
}

/// Formats jitter and loss.
fn loss(part: &Part) -> String {
    let percent = part.lost_percent();
    let percent = if percent >= 10.0 { format!("{percent:.0}") } else { two_digits(percent) };
    format!("{:5.3} ms  {}/{} ({percent}%)", part.jitter, part.lost, part.packets)
}

/// Formats a number below ten with two significant digits, without trailing zeros.
fn two_digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let decimals = (1 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Formats a value with the prefix that leaves at most four digits, as iperf3 does.
fn adaptive(value: f64, step: f64) -> String {
    let mut value = value;
    let mut prefixes = ["", "K", "M", "G", "T"].into_iter();
    let mut prefix = prefixes.next().unwrap_or_default();
    while value >= step {
        let Some(next) = prefixes.next() else { break };
        (prefix, value) = (next, value / step);
    }
    match value {
        v if v < 9.995 => format!("{v:4.2} {prefix}"),
        v if v < 99.95 => format!("{v:4.1} {prefix}"),
        v => format!("{v:4.0} {prefix}"),
    }
}

/// Counts packets as iperf3's receiver does.
struct Counter {
    length: u64,
    highest: i64,
    jitter: JitterEstimator,
    packets: u64,
    bytes: u64,
    lost: i64,
    out_of_order: u64,
}

impl Counter {
    fn new(length: u64) -> Counter {
        Counter {
            length,
            highest: -1,
            jitter: JitterEstimator::default(),
            packets: 0,
            bytes: 0,
            lost: 0,
            out_of_order: 0,
        }
    }

    fn push(&mut self, seq: i64, delay: Span) {
        self.bytes += self.length;
        if seq > self.highest {
            self.lost += seq - self.highest - 1;
            self.packets += (seq - self.highest) as u64;
            self.highest = seq;
        } else {
            self.out_of_order += 1;
            self.lost -= 1;
        }
        self.jitter.push_all(&[delay.0]);
    }

    /// Returns the packets since the last call. Packets that were counted as lost in an earlier interval and arrived
    /// in this one do not make its loss negative.
    fn part(&mut self, start: Span, end: Span) -> Part {
        let part = Part {
            start,
            end,
            packets: self.packets,
            bytes: self.bytes,
            lost: self.lost.max(0) as u64,
            out_of_order: self.out_of_order,
            jitter: self.jitter.jitter() / 1e6,
        };
        (self.packets, self.bytes, self.lost, self.out_of_order) = (0, 0, 0, 0);
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::{Schedule, TestSpec, Transport};

    /// 250 packets of 1000 bytes at 1 Mbit/s, of which every tenth is lost.
    fn test(direction: Direction) -> (Session, Vec<PacketRecord>) {
        let spec = TestSpec::new(direction, Transport::Udp, 250, 1000, Span::millis(8), Schedule::Periodic);
        let mut session = Session::new(spec.unwrap());
        session.sent = Some(250);
        (session.src, session.dst) = (Some([192, 0, 2, 1].into()), Some([192, 0, 2, 2].into()));
        (session.spec.src_port, session.spec.dst_port) = (40228, 45201);
        let record = |seq: i64| {
            let sent = WallTime(1_795_865_378_000_000_000 + seq * 8_000_000);
            PacketRecord::one_way(seq, sent, sent + Span::micros(100 + 16 * (seq % 2)))
        };
        (session, (0..250).filter(|seq| seq % 10 != 3).map(record).collect())
    }

    #[test]
    fn the_text_is_that_of_iperf3() {
        let (session, records) = test(Direction::Up);
        let text = Iperf3Test::new(&session, &records, Span::seconds(1), None).text("probe", 45201);
        let expected = "Connecting to host probe, port 45201\n\
            [  5] local 192.0.2.1 port 40228 connected to 192.0.2.2 port 45201\n\
            [ ID] Interval           Transfer     Bitrate         Total Datagrams\n\
            [  5]   0.00-1.00   sec   122 KBytes  1.00 Mbits/sec  125  \n\
            [  5]   1.00-2.00   sec   122 KBytes  1.00 Mbits/sec  125  \n\
            - - - - - - - - - - - - - - - - - - - - - - - - -\n\
            [ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams\n\
            [  5]   0.00-2.00   sec   244 KBytes  1.00 Mbits/sec  0.000 ms  0/250 (0%)  sender\n";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("25/250 (10%)  receiver\n\niperf Done.\n"), "{text}");
    }

    #[test]
    fn a_test_at_a_low_rate_is_as_long_as_requested() {
        // One packet per 11.68 s; the test was to last one second.
        let period = Span::millis(11_680);
        let spec = TestSpec::new(Direction::Up, Transport::Udp, 1, 1460, period, Schedule::Periodic);
        let mut session = Session::new(spec.unwrap());
        session.sent = Some(1);
        let sent = WallTime(1_795_865_378_000_000_000);
        let records = [PacketRecord::one_way(0, sent, sent + Span::micros(100))];
        let test = |limit| Iperf3Test::new(&session, &records, Span::seconds(1), limit).text("probe", 1);
        let text = test(Some(Span::seconds(1)));
        let expected = "[  5]   0.00-1.00   sec  1.43 KBytes  11.7 Kbits/sec  1  \n- - -";
        assert!(text.contains(expected), "{text}");
        assert!(
            text.contains("  0.00-1.00   sec  1.43 KBytes  11.7 Kbits/sec  0.000 ms  0/1 (0%)  receiver"),
            "{text}"
        );
        assert!(
            test(None).contains("  0.00-11.68  sec  1.43 KBytes  1.00 Kbits/sec  0.000 ms  0/1 (0%)  sender")
        );
    }

    #[test]
    fn the_document_has_the_members_that_programs_read() {
        for direction in [Direction::Up, Direction::Down] {
            let (session, records) = test(direction);
            let test = Iperf3Test::new(&session, &records, Span::seconds(1), None);
            let document = test.document("probe", 45201, "jitlat 0.2.0");
            let sum = &document["end"]["sum"];
            assert_eq!(
                (&sum["packets"], &sum["lost_packets"], &sum["bytes"]),
                (&250.into(), &25.into(), &250_000.into())
            );
            assert_eq!(sum["lost_percent"], 10.0);
            let jitter = sum["jitter_ms"].as_f64().unwrap();
            assert!(jitter > 0.01 && jitter < 0.016, "{jitter}");
            assert!((sum["bits_per_second"].as_f64().unwrap() - 1e6).abs() < 1.0);
            assert_eq!(document["end"]["streams"][0]["udp"]["out_of_order"], 0);
            assert_eq!(document["start"]["test_start"]["protocol"], "UDP");
            let reverse = direction == Direction::Down;
            assert_eq!(document["start"]["test_start"]["reverse"], u8::from(reverse));
            let intervals = document["intervals"].as_array().unwrap();
            assert_eq!(intervals.len(), 2);
            assert_eq!(intervals[0]["sum"].get("jitter_ms").is_some(), reverse);
            let lost: u64 = intervals.iter().filter_map(|i| i["sum"]["lost_packets"].as_u64()).sum();
            assert_eq!(lost, if reverse { 25 } else { 0 });
        }
    }

    #[test]
    fn numbers_have_the_digits_of_iperf3() {
        assert_eq!(
            ["122 K", "1.00 M", "9.99 ", "1000 K", "1.05 M"],
            [
                adaptive(125_000.0, 1024.0).trim(),
                &adaptive(1e6, 1000.0),
                &adaptive(9.99, 1000.0),
                &adaptive(999_900.0, 1000.0),
                &adaptive(1_048_576.0, 1000.0),
            ]
        );
        assert_eq!([0.0, 0.4, 0.123, 5.25].map(two_digits), ["0", "0.4", "0.12", "5.2"]);
    }
}
