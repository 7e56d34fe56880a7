//! Sentences that would mislead a reader. Each of them once appeared, and must not return.

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

/// Returns all text of the verdict.
fn verdict_text(s: &Summary) -> String {
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
        let (answer, all) = (s.answer.as_ref().unwrap(), verdict_text(&s));
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
            // No player of speech has a smaller buffer.
            let least = jitlat_verdict::severity::MIN_SPEECH_BUFFER_NS;
            let buffer = answer.buffer_ns.map(|ns| ns.max(least));
            assert_eq!(voice.buffer_ns, buffer, "{name}: two buffers are recommended");
        }
        assert!(!all.contains("without a single reason") && !all.contains("carries less"), "{name}: {all}");
    }
}

#[test]
fn one_lost_packet_of_700_is_good() {
    let s = saved("one_lost_of_700");
    assert!(verdict_text(&s).starts_with("Good: nothing is wrong"), "{}", verdict_text(&s));
    assert!(s.verdicts.iter().all(|v| v.level <= Level::Note), "{}", verdict_text(&s));
}

#[test]
fn an_outage_is_no_burst() {
    let s = saved("real_link_down");
    assert!(
        verdict_text(&s).starts_with("Bad: no packet arrived for 3.0 s, from 8.5 s on."),
        "{}",
        verdict_text(&s)
    );
    assert!(!verdict_text(&s).contains("in bursts"), "{}", verdict_text(&s));
}

#[test]
fn a_queue_throughout_is_no_clock() {
    let s = saved("queued_throughout");
    assert!(verdict_text(&s).contains("packets waited up to 97 ms in a queue"), "{}", verdict_text(&s));
    assert!(
        !verdict_text(&s).contains("clocks disagree") && !verdict_text(&s).contains("clock estimate"),
        "{}",
        verdict_text(&s)
    );
}

#[test]
fn what_was_not_recorded_is_unknown() {
    for name in ["real_killed_client", "real_killed_server", "real_cut_file", "real_full_disk"] {
        let s = saved(name);
        assert!(verdict_text(&s).starts_with("The log is incomplete"), "{name}: {}", verdict_text(&s));
        assert_eq!(s.counts.lost, 0, "{name}");
        assert!(s.answer.is_some_and(|a| !a.complete), "{name}");
    }
}

#[test]
fn a_route_of_another_length_is_no_queue() {
    let s = saved("route_step_320us");
    assert!(
        verdict_text(&s).starts_with("Good: the path became 321 us longer at 17.0 s: a route change"),
        "{}",
        verdict_text(&s)
    );
}

#[test]
fn a_queue_at_home_is_no_stall() {
    let s = saved("real_local_queue");
    assert!(verdict_text(&s).contains("in the sending host's own interface"), "{}", verdict_text(&s));
    assert!(s.warnings.iter().all(|w| w.code != "sender_late"), "{}", verdict_text(&s));
}

#[test]
fn a_queue_in_one_direction_is_reported_with_that_direction() {
    let s = saved("real_upload_stamp");
    assert!(verdict_text(&s).contains("in a queue in the up direction"), "{}", verdict_text(&s));
}

#[test]
fn packets_that_arrive_twice_are_mentioned() {
    assert!(verdict_text(&saved("everything_twice_v1")).contains("100 % of packets arrive twice"));
}

#[test]
fn few_packets_give_no_verdict() {
    let s = saved("sixty_packets_v1");
    assert!(verdict_text(&s).starts_with("No verdict: 60 packets are too few"), "{}", verdict_text(&s));
}

#[test]
fn an_offset_of_clocks_is_no_delay() {
    // Clocks 1.5 h apart, without any estimate of their offset.
    let far = saved("clean_wifi_offset_v1");
    assert!(verdict_text(&far).starts_with("Good: nothing is wrong"), "{}", verdict_text(&far));
}

#[test]
fn a_long_way_between_clocks_that_differ_is_a_delay() {
    // 1.6 s in each direction, clocks 31 s apart: the probes' shortest round trip took 3.2 s.
    let long = golden("c_unsync_v2");
    assert!(verdict_text(&long).starts_with("Bad: packets take 1.6 s one way"), "{}", verdict_text(&long));
    let answer = long.answer.unwrap();
    assert!(answer.profiles["voice"].severity == Severity::Bad && answer.profiles["voice"].mos < Some(3.0));
}
