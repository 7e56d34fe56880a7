//! From a finished two-way test to what the user asked to see.

use super::args::{LampMode, PingArgs, Proto};
use super::measure::Found;
use anyhow::Result;
use jitlat_core::analysis::{self, Analyzer, Samples};
use jitlat_core::record::Moment;
use jitlat_core::summary::Summary;
use jitlat_core::twoway::{View, processing, project};
use jitlat_core::{Span, units};
use jitlat_proto::twoway::pinger::Oddities;
use jitlat_report::text::{self, Style};
use jitlat_store::log::LogFile;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;

/// Everything computed from one test.
pub struct Analysed {
    pub round_trip: Summary,
    pub up: Option<Summary>,
    pub down: Option<Summary>,
    processing: Option<(Span, Span)>,
}

impl Analysed {
    pub fn analyse(found: &Found) -> Analysed {
        Analysed::with_samples(found).0
    }

    /// Also the round trips themselves.
    pub fn with_samples(found: &Found) -> (Analysed, Samples) {
        let view = |view: View| {
            let mut session = found.session.clone();
            if view == View::RoundTrip {
                session.server = jitlat_core::session::HostFacts::default();
            }
            if view == View::Down {
                session.spec = session.spec.reversed();
                (session.src, session.dst) = (session.dst, session.src);
            }
            let mut analyzer = Analyzer::new(&session, &analysis::Options::default());
            found.records.iter().filter_map(|r| project(r, view)).for_each(|r| analyzer.push(&r));
            analyzer.finish_with_samples(&session)
        };
        let one_way = found.far_clock && found.records.iter().any(|r| r.arrived().is_some());
        let times = || found.records.iter().filter_map(processing);
        let (mut round_trip, samples) = view(View::RoundTrip);
        of_one_clock(&mut round_trip);
        let result = Analysed {
            round_trip,
            up: one_way.then(|| view(View::Up).0),
            down: one_way.then(|| view(View::Down).0),
            processing: times().min().zip(times().max()),
        };
        (result, samples)
    }

    pub fn json(&self, args: &PingArgs, found: &Found) -> Result<serde_json::Value> {
        let mut value = serde_json::to_value(&self.round_trip)?;
        let report = found.report.map(|r| {
            serde_json::json!({
                "min_us": r.min_us, "mean_us": r.mean_us, "max_us": r.max_us, "variance_us2": r.variance_us2,
                "received": r.received, "out_of_order": r.out_of_order, "errors": r.errors,
                "duplicates": r.duplicates, "timed_out": r.timed_out, "highest_seq": r.highest_seq,
            })
        });
        let directions = found.directions.stateful.then_some(found.directions);
        if let Some(object) = value.as_object_mut() {
            object.insert(
                "two_way".to_owned(),
                serde_json::json!({
                    "protocol": args.proto.name(),
                    "sending": if args.wait.is_some() { "stop_and_wait" } else { "open_loop" },
                    "up": self.up,
                    "down": self.down,
                    "directions": directions,
                    "processing_min_ns": self.processing.map(|p| p.0.0),
                    "processing_max_ns": self.processing.map(|p| p.1.0),
                    "not_answers": found.oddities,
                    "unsent": found.unsent,
                    "far_report": report,
                    "remarks": found.remarks,
                }),
            );
        }
        Ok(value)
    }

    pub fn console(&self, args: &PingArgs, to: SocketAddr, found: &Found) -> String {
        let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let style = if colour { Style::Colour } else { Style::Plain };
        let options = text::Options { style, ..text::Options::default() };
        let mut page = String::new();
        let sending = match args.wait {
            Some(wait) => format!("stop and wait, {} after each answer", span(wait)),
            None => format!("one every {} (open loop)", span(found.session.spec.period())),
        };
        let _ = writeln!(
            page,
            "{} to {}: {} requests of {} bytes, {sending}",
            args.proto.name().to_uppercase(),
            if args.proto == Proto::Icmp { to.ip().to_string() } else { to.to_string() },
            found.requests,
            found.session.spec.payload(),
        );
        if let Some(report) = &found.report {
            let _ = writeln!(page, "\n== the server's report, one-way (two clocks)");
            let min = report.min_us.map_or("-".to_owned(), |m| m.to_string());
            let _ = writeln!(
                page,
                "received {} of {}, out of order {}, duplicates {}, errors {}",
                report.received,
                found.requests,
                report.out_of_order,
                report.duplicates.map_or("not looked for".to_owned(), |d| d.to_string()),
                report.errors
            );
            let _ = writeln!(
                page,
                "min/avg/max latency: {min}/{:.1}/{} us, stddev {:.1} us",
                report.mean_us,
                report.max_us,
                report.variance_us2.sqrt()
            );
            return page;
        }
        if args.proto == Proto::Lamp && args.mode == LampMode::Unidir {
            page.push_str("the server sent no report\n");
            return page;
        }
        page.push_str("\n== round trip\n");
        page.push_str(&text::report(&self.round_trip, &options));
        let d = &found.directions;
        if d.stateful {
            let _ = writeln!(
                page,
                "\nby direction       there  back\nlost             {:>7} {:>5}\nduplicated       {:>7} {:>5}\n\
                 reordered        {:>7} {:>5}",
                d.up_lost, d.down_lost, d.up_duplicates, d.down_duplicates, d.up_reordered, d.down_reordered
            );
            if d.unknown_lost > 0 {
                let _ = writeln!(page, "lost at the end, direction not known: {}", d.unknown_lost);
            }
        }
        if let Some((least, most)) = self.processing {
            let _ = writeln!(page, "far host's own time: {} to {} (left out above)", span(least), span(most));
        }
        for (name, view) in [("there", &self.up), ("back", &self.down)] {
            if let Some(s) = view {
                let jitter = |p: &Option<String>| p.clone().unwrap_or_else(|| "-".to_owned());
                let _ = writeln!(
                    page,
                    "one way {name:<5}: min {}, avg {}, max {} (two clocks); jitter 99 % {}",
                    jitter(&s.display.min),
                    jitter(&s.display.avg),
                    jitter(&s.display.max),
                    jitter(&s.display.pdv_p99)
                );
            }
        }
        for remark in &found.remarks {
            let _ = writeln!(page, "{remark}");
        }
        let o = found.oddities;
        if o != Oddities::default() {
            let _ = writeln!(
                page,
                "received and not counted: {} foreign, {} malformed, {} forged, {} answers to nothing asked",
                o.foreign, o.malformed, o.forged, o.unmatched
            );
        }
        if found.unsent > 0 {
            let _ = writeln!(page, "{} requests could not be sent", found.unsent);
        }
        page
    }
}

/// Both ends of a round trip are on this host's clock: what the analysis says of two clocks does not apply.
fn of_one_clock(s: &mut Summary) {
    s.clock.server = Default::default();
    s.skew_hull = None;
    s.pdv_deskewed = None;
    s.warnings.retain(|w| !matches!(w.code, "clocks_unknown" | "skew"));
}

fn span(s: Span) -> String {
    units::eng4(s.0)
}

pub fn write_log(mut log: LogFile, found: &Found) -> Result<()> {
    let mut session = found.session.clone();
    session.tags.push(("view".to_owned(), "round-trip".to_owned()));
    log.begin(&session);
    found.records.iter().filter_map(|r| project(r, View::RoundTrip)).for_each(|r| log.record(&r));
    log.finish(&session);
    log.close()?;
    Ok(())
}

pub fn write_csv(out: &mut dyn io::Write, found: &Found) -> io::Result<()> {
    writeln!(
        out,
        "seq,sent_ns,arrived_ns,answered_ns,returned_ns,round_trip_ns,processing_ns,bytes,ttl,dscp"
    )?;
    let text = |v: Option<i64>| v.map_or_else(String::new, |v| v.to_string());
    for r in &found.records {
        let time = |m| text(r.time(m).map(|t| t.0));
        writeln!(
            out,
            "{},{},{},{},{},{},{},{},{},{}",
            r.seq,
            time(Moment::Sent),
            if found.far_clock { time(Moment::Arrived) } else { String::new() },
            if found.far_clock { time(Moment::Answered) } else { String::new() },
            time(Moment::Returned),
            text(jitlat_core::twoway::round_trip(r).map(|s| s.0)),
            text(processing(r).map(|s| s.0)),
            text(r.size().map(i64::from)),
            text(r.ttl().map(i64::from)),
            text(r.dscp().map(i64::from)),
        )?;
    }
    Ok(())
}
