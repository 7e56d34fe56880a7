//! Section of a report about a captured call.

use super::Section;
use crate::text::screen::{CapturedCalls, Screen, call_title};
use jitlat_core::units;
use jitlat_passive::rtp::RtpStream;

/// Creates the section of the call with the index `which`; `None` if there is none. It has no figures: the page draws
/// the delay of the call's streams over time.
pub fn call_section(calls: &CapturedCalls<'_>, which: usize) -> Option<Section> {
    let call = calls.result.calls.get(which)?;
    let streams: Vec<&RtpStream> =
        call.streams.iter().filter_map(|s| calls.result.streams.get(s.stream)).collect();
    let mut rows = Vec::new();
    let mut row = |name: &str, f: &dyn Fn(&RtpStream) -> Option<String>| {
        let cells: Vec<Option<String>> = streams.iter().map(|s| f(s)).collect();
        if cells.iter().any(Option::is_some) {
            let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(|| "-".to_owned()));
            rows.push(std::iter::once(name.to_owned()).chain(cells).collect());
        }
    };
    let some = |n: u64| (n > 0).then(|| n.to_string());
    row("codec", &|s| Some(s.codec()));
    row("SSRC", &|s| Some(format!("{:08x}", s.ssrc)));
    row("packets", &|s| Some(s.packets.to_string()));
    row("expected", &|s| Some(s.expected.to_string()));
    row("lost", &|s| Some(s.lost.to_string()));
    row("duplicates", &|s| some(s.duplicates));
    row("reordered", &|s| some(s.reordered));
    row("largest gap", &|s| s.max_delta_ns.map(|gap| units::eng4(gap.0)));
    row("RFC 3550 jitter, mean", &|s| s.jitter.map(|j| units::eng4_f64(j.mean_ns)));
    row("RFC 3550 jitter, largest", &|s| s.jitter.map(|j| units::eng4_f64(j.max_ns)));
    row("silences", &|s| some(s.silences));
    row("telephone events", &|s| some(s.events));
    row("lost, as the receiver reports", &|s| s.rtcp.reported.map(|r| r.lost.to_string()));
    row("to the receiver and back (RTCP)", &|s| s.rtcp.round_trip_ns.map(|r| units::eng4(r.median)));
    let [caller, called] = call.ends(&calls.result.streams);
    let labels = (0..call.streams.len()).map(|k| call.label(k));
    Some(Section {
        title: format!("Call between {caller} and {called}"),
        what: call_title(call, &calls.result.streams),
        screen: Some(Screen::of_call(calls, which)),
        remarks: Vec::new(),
        columns: std::iter::once(String::new()).chain(labels).collect(),
        rows,
        figures: Vec::new(),
    })
}
