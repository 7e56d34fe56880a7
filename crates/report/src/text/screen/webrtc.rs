//! Screen report of the WebRTC statistics of a browser.

use super::Screen;
use super::rows::{ScreenTable, StyledCells, describe_loss};
use crate::text::count;
use crate::text::page::mark;
use jitlat_core::answer::Severity;
use jitlat_core::units::eng3;
use jitlat_passive::webrtc::{MediaDirection, SeriesFigures, WebRtcRecord, WebRtcStream};

/// Maximum width of the name of a stream, in columns.
const MAX_NAME_COLUMNS: usize = 30;
/// Maximum number of lines of the table.
const MAX_LINES: usize = 10;

impl Screen {
    /// Creates the screen report of the statistics of a browser, the worst stream first.
    pub fn of_webrtc(record: &WebRtcRecord) -> Screen {
        let mut streams: Vec<(usize, &WebRtcStream)> = record
            .connections
            .iter()
            .enumerate()
            .flat_map(|(k, connection)| connection.streams.iter().map(move |s| (k + 1, s)))
            .collect();
        // The sort is stable: equally bad streams stay in their order.
        streams.sort_by_key(|(_, s)| std::cmp::Reverse(s.severity.doubt()));
        let urls = record.connections.iter().filter_map(|c| c.url.clone());
        let freezes = streams.iter().any(|(_, s)| s.freezes.is_some());
        let heads = ["verdict", "packets", "missing", "jitter", "RTT", "buffer", "MOS"].into_iter();
        let heads = heads.chain(freezes.then_some("freezes")).map(str::to_owned);
        Screen {
            lead: vec![(record.severity().into(), lead(&streams, record))],
            title: format!(
                "{}: {}",
                count(record.connections.len() as u64, "connection"),
                urls.collect::<Vec<_>>().join(", ")
            ),
            table: ScreenTable {
                heads: heads.collect(),
                lines: streams.iter().map(|(k, s)| line(*k, s, record, freezes)).collect(),
                name: MAX_NAME_COLUMNS,
                most: MAX_LINES,
            },
            trust: vec![
                "figures of the browser, about one per second: nothing was measured from packets".to_owned(),
                "jitter and RTT: mean; missing: lost, or too late for the buffer; sent streams: as the far end reports"
                    .to_owned(),
            ],
            ..Screen::default()
        }
    }
}

/// Returns the mean round trip of the connection with the number `k`, in ms.
fn round_trip(k: usize, record: &WebRtcRecord) -> Option<f64> {
    record.connections.get(k - 1)?.round_trip_ms.map(|r| r.mean)
}

/// Returns the verdict on all streams, the worst one first, each with the number of its connection.
fn lead(streams: &[(usize, &WebRtcStream)], record: &WebRtcRecord) -> String {
    let total = streams.len();
    let all = count(total as u64, "stream");
    let of = |wanted: &dyn Fn(Severity) -> bool| streams.iter().filter(|(_, s)| wanted(s.severity)).count();
    let (affected, unknown) = (of(&|s| s > Severity::Good), of(&|s| s == Severity::Unknown));
    if affected > 0 {
        let found = streams.iter().flat_map(|(k, s)| s.impairments(round_trip(*k, record)));
        let found: Vec<&str> = found.filter(|(s, _)| *s > Severity::Good).map(|(_, name)| name).collect();
        let names = ["missing packets", "a long delay", "freezes"];
        let names: Vec<&str> = names.into_iter().filter(|name| found.contains(name)).collect();
        let names = match names.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, others)) => format!("{} and {last}", others.join(", ")),
            None => String::new(),
        };
        return match total {
            1 => format!("The browser counted {names} in {all}."),
            _ => format!("The browser counted {names} in {affected} of {all}; the worst is first."),
        };
    }
    if unknown == total {
        return format!("Unknown: the browser did not count the missing packets of {all}.");
    }
    if unknown > 0 {
        return format!("Nothing is wrong with {} of {all}; no verdict on {unknown}.", total - unknown);
    }
    let counts = || streams.iter().filter_map(|(_, s)| s.missing());
    let missing = counts().fold(0u64, |sum, (_, n, _)| sum.saturating_add(n));
    let sent = counts().fold(0u64, |sum, (_, _, n)| sum.saturating_add(n));
    match missing {
        0 => format!("The browser counted no missing packets in {all}."),
        n => format!("Nothing is wrong with {all}: {n} of {} are missing.", count(sent, "packet")),
    }
}

fn line(k: usize, s: &WebRtcStream, record: &WebRtcRecord, freezes: bool) -> (String, StyledCells) {
    let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let ms = |value: f64| eng3(value * 1e6);
    let mean = |figures: Option<SeriesFigures>| dash(figures.map(|f| ms(f.mean)));
    let direction = if s.direction == MediaDirection::Sent { "sent" } else { "received" };
    let path = record.connections.get(k - 1).and_then(|c| c.round_trip_ms);
    let figures = [
        dash(s.packets.map(|n| n.to_string())),
        dash(s.missing().map(|(_, missing, sent)| describe_loss(missing, sent, None))),
        mean(s.jitter_ms),
        mean(s.round_trip_ms.or(path)),
        dash(s.buffer_ms.map(ms)),
        dash(s.mos.map(|mos| format!("{mos:.2}"))),
    ];
    let mut cells: StyledCells = vec![(s.severity.name().to_owned(), Some(mark(s.severity.into()).1))];
    cells.extend(figures.map(|text| (text, None)));
    if freezes {
        cells.push((dash(s.freezes.map(|n| n.to_string())), None));
    }
    let ssrc = s.ssrc.map_or(String::new(), |ssrc| format!(" {ssrc}"));
    (format!("{k} {} {direction}{ssrc}", s.kind), cells)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_passive::webrtc::WebRtcConnection;

    fn headline(stream: WebRtcStream) -> String {
        let connection =
            WebRtcConnection { streams: vec![stream.judged(None)], ..WebRtcConnection::default() };
        Screen::of_webrtc(&WebRtcRecord { connections: vec![connection] }).headline()
    }

    #[test]
    fn the_headline_says_what_the_table_says() {
        let stream = |lost: Option<i64>| WebRtcStream {
            kind: "audio".to_owned(),
            packets: Some(3000),
            lost,
            ..WebRtcStream::default()
        };
        assert_eq!(headline(stream(Some(0))), "The browser counted no missing packets in 1 stream.");
        assert_eq!(
            headline(stream(Some(5))),
            "Nothing is wrong with 1 stream: 5 of 3005 packets are missing."
        );
        assert_eq!(headline(stream(Some(600))), "The browser counted missing packets in 1 stream.");
        assert!(headline(stream(None)).starts_with("Unknown"));
        let all = WebRtcStream { freezes: Some(9), buffer_ms: Some(10_000.0), ..stream(Some(600)) };
        assert_eq!(
            headline(all),
            "The browser counted missing packets, a long delay and freezes in 1 stream."
        );
        let frozen = WebRtcStream { freezes: Some(9), buffer_ms: Some(10_000.0), ..stream(Some(0)) };
        assert!(headline(frozen).contains("a long delay and freezes"));
    }
}
