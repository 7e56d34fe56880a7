//! Draws the pictures of the guide: `cargo run -p jitlat-report --example gallery -- docs/guide/figures`. With `all` as a
//! second argument, draws every figure of every example run in every format.

#[path = "../tests/common/mod.rs"]
mod common;

use jitlat_report::{PictureFormat, draw};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).ok_or("give a directory")?;
    let dir = Path::new(&dir);
    std::fs::create_dir_all(dir)?;
    if std::env::args().nth(2).as_deref() != Some("all") {
        for (name, figure) in common::pictures() {
            std::fs::write(dir.join(name).with_extension("svg"), draw::svg(&figure))?;
        }
        return Ok(());
    }
    for (name, figure) in common::everything() {
        let stem = dir.join(name.replace([' ', ':'], "-"));
        for format in PictureFormat::ALL {
            let content = draw::encode(&draw::layout(&figure), format)?;
            std::fs::write(stem.with_extension(format.name()), content)?;
        }
    }
    Ok(())
}
