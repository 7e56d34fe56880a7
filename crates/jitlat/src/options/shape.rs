//! Makes a test send like the first profile of `--profile`, except for settings that have their own options.

use super::one_way::StreamArgs;
use super::ping::PingArgs;
use super::profile::ProfileArgs;
use clap::ArgMatches;
use clap::parser::ValueSource;
use jitlat_core::spec::Dscp;
use jitlat_core::time::Span;
use jitlat_verdict::Profile;

/// Makes a one-way test send like the first profile, except for options in `given`.
pub fn shape_stream(uses: &ProfileArgs, stream: &mut StreamArgs, given: &ArgMatches) {
    let Some(profile) = uses.sends() else { return };
    let free = |id| is_default(given, id);
    if free("payload") {
        stream.payload = profile.payload.into();
    }
    if free("period") && stream.rate.is_none() {
        stream.period = period(profile);
    }
    if free("packets") && stream.duration.is_none() {
        stream.duration = Some(duration(profile));
    }
    if free("dscp") {
        stream.dscp = dscp(profile);
    }
}

/// Makes a two-way test send like the first profile, except for options in `given`.
pub fn shape_ping(uses: &ProfileArgs, ping: &mut PingArgs, given: &ArgMatches) {
    let Some(profile) = uses.sends() else { return };
    let free = |id| is_default(given, id);
    ping.protocol.payload.get_or_insert(profile.payload.into());
    if free("period") && ping.rate.is_none() {
        ping.period = period(profile);
    }
    if free("packets") && ping.duration.is_none() && ping.wait.is_none() {
        ping.duration = Some(duration(profile));
    }
    if free("dscp") {
        ping.dscp = dscp(profile);
    }
}

fn is_default(given: &ArgMatches, id: &str) -> bool {
    given.value_source(id) != Some(ValueSource::CommandLine)
}

fn period(profile: &Profile) -> Span {
    Span((profile.period_ms * 1e6).round() as i64)
}

fn duration(profile: &Profile) -> Span {
    Span((profile.duration_s * 1e9).round() as i64)
}

fn dscp(profile: &Profile) -> Dscp {
    Dscp::new(profile.dscp.into()).unwrap_or_default()
}
