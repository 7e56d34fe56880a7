//! [`Phases`]: the same test idle and under load, and whether the difference is significant.

use super::{Load, LoadStream};
use crate::analysis::{Analysed, Analyses, RecordCollector};
use crate::error::Error;
use crate::instrument::Instrument;
use crate::stop::Stop;
use jitlat_core::PacketRecord;
use jitlat_core::analysis::Options;
use jitlat_core::observer::Observer;
use jitlat_verdict::compare::{Basis, Comparison, ComparisonSettings, ComparisonSide, Statistic, compare};

/// The idle and the loaded phase of a test.
#[derive(Clone, Debug)]
pub struct Phases {
    /// Phase without the load.
    pub idle: LoadPhase,
    /// Phase with the load.
    pub loaded: LoadPhase,
    /// Results of the load streams.
    pub streams: Vec<LoadStream>,
    /// Comparison of the loaded phase with the idle one.
    pub comparison: Comparison,
}

/// One phase: a test with one stream.
#[derive(Clone, Debug)]
pub struct LoadPhase {
    /// Stream and its figures.
    pub analysed: Analysed,
    /// Records of the stream, in arrival order.
    pub records: Vec<PacketRecord>,
}

impl Phases {
    /// Runs `instrument` twice, idle and during `load`. `basis` is the quantity to compare: jitter for
    /// one-way tests, because the clock offset may change between the phases. `observers` receive the events
    /// of the idle and of the loaded phase.
    ///
    /// # Errors
    /// [`Error`] if either phase could not be measured.
    pub fn measure(
        instrument: &dyn Instrument,
        load: &Load,
        basis: Basis,
        options: &Options,
        stop: &Stop,
        [of_idle, of_loaded]: [&mut dyn Observer; 2],
    ) -> Result<Phases, Error> {
        let duration = instrument.duration()?;
        let idle = LoadPhase::measure(instrument, options, stop, of_idle)?;
        let measure = || LoadPhase::measure(instrument, options, stop, of_loaded);
        let (loaded, streams) = load.run_during(duration, stop, measure)?;
        let side = |label, phase: &LoadPhase| {
            let Analysed { summary, samples, .. } = &phase.analysed;
            let side = ComparisonSide::new(label, summary, samples, basis, Statistic::Median);
            let floor = if basis == Basis::Delay { 0.0 } else { side.floor };
            ComparisonSide { floor, ..side }
        };
        let question = ComparisonSettings { basis, seed: 1, ..ComparisonSettings::default() };
        let comparison = compare(&side("idle", &idle), &side("loaded", &loaded), &question);
        Ok(Phases { idle, loaded, streams, comparison })
    }
}

impl LoadPhase {
    fn measure(
        instrument: &dyn Instrument,
        options: &Options,
        stop: &Stop,
        observer: &mut dyn Observer,
    ) -> Result<LoadPhase, Error> {
        let (mut analyses, mut records) = (Analyses::new(options.clone()), RecordCollector::default());
        let mut observers: [&mut dyn Observer; 3] = [&mut analyses, &mut records, observer];
        instrument.run(stop, &mut observers)?;
        let analysed = analyses.finish().into_iter().next();
        let analysed = analysed.ok_or_else(|| Error::Load("the test has no stream".to_owned()))?;
        Ok(LoadPhase { analysed, records: records.records.into_iter().next().unwrap_or_default() })
    }
}
