//! [`sweep`]: runs a test under every combination of several conditions, repeatedly, and reports each result
//! as soon as it is available.

pub mod lists;

use crate::analysis::Analysed;
use crate::error::Error;
use crate::instrument::Instrument;
use crate::load::{Load, LoadResult};
use crate::stop::Stop;
use jitlat_core::Span;
use jitlat_core::analysis::Samples;
use jitlat_core::observer::Unobserved;
use jitlat_core::sweep::{RunOutcome, SweepRun};
use jitlat_net::clock;
use std::time::Duration;

/// Test of one combination of conditions.
pub struct CellTest {
    /// Test to run.
    pub instrument: Box<dyn Instrument>,
    /// Background traffic; `None`: no load.
    pub load: Option<Load>,
}

/// An event of a sweep.
#[derive(Debug)]
pub enum SweepEvent<'a> {
    /// A run starts.
    Begins(SweepRun),
    /// A run failed, and will be repeated once.
    Failed(SweepRun, &'a Error),
    /// A run is complete: its results and its accepted packets.
    Finished(RunOutcome, Samples),
}

/// Pause before a failed run is repeated.
const RETRY_PAUSE: Span = Span::seconds(2);

/// Measures `runs` in order, with a `pause` after each. `test` creates the test of a run; `on_event` may end the sweep with
/// an error ([`Error::Observer`]).
///
/// Returns early, without an error, if `stop` is requested; the sweep then does not include the run in
/// progress.
///
/// # Errors
/// [`Error`] of the first run that failed twice.
pub fn sweep(
    runs: &[SweepRun],
    pause: Span,
    test: &dyn Fn(SweepRun) -> Result<CellTest, Error>,
    stop: &Stop,
    on_event: &mut dyn FnMut(SweepEvent<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    for run in runs {
        on_event(SweepEvent::Begins(*run))?;
        let measured = match test(*run)?.measure(*run, stop) {
            // A transient failure must not end a sweep that takes hours.
            Err(e) if !stop.is_requested() => {
                on_event(SweepEvent::Failed(*run, &e))?;
                wait(RETRY_PAUSE, stop);
                if stop.is_requested() {
                    return Err(e);
                }
                test(*run)?.measure(*run, stop)
            }
            other => other,
        };
        if stop.is_requested() {
            return measured.map(drop);
        }
        let (outcome, packets) = measured?;
        on_event(SweepEvent::Finished(outcome, packets))?;
        wait(pause, stop);
        if stop.is_requested() {
            return Ok(());
        }
    }
    Ok(())
}

impl CellTest {
    fn measure(&self, run: SweepRun, stop: &Stop) -> Result<(RunOutcome, Samples), Error> {
        let at = clock::wall();
        let measure = || self.instrument.analyse(&jitlat_verdict::options(), stop, &mut Unobserved);
        let analysed = match &self.load {
            Some(load) => {
                let (analysed, results) = load.run_during(self.instrument.duration()?, stop, measure)?;
                // The run would be shown under the name of a load that was not there.
                if !results.is_empty() && results.iter().all(LoadResult::is_nothing) && !stop.is_requested() {
                    return Err(Error::Load("nothing of the load arrived".to_owned()));
                }
                analysed
            }
            None => measure()?,
        };
        let analysed = analysed.into_iter().next();
        let Analysed { summary: s, samples, .. } =
            analysed.ok_or_else(|| Error::Settings("the test has no stream".to_owned()))?;
        Ok((RunOutcome::of(&s, run, at, self.instrument.ip_length(&s)), samples))
    }
}

/// Waits in short steps, so that a stop is noticed.
fn wait(pause: Span, stop: &Stop) {
    let until = clock::steady() + pause;
    while clock::steady() < until && !stop.is_requested() {
        let left = (until - clock::steady()).0.clamp(0, 50_000_000);
        std::thread::sleep(Duration::from_nanos(left as u64));
    }
}
