//! TCP request-response.

use super::measure::{Found, Setting, gather};
use anyhow::{Result, anyhow};
use jitlat_core::twoway::TcpCourse;
use jitlat_net::twoway::request_response;
use jitlat_proto::reqresp::Sizes;

/// Measures.
pub fn measure(s: &Setting<'_>) -> Result<Found> {
    let response = s.args.response;
    let sizes = Sizes::new(s.size, response)
        .ok_or_else(|| anyhow!("--response {response}: give 20 to 65535 bytes"))?;
    let (measured, course) = request_response::run(sizes, s.plan.clone(), &s.link, s.stop)?;
    let mut found = gather(s, measured, |_| Vec::new());
    found.facts().tcp = TcpCourse::of(&course);
    // One response, one record, in order; a peer that makes responses up has spoilt that.
    if course.len() == found.records.len() {
        found.tcp = course;
    }
    Ok(found)
}
