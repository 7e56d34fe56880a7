//! [`Phases`]: the same test idle and loaded, and whether the difference is significant.

use super::{Load, LoadStream};
use crate::analysis::{Analysed, Analyses, RecordCollector};
use crate::error::Error;
use crate::instrument::Instrument;
use crate::stop::Stop;
use jitlat_core::PacketRecord;
use jitlat_core::analysis::Options;
use jitlat_core::observer::Observer;
use jitlat_verdict::compare::{Basis, Comparison, Question, Side, Statistic, compare};

/// The idle and the loaded phase of a test.
#[derive(Clone, Debug)]
pub struct Phases {
    /// Without the load.
    pub idle: Phase,
    /// During the load.
    pub loaded: Phase,
    /// The results of the load's streams.
    pub streams: Vec<LoadStream>,
    /// The loaded phase compared with the idle one.
    pub comparison: Comparison,
}

/// One phase: a test of one stream.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Its figures.
    pub analysed: Analysed,
    /// Its records, in arrival order.
    pub records: Vec<PacketRecord>,
}

impl Phases {
    /// Runs `instrument` twice, idle and during `load`. `basis` is what is compared: for one-way delays it should be
    /// their variation, because the offset of the two clocks may change between the phases.
    ///
    /// # Errors
    /// [`Error`] if either phase could not be measured.
    pub fn measure(
        instrument: &dyn Instrument,
        load: &Load,
        basis: Basis,
        options: &Options,
        stop: &Stop,
    ) -> Result<Phases, Error> {
        let duration = instrument.duration()?;
        let idle = Phase::measure(instrument, options, stop)?;
        let (loaded, streams) = load.beside(duration, stop, || Phase::measure(instrument, options, stop))?;
        let side = |label, phase: &Phase| {
            let Analysed { summary, samples, .. } = &phase.analysed;
            let side = Side::new(label, summary, samples, basis, Statistic::Median);
            let floor = if basis == Basis::Delay { 0.0 } else { side.floor };
            Side { floor, ..side }
        };
        let question = Question { basis, seed: 1, ..Question::default() };
        let comparison = compare(&side("idle", &idle), &side("loaded", &loaded), &question);
        Ok(Phases { idle, loaded, streams, comparison })
    }
}

impl Phase {
    fn measure(instrument: &dyn Instrument, options: &Options, stop: &Stop) -> Result<Phase, Error> {
        let (mut analyses, mut records) = (Analyses::new(options.clone()), RecordCollector::default());
        let mut observers: [&mut dyn Observer; 2] = [&mut analyses, &mut records];
        instrument.run(stop, &mut observers)?;
        let analysed = analyses.finish().into_iter().next();
        let analysed = analysed.ok_or_else(|| Error::Load("the test has no stream".to_owned()))?;
        Ok(Phase { analysed, records: records.records.into_iter().next().unwrap_or_default() })
    }
}
