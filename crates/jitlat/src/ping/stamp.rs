//! STAMP and TWAMP Light.

use super::args::Proto;
use super::measure::{Found, Setting, gather};
use anyhow::{Context, Result, bail};
use jitlat_core::TestSpec;
use jitlat_core::ntp::{ErrorEstimate, Format};
use jitlat_core::spec::Dscp;
use jitlat_net::twoway::client::Progress;
use jitlat_net::{clock, twoway};
use jitlat_proto::stamp::sender::Options;
use jitlat_proto::stamp::{Sender, auth::Key};
use std::path::Path;

/// Measures.
pub fn measure(s: &Setting<'_>, show: impl Fn(Progress)) -> Result<Found> {
    let Setting { args, link, size, .. } = s;
    let mut plan = s.plan.clone();
    let options = Options {
        size: *size,
        light: args.proto == Proto::Twamp,
        ssid: args.ssid,
        key: args.stamp_key_file.as_deref().map(stamp_key).transpose()?,
        error: ErrorEstimate::of_clock(clock::sync_state(), Format::Ntp),
        // The extension asks what became of the mark; only where there is room for it.
        class_of_service: (args.proto == Proto::Stamp && args.dscp.value() != 0).then(|| args.dscp.value()),
        direct_measurement: false,
    };
    let sender = Sender::new(options);
    if sender.size() != *size {
        let s = &plan.spec;
        let mut spec = TestSpec::new(
            s.direction(),
            s.transport(),
            s.packets().into(),
            sender.size() as u64,
            s.period(),
            s.schedule(),
        )?;
        spec.dscp = args.dscp;
        plan.spec = spec;
    }
    let dscp = args.dscp;
    let remarks = |s: &Sender| match s.far_dscp().and_then(|d| Dscp::new(d.into())) {
        Some(seen) if seen != dscp => vec![format!("sent with DSCP {dscp}, arrived there with {seen}")],
        Some(_) => vec![format!("DSCP {dscp} arrives there unchanged")],
        None => Vec::new(),
    };
    let measured = twoway::run(|_| sender, plan.clone(), link, s.stop, show)?;
    Ok(gather(&Setting { plan, link: link.clone(), ..*s }, measured, remarks))
}

/// Reads the key of STAMP's authenticated mode.
pub fn stamp_key(path: &Path) -> Result<Key> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading the key file {}", path.display()))?;
    let digits: Vec<u8> = text.trim().bytes().collect();
    let pair = |p: &[u8]| std::str::from_utf8(p).ok().and_then(|h| u8::from_str_radix(h, 16).ok());
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(|p| pair(p).filter(|_| p.len() == 2)).collect();
    match bytes.filter(|b| !b.is_empty()) {
        Some(bytes) => Ok(Key::new(&bytes)),
        None => {
            bail!("the key file {} is not hexadecimal: write pairs of digits, e.g. 000102…", path.display())
        }
    }
}
