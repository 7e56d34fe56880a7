//! Sections below the classic report: the figures' meaning, their reliability, and reasons to doubt them.

use super::classic::is_media;
use super::{Page, WordStyle, above_zero, count, dash, outcome, printable, share, two_way};
use crate::interface::describe;
use crate::mean;
use jitlat_core::clock::SyncState;
use jitlat_core::scalars::{ExactNumber, Selector, selectors};
use jitlat_core::session::Ending;
use jitlat_core::spec::{Direction, Dscp, Transport};
use jitlat_core::summary::{
    Coverage, HostClock, Loss, LossPattern, NoInterval, OffsetEstimator, Summary, TrendVerdict,
};
use jitlat_core::units::{eng4, eng4_f64, full, full_f64};
use jitlat_verdict::Opinion;
use std::collections::BTreeMap;

pub(super) fn write(page: &mut Page, s: &Summary) {
    variation(page, s);
    further(page, s);
    write_but_figures(page, s);
}

/// Adds the sections for a test whose packets are not known individually.
pub(super) fn write_but_figures(page: &mut Page, s: &Summary) {
    two_way::write(page, s);
    outcome::write(page, s);
    clocks(page, s);
    hosts(page, s);
    far_end(page, s);
    marks(page, s);
    warnings(page, s);
    ending(page, s);
    verdicts(page, s);
}

/// Adds the meaning of the figures, worst first. It is printed last, because the end of the output remains
/// visible.
fn verdicts(page: &mut Page, s: &Summary) {
    let opinion = Opinion::of(s);
    if opinion.findings.is_empty() {
        return;
    }
    page.heading("Findings");
    for v in &opinion.findings {
        page.finding(v.level, &ascii(&printable(&v.text)));
    }
}

/// Replaces symbols by ASCII, which every terminal shows.
fn ascii(text: &str) -> String {
    text.replace('µ', "u").replace('−', "-").replace('±', "+/- ").replace('–', "-").replace('\u{a0}', " ")
}

/// Adds results of metrics without a section of their own.
fn further(page: &mut Page, s: &Summary) {
    let found = |selector: Selector| {
        let computed = selector.scalar.is_computed();
        selector.of(s).filter(|_| computed).map(|value| (selector, value))
    };
    let figures: Vec<(Selector, ExactNumber)> = selectors().filter_map(found).collect();
    if figures.is_empty() {
        return;
    }
    page.heading("Further figures");
    for (selector, value) in figures {
        let way = match selector.direction {
            None => "",
            Some(Direction::Up) => ", there",
            Some(Direction::Down) => ", back",
        };
        page.item(&format!("{}{way} = {}", selector.scalar.label, selector.scalar.show(value)));
    }
}

/// Adds jitter by other definitions, and the clustering of losses.
fn variation(page: &mut Page, s: &Summary) {
    if s.counts.unique_valid == 0 {
        return;
    }
    page.heading("More on jitter and loss");
    let i = &s.ipdv;
    if i.n > 0 {
        page.item(&format!(
            "between consecutive packets (IPDV): mean {}, std dev {}, interquartile {}, mean of absolute values {}",
            dash(i.mean.map(eng4_f64)),
            dash(i.stddev.map(eng4_f64)),
            dash(i.iqr.map(eng4)),
            dash(i.mean_abs.map(eng4_f64))
        ));
    }
    // The jitter of a captured stream has already been printed as its receiver computes it.
    if let Some(j) = s.rfc3550_jitter.as_ref().filter(|_| !is_media(s)) {
        page.item(&format!(
            "RTP jitter (RFC 3550): mean {}, largest {}, last {} (of the last 16 packets or so)",
            eng4_f64(j.mean),
            eng4_f64(j.max),
            eng4_f64(j.last)
        ));
    }
    if let Some(ratio) = s.loss.ratio.filter(|_| s.reordering.observable) {
        page.item(&format!("loss {:.3}%{}", ratio * 100.0, loss_interval(&s.loss)));
        loss_pattern(page, s);
    }
    let intervals = if is_media(s) { Vec::new() } else { mean::intervals(s) };
    intervals.iter().for_each(|line| page.item(line));
    if let Some(w) = &s.within {
        let (of_mean, of_median) = (w.of_mean * 100.0, w.of_median * 100.0);
        page.item(&format!(
            "within {} of the mean: {of_mean:.2}% of packets, of the median: {of_median:.2}%",
            eng4(w.span_ns)
        ));
    }
    if let Some(b) = &s.inference.bootstrap {
        page.item(&format!(
            "by block bootstrap (seed {}), with 95% confidence: mean latency between {} and {}, median between {} and {}",
            b.seed,
            eng4_f64(b.mean[0]),
            eng4_f64(b.mean[1]),
            eng4_f64(b.median[0]),
            eng4_f64(b.median[1])
        ));
    }
}

/// Describes the interval of the loss ratio, or why there is none.
fn loss_interval(loss: &Loss) -> String {
    let events = &loss.events;
    let plural = if events.events == 1 { "" } else { "s" };
    match (events.ci95, events.absent) {
        (Some([low, high]), _) => format!(
            ", between {}% and {:.3}% with 95% confidence, from {} event{plural}",
            above_zero(low * 100.0, 3),
            high * 100.0,
            events.events
        ),
        (None, Some(NoInterval::OneEvent)) => ", in one event: no interval".to_owned(),
        _ => loss
            .rule_of_three
            .map_or(String::new(), |most| format!(", below {:.3}% with 95% confidence", most * 100.0)),
    }
}

fn loss_pattern(page: &mut Page, s: &Summary) {
    let pattern = match s.loss.pattern {
        Some(LossPattern::Bursty) => "losses come in bursts",
        Some(LossPattern::Random) => "losses are consistent with random loss",
        Some(LossPattern::AntiClustered) => "losses are more evenly spread than random loss",
        Some(LossPattern::Insufficient) | None => return,
    };
    let g = &s.loss.gilbert;
    let mut because = Vec::new();
    if let Some(clp) = g.clp {
        because.push(format!("after a loss the next packet is lost in {:.1}% of cases", clp * 100.0));
    }
    if let Some(ratio) = g.burst_ratio {
        because.push(format!("burst ratio {ratio:.2} (1 for random loss)"));
    }
    page.item(&format!("{pattern}: {}", because.join("; ")));
}

fn clocks(page: &mut Page, s: &Summary) {
    let c = &s.clock;
    let known = c.offset_ns.is_some() || [&c.client, &c.server].into_iter().any(|h| account(h).is_some());
    if !known && s.skew_hull.is_none() {
        return;
    }
    page.heading("Clocks");
    let is_relative = is_media(s);
    if let Some(offset) = c.offset_ns.filter(|_| !is_relative) {
        let probes = count(c.probes as u64, "probe");
        let of = match c.estimator {
            Some(OffsetEstimator::MinimumRtt) => format!(" (from {probes})"),
            Some(OffsetEstimator::MedianOfProbes) => {
                format!(" (median of {probes}, as in classic tests)")
            }
            Some(OffsetEstimator::Logged) | None => String::new(),
        };
        page.item(&format!("relative clock error, server minus client = {}{of}", full(offset)));
    }
    if let (true, Some(bound)) = (is_relative, c.bound_ns) {
        page.item(&format!("the delay is known to +/- {}, by the smallest RTCP round trip", eng4_f64(bound)));
    } else if let Some([lo, hi]) = c.interval_ns {
        page.item(&format!("it lies between {} and {}, even if the path is asymmetric", full(lo), full(hi)));
    } else if let Some(bound) = c.bound_ns {
        page.item(&format!("it is known to +/- {}, even if the path is asymmetric", eng4_f64(bound)));
    }
    match c.estimator {
        Some(OffsetEstimator::MinimumRtt) => {
            if let Some(median) = c.offset_median_ns {
                page.item(&format!("median of the probes = {}", full_f64(median)));
            }
        }
        Some(OffsetEstimator::MedianOfProbes) => {
            if let Some((best, bound)) = c.offset_min_rtt_ns.zip(c.bound_min_rtt_ns) {
                let bound = eng4_f64(bound);
                page.item(&format!(
                    "estimate of the shortest round trip = {}, known to +/- {bound}",
                    full(best)
                ));
            }
        }
        Some(OffsetEstimator::Logged) | None => {}
    }
    for (name, host) in [("client", &c.client), ("server", &c.server)] {
        if let Some(account) = account(host) {
            page.item(&format!("{name}: {account}"));
        }
    }
    if let Some(hull) = s.skew_hull.as_ref().filter(|h| h.is_skew) {
        page.item(&format!("relative skew {:.3} ppm", hull.alpha_ppm));
    }
    if let Some(trend) = &s.trend {
        let verdict = match trend.verdict {
            TrendVerdict::None => "no trend in latency",
            TrendVerdict::Skew => "latency drifts with clock skew",
            TrendVerdict::Overload => "latency rises because of overload",
            TrendVerdict::Draining => "latency falls as a queue drains",
            TrendVerdict::Undecided => "latency drifts, cause undecided",
        };
        let because = printable(&trend.because);
        page.item(&if because.is_empty() { verdict.to_owned() } else { format!("{verdict}: {because}") });
    }
}

/// Describes the clock state that a host reported; `None` if it reported none.
fn account(host: &HostClock) -> Option<String> {
    let state = |s: &SyncState| {
        if s.synchronised {
            format!(
                "reported as synchronised, error about {}, at most {}",
                eng4(s.estimated_error.0),
                eng4(s.maximum_error.0)
            )
        } else {
            "reported as NOT synchronised".to_owned()
        }
    };
    let mut parts = Vec::new();
    match (&host.before, &host.after) {
        (Some(b), Some(a)) if b.synchronised != a.synchronised => {
            parts.push(format!("before the test {}, after it {}", state(b), state(a)));
        }
        (_, Some(s)) | (Some(s), None) => parts.push(state(s)),
        (None, None) => {}
    }
    if let Some(step) = host.step_ns.filter(|s| s.abs() >= 1000) {
        parts.push(format!("moved by {} against its monotonic clock during the test", eng4(step)));
    }
    if let Some(clock) = &host.adapter {
        parts.push(match clock.is_usable() {
            true => format!(
                "hardware stamps are readings of the adapter's clock ptp{}, which differs from the system clock by at most {}",
                clock.device,
                eng4(clock.stamp_error().0)
            ),
            false => format!("the adapter's clock ptp{} was not set", clock.device),
        });
    }
    if let (Some(source), false) = (&host.source, parts.is_empty()) {
        parts.push(format!("clock source {}", printable(source)));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Lists what is unknown about the queues of the hosts' own interfaces.
fn unknown_queues(s: &Summary) -> Vec<&'static str> {
    let mut said = Vec::new();
    if s.session.tags.contains_key("instrument") {
        return said;
    }
    let sent = &s.stamps.sent;
    if s.header.proto == Transport::Tcp.number() {
        said.push(
            "in the sending host's own queue: unknown, because its kernel stamps segments, not messages; a wait \
             there is part of the delay",
        );
    } else if s.local_queue.is_none() && sent.user > 0 && sent.kernel + sent.hardware + sent.wire == 0 {
        said.push(
            "in the sending host's own queue: unknown, because its kernel stamped no departure; a wait there is \
             part of the delay",
        );
    }
    let answers = s.two_way.is_some() || s.direction() == Some(Direction::Down);
    if s.header.proto != Transport::Tcp.number() && s.counts.lost > 0 && answers {
        said.push(
            "dropped by the queue of the far host's own interface: unknown; such packets count as lost",
        );
    }
    said
}

/// Adds the delay that the measuring hosts themselves contribute.
fn hosts(page: &mut Page, s: &Summary) {
    if s.counts.unique_valid == 0 {
        return;
    }
    page.heading("This tool's own noise");
    page.item(&format!(
        "sent stamps: {}; arrival stamps: {}",
        coverage(&s.stamps.sent),
        coverage(&s.stamps.arrived)
    ));
    if let Some(lost) = s.stamps.sent_lost.filter(|lost| *lost > 0) {
        page.item(&format!(
            "the kernel's departure stamp is missing for {}: their send times are the program's",
            count(lost, "packet")
        ));
    }
    let on_purpose = s.stamps.receive_pause_ns.map_or_else(String::new, |ns| {
        format!("; up to {} of it intended, to read several packets at once", eng4(ns))
    });
    for (mean, max, what, besides) in [
        (s.stamps.send_lag_mean_ns, s.stamps.send_lag_max_ns, "from the send call to the send stamp", ""),
        (
            s.stamps.receive_lag_mean_ns,
            s.stamps.receive_lag_max_ns,
            "from the arrival stamp to the program",
            &*on_purpose,
        ),
    ] {
        if let (Some(mean), Some(max)) = (mean, max) {
            page.item(&format!("{what}: mean {}, largest {}{besides}", eng4(mean), eng4(max)));
        }
    }
    let hosts = [&s.session.client, &s.session.server];
    hosts
        .iter()
        .filter_map(|host| describe(host.interface.as_ref()?))
        .for_each(|text| page.item(&printable(&text)));
    unknown_queues(s).into_iter().for_each(|text| page.item(text));
    if let Some(q) = &s.local_queue {
        let bound = match q.bounded {
            0 => String::new(),
            all if all == q.n => {
                "; upper bounds from the program's send times, because the kernel stamped no queue entry"
                    .to_owned()
            }
            some => format!("; for {} an upper bound from the program's send time", count(some, "packet")),
        };
        page.item(&format!(
            "in the sending host's own queue, not included in the path's delay: median {}, mean {}, 99% {}, \
             largest {}{bound}",
            eng4_f64(q.median),
            eng4_f64(q.mean),
            eng4(q.p99),
            eng4(q.max)
        ));
    }
    if let Some(e) = &s.schedule_error {
        page.item(&format!(
            "the sender's schedule error: median {}, 99% {}, largest {}; {} more than half a period late",
            eng4_f64(e.median),
            eng4(e.p99),
            eng4(e.max),
            count(e.over_half_period, "packet")
        ));
        if let Some(p) = e.handed_over.as_ref().filter(|p| p.over_half_period < e.over_half_period) {
            page.item(&format!(
                "the same without the time in the host's own queue, for the program alone: 99% {}, largest {}; {} \
                 more than half a period late",
                eng4(p.p99),
                eng4(p.max),
                count(p.over_half_period, "packet")
            ));
        }
    }
    if let Some(i) = &s.intended_latency {
        page.item(&format!(
            "delay from the scheduled send time: min {}, mean {}, max {}; jitter 99% {}, 99.9% {}",
            eng4(i.min),
            eng4_f64(i.mean),
            eng4(i.max),
            eng4(i.pdv_p99),
            eng4(i.pdv_p999)
        ));
    }
    if let Some(w) = &s.stalls.without {
        page.item(&format!(
            "without {} that a host may have delayed: std dev {}, jitter 99% {}, 99.9% {}, 100% {}",
            count(s.counts.unique_valid.saturating_sub(w.n), "packet"),
            dash(w.stddev.map(eng4_f64)),
            eng4(w.pdv_p99),
            eng4(w.pdv_p999),
            eng4(w.pdv_max)
        ));
    }
    if let Some(noise) = &s.noise {
        let f = &noise.floor;
        page.item(&format!(
            "this host alone, over its loopback ({}): jitter 50% {}, 99% {}, 100% {}; wakes up {} late, 99% {}; a \
             clock reading takes {}, at most {}",
            count(f.packets, "packet"),
            eng4(f.pdv_p50.0),
            eng4(f.pdv_p99.0),
            eng4(f.pdv_max.0),
            eng4(f.wake_p50.0),
            eng4(f.wake_p99.0),
            eng4(f.clock_read.0),
            eng4(f.clock_stall.0)
        ));
        if let Some(net) = noise.stddev_net {
            page.item(&format!(
                "std dev without this host's share: {}, assuming independence",
                eng4_f64(net)
            ));
        }
    }
    for (name, host) in [("client", &s.session.client), ("server", &s.session.server)] {
        for note in &host.notes {
            page.item(&format!("{name}: {}", printable(note)));
        }
    }
}

fn coverage(c: &Coverage) -> String {
    let n = c.hardware + c.kernel + c.wire + c.user;
    let sources = [(c.hardware, "hardware"), (c.kernel, "kernel"), (c.wire, "wire"), (c.user, "user")];
    let parts: Vec<String> = sources
        .iter()
        .filter(|(k, _)| *k > 0)
        .map(|(k, name)| if *k == n { (*name).to_owned() } else { format!("{name} {}", share(*k, n)) })
        .collect();
    if parts.is_empty() { "-".to_owned() } else { parts.join(", ") }
}

/// Adds the IP header fields of received packets.
fn far_end(page: &mut Page, s: &Summary) {
    let f = &s.far_end;
    if f.dscp.is_empty() && f.ttl.is_empty() && f.odd_sizes == 0 {
        return;
    }
    page.heading(if s.two_way.is_some() { "In the answers" } else { "At the far end" });
    let of_answers = s.two_way.as_ref().and_then(|t| t.answer_dscp);
    let (asked, how) = of_answers.map_or((s.header.dscp, "sent"), |dscp| (dscp, "asked for"));
    if !f.dscp.is_empty() {
        let as_sent = f.dscp.len() == 1 && f.dscp.contains_key(&asked);
        let seen = mixture(&f.dscp, |v| dscp(*v));
        page.item(&if as_sent {
            format!("DSCP {seen}, as {how}")
        } else {
            let how = if of_answers.is_some() { "asked for" } else { "sent as" };
            format!("DSCP {seen}, {how} {}", dscp(asked))
        });
    }
    if f.ecn.keys().any(|ecn| *ecn != 0) {
        page.item(&format!("ECN {}", mixture(&f.ecn, |v| ecn(*v))));
    }
    if !f.ttl.is_empty() {
        let several = if f.ttl.len() > 1 { ": paths of different length" } else { "" };
        page.item(&format!("TTL {}{several}", mixture(&f.ttl, u8::to_string)));
    }
    // In two-way tests, the far host may answer all requests with another size.
    let is_agreed = !s.session.tags.contains_key("instrument");
    if f.odd_sizes > 0 && is_agreed && (s.two_way.is_none() || f.odd_sizes < s.counts.received) {
        page.item(&format!("{} of a size other than agreed", count(f.odd_sizes, "packet")));
    }
}

/// Adds the tables of marks (ECN).
fn marks(page: &mut Page, s: &Summary) {
    for (name, rows) in crate::marks::tables(s) {
        let title = if name.is_empty() { "Marks (ECN)".to_owned() } else { format!("Marks (ECN), {name}") };
        page.heading(&title);
        let heads = crate::marks::HEADS.map(str::to_owned);
        let all: Vec<[String; 8]> = std::iter::once(heads).chain(rows).collect();
        let width = |k: usize| all.iter().map(|row| row[k].chars().count()).max().unwrap_or(0);
        let widths: [usize; 8] = std::array::from_fn(width);
        for row in &all {
            let [first, others @ ..] = row;
            let mut line = format!("{first:<0$}", widths[0]);
            for (cell, width) in others.iter().zip(&widths[1..]) {
                line += &format!("  {cell:>width$}");
            }
            page.line(&format!("    {line}"));
        }
    }
}

/// Returns the name of a DSCP, or its number if it has no name.
pub(super) fn dscp(value: u8) -> String {
    Dscp::new(value.into()).map_or_else(|| value.to_string(), |d| d.to_string())
}

/// Returns the name of an ECN field.
pub(super) fn ecn(value: u8) -> String {
    ["Not-ECT", "ECT(1)", "ECT(0)", "CE"][usize::from(value & 3)].to_owned()
}

/// Returns the value, such as `EF`, if it is the only one, otherwise each value with its share, most frequent
/// first.
pub(super) fn mixture<K>(counts: &BTreeMap<K, u64>, name: impl Fn(&K) -> String) -> String {
    const SHOWN: usize = 6;
    let total = counts.values().sum();
    let mut all: Vec<(&K, &u64)> = counts.iter().collect();
    all.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    if let [(only, _)] = all.as_slice() {
        return name(only);
    }
    let mut parts: Vec<String> =
        all.iter().take(SHOWN).map(|(k, n)| format!("{} {}", name(k), share(**n, total))).collect();
    if all.len() > SHOWN {
        parts.push(format!("{} more", all.len() - SHOWN));
    }
    parts.join(", ")
}

fn warnings(page: &mut Page, s: &Summary) {
    if s.warnings.is_empty() {
        return;
    }
    page.heading("Warnings");
    for w in &s.warnings {
        page.marked("warning:", Some(WordStyle::Poor), &printable(&w.text));
    }
}

/// Adds the progress of a test that did not end normally. The reason is among the warnings.
fn ending(page: &mut Page, s: &Summary) {
    let how = match s.session.ending {
        Ending::Complete | Ending::Unknown => return,
        Ending::Interrupted => "interrupted",
        Ending::PeerLost => "the other side was lost",
        Ending::ServerStopped => "the server was stopped",
        Ending::StorageFailed => "the results could not be stored in full",
    };
    page.heading(if s.session.ending == Ending::StorageFailed { "Storage" } else { "Ended early" });
    page.item(&format!("{how}; {} of {} packets sent", s.counts.sent, s.header.npkts));
}
