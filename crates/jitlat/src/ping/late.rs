//! LaTe's options of `jitlat ping`: the description of a test for LaTe's formats, and the destinations of samples while
//! the test runs.

use crate::options::late::LateArgs;
use crate::options::ping::PingArgs;
use anyhow::Result;
use jitlat_core::time::SECOND;
use jitlat_instruments::Ping;
use jitlat_net::clock;
use jitlat_net::stamp::StampMode;
use jitlat_output::late::{CarbonSettings, LateTest, SampleStreams};
use jitlat_store::late::summary::{LateGaps, LatencyType, Setting};

/// Creates the description of the test, and the connections to programs that receive its samples.
pub fn test(args: &PingArgs, ping: &Ping) -> Result<(LateTest, Option<SampleStreams>)> {
    let LateArgs { late_stream, graphite, graphite_path, graphite_every, graphite_udp, .. } = &args.late;
    let carbon = graphite.clone().map(|server| CarbonSettings {
        server,
        path: graphite_path.clone(),
        every: *graphite_every,
        udp: *graphite_udp,
    });
    Ok(LateTest::new(setting(args, ping)?, late_stream.as_deref(), carbon))
}

fn setting(args: &PingArgs, ping: &Ping) -> Result<Setting> {
    let random = LateGaps::of(ping.schedule, ping.period);
    let protocol = &args.protocol;
    let name = protocol.protocol.name;
    Ok(Setting {
        unidirectional: protocol.text("mode") == Some("unidir"),
        raw: protocol.has("raw"),
        // For LaMP, LaTe names the protocol below it.
        protocol: if name == "lamp" { "UDP".to_owned() } else { name.to_uppercase() },
        priority: ping.priority.unwrap_or(0),
        payload: ping.size()? - ping.client.sizes().header,
        packets: args.duration.is_none().then_some(args.packets),
        duration: args.duration.map(|d| (d.0 / SECOND).unsigned_abs()),
        interval: ping.wait.map_or(random.map_or(ping.period.0, |r| r.1), |wait| wait.0),
        random: random.map(|r| r.0),
        latency: match ping.stamps {
            StampMode::User => LatencyType::User,
            StampMode::KernelReceive => LatencyType::Krt,
            StampMode::Kernel => LatencyType::Software,
            StampMode::Hardware => LatencyType::Hardware,
        },
        follow_up: protocol.has("follow-up"),
        began: clock::wall(),
        levels: args.late.late_confidence.0,
        extra: args.late.late_extra,
    })
}
