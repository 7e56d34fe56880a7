//! TCP request-response.

use super::measure::{Found, Setting, gather};
use anyhow::{Result, anyhow};
use jitlat_net::twoway::client::Progress;
use jitlat_net::twoway::request_response;
use jitlat_proto::reqresp::Sizes;

/// Measures.
pub fn measure(s: &Setting<'_>, show: impl Fn(Progress)) -> Result<Found> {
    let (to, response) = (s.link.to, s.args.response);
    let sizes = Sizes::new(s.size, response)
        .ok_or_else(|| anyhow!("--response {response}: give 20 to 65535 bytes"))?;
    let measured =
        request_response::run(sizes, s.plan.clone(), to, s.args.dscp, &s.link.pacing, s.stop, show)?;
    Ok(gather(s, measured, |_| Vec::new()))
}
