//! A monitor inside another program, with an instrument of its own: `cargo run -p jitlat-monitor --example embed`.
//!
//! The program pings a STAMP reflector on this machine every two seconds, and prints how many results the archive has
//! after three pings.

use jitlat_archive::{Archive, Filter};
use jitlat_core::Span;
use jitlat_instruments::passive::PeriodEvent;
use jitlat_instruments::ping::PingProtocol;
use jitlat_instruments::ping::protocols::stamp::StampClient;
use jitlat_instruments::serve::{Policy, Serve};
use jitlat_instruments::{Arguments, Instrument, Ping, Stop};
use jitlat_monitor::Timetable;
use jitlat_monitor::agenda::{EndingCounts, SlotEnding, SlotFailure};
use jitlat_monitor::file::{DeclaredCapture, DeclaredTest, EntryError, Instruments, OptionValue};
use jitlat_monitor::model::Traffic;
use jitlat_monitor::runtime::{
    self, AnyError, CaptureResult, CaptureSetup, Equipment, MonitorSettings, ServerKeys, SlotCounts, TestSite,
};
use jitlat_net::wake::StopSignal;
use jitlat_proto::jitlat::PresharedKey;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The monitor's file: this host, and an address that it pings.
const FILE: &str = r#"
host = [{ name = "here", address = "127.0.0.2" }]
serve = { on = false }
timetable = { guard = "200ms", setup = "200ms" }
archive = { folder = "archive" }

[[ping]]
name = "echo"
targets = ["127.0.0.1"]
every = "2s"
for = "200ms"
"#;

fn main() -> Result<(), AnyError> {
    let folder = tempfile::tempdir()?;
    let archive = folder.path().join("archive");
    let stop = StopSignal::new()?;
    let ended = std::thread::scope(|scope| {
        let monitor = scope.spawn(|| monitor(folder.path(), &stop));
        while !monitor.is_finished() && results(&archive) < 3 {
            std::thread::sleep(Duration::from_millis(100));
        }
        stop.request();
        monitor.join().unwrap_or_else(|_| Err("the monitor failed".into()))
    });
    for ((test, far), counts) in ended? {
        println!("{test} with {far}: {} of {} slots have a result", measured(&counts), counts.total());
    }
    Ok(())
}

/// Runs the monitor of a file in `folder` until a stop is requested. Returns how its slots ended.
pub fn monitor(folder: &Path, stop: &StopSignal) -> Result<SlotCounts, AnyError> {
    let stamp = PingProtocol::named("stamp").ok_or("no STAMP")?;
    let reflector = Serve {
        ips: vec![Ipv4Addr::LOCALHOST.into()],
        one_way: None,
        reflectors: stamp.reflectors(&Arguments::new().with("stamp-port", "0"))?,
        policy: Policy::default(),
        priority: None,
        one_way_packets: None,
        digests: None,
    };
    let reflector = reflector.start()?;
    let equipment = Arc::new(Echo { port: reflector.reflected()[0].1.port() });
    let file = folder.join("monitor.toml");
    std::fs::write(&file, FILE)?;
    let model = runtime::load(&file, &*equipment)?.ok_or("the file has faults, which are logged")?;
    let timetable = Timetable::new(&model);
    let settings = MonitorSettings {
        file: Some(file),
        host: Some("here".to_owned()),
        archive: None,
        duration: None,
        equipment,
        print: Arc::new(|_| Ok(())),
        confinement: None,
    };
    Ok(runtime::run(&settings, model, timetable, stop)?)
}

/// Number of slots that have a result.
pub fn measured(counts: &EndingCounts) -> u64 {
    counts.all().filter(|(ending, _)| matches!(ending, SlotEnding::Measured { .. })).map(|(_, n)| n).sum()
}

/// Number of results in the archive.
pub fn results(archive: &Path) -> usize {
    let list = Archive::open(archive).and_then(|archive| archive.list(&Filter::default(), &[]));
    list.map_or(0, |tests| tests.len())
}

/// An equipment with one instrument: STAMP to this port.
#[derive(Debug)]
struct Echo {
    port: u16,
}

impl Echo {
    fn ping(&self, host: &str, asked: &DeclaredTest<'_>) -> Ping {
        let period = Span::millis(10);
        let duration = asked.duration.unwrap_or(Span::seconds(1));
        let client = StampClient { port: self.port, ..StampClient::default() };
        let packets = (duration.0 / period.0).unsigned_abs();
        Ping { period, packets, timeout: Span::millis(200), ..Ping::new(host, client) }
    }
}

impl Instruments for Echo {
    fn names(&self) -> Vec<&'static str> {
        vec!["echo"]
    }

    fn ping(&self) -> &'static str {
        "echo"
    }

    fn traffic(&self, asked: &DeclaredTest<'_>) -> Result<Traffic, EntryError> {
        let test = self.ping("host", asked);
        let duration = test.duration().map_err(|e| EntryError { key: None, message: e.to_string() })?;
        Ok(Traffic { duration, recorded: test.packets, ..Traffic::default() })
    }

    fn captures(&self) -> Vec<(&'static str, bool)> {
        Vec::new()
    }

    fn capture(&self, _: &DeclaredCapture<'_>) -> Result<(), EntryError> {
        Ok(())
    }

    fn has_https(&self) -> bool {
        false
    }

    fn serve(&self, _: &[(String, OptionValue)]) -> Result<(), EntryError> {
        Ok(())
    }
}

impl Equipment for Echo {
    fn test(&self, asked: &DeclaredTest<'_>, site: &TestSite<'_>) -> Result<Box<dyn Instrument>, EntryError> {
        let mut test = self.ping(site.address, asked);
        site.annotate(&mut test.annotations);
        Ok(Box::new(test))
    }

    fn follow(
        &self,
        _: &CaptureSetup,
        _: Option<&PresharedKey>,
        _: &Stop,
        _: &mut dyn FnMut(PeriodEvent<'_>),
    ) -> CaptureResult {
        Err((SlotFailure::Other, "there are no captures".to_owned()))
    }

    fn server(&self, _: &[(String, OptionValue)], _: ServerKeys) -> Result<Serve, AnyError> {
        Err("there is no server".into())
    }
}
