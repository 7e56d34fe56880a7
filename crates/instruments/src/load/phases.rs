//! [`Phases`]: the same test idle and under load, and the delay that the load adds.

use super::{Load, LoadResult, result};
use crate::analysis::{Analysed, Analyses, RecordCollector};
use crate::error::Error;
use crate::instrument::Instrument;
use crate::stop::Stop;
use jitlat_core::analysis::Options;
use jitlat_core::load::{TestLoad, TestPhase};
use jitlat_core::observer::{Event, Observer};
use jitlat_core::record::Moment;
use jitlat_core::{ClockProbe, Direction, PacketRecord, Session, WallTime};
use jitlat_net::clock::wall;
use jitlat_verdict::load::{LoadEffect, PhaseTest};

/// Tag of both tests: the load during the test, `none` in the idle phase.
pub const LOAD_TAG: &str = "load";

/// The idle and the loaded phase of a test.
#[derive(Clone, Debug)]
pub struct Phases {
    /// Streams of the test: one, or one per direction.
    pub streams: Vec<PhaseStream>,
    /// Results of the load.
    pub load: TestLoad,
}

/// One stream of a test, in both phases.
#[derive(Clone, Debug)]
pub struct PhaseStream {
    /// Phase without the load.
    pub idle: LoadPhase,
    /// Phase with the load.
    pub loaded: LoadPhase,
    /// Effect of the load.
    pub effect: LoadEffect,
}

/// One stream of a test in one phase.
#[derive(Clone, Debug)]
pub struct LoadPhase {
    /// Stream and its figures.
    pub analysed: Analysed,
    /// Records of the stream, in arrival order.
    pub records: Vec<PacketRecord>,
}

impl Phases {
    /// Runs `instrument` twice, idle and during `load`. `observers` receive the events of the idle and of the loaded
    /// phase, whose sessions contain the load.
    ///
    /// # Errors
    /// [`Error`] if either phase could not be measured.
    pub fn measure(
        instrument: &dyn Instrument,
        load: &Load,
        options: &Options,
        stop: &Stop,
        [of_idle, of_loaded]: [&mut dyn Observer; 2],
    ) -> Result<Phases, Error> {
        let duration = instrument.duration()?;
        let mut idle = Phase::new(options, of_idle, TestLoad::idle(), "none");
        instrument.run(stop, &mut idle)?;
        let idle = idle.finish();
        let texts: Vec<String> = load.specs.iter().map(ToString::to_string).collect();
        let under_way = TestLoad { phase: TestPhase::Loaded, ..TestLoad::idle() };
        let mut loaded = Phase::new(options, of_loaded, under_way, &texts.join("+"));
        loaded.probes = idle.iter().map(LoadPhase::probes_after).collect();
        let measure = || {
            let begin = wall();
            instrument.run(stop, &mut loaded)?;
            Ok([begin, wall()])
        };
        let (around, results) = load.run_during(duration, stop, measure)?;
        loaded.load = loaded.load_of(&results, around);
        let load = loaded.load.clone();
        let loaded = loaded.finish();
        if idle.is_empty() || idle.len() != loaded.len() {
            return Err(Error::Load("the test has no stream".to_owned()));
        }
        let streams = idle.into_iter().zip(loaded);
        let streams = streams.map(|(idle, loaded)| PhaseStream::new(idle, loaded, &load)).collect();
        Ok(Phases { streams, load })
    }
}

impl PhaseStream {
    /// Determines the effect of `load` on a stream.
    pub fn new(idle: LoadPhase, loaded: LoadPhase, load: &TestLoad) -> PhaseStream {
        let effect = LoadEffect::of(idle.test(), loaded.test(), load);
        PhaseStream { idle, loaded, effect }
    }
}

impl LoadPhase {
    /// Returns the clock probes after the stream.
    fn probes_after(&self) -> Vec<ClockProbe> {
        let session = &self.analysed.session;
        let last = self.records.iter().filter_map(|record| client_time(session, record)).max();
        let after = session.probes.iter().filter(|probe| last.is_none_or(|last| probe.sent > last));
        after.copied().collect()
    }

    fn test(&self) -> PhaseTest<'_> {
        let Analysed { session, summary, samples } = &self.analysed;
        PhaseTest { session, summary, samples }
    }
}

/// Returns the time at which this host sent or received a packet.
fn client_time(session: &Session, record: &PacketRecord) -> Option<WallTime> {
    record.time(match session.spec.direction() {
        Direction::Down if session.two_way.is_none() => Moment::Arrived,
        _ => Moment::Sent,
    })
}

/// Observer of one phase: adds the load to the sessions, analyses, and forwards the events. The end of the phase is
/// forwarded when the results of the load are known.
struct Phase<'a> {
    load: TestLoad,
    tag: String,
    /// Clock probes of each stream that were made just before this phase, on the idle path. Probes under load wait in
    /// the queue, and would give a worse estimate.
    probes: Vec<Vec<ClockProbe>>,
    analyses: Analyses,
    records: RecordCollector,
    observer: &'a mut dyn Observer,
    finished: Option<Vec<Session>>,
}

impl<'a> Phase<'a> {
    fn new(options: &Options, observer: &'a mut dyn Observer, load: TestLoad, tag: &str) -> Phase<'a> {
        Phase {
            load,
            tag: tag.to_owned(),
            probes: Vec::new(),
            analyses: Analyses::new(options.clone()),
            records: RecordCollector::default(),
            observer,
            finished: None,
        }
    }

    fn marked(&self, sessions: &[Session]) -> Vec<Session> {
        let mut sessions = sessions.to_vec();
        for (k, session) in sessions.iter_mut().enumerate() {
            if let Some(before) = self.probes.get(k) {
                session.probes.splice(0..0, before.iter().copied());
            }
            session.load = Some(Box::new(self.load.clone()));
            if session.tags.iter().all(|(key, _)| key != LOAD_TAG) {
                session.tags.push((LOAD_TAG.to_owned(), self.tag.clone()));
            }
        }
        sessions
    }

    fn forward(&mut self, event: &Event<'_>) {
        let mut all: [&mut dyn Observer; 3] = [&mut self.analyses, &mut self.records, &mut *self.observer];
        all.event(event);
    }

    /// Describes the load from the first to the last packet of the test. `around`: times before and after the test.
    fn load_of(&self, results: &[LoadResult], around: [WallTime; 2]) -> TestLoad {
        let sessions = self.finished.as_deref().unwrap_or_default();
        let times = sessions.iter().zip(&self.records.records);
        let times = times
            .flat_map(|(session, records)| records.iter().filter_map(|record| client_time(session, record)));
        // Stamps of impossible times, for example of forged packets, are left out.
        let times = times.filter(|time| (around[0]..=around[1]).contains(time));
        let ends = times.fold(None, |ends: Option<[WallTime; 2]>, time| {
            Some(ends.map_or([time; 2], |[first, last]| [first.min(time), last.max(time)]))
        });
        let [from, to] = ends.unwrap_or(around);
        result::during(results, from, to)
    }

    fn finish(mut self) -> Vec<LoadPhase> {
        if let Some(sessions) = self.finished.take() {
            let sessions = self.marked(&sessions);
            self.forward(&Event::Finished(&sessions));
        }
        let mut records = self.records.records.into_iter();
        let phase = |analysed| LoadPhase { analysed, records: records.next().unwrap_or_default() };
        self.analyses.finish().into_iter().map(phase).collect()
    }
}

impl Observer for Phase<'_> {
    fn event(&mut self, event: &Event<'_>) {
        match *event {
            Event::Started(sessions) => {
                let sessions = self.marked(sessions);
                self.forward(&Event::Started(&sessions));
            }
            Event::Concluding(sessions) => {
                let sessions = self.marked(sessions);
                self.forward(&Event::Concluding(&sessions));
            }
            Event::Finished(sessions) => self.finished = Some(sessions.to_vec()),
            _ => self.forward(event),
        }
    }
}
