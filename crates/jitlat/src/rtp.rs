//! `jitlat rtp`: analyses RTP streams and calls in captures, or at an interface.

use crate::archive;
use crate::exit::{ExitStatus, log_failures, thresholds};
use crate::interrupt;
use crate::options::analysis::codec;
use crate::options::condition::TestCondition;
use crate::options::outputs::Outputs;
use crate::options::report::{LengthArgs, figures_help};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use jitlat_core::analysis::Options;
use jitlat_core::metrics::dejitter::VoiceCodec;
use jitlat_core::prefix::Prefix;
use jitlat_core::quantity;
use jitlat_core::time::Span;
use jitlat_instruments::Unobserved;
use jitlat_instruments::passive::{RtpCaptures, RtpSource};
use jitlat_net::capture::interface::InterfaceSettings;
use jitlat_net::capture::{STDIN, in_folders, unpack};
use jitlat_output::captures::{CallsReport, StreamLogs, WebRtcReport};
use jitlat_output::terminal::work::Work;
use jitlat_output::{ReportParts, screen};
use jitlat_passive::rtp::{GivenFormat, RtpObserver};
use jitlat_report::text::screen::Screen;
use jitlat_store::webrtc;
use std::fs::{self, File};
use std::io::{self, BufRead, Cursor, Read};
use std::path::{Path, PathBuf};
use tracing::info;

/// Number of bytes of a file that show whether it is JSON.
const FIRST_BYTES: u64 = 4096;
/// Maximum size of an unpacked dump of statistics, in bytes.
const MAX_DUMP_BYTES: u64 = 256 << 20;

/// Analyse captured calls (RTP): losses, jitter, voice quality, RTCP
///
/// Streams are recognised by their packets, and by SIP if the capture contains it. For each direction of a call: losses
/// and their bursts, reordering, jitter, play-out buffer, mean opinion score, and the phones' own reports (RTCP). Times
/// are those of the capture point: the path's delay is known only if RTCP gives its round trip.
#[derive(Clone, Debug, Args)]
pub struct RtpArgs {
    /// Captures (pcap or pcapng), or a folder of them; - is standard input
    ///
    /// Captures may be compressed. A dump of chrome://webrtc-internals (JSON) is read, too, if it is the only file. Two captures of the same calls are two points, between which one-way delays are measured;
    /// other captures are read one after the other.
    #[arg(value_name = "CAPTURE", required_unless_present = "interface")]
    pub captures: Vec<PathBuf>,
    /// Capture on this interface, until Ctrl-C
    #[arg(short = 'i', long, value_name = "IFACE", conflicts_with_all = ["captures", "follow"])]
    pub interface: Option<String>,
    /// Also capture packets for other hosts, with -i
    ///
    /// Needed on a mirror port or a bridge.
    #[arg(long)]
    pub promiscuous: bool,
    /// Analyse only streams of this address or prefix
    #[arg(long, value_name = "ADDR", value_parser = prefix)]
    pub host: Option<Prefix>,
    /// Analyse only streams of this port
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Show only call N, as numbered in the list of all calls
    ///
    /// Also in --csv, figures and pages; --json contains all calls.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub call: Option<u32>,
    /// Codec of a dynamic payload type, as 111=opus/48000; may be repeated
    ///
    /// In the notation of session descriptions. Without this option, the clock rate is estimated.
    #[arg(long, value_name = "TYPE=CODEC/RATE")]
    pub payload_type: Vec<GivenFormat>,
    /// Codec of the voice quality figures of all streams
    ///
    /// Default: the stream's own codec if its figures are published, otherwise G.711+PLC. Names and figures as for
    /// other tests: G.711, G.711+PLC, G.729A+VAD, G.723.1-6.3+VAD, GSM-EFR, or NAME:IE:BPL:DELAY.
    #[arg(long, value_name = "CODEC", value_parser = codec)]
    pub codec: Option<VoiceCodec>,
    /// Read two captures one after the other, even if they contain the same calls
    #[arg(long)]
    pub one_point: bool,
    /// Read a folder or file while it is written, until Ctrl-C
    ///
    /// For example, the files that tcpdump -C or -G creates.
    #[arg(long)]
    pub follow: bool,
    /// Stop after this time, with -i or --follow (30s, 10m)
    ///
    /// A bare number is seconds.
    #[arg(long, value_name = "T", value_parser = quantity::duration)]
    pub duration: Option<Span>,
    /// Write the packets of the streams as logs LOG.1, LOG.2 and so on
    ///
    /// One per stream, in the order in which they were recognised, for analyze and compare; at most 256. Further streams
    /// have no log, and the exit status is then 2.
    #[arg(long, value_name = "LOG")]
    pub log: Option<PathBuf>,
    /// Add these logs to the archive in DIR, which is created if missing
    #[arg(long, value_name = "DIR", requires = "log")]
    pub archive: Option<PathBuf>,
    /// Exit with status 1 on a figure or grade: loss>1%, mos<3.8, path>=poor
    #[arg(long, value_name = "CONDITION", long_help = figures_help(), help_heading = "Output")]
    pub fail_if: Vec<TestCondition>,
    #[command(flatten)]
    pub outputs: Outputs<{ ReportParts::ROWS.and(ReportParts::FIGURES).and(ReportParts::PAGE).0 }>,
    #[command(flatten)]
    pub length: LengthArgs,
}

fn prefix(text: &str) -> Result<Prefix, String> {
    text.parse().map_err(|()| format!("'{text}' is not an IP address or prefix"))
}

impl RtpArgs {
    /// Returns the source of the packets.
    fn source(&self) -> Result<RtpSource> {
        if let Some(interface) = &self.interface {
            let settings =
                InterfaceSettings { promiscuous: self.promiscuous, ..InterfaceSettings::default() };
            return Ok(RtpSource::Interface(interface.clone(), settings));
        }
        match &self.captures[..] {
            [one] if self.follow && one.as_os_str() != STDIN => Ok(RtpSource::Followed(one.clone())),
            _ if self.follow => bail!("--follow reads a single folder or file: leave out other captures"),
            _ if self.promiscuous => bail!("--promiscuous is for a capture at an interface: give -i"),
            _ if self.duration.is_some() => bail!("--duration needs -i or --follow"),
            captures => Ok(RtpSource::Files(in_folders(captures)?)),
        }
    }

    /// Returns the options of the analysis.
    fn options(&self) -> Options {
        let defaults = jitlat_verdict::options();
        let codec = self.codec.clone().unwrap_or_else(|| defaults.codec.clone());
        let mut options = Options { codec, ..defaults };
        self.outputs.ask(&mut options);
        options
    }
}

/// Runs `jitlat rtp`.
pub fn run(args: &RtpArgs) -> Result<ExitStatus> {
    args.outputs.check(0, &[])?;
    if let [one] = &args.captures[..]
        && is_json(one)
    {
        return show_statistics(args, one);
    }
    let captures = RtpCaptures {
        host: args.host,
        port: args.port,
        formats: args.payload_type.clone(),
        duration: args.duration,
        listening: match (args.length.quiet, args.duration) {
            (true, _) => None,
            (_, Some(_)) => Some(|name| info!("capturing on {name}, for the time of --duration")),
            (_, None) => Some(|name| info!("capturing on {name}, until Ctrl-C")),
        },
        one_point: args.one_point || args.log.is_some() || args.captures.iter().any(|p| p.is_dir()),
        one_codec: args.codec.is_some(),
    };
    let mut logs = args.log.as_deref().map(StreamLogs::new);
    let observer: &mut dyn RtpObserver = match &mut logs {
        Some(logs) => logs,
        None => &mut Unobserved,
    };
    let work = Work::of_files("reading captures", args.captures.iter().map(PathBuf::as_path));
    let outcome = captures.analyse(&args.source()?, &args.options(), &interrupt::stop()?, observer)?;
    drop(work);
    let (paths, unwritten) = logs.map(|logs| logs.finish(&outcome)).unwrap_or_default();
    let mut failures: Vec<anyhow::Error> = unwritten.into_iter().map(anyhow::Error::from).collect();
    if !archive::add_logs(args.archive.as_deref(), paths.iter().map(PathBuf::as_path)) {
        failures.push(anyhow!("not all logs were archived"));
    }
    let calls = outcome.result.calls.len();
    let only = args.call.map(|n| n as usize - 1);
    if only.is_some_and(|k| k >= calls) {
        let calls = if calls == 1 { "1 call".to_owned() } else { format!("{calls} calls") };
        bail!("--call {}: the capture has {calls}", args.call.unwrap_or_default());
    }
    let report = CallsReport::new(outcome, only);
    let printed = args.outputs.write(&report, || match (args.length.quiet, args.length.verbose) {
        (true, _) => report.line(),
        (_, true) => report.full_text(),
        _ => screen::finished(report.screen(), &args.outputs),
    });
    if !log_failures(&failures) || !printed {
        return Ok(ExitStatus::NotMeasured);
    }
    Ok(thresholds(report.judged(), &args.fail_if))
}

/// Returns true if a file, which may be compressed, begins like JSON, as no capture does.
fn is_json(path: &Path) -> bool {
    let head = match path.as_os_str() == STDIN {
        // The bytes remain in the buffer of standard input.
        true => io::stdin().lock().fill_buf().map(<[u8]>::to_vec),
        // Reading another pipe would take its first bytes from the capture.
        false if fs::metadata(path).is_ok_and(|m| m.is_file()) => {
            let mut head = Vec::new();
            File::open(path).and_then(|file| file.take(FIRST_BYTES).read_to_end(&mut head)).map(|_| head)
        }
        false => return false,
    };
    let Ok(mut plain) = head.and_then(|head| unpack(Box::new(Cursor::new(head)))) else { return false };
    let mut first = [0; 1];
    while plain.read_exact(&mut first).is_ok() {
        match first[0] {
            b'{' => return true,
            // Blanks, and the byte order mark.
            b' ' | b'\t' | b'\r' | b'\n' | 0xef | 0xbb | 0xbf => {}
            _ => return false,
        }
    }
    false
}

/// Refuses options that have no effect on the statistics of a browser.
fn refuse_for_statistics(args: &RtpArgs, path: &Path) -> Result<()> {
    let given = [
        ("--log", args.log.is_some()),
        ("--call", args.call.is_some()),
        ("--host", args.host.is_some()),
        ("--port", args.port.is_some()),
        ("--payload-type", !args.payload_type.is_empty()),
        ("--codec", args.codec.is_some()),
        ("--follow", args.follow),
        ("--fail-if", !args.fail_if.is_empty()),
        ("figures and pages", args.outputs.draws()),
    ];
    if let Some((name, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
        bail!(
            "{name}: {} has the statistics of a browser, which have no packets: only --json and --csv are possible",
            path.display()
        );
    }
    Ok(())
}

/// Shows the statistics in a browser's dump.
fn show_statistics(args: &RtpArgs, path: &Path) -> Result<ExitStatus> {
    refuse_for_statistics(args, path)?;
    let reading = || format!("reading {}", path.display());
    let raw: Box<dyn Read + Send> = match path.as_os_str() == STDIN {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path).with_context(reading)?),
    };
    let mut text = String::new();
    let plain = unpack(raw).with_context(reading)?;
    plain.take(MAX_DUMP_BYTES + 1).read_to_string(&mut text).with_context(reading)?;
    if text.len() as u64 > MAX_DUMP_BYTES {
        bail!("{}: dumps of up to {MAX_DUMP_BYTES} bytes are read, and it has more", path.display());
    }
    let record = webrtc::read(&text).with_context(|| path.display().to_string())?;
    let printed = args.outputs.write(&WebRtcReport(&record), || {
        let shown = Screen::of_webrtc(&record);
        match args.length.quiet {
            true => shown.headline() + "\n",
            false => screen::finished_without_figures(shown),
        }
    });
    Ok(if printed { ExitStatus::Measured } else { ExitStatus::NotMeasured })
}
