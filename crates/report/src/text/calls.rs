//! RTP streams and calls in captures.

use super::count;
use jitlat_core::units;
use jitlat_passive::rtp::{ClockRateSource, RtpCall, RtpResult, RtpStream};
use std::fmt::Write as _;

/// Name of the source of a clock rate.
fn source_name(source: ClockRateSource) -> &'static str {
    match source {
        ClockRateSource::Assigned => "assigned",
        ClockRateSource::Signalled => "signalled",
        ClockRateSource::Given => "given",
        ClockRateSource::Estimated => "estimated",
    }
}

/// Formats the streams of the calls with the indices `shown`.
pub fn calls(r: &RtpResult, shown: &[usize]) -> String {
    // Writing to a string cannot fail.
    let mut t = String::new();
    let _ = writeln!(
        t,
        "{}, {} in {}",
        count(r.udp_packets, "UDP packet"),
        count(r.streams.len() as u64, "RTP stream"),
        count(r.calls.len() as u64, "call")
    );
    for k in shown {
        if let Some(call) = r.calls.get(*k) {
            one(&mut t, *k, call, r);
        }
    }
    for note in r.notes() {
        let _ = writeln!(t, "note: {note}");
    }
    t
}

fn one(t: &mut String, k: usize, call: &RtpCall, r: &RtpResult) {
    let [caller, called] = call.ends(&r.streams);
    let _ = writeln!(t, "\ncall {}: {caller} and {called}", k + 1);
    if let Some(s) = &call.signalling {
        let (how, at) =
            s.invited.map_or(("invitation not recorded, first message", s.began), |at| ("invited", at));
        let _ = writeln!(t, "  Call-ID {}, {how} {}", s.call_id, units::utc_date(at));
        if let Some((answered, invited)) = s.answered.zip(s.invited) {
            let _ = writeln!(t, "  answered after {}", units::eng4((answered - invited).0));
        }
    }
    if let Some(round_trip) = call.round_trip_ns {
        let _ = writeln!(t, "  round trip {} (RTCP, smallest)", units::eng4(round_trip.0));
    }
    if call.ssrc_changes > 0 {
        let _ = writeln!(t, "  {} of the source (SSRC)", count(call.ssrc_changes, "change"));
    }
    for s in call.streams.iter().filter_map(|s| r.streams.get(s.stream)) {
        stream(t, s);
    }
}

fn stream(t: &mut String, s: &RtpStream) {
    let _ = writeln!(t, "  {} > {}, SSRC {:08x}, {}", s.from, s.to, s.ssrc, units::utc_date(s.first));
    let mut row = |name: &str, text: Option<String>| {
        if let Some(text) = text {
            let _ = writeln!(t, "    {name:<26} {text}");
        }
    };
    let some = |n: u64| (n > 0).then(|| n.to_string());
    let eng = |ns: Option<i64>| ns.map(units::eng4);
    let types = s.payload_types.iter().map(|p| {
        let codec =
            p.codec.as_deref().unwrap_or(if p.is_event { "telephone event" } else { "unknown codec" });
        format!("{} ({codec}) {}", p.payload_type, count(p.packets, "packet"))
    });
    row("payload types", Some(types.collect::<Vec<_>>().join(", ")));
    row("transport", s.over_tcp.then(|| "TCP: a lost segment delays the packets behind it".to_owned()));
    let rate = s.clock_rate.zip(s.clock_rate_source);
    row(
        "clock rate",
        Some(rate.map_or("unknown".to_owned(), |(rate, by)| format!("{rate} Hz, {}", source_name(by)))),
    );
    row("time between packets", eng(s.packet_time_ns.map(|span| span.0)));
    row("packets", Some(format!("{} of {}", s.packets, s.expected)));
    row("lost", Some(s.lost.to_string()));
    row("not recorded", some(s.not_recorded));
    row("duplicates", some(s.duplicates));
    row("reordered", some(s.reordered));
    row("new numberings", some(s.restarts));
    row("stray packets", some(s.strays));
    row("media clock set", some(s.clock_sets));
    row(
        "silences",
        (s.silences > 0).then(|| format!("{}, {} in all", s.silences, units::eng4(s.silence_ns.0))),
    );
    row("telephone events", some(s.events));
    row("largest gap", eng(s.max_delta_ns.map(|span| span.0)));
    if let Some(j) = s.jitter {
        row("RFC 3550 jitter, mean", Some(units::eng4_f64(j.mean_ns)));
        row("                 max", Some(units::eng4_f64(j.max_ns)));
        row("                 last", Some(format!("{}, {} units", units::eng4_f64(j.last_ns), j.last_units)));
    }
    row("sender reports", some(s.rtcp.sender_reports));
    if let Some(r) = s.rtcp.reported {
        row("receiver reports", some(s.rtcp.receiver_reports));
        row("  lost, as reported", Some(r.lost.to_string()));
        row("  largest share", Some(format!("{:.1} %", 100.0 * r.max_fraction_lost)));
        row("  largest jitter", eng(r.max_jitter_ns));
    }
    if let Some(r) = s.rtcp.round_trip_ns {
        row(
            "to the receiver and back",
            Some(format!("min {}, median {}", units::eng4(r.min), units::eng4(r.median))),
        );
    }
    if let Some(l) = &s.rtcp.losses {
        let text = format!("{} of {}, at most {} in a row", l.lost, l.packets, l.longest_run);
        row("  lost, as listed (XR)", Some(text));
    }
    if let Some(x) = &s.rtcp.statistics {
        row("  statistics (XR), lost", x.lost.map(|n| n.to_string()));
        row("  statistics, duplicates", x.duplicates.map(|n| n.to_string()));
    }
    if let Some(v) = &s.rtcp.voip {
        let shares = format!("{:.1} % lost, {:.1} % discarded", 100.0 * v.loss_rate, 100.0 * v.discard_rate);
        row("as the phone reports (XR)", Some(shares));
        row("  round trip, own delay", Some(format!("{} ms, {} ms", v.round_trip_ms, v.end_system_delay_ms)));
        row("  buffer", Some(format!("{} ms, largest {} ms", v.buffer_ms, v.buffer_max_ms)));
        row("  R factor", v.r_factor.map(|r| r.to_string()));
        row("  MOS, listening", v.mos_lq.map(|mos| format!("{mos:.1}")));
        row("  MOS, conversation", v.mos_cq.map(|mos| format!("{mos:.1}")));
    }
}
