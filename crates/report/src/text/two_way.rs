//! Sections that only two-way tests have: the sending of requests, each direction separately, and datagrams
//! that do not belong to the test.

use super::{Page, TextOptions, count, dash, printable};
use jitlat_core::Schedule;
use jitlat_core::session::Session;
use jitlat_core::summary::{Percent, Summary};
use jitlat_core::twoway::{
    DirectionResult, Directions, FarReport, NotAnswers, SendingMode, TcpStats, TwoWayFigures,
};
use jitlat_core::units::{eng4, eng4_f64, full_f64};

/// Describes the requests: `ICMP to 192.0.2.2: 20 requests of 64 bytes, one every 20.00 ms (open loop)`.
pub fn asking(session: &Session) -> String {
    let spec = &session.spec;
    let facts = session.two_way.as_deref();
    let protocol = facts.map_or("", |f| f.protocol.as_str());
    let to = session.dst.map_or_else(
        || "-".to_owned(),
        |ip| match spec.dst_port {
            0 => ip.to_string(),
            port => std::net::SocketAddr::new(ip, port).to_string(),
        },
    );
    let how = match facts.and_then(|f| f.wait) {
        Some(wait) => format!("each {} after the answer to the previous one (stop and wait)", eng4(wait.0)),
        None => {
            let average = if spec.schedule() == Schedule::Periodic { "" } else { " on average" };
            format!("one every {}{average} (open loop)", eng4(spec.period().0))
        }
    };
    let requests = count(session.packets(), "request");
    format!("{} to {to}: {requests} of {} bytes, {how}", printable(protocol).to_uppercase(), spec.payload())
}

/// Adds the section of a round-trip report.
pub(super) fn write(page: &mut Page, s: &Summary) {
    let Some(t) = s.two_way.as_deref() else { return };
    page.heading("Directions");
    sending(page, t);
    if let Some(report) = &t.far_report {
        far_report(page, report);
    }
    processing(page, t);
    directions(page, t);
    for (name, way) in [("up", &t.up), ("down", &t.down)] {
        if let Some(way) = way {
            delay(page, name, way, if is_one_host(s) { "one clock" } else { "raw, two clocks" });
        }
    }
    further_lines(page, s, t);
}

/// True if both ends are the same host, with one clock.
pub fn is_one_host(s: &Summary) -> bool {
    s.header.src_ip.is_some() && s.header.src_ip == s.header.dst_ip
}

/// Returns the statements of the section without its tables, one sentence each, for a page with its own tables.
pub fn two_way_remarks(s: &Summary) -> Vec<String> {
    let Some(t) = s.two_way.as_deref() else { return Vec::new() };
    let mut page = Page::new(&TextOptions { width: usize::MAX, ..TextOptions::default() });
    sending(&mut page, t);
    if let Some(report) = &t.far_report {
        far_report(&mut page, report);
    }
    processing(&mut page, t);
    if let Some(d) = &t.directions {
        for (what, up, down) in [
            ("lost", d.up_lost, d.down_lost),
            ("duplicated", d.up_duplicates, d.down_duplicates),
            ("reordered", d.up_reordered, d.down_reordered),
        ] {
            page.item(&format!("{what}: {up} up, {down} down"));
        }
        undetermined(&mut page, d);
    }
    further_lines(&mut page, s, t);
    page.text.lines().map(|line| line.trim().to_owned()).collect()
}

fn further_lines(page: &mut Page, s: &Summary, t: &TwoWayFigures) {
    for (name, way) in [("up", &t.up), ("down", &t.down)] {
        way.iter().for_each(|way| no_delay(page, name, way));
    }
    if !is_one_host(s) {
        corrected(page, t);
    }
    if let Some(tcp) = &t.tcp {
        connection(page, tcp);
    }
    if !t.request_dscp.is_empty() {
        let dscp = super::evidence::mixture(&t.request_dscp, |value| super::evidence::dscp(*value));
        let ecn = super::evidence::mixture(&t.request_ecn, |value| super::evidence::ecn(*value));
        page.item(&format!("requests arrived at the far host with DSCP {dscp}, ECN {ecn}"));
    }
    t.remarks.iter().for_each(|r| page.item(&printable(r)));
    not_answers(page, &t.not_answers);
    // The longest shift of a test that slowed down because of marks is not the host's.
    if let Some(longest) = t.schedule_shift_max_ns.filter(|_| t.marked_slowdown.is_none()) {
        let times = match t.schedule_shifts {
            1 => "once".to_owned(),
            n => format!("{n} times"),
        };
        let then = match t.skipped {
            0 => "the rest of the schedule was moved".to_owned(),
            n => format!("{} left out", count(n, "request")),
        };
        page.item(&format!(
            "this host fell behind its schedule {times}, by {} at most: {then}",
            eng4(longest)
        ));
    }
    if let Some(slowed) = t.marked_slowdown {
        page.item(&format!(
            "routers marked packets of this test (CE): the time between requests was increased {}, to {}; {} spaced more widely than requested",
            if slowed.rounds == 1 { "once".to_owned() } else { format!("{} times", slowed.rounds) },
            eng4(slowed.period.0),
            if slowed.requests == 1 { "1 request is".to_owned() } else { format!("{} requests are", slowed.requests) }
        ));
    }
    if t.unsent > 0 {
        page.item(&format!("{} could not be sent by this host", count(t.unsent, "request")));
    }
}

fn sending(page: &mut Page, t: &TwoWayFigures) {
    let timeout = t.timeout_ns.map(|t| format!("; timeout {}", eng4(t))).unwrap_or_default();
    page.item(&match t.sending {
        SendingMode::OpenLoop => {
            format!("open loop: requests were sent on schedule, without waiting for earlier answers{timeout}")
        }
        SendingMode::StopAndWait => format!(
            "stop and wait: each request was sent {} after the previous answer; while the path stalls nothing is \
             sent, so slow times are under-represented{timeout}",
            eng4(t.wait_ns.unwrap_or(0))
        ),
    });
}

fn far_report(page: &mut Page, r: &FarReport) {
    describe_far_report(r).iter().for_each(|text| page.item(text));
}

/// Describes the far host's report of a one-way test, in sentences.
pub(super) fn describe_far_report(r: &FarReport) -> Vec<String> {
    let stamps = match r.stamps {
        Some(jitlat_core::StampSource::User) => "the program's stamps",
        Some(jitlat_core::StampSource::Kernel) => "kernel stamps",
        Some(_) => "hardware stamps",
        None => "stamps of unknown origin",
    };
    let mut said = vec![format!(
        "one-way delay between two clocks, as reported by the server with {stamps}: {} received, {} out of order, \
         {}, {} with a latency of zero or below",
        r.received,
        r.out_of_order,
        r.duplicates.map_or_else(|| "duplicates not counted".to_owned(), |d| count(d, "duplicate")),
        r.errors
    )];
    if r.timed_out {
        said.push(
            "the server did not receive the last packet: it reported after packets stopped arriving"
                .to_owned(),
        );
    }
    said
}

fn processing(page: &mut Page, t: &TwoWayFigures) {
    match &t.processing {
        Some(p) => page.item(&format!(
            "far host's processing time, excluded from the round trips: min/avg/max = {} / {} / {}",
            eng4(p.min),
            eng4(p.mean),
            eng4(p.max)
        )),
        None if t.far_report.is_none() => {
            page.item("the far host does not report its processing time: the round trips include it");
        }
        None => {}
    }
}

fn directions(page: &mut Page, t: &TwoWayFigures) {
    let Some(d) = &t.directions else { return };
    page.line(&format!("    {:<12}{:>10}{:>10}", "by direction", "up", "down"));
    let mut row = |name: &str, up: u64, down: u64| page.line(&format!("    {name:<12}{up:>10}{down:>10}"));
    row("lost", d.up_lost, d.down_lost);
    row("duplicated", d.up_duplicates, d.down_duplicates);
    row("reordered", d.up_reordered, d.down_reordered);
    undetermined(page, d);
}

fn undetermined(page: &mut Page, d: &Directions) {
    if d.unknown_lost > 0 {
        page.item(&format!(
            "{} without an answer, lost in an unknown direction: the far host's count does not show it",
            count(d.unknown_lost, "request")
        ));
    }
}

fn delay(page: &mut Page, name: &str, way: &DirectionResult, clocks: &str) {
    let l = &way.latency;
    if l.n == 0 {
        return;
    }
    // A negative time is not a delay.
    page.item(&format!(
        "one way {name} ({clocks}): min/avg/max = {} / {} / {}; jitter 99% = {}, 99.9% = {}; IPDV std dev {}",
        dash(l.min.filter(|t| *t >= 0).map(eng4)),
        dash(l.mean.filter(|t| *t >= 0.0).map(eng4_f64)),
        dash(l.max.filter(|t| *t >= 0).map(eng4)),
        dash(way.pdv.percentile(Percent(99_000)).map(eng4)),
        dash(way.pdv.percentile(Percent(99_900)).map(eng4)),
        dash(way.ipdv.stddev.map(eng4_f64)),
    ));
    if let Some(without) = &way.without_clock_step {
        let [p99, p999] = [without.p99_ns, without.p999_ns].map(eng4);
        let note = jitlat_verdict::without_clock_step(without);
        page.item(&format!("one way {name}: jitter 99% = {p99}, 99.9% = {p999}; {note}"));
    }
}

/// States why a direction has no smallest delay, if its smallest difference of two times is negative.
fn no_delay(page: &mut Page, name: &str, way: &DirectionResult) {
    if let Some(min) = way.latency.min.filter(|t| *t < 0) {
        page.item(&format!(
            "one way {name}: the times differ by {} at least, which is not a delay: two clocks differ by more than the delay, or a \
             time was written into a packet before it left",
            eng4(min)
        ));
    }
}

/// Adds the delay in both directions, corrected by the clock offset estimated from round trips.
fn corrected(page: &mut Page, t: &TwoWayFigures) {
    let both = t.up.as_ref().zip(t.down.as_ref());
    let Some((up, down)) = both.and_then(|(u, d)| u.latency_corrected.zip(d.latency_corrected)) else {
        return;
    };
    let bound = up.bound_ns.map(|b| format!(", known to +/- {}", eng4_f64(b))).unwrap_or_default();
    page.item(&format!(
        "corrected by the clock difference of {}{bound}: avg {} up, {} down, assuming that both directions of the \
         fastest exchange take equally long",
        full_f64(up.offset_ns as f64),
        dash(up.mean.map(eng4_f64)),
        dash(down.mean.map(eng4_f64)),
    ));
}

fn connection(page: &mut Page, tcp: &TcpStats) {
    page.item(&format!(
        "the kernel's TCP: {}, smoothed round trip {} to {}, congestion window {} to {} segments of {} bytes",
        count(tcp.retransmissions, "retransmission"),
        eng4(i64::from(tcp.srtt_min_us) * 1000),
        eng4(i64::from(tcp.srtt_max_us) * 1000),
        tcp.cwnd_min,
        tcp.cwnd_max,
        tcp.mss
    ));
}

fn not_answers(page: &mut Page, n: &NotAnswers) {
    // Refused and prohibited requests are in the warnings.
    if n.foreign + n.malformed + n.forged + n.unmatched > 0 {
        page.item(&format!(
            "received but not counted: {} foreign, {} malformed, {} forged, {} without a request",
            n.foreign, n.malformed, n.forged, n.unmatched
        ));
    }
}

/// Adds the report of a one-way test that was measured by the far host.
pub(super) fn of_far_report(page: &mut Page, s: &Summary) {
    let (c, l) = (&s.counts, &s.latency);
    let percent = |p: Option<f64>| p.map_or_else(|| "-".to_owned(), |p| format!("{p:.2}%"));
    page.line(&format!("{} packets sent", c.sent));
    page.line(&format!("{} unique/valid packets received", c.unique_valid));
    page.line(&format!("    {} lost packets ({})", c.lost, percent(c.lost_pct)));
    page.line(&format!(
        "    {} out of sequence packets ({})",
        c.out_of_sequence,
        percent(c.out_of_sequence_pct)
    ));
    page.blank();
    let [min, avg, max] = [l.min.map(eng4), l.mean.map(eng4_f64), l.max.map(eng4)].map(dash);
    page.line(&format!("min/avg/max latency = {min} / {avg} / {max}"));
    page.line(&format!("std dev = {}", dash(l.stddev.map(eng4_f64))));
}
