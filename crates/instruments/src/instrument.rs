//! [`Instrument`]: the common interface of all tests that send packets.

use crate::analysis::{Analysed, Analyses};
use crate::error::Error;
use crate::stop::Stop;
use jitlat_core::observer::Observer;
use jitlat_core::session::Ending;
use jitlat_core::summary::Summary;
use jitlat_core::{NoiseFloor, Options, Session, Span};
use jitlat_net::client::Measured;

/// A test that sends packets. It can be run any number of times.
pub trait Instrument {
    /// Runs to the end, or until `stop`; `observer` receives all events, records included.
    ///
    /// # Errors
    /// [`Error`] if nothing was measured.
    fn run(&self, stop: &Stop, observer: &mut dyn Observer) -> Result<TestOutcome, Error>;

    /// Returns the expected duration of the test.
    ///
    /// # Errors
    /// [`Error::Settings`] if the settings cannot be run.
    fn duration(&self) -> Result<Span, Error>;

    /// Returns the name of the measured quantity: "one-way delay" or "round trip".
    fn quantity(&self) -> &'static str;

    /// Returns the length of the test's packets as IP packets, in bytes; `None` over TCP, which forms segments itself.
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

/// Ending of a test, with its sessions.
#[derive(Clone, Debug)]
pub struct TestOutcome {
    /// Facts about each stream.
    pub sessions: Vec<Session>,
    /// Kind of ending.
    pub ending: Ending,
    /// Reason why the test ended early; `None` after a complete test.
    pub reason: Option<String>,
    /// Results in the formats of the protocol's own tools; empty for most protocols.
    pub texts: Vec<ProtocolText>,
}

/// Results of a test as a tool of its protocol prints them.
#[derive(Clone, Debug)]
pub struct ProtocolText {
    /// Name of the format: `owstats`.
    pub format: &'static str,
    /// Text that the tool would print.
    pub text: String,
}

impl From<Measured> for TestOutcome {
    fn from(measured: Measured) -> TestOutcome {
        let Measured { sessions, ending, reason } = measured;
        TestOutcome { sessions, ending, reason, texts: Vec::new() }
    }
}

/// Annotations that the caller stores with a test.
#[derive(Clone, Debug, Default)]
pub struct Annotations {
    /// Name of the test.
    pub name: Option<String>,
    /// Keys and values by which the test can be found.
    pub tags: Vec<(String, String)>,
    /// Noise that this host adds to every figure, if it was measured before the test.
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
