//! Messages to a listening program, as sent by LaTe's option `-w`: one over TCP at the start, one over UDP for each
//! sample, and one over TCP at the end.

use super::summary::{LateFigures, Setting, intervals};
use super::{ExtraFields, LateSample, values};
use jitlat_core::WallTime;
use jitlat_core::summary::Summary;
use jitlat_core::time::SECOND;

/// UDP and TCP port of the listening program.
pub const PORT: u16 = 46_001;

/// Returns the first message over TCP, which lists the fields of the messages that follow.
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

/// Returns the datagram about one sample.
pub fn sample(id: u16, sample: &LateSample, follow_up: bool, extra: ExtraFields) -> String {
    format!("LaTe,{id},{}", values(sample, follow_up, extra).join(","))
}

/// Returns the last message over TCP, which contains the figures of the test. `ended` is in ns since 1970.
pub fn end(id: u16, s: &Summary, setting: &Setting, highest: Option<u64>, ended: WallTime) -> String {
    let f = LateFigures::of(s, highest);
    let mut all = format!("LaTeEND,{id},timestamp={}", ended.0.div_euclid(SECOND));
    let mut add = |key: &str, value: String| all += &format!(",{key}={value}");
    add("protocol", setting.protocol.clone());
    add("clientmode", if setting.unidirectional { "unidirectional" } else { "pinglike" }.to_owned());
    add("UP", setting.priority.to_string());
    add("payloadlen", setting.payload.to_string());
    add("totpackets", setting.packets.unwrap_or(0).to_string());
    add("testduration_s", setting.duration.unwrap_or(0).to_string());
    add("interval_ms", format!("{:.3}", setting.interval as f64 / 1e6));
    add("interval_type", setting.interval_type().replace(' ', "_"));
    add("int_distr_param", format!("{:.6}", setting.parameter()));
    add("int_distr_batch", setting.batch().to_string());
    add("latencytype", setting.latency.name().to_owned());
    add("followup", u8::from(setting.follow_up).to_string());
    add("min_ms", format!("{:.3}", f.min));
    add("max_ms", format!("{:.3}", f.max));
    add("avg_ms", format!("{:.3}", f.mean));
    add("lostpkts_perc", format!("{:.2}", f.lost_pct));
    add("errors", f.errors.to_string());
    add("outoforder", f.late.to_string());
    add("stdev", format!("{:.4}", f.stddev));
    add("timeout", u8::from(f.timed_out).to_string());
    add("highestseqno", f.highest.map_or(u32::MAX.to_string(), |h| (h % 65_536).to_string()));
    add("losttolast", format!("{:.2}", f.lost_to_highest_pct));
    add("reportok", u8::from(f.successful).to_string());
    let levels = ["90", "95", "99"].into_iter().zip(intervals(s)).zip(setting.levels);
    for ((level, ci), _) in levels.filter(|(_, wanted)| *wanted) {
        let [lo, hi] = ci.unwrap_or([-1.0, -1.0]);
        add(&format!("confint{level}m"), format!("{lo:.3}"));
        add(&format!("confint{level}p"), format!("{hi:.3}"));
    }
    all
}
