//! Messages to a listening program, as LaTe's `-w`: one over TCP at the start and one at the end, one over UDP for each
//! sample.

use super::summary::{LateFigures, Setting, intervals};
use super::{ExtraFields, LateSample, values};
use jitlat_core::WallTime;
use jitlat_core::summary::Summary;
use jitlat_core::time::SECOND;

/// UDP and TCP port of the listening program.
pub const PORT: u16 = 46_001;

/// The first message over TCP: which fields follow.
pub fn start(id: u16, follow_up: bool, extra: ExtraFields) -> String {
    let mut names = vec!["seq", "latency"];
    names.extend(follow_up.then_some("est_proctime"));
    names.extend(["tx_timestamp", "error"]);
    names.extend(extra.lost_so_far.then_some("pertillnow"));
    names.extend(extra.seq.then_some("fullseq"));
    names.extend(extra.min.then_some("currmin"));
    names.extend(extra.max.then_some("currmax"));
    format!("LaTeINIT,{id},fields={}", names.join(";"))
}

/// One sample: a datagram.
pub fn sample(id: u16, sample: &LateSample, follow_up: bool, extra: ExtraFields) -> String {
    format!("LaTe,{id},{}", values(sample, follow_up, extra).join(","))
}

/// The last message over TCP: the figures of the test. `ended` in ns since 1970.
pub fn end(id: u16, s: &Summary, setting: &Setting, highest: Option<u64>, ended: WallTime) -> String {
    let f = LateFigures::of(s, highest);
    let mut all = format!("LaTeEND,{id},timestamp={}", ended.0.div_euclid(SECOND));
    let mut say = |key: &str, value: String| all += &format!(",{key}={value}");
    say("protocol", setting.protocol.clone());
    say("clientmode", if setting.unidirectional { "unidirectional" } else { "pinglike" }.to_owned());
    say("UP", setting.priority.to_string());
    say("payloadlen", setting.payload.to_string());
    say("totpackets", setting.packets.unwrap_or(0).to_string());
    say("testduration_s", setting.duration.unwrap_or(0).to_string());
    say("interval_ms", format!("{:.3}", setting.interval as f64 / 1e6));
    say("interval_type", setting.interval_type().replace(' ', "_"));
    say("int_distr_param", format!("{:.6}", setting.parameter()));
    say("int_distr_batch", setting.batch().to_string());
    say("latencytype", setting.latency.name().to_owned());
    say("followup", u8::from(setting.follow_up).to_string());
    say("min_ms", format!("{:.3}", f.min));
    say("max_ms", format!("{:.3}", f.max));
    say("avg_ms", format!("{:.3}", f.mean));
    say("lostpkts_perc", format!("{:.2}", f.lost_pct));
    say("errors", f.errors.to_string());
    say("outoforder", f.late.to_string());
    say("stdev", format!("{:.4}", f.stddev));
    say("timeout", u8::from(f.timed_out).to_string());
    say("highestseqno", f.highest.map_or(u32::MAX.to_string(), |h| (h % 65_536).to_string()));
    say("losttolast", format!("{:.2}", f.lost_to_highest_pct));
    say("reportok", u8::from(f.successful).to_string());
    let levels = ["90", "95", "99"].into_iter().zip(intervals(s)).zip(setting.levels);
    for ((level, ci), _) in levels.filter(|(_, wanted)| *wanted) {
        let [lo, hi] = ci.unwrap_or([-1.0, -1.0]);
        say(&format!("confint{level}m"), format!("{lo:.3}"));
        say(&format!("confint{level}p"), format!("{hi:.3}"));
    }
    all
}
