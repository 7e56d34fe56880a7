//! Judges a path for a profile of your own: `cargo run -p jitlat-verdict --example profile`.

use jitlat_core::answer::Answer;
use jitlat_core::{Options, PacketRecord, Session, Span, TestSpec, WallTime, analyze};
use jitlat_verdict::{PROFILES, Profile, judge_for};
use std::net::{IpAddr, Ipv4Addr};

/// Returns the verdict on packets of which every second one waits `wait`, for a profile that tolerates a delay
/// of 5 ms.
pub fn judge(wait: Span) -> Option<Answer> {
    let surgery = Profile {
        name: "surgery".into(),
        about: "an instrument that a surgeon moves from far away".into(),
        delay_ms: [5.0, 10.0, 20.0],
        own_ms: 0.0,
        speech: false,
        qoo: None,
        ..PROFILES[0].clone()
    };
    let options = Options { judge: Some(judge_for(vec![surgery])), ..Options::default() };
    // Both ends are one host, so one clock: otherwise the delay is unknown, and so is the verdict on this profile.
    let here = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let session = Session { src: here, dst: here, ..Session::new(TestSpec::default()) };
    let records = (0..5000).map(|seq| {
        let sent = WallTime(seq * 20_000_000);
        let delay = if seq % 2 == 0 { Span::millis(1) } else { Span::millis(1) + wait };
        PacketRecord::one_way(seq, sent, sent + delay)
    });
    analyze(&session, records, &options).answer
}

fn main() {
    let Some(answer) = judge(Span::millis(30)) else { return };
    println!("{}", answer.headline);
    for (name, suitability) in &answer.profiles {
        println!("{name}: {} ({})", suitability.severity.name(), suitability.because);
    }
}
