//! Replacement for `output::pages` in builds without figures.

use crate::report::AnalysedStream;
use jitlat_core::Span;
use jitlat_core::analysis::Samples;
use jitlat_report::figure::Figure;
use jitlat_report::{FirstScreen, PictureFormat, Section};
use jitlat_verdict::compare::ComparisonGrid;
use std::io::{self, Write};

pub type DrawError = std::fmt::Error;

pub const LACKS: Option<&str> = Some("plots");

pub fn page(_: &[AnalysedStream], _: Option<&Section>) -> String {
    String::new()
}

pub fn first_screen(_: &[AnalysedStream], _: Option<&Section>) -> Option<FirstScreen> {
    None
}

pub fn comparison(_: &ComparisonGrid) -> String {
    String::new()
}

pub fn first_screen_of(_: &ComparisonGrid) -> Option<FirstScreen> {
    None
}

pub fn files(
    _: &[Figure],
    _: &[PictureFormat],
) -> impl Iterator<Item = Result<(String, Vec<u8>), DrawError>> + use<> {
    std::iter::empty()
}

pub fn card_files(
    _: &FirstScreen,
    _: &[PictureFormat],
) -> impl Iterator<Item = Result<(String, Vec<u8>), DrawError>> + use<> {
    std::iter::empty()
}

pub fn histograms(_: &mut dyn Write, _: &Samples, _: Option<Span>) -> io::Result<()> {
    Ok(())
}
