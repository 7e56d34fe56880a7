//! Options for live capture points.

use crate::options::key;
use anyhow::{Context, Result, bail};
use clap::Args;
use jitlat_core::far_host::FarHost;
use jitlat_core::{Span, quantity};
use jitlat_instruments::passive::{LivePoint, LiveSettings};
use jitlat_net::capture::STDIN;
use jitlat_net::capture::interface::InterfaceSettings;
use jitlat_proto::digest;
use std::path::PathBuf;

/// Maximum kernel memory for unread packets that can be requested, in bytes.
const MAX_BUFFER_BYTES: u64 = 1 << 30;

/// Ids of the options that define live points.
pub const POINTS: [&str; 5] =
    ["follow", "reference_interface", "monitor_interface", "reference_remote", "monitor_remote"];

/// Live capture points.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Live")]
pub struct LivePointArgs {
    /// Capture on this interface as the reference point
    #[arg(short = 'i', long, value_name = "IFACE", conflicts_with = "reference")]
    pub reference_interface: Option<String>,
    /// Capture on this interface as the monitor point
    #[arg(short = 'I', long, value_name = "IFACE", conflicts_with = "monitor")]
    pub monitor_interface: Option<String>,
    /// Host of the reference point, which runs `jitlat serve --capture`
    #[arg(short = 'r', long, value_name = "HOST[:PORT]", conflicts_with_all = ["reference", "reference_interface"])]
    pub reference_remote: Option<String>,
    /// Host of the monitor point, which runs `jitlat serve --capture`
    #[arg(short = 'R', long, value_name = "HOST[:PORT]", visible_alias = "remote", conflicts_with_all = ["monitor", "monitor_interface", "reference_remote"])]
    pub monitor_remote: Option<String>,
    /// Read the files of -f and -F while they are written
    ///
    /// Folders or files, like those of tcpdump -C or -G.
    #[arg(long, requires_all = ["reference", "monitor"], conflicts_with_all = ["one_point", "labels", "keep", "write_plan", "plan", "join"])]
    pub follow: bool,
    /// Interface of the far host (default: the first that it offers)
    #[arg(long, value_name = "IFACE")]
    pub remote_interface: Option<String>,
    /// File with the key shared with the far host
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Stop after this time (30s, 10m; a bare number is seconds)
    ///
    /// Ctrl-C stops at any time.
    #[arg(long, value_name = "T", value_parser = quantity::duration)]
    pub duration: Option<Span>,
    /// Stop after this many pairs
    #[arg(long, value_name = "N")]
    pub pairs: Option<u64>,
    /// Also capture packets for other hosts
    ///
    /// Needed on a mirror port or a bridge.
    #[arg(long)]
    pub promiscuous: bool,
    /// Kernel memory for unread packets per interface (k, M, G)
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes, default_value = "16M")]
    pub capture_buffer: u64,
}

impl LivePointArgs {
    /// True if a live point is given.
    pub fn is_requested(&self) -> bool {
        self.follow
            || [
                &self.reference_interface,
                &self.monitor_interface,
                &self.reference_remote,
                &self.monitor_remote,
            ]
            .into_iter()
            .any(Option::is_some)
    }

    /// Returns the reference point and the monitor point; with `--follow`, these are the files of `-f` and `-F`.
    pub fn points(&self, captures: [&[PathBuf]; 2]) -> Result<[LivePoint; 2]> {
        if self.follow {
            let [[reference], [monitor]] = captures else {
                bail!("--follow reads one folder or file at each point: -f DIR -F DIR");
            };
            if [reference, monitor].iter().any(|path| path.as_os_str() == STDIN) {
                bail!("standard input is always read as it arrives: leave out --follow");
            }
            return Ok([LivePoint::Files(reference.clone()), LivePoint::Files(monitor.clone())]);
        }
        Ok([
            self.point(&self.reference_interface, &self.reference_remote, "reference point", ['i', 'r'])?,
            self.point(&self.monitor_interface, &self.monitor_remote, "monitor point", ['I', 'R'])?,
        ])
    }

    fn point(
        &self,
        interface: &Option<String>,
        remote: &Option<String>,
        name: &str,
        [here, there]: [char; 2],
    ) -> Result<LivePoint> {
        if let Some(interface) = interface {
            return Ok(LivePoint::Interface(interface.clone()));
        }
        let remote = remote.as_ref().with_context(|| {
            format!(
                "live capture needs two points, but the {name} is missing: give an interface with -{here}, \
                 or another host with -{there}"
            )
        })?;
        let FarHost { name: host, port } = remote.parse()?;
        let port = port.unwrap_or(digest::PORT);
        Ok(LivePoint::Remote { host, port, interface: self.remote_interface.clone() })
    }

    /// Returns the settings of the capture at these points.
    pub fn settings(&self) -> Result<LiveSettings> {
        Ok(LiveSettings {
            interface: InterfaceSettings {
                buffer: usize::try_from(self.capture_buffer.min(MAX_BUFFER_BYTES)).unwrap_or(usize::MAX),
                promiscuous: self.promiscuous,
                ..InterfaceSettings::default()
            },
            key: self.key_file.as_deref().map(key).transpose()?,
            duration: self.duration,
            pairs: self.pairs,
        })
    }
}
