//! Sentences that would mislead a reader, each of which appeared once and must not again.

use super::saved::{folder, logs};
use jitlat_core::Analyzer;
use jitlat_core::answer::{CauseId, Level, Severity};
use jitlat_core::summary::Summary;
use jitlat_store::log::LogReader;
use jitlat_verdict::Opinion;
use std::path::Path;

fn summary(log: &Path) -> Summary {
    let mut reader = LogReader::open(log).unwrap();
    let mut analyzer = Analyzer::new(reader.session(), &jitlat_verdict::options());
    reader.records(&mut None).for_each(|record| analyzer.push(&record));
    analyzer.finish(reader.session())
}

fn saved(name: &str) -> Summary {
    summary(&folder().join(name).with_extension("log"))
}

fn golden(name: &str) -> Summary {
    summary(&folder().join("..").join(name).with_extension("log"))
}

/// The whole text about it.
fn said(s: &Summary) -> String {
    let Opinion { headline, findings, .. } = Opinion::of(s);
    let causes = s.answer.iter().flat_map(|a| &a.causes).map(|c| c.because.clone());
    let findings = findings.into_iter().map(|f| f.text);
    let warnings = s.warnings.iter().map(|w| w.text.clone());
    causes.chain(findings).chain(warnings).fold(headline, |all, text| all + "\n" + &text)
}

#[test]
fn figures_and_warnings_agree_with_the_answer() {
    for log in logs() {
        let s = summary(&log);
        let (answer, all) = (s.answer.as_ref().unwrap(), said(&s));
        let name = log.display();
        let gravest = Level::from(answer.severity).max(Level::Note);
        assert!(s.verdicts.iter().all(|v| v.level <= gravest), "{name}: {all}");
        if answer.severity > Severity::Good {
            assert!(!answer.headline.contains("nothing is wrong"), "{name}: {all}");
        }
        if !answer.names(CauseId::RouteChange) && !answer.names(CauseId::ClockStep) {
            assert!(!all.contains("the route or a clock"), "{name}: {all}");
            assert!(!all.contains("changes of the smallest delay"), "{name}: {all}");
        }
        if !answer.names(CauseId::ReceiverStall) {
            assert!(s.warnings.iter().all(|w| w.code != "stall_suspect"), "{name}: {all}");
        }
        if let Some(voice) = answer.profiles.get("voice").filter(|_| answer.severity == Severity::Good) {
            assert_eq!(voice.buffer_ns, answer.buffer_ns, "{name}: two buffers are recommended");
        }
        assert!(!all.contains("without a single reason") && !all.contains("carries less"), "{name}: {all}");
    }
}

#[test]
fn one_lost_packet_of_700_is_good() {
    let s = saved("one_lost_of_700");
    assert!(said(&s).starts_with("Good: nothing is wrong"), "{}", said(&s));
    assert!(s.verdicts.iter().all(|v| v.level <= Level::Note), "{}", said(&s));
}

#[test]
fn an_outage_is_no_burst() {
    let s = saved("real_link_down");
    assert!(said(&s).starts_with("Bad: no packet arrived for 3.0 s, from 8.5 s on."), "{}", said(&s));
    assert!(!said(&s).contains("in bursts"), "{}", said(&s));
}

#[test]
fn a_queue_throughout_is_no_clock() {
    let s = saved("queued_throughout");
    assert!(said(&s).contains("packets waited up to 97 ms in a queue"), "{}", said(&s));
    assert!(!said(&s).contains("clocks disagree") && !said(&s).contains("clock estimate"), "{}", said(&s));
}

#[test]
fn what_was_not_recorded_is_unknown() {
    for name in ["real_killed_client", "real_killed_server", "real_cut_file", "real_full_disk"] {
        let s = saved(name);
        assert!(said(&s).starts_with("The log is incomplete"), "{name}: {}", said(&s));
        assert_eq!(s.counts.lost, 0, "{name}");
        assert!(s.answer.is_some_and(|a| !a.complete), "{name}");
    }
}

#[test]
fn a_route_of_another_length_is_no_queue() {
    let s = saved("route_step_320us");
    assert!(
        said(&s).starts_with("Good: a route change at 17.0 s made the path 321 us longer"),
        "{}",
        said(&s)
    );
}

#[test]
fn a_queue_at_home_is_no_stall() {
    let s = saved("real_local_queue");
    assert!(said(&s).contains("in the sending host's own interface"), "{}", said(&s));
    assert!(s.warnings.iter().all(|w| w.code != "sender_late"), "{}", said(&s));
}

#[test]
fn a_queue_in_one_direction_is_reported_with_that_direction() {
    let s = saved("real_upload_stamp");
    assert!(said(&s).contains("in a queue in the up direction"), "{}", said(&s));
}

#[test]
fn packets_that_arrive_twice_are_mentioned() {
    assert!(said(&saved("everything_twice_v1")).contains("100 % of packets arrive twice"));
}

#[test]
fn few_packets_give_no_verdict() {
    let s = saved("sixty_packets_v1");
    assert!(said(&s).starts_with("No verdict: 60 packets are too few"), "{}", said(&s));
}

#[test]
fn an_offset_of_clocks_is_no_delay() {
    // Clocks 1.5 h apart about which nothing is known.
    let far = saved("clean_wifi_offset_v1");
    assert!(said(&far).starts_with("Good: nothing is wrong"), "{}", said(&far));
}

#[test]
fn a_long_way_between_clocks_that_differ_is_a_delay() {
    // 1.6 s each way, clocks 31 s apart: the probes' shortest round trip took 3.2 s.
    let long = golden("c_unsync_v2");
    assert!(said(&long).starts_with("Bad: packets take 1.6 s one way"), "{}", said(&long));
    let answer = long.answer.unwrap();
    assert!(answer.profiles["voice"].severity == Severity::Bad && answer.profiles["voice"].mos < Some(3.0));
}
