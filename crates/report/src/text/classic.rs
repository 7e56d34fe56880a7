//! The classic report: lines, order, wording and number format of the original tool (DRDC TM 2011-047, Figure 16).

use super::{Page, dash};
use jitlat_core::session::SSRC;
use jitlat_core::spec::{Direction, Transport};
use jitlat_core::summary::{Distribution, MeanRate, Percent, PercentileResolution, Summary};
use jitlat_core::units::{eng4, eng4_f64, full, full_f64, rate_line};

const CLASSIC_PERCENTS: [(Percent, &str); 6] = [
    (Percent(99_000), "99.0%"),
    (Percent(99_300), "99.3%"),
    (Percent(99_500), "99.5%"),
    (Percent(99_700), "99.7%"),
    (Percent(99_900), "99.9%"),
    (Percent(100_000), "100%"),
];

pub(super) fn write(page: &mut Page, s: &Summary, corrected: bool) {
    periods(page, s);
    page.blank();
    packets(page, s);
    page.blank();
    latency(page, s);
    if corrected && !is_media(s) {
        page.blank();
        corrected_latency(page, s);
    }
    page.blank();
    jitter(page, s);
    page.blank();
    clock(page, s);
}

fn periods(page: &mut Page, s: &Summary) {
    let payload = match s.header.pktlen {
        0 => "-".to_owned(),
        bytes => bytes.to_string(),
    };
    page.line(&format!("{:<61}User Throughput", format!("payload = {payload} bytes per packet.")));
    let rate = |r: Option<&MeanRate>| match r {
        Some(r) => rate_line(r.period_ns, r.rate_pps, r.throughput_bps),
        None => "-".to_owned(),
    };
    page.line(&format!("target transmit period = {}", rate(s.periods.target.as_ref())));
    page.line(&format!("average transmit period = {}", rate(s.periods.tx.as_ref())));
    page.line(&format!("average receive period = {}", rate(s.periods.rx.as_ref())));
}

fn packets(page: &mut Page, s: &Summary) {
    const HIDDEN: &str = "not observable with TCP";
    let c = &s.counts;
    let percent = |p: Option<f64>| p.map_or_else(|| "-".to_owned(), |p| format!("{p:.2}%"));
    let tcp = s.header.proto == Transport::Tcp.number();
    page.line(&format!("{} packets sent", c.sent));
    page.line(&format!("{} unique/valid packets received", c.unique_valid));
    page.line(&format!("    {} packets received", c.received));
    if tcp && c.duplicate == 0 {
        page.line(&format!("        duplicate packets: {HIDDEN}"));
    } else {
        page.line(&format!("        {} duplicate packets ({})", c.duplicate, percent(c.duplicate_pct)));
    }
    page.line(&format!("        {} invalid packets ({})", c.invalid, percent(c.invalid_pct)));
    if tcp {
        page.line(&format!("    lost packets: {HIDDEN}"));
        if c.lost > 0 {
            page.line(&format!(
                "    {} packets not delivered before the end ({})",
                c.lost,
                percent(c.lost_pct)
            ));
        }
    } else if !s.expects_answers() {
        page.line("    lost packets: unknown, because no host has to answer a broadcast");
    } else {
        page.line(&format!("    {} lost packets ({})", c.lost, percent(c.lost_pct)));
    }
    if tcp && c.out_of_sequence == 0 {
        page.line(&format!("    out of sequence packets: {HIDDEN}"));
    } else {
        let ratio = percent(c.out_of_sequence_pct);
        page.line(&format!("    {} out of sequence packets ({ratio})", c.out_of_sequence));
    }
}

fn latency(page: &mut Page, s: &Summary) {
    if is_media(s) {
        match s.latency_corrected {
            Some(_) => corrected_latency(page, s),
            None => page.line("latency = - (relative to an unknown constant: only its variation is known)"),
        }
        return;
    }
    let d = &s.latency;
    let [min, avg, max] = [d.min.map(full), d.mean.map(full_f64), d.max.map(full)].map(dash);
    let what = if s.two_way.is_some() { "round trip" } else { "latency" };
    page.line(&format!("min/avg/max {what} = {min} / {avg} / {max}"));
    spread(page, d);
}

/// Adds standard deviation, median and mode.
fn spread(page: &mut Page, d: &Distribution) {
    page.line(&format!("std dev = {}", dash(d.stddev.map(eng4_f64))));
    page.line(&format!("median = {}", dash(d.median.map(eng4_f64))));
    page.line(&format!("mode at {}", dash(d.mode.map(eng4_f64))));
}

fn corrected_latency(page: &mut Page, s: &Summary) {
    let Some(c) = &s.latency_corrected else {
        page.line("corrected latency = - (clock offset unknown)");
        return;
    };
    let [min, avg, max] = [c.min.map(full), c.mean.map(full_f64), c.max.map(full)].map(dash);
    page.line(&format!("min/avg/max corrected latency = {min} / {avg} / {max}"));
    page.line(&format!("median = {}", dash(c.median.map(eng4_f64))));
    let sign = match s.session.direction {
        Direction::Up => "less",
        Direction::Down => "plus",
    };
    let bound = c.bound_ns.map(|b| format!(", which is known to +/- {}", eng4_f64(b))).unwrap_or_default();
    match is_media(s) {
        true => page.line(&format!("(with half of the smallest RTCP round trip as the smallest{bound})")),
        false => page.line(&format!("(latency {sign} the relative clock error{bound})")),
    }
}

fn jitter(page: &mut Page, s: &Summary) {
    let d = &s.pdv;
    let [min, avg, max] = [d.min.map(eng4), d.mean.map(eng4_f64), d.max.map(eng4)].map(dash);
    page.line(&format!("min/avg/max jitter = {min} / {avg} / {max}"));
    spread(page, d);
    page.blank();
    let limit = dash(d.histogram.as_ref().map(|h| eng4(h.hi)));
    page.line(&format!("jitter histogram limited to {limit} (99 percentile)"));
    page.blank();
    page.line("Jitter (PDV) percentile:");
    for (p, name) in CLASSIC_PERCENTS {
        let few = d.percentiles_resolution.at(p) == Some(PercentileResolution::ResolutionLimited)
            && p != Percent(100_000)
            && d.n > 0;
        let note = if few { " (the largest: too few packets)" } else { "" };
        let noise = if s.noise.as_ref().is_some_and(|n| n.marks(p)) { " (<= noise floor)" } else { "" };
        page.line(&format!("{name} = {}{note}{noise}", dash(d.percentiles.at(p).map(eng4))));
    }
}

/// True if a media clock gives the send times, so that delays are relative to an unknown constant.
pub(super) fn is_media(s: &Summary) -> bool {
    s.session.tags.contains_key(SSRC)
}

fn clock(page: &mut Page, s: &Summary) {
    if is_media(s) {
        if let Some(rtt) = s.clock.min_rtt_ns {
            page.line(&format!("Smallest round trip of the call (RTCP) = {}", eng4(rtt)));
        }
        return;
    }
    if let Some(rtt) = s.clock.min_rtt_ns {
        page.line(&format!("Estimated control channel minimum RTT = {}", eng4(rtt)));
    }
    if let Some(offset) = s.clock.offset_ns {
        page.line(&format!("Estimated relative clock error = {}", full(offset)));
    }
    let slope = s.regression_arrival.as_ref();
    let six = |v: Option<f64>| v.map_or_else(|| "-".to_owned(), |v| format!("{v:.6}"));
    let (m, r) = (six(slope.map(|r| r.m)), six(slope.and_then(|r| r.r)));
    page.line(&format!("burstiness plot linear regression, m = {m}, r = {r}"));
}
