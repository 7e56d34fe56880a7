//! [`Instrument`]: what every test that sends packets has in common.

use crate::analysis::{Analysed, Analyses};
use crate::error::Error;
use crate::stop::Stop;
use jitlat_core::observer::Observer;
use jitlat_core::session::Ending;
use jitlat_core::summary::Summary;
use jitlat_core::{NoiseFloor, Options, Session, Span};

/// A test that sends packets and can be run, any number of times.
pub trait Instrument {
    /// Runs to the end, or until `stop`; `observer` sees all records.
    ///
    /// # Errors
    /// [`Error`] if nothing was measured.
    fn run(&self, stop: &Stop, observer: &mut dyn Observer) -> Result<Outcome, Error>;

    /// How long it should take.
    ///
    /// # Errors
    /// [`Error::Settings`] of what could not be run.
    fn duration(&self) -> Result<Span, Error>;

    /// What its delays are: "one-way delay" or "round trip".
    fn quantity(&self) -> &'static str;

    /// Length of its packets as IP packets, in bytes; `None` where TCP cuts as it likes.
    fn ip_length(&self, summary: &Summary) -> Option<u64>;

    /// Runs, and analyses every stream.
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

/// Bytes of the IP header of a test's packets.
pub(crate) fn ip_header(summary: &Summary) -> u64 {
    let v6 = summary.header.dst_ip.as_ref().is_some_and(|ip| ip.contains(':'));
    if v6 { 40 } else { 20 }
}

/// How a test ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What is known of each stream.
    pub sessions: Vec<Session>,
    /// How it ended.
    pub ending: Ending,
    /// Why, when not complete.
    pub reason: Option<String>,
}

/// What is kept with a test besides what it finds.
#[derive(Clone, Debug, Default)]
pub struct Annotations {
    /// A name.
    pub name: Option<String>,
    /// Keys and values.
    pub tags: Vec<(String, String)>,
    /// What this host adds to every figure, if that was measured before.
    pub noise: Option<NoiseFloor>,
}

impl Annotations {
    /// Adds them to `session`.
    pub fn add_to(&self, session: &mut Session) {
        session.name = self.name.clone().or_else(|| session.name.take());
        session
            .tags
            .extend(self.tags.iter().filter(|t| !session.tags.contains(t)).cloned().collect::<Vec<_>>());
        session.client.noise = self.noise.or(session.client.noise);
    }
}
