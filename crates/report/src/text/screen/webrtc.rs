//! Screen report of the WebRTC statistics of a browser.

use super::Screen;
use super::rows::{ScreenTable, StyledCells, describe_loss};
use crate::text::count;
use crate::text::page::mark;
use jitlat_core::answer::Severity;
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
        let affected = streams.iter().filter(|(_, s)| s.severity > Severity::Good).count();
        let all = count(streams.len() as u64, "stream");
        let lead = match affected {
            0 => format!("The browser counted no missing packets in {all}."),
            n => format!("The browser counted missing packets in {n} of {all}; the worst is first."),
        };
        let urls = record.connections.iter().filter_map(|c| c.url.clone());
        let heads = ["verdict", "packets", "missing", "jitter", "RTT", "buffer", "MOS"].map(str::to_owned);
        Screen {
            lead: vec![(record.severity().into(), lead)],
            title: format!(
                "{}: {}",
                count(record.connections.len() as u64, "connection"),
                urls.collect::<Vec<_>>().join(", ")
            ),
            table: ScreenTable {
                heads: heads.to_vec(),
                lines: streams.iter().map(|(k, s)| line(*k, s, record)).collect(),
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

fn line(k: usize, s: &WebRtcStream, record: &WebRtcRecord) -> (String, StyledCells) {
    let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let ms = |value: f64| format!("{value:.1} ms");
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
    let ssrc = s.ssrc.map_or(String::new(), |ssrc| format!(" {ssrc:08x}"));
    (format!("{k} {} {direction}{ssrc}", s.kind), cells)
}
