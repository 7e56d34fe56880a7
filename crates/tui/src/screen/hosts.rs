//! The two hosts and the state of their clocks.

use super::{ScreenState, write};
use jitlat_core::session::HostFacts;
use jitlat_core::spec::ip_protocol_name;
use jitlat_core::units::eng3;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

pub fn draw(shown: &ScreenState<'_>, area: Rect, buffer: &mut Buffer) {
    let Some(stream) = shown.state().and_then(|state| state.streams.first()) else { return };
    let look = shown.look;
    let mut lines: Vec<(String, Style)> = Vec::new();
    let two_way = stream.is_two_way();
    let far = if two_way { "far host" } else { "server" };
    let near = if two_way { "this host" } else { "client" };
    for (name, host) in [(near, &stream.session.client), (far, &stream.session.server)] {
        if *host == HostFacts::default() {
            lines.push((format!("{name}: unknown"), look.faint()));
            continue;
        }
        lines.push((format!("{name}  {}", host.name.as_deref().unwrap_or("")), look.title()));
        lines.extend(facts(host).into_iter().map(|text| (format!("  {text}"), Style::new())));
        lines.extend(host.notes.iter().map(|note| (format!("  {note}"), look.faint())));
        lines.push((String::new(), Style::new()));
    }
    let c = &stream.clocks;
    if let Some(offset) = c.offset_ns {
        lines.push(("between them".to_owned(), look.title()));
        let bound = c.bound_ns.map_or_else(String::new, |bound| format!(" ± {}", eng3(bound)));
        lines.push((format!("  {far}'s clock is {}{bound} ahead", eng3(offset as f64)), Style::new()));
        let rtt = c.min_rtt_ns.map_or_else(String::new, |rtt| format!(", shortest {}", eng3(rtt as f64)));
        lines.push((format!("  by {} probes{rtt}", c.probes), Style::new()));
    }
    let spec = &stream.session.spec;
    let dscp = spec.dscp.value();
    lines.push(("packets".to_owned(), look.title()));
    let every = if stream.session.period_known {
        format!(", one every {}", eng3(spec.period().0 as f64))
    } else {
        String::new()
    };
    lines.push((
        format!(
            "  {} over {} of {} bytes{every}, DSCP {dscp}",
            spec.packets(),
            ip_protocol_name(stream.session.ip_protocol()),
            spec.payload()
        ),
        Style::new(),
    ));
    for (row, (text, style)) in lines.iter().enumerate().take(area.height.into()) {
        write(buffer, (area.x, area.y + row as u16), area.right(), text, *style);
    }
}

fn facts(host: &HostFacts) -> Vec<String> {
    let mut all = Vec::new();
    all.extend(host.system.clone());
    let source = host.clock_source.as_ref().map_or_else(String::new, |source| format!(" (source {source})"));
    all.push(match host.sync_after.or(host.sync_before) {
        None => format!("clock{source}: synchronisation unknown"),
        Some(sync) if sync.synchronised => format!(
            "clock{source}: reported as synchronised, error about {}, at most {}",
            eng3(sync.estimated_error.0 as f64),
            eng3(sync.maximum_error.0 as f64)
        ),
        Some(_) => format!("clock{source}: reported as not synchronised"),
    });
    all
}
