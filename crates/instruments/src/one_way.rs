//! [`OneWay`]: a stream of packets against `jitlat serve`, in either direction or both at once.

use crate::error::Error;
use crate::instrument::{Annotations, Instrument, Outcome};
use crate::stop::Stop;
use jitlat_core::observer::{Event, Observer};
use jitlat_core::spec::CONTROL_PORT;
use jitlat_core::summary::Summary;
use jitlat_core::{Session, Source, Span, TestSpec, Transport};
use jitlat_net::client::{self, Family, TestRequest};
use jitlat_net::clock;
use jitlat_net::pace::Pacing;
use jitlat_proto::jitlat::{Dialect, Key};
use std::net::IpAddr;

/// Settings of a one-way test.
#[derive(Clone, Debug)]
pub struct OneWay {
    /// The server: a name or an address.
    pub host: String,
    /// Its control port.
    pub control_port: u16,
    /// Only addresses of this family.
    pub family: Option<Family>,
    /// Local address of the control connection and the test sockets.
    pub bind: Option<IpAddr>,
    /// One stream, or one each way.
    pub streams: Vec<TestSpec>,
    /// Version 3 or classic.
    pub dialect: Dialect,
    /// The key shared with the server.
    pub key: Option<Key>,
    /// How packet threads are run.
    pub pacing: Pacing,
    /// The best stamps to use.
    pub stamps: Source,
    /// Kept with the test.
    pub annotations: Annotations,
}

impl OneWay {
    /// A test of `streams` (one, or one each way) against the server at `host`, with kernel stamps.
    pub fn new(host: impl Into<String>, streams: Vec<TestSpec>) -> OneWay {
        OneWay {
            host: host.into(),
            control_port: CONTROL_PORT,
            family: None,
            bind: None,
            streams,
            dialect: Dialect::V3,
            key: None,
            pacing: Pacing::default(),
            stamps: Source::Kernel,
            annotations: Annotations::default(),
        }
    }

    /// What the driver is asked for.
    pub fn request(&self) -> TestRequest {
        TestRequest {
            host: self.host.clone(),
            control_port: self.control_port,
            family: self.family,
            bind: self.bind,
            specs: self.streams.clone(),
            dialect: self.dialect,
            key: self.key.clone(),
            pacing: self.pacing.clone(),
            stamps: self.stamps,
        }
    }
}

impl Instrument for OneWay {
    fn run(&self, stop: &Stop, observer: &mut dyn Observer) -> Result<Outcome, Error> {
        let created = clock::wall();
        let annotated = |sessions: &[Session]| -> Vec<Session> {
            let mut sessions = sessions.to_vec();
            for session in &mut sessions {
                session.created.get_or_insert(created);
                self.annotations.add_to(session);
            }
            sessions
        };
        let mut annotate = |event: &Event<'_>| match *event {
            Event::Started(sessions) => observer.event(&Event::Started(&annotated(sessions))),
            Event::Concluding(sessions) => observer.event(&Event::Concluding(&annotated(sessions))),
            Event::Finished(sessions) => observer.event(&Event::Finished(&annotated(sessions))),
            ref other => observer.event(other),
        };
        let measured = client::run(&self.request(), stop.flag(), &mut annotate)?;
        let sessions = annotated(&measured.sessions);
        Ok(Outcome { sessions, ending: measured.ending, reason: measured.reason })
    }

    fn duration(&self) -> Span {
        self.streams.iter().map(TestSpec::duration).max().unwrap_or_default()
    }

    fn quantity(&self) -> &'static str {
        "one-way delay"
    }

    fn ip_length(&self, summary: &Summary) -> Option<u64> {
        if summary.header.proto == Transport::Tcp.number() {
            return None;
        }
        let v6 = summary.header.dst_ip.as_ref().is_some_and(|ip| ip.contains(':'));
        Some(summary.header.pktlen + 8 + if v6 { 40 } else { 20 })
    }
}
