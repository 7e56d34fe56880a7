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
use jitlat_core::twoway::TwoWay;
use jitlat_core::{
    Direction, PacketRecord, Schedule, Session, Span, Stamp, StampSource, SteadyTime, TestSpec, Transport,
};
use jitlat_proto::rpm::RpmParameters;
use jitlat_proto::rpm::measured::RpmMeasured;
use jitlat_proto::rpm::stage::{AnsweredProbe, ProbeTimes, StageEnd};

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
    /// True if the probes share connections with the load, or with each other on the idle path.
    pub is_own: bool,
    /// Facts about the stream.
    pub session: Session,
    /// Answered probes, in the order of their answers.
    pub records: Vec<PacketRecord>,
}

/// A probe's request: the time at which it was sent, and at which its answer was complete.
type Exchange = (SteadyTime, SteadyTime);

impl RpmResult {
    /// Creates the result, with streams of the probes.
    pub fn new(url: String, parameters: RpmParameters, measured: RpmMeasured) -> RpmResult {
        let mut streams: Vec<ProbeStream> = Vec::new();
        let complete = if measured.is_interrupted { Ending::Interrupted } else { Ending::Complete };
        let idle = ("idle", measured.idle.as_slice(), (complete, None));
        let stages = measured.stages.iter().map(|stage| {
            let ending = match &stage.end {
                StageEnd::Stable | StageEnd::TimeLimit => (Ending::Complete, None),
                StageEnd::Interrupted => (Ending::Interrupted, None),
                StageEnd::Failed(why) => (Ending::PeerLost, Some(why.clone())),
            };
            (stage.load.name(), stage.probes.as_slice(), ending)
        });
        for (name, probes, ending) in std::iter::once(idle).chain(stages) {
            for is_own in [true, false] {
                let exchanges: Vec<Exchange> = probes.iter().filter_map(|p| exchange(p, is_own)).collect();
                let label = format!("{name} {}", if is_own { "self" } else { "foreign" });
                streams.extend(stream(&measured, (label, is_own), exchanges, &ending));
            }
        }
        RpmResult { url, parameters, measured, streams }
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

/// Returns the stream of `exchanges`; `None` if there are none.
fn stream(
    measured: &RpmMeasured,
    (label, is_own): (String, bool),
    mut exchanges: Vec<Exchange>,
    (ending, reason): &(Ending, Option<String>),
) -> Option<ProbeStream> {
    exchanges.sort_by_key(|(began, _)| *began);
    let (first, last) = (exchanges.first()?.0, exchanges.last()?.0);
    let n = exchanges.len();
    let period = Span(((last - first).0 / n.saturating_sub(1).max(1) as i64).max(1_000_000));
    let spec =
        TestSpec::new(Direction::Up, Transport::Tcp, n as u64, HEADER_LEN.into(), period, Schedule::Periodic);
    let mut session = Session::new(spec.ok()?);
    session.spec.dst_port = measured.server.port();
    session.spec.src_port = measured.local.map_or(0, |local| local.port());
    session.created = Some(measured.wall(first));
    session.src = measured.local.map(|local| local.ip());
    session.dst = Some(measured.server.ip());
    session.sent = u32::try_from(n).ok();
    // Probes leave when their share of the goodput permits.
    session.period_known = false;
    session.payload_known = false;
    session.ending = *ending;
    session.reason = reason.clone();
    session.client = measured.host.clone();
    session.name = Some(label.clone());
    session.two_way = Some(Box::new(TwoWay { protocol: "rpm".to_owned(), ..TwoWay::default() }));
    let mut records: Vec<PacketRecord> = Vec::with_capacity(n);
    let stamp = |at| Stamp { at: measured.wall(at), source: StampSource::User };
    for (seq, (began, ended)) in exchanges.iter().enumerate() {
        let mut record = PacketRecord::new(seq as i64);
        record.set(Moment::Sent, stamp(*began));
        record.set(Moment::Returned, stamp(*ended));
        records.push(record);
    }
    records.sort_by_key(|record| record.time(Moment::Returned));
    Some(ProbeStream { label, is_own, session, records })
}
