//! Responsiveness under working conditions: round trips per minute (RPM) over HTTP/2 while load-generating connections
//! fill the path (draft-ietf-ippm-responsiveness). [`RpmResult`] is the result. With the feature `rpm`, `Rpm` measures
//! it, and `RpmServer` answers.

#[cfg(feature = "rpm")]
mod test;

#[cfg(feature = "rpm")]
pub use jitlat_net::rpm::certificate::ServerCertificate;
#[cfg(feature = "rpm")]
pub use jitlat_net::rpm::server::RpmServer;
#[cfg(feature = "rpm")]
pub use jitlat_net::rpm::trust::Trust;
pub use jitlat_proto::rpm as method;
#[cfg(feature = "rpm")]
pub use test::Rpm;

use jitlat_core::observer::{Event, Observer};
use jitlat_core::record::Moment;
use jitlat_core::session::Ending;
use jitlat_core::spec::HEADER_LEN;
use jitlat_core::twoway::{HTTP_REQUESTS, TwoWay};
use jitlat_core::{
    Direction, PacketRecord, Schedule, Session, Span, Stamp, StampSource, SteadyTime, TestSpec, Transport,
};
use jitlat_proto::rpm::measured::RpmMeasured;
use jitlat_proto::rpm::stage::{AnsweredProbe, ProbeTimes, StageEnd};
use jitlat_proto::rpm::{LoadDirections, RpmParameters};

/// Result of a measurement of responsiveness.
#[derive(Clone, Debug)]
pub struct RpmResult {
    /// URL of the configuration document.
    pub url: String,
    /// Parameters of the method.
    pub parameters: RpmParameters,
    /// Stages, and the idle path.
    pub measured: RpmMeasured,
    /// Probes as round trips, each kind of probe in each stage as one stream.
    pub streams: Vec<ProbeStream>,
}

/// Probes of one kind as a stream of round trips.
#[derive(Clone, Debug)]
pub struct ProbeStream {
    /// Name: `idle self`, `down self`, `down foreign`.
    pub label: String,
    /// Load during which the probes were sent: `idle`, `down`, `up` or `both`.
    pub load: &'static str,
    /// True if the probes share connections with the load, or with each other on the idle path.
    pub is_own: bool,
    /// Facts about the stream.
    pub session: Session,
    /// Answered probes, in the order of their answers.
    pub records: Vec<PacketRecord>,
}

/// Value of [`ProbeStream::load`] for probes on the idle path.
const IDLE: &str = "idle";

fn kind(is_own: bool) -> &'static str {
    if is_own { "self" } else { "foreign" }
}

fn label(load: &str, is_own: bool) -> String {
    format!("{load} {}", kind(is_own))
}

/// A probe's request: the time at which it was sent, and at which its answer was complete.
type Exchange = (SteadyTime, SteadyTime);

impl RpmResult {
    /// Creates the result, with streams of the probes.
    pub fn new(url: String, parameters: RpmParameters, measured: RpmMeasured) -> RpmResult {
        let mut streams: Vec<ProbeStream> = Vec::new();
        let complete = if measured.is_interrupted { Ending::Interrupted } else { Ending::Complete };
        let idle = (IDLE, measured.idle.as_slice(), [0; 2], (complete, None));
        let stages = measured.stages.iter().map(|stage| {
            let ending = match &stage.end {
                StageEnd::Stable | StageEnd::TimeLimit => (Ending::Complete, None),
                StageEnd::Interrupted => (Ending::Interrupted, None),
                StageEnd::Failed(why) => (Ending::PeerLost, Some(why.clone())),
            };
            (stage.load.name(), stage.probes.as_slice(), [stage.own.failed, stage.foreign.failed], ending)
        });
        for (load, probes, failed, ending) in std::iter::once(idle).chain(stages) {
            for (is_own, failed) in [true, false].into_iter().zip(failed) {
                let exchanges: Vec<Exchange> = probes.iter().filter_map(|p| exchange(p, is_own)).collect();
                streams.extend(stream(&measured, (load, is_own), exchanges, failed, &ending));
            }
        }
        let mut result = RpmResult { url, parameters, measured, streams };
        result.tag();
        result
    }

    /// Returns the names of the streams that a measurement with these stages can have, in their order.
    pub fn labels(stages: &[LoadDirections]) -> Vec<String> {
        let loads = std::iter::once(IDLE).chain(stages.iter().map(|load| load.name()));
        loads.flat_map(|load| [true, false].map(|is_own| label(load, is_own))).collect()
    }

    /// Adds the user's name for the measurement to the name of each stream, and the user's tags to its tags.
    pub fn annotate(&mut self, name: Option<&str>, tags: &[(String, String)]) {
        for stream in &mut self.streams {
            if let Some(name) = name {
                stream.session.name = Some(format!("{name} {}", stream.label));
            }
            stream.session.tags.extend_from_slice(tags);
        }
    }

    /// Tags each stream with its load and the kind of its probes, and with the result of its stage.
    fn tag(&mut self) {
        for stream in &mut self.streams {
            let mut tag = |key: &str, value: String| stream.session.tags.push((key.to_owned(), value));
            tag("load", if stream.load == IDLE { "none".to_owned() } else { stream.load.to_owned() });
            tag("probe", kind(stream.is_own).to_owned());
            let Some(stage) = self.measured.stages.iter().find(|stage| stage.load.name() == stream.load)
            else {
                continue;
            };
            if let Some(rpm) = stage.rpm() {
                tag("rpm", format!("{rpm:.0}"));
                tag("confidence", stage.confidence.name().to_owned());
            }
            for goodput in &stage.goodput {
                let direction = if goodput.direction == Direction::Up { "up" } else { "down" };
                tag(&format!("goodput-{direction}"), format!("{:.0}", goodput.average_bps));
            }
        }
    }

    /// Passes the streams to `observer`, as the events of a test.
    pub fn replay(&self, observer: &mut dyn Observer) {
        let sessions: Vec<Session> = self.streams.iter().map(|stream| stream.session.clone()).collect();
        observer.event(&Event::Started(&sessions));
        observer.event(&Event::Concluding(&sessions));
        for (stream, of) in self.streams.iter().enumerate() {
            observer.event(&Event::Records { stream, records: &of.records, tcp: &[] });
        }
        observer.event(&Event::Finished(&sessions));
    }
}

/// Returns the request of `probe`; `None` if it is of the other kind.
fn exchange(probe: &AnsweredProbe, is_own: bool) -> Option<Exchange> {
    match (probe.times, is_own) {
        (ProbeTimes::Own(_), true) => Some((probe.began, probe.ended)),
        (ProbeTimes::Foreign(times), false) => Some((SteadyTime(probe.ended.0 - times.http.0), probe.ended)),
        _ => None,
    }
}

/// Returns the stream of `exchanges`; `None` if there are none. `failed` is the number of probes without an answer.
fn stream(
    measured: &RpmMeasured,
    (load, is_own): (&'static str, bool),
    mut exchanges: Vec<Exchange>,
    failed: u32,
    (ending, reason): &(Ending, Option<String>),
) -> Option<ProbeStream> {
    exchanges.sort_by_key(|(began, _)| *began);
    let (first, last) = (exchanges.first()?.0, exchanges.last()?.0);
    let n = exchanges.len();
    let sent = n as u64 + u64::from(failed);
    let label = label(load, is_own);
    let period = Span(((last - first).0 / n.saturating_sub(1).max(1) as i64).max(1_000_000));
    let spec =
        TestSpec::new(Direction::Up, Transport::Tcp, sent, HEADER_LEN.into(), period, Schedule::Periodic);
    let mut session = Session::new(spec.ok()?);
    session.spec.dst_port = measured.server.port();
    session.spec.src_port = measured.local.map_or(0, |local| local.port());
    session.created = Some(measured.wall(first));
    session.src = measured.local.map(|local| local.ip());
    session.dst = Some(measured.server.ip());
    session.sent = u32::try_from(sent).ok();
    // Probes leave when their share of the goodput permits.
    session.period_known = false;
    session.payload_known = false;
    session.ending = *ending;
    session.reason = reason.clone();
    session.client = measured.host.clone();
    session.name = Some(label.clone());
    session.two_way = Some(Box::new(TwoWay { protocol: HTTP_REQUESTS.to_owned(), ..TwoWay::default() }));
    let mut records: Vec<PacketRecord> = Vec::with_capacity(n);
    let stamp = |at| Stamp { at: measured.wall(at), source: StampSource::User };
    for (seq, (began, ended)) in exchanges.iter().enumerate() {
        let mut record = PacketRecord::new(seq as i64);
        record.set(Moment::Sent, stamp(*began));
        record.set(Moment::Returned, stamp(*ended));
        records.push(record);
    }
    records.sort_by_key(|record| record.time(Moment::Returned));
    Some(ProbeStream { label, load, is_own, session, records })
}
