//! Round trips from captures of one point.

use super::error::PassiveError;
use crate::stop::Stop;
use jitlat_net::capture::Capture;
use jitlat_passive::{OnePoint, OnePointResult};
use std::path::PathBuf;

/// Finds the round trips of TCP and QUIC flows in captures of one point, read one after the other.
///
/// # Errors
/// [`PassiveError`] if a capture cannot be read.
pub fn one_point(captures: &[PathBuf], stop: &Stop) -> Result<OnePointResult, PassiveError> {
    let mut capture = Capture::open(captures)?;
    let mut found = OnePoint::default();
    while let Some(frame) = capture.next_frame()
        && !stop.is_requested()
    {
        found.push(&frame);
    }
    let mut result = found.finish();
    result.notes.splice(0..0, capture.notes().iter().cloned());
    Ok(result)
}
