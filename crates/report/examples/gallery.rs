//! Draws the figures of the guide: `cargo run -p jitlat-report --example gallery -- docs/guide/figures`.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Measured, golden, made_up};
use jitlat_report::draw;
use jitlat_report::figure::{self, Run};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).ok_or("give a directory")?;
    let dir = Path::new(&dir);
    std::fs::create_dir_all(dir)?;
    let runs: Vec<(&str, Measured)> = [
        ("loopback", "a_loopback_v1"),
        ("wan", "b_wan_lossy_v1"),
        ("unsynchronised", "c_unsync_v2"),
        ("edge", "d_edge_small_v1"),
    ]
    .into_iter()
    .map(|(name, log)| (name, golden(log)))
    .chain([("long", made_up(200_000))])
    .collect();
    for (name, m) in &runs {
        let run = Run { label: "", summary: &m.summary, trace: Some(&m.trace) };
        for figure in figure::of_run(&run) {
            let stem = dir.join(format!("{name}-{}", figure.id));
            std::fs::write(stem.with_extension("svg"), draw::svg(&figure))?;
            std::fs::write(stem.with_extension("png"), draw::png(&figure, 1.5)?)?;
        }
    }
    let named: Vec<_> = runs.iter().map(|(name, m)| (*name, &m.summary)).collect();
    for figure in figure::of_runs(&named[1..]) {
        let stem = dir.join(&figure.id);
        std::fs::write(stem.with_extension("svg"), draw::svg(&figure))?;
        std::fs::write(stem.with_extension("png"), draw::png(&figure, 1.5)?)?;
    }
    Ok(())
}
