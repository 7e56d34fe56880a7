//! The `# key value` lines of a log, before and after its rows: [`Session`] ⇄ text.
//!
//! A line holds one fact. A later line with the same key replaces the fact, or adds to it if it is a list; the value
//! `-` removes it. Facts that are only known at the end can therefore be written after the rows, without changing any
//! line that is already written.

use super::compat::{LogVersion, RowLayout};
use super::date::parse_date;
use super::escape::{escape, unescape};
use super::{interface, two_way};
use core::str::FromStr;
use jitlat_core::clock::{AdapterClock, AdapterTimescale, SyncState};
use jitlat_core::ecn::NotAMarking;
use jitlat_core::gaps::Gaps;
use jitlat_core::load::TestLoad;
use jitlat_core::metrics::seqset::SeqRun;
use jitlat_core::noise::NoNoise;
use jitlat_core::session::{Ending, HostFacts, SizeLimit};
use jitlat_core::spec::{HEADER_LEN, MAX_PACKETS, MAX_PAYLOAD};
use jitlat_core::summary::ClockEstimate;
use jitlat_core::tcp::TcpMoment;
use jitlat_core::twoway::ScheduleShift;
use jitlat_core::{
    ClockProbe, Direction, Dscp, EcnMarking, Schedule, Session, Span, TestSpec, Transport, WallTime, units,
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
        let address = || match value.parse() {
            Ok(ip) => Ok(Some(ip)),
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

fn parse<T: FromStr>(what: &str, value: &str) -> Result<T, String> {
    value.trim().parse().map_err(|_| format!("'{}' is not {what}", value.trim()))
}

fn span(value: &str) -> Result<Span, String> {
    parse("a number of nanoseconds", value).map(Span)
}

fn unless<T>(forget: bool, read: impl FnOnce() -> Result<T, String>) -> Result<Option<T>, String> {
    if forget { Ok(None) } else { read().map(Some) }
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

fn direction(value: &str) -> Result<Direction, String> {
    match value.trim() {
        "up" => Ok(Direction::Up),
        "down" => Ok(Direction::Down),
        other => Err(format!("direction '{other}' is neither up nor down")),
    }
}

fn schedule(value: &str) -> Result<Schedule, String> {
    let unknown = || {
        format!(
            "'{}' is not a schedule: periodic, poisson SEED, burst SIZE, or a distribution of gaps",
            value.trim()
        )
    };
    let mut fields = value.split_ascii_whitespace();
    if let Some(random) = random(value) {
        return Ok(random);
    }
    match (fields.next(), fields.next()) {
        (Some("periodic"), None) => Ok(Schedule::Periodic),
        (Some("poisson"), Some(seed)) => {
            seed.parse().map(|seed| Schedule::Poisson { seed }).map_err(|_| unknown())
        }
        (Some("burst"), Some(size)) => match size.parse() {
            Ok(size) if size > 0 => Ok(Schedule::Burst { size }),
            _ => Err(unknown()),
        },
        _ => Err(unknown()),
    }
}

/// Parses `uniform LEAST MOST BATCH SEED`, `exponential LEAST MEAN BATCH SEED` or `normal MEAN DEVIATION BATCH SEED`;
/// `None` for any other text.
fn random(value: &str) -> Option<Schedule> {
    let fields: Vec<&str> = value.split_ascii_whitespace().collect();
    let &[law, first, second, batch, seed] = fields.as_slice() else { return None };
    let [first, second] = [Span(first.parse().ok()?), Span(second.parse().ok()?)];
    let gaps = match law {
        "uniform" => Gaps::Uniform { least: first, most: second },
        "exponential" => Gaps::Exponential { least: first, mean: second },
        "normal" => Gaps::Normal { mean: first, deviation: second },
        _ => return None,
    };
    let batch = batch.parse().ok().filter(|b| *b > 0)?;
    gaps.is_possible().then_some(Schedule::Random { gaps, batch, seed: seed.parse().ok()? })
}

fn random_text(gaps: Gaps, batch: u32, seed: u64) -> String {
    let (law, first, second) = match gaps {
        Gaps::Uniform { least, most } => ("uniform", least, most),
        Gaps::Exponential { least, mean } => ("exponential", least, mean),
        Gaps::Normal { mean, deviation } => ("normal", mean, deviation),
    };
    format!("{law} {} {} {batch} {seed}", first.0, second.0)
}

fn probe(value: &str) -> Result<ClockProbe, String> {
    let times: Option<Vec<i64>> = value.split_ascii_whitespace().map(|t| t.parse().ok()).collect();
    match times.as_deref() {
        Some(&[sent, arrived, answered, returned]) => Ok(ClockProbe {
            sent: WallTime(sent),
            arrived: WallTime(arrived),
            answered: WallTime(answered),
            returned: WallTime(returned),
        }),
        _ => Err(format!("probe '{}' does not have four timestamps in nanoseconds", value.trim())),
    }
}

/// Returns the value of the key `name` among the pairs in `value`.
fn pair<'a>(value: &'a str, name: &str) -> Result<&'a str, String> {
    let found = value.split_ascii_whitespace().find_map(|w| w.strip_prefix(name)?.strip_prefix('='));
    found.ok_or_else(|| format!("'{}' lacks {name}=", value.trim()))
}

fn adapter_clock(value: &str) -> Result<AdapterClock, String> {
    let all = [AdapterTimescale::Utc, AdapterTimescale::Tai, AdapterTimescale::Other];
    let name = pair(value, "timescale")?;
    let timescale = all.into_iter().find(|scale| scale.name() == name);
    Ok(AdapterClock {
        device: parse("the number of a clock", pair(value, "device")?)?,
        timescale: timescale.ok_or_else(|| format!("timescale={name} is neither utc, tai nor other"))?,
        offset: span(pair(value, "offset")?)?,
        bound: span(pair(value, "bound")?)?,
    })
}

fn sync(value: &str) -> Result<SyncState, String> {
    let field = |name: &str| pair(value, name);
    Ok(SyncState {
        synchronised: match field("synchronised")? {
            "yes" => true,
            "no" => false,
            other => return Err(format!("synchronised={other} is neither yes nor no")),
        },
        offset: span(field("offset")?)?,
        estimated_error: span(field("estimated_error")?)?,
        maximum_error: span(field("maximum_error")?)?,
        frequency_ppb: parse("parts per billion", field("frequency_ppb")?)?,
    })
}

fn ending(value: &str) -> Result<Ending, String> {
    ENDINGS
        .iter()
        .find(|(_, name)| *name == value.trim())
        .map(|(ending, _)| *ending)
        .ok_or_else(|| format!("unknown ending '{}'", value.trim()))
}

const ENDINGS: [(Ending, &str); 6] = [
    (Ending::Complete, "complete"),
    (Ending::Interrupted, "interrupted"),
    (Ending::PeerLost, "peer_lost"),
    (Ending::ServerStopped, "server_stopped"),
    (Ending::StorageFailed, "storage_failed"),
    (Ending::Unknown, "unknown"),
];

/// Parses a time with its unit, exact to the nanosecond: `31.340420000 s`, `-80.000 us`, `0.000 s`. `None` for any
/// other text.
fn quantity(text: &str) -> Option<Span> {
    let text = text.trim();
    let at = text.find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c)))?;
    let (number, unit) = text.split_at(at);
    let exponent = match unit.trim() {
        "s" | "sec" | "seconds" => 9,
        "ms" | "msec" => 6,
        "us" | "µs" | "μs" | "usec" => 3,
        "ns" | "nsec" => 0,
        _ => return None,
    };
    let (negative, digits) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() + fraction.len() == 0
        || !(whole.bytes().chain(fraction.bytes())).all(|b| b.is_ascii_digit())
    {
        return None;
    }
    // Digits below a nanosecond are ignored.
    let digits = fraction.get(..exponent).unwrap_or(fraction);
    let scaled: i64 = format!("{whole}{digits:0<exponent$}").parse().ok()?;
    Some(Span(if negative { -scaled } else { scaled }))
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
    let schedule = match spec.schedule() {
        Schedule::Periodic => "periodic".to_owned(),
        Schedule::Poisson { seed } => format!("poisson {seed}"),
        Schedule::Burst { size } => format!("burst {size}"),
        Schedule::Random { gaps, batch, seed } => random_text(gaps, batch, seed),
    };
    let probe = |p: &ClockProbe| format!("{} {} {} {}", p.sent.0, p.arrived.0, p.answered.0, p.returned.0);
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
        ("schedule", vec![schedule]),
        ("ecn", spec.marking.is_on().then(|| spec.marking.to_string()).into_iter().collect()),
        ("created", session.created.iter().map(|t| t.0.to_string()).collect()),
        ("session", text(&session.id)),
        ("control_port", session.control_port.iter().map(u16::to_string).collect()),
        ("name", text(&session.name)),
        ("tag", session.tags.iter().map(tag).collect()),
        ("probe", session.probes.iter().map(probe).collect()),
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
    let ending = ENDINGS.iter().find(|(e, _)| *e == session.ending && *e != Ending::Unknown);
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
        ("ending".to_owned(), ending.map(|(_, name)| (*name).to_owned()).into_iter().collect()),
        ("reason".to_owned(), text(&session.reason)),
        ("columns".to_owned(), vec![layout.columns().to_owned()]),
    ]);
    all.into_iter().map(|(key, values)| Fact { key, values }).collect()
}

fn adapter_clock_text(clock: &AdapterClock) -> String {
    let AdapterClock { device, timescale, offset, bound } = clock;
    format!("device={device} timescale={} offset={} bound={}", timescale.name(), offset.0, bound.0)
}

fn sync_text(s: &SyncState) -> String {
    let SyncState { synchronised, offset, estimated_error, maximum_error, frequency_ppb } = s;
    format!(
        "synchronised={} offset={} estimated_error={} maximum_error={} frequency_ppb={frequency_ppb}",
        if *synchronised { "yes" } else { "no" },
        offset.0,
        estimated_error.0,
        maximum_error.0
    )
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

/// Parses the JSON of a load.
fn load(text: &str) -> Result<TestLoad, String> {
    let load: TestLoad = serde_json::from_str(text).map_err(|e| format!("'{text}' is not a load: {e}"))?;
    match load.throughput.iter().any(|throughput| throughput.interval.0 <= 0) {
        true => Err("the throughput of the load has no interval".to_owned()),
        false => Ok(load),
    }
}

fn size_limit_text(limit: &SizeLimit) -> String {
    let SizeLimit { packet, passes, fails, payload } = limit;
    format!("packet={packet} passes={passes} fails={fails} payload={payload}")
}

fn size_limit(text: &str) -> Result<SizeLimit, String> {
    let field = |name: &str| {
        let found = text.split_ascii_whitespace().find_map(|w| w.strip_prefix(name)?.strip_prefix('='));
        found.and_then(|n| n.parse().ok()).ok_or_else(|| format!("'{}' lacks {name}=", text.trim()))
    };
    Ok(SizeLimit {
        packet: field("packet")?,
        passes: field("passes")?,
        fails: field("fails")?,
        payload: field("payload")?,
    })
}

const MOMENTS_PER_LINE: usize = 8;

/// Formats moments as numbers separated by commas, in the order of the fields.
fn tcp_text(moments: &[TcpMoment]) -> String {
    let one = |m: &TcpMoment| {
        let TcpMoment { at, window, slow_start, unacknowledged, unsent, round_trip_us, .. } = *m;
        let TcpMoment { retransmissions, busy_us, receive_window_us, send_buffer_us, .. } = *m;
        format!(
            "{},{window},{},{unacknowledged},{unsent},{round_trip_us},{retransmissions},{busy_us},{receive_window_us},\
             {send_buffer_us}",
            at.0,
            u8::from(slow_start)
        )
    };
    moments.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn tcp_moments(text: &str) -> Result<Vec<TcpMoment>, String> {
    let one = |text: &str| {
        let numbers: Option<Vec<i64>> = text.split(',').map(|n| n.parse().ok()).collect();
        let &[at, window, slow_start, unacknowledged, unsent, rtt, retransmissions, busy, receive, send, ..] =
            numbers?.as_slice()
        else {
            return None;
        };
        let small = |n: i64| u32::try_from(n).ok();
        let large = |n: i64| u64::try_from(n).ok();
        Some(TcpMoment {
            at: Span(at),
            window: small(window)?,
            slow_start: slow_start != 0,
            unacknowledged: small(unacknowledged)?,
            unsent: small(unsent)?,
            round_trip_us: small(rtt)?,
            retransmissions: small(retransmissions)?,
            busy_us: large(busy)?,
            receive_window_us: large(receive)?,
            send_buffer_us: large(send)?,
        })
    };
    let read = |text| one(text).ok_or_else(|| format!("'{text}' is not the state of a TCP connection"));
    text.split_ascii_whitespace().map(read).collect()
}

const RUNS_PER_LINE: usize = 16;

/// Formats runs of sequence numbers as the first and the last number of each: `100-224 300-300`.
fn runs_text(runs: &[SeqRun]) -> String {
    let runs: Vec<String> =
        runs.iter().map(|run| format!("{}-{}", run.start, run.start + run.len.max(1) - 1)).collect();
    runs.join(" ")
}

fn runs(text: &str) -> Result<Vec<SeqRun>, String> {
    let one = |text: &str| {
        let (first, last) = text.split_once('-')?;
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let len = u64::from(last.checked_sub(first)?) + 1;
        Some(SeqRun { start: first.into(), len })
    };
    let read = |text| one(text).ok_or_else(|| format!("'{text}' is not a range of packets (100-224)"));
    text.split_ascii_whitespace().map(read).collect()
}

/// True if `runs` are ascending and do not overlap.
fn are_ascending(runs: &[SeqRun]) -> bool {
    runs.windows(2).all(|pair| pair[0].start + pair[0].len <= pair[1].start)
}

const SHIFTS_PER_LINE: usize = 16;

/// Formats shifts as `20+400000000 60+35000000`: the first sequence number to which a shift applies, and the delay, in
/// ns, that it adds to the due times of this packet and all later ones.
fn shifts_text(shifts: &[ScheduleShift]) -> String {
    let shifts: Vec<String> = shifts.iter().map(|shift| format!("{}+{}", shift.seq, shift.by.0)).collect();
    shifts.join(" ")
}

fn shifts(text: &str) -> Result<Vec<ScheduleShift>, String> {
    let one = |text: &str| {
        let (seq, by) = text.split_once('+')?;
        let by = by.parse().ok().filter(|by| *by >= 0)?;
        Some(ScheduleShift { seq: seq.parse().ok()?, by: Span(by) })
    };
    let read =
        |text| one(text).ok_or_else(|| format!("'{text}' is not a shift of the schedule (20+400000000)"));
    text.split_ascii_whitespace().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::interface::{InterfaceHistory, InterfaceSample};
    use jitlat_core::load::{LoadStream, LoadThroughput, TestPhase};

    #[test]
    fn quantities_are_exact() {
        for (text, ns) in [
            ("31.340420000 s", 31_340_420_000),
            ("-80.000 us", -80_000),
            (" 0.000 s ", 0),
            ("3.231 s", 3_231_000_000),
            ("267.0us", 267_000),
            ("1.5 µs", 1_500),
            ("+.5 ms", 500_000),
            ("7 ns", 7),
            ("1.99999999999 ns", 1),
        ] {
            assert_eq!(quantity(text), Some(Span(ns)), "{text}");
        }
        for text in ["", "s", "3", "3 m", "- s", ". s", "1e3 s", "1-2 s", "99999999999999999999 s", "--1 s"] {
            assert_eq!(quantity(text), None, "{text}");
        }
    }

    #[test]
    fn free_text_stays_on_its_line() {
        for text in ["", "-", "a b", " a ", "a\nb\r\\n", "\\", "k=v", "\\-"] {
            let line = escape(text);
            assert!(!line.contains('\n') && line != "-", "{line:?}");
            assert_eq!(unescape(&line), text);
        }
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
