//! `--plots`: every figure as SVG and PNG.

use super::format::{Output, Part, Place, not_written, write_file};
use anyhow::Context;
use jitlat_report::draw;
use std::fs;

pub static OUTPUT: Output = Output {
    needs: Part::FIGURES,
    keeps_packets: true,
    ..Output::new("plots", "Draw every figure into DIR, as SVG and PNG", Place::Folder, |report, folder| {
        let mut drawn = false;
        report.draw(&mut |prefix, figures| {
            for file in draw::files(figures) {
                if !std::mem::replace(&mut drawn, true) {
                    fs::create_dir_all(folder)
                        .with_context(|| format!("making the folder {}", folder.display()))?;
                }
                let (name, content) = file.context("drawing a figure")?;
                write_file(&folder.join(format!("{prefix}{name}")), |out| out.write_all(&content))?;
            }
            Ok(())
        })?;
        if !drawn {
            not_written(folder);
        }
        Ok(())
    })
};
