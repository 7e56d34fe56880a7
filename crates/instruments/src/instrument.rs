//! [`Instrument`]: the common interface of all tests that send packets.

use crate::analysis::{Analysed, Analyses};
use crate::error::Error;
use crate::stop::Stop;
use jitlat_core::observer::Observer;
use jitlat_core::session::Ending;
use jitlat_core::summary::Summary;
use jitlat_core::{NoiseFloor, Options, Session, Span};
use jitlat_net::client::Measured;
use jitlat_proto::owamp::Statistics;

/// A test that sends packets. It can be run any number of times.
pub trait Instrument {
    /// Runs the test until it is complete or `stop` is requested; `observer` receives all events, records
    /// included.
    ///
    /// # Errors
    /// [`Error`] if nothing was measured.
    fn run(&self, stop: &Stop, observer: &mut dyn Observer) -> Result<TestOutcome, Error>;

    /// Returns the expected duration of the test.
    ///
    /// # Errors
    /// [`Error::Settings`] if the settings are not valid.
    fn duration(&self) -> Result<Span, Error>;

    /// Returns the name of the measured quantity: "one-way delay" or "round trip".
    fn quantity(&self) -> &'static str;

    /// Returns the length of the test's packets, including the IP header, in bytes; `None` over TCP, which
    /// forms segments itself.
    fn ip_length(&self, summary: &Summary) -> Option<u64>;

    /// Runs the test and analyses every stream.
    ///
    /// # Errors
    /// [`Error`] if nothing was measured.
    fn analyse(
        &self,
        options: &Options,
        stop: &Stop,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Analysed>, Error> {
        let mut analyses = Analyses::new(options.clone());
        self.run(stop, &mut [&mut analyses as &mut dyn Observer, observer])?;
        Ok(analyses.finish())
    }
}

/// Returns the length of the IP header of a test's packets, in bytes.
pub(crate) fn ip_header(summary: &Summary) -> u64 {
    let v6 = summary.header.dst_ip.as_ref().is_some_and(|ip| ip.contains(':'));
    if v6 { 40 } else { 20 }
}

/// End of a test, with its sessions.
#[derive(Clone, Debug)]
pub struct TestOutcome {
    /// Facts about each stream.
    pub sessions: Vec<Session>,
    /// Way in which the test ended.
    pub ending: Ending,
    /// Reason why the test ended early; `None` after a complete test.
    pub reason: Option<String>,
    /// OWAMP sessions whose receivers' records are known, for the output formats of OWAMP's tools; empty for other
    /// protocols.
    pub owamp: Vec<Statistics>,
}

impl From<Measured> for TestOutcome {
    fn from(measured: Measured) -> TestOutcome {
        let Measured { sessions, ending, reason } = measured;
        TestOutcome { sessions, ending, reason, owamp: Vec::new() }
    }
}

/// Annotations that are stored with a test.
#[derive(Clone, Debug, Default)]
pub struct Annotations {
    /// Name of the test; `None`: no name.
    pub name: Option<String>,
    /// Keys and values for finding the test.
    pub tags: Vec<(String, String)>,
    /// Noise that this host adds to every figure; `None` if it was not measured before the test.
    pub noise: Option<NoiseFloor>,
}

impl Annotations {
    /// Adds the annotations to `session`.
    pub fn add_to(&self, session: &mut Session) {
        session.name = self.name.clone().or_else(|| session.name.take());
        session
            .tags
            .extend(self.tags.iter().filter(|t| !session.tags.contains(t)).cloned().collect::<Vec<_>>());
        session.client.noise = self.noise.or(session.client.noise);
    }
}
