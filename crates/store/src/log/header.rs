//! The `# key value` lines of a log, before and after its rows: [`Session`] ⇄ text.
//!
//! A line holds one fact. A later line with the same key replaces the fact, or adds to it if it is a list; the value
//! `-` removes it. Facts that are only known at the end can therefore be written after the rows, without changing any
//! line that is already written.

use super::compat::{LogVersion, RowLayout};
use super::date::parse_date;
use super::escape::{escape, unescape};
use super::values::{
    MOMENTS_PER_LINE, RUNS_PER_LINE, SHIFTS_PER_LINE, adapter_clock, adapter_clock_text, are_ascending,
    direction, ending, ending_text, load, parse, probe, probe_text, quantity, runs, runs_text, schedule,
    schedule_text, shifts, shifts_text, size_limit, size_limit_text, span, sync, sync_text, tcp_moments,
    tcp_text, unless,
};
use super::{interface, two_way};
use jitlat_core::ecn::NotAMarking;
use jitlat_core::noise::NoNoise;
use jitlat_core::session::{Ending, HostFacts};
use jitlat_core::spec::{HEADER_LEN, MAX_PACKETS, MAX_PAYLOAD};
use jitlat_core::summary::ClockEstimate;
use jitlat_core::{
    Direction, Dscp, EcnMarking, Schedule, Session, Span, TestSpec, Transport, WallTime, units,
};

/// Keys of lines 2 to 11, in the order of the lines.
const CLASSIC: [&str; 10] =
    ["command", "npkts", "pktlen", "proto", "period", "src_ip", "dst_ip", "src_port", "dst_port", "dscp"];
/// Text for an unknown date.
const NO_DATE: &str = "date unknown";

/// Value of `dialect` for a test with classic workorders. Other tests have no such line.
const CLASSIC_DIALECT: &str = "classic";

/// Facts in the lines read so far.
#[derive(Debug)]
pub(super) struct LogHeader {
    packets: Option<u64>,
    payload: Option<u64>,
    period: Option<i64>,
    transport: Transport,
    schedule: Schedule,
    direction: Option<Direction>,
    dscp: Dscp,
    marking: EcnMarking,
    ports: [u16; 2],
    format: Option<u8>,
    seen: [bool; CLASSIC.len()],
    /// Facts that need no consistency check with others.
    facts: Session,
    pub layout: RowLayout,
    /// Number of rows as stated in the log after its last row; `None` if it has not been read.
    pub rows: Option<u64>,
    /// True if the log states its ending before the rows.
    ended_early: bool,
    /// Lines that could not be parsed: their number, and the reason.
    pub problems: Vec<(u64, String)>,
}

impl LogHeader {
    pub fn new() -> LogHeader {
        LogHeader {
            packets: None,
            payload: None,
            period: None,
            transport: Transport::Udp,
            schedule: Schedule::Periodic,
            direction: None,
            dscp: Dscp::default(),
            marking: EcnMarking::Off,
            ports: [0; 2],
            format: None,
            seen: [false; CLASSIC.len()],
            facts: Session::new(TestSpec::default()),
            layout: RowLayout::Classic,
            rows: None,
            ended_early: false,
            problems: Vec::new(),
        }
    }

    /// True if `line` can only be the first line of another log. After the rows, a line with a number of packets still
    /// belongs to the current log.
    pub fn begins_a_log(line: &str, after_rows: bool) -> bool {
        split(line).is_some_and(|(key, _)| key == "command" || key == "npkts" && !after_rows)
    }

    /// Parses line `number`, which begins with `#`.
    pub fn line(&mut self, number: u64, line: &str) {
        let Some((key, value)) = split(line) else { return };
        let result = if number == 1 && !CLASSIC.contains(&key) {
            self.date(line.trim_start_matches('#').trim())
        } else {
            self.fact(key, value)
        };
        if let Err(problem) = result {
            self.problems.push((number, problem));
        }
    }

    fn date(&mut self, text: &str) -> Result<(), String> {
        if text == NO_DATE {
            return Ok(());
        }
        self.facts.date = Some(text.to_owned());
        self.facts.created = parse_date(text);
        self.facts
            .created
            .map(|_| ())
            .ok_or_else(|| format!("'{text}' is not a date such as 'Fri Jul 3 19:46:11 UTC 2009'"))
    }

    fn fact(&mut self, key: &str, value: &str) -> Result<(), String> {
        if let Some(i) = CLASSIC.iter().position(|k| *k == key) {
            self.seen[i] = true;
            return self.classic(key, value.trim());
        }
        let forget = value == "-";
        if let Some((host, key)) = key.split_once('.') {
            let host = match host {
                "client" => &mut self.facts.client,
                "server" => &mut self.facts.server,
                _ => return Ok(()),
            };
            return host_fact(host, key, value, forget);
        }
        let s = &mut self.facts;
        match key {
            "format" => self.format = Some(parse("a format", value)?),
            "columns" => {
                self.layout = RowLayout::of_columns(value).ok_or_else(|| {
                    format!("columns '{value}' do not begin with '{}'", RowLayout::Classic.columns())
                })?;
            }
            "rows" => self.rows = Some(parse("a number of rows", value)?),
            "direction" => self.direction = Some(direction(value)?),
            "dialect" => s.classic = value.trim() == CLASSIC_DIALECT,
            "schedule" => self.schedule = schedule(value)?,
            "ecn" => {
                let read = value.trim().parse().map_err(|e: NotAMarking| e.to_string());
                self.marking = unless(forget, || read)?.unwrap_or_default();
            }
            "created" => s.created = unless(forget, || parse("nanoseconds since 1970", value).map(WallTime))?,
            "sent" => s.sent = unless(forget, || parse("a number of packets", value))?,
            "probe" if forget => s.probes.clear(),
            "probe" => s.probes.push(probe(value)?),
            "clock_offset_median" => s.classic_offset = unless(forget, || span(value))?,
            "control_rtt_min" => s.classic_rtt = unless(forget, || span(value))?,
            "session" => s.id = unless(forget, || Ok(unescape(value)))?,
            "control_port" => s.control_port = unless(forget, || parse("a port", value))?,
            "name" => s.name = unless(forget, || Ok(unescape(value)))?,
            "tag" if forget => s.tags.clear(),
            "tag" => {
                let (k, v) = value.split_once('=').ok_or_else(|| format!("tag '{value}' has no '='"))?;
                s.tags.push((unescape(k), unescape(v)));
            }
            "ending" => {
                s.ending = ending(value)?;
                self.ended_early = self.rows.is_none();
            }
            "unsent" => s.unsent = unless(forget, || parse("a number of packets", value))?.unwrap_or(0),
            "skips" if forget => s.skipped.clear(),
            "skips" => s.skipped.extend(runs(value)?),
            "unreported" => {
                s.unreported = unless(forget, || parse("a number of packets", value))?.unwrap_or(0);
            }
            "path_mtu" => s.path_mtu = unless(forget, || parse("a number of bytes", value))?,
            "size_limit" => s.size_limit = unless(forget, || size_limit(value))?,
            "tcp_state" if forget => s.tcp.clear(),
            "tcp_state" => s.tcp.extend(tcp_moments(value)?),
            "load" => s.load = unless(forget, || load(value).map(Box::new))?,
            "shifts" if forget => s.schedule_shifts.clear(),
            "shifts" => s.schedule_shifts.extend(shifts(value)?),
            "reason" => s.reason = unless(forget, || Ok(unescape(value)))?,
            "stamps_lost" => s.stamps_lost = unless(forget, || parse("a number of packets", value))?,
            "read_pause" => s.read_pause = unless(forget, || span(value))?,
            "receiver_drops" => s.receiver_drops = unless(forget, || parse("a number of datagrams", value))?,
            _ => {
                return two_way::line(&mut s.two_way, key, value)
                    .unwrap_or_else(|| self.clock_label(key, value));
            }
        }
        Ok(())
    }

    /// Parses one of the two additional lines of version 2, whose keys are sentences: `… clock error … = -80.000 us`.
    fn clock_label(&mut self, key: &str, value: &str) -> Result<(), String> {
        let Some((label, amount)) = value.rsplit_once('=') else { return Ok(()) };
        let label = format!("{key} {label}").to_ascii_lowercase();
        let target = if label.contains("clock error") {
            &mut self.facts.classic_offset
        } else if label.contains("rtt") {
            &mut self.facts.classic_rtt
        } else {
            return Ok(());
        };
        *target = Some(quantity(amount).ok_or_else(|| {
            format!("'{}' is not a time such as '31.340420000 s' or '-80.000 us'", amount.trim())
        })?);
        Ok(())
    }

    fn classic(&mut self, key: &str, value: &str) -> Result<(), String> {
        // An IPv4-mapped address is the same host as the IPv4 address: an IPv6 socket also accepts IPv4.
        let address = || match value.parse::<std::net::IpAddr>() {
            Ok(ip) => Ok(Some(ip.to_canonical())),
            Err(_) if value == "-" => Ok(None),
            Err(_) => Err(format!("'{value}' is not an address")),
        };
        match key {
            "command" => match value {
                "SENDING" => {}
                "SEND_ME" => self.direction = Some(Direction::Down),
                _ => return Err(format!("command '{value}' is neither SENDING nor SEND_ME")),
            },
            "npkts" => self.packets = Some(parse("a number of packets", value)?),
            "pktlen" => self.payload = Some(parse("a number of bytes", value)?),
            "proto" => {
                let number = parse("an IP protocol number", value)?;
                // Echo requests (ICMP, ICMPv6) are handled in `session`.
                self.transport = match number {
                    1 | 58 => Transport::Udp,
                    _ => Transport::from_number(number)
                        .ok_or_else(|| format!("protocol {number} is neither 17 (UDP) nor 6 (TCP)"))?,
                };
            }
            "period" => self.period = Some(parse("a number of nanoseconds", value)?),
            "src_ip" => self.facts.src = address()?,
            "dst_ip" => self.facts.dst = address()?,
            "src_port" => self.ports[0] = parse("a port", value)?,
            "dst_port" => self.ports[1] = parse("a port", value)?,
            _ => self.dscp = value.parse().map_err(|e| format!("{e}"))?,
        }
        Ok(())
    }

    /// Returns the session that the lines so far describe, and warnings about implausible facts.
    ///
    /// # Errors
    /// A message if the number of packets, which is required, is missing.
    pub fn session(&self) -> Result<(Session, Vec<String>), String> {
        let Some(declared) = self.packets else {
            let because = self.problems.iter().find(|(_, p)| p.contains("number of packets"));
            return Err(because.map_or_else(
                || "its header has no '# npkts' line".to_owned(),
                |(line, p)| format!("npkts on line {line}: {p}"),
            ));
        };
        let mut warnings = Vec::new();
        let missing: Vec<&str> =
            CLASSIC.iter().zip(self.seen).filter(|(_, seen)| !seen).map(|(key, _)| *key).collect();
        if !missing.is_empty() {
            warnings.push(format!("the header lacks: {}", missing.join(", ")));
        }

        let packets = declared.clamp(1, MAX_PACKETS.into());
        if packets != declared {
            warnings.push(format!(
                "npkts {declared}: impossible number of packets (possible: 1 to {MAX_PACKETS})"
            ));
        }
        let possible = u64::from(HEADER_LEN)..=u64::from(MAX_PAYLOAD);
        let payload_known = self.payload.is_some_and(|l| possible.contains(&l));
        let payload = self.payload.filter(|_| payload_known).unwrap_or(HEADER_LEN.into());
        if let Some(l) = self.payload.filter(|_| !payload_known) {
            warnings.push(format!(
                "pktlen {l}: impossible packet length (possible: {HEADER_LEN} to {MAX_PAYLOAD} bytes), so the throughput is unknown"
            ));
        }
        let direction = self.direction.unwrap_or(Direction::Up);
        let two_way = self.facts.two_way.as_ref();
        // Echo requests are datagrams, regardless of `proto`: each of them arrives or is lost separately.
        let transport =
            if two_way.is_some_and(|t| t.protocol == "icmp") { Transport::Udp } else { self.transport };
        let spec = |period| TestSpec::new(direction, transport, packets, payload, period, self.schedule);
        let asked = self.period.and_then(|p| spec(Span(p)).ok());
        let period_known = asked.is_some();
        let unhurried = two_way.is_some_and(|t| t.wait.is_some());
        if let Some(p) = self.period.filter(|p| !(period_known || unhurried && *p == 0)) {
            warnings
                .push(format!("period {p} ns: impossible period, so figures that depend on it are unknown"));
        }
        let mut spec = asked.or_else(|| spec(Span(1)).ok()).unwrap_or_default();
        (spec.dscp, [spec.src_port, spec.dst_port]) = (self.dscp, self.ports);
        spec.marking = self.marking;
        let clocks = self.facts.classic_offset.is_some() || self.facts.classic_rtt.is_some();
        let mut skipped = self.facts.skipped.clone();
        if !are_ascending(&skipped) {
            warnings.push("the ranges of skipped packets are not in order, so they are ignored".to_owned());
            skipped.clear();
        }
        let version = self.format.unwrap_or(LogVersion::unnamed(clocks).number());
        if version > LogVersion::default().number() {
            warnings.push(format!(
                "the log has format {version}, which is newer than this program: unknown lines are skipped"
            ));
        }
        let session = Session {
            spec,
            version,
            declared: (packets != declared).then_some(declared),
            payload_known,
            period_known,
            direction_known: self.direction.is_some(),
            skipped,
            ending: if self.is_ended() { self.facts.ending } else { Ending::Unknown },
            ..self.facts.clone()
        };
        Ok((session, warnings))
    }
}

impl LogHeader {
    /// True if each of the classic lines was found.
    pub(super) fn is_whole(&self) -> bool {
        self.seen.iter().all(|seen| *seen)
    }

    /// True if the stated ending is the actual one, rather than an expectation written at the start. If a log states
    /// its ending before the rows, the ending only counts if the closing lines contain facts that are known only after
    /// a test.
    fn is_ended(&self) -> bool {
        !self.ended_early
            || self.rows.is_some() && (self.facts.two_way.is_some() || self.facts.sent.is_some())
    }
}

/// Splits a `#` line into a key and a value, which is everything after the space that follows the key. `None` for any
/// other line.
fn split(line: &str) -> Option<(&str, &str)> {
    let line = line.strip_prefix('#')?.trim_start().trim_end_matches(['\r', '\n']);
    Some(line.split_once([' ', '\t']).unwrap_or((line, "")))
}

fn host_fact(host: &mut HostFacts, key: &str, value: &str, forget: bool) -> Result<(), String> {
    match key {
        "name" => host.name = unless(forget, || Ok(unescape(value)))?,
        "system" => host.system = unless(forget, || Ok(unescape(value)))?,
        "clock_source" => host.clock_source = unless(forget, || Ok(unescape(value)))?,
        "sync_before" => host.sync_before = unless(forget, || sync(value))?,
        "sync_after" => host.sync_after = unless(forget, || sync(value))?,
        "adapter_clock" => host.adapter_clock = unless(forget, || adapter_clock(value))?,
        "clock_step" => host.clock_step = unless(forget, || span(value))?,
        "noise" => host.noise = unless(forget, || value.parse().map_err(|e: NoNoise| e.to_string()))?,
        "note" if forget => host.notes.clear(),
        "note" => host.notes.push(unescape(value)),
        "interface" if forget => host.interface = None,
        "interface" => host.interface.get_or_insert_default().name = unescape(value),
        "sample" if forget => host.interface.iter_mut().for_each(|interface| interface.samples.clear()),
        "sample" => host.interface.get_or_insert_default().samples.push(interface::sample(value)?),
        _ => {}
    }
    Ok(())
}

/// A key and its values: none, one, or several if the fact is a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fact {
    key: String,
    values: Vec<String>,
}

/// Returns all facts of `session` that a version 3 log contains, including the eleven classic lines except the date.
pub(super) fn facts(session: &Session, layout: RowLayout) -> Vec<Fact> {
    let spec = &session.spec;
    let ip = |ip: Option<core::net::IpAddr>| vec![ip.map_or_else(|| "-".to_owned(), |ip| ip.to_string())];
    let text = |t: &Option<String>| t.iter().map(|t| escape(t)).collect();
    let direction = session.direction_known.then_some(match spec.direction() {
        Direction::Up => "up",
        Direction::Down => "down",
    });
    let tag = |(k, v): &(String, String)| {
        let key = escape(k).replace('=', "\\e");
        format!("{key}={}", v.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r"))
    };
    let mut all: Vec<(String, Vec<String>)> = [
        ("command", vec!["SENDING".to_owned()]),
        ("npkts", vec![session.declared.unwrap_or(spec.packets().into()).to_string()]),
        ("pktlen", vec![session.payload().unwrap_or(0).to_string()]),
        ("proto", vec![session.ip_protocol().to_string()]),
        ("period", vec![session.period().unwrap_or_default().0.to_string()]),
        ("src_ip", ip(session.src)),
        ("dst_ip", ip(session.dst)),
        ("src_port", vec![spec.src_port.to_string()]),
        ("dst_port", vec![spec.dst_port.to_string()]),
        ("dscp", vec![spec.dscp.value().to_string()]),
        ("format", vec!["3".to_owned()]),
        ("direction", direction.map(str::to_owned).into_iter().collect()),
        ("dialect", session.classic.then(|| CLASSIC_DIALECT.to_owned()).into_iter().collect()),
        ("schedule", vec![schedule_text(spec.schedule())]),
        ("ecn", spec.marking.is_on().then(|| spec.marking.to_string()).into_iter().collect()),
        ("created", session.created.iter().map(|t| t.0.to_string()).collect()),
        ("session", text(&session.id)),
        ("control_port", session.control_port.iter().map(u16::to_string).collect()),
        ("name", text(&session.name)),
        ("tag", session.tags.iter().map(tag).collect()),
        ("probe", session.probes.iter().map(probe_text).collect()),
        ("clock_offset_median", session.classic_offset.iter().map(|s| s.0.to_string()).collect()),
        ("control_rtt_min", session.classic_rtt.iter().map(|s| s.0.to_string()).collect()),
    ]
    .map(|(key, values)| (key.to_owned(), values))
    .into();
    for (name, host) in [("client", &session.client), ("server", &session.server)] {
        let facts = [
            ("name", text(&host.name)),
            ("system", text(&host.system)),
            ("clock_source", text(&host.clock_source)),
            ("sync_before", host.sync_before.iter().map(sync_text).collect()),
            ("sync_after", host.sync_after.iter().map(sync_text).collect()),
            ("adapter_clock", host.adapter_clock.iter().map(adapter_clock_text).collect()),
            ("clock_step", host.clock_step.iter().map(|s| s.0.to_string()).collect()),
            ("noise", host.noise.iter().map(ToString::to_string).collect()),
            ("note", host.notes.iter().map(|n| escape(n)).collect()),
            ("interface", host.interface.iter().map(|interface| escape(&interface.name)).collect()),
            ("sample", host.interface.iter().flat_map(|i| &i.samples).map(interface::sample_text).collect()),
        ];
        all.extend(facts.map(|(key, values)| (format!("{name}.{key}"), values)));
    }
    all.extend(session.two_way.iter().flat_map(|t| two_way::facts(t)));
    // The result of the probes is only written for people and scripts. Log readers compute it again.
    let clock = match session.probes.as_slice() {
        [] => ClockEstimate::default(),
        _ => ClockEstimate::new(session, None),
    };
    let interval = clock.interval_ns.map(|[lo, hi]| format!("{lo} {hi}"));
    all.extend([
        ("clock_offset".to_owned(), clock.offset_ns.iter().map(i64::to_string).collect()),
        ("clock_interval".to_owned(), interval.into_iter().collect()),
        ("control_rtt".to_owned(), clock.min_rtt_ns.iter().map(i64::to_string).collect()),
        ("sent".to_owned(), session.sent.iter().map(u32::to_string).collect()),
        ("unsent".to_owned(), Some(session.unsent).filter(|n| *n > 0).iter().map(u64::to_string).collect()),
        ("skips".to_owned(), session.skipped.chunks(RUNS_PER_LINE).map(runs_text).collect()),
        (
            "unreported".to_owned(),
            Some(session.unreported).filter(|n| *n > 0).iter().map(u64::to_string).collect(),
        ),
        ("path_mtu".to_owned(), session.path_mtu.iter().map(u32::to_string).collect()),
        ("size_limit".to_owned(), session.size_limit.iter().map(size_limit_text).collect()),
        ("tcp_state".to_owned(), session.tcp.chunks(MOMENTS_PER_LINE).map(tcp_text).collect()),
        (
            "load".to_owned(),
            session.load.iter().filter_map(|load| serde_json::to_string(load).ok()).collect(),
        ),
        ("shifts".to_owned(), session.schedule_shifts.chunks(SHIFTS_PER_LINE).map(shifts_text).collect()),
        ("stamps_lost".to_owned(), session.stamps_lost.iter().map(u64::to_string).collect()),
        ("read_pause".to_owned(), session.read_pause.iter().map(|pause| pause.0.to_string()).collect()),
        ("receiver_drops".to_owned(), session.receiver_drops.iter().map(u64::to_string).collect()),
        ("ending".to_owned(), ending_text(session.ending).map(str::to_owned).into_iter().collect()),
        ("reason".to_owned(), text(&session.reason)),
        ("columns".to_owned(), vec![layout.columns().to_owned()]),
    ]);
    all.into_iter().map(|(key, values)| Fact { key, values }).collect()
}

/// Returns the lines before the first row, with the facts known so far. `stream` is the first and the last time of the
/// stream on the client's clock, if there are rows: a version 2 log contains clock estimates that depend on both the
/// probes and the stream.
pub(super) fn header_text(
    session: &Session,
    version: LogVersion,
    layout: RowLayout,
    stream: Option<(WallTime, WallTime)>,
) -> String {
    let date = session.created.map(units::utc_date).or_else(|| session.date.clone());
    let mut out = format!("# {}\n", date.as_deref().unwrap_or(NO_DATE));
    let all = facts(session, layout);
    let shown = if version.has_all_facts() { all.len() } else { CLASSIC.len() };
    // The sign of the correction in the two lines of version 2 depends on the direction.
    let reverse = session.direction_known && session.spec.direction() == Direction::Down;
    for Fact { key, values } in &all[..shown] {
        for value in values {
            let value = match key.as_str() {
                "command" if version.has_clock_error() && reverse => "SEND_ME",
                // Logs of these versions state nothing else about what was sent: rows less than this are losses.
                "npkts" if !version.has_all_facts() => &session.packets().to_string(),
                _ => value,
            };
            out += &format!("# {key} {value}\n");
        }
    }
    if version.has_clock_error() {
        let clock = ClockEstimate::new(session, stream);
        if let Some(offset) = clock.offset_ns {
            out += &format!("# Estimated relative clock error = {}\n", units::full(offset));
        }
        if let Some(rtt) = clock.min_rtt_ns {
            // Four digits, as the original tool printed them, if they are exact.
            let short = units::eng4(rtt);
            let text = if quantity(&short) == Some(Span(rtt)) { short } else { units::full(rtt) };
            out += &format!("# Estimated control channel minimum RTT = {text}\n");
        }
    }
    out
}

/// Returns the lines after the last row: the number of rows, and every fact of `now` that differs from `before`.
pub(super) fn trailer_text(rows: u64, before: &[Fact], now: &[Fact]) -> String {
    let mut out = format!("# rows {rows}\n");
    for Fact { key, values } in now {
        let written: &[String] = before.iter().find(|f| f.key == *key).map_or(&[], |f| &f.values);
        let news = match values.strip_prefix(written) {
            Some(added) => added,
            // In every version, a later classic line replaces an earlier one, so write its values again.
            None if CLASSIC.contains(&key.as_str()) => values,
            None => {
                out += &format!("# {key} -\n");
                values
            }
        };
        for value in news {
            out += &format!("# {key} {value}\n");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::ClockProbe;
    use jitlat_core::interface::{InterfaceHistory, InterfaceSample};
    use jitlat_core::load::{LoadStream, LoadThroughput, TestLoad, TestPhase};
    use jitlat_core::metrics::seqset::SeqRun;
    use jitlat_core::session::SizeLimit;
    use jitlat_core::tcp::TcpMoment;

    #[test]
    fn free_text_stays_on_its_line() {
        for text in ["", "-", "a b", " a ", "a\nb\r\\n", "\\", "k=v", "\\-"] {
            let line = escape(text);
            assert!(!line.contains('\n') && line != "-", "{line:?}");
            assert_eq!(unescape(&line), text);
        }
    }

    #[test]
    fn a_mapped_address_is_the_ipv4_host() {
        let mut header = LogHeader::new();
        header.classic("src_ip", "::ffff:192.0.2.1").unwrap();
        assert_eq!(header.facts.src, Some([192, 0, 2, 1].into()));
    }

    #[test]
    fn skipped_packets_and_sizes_come_back() {
        let mut before = Session::new(TestSpec::default());
        before.skipped = vec![SeqRun { start: 3, len: 4 }, SeqRun { start: 90, len: 1 }];
        (before.unsent, before.unreported, before.path_mtu) = (5, 12, Some(1280));
        before.size_limit = Some(SizeLimit { packet: 1428, passes: 1280, fails: 1281, payload: 1252 });
        let moment =
            |k: u32| TcpMoment { at: Span(i64::from(k) * 5), window: k, unsent: 9, ..TcpMoment::default() };
        before.tcp = (0..20).map(moment).collect();
        let sample = |k| InterfaceSample { retries: Some(7), ..InterfaceSample::at(WallTime(k)) };
        before.client.interface = Some(Box::new(InterfaceHistory {
            name: "wlan\n0".to_owned(),
            samples: vec![sample(1), sample(2)],
        }));
        before.load = Some(Box::new(TestLoad {
            phase: TestPhase::Loaded,
            streams: vec![LoadStream {
                load: "udp:1Mbit\n%".into(),
                direction: Direction::Down,
                offered_bps: Some(1e6),
                received_bps: None,
                filled: Some(true),
                sent: 3,
                loss: Some(0.25),
                failure: Some("gone".into()),
            }],
            throughput: vec![LoadThroughput {
                direction: Direction::Down,
                start: WallTime(1_763_697_001_000_000_000),
                interval: Span::millis(100),
                bps: vec![0.0, 94_100_000.0],
            }],
        }));
        before.tcp[3] = TcpMoment { slow_start: true, busy_us: 7, send_buffer_us: 8, ..before.tcp[3] };
        let mut h = LogHeader::new();
        for (line, Fact { key, values }) in
            facts(&before, RowLayout::OneWay { queue: true }).iter().enumerate()
        {
            values.iter().for_each(|value| h.line(line as u64 + 2, &format!("# {key} {value}")));
        }
        let (after, warnings) = h.session().unwrap();
        assert_eq!((&after.skipped, after.unsent, after.unreported), (&before.skipped, 5, 12));
        assert_eq!((after.path_mtu, after.size_limit), (Some(1280), before.size_limit));
        assert_eq!((&after.tcp, &after.load), (&before.tcp, &before.load));
        assert_eq!(after.client, before.client);
        assert_eq!((warnings, h.problems), (Vec::<String>::new(), Vec::new()));
        let mut twisted = LogHeader::new();
        ["# npkts 9", "# skips 5-6 3-4"].iter().for_each(|line| twisted.line(2, line));
        let (session, warnings) = twisted.session().unwrap();
        assert!(session.skipped.is_empty() && warnings.iter().any(|w| w.contains("not in order")));
    }

    #[test]
    fn version_2_labels_in_any_words_and_order() {
        let mut h = LogHeader::new();
        h.line(12, "# min control RTT = 3.231 s");
        h.line(13, "# Estimated Relative Clock Error = -80.000 us");
        assert_eq!(h.facts.classic_rtt, Some(Span(3_231_000_000)));
        assert_eq!(h.facts.classic_offset, Some(Span(-80_000)));
        assert!(h.problems.is_empty());
    }

    #[test]
    fn echo_requests_go_over_neither_udp_nor_tcp_whatever_their_log_says() {
        for proto in ["1", "6", "17", "58"] {
            let mut header = LogHeader::new();
            for (line, text) in
                [format!("# proto {proto}"), "# npkts 3".into(), "# two_way icmp".into()].iter().enumerate()
            {
                header.line(line as u64 + 2, text);
            }
            let (session, _) = header.session().unwrap();
            assert_eq!((session.spec.transport(), session.ip_protocol()), (Transport::Udp, 1), "{proto}");
        }
    }

    #[test]
    fn a_trailer_says_only_what_is_new() {
        let mut s = Session::new(TestSpec::default());
        s.probes.push(ClockProbe {
            sent: WallTime(1),
            arrived: WallTime(2),
            answered: WallTime(3),
            returned: WallTime(4),
        });
        s.name = Some("before".into());
        let before = facts(&s, RowLayout::OneWay { queue: true });
        s.probes.push(ClockProbe {
            sent: WallTime(5),
            arrived: WallTime(6),
            answered: WallTime(7),
            returned: WallTime(8),
        });
        s.name = None;
        s.ending = Ending::Complete;
        let text = trailer_text(9, &before, &facts(&s, RowLayout::OneWay { queue: true }));
        assert_eq!(text, "# rows 9\n# name -\n# probe 5 6 7 8\n# ending complete\n");
    }
}
