//! `--plots`: every figure in each requested format.

use crate::error::Context;
use crate::format::{Destination, Output, OwnOption, ReportParts, not_written, write_file};
use crate::pages::{self, DrawError};
use std::fs;

pub static OUTPUT: Output = Output {
    option: OwnOption::Shown,
    needs: ReportParts::FIGURES,
    keeps_packets: true,
    lacks: pages::LACKS,
    ..Output::new(
        "plots",
        "Draw every figure into a folder: SVG and PNG, or see --format",
        Destination::Folder,
        |report, folder| {
            let mut drawn = false;
            let mut write = |prefix: &str, file: Result<(String, Vec<u8>), DrawError>| {
                if !std::mem::replace(&mut drawn, true) {
                    fs::create_dir_all(folder.path)
                        .with_context(|| format!("creating the folder {}", folder.display()))?;
                }
                let (name, content) = file.context("drawing a figure")?;
                write_file(&folder.join(format!("{prefix}{name}")), |out| out.write_all(&content))
            };
            report.draw(&mut |prefix, figures| {
                pages::files(figures, folder.pictures).try_for_each(|file| write(prefix, file))
            })?;
            let card = report.first_screen().filter(|first| first.figure.is_some());
            let drawn_card = card.iter().flat_map(|first| pages::card_files(first, folder.pictures));
            drawn_card.into_iter().try_for_each(|file| write("", file))?;
            if !drawn {
                not_written(folder);
            }
            Ok(())
        },
    )
};
