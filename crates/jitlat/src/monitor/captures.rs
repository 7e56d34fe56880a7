//! [`CAPTURED`]: kinds of continuous captures of a monitor. They have the options of the corresponding
//! commands.

use super::given::{OptionSet, ids};
use crate::exit::explain;
use crate::rtp::RtpArgs;
use crate::spp::SppArgs;
use clap::FromArgMatches;
use jitlat_core::prefix::Prefix;
use jitlat_instruments::Stop;
use jitlat_instruments::passive::{
    CallCapture, LivePoint, LiveSettings, PassiveError, PeriodEvent, SegmentCapture,
};
use jitlat_monitor::agenda::SlotFailure;
use jitlat_monitor::file::{DeclaredCapture, EntryError, OptionValue};
use jitlat_monitor::runtime::{CaptureResult, CaptureSetup};
use jitlat_net::capture::interface::InterfaceSettings;
use jitlat_passive::pipeline::PacketFilter;
use jitlat_proto::jitlat::PresharedKey;

/// Function that captures until a stop is requested; the key authenticates this host to other hosts.
type Follow =
    fn(&CaptureSetup, Option<&PresharedKey>, &Stop, &mut dyn FnMut(PeriodEvent<'_>)) -> CaptureResult;

/// Instrument that runs the captures requested in the monitor's file.
pub struct CaptureKind {
    /// Name of the instrument.
    pub name: &'static str,
    /// True if the instrument needs two points.
    pub two_points: bool,
    /// Function that checks the settings of a capture in the file.
    pub check: fn(&DeclaredCapture<'_>) -> Result<(), EntryError>,
    /// Function that captures until a stop is requested.
    pub follow: Follow,
}

/// All instruments of captures; the first is the default.
pub const CAPTURED: [CaptureKind; 3] = [
    CaptureKind { name: "spp", two_points: true, check: check_pairs, follow: follow_pairs },
    CaptureKind { name: "tcp", two_points: false, check: check_segments, follow: follow_segments },
    CaptureKind { name: "rtp", two_points: false, check: check_calls, follow: follow_calls },
];

/// Options of `jitlat rtp` that a capture may have.
const CALL_OPTIONS: [&str; 4] = ["host", "port", "payload_type", "promiscuous"];

/// Options of `jitlat spp` that a capture may have.
const OPTIONS: [&str; 11] = [
    "reference_address",
    "monitor_address",
    "reference_nat",
    "monitor_nat",
    "nat",
    "only",
    "offset",
    "window",
    "mask",
    "promiscuous",
    "capture_buffer",
];

/// Checks the settings of a capture in the file.
pub fn check(asked: &DeclaredCapture<'_>) -> Result<(), EntryError> {
    let kind = CAPTURED.iter().find(|kind| kind.name == asked.instrument);
    kind.map_or(Ok(()), |kind| (kind.check)(asked))
}

fn check_pairs(asked: &DeclaredCapture<'_>) -> Result<(), EntryError> {
    let ends = asked.has_ends.then_some(["192.0.2.1", "192.0.2.2"]);
    read(asked.options, ["reference", "monitor"], asked.is_far, ends).map(drop)
}

fn check_segments(asked: &DeclaredCapture<'_>) -> Result<(), EntryError> {
    let ends = asked.has_ends.then_some(["192.0.2.1", "192.0.2.2"]);
    only_tcp(&read(asked.options, ["reference", "monitor"], false, ends)?).map(drop)
}

fn check_calls(asked: &DeclaredCapture<'_>) -> Result<(), EntryError> {
    read_calls(asked.options, "eth0").map(drop)
}

fn options() -> OptionSet {
    let own = [
        ("every", "write every = \"5min\" in the capture"),
        ("key_file", "keys are set in [[host]] and [serve]"),
        ("tags", "not in a monitor, which sets the tags of its results: leave this option out"),
    ];
    let instead = |id: &str| {
        let own = own.iter().find(|(known, _)| *known == id);
        own.map_or(
            "not in a monitor, which stores captured packets in its archive: leave this option out",
            |(_, instead)| instead,
        )
    };
    let others = ids::<SppArgs>().into_iter().filter(|id| !OPTIONS.contains(&id.as_str()));
    OptionSet::new::<SppArgs>("a capture", others.map(|id| (id.clone(), instead(&id).to_owned())).collect())
}

/// Completes the options with settings from other parts of the file: the two points (the second is on another host if
/// `is_far`), and the addresses of both ends unless the options contain them.
fn read(
    given: &[(String, OptionValue)],
    [reference, monitor]: [&str; 2],
    is_far: bool,
    ends: Option<[&str; 2]>,
) -> Result<SppArgs, EntryError> {
    let second = if is_far { "remote" } else { "interface" };
    let mut others =
        vec![format!("--reference-interface={reference}"), format!("--monitor-{second}={monitor}")];
    if !given.iter().any(|(name, _)| name == "reference-address" || name == "monitor-address") {
        let Some([own, far]) = ends else {
            let message = "name the hosts whose traffic is captured: options = { reference-address = [\"10.1.0.0/16\"], \
                           monitor-address = [\"10.2.0.0/16\"] }, beyond 'interface' and beyond 'far-interface'";
            return Err(EntryError { key: None, message: message.to_owned() });
        };
        others.push(format!("--reference-address={own}"));
        others.extend(far.split(',').map(|far| format!("--monitor-address={far}")));
    }
    let matches = options().read(given, &others)?;
    let args =
        SppArgs::from_arg_matches(&matches).map_err(|e| EntryError { key: None, message: e.to_string() })?;
    let wrong = |e: anyhow::Error| EntryError { key: None, message: explain(&e) };
    args.live.settings().map_err(wrong)?;
    Ok(args)
}

fn follow_pairs(
    setup: &CaptureSetup,
    key: Option<&PresharedKey>,
    stop: &Stop,
    each: &mut dyn FnMut(PeriodEvent<'_>),
) -> CaptureResult {
    let other = |e: &anyhow::Error| (SlotFailure::Other, explain(e));
    let far_interface = setup.capture.far_interface.clone();
    let far = setup.far_address.as_deref();
    let second = far.or(far_interface.as_deref()).unwrap_or_default();
    let ends = far.map(|far| [setup.address.as_str(), far]);
    let points = [setup.capture.interface.as_str(), second];
    let args = read(&setup.capture.options, points, far.is_some(), ends)
        .map_err(|wrong| (SlotFailure::Other, wrong.message))?;
    // This may fail, because it looks up host names.
    let passive = args.settings().map_err(|e| other(&e))?;
    let mut settings = args.live.settings().map_err(|e| other(&e))?;
    settings.key = key.cloned();
    let first = LivePoint::Interface(setup.capture.interface.clone());
    let second = match far {
        None => LivePoint::Interface(second.to_owned()),
        Some(host) => {
            LivePoint::Remote { host: host.to_owned(), port: setup.far_port, interface: far_interface }
        }
    };
    passive
        .follow_periods([first, second], &settings, setup.capture.every, stop, each)
        .map_err(|e| (kind(&e), e.to_string()))
}

/// Networks that contain every address, to select all traffic beyond an interface.
const ANYWHERE: &str = "0.0.0.0/0,::/0";

/// Follows the TCP segments that leave one interface, from this host or from hosts on this side of the interface.
fn follow_segments(
    setup: &CaptureSetup,
    _: Option<&PresharedKey>,
    stop: &Stop,
    each: &mut dyn FnMut(PeriodEvent<'_>),
) -> CaptureResult {
    let other = |e: &anyhow::Error| (SlotFailure::Other, explain(e));
    let wrong = |wrong: EntryError| (SlotFailure::Other, wrong.message);
    let ends = [setup.address.as_str(), setup.far_address.as_deref().unwrap_or(ANYWHERE)];
    let points = [setup.capture.interface.as_str(), "none"];
    let args = read(&setup.capture.options, points, false, Some(ends)).map_err(wrong)?;
    let port = only_tcp(&args).map_err(wrong)?;
    let passive = args.settings().map_err(|e| other(&e))?;
    let settings = args.live.settings().map_err(|e| other(&e))?;
    let sides = passive.sides.unwrap_or_default();
    let capture = SegmentCapture { interface: setup.capture.interface.clone(), sides, port };
    capture.follow_periods(&settings, setup.capture.every, stop, each).map_err(|e| (kind(&e), e.to_string()))
}

/// Reads the options of a capture of calls at `interface`.
fn read_calls(given: &[(String, OptionValue)], interface: &str) -> Result<RtpArgs, EntryError> {
    let instead = "not in a monitor, which stores captured packets in its archive: leave this option out";
    let others = ids::<RtpArgs>().into_iter().filter(|id| !CALL_OPTIONS.contains(&id.as_str()));
    let refused = others.map(|id| (id, instead.to_owned())).collect();
    let matches = OptionSet::new::<RtpArgs>("a capture of calls", refused)
        .read(given, &[format!("--interface={interface}")])?;
    RtpArgs::from_arg_matches(&matches).map_err(|e| EntryError { key: None, message: e.to_string() })
}

/// Follows the RTP streams at one interface, from and to the hosts on this side of it.
fn follow_calls(
    setup: &CaptureSetup,
    _: Option<&PresharedKey>,
    stop: &Stop,
    each: &mut dyn FnMut(PeriodEvent<'_>),
) -> CaptureResult {
    let interface = &setup.capture.interface;
    let other = |message: String| (SlotFailure::Other, message);
    let args = read_calls(&setup.capture.options, interface).map_err(|wrong| other(wrong.message))?;
    let prefixes = |text: &str| {
        let each = text.split(',').map(|one| one.trim().parse::<Prefix>().map_err(|()| one));
        let found: Result<Vec<Prefix>, &str> = each.collect();
        found
            .map_err(|one| other(format!("'{one}' is not an IP address: a capture of calls needs addresses")))
    };
    let near = match args.host {
        Some(host) => vec![host],
        None => prefixes(&setup.address)?,
    };
    let far = setup.far_address.as_deref().map(prefixes).transpose()?.unwrap_or_default();
    let (port, formats) = (args.port, args.payload_type);
    let settings = LiveSettings {
        interface: InterfaceSettings { promiscuous: args.promiscuous, ..InterfaceSettings::default() },
        ..LiveSettings::default()
    };
    let capture = CallCapture { interface: interface.clone(), near, far, port, formats };
    capture.follow_periods(&settings, setup.capture.every, stop, each).map_err(|e| (kind(&e), e.to_string()))
}

/// Returns the port of a filter that selects TCP; `None`: all ports.
fn only_tcp(args: &SppArgs) -> Result<Option<u16>, EntryError> {
    let Some(only) = args.only else { return Ok(None) };
    if only.protocols.is_some() && only != PacketFilter::tcp(only.port) {
        let message =
            "this instrument analyses TCP only: write only = \"tcp:443\", or leave it out".to_owned();
        return Err(EntryError { key: Some("only".to_owned()), message });
    }
    Ok(only.port)
}

/// Returns the kind of failure that `error` represents.
fn kind(error: &PassiveError) -> SlotFailure {
    use jitlat_net::digest::CollectorError;
    use jitlat_proto::digest::DigestError;
    match error {
        PassiveError::Collector(CollectorError::Conversation {
            source: DigestError::Refused(..) | DigestError::NotAuthenticated | DigestError::Proof,
            ..
        }) => SlotFailure::Refused,
        PassiveError::Collector(CollectorError::Conversation { .. }) => SlotFailure::Other,
        PassiveError::Collector(_) => SlotFailure::Unreachable,
        _ => SlotFailure::Other,
    }
}
