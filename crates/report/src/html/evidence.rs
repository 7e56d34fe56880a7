//! Facts needed to repeat and assess a test: parameters, hosts, clocks.

use super::{ReportPart, heading};
use crate::figure::{AxisUnit, group_thousands, value_label};
use crate::interface::describe;
use jitlat_core::EcnMarking;
use jitlat_core::clock::{AdapterClock, SyncState};
use jitlat_core::gaps::Gaps;
use jitlat_core::session::{Ending, HostFacts, Session};
use jitlat_core::spec::{Direction, Schedule, Transport, UNKNOWN_SEED, ip_protocol_name};
use jitlat_core::summary::{Coverage, Summary};
use jitlat_core::units::full;
use maud::{Markup, html};

/// Name and value of a fact.
type Facts = Vec<(String, String)>;

fn time(ns: i64) -> String {
    value_label(AxisUnit::Time, ns as f64)
}

/// Formats a time with all its digits.
fn exact(ns: i64) -> String {
    full(ns).replace("us", "µs").replace('-', "−")
}

/// Renders the parameters, hosts and clocks of one part. `both` is true if the part is one of the two directions of a
/// test.
pub fn section(part: &ReportPart<'_>, alone: bool, both: bool) -> Markup {
    html! {
        section.evidence {
            h2 { (heading(part, "Reproduction", alone)) }
            @if let Some(command) = part.session.and_then(|session| repeat(session, both)) {
                p { "Command to repeat the test: " code { (command) } }
            }
            (facts("Parameters", &parameters(part.summary)))
            (facts("Clocks", &clocks(part.summary)))
            @if let Some(session) = part.session {
                (facts("Client host", &host(&session.client)))
                (facts("Server host", &host(&session.server)))
            }
            (facts("Stamps and far end", &far_end(part.summary)))
        }
    }
}

fn facts(title: &str, facts: &Facts) -> Markup {
    html! {
        @if !facts.is_empty() {
            h3 { (title) }
            dl.facts { @for (name, value) in facts { div { dt { (name) } dd { (value) } } } }
        }
    }
}

/// Formats a period as on the command line, exactly: `20ms`, `1250us`.
fn as_written(ns: i64) -> String {
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000)];
    let fits = units.into_iter().find(|(_, size)| ns % size == 0);
    fits.map_or_else(|| format!("{ns}ns"), |(name, size)| format!("{}{name}", ns / size))
}

/// Returns the command that repeats the test of `session`, in both directions if `both` is true. `None` if the log
/// lacks facts, or if the test had options that the log does not contain: captured traffic, random gaps, one-way tests
/// by two-way protocols.
fn repeat(session: &Session, both: bool) -> Option<String> {
    let spec = &session.spec;
    let far = match spec.direction() {
        Direction::Up => session.dst,
        Direction::Down => session.src,
    };
    let host = far.map_or_else(|| "HOST".to_owned(), |a| a.to_string());
    let protocol = session.two_way.as_ref().map_or("", |two_way| two_way.protocol.as_str());
    // With LaMP, -l excludes the LaMP header.
    let header = if protocol == "lamp" { LAMP_HEADER } else { 0 };
    let payload = session.payload()?.checked_sub(header)?;
    let pace = match session.two_way.as_ref().and_then(|two_way| two_way.wait) {
        Some(wait) => format!("--wait {}", as_written(wait.0)),
        None => format!("-p {}", as_written(session.period()?.0)),
    };
    let mut command = "jitlat".to_owned();
    let mut add = |word: &str| command += &format!(" {word}");
    match &session.two_way {
        Some(two_way) if two_way.far_report.is_some() => return None,
        Some(two_way) => add(&format!("ping {host} --proto {}", shell_word(&two_way.protocol))),
        None => add(&host),
    }
    let owamp = session.server.notes.iter().find_map(|note| OwampServerNote::parse(note));
    if let Some(server) = &owamp {
        add("--proto owamp");
        if server.port != OWAMP_PORT {
            add(&format!("--owamp-port {}", server.port));
        }
        if server.mode != "open" {
            add(&format!("--owamp-mode {} --owamp-key-file FILE", shell_word(server.mode)));
        }
    }
    add(&format!("-n {} -l {payload} {pace}", spec.packets()));
    match spec.schedule() {
        Schedule::Periodic => {}
        Schedule::Poisson { .. } if owamp.is_some() => add("--schedule poisson"),
        Schedule::Poisson { seed } => add(&format!("--schedule poisson --seed {seed}")),
        Schedule::Burst { size } => add(&format!("--schedule burst --burst {size}")),
        Schedule::Random { .. } => return None,
    }
    if session.two_way.is_none() {
        if spec.transport() == Transport::Tcp {
            add("-t");
        }
        match spec.direction() {
            _ if both => add("-b"),
            Direction::Down => add("-R"),
            Direction::Up => {}
        }
    }
    if spec.dscp.value() > 0 {
        add(&format!("-D {}", spec.dscp.value()));
    }
    match spec.marking {
        EcnMarking::Off => {}
        EcnMarking::Ect0 => add("--ecn ect0"),
        EcnMarking::Ect1 => add("--ecn ect1"),
        // A two-way test always draws a new seed.
        EcnMarking::Both { .. } if session.two_way.is_some() => add("--ecn both"),
        EcnMarking::Both { seed } => {
            add("--ecn both");
            if !matches!(spec.schedule(), Schedule::Poisson { .. }) {
                add(&format!("--seed {seed}"));
            }
        }
    }
    if let Some(name) = &session.name {
        add(&format!("--name {}", shell_word(name)));
    }
    Some(command)
}

/// TCP port of OWAMP servers.
const OWAMP_PORT: u16 = 861;

/// Note of a test with an OWAMP server.
struct OwampServerNote<'a> {
    port: u16,
    mode: &'a str,
}

impl<'a> OwampServerNote<'a> {
    /// Parses `OWAMP server on TCP ADDRESS:PORT, mode MODE`; `None` for any other note.
    fn parse(note: &'a str) -> Option<OwampServerNote<'a>> {
        let (at, mode) = note.strip_prefix("OWAMP server on TCP ")?.split_once(", mode ")?;
        let (_, port) = at.rsplit_once(':')?;
        Some(OwampServerNote { port: port.parse().ok()?, mode })
    }
}

/// Size of the LaMP header in bytes.
const LAMP_HEADER: u16 = 24;

/// Quotes a word for a shell.
fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn parameters(s: &Summary) -> Facts {
    let h = &s.header;
    let mut list: Facts = Vec::new();
    let mut add = |name: &str, value: String| list.push((name.to_owned(), value));
    let end = |ip: &Option<String>, port: u16| match (ip, port) {
        (Some(ip), 0) => ip.clone(),
        (Some(ip), port) => format!("{ip}, port {port}"),
        (None, port) => format!("address unknown, port {port}"),
    };
    add("from", end(&h.src_ip, h.src_port));
    add("to", end(&h.dst_ip, h.dst_port));
    add(
        "direction",
        match (s.session.direction_known, s.session.direction) {
            _ if s.two_way.is_some() => "round trip".into(),
            (false, _) => "unknown: not in logs of this version".into(),
            (true, Direction::Up) if super::is_passive(s) => "OUT: reference point to monitor point".into(),
            (true, Direction::Down) if super::is_passive(s) => "IN: monitor point to reference point".into(),
            (true, Direction::Up) => "up, client to server".into(),
            (true, Direction::Down) => "down, server to client".into(),
        },
    );
    if super::is_passive(s) {
        add("packets that passed the source point", group_thousands(&h.npkts.to_string()));
        add("losses determined from", "two captures of the same traffic".into());
        return list;
    }
    add("packets requested", group_thousands(&h.npkts.to_string()));
    let known = |value: i64, text: String| if value > 0 { text } else { "unknown".to_owned() };
    add("payload", known(h.pktlen as i64, format!("{} bytes", h.pktlen)));
    add("period", known(h.period, exact(h.period)));
    let schedule = match s.session.schedule {
        Schedule::Periodic => "periodic".to_owned(),
        Schedule::Poisson { seed: UNKNOWN_SEED } => "Poisson".to_owned(),
        Schedule::Poisson { seed } => format!("Poisson, seed {seed}"),
        Schedule::Burst { size } => format!("bursts of {size}"),
        Schedule::Random { gaps, batch, seed } => random(gaps, batch, seed),
    };
    add("schedule", schedule);
    add("transport", ip_protocol_name(h.proto).into_owned());
    add(
        "DSCP",
        jitlat_core::spec::Dscp::new(h.dscp.into()).map_or_else(|| h.dscp.to_string(), |d| d.to_string()),
    );
    if let Some(date) = &h.date {
        add("date", date.clone());
    }
    if let Some(id) = &s.session.id {
        add("session", id.clone());
    }
    for (key, value) in &s.session.tags {
        add(&format!("tag {key}"), value.clone());
    }
    let ending = match s.session.ending {
        Ending::Complete => "complete",
        Ending::Interrupted => "stopped early",
        Ending::PeerLost => "the other host was lost",
        Ending::ServerStopped => "the server was stopped",
        Ending::StorageFailed => "not everything could be stored",
        Ending::Unknown => "unknown: not in the log",
    };
    let reason = s.session.reason.as_ref().map_or(String::new(), |r| format!(": {r}"));
    add("ended", format!("{ending}{reason}"));
    if let Some(drops) = s.session.receiver_drops {
        add("dropped by the receiving kernel", group_thousands(&drops.to_string()));
    }
    list
}

fn clocks(s: &Summary) -> Facts {
    let c = &s.clock;
    let mut list: Facts = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            list.push((name.to_owned(), value));
        }
    };
    add("offset θ = server − client", c.offset_ns.map(exact));
    add("θ of the shortest round trip", c.offset_min_rtt_ns.map(exact));
    add("median θ of the probes", c.offset_median_ns.map(|m| exact(m as i64)));
    add("uncertainty of θ", c.bound_ns.map(|b| format!("±{}", exact(b as i64))));
    add("bounds of θ", c.interval_ns.map(|[a, b]| format!("{} … {}", exact(a), exact(b))));
    add("probes agree", c.inconsistent.then(|| "no: a clock was stepped or drifts".into()));
    add("smallest control round trip", c.min_rtt_ns.map(exact));
    add("probes", (c.probes > 0).then(|| c.probes.to_string()));
    let change = c.offset_before_ns.zip(c.offset_after_ns).map(|(a, b)| exact((b - a) as i64));
    add("change of θ over the run", change);
    add("subtracted from raw delays", c.correction_ns.map(exact));
    let hull = s.skew_hull.as_ref();
    add(
        "relative skew (line below all packets)",
        hull.map(|h| format!("{:.3} ppm", h.alpha_ppm).replace('-', "−")),
    );
    add("trend", s.trend.as_ref().map(|t| t.because.clone()));
    for (who, host) in [("client", &c.client), ("server", &c.server)] {
        add(&format!("{who} clock source"), host.source.clone());
        add(&format!("{who} kernel, before"), host.before.as_ref().map(sync));
        add(&format!("{who} kernel, after"), host.after.as_ref().map(sync));
        add(&format!("{who} adapter's clock"), host.adapter.as_ref().map(adapter));
        add(&format!("{who} clock stepped or slewed by"), host.step_ns.map(exact));
    }
    list
}

/// Describes the clock of the adapter that stamps packets.
fn adapter(clock: &AdapterClock) -> String {
    let AdapterClock { device, offset, bound, .. } = clock;
    match clock.is_usable() {
        true => format!("ptp{device}: {} from the system clock, ± {}", time(offset.0), time(bound.0))
            .replace('-', "−"),
        false => format!("ptp{device}: not set"),
    }
}

/// Describes the kernel's clock state.
fn sync(state: &SyncState) -> String {
    let word = if state.synchronised { "synchronised" } else { "not synchronised" };
    format!(
        "{word}, estimated error {}, at most {}, frequency correction {:.3} ppm",
        time(state.estimated_error.0),
        time(state.maximum_error.0),
        state.frequency_ppb as f64 / 1000.0
    )
    .replace('-', "−")
}

fn host(h: &HostFacts) -> Facts {
    let facts = [("name", &h.name), ("system", &h.system), ("clock source", &h.clock_source)];
    let mut list: Facts = facts.into_iter().filter_map(|(n, v)| Some((n.to_owned(), v.clone()?))).collect();
    list.extend(
        h.interface.iter().filter_map(|i| Some(("interface".to_owned(), describe(i)?.replace('-', "−")))),
    );
    list.extend(h.notes.iter().map(|n| ("note".to_owned(), n.clone())));
    list
}

fn far_end(s: &Summary) -> Facts {
    let mut list: Facts = Vec::new();
    let coverage = |c: &Coverage| {
        let kinds = [("user", c.user), ("kernel", c.kernel), ("hardware", c.hardware), ("capture", c.wire)];
        let present: Vec<String> = kinds
            .iter()
            .filter(|k| k.1 > 0)
            .map(|(name, n)| format!("{name} {}", group_thousands(&n.to_string())))
            .collect();
        present.join(", ")
    };
    let mut add = |name: &str, value: String| {
        if !value.is_empty() {
            list.push((name.to_owned(), value));
        }
    };
    add("send stamps", coverage(&s.stamps.sent));
    if let Some(lost) = s.stamps.sent_lost.filter(|lost| *lost > 0) {
        add("send stamps lost", group_thousands(&lost.to_string()));
    }
    add("arrival stamps", coverage(&s.stamps.arrived));
    let values = |map: &std::collections::BTreeMap<u8, u64>| {
        let parts: Vec<String> =
            map.iter().map(|(v, n)| format!("{v} ({} packets)", group_thousands(&n.to_string()))).collect();
        parts.join(", ")
    };
    add("DSCP on arrival", values(&s.far_end.dscp));
    add("ECN on arrival", values(&s.far_end.ecn));
    add("TTL on arrival", values(&s.far_end.ttl));
    if let Some(ns) = s.stamps.receive_lag_max_ns {
        let on_purpose =
            s.stamps.receive_pause_ns.map(|ns| format!(", of which up to {} intended", time(ns)));
        add("longest wait in the receiving host", time(ns) + &on_purpose.unwrap_or_default());
    }
    if let Some(ns) = s.stamps.send_lag_max_ns {
        add("longest time in the sending host", time(ns));
    }
    list
}

/// Describes random gaps.
fn random(gaps: Gaps, batch: u32, seed: u64) -> String {
    let law = match gaps {
        Gaps::Uniform { least, most } => format!("uniform from {} to {}", exact(least.0), exact(most.0)),
        Gaps::Exponential { least, mean } => {
            format!("exponential from {} on, mean {}", exact(least.0), exact(mean.0))
        }
        Gaps::Normal { mean, deviation } => {
            format!("normal, mean {}, standard deviation {}", exact(mean.0), exact(deviation.0))
        }
    };
    let same = if batch > 1 { format!(", each used for {batch} packets") } else { String::new() };
    format!("gaps {law}{same}, seed {seed}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::spec::{Dscp, TestSpec};
    use jitlat_core::time::Span;
    use jitlat_core::twoway::TwoWay;

    #[test]
    fn the_command_repeats_the_test() {
        let spec =
            TestSpec::new(Direction::Down, Transport::Tcp, 500, 160, Span(1_250_000), Schedule::Periodic);
        let mut session = Session::new(spec.unwrap());
        session.spec.dscp = Dscp::new(46).unwrap();
        session.src = Some("192.0.2.7".parse().unwrap());
        let again = |session: &Session, both| repeat(session, both).expect("all is known");
        assert_eq!(again(&session, false), "jitlat 192.0.2.7 -n 500 -l 160 -p 1250us -t -R -D 46");
        session.name = Some("it's night".into());
        assert_eq!(
            again(&session, true),
            r"jitlat 192.0.2.7 -n 500 -l 160 -p 1250us -t -b -D 46 --name 'it'\''s night'"
        );
    }

    #[test]
    fn a_test_with_an_owamp_server_is_repeated_with_one() {
        let mut session = Session::new(TestSpec::default());
        session.dst = Some("192.0.2.7".parse().unwrap());
        session.server.notes = vec!["OWAMP server on TCP 192.0.2.7:861, mode open".to_owned()];
        let again = |session: &Session| repeat(session, false).unwrap();
        assert_eq!(again(&session), "jitlat 192.0.2.7 --proto owamp -n 1000 -l 80 -p 20ms");
        session.server.notes = vec!["OWAMP server on TCP [2001:db8::7]:8610, mode encrypted".to_owned()];
        session.spec = session.spec.with_schedule(Schedule::Poisson { seed: UNKNOWN_SEED });
        assert_eq!(
            again(&session),
            "jitlat 192.0.2.7 --proto owamp --owamp-port 8610 --owamp-mode encrypted --owamp-key-file FILE -n 1000 \
             -l 80 -p 20ms --schedule poisson"
        );
    }

    #[test]
    fn round_trips_are_repeated_as_such() {
        let mut session = Session::new(TestSpec::default());
        session.dst = Some("192.0.2.7".parse().unwrap());
        let two_way = TwoWay { protocol: "stamp".into(), ..TwoWay::default() };
        session.two_way = Some(Box::new(two_way));
        let again = |session: &Session| repeat(session, false);
        assert_eq!(again(&session).unwrap(), "jitlat ping 192.0.2.7 --proto stamp -n 1000 -l 80 -p 20ms");
        session.two_way.as_mut().unwrap().wait = Some(Span(5_000_000));
        assert_eq!(again(&session).unwrap(), "jitlat ping 192.0.2.7 --proto stamp -n 1000 -l 80 --wait 5ms");
        session.payload_known = false;
        assert_eq!(again(&session), None);
    }

    #[test]
    fn periods_are_exact() {
        let table = [(20_000_000, "20ms"), (1_000_000_000, "1s"), (1_250_000, "1250us"), (33, "33ns")];
        for (ns, text) in table {
            assert_eq!(as_written(ns), text);
        }
    }
}
