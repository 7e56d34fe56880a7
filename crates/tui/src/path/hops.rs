//! Table of the hops, and the selected hop in detail.

use super::{PathScreenState, over_time};
use crate::screen::write;
use jitlat_core::Dscp;
use jitlat_core::path::{PathEnd, unreachable_in_words};
use jitlat_core::path_history::{FlowNumber, HopAddress, HopHistory};
use jitlat_core::units::eng3;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// A column: its heading, its width, and a function for its cells.
type HopColumn = (&'static str, u16, fn(&HopHistory) -> Option<String>);

fn time(ns: i64) -> String {
    eng3(ns as f64)
}

/// Columns, most important first, because a narrow screen shows fewer.
const COLUMNS: [HopColumn; 9] = [
    ("lost %", 7, |hop| hop.unanswered_pct().map(percent)),
    ("sent", 6, |hop| Some(hop.sent.to_string())),
    ("last", 8, |hop| hop.last.map(|rtt| time(rtt.0))),
    ("best", 8, |hop| hop.best().map(time)),
    ("median", 8, |hop| hop.median().map(time)),
    ("p99", 8, |hop| hop.p99().map(time)),
    ("jitter", 8, |hop| hop.jitter().map(time)),
    ("DSCP", 10, |hop| usual_mark(hop).map(mark)),
    ("MPLS", 8, |hop| hop.labels.first().map(|label| label.label.to_string())),
];

/// Width of the number of a hop.
const NUMBER_COLUMNS: u16 = 4;
/// Minimum and maximum width of a name.
const NAME_COLUMNS: [u16; 2] = [17, 48];
/// Maximum number of rows of the selected hop's description.
const MAX_DETAILS: usize = 6;
/// Minimum height of the plot below the table.
const MIN_PLOT_ROWS: u16 = 5;

/// Formats a share in percent with at most three significant digits.
fn percent(share: f64) -> String {
    if share >= 99.95 { "100".to_owned() } else { format!("{share:.1}") }
}

/// Returns the most frequent TOS octet or traffic class with which probes arrived at a hop.
fn usual_mark(hop: &HopHistory) -> Option<u8> {
    hop.traffic_classes.iter().max_by_key(|(_, probes)| **probes).map(|(octet, _)| *octet)
}

/// Formats a TOS octet or traffic class: `EF`, `7 CE`.
fn mark(octet: u8) -> String {
    let ecn = ["", " ECT(1)", " ECT(0)", " CE"][usize::from(octet & 3)];
    format!("{}{ecn}", dscp(octet))
}

/// Formats the DSCP of a TOS octet by its name, or by its number if it has none.
fn dscp(octet: u8) -> String {
    let value = octet >> 2;
    let named = Dscp::new(value.into()).map(|dscp| dscp.to_string());
    // `46 (EF)`: the table has room for the name only.
    let name =
        named.as_ref().and_then(|text| text.split_once('(')).map(|(_, name)| name.trim_end_matches(')'));
    match (name, value) {
        (Some(name), _) => name.to_owned(),
        (None, 0) => "BE".to_owned(),
        (None, value) => value.to_string(),
    }
}

/// Formats a list of flows: `flows 1 3`.
fn flows(responder: &HopAddress) -> String {
    let list = |flows: &mut dyn Iterator<Item = &FlowNumber>| {
        flows.map(FlowNumber::to_string).collect::<Vec<_>>().join(" ")
    };
    let all = list(&mut responder.flows.iter());
    if responder.flows.len() == 1 { format!("flow {all}") } else { format!("flows {all}") }
}

/// A row of the table: a hop, or another router that answered at it.
enum HopRow<'a> {
    Hop(usize, &'a HopHistory),
    Other(&'a HopAddress),
}

/// Returns the rows of the table. Other routers of a hop have rows of their own if there are several flows.
fn rows<'a>(shown: &PathScreenState<'a>) -> Vec<HopRow<'a>> {
    let mut rows = Vec::new();
    for (k, hop) in shown.board.history.hops().iter().enumerate() {
        rows.push(HopRow::Hop(k, hop));
        if shown.board.flows > 1 {
            let main = hop.main_address().map(|main| main.address);
            let others = hop.addresses.iter().filter(|other| Some(other.address) != main);
            rows.extend(others.map(HopRow::Other));
        }
    }
    rows
}

pub fn draw(shown: &PathScreenState<'_>, area: Rect, buffer: &mut Buffer) {
    let look = shown.look;
    let hops = shown.board.history.hops();
    if hops.is_empty() {
        write(buffer, (area.x, area.y), area.right(), "no router has answered yet", look.faint());
        return;
    }
    let rows = rows(shown);
    let chosen = shown.viewing.hop.min(hops.len() - 1);
    let details = details(shown, &hops[chosen]);
    let remarks = remarks(shown);
    let below = details.len().min(MAX_DETAILS) + remarks.len() + 1;
    let room = usize::from(area.height).saturating_sub(below + 1).max(3);
    let table = Rect { height: (rows.len().min(room) + 1) as u16, ..area };
    table_of(shown, &rows, chosen, table, buffer);
    let mut y = table.bottom();
    for remark in &remarks {
        write(buffer, (area.x, y), area.right(), remark, look.faint());
        y += 1;
    }
    y += 1;
    for (text, style) in details.iter().take(MAX_DETAILS) {
        // Lines below the area would cover the list of keys.
        if y < area.bottom() {
            write(buffer, (area.x, y), area.right(), text, *style);
            y += 1;
        }
    }
    let plot = Rect { y: y + 1, height: area.bottom().saturating_sub(y + 1), ..area };
    if plot.height >= MIN_PLOT_ROWS {
        over_time::plot(shown, &hops[chosen], plot, buffer);
    }
}

fn table_of(
    shown: &PathScreenState<'_>,
    rows: &[HopRow<'_>],
    chosen: usize,
    area: Rect,
    buffer: &mut Buffer,
) {
    let look = shown.look;
    let names = rows.iter().map(|row| text_of(shown, row).chars().count() as u16).max().unwrap_or(0) + 1;
    let names = names.clamp(NAME_COLUMNS[0], NAME_COLUMNS[1]);
    // Long names are cut, so that the columns up to the jitter have room.
    let wanted: u16 = COLUMNS.iter().take(7).map(|(_, width, _)| width).sum();
    let left = area.width.saturating_sub(NUMBER_COLUMNS);
    let names = names.min(left.saturating_sub(wanted).max(NAME_COLUMNS[0]));
    let mut x = area.x + NUMBER_COLUMNS + names;
    let mut columns: Vec<(u16, &HopColumn)> = Vec::new();
    for column in &COLUMNS {
        if x + column.1 > area.right() {
            break;
        }
        columns.push((x, column));
        x += column.1;
    }
    let right = |text: &str, width: u16| format!("{text:>width$}", width = usize::from(width));
    write(buffer, (area.x, area.y), area.right(), "hop host", look.faint());
    for (x, (head, width, _)) in &columns {
        write(buffer, (*x, area.y), area.right(), &right(head, *width), look.faint());
    }
    let height = usize::from(area.height.saturating_sub(1));
    let at = rows.iter().position(|row| matches!(row, HopRow::Hop(k, _) if *k == chosen)).unwrap_or(0);
    let first = (at + 1).saturating_sub(height);
    for (k, row) in rows.iter().enumerate().skip(first).take(height) {
        let y = area.y + 1 + (k - first) as u16;
        let end = area.x + NUMBER_COLUMNS + names - 1;
        let text = cut(&text_of(shown, row), usize::from(names - 1));
        let HopRow::Hop(k, hop) = row else {
            write(buffer, (area.x + NUMBER_COLUMNS, y), end, &text, look.faint());
            if let HopRow::Other(other) = row {
                write(buffer, (end + 1, y), area.right(), &format!("  {}", flows(other)), look.faint());
            }
            continue;
        };
        let style = if *k == chosen { look.chosen() } else { Style::new() };
        let name_style = if hop.addresses.is_empty() { look.faint() } else { style };
        write(buffer, (area.x, y), area.right(), &right(&hop.ttl.to_string(), 3), style);
        write(buffer, (area.x + NUMBER_COLUMNS, y), end, &text, name_style);
        for (x, (head, width, cell)) in &columns {
            let text = cell(hop).unwrap_or_else(|| "-".to_owned());
            let style = match *head {
                "lost %" if is_loss_on_path(shown, *k) => look.bad(),
                "DSCP" if is_rewritten(shown, hop) => look.bad(),
                _ => Style::new(),
            };
            write(buffer, (*x, y), area.right(), &right(&text, *width), style);
        }
    }
}

/// Shortens a text to at most `width` characters.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

fn text_of(shown: &PathScreenState<'_>, row: &HopRow<'_>) -> String {
    match row {
        HopRow::Hop(_, hop) => {
            hop.main_address().map_or_else(|| "*".to_owned(), |main| shown.name(main.address))
        }
        HopRow::Other(other) => format!("  {}", shown.name(other.address)),
    }
}

/// Returns the smallest share of unanswered probes at the hops from `from` on, in percent.
fn least_loss(shown: &PathScreenState<'_>, from: usize) -> Option<f64> {
    let later = shown.board.history.hops().iter().skip(from);
    later.filter_map(HopHistory::unanswered_pct).min_by(f64::total_cmp)
}

/// True if unanswered probes of a hop may be loss on the path: probes that pass it are lost, too.
fn is_loss_on_path(shown: &PathScreenState<'_>, hop: usize) -> bool {
    shown.board.history.is_reached() && least_loss(shown, hop).is_some_and(|share| share > 0.0)
}

fn is_rewritten(shown: &PathScreenState<'_>, hop: &HopHistory) -> bool {
    usual_mark(hop).is_some_and(|octet| octet >> 2 != shown.board.dscp.value())
}

/// Returns remarks about the whole path.
fn remarks(shown: &PathScreenState<'_>) -> Vec<String> {
    let path = &shown.board.history;
    let mut all = Vec::new();
    let limits = |k: &usize| {
        let own = path.hops()[*k].unanswered_pct().unwrap_or(0.0);
        least_loss(shown, k + 1).is_some_and(|later| own > later)
    };
    let limited: Vec<String> = (0..path.hops().len()).filter(limits).map(|k| (k + 1).to_string()).collect();
    if !limited.is_empty() {
        let hops = if limited.len() == 1 { "hop" } else { "hops" };
        all.push(format!("{hops} {}: silence, not loss (later hops answer more probes)", limited.join(", ")));
    }
    if path.silent_hops() > 0 && path.rounds > 0 {
        all.push("the destination has not answered".to_owned());
    }
    all
}

/// Describes a hop in detail.
fn details(shown: &PathScreenState<'_>, hop: &HopHistory) -> Vec<(String, Style)> {
    let look = shown.look;
    let mut lines = Vec::new();
    if hop.addresses.is_empty() {
        lines.push((format!("hop {}: no answer to {} probes", hop.ttl, hop.sent), look.title()));
    }
    for (k, responder) in hop.addresses.iter().enumerate() {
        let name = shown.names.get(&responder.address).cloned().unwrap_or_default();
        let known = [name.name, name.origin].into_iter().flatten();
        let words: Vec<String> = std::iter::once(responder.address.to_string()).chain(known).collect();
        let start = if k == 0 { format!("hop {}: ", hop.ttl) } else { "   also ".to_owned() };
        let of = if shown.board.flows > 1 { format!(", {}", flows(responder)) } else { String::new() };
        let answers = if responder.answers == 1 { "answer" } else { "answers" };
        let text = format!("{start}{}  {} {answers}{of}", words.join("  "), responder.answers);
        lines.push((text, if k == 0 { look.title() } else { Style::new() }));
    }
    if !hop.traffic_classes.is_empty() {
        let seen: Vec<String> = hop
            .traffic_classes
            .iter()
            .map(|(octet, probes)| format!("{} ({probes})", mark(*octet)))
            .collect();
        let style = if is_rewritten(shown, hop) { look.bad() } else { Style::new() };
        lines.push((format!("   probes arrive here with DSCP {}", seen.join(", ")), style));
    }
    for label in &hop.labels {
        let text = format!(
            "   MPLS label {}, traffic class {}, time to live {}",
            label.label, label.traffic_class, label.ttl
        );
        lines.push((text, Style::new()));
    }
    match hop.ending() {
        Some(PathEnd::Unreachable(code)) => {
            let words = hop.main_address().map(|main| unreachable_in_words(main.address, code));
            let words = words.unwrap_or_else(|| format!("code {code}"));
            lines.push((format!("   reports that the destination is unreachable: {words}"), look.bad()));
        }
        Some(PathEnd::Destination) => lines.push(("   the destination".to_owned(), look.faint())),
        None => {}
    }
    lines
}
