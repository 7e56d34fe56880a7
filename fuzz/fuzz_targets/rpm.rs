//! The configuration document of a responsiveness server, and a stage driven by any events: no panic, URLs are written
//! and read again unchanged, a stage has a deadline until it ends, and it ends by its time limit.
#![no_main]
// Aims at: crates/proto/src/rpm

use jitlat_core::{Span, SteadyTime};
use jitlat_proto::rpm::resources::{TestResources, WebUrl};
use jitlat_proto::rpm::score::ForeignTimes;
use jitlat_proto::rpm::stage::{AnsweredProbe, LoadStage, ProbeKind, ProbeTimes, StageCommand};
use jitlat_proto::rpm::{LoadDirections, RpmParameters};
use libfuzzer_sys::fuzz_target;

fn document(bytes: &[u8]) {
    let Ok(found) = TestResources::parse(bytes) else { return };
    for url in [&found.small, &found.large, &found.upload] {
        assert_eq!(url.to_string().parse::<WebUrl>().as_ref(), Ok(url));
        assert!(url.host.eq_ignore_ascii_case(&found.small.host));
    }
    let ours = TestResources::document(&found.small.authority());
    let again = TestResources::parse(ours.as_bytes()).expect("a document of ours");
    assert_eq!(again.small.authority(), found.small.authority());
}

fn stage(bytes: &[u8]) {
    let [load, connections, rate, operations @ ..] = bytes else { return };
    let load = [LoadDirections::Down, LoadDirections::Up, LoadDirections::Both][usize::from(load % 3)];
    let parameters = RpmParameters {
        interval: Span::millis(500),
        max_connections: usize::from(connections % 20),
        probes_per_second: u32::from(*rate),
        time_limit: Span::seconds(10),
        ..RpmParameters::default()
    };
    let began = SteadyTime(0);
    let mut stage = LoadStage::new(parameters, load, began);
    let (mut now, mut bytes, mut sent) = (began, [0u64; 2], [0u32; 2]);
    for pair in operations.chunks_exact(2) {
        let (kind, value) = (pair[0] % 8, i64::from(pair[1]));
        let time = Span::millis(value);
        match kind {
            0 => stage.handle_connected(now),
            1 => {
                let times = ForeignTimes { tcp: time, tls: (value % 2 == 0).then_some(time), http: time };
                let probe =
                    AnsweredProbe { began: now, ended: now + time, times: ProbeTimes::Foreign(times) };
                stage.handle_probe(probe);
            }
            2 => stage.handle_probe(AnsweredProbe {
                began: now,
                ended: now + time,
                times: ProbeTimes::Own(time),
            }),
            3 => stage.handle_failed_probe(ProbeKind::Own, "failed", now),
            4 if value == 0 => stage.handle_failed_load("failed", now),
            5 if value == 0 => stage.interrupt(now),
            6 => bytes[(value % 2) as usize] = bytes[(value % 2) as usize].wrapping_add(1 << (value % 40)),
            _ => now = now + time,
        }
        stage.handle_timeout(now, bytes);
        while let Some(command) = stage.poll_command() {
            if let StageCommand::Probe(kind) = command {
                sent[kind as usize] += 1;
            }
        }
        let most = parameters.max_connections.max(1) * load.directions().len();
        assert!(stage.connections() <= most);
        match stage.poll_timeout() {
            Some(due) => assert!(due <= began + parameters.time_limit && !stage.has_ended()),
            None => assert!(stage.has_ended()),
        }
        assert!(stage.has_ended() || now < began + parameters.time_limit);
    }
    let outcome = stage.outcome(now);
    assert_eq!([outcome.foreign.sent, outcome.own.sent], sent);
    assert!(outcome.rpm().is_none_or(|rpm| rpm.is_finite() && rpm > 0.0));
}

fuzz_target!(|input: &[u8]| {
    document(input);
    stage(input);
});
