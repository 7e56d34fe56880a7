//! The instruments of a monitor: the tests of the command, with the same options.

use super::captures::{self, CAPTURED};
use super::given::{OptionSet, ids};
use crate::exit::explain;
use crate::options::late::LateArgs;
use crate::options::live::LiveArgs;
use crate::options::load::LoadArgs;
use crate::options::log::LogArgs;
use crate::options::one_way::OneWayArgs;
use crate::options::ping::PingArgs;
use crate::options::report::{QuietArgs, ReportArgs};
use crate::options::shape::{shape_ping, shape_stream};
use crate::options::start::StartArgs;
use crate::serve::ServeArgs;
use clap::FromArgMatches;
use jitlat_core::spec::{Schedule, TestSpec};
use jitlat_core::time::{SECOND, Span};
use jitlat_core::{Direction, Transport};
use jitlat_instruments::load::{Load, LoadServer};
use jitlat_instruments::passive::PeriodEvent;
use jitlat_instruments::serve::Serve;
use jitlat_instruments::{Instrument, OneWay, Ping, Stop};
use jitlat_monitor::agenda::SlotFailure;
use jitlat_monitor::file::{DeclaredCapture, DeclaredTest, EntryError, Instruments, OptionValue};
use jitlat_monitor::model::{OneWayTraffic, SendingHosts, Traffic};
use jitlat_monitor::runtime::{AnyError, CaptureResult, CaptureSetup, Equipment, ServerKeys, TestSite};
use jitlat_proto::jitlat::{PresharedKey, PresharedKeys};

/// Function that creates a test that is ready to run, from its options.
type MakeTest = fn(&OptionSet, &DeclaredTest<'_>, &TestSite<'_>) -> Result<Box<dyn Instrument>, EntryError>;

/// Instrument for tests of a monitor.
pub struct Monitored {
    /// Name of the instrument.
    pub name: &'static str,
    /// Returns the options of the instrument.
    options: fn() -> OptionSet,
    /// Returns the traffic of a test.
    traffic: fn(&OptionSet, &DeclaredTest<'_>) -> Result<Traffic, EntryError>,
    /// Creates a test that is ready to run.
    test: MakeTest,
}

/// All instruments of a monitor; the first is the default.
pub const MONITORED: [Monitored; 2] = [
    Monitored { name: "one-way", options: one_way_options, traffic: one_way_traffic, test: one_way_test },
    Monitored { name: "ping", options: ping_options, traffic: ping_traffic, test: ping_test },
];

/// Provides the instruments of this program to the file reader and the runtime.
#[derive(Debug)]
pub struct MonitorInstruments;

impl Instruments for MonitorInstruments {
    fn names(&self) -> Vec<&'static str> {
        MONITORED.iter().map(|i| i.name).collect()
    }

    fn ping(&self) -> &'static str {
        "ping"
    }

    fn traffic(&self, asked: &DeclaredTest<'_>) -> Result<Traffic, EntryError> {
        let known = MONITORED.iter().find(|i| i.name == asked.instrument);
        let instrument = known.ok_or_else(|| whole("unknown instrument"))?;
        (instrument.traffic)(&(instrument.options)(), asked)
    }

    fn captures(&self) -> Vec<(&'static str, bool)> {
        CAPTURED.iter().map(|kind| (kind.name, kind.two_points)).collect()
    }

    fn capture(&self, asked: &DeclaredCapture<'_>) -> Result<(), EntryError> {
        captures::check(asked)
    }

    fn has_https(&self) -> bool {
        true
    }

    fn serve(&self, options: &[(String, OptionValue)]) -> Result<(), EntryError> {
        serve_args(options).map(drop)
    }
}

impl Equipment for MonitorInstruments {
    fn test(&self, asked: &DeclaredTest<'_>, site: &TestSite<'_>) -> Result<Box<dyn Instrument>, EntryError> {
        let known = MONITORED.iter().find(|i| i.name == asked.instrument);
        let instrument = known.ok_or_else(|| whole("unknown instrument"))?;
        (instrument.test)(&(instrument.options)(), asked, site)
    }

    fn load(&self, text: &str, site: &TestSite<'_>) -> Result<Load, EntryError> {
        let args = ["--load", text].map(str::to_owned).to_vec();
        let matches = OptionSet::new::<LoadArgs>("--load", Vec::new()).read(&[], &args)?;
        let args = LoadArgs::from_arg_matches(&matches).map_err(|e| whole(e.to_string()))?;
        // The server of the load is that of one-way tests, whatever the test is.
        let own = DeclaredTest {
            instrument: "one-way",
            profiles: &[],
            options: &site.of_server,
            duration: None,
            direction: SendingHosts::Both,
        };
        let port = one_way(&one_way_options(), &own, site.address, None)?.settings.control_port;
        let load = args.settings(site.address, Some((port, None)), Direction::BOTH.to_vec());
        let mut load = load.map_err(|e| whole(explain(&e)))?;
        if let LoadServer::Jitlat(server) = &mut load.server {
            server.key = site.key.cloned();
        }
        Ok(load)
    }

    fn follow(
        &self,
        setup: &CaptureSetup,
        key: Option<&PresharedKey>,
        stop: &Stop,
        each: &mut dyn FnMut(PeriodEvent<'_>),
    ) -> CaptureResult {
        let known = CAPTURED.iter().find(|kind| kind.name == setup.capture.instrument);
        let Some(kind) = known else {
            return Err((SlotFailure::Other, "unknown instrument".to_owned()));
        };
        (kind.follow)(setup, key, stop, each)
    }

    fn server(&self, options: &[(String, OptionValue)], keys: ServerKeys) -> Result<Serve, AnyError> {
        let mut args = serve_args(options).map_err(|wrong| wrong.message)?;
        let offers_all = !args.digests.capture.is_empty();
        let new = keys.interfaces.into_iter().filter(|name| !args.digests.capture.contains(name));
        let new: Vec<String> = new.collect();
        args.digests.capture.extend(new);
        let mut access = args.access()?;
        for (name, key, captures) in keys.hosts {
            if offers_all || captures {
                access.digest_keys.add(&name, key.clone());
            }
            access.keys.add(&name, key);
        }
        if let Some(key) = keys.common {
            access.digest_keys.add(PresharedKeys::ANY, key.clone());
            access.keys.add(PresharedKeys::ANY, key);
        }
        Ok(args.settings(access)?)
    }
}

fn whole(message: impl Into<String>) -> EntryError {
    EntryError { key: None, message: message.into() }
}

fn with_reason(refused: impl IntoIterator<Item = String>, instead: &str) -> Vec<(String, String)> {
    refused.into_iter().map(|id| (id, instead.to_owned())).collect()
}

/// Returns the options that have separate keys in the file, or no meaning there, each with advice.
fn refused(groups: Vec<String>) -> Vec<(String, String)> {
    let own = [
        ("duration", "write for = \"10s\" in the test"),
        ("both", "write direction = \"both\" in the test, or leave it out: it is the default"),
        ("reverse", "write direction = \"backward\" in the test"),
        ("names", "write profile = \"voice\" in the test"),
        ("name", "results get the name of the test"),
        ("key_file", "keys are set in [[host]] and [serve]"),
        ("doctor", "the slots of a monitor leave no time for this: leave the option out"),
        ("path", "the slots of a monitor leave no time for this: leave the option out"),
        ("capture", "not in a monitor, which does not capture its tests: leave this option out"),
    ];
    let mut list: Vec<(String, String)> =
        own.iter().map(|(id, instead)| ((*id).to_owned(), (*instead).to_owned())).collect();
    let others = groups.into_iter().filter(|id| id != "tags" && !own.iter().any(|(own, _)| own == id));
    list.extend(with_reason(
        others,
        "not in a monitor, which stores results in its archive: leave this option out",
    ));
    list
}

fn one_way_options() -> OptionSet {
    let groups = [ids::<LoadArgs>(), ids::<LogArgs>(), ids::<ReportArgs>()].concat();
    OptionSet::new::<OneWayArgs>("one-way", refused(groups))
}

fn ping_options() -> OptionSet {
    let own = ["host", "others"].map(str::to_owned).to_vec();
    let groups = [
        own,
        ids::<LateArgs>(),
        ids::<StartArgs>(),
        ids::<LoadArgs>(),
        ids::<LogArgs>(),
        ids::<ReportArgs>(),
        ids::<QuietArgs>(),
        ids::<LiveArgs>(),
    ];
    OptionSet::new::<PingArgs>("ping", refused(groups.concat()))
}

/// Parses the options of the server.
pub fn serve_args(options: &[(String, OptionValue)]) -> Result<ServeArgs, EntryError> {
    let confined = "give this option to `jitlat monitor` itself, which is confined as a whole: leave it out";
    let public = "not in a monitor, whose server is for the hosts of the file: use `jitlat serve --public`";
    let refused = [
        ("key_file", "write key-file = \"…\" in [serve]"),
        ("show_policy", "use `jitlat serve --show-policy`"),
        ("late_packets", "use `jitlat serve --late-packets`"),
        ("user", confined),
        ("no_sandbox", confined),
        ("public", public),
        ("contact", public),
    ];
    let refused = refused.map(|(id, instead)| (id.to_owned(), instead.to_owned())).to_vec();
    // Options for interfaces are valid even without --capture: captures in the file may need interfaces of this
    // host.
    let of_captures = ["capture-port", "capture-without-key", "max-digest-rate"];
    let named = |name: &str| options.iter().any(|(given, _)| given == name);
    let placeholder = of_captures.iter().any(|name| named(name)) && !named("capture");
    let others: &[String] = if placeholder { &["--capture=none".to_owned()] } else { &[] };
    let matches = OptionSet::new::<ServeArgs>("jitlat serve", refused).read(options, others)?;
    let mut args = ServeArgs::from_arg_matches(&matches).map_err(|e| whole(e.to_string()))?;
    if placeholder {
        args.digests.capture.clear();
    }
    Ok(args)
}

fn duration(asked: &DeclaredTest<'_>) -> Option<String> {
    asked.duration.map(|d| format!("--duration={}ns", d.0))
}

/// Creates a one-way test of `host`. `way` is the option for its direction; `None` if the client sends.
pub fn one_way(
    options: &OptionSet,
    asked: &DeclaredTest<'_>,
    host: &str,
    way: Option<&str>,
) -> Result<OneWay, EntryError> {
    let others: Vec<String> = duration(asked).into_iter().chain(way.map(str::to_owned)).collect();
    let matches = options.read(asked.options, &others)?;
    let mut args = OneWayArgs::from_arg_matches(&matches).map_err(|e| whole(e.to_string()))?;
    args.report.analysis.profile.names = asked.profiles.to_vec();
    args.report.analysis.profile.resolve().map_err(|e| about("profile", &e))?;
    shape_stream(&args.report.analysis.profile, &mut args.stream, &matches);
    args.settings(host).map_err(|e| whole(explain(&e)))
}

fn about(key: &str, error: &anyhow::Error) -> EntryError {
    EntryError { key: Some(key.to_owned()), message: explain(error) }
}

fn one_way_traffic(options: &OptionSet, asked: &DeclaredTest<'_>) -> Result<Traffic, EntryError> {
    let both = asked.direction == SendingHosts::Both;
    let test = one_way(options, asked, "host", both.then_some("--both"))?;
    let flow = |way| {
        test.settings.terms.specs.iter().find(|s| s.direction() == way).map(flow_of).unwrap_or_default()
    };
    let (up, down) = (flow(Direction::Up), flow(Direction::Down));
    let (forward, backward) = match asked.direction {
        SendingHosts::Backward => (down, up),
        SendingHosts::Both | SendingHosts::Forward => (up, down),
    };
    let duration = test.duration().map_err(|e| whole(e.to_string()))?;
    Ok(Traffic { duration, forward, backward, recorded: up.packets + down.packets })
}

/// Creates a two-way test of `host`.
pub fn ping(options: &OptionSet, asked: &DeclaredTest<'_>, host: &str) -> Result<Ping, EntryError> {
    let host = ["--".to_owned(), host.to_owned()];
    let others: Vec<String> = duration(asked).into_iter().chain(host).collect();
    let matches = options.read(asked.options, &others)?;
    let mut args = PingArgs::from_arg_matches(&matches).map_err(|e| whole(e.to_string()))?;
    args.protocol.check().map_err(|e| whole(explain(&e)))?;
    args.report.analysis.profile.names = asked.profiles.to_vec();
    args.report.analysis.profile.resolve().map_err(|e| about("profile", &e))?;
    let profile = args.report.analysis.profile.clone();
    shape_ping(&profile, &mut args, &matches);
    args.settings().map_err(|e| whole(explain(&e)))
}

fn ping_traffic(options: &OptionSet, asked: &DeclaredTest<'_>) -> Result<Traffic, EntryError> {
    if asked.direction != SendingHosts::Both {
        let message = "a ping always has both directions: leave out 'direction'".to_owned();
        return Err(EntryError { key: Some("direction".to_owned()), message });
    }
    let test = ping(options, asked, "host")?;
    let spec = test.plan().map_err(|e| whole(e.to_string()))?.spec;
    let flow = flow_of(&spec);
    let duration = test.duration().map_err(|e| whole(e.to_string()))?;
    Ok(Traffic { duration, forward: flow, backward: flow, recorded: flow.packets })
}

/// Number of bytes that Ethernet (header and checksum) and IPv4 add to a packet.
const ETHERNET_AND_IPV4: u64 = 18 + 20;

fn flow_of(spec: &TestSpec) -> OneWayTraffic {
    let transport = if spec.transport() == Transport::Tcp { 32 } else { 8 };
    let length = u64::from(spec.payload()) + transport + ETHERNET_AND_IPV4;
    let packets = u64::from(spec.packets());
    let mut rate = (u128::from(length) * 8 * SECOND as u128 / spec.period().0.max(1) as u128) as u64;
    if let Schedule::Burst { size } = spec.schedule() {
        // During a burst, the rate is at least that of its packets.
        rate = rate.max(u64::from(size) * length * 8 * SECOND as u64 / Span::millis(100).0 as u64);
    }
    OneWayTraffic { packets, bytes: packets * length, rate }
}

fn one_way_test(
    options: &OptionSet,
    asked: &DeclaredTest<'_>,
    site: &TestSite<'_>,
) -> Result<Box<dyn Instrument>, EntryError> {
    let way = match (asked.direction, site.is_first) {
        (SendingHosts::Both, _) => Some("--both"),
        (SendingHosts::Forward, true) | (SendingHosts::Backward, false) => None,
        (SendingHosts::Forward, false) | (SendingHosts::Backward, true) => Some("--reverse"),
    };
    let given = [asked.options, &site.of_server].concat();
    let mut test = one_way(options, &DeclaredTest { options: &given, ..asked.clone() }, site.address, way)?;
    test.settings.terms.key = site.key.cloned();
    test.settings.terms.feedback = site.is_watched;
    site.annotate(&mut test.annotations);
    Ok(Box::new(test))
}

fn ping_test(
    options: &OptionSet,
    asked: &DeclaredTest<'_>,
    site: &TestSite<'_>,
) -> Result<Box<dyn Instrument>, EntryError> {
    let mut test = ping(options, asked, site.address)?;
    site.annotate(&mut test.annotations);
    Ok(Box::new(test))
}
