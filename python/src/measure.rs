//! `measure` and `ping`: tests that Python can interrupt and follow.

use crate::errors::{failed, invalid};
use crate::state::{Wanted, span};
use crate::summary::Summary;
use jitlat_core::{Direction, Schedule, TestSpec, Transport};
use jitlat_instruments::ping::protocol::PingProtocol;
use jitlat_instruments::ping::protocols::PROTOCOLS;
use jitlat_instruments::{Analysed, Annotations, Arguments, Error, Event, Instrument, OneWay, Ping, Stop};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// Time between two checks whether Python wants to continue.
const CHECK: Duration = Duration::from_millis(50);

/// Progress of one stream: number of packets to send, sent, received, missing.
type Progress = Vec<(u32, u32, u32, u32)>;

/// Runs `test` in a separate thread. A Python interrupt ends it; the results so far are lost to the exception.
fn run(
    py: Python<'_>,
    test: impl Instrument + Send + 'static,
    wanted: &Wanted,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Analysed>> {
    // None, True and False choose whether progress is shown; anything else is called.
    let progress = py.import("jitlat._progress")?.call_method1("chosen", (progress,))?;
    let progress = (!progress.is_none()).then_some(&progress);
    let (stop, options) = (Stop::new(), wanted.options());
    let (tell, told) = channel::<Progress>();
    let running = {
        let stop = stop.clone();
        thread::spawn(move || -> Result<Vec<Analysed>, Error> {
            let mut observer = |event: &Event<'_>| {
                if let Event::Progress(streams) = event {
                    let of = streams.iter().map(|s| (s.packets, s.sent, s.received, s.missing));
                    // Sending fails if nobody follows any more: the test ends soon.
                    let _ = tell.send(of.collect());
                }
            };
            test.analyse(&options, &stop, &mut observer)
        })
    };
    let mut interrupted = None;
    loop {
        // A std channel cannot be shared between threads, so there is no long wait.
        let next = told.try_recv();
        match next {
            Ok(streams) => {
                if let (Some(call), None) = (progress, &interrupted) {
                    interrupted = call.call1((streams,)).err();
                }
            }
            Err(_) if running.is_finished() => break,
            Err(_) => py.detach(|| thread::sleep(CHECK)),
        }
        if interrupted.is_none() {
            interrupted = py.check_signals().err();
        }
        if interrupted.is_some() {
            stop.request();
        }
    }
    let ended = py.detach(|| running.join());
    if let Some(close) = progress.and_then(|shown| shown.getattr("close").ok()) {
        close.call0()?;
    }
    if let Some(why) = interrupted {
        return Err(why);
    }
    ended
        .map_err(|_| {
            crate::errors::Error::new_err("the test panicked: this is a bug in jitlat; please report it")
        })?
        .map_err(failed)
}

fn results(analysed: Vec<Analysed>, host: &str) -> Vec<Summary> {
    let one = |a: Analysed| Summary::new(host.to_owned(), a.session, a.summary, a.samples, None);
    analysed.into_iter().map(one).collect()
}

fn annotations(name: Option<String>, tags: Option<BTreeMap<String, String>>) -> Annotations {
    Annotations { name, tags: tags.into_iter().flatten().collect(), noise: None }
}

/// A one-way test against `jitlat serve` at `host`; returns a summary for each direction: "up" (to the server),
/// "down", or "both". Times in seconds, sizes in bytes. `progress`: a function that is called about ten times per
/// second with a list of (packets, sent, received, missing), one for each stream; or True to show progress, which is the
/// default in notebooks; or False. Ctrl-C ends the test.
#[pyfunction]
#[pyo3(signature = (host, *, direction = "up", packets = 500, size = 80, period = 0.02, transport = "udp", port = None, name = None,
                    tags = None, progress = None, bulk = false))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword argument in Python")]
pub fn measure(
    py: Python<'_>,
    host: &str,
    direction: &str,
    packets: u64,
    size: u64,
    period: f64,
    transport: &str,
    port: Option<u16>,
    name: Option<String>,
    tags: Option<BTreeMap<String, String>>,
    progress: Option<Bound<'_, PyAny>>,
    bulk: bool,
) -> PyResult<Vec<Summary>> {
    let directions: &[Direction] = match direction {
        "up" => &[Direction::Up],
        "down" => &[Direction::Down],
        "both" => &[Direction::Up, Direction::Down],
        other => return Err(invalid(format!("direction={other}: give up, down or both"))),
    };
    let transport = match transport {
        "udp" => Transport::Udp,
        "tcp" => Transport::Tcp,
        other => return Err(invalid(format!("transport={other}: give udp or tcp"))),
    };
    let period = span("period", period)?;
    let spec = |direction: &Direction| {
        let mut spec = TestSpec::new(*direction, transport, packets, size, period, Schedule::Periodic)?;
        // The server chooses its port.
        match direction {
            Direction::Up => spec.dst_port = 0,
            Direction::Down if directions.len() == 2 => spec.src_port = 0,
            Direction::Down => {}
        }
        Ok(spec)
    };
    let specs = directions.iter().map(spec).collect::<Result<Vec<_>, jitlat_core::spec::SpecError>>();
    let mut test = OneWay::new(host, specs.map_err(|e| invalid(e.to_string()))?);
    test.settings.control_port = port.unwrap_or(test.settings.control_port);
    test.annotations = annotations(name, tags);
    let wanted = Wanted { bulk, ..Wanted::default() };
    Ok(results(run(py, test, &wanted, progress.as_ref())?, host))
}

/// Round trips to `host` by `protocol` (icmp, stamp, twamp, lamp, irtt, ipsla, tcp). Further keyword arguments are those of
/// the protocol, as listed by `jitlat ping --help` (`stamp_port=8620`). Times in seconds, sizes in bytes. `progress` as for
/// `measure`.
#[pyfunction]
#[pyo3(signature = (host, *, protocol = "icmp", packets = 100, size = None, period = 0.02, timeout = 2.0, name = None, tags = None,
                    progress = None, bulk = false, **arguments))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword argument in Python")]
pub fn ping(
    py: Python<'_>,
    host: &str,
    protocol: &str,
    packets: u64,
    size: Option<u64>,
    period: f64,
    timeout: f64,
    name: Option<String>,
    tags: Option<BTreeMap<String, String>>,
    progress: Option<Bound<'_, PyAny>>,
    bulk: bool,
    arguments: Option<Bound<'_, PyDict>>,
) -> PyResult<Summary> {
    let found = PingProtocol::named(protocol).ok_or_else(|| {
        let names = PROTOCOLS.iter().map(|p| p.name).collect::<Vec<_>>().join(", ");
        invalid(format!("protocol={protocol}: give one of {names}"))
    })?;
    let mut given = Arguments::new();
    for (key, value) in arguments.iter().flat_map(|all| all.iter()) {
        given = given.with(&key.extract::<String>()?.replace('_', "-"), value.str()?.to_string());
    }
    let client = found.client(&given).map_err(|e| invalid(e.to_string()))?;
    let mut test = Ping::boxed(host, client);
    (test.packets, test.payload) = (packets, size);
    (test.period, test.timeout) = (span("period", period)?, span("timeout", timeout)?);
    test.annotations = annotations(name, tags);
    let wanted = Wanted { bulk, ..Wanted::default() };
    let mut all = results(run(py, test, &wanted, progress.as_ref())?, host);
    all.pop().ok_or_else(|| crate::errors::Error::new_err("nothing was measured"))
}
