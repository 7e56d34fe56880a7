//! A monitor inside another program, with an instrument of its own: `cargo run -p jitlat-monitor --example embed`.
//!
//! It pings a STAMP reflector on this machine every two seconds, and prints what the archive has after three results.

use jitlat_archive::{Archive, Filter};
use jitlat_core::Span;
use jitlat_instruments::passive::PeriodEvent;
use jitlat_instruments::ping::Protocol;
use jitlat_instruments::ping::protocols::stamp::StampClient;
use jitlat_instruments::serve::{Policy, Serve};
use jitlat_instruments::{Arguments, Instrument, Ping, Stop};
use jitlat_monitor::Timetable;
use jitlat_monitor::agenda::{Counts, Ending, Failure};
use jitlat_monitor::file::{Asked, AskedCapture, Instruments, Value, Wrong};
use jitlat_monitor::model::Traffic;
use jitlat_monitor::runtime::{
    self, AnyError, CaptureSetup, Captured, Equipment, MonitorSettings, ServerKeys, SlotCounts, TestSite,
};
use jitlat_net::wake::StopSignal;
use jitlat_proto::jitlat::Key;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The file: this host, and an address that it pings.
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
    let stamp = Protocol::named("stamp").ok_or("no STAMP")?;
    let reflector = Serve {
        ips: vec![Ipv4Addr::LOCALHOST.into()],
        one_way: None,
        reflectors: stamp.reflectors(&Arguments::new().with("stamp-port", "0"))?,
        policy: Policy::default(),
        priority: None,
        one_way_packets: None,
        digests: None,
        collect: None,
    };
    let reflector = reflector.start()?;
    let equipment = Arc::new(Echo { port: reflector.reflected()[0].1.port() });
    let file = folder.join("monitor.toml");
    std::fs::write(&file, FILE)?;
    let model = runtime::load(&file, &*equipment)?.ok_or("the file has mistakes, which are logged")?;
    let timetable = Timetable::new(&model);
    let settings = MonitorSettings {
        file,
        host: Some("here".to_owned()),
        archive: None,
        duration: None,
        equipment,
        print: Arc::new(|_| Ok(())),
    };
    Ok(runtime::run(&settings, model, timetable, stop)?)
}

/// Number of slots that have a result.
pub fn measured(counts: &Counts) -> u64 {
    counts.all().filter(|(ending, _)| matches!(ending, Ending::Measured { .. })).map(|(_, n)| n).sum()
}

/// Number of results in the archive.
pub fn results(archive: &Path) -> usize {
    let list = Archive::open(archive).and_then(|archive| archive.list(&Filter::default(), &[]));
    list.map_or(0, |tests| tests.len())
}

/// One instrument: STAMP, to this port.
#[derive(Debug)]
struct Echo {
    port: u16,
}

impl Echo {
    fn ping(&self, host: &str, asked: &Asked<'_>) -> Ping {
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

    fn traffic(&self, asked: &Asked<'_>) -> Result<Traffic, Wrong> {
        let test = self.ping("host", asked);
        let duration = test.duration().map_err(|e| Wrong { key: None, message: e.to_string() })?;
        Ok(Traffic { duration, recorded: test.packets, ..Traffic::default() })
    }

    fn captures(&self) -> Vec<(&'static str, bool)> {
        Vec::new()
    }

    fn capture(&self, _: &AskedCapture<'_>) -> Result<(), Wrong> {
        Ok(())
    }

    fn has_https(&self) -> bool {
        false
    }

    fn serve(&self, _: &[(String, Value)]) -> Result<(), Wrong> {
        Ok(())
    }
}

impl Equipment for Echo {
    fn test(&self, asked: &Asked<'_>, site: &TestSite<'_>) -> Result<Box<dyn Instrument>, Wrong> {
        let mut test = self.ping(site.address, asked);
        site.annotate(&mut test.annotations);
        Ok(Box::new(test))
    }

    fn follow(
        &self,
        _: &CaptureSetup,
        _: Option<&Key>,
        _: &Stop,
        _: &mut dyn FnMut(PeriodEvent<'_>),
    ) -> Captured {
        Err((Failure::Other, "there are no captures".to_owned()))
    }

    fn server(&self, _: &[(String, Value)], _: ServerKeys) -> Result<Serve, AnyError> {
        Err("there is no server".into())
    }
}
