//! [`OneWay`]: a stream of packets against a server, in either direction or both at once, with any of the protocols in
//! [`ONE_WAY_PROTOCOLS`].
//!
//! * [`protocols`] – [`ONE_WAY_PROTOCOLS`], one file for each
//! * [`protocol`] – [`OneWayProtocol`], the type of an entry, and [`OneWayClient`]

pub mod protocol;
pub mod protocols;

pub use protocol::{OneWayClient, OneWayProtocol};
pub use protocols::ONE_WAY_PROTOCOLS;

use crate::error::Error;
use crate::instrument::{Annotations, Instrument, TestOutcome, ip_header};
use crate::size_limit::{self, ShortTest};
use crate::start::StartGate;
use crate::stop::Stop;
use crate::watch::Watched;
use jitlat_core::observer::{Event, Observer};
use jitlat_core::session::{Ending, HostFacts, SizeLimit};
use jitlat_core::summary::Summary;
use jitlat_core::{Direction, PacketRecord, Schedule, Session, Span, TestSpec, Transport};
use jitlat_net::client::{self, EarlierTest, TestRequest};
use jitlat_net::clock;
use jitlat_net::interface::WatchSettings;
use jitlat_proto::jitlat::{Dialect, Recording, ServerLimits, SessionId};
use protocols::jitlat::JitlatClient;
use std::sync::Arc;

/// Settings of a one-way test.
#[derive(Clone, Debug)]
pub struct OneWay {
    /// Server, streams, pacing and timestamps. Control port, dialect, key, segmentation and feedback apply
    /// only to jitlat's own protocol.
    pub settings: TestRequest,
    /// Client of the protocol to use.
    pub client: Arc<dyn OneWayClient>,
    /// Annotations that are stored with the test.
    pub annotations: Annotations,
    /// True to search, after a test in which nothing arrived, for the largest packet that passes. The search takes up
    /// to 20 s.
    pub finds_size_limit: bool,
    /// Samples of the interface that are taken while the test runs.
    pub watch: WatchSettings,
    /// Time of the first packet of this host, and the condition on its clock.
    pub start: StartGate,
}

impl OneWay {
    /// Creates a test of `streams` (one, or one per direction) against the server at `host`, with kernel stamps.
    pub fn new(host: impl Into<String>, streams: Vec<TestSpec>) -> OneWay {
        OneWay {
            settings: TestRequest::new(host, streams),
            client: Arc::new(JitlatClient),
            annotations: Annotations::default(),
            finds_size_limit: false,
            watch: WatchSettings::default(),
            start: StartGate::default(),
        }
    }
}

/// The part of a test that this host recorded before its program ended, without the results of the server.
#[derive(Clone, Debug)]
pub struct InterruptedTest {
    /// Session as last known.
    pub session: Session,
    /// Packets that this host received; empty for a stream that it sent.
    pub records: Vec<PacketRecord>,
}

impl OneWay {
    /// Fetches the results of an earlier test with the same streams from the server.
    ///
    /// # Errors
    /// [`Error`], for example if the server no longer has these results.
    pub fn collect(
        &self,
        left: Vec<InterruptedTest>,
        stop: &Stop,
        observer: &mut dyn Observer,
    ) -> Result<TestOutcome, Error> {
        let ids: Vec<Option<&str>> = left.iter().map(|l| l.session.id.as_deref()).collect();
        if ids.windows(2).any(|pair| pair[0] != pair[1]) {
            let why = "the logs are of different tests: collect one test at a time";
            return Err(Error::Settings(why.to_owned()));
        }
        let id = ids.first().copied().flatten().ok_or_else(|| {
            Error::Settings("the log names no session, so no server has stored its results".to_owned())
        })?;
        let session: SessionId =
            id.parse().map_err(|e| Error::Settings(format!("the log's session '{id}': {e}")))?;
        // Numbers of the packets from which on nothing was recorded here.
        let ends: Vec<u32> = left.iter().map(|l| recorded_end(&l.records)).collect();
        let (before, recordings): (Vec<Session>, Vec<Option<Recording>>) =
            left.into_iter().map(|l| (recording(&l), l.session)).map(|(r, s)| (s, r)).unzip();
        let known = |sessions: &[Session]| -> Vec<Session> {
            let all = before.iter().zip(&ends).zip(sessions);
            let mut sessions: Vec<Session> =
                all.map(|((before, end), now)| merge(before, *end, now)).collect();
            sessions.iter_mut().for_each(|s| self.annotations.add_to(s));
            sessions
        };
        observer.event(&Event::Concluding(&before));
        let mut request = self.settings.clone();
        request.terms.dialect = Dialect::V3;
        let measured = client::collect(
            &request,
            EarlierTest { session, recordings },
            stop.flag(),
            &mut complete(&known, observer),
        )?;
        let sessions = known(&measured.sessions);
        Ok(TestOutcome { sessions, ..measured.into() })
    }
}

/// Returns an observer that adds missing facts to the sessions in events before it forwards the events.
fn complete<'a>(
    known: &'a dyn Fn(&[Session]) -> Vec<Session>,
    observer: &'a mut dyn Observer,
) -> impl FnMut(&Event<'_>) + 'a {
    move |event| match *event {
        Event::Started(sessions) => observer.event(&Event::Started(&known(sessions))),
        Event::Concluding(sessions) => observer.event(&Event::Concluding(&known(sessions))),
        Event::Finished(sessions) => observer.event(&Event::Finished(&known(sessions))),
        ref other => observer.event(other),
    }
}

fn recording(left: &InterruptedTest) -> Option<Recording> {
    let spec = &left.session.spec;
    (spec.direction() == Direction::Down).then(|| {
        let mut recording = Recording::new(ServerLimits::record_limit(spec));
        recording.extend(left.records.iter().copied());
        recording
    })
}

/// Returns the highest valid sequence number in `records` plus 1; 0 if there is none.
fn recorded_end(records: &[PacketRecord]) -> u32 {
    let numbers = records.iter().filter_map(|record| u32::try_from(record.seq).ok());
    numbers.max().map_or(0, |last| last.saturating_add(1))
}

/// Combines the facts known before with those that the server has added. Packets from number `end` on were not recorded
/// here.
fn merge(before: &Session, end: u32, now: &Session) -> Session {
    let is_received = before.spec.direction() == Direction::Down;
    let sent = now.sent.or(before.sent);
    let cut_short = is_received && before.ending != Ending::Complete && sent.is_none_or(|sent| end < sent);
    let (ending, reason) = match cut_short {
        true => (Ending::Interrupted, Some("this host's program ended before the stream did".to_owned())),
        false => (now.ending, now.reason.clone()),
    };
    let server = now.server.clone();
    Session {
        // Nobody received the packets that were sent after the program had ended: their fate is unknown.
        sent: sent.filter(|_| !cut_short),
        server: HostFacts { name: server.name.clone().or_else(|| before.server.name.clone()), ..server },
        receiver_drops: now.receiver_drops.or(before.receiver_drops),
        ending,
        reason,
        ..before.clone()
    }
}

/// Observer that adds the size limit of the path to the session of each stream of which nothing arrived, before it
/// forwards the end of the test.
struct SizeLimits<'a> {
    /// Number of packets that arrived, by stream.
    arrived: Vec<u64>,
    found: Vec<Option<SizeLimit>>,
    test: &'a OneWay,
    stop: &'a Stop,
    observer: &'a mut dyn Observer,
}

impl Observer for SizeLimits<'_> {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Records { stream, records, .. } => {
                self.arrived.resize(self.arrived.len().max(stream + 1), 0);
                self.arrived[*stream] += records.len() as u64;
            }
            Event::Finished(sessions) => {
                let mut sessions = sessions.to_vec();
                for (stream, session) in sessions.iter_mut().enumerate() {
                    if self.arrived.get(stream).is_none_or(|n| *n == 0) {
                        session.size_limit = self.test.size_limit(session, self.stop);
                    }
                }
                self.found = sessions.iter().map(|session| session.size_limit).collect();
                return self.observer.event(&Event::Finished(&sessions));
            }
            _ => {}
        }
        self.observer.event(event);
    }
}

/// Time after which short tests with jitlat's own protocol are stopped if nothing arrives.
const SHORT_TEST_LIMIT: Span = Span::millis(1500);

impl OneWay {
    /// Returns the size limit of the path in the direction of `session`; `None` unless packets were lost because of
    /// their length.
    fn size_limit(&self, session: &Session, stop: &Stop) -> Option<SizeLimit> {
        let terms = &self.settings.terms;
        let is_complete = matches!(session.ending, Ending::Complete | Ending::PeerLost);
        let is_possible = session.sent.is_some_and(|sent| sent > 0) && terms.dialect != Dialect::Classic;
        if !(self.finds_size_limit && is_complete && is_possible) || stop.is_requested() {
            return None;
        }
        let spec = terms.specs.iter().find(|spec| spec.direction() == session.spec.direction())?;
        let overhead = session.ip_length()? - u32::from(spec.payload());
        // Results of OWAMP exclude the last packets before a stop.
        let limit = std::ptr::eq(self.client.protocol(), &raw const protocols::jitlat::PROTOCOL);
        let limit = limit.then_some(SHORT_TEST_LIMIT);
        let passes = |payload: u32| {
            let (direction, transport) = (spec.direction(), spec.transport());
            let (packets, period) = (size_limit::PACKETS, size_limit::PERIOD);
            let short =
                TestSpec::new(direction, transport, packets, payload.into(), period, Schedule::Periodic);
            let mut short = short.ok()?;
            short.dscp = spec.dscp;
            match direction {
                Direction::Up => short.dst_port = spec.dst_port,
                Direction::Down => short.src_port = spec.src_port,
            }
            let mut test = OneWay {
                finds_size_limit: false,
                watch: WatchSettings::off(),
                start: StartGate::default(),
                ..self.clone()
            };
            test.settings.terms.specs = vec![short];
            test.settings.terms.feedback = false;
            test.settings.limit = None;
            let own = Stop::new();
            let mut observer = ShortTest::new(own.clone(), stop, limit);
            let ran = self.client.check(&test).and_then(|()| test.client.measure(&test, &own, &mut observer));
            ran.ok().map(|_| observer.arrived > 0)
        };
        size_limit::search(session, overhead, stop, &passes)
    }
}

impl Instrument for OneWay {
    fn run(&self, stop: &Stop, observer: &mut dyn Observer) -> Result<TestOutcome, Error> {
        let created = clock::wall();
        let watched = Watched::new(&self.watch, self.settings.bind);
        let annotated = |sessions: &[Session]| -> Vec<Session> {
            let mut sessions = sessions.to_vec();
            for session in &mut sessions {
                session.created.get_or_insert(created);
                self.annotations.add_to(session);
                watched.add_to(session);
            }
            sessions
        };
        self.client.check(self)?;
        // Only streams of this host can be set up before they begin.
        let sends_all = self.settings.terms.specs.iter().all(|spec| spec.direction() == Direction::Up);
        let start = self.start.wait(stop, sends_all && self.client.starts_on_time())?;
        let mut timed = self.clone();
        timed.settings.sending.start = start;
        let mut limits = SizeLimits { arrived: Vec::new(), found: Vec::new(), test: self, stop, observer };
        let mut completed = complete(&annotated, &mut limits);
        let outcome = self.client.measure(&timed, stop, &mut |event: &Event<'_>| {
            watched.follow(event);
            completed(event);
        })?;
        drop(completed);
        let mut sessions = annotated(&outcome.sessions);
        for (session, limit) in sessions.iter_mut().zip(&limits.found) {
            session.size_limit = *limit;
        }
        Ok(TestOutcome { sessions, ..outcome })
    }

    fn duration(&self) -> Result<Span, Error> {
        Ok(self.settings.terms.specs.iter().map(TestSpec::duration).max().unwrap_or_default())
    }

    fn quantity(&self) -> &'static str {
        "one-way delay"
    }

    fn ip_length(&self, summary: &Summary) -> Option<u64> {
        if summary.header.proto == Transport::Tcp.number() {
            return None;
        }
        Some(summary.header.pktlen + 8 + ip_header(summary))
    }
}
