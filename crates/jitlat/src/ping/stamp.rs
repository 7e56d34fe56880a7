//! STAMP and TWAMP Light.

use super::args::Proto;
use super::measure::{Found, Setting, gather};
use anyhow::{Context, Result, bail};
use clap::Args;
use jitlat_core::ntp::{ErrorEstimate, Format};
use jitlat_core::spec::Dscp;
use jitlat_core::{TestSpec, units};
use jitlat_net::{clock, twoway};
use jitlat_proto::stamp::sender::Options;
use jitlat_proto::stamp::{Sender, auth::Key};
use std::path::{Path, PathBuf};

/// STAMP alone.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "STAMP")]
pub struct StampArgs {
    /// File with the key of STAMP's authenticated mode, in hexadecimal
    #[arg(long, value_name = "FILE")]
    pub stamp_key_file: Option<PathBuf>,
    /// Session identifier
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub ssid: u16,
    /// Ask with which code point requests arrive, and for this one on answers: 0 to 63 or a name. With -D that is
    /// asked anyway, and answers are to have the same
    #[arg(long, value_name = "DSCP")]
    pub cos: Option<Dscp>,
    /// Ask how many packets the far host counted in and out
    #[arg(long)]
    pub direct_measurement: bool,
    /// Ask when answers really left, and where the far host's stamps come from
    #[arg(long)]
    pub telemetry: bool,
    /// Write times in the PTP format (seconds and nanoseconds) instead of NTP's (also TWAMP Light)
    #[arg(long)]
    pub ptp: bool,
}

/// Measures.
pub fn measure(s: &Setting<'_>) -> Result<Found> {
    let Setting { args, link, size, .. } = s;
    let mut plan = s.plan.clone();
    let asked = &args.stamp;
    let light = args.proto == Proto::Twamp;
    if light && asked.stamp_key_file.is_some() {
        bail!(
            "--stamp-key-file: TWAMP Light knows no keys; --proto stamp does, or TWAMP with --twamp-key-file"
        );
    }
    let format = if asked.ptp { Format::Ptp } else { Format::Ntp };
    let options = Options {
        size: *size,
        light,
        ssid: asked.ssid,
        key: asked.stamp_key_file.as_deref().map(stamp_key).transpose()?,
        error: ErrorEstimate::of_clock(clock::sync_state(), format),
        // Extensions are STAMP's: TWAMP Light has no place for them.
        class_of_service: asked
            .cos
            .or(Some(args.dscp).filter(|d| d.value() != 0))
            .filter(|_| !light)
            .map(Dscp::value),
        direct_measurement: asked.direct_measurement && !light,
        follow_up: asked.telemetry && !light,
        timestamp_info: asked.telemetry && !light,
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
    let measured = twoway::run(|_| sender, plan.clone(), link, s.stop)?;
    Ok(gather(&Setting { plan, link: link.clone(), ..*s }, measured, |sender| remarks(sender, dscp)))
}

/// What the far host told in extensions.
fn remarks(sender: &Sender, dscp: Dscp) -> Vec<String> {
    let mut told = Vec::new();
    match sender.far_dscp().and_then(|d| Dscp::new(d.into())) {
        Some(seen) if seen != dscp => told.push(format!("sent with DSCP {dscp}, arrived there with {seen}")),
        Some(_) => told.push(format!("DSCP {dscp} arrives there unchanged")),
        None => {}
    }
    if let Some(c) = sender.counters() {
        told.push(format!(
            "by the far host's count: {} sent up to then, {} arrived there, {} answered",
            c.sender_sent, c.reflector_received, c.reflector_sent
        ));
    }
    if let Some([source_in, method_in, source_out, method_out]) = sender.far_stamps() {
        told.push(format!(
            "stamps there: of arrivals {} by a clock kept by {}, of answers {} by {}",
            method(method_in),
            sync_source(source_in),
            method(method_out),
            sync_source(source_out)
        ));
    }
    let lag = sender.lag();
    if lag.known > 0 {
        told.push(format!(
            "answers left {} after the time they carry on average, {} at most",
            units::eng4(lag.sum.0 / lag.known as i64),
            units::eng4(lag.largest.0)
        ));
    }
    told
}

/// Codes of RFC 8972 §4.3.
fn sync_source(code: u8) -> &'static str {
    match code {
        1 => "NTP",
        2 => "PTP",
        3 => "SSU/BITS",
        4 => "satellite",
        5 => "nobody",
        _ => "an unknown source",
    }
}

fn method(code: u8) -> &'static str {
    match code {
        1 => "in hardware",
        2 => "in software",
        3 => "in the control plane",
        _ => "by unknown means",
    }
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
