//! [`InterfaceWatch`]: samples the interface of a test once per second while the test runs.

use super::{DriverRetries, Gpsd, Interface, LinkErrors, Modem, Radio};
use crate::clock;
use crate::pace::yield_to_others;
use crate::sys::AsFd;
use crate::wake::{StopSignal, wait};
use jitlat_core::Span;
use jitlat_core::interface::{InterfaceHistory, InterfaceSample, RawCounters};
use jitlat_core::session::HostFacts;
use std::net::{IpAddr, SocketAddr};
use std::thread::{self, JoinHandle};

/// A source of values of a sample.
pub trait SampleSource: Send {
    /// Writes the current values that are known. Must not wait.
    fn read(&mut self, into: &mut InterfaceSample);

    /// Returns the reason why values were missing, for the notes of the test; `None` if there is none.
    fn note(&self) -> Option<String> {
        None
    }
}

/// Settings of the samples of a test.
#[derive(Clone, Debug)]
pub struct WatchSettings {
    /// True to sample the interface.
    pub interface: bool,
    /// Host and port of gpsd, the source of positions; `None`: no positions.
    pub gpsd: Option<String>,
}

impl Default for WatchSettings {
    fn default() -> WatchSettings {
        WatchSettings { interface: true, gpsd: None }
    }
}

impl WatchSettings {
    /// Returns settings without any samples, for tests in addition to another one.
    pub fn off() -> WatchSettings {
        WatchSettings { interface: false, gpsd: None }
    }
}

/// Time between samples; it doubles whenever there are too many.
const INTERVAL: Span = Span::seconds(1);

/// Samples an interface until it is dropped or ended.
#[derive(Debug)]
pub struct InterfaceWatch {
    stop: Option<StopSignal>,
    thread: Option<JoinHandle<(InterfaceHistory, Vec<String>)>>,
    history: Option<Box<InterfaceHistory>>,
    notes: Vec<String>,
}

impl InterfaceWatch {
    /// Starts to sample the interface through which packets to `to` leave this host. `bind` and `named` are the local
    /// address and the interface of the test's packets, if it has them. Nothing is sampled on the loopback, except
    /// positions.
    pub fn start(
        settings: &WatchSettings,
        to: SocketAddr,
        bind: Option<IpAddr>,
        named: Option<&str>,
    ) -> InterfaceWatch {
        let interface = Interface::towards(to, bind, named);
        let mut sources: Vec<Box<dyn SampleSource>> = Vec::new();
        let name = interface.as_ref().map(|interface| interface.name.clone()).unwrap_or_default();
        if let Some(interface) = interface.filter(|i| settings.interface && !i.is_loopback) {
            if let Ok(errors) = LinkErrors::of(interface.index) {
                sources.push(Box::new(errors));
            }
            // The kernel's values replace those of the driver.
            if let Some(retries) = DriverRetries::of(&interface.name) {
                sources.push(Box::new(retries));
            }
            if let Ok(Some(radio)) = Radio::of(interface.index) {
                sources.push(Box::new(radio));
            }
            if let Some(modem) = Modem::of(&interface.name) {
                sources.push(Box::new(modem));
            }
        }
        let mut notes = Vec::new();
        match settings.gpsd.as_deref().map(Gpsd::connect) {
            Some(Ok(gpsd)) => sources.push(Box::new(gpsd)),
            Some(Err(why)) => notes.push(why.to_string()),
            None => {}
        }
        let mut watch = InterfaceWatch::with(name, sources, INTERVAL);
        watch.notes = notes;
        watch
    }

    /// Starts to sample `sources` of the interface `name`. Without sources, or if the system has no more threads, there
    /// are no samples.
    pub fn with(name: String, mut sources: Vec<Box<dyn SampleSource>>, interval: Span) -> InterfaceWatch {
        let mut watch = InterfaceWatch { stop: None, thread: None, history: None, notes: Vec::new() };
        let Some(stop) = StopSignal::new().ok().filter(|_| !sources.is_empty()) else { return watch };
        let until = stop.clone();
        let thread = thread::Builder::new().name("interface".to_owned()).spawn(move || {
            yield_to_others();
            let history = sample(name, &mut sources, &until, interval);
            (history, sources.iter().filter_map(|source| source.note()).collect())
        });
        (watch.stop, watch.thread) = (Some(stop), thread.ok());
        watch
    }

    /// Ends the samples. Further calls have no effect.
    pub fn end(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.request();
        }
        if let Some(Ok((history, notes))) = self.thread.take().map(JoinHandle::join) {
            let is_known = |s: &InterfaceSample| *s != InterfaceSample::at(s.at);
            self.history = history.samples.iter().any(is_known).then(|| Box::new(history));
            self.notes.extend(notes);
        }
    }

    /// Returns the samples; `None` before the [end](Self::end), and if nothing was known.
    pub fn history(&self) -> Option<&InterfaceHistory> {
        self.history.as_deref()
    }

    /// Returns the reasons why values are missing.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Adds the samples and notes to the facts about this host.
    pub fn add_to(&self, host: &mut HostFacts) {
        host.interface = self.history.clone();
        let new = self.notes.iter().filter(|note| !host.notes.contains(note)).cloned().collect::<Vec<_>>();
        host.notes.extend(new);
    }
}

impl Drop for InterfaceWatch {
    fn drop(&mut self) {
        self.end();
    }
}

/// Samples `sources` at once, at regular intervals, and when `stop` is requested.
fn sample(
    name: String,
    sources: &mut [Box<dyn SampleSource>],
    stop: &StopSignal,
    mut interval: Span,
) -> InterfaceHistory {
    let (mut history, mut raw) = (InterfaceHistory { name, samples: Vec::new() }, RawCounters::default());
    let mut due = clock::steady();
    loop {
        // Asked before the sample: a stop that comes during the sample still has a last one after it.
        let is_last = stop.is_requested();
        let mut sample = InterfaceSample::at(clock::wall());
        sources.iter_mut().for_each(|source| source.read(&mut sample));
        // A clock that was set back would put samples in the wrong order.
        if history.samples.last().is_none_or(|last| sample.at > last.at) {
            history.push(sample, &mut raw);
        }
        if history.thin() {
            interval = interval + interval;
        }
        if is_last {
            return history;
        }
        // A host that was suspended does not make up for the samples it missed.
        due = (due + interval).max(clock::steady());
        while !stop.is_requested() && clock::steady() < due {
            wait(&[stop.as_fd()], Some(due));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    /// A source that counts, and reports each reading.
    struct Counting {
        read: u64,
        to: Sender<u64>,
    }

    impl SampleSource for Counting {
        fn read(&mut self, into: &mut InterfaceSample) {
            self.read += 1;
            into.retries = Some(10 * self.read);
            let _ = self.to.send(self.read);
        }

        fn note(&self) -> Option<String> {
            Some("tired".to_owned())
        }
    }

    #[test]
    fn samples_are_taken_until_the_end() {
        let (to, readings) = channel();
        let source: Box<dyn SampleSource> = Box::new(Counting { read: 0, to });
        let mut watch = InterfaceWatch::with("wlan7".to_owned(), vec![source], Span::millis(1));
        for _ in 0..3 {
            readings.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
        }
        assert_eq!(watch.history(), None);
        watch.end();
        let history = watch.history().unwrap().clone();
        let retries: Vec<u64> = history.samples.iter().filter_map(|s| s.retries).collect();
        assert!(retries.len() >= 3 && retries.windows(2).all(|pair| pair[1] > pair[0]), "{retries:?}");
        assert!(history.samples.windows(2).all(|pair| pair[0].at < pair[1].at));
        assert_eq!((history.name.as_str(), watch.notes()), ("wlan7", &["tired".to_owned()][..]));
        watch.end();
        assert_eq!(watch.history(), Some(&history), "a second end changes nothing");
    }

    #[test]
    fn between_samples_nothing_runs_and_the_end_is_immediate() {
        let (to, readings) = channel();
        let source: Box<dyn SampleSource> = Box::new(Counting { read: 0, to });
        let mut watch = InterfaceWatch::with(String::new(), vec![source], Span::seconds(3600));
        assert_eq!(readings.recv_timeout(std::time::Duration::from_secs(20)), Ok(1));
        watch.end();
        // One sample at the start, one at the end.
        assert_eq!(readings.iter().last(), Some(2));
    }

    #[test]
    fn where_nothing_is_known_there_is_nothing() {
        let nothing = |settings: &WatchSettings| {
            let mut watch = InterfaceWatch::start(settings, ([127, 0, 0, 1], 0).into(), None, None);
            watch.end();
            (watch.history().is_none(), watch.notes().to_vec())
        };
        assert_eq!(nothing(&WatchSettings::default()), (true, Vec::new()));
        let absent = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let (is_none, notes) = nothing(&WatchSettings { gpsd: Some(absent), ..WatchSettings::default() });
        assert!(is_none && notes[0].contains("no positions are recorded"), "{notes:?}");
    }
}
