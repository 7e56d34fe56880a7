//! [`TestFolder`]: stores the packets of unidirectional LaMP tests (`jitlat serve --late-packets DIR`): for each test,
//! a file in LaTe's format and a log for `jitlat analyze`. Only the server has these packets.

use crate::error::{Context, Result, explain};
use jitlat_core::session::{Ending, Session};
use jitlat_core::spec::{Direction, Schedule, TestSpec, Transport};
use jitlat_core::time::SECOND;
use jitlat_core::{PacketRecord, Span, SteadyTime, record::Moment};
use jitlat_instruments::serve::OneWayPacket;
use jitlat_net::clock;
use jitlat_store::late::{ExtraFields, SampleHistory, packets};
use jitlat_store::log::{LogFile, LogVersion, Naming};
use jitlat_store::output;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tracing::{info, warn};

/// Linger after a STOP message: late packets still belong to the test.
const STOP_LINGER: Span = Span::seconds(1);
/// Time without packets after which a test is written although its STOP message never arrived.
const SILENCE_TIMEOUT: Span = Span::seconds(120);
// These limits bound the data that unauthenticated hosts can make this host store.
/// Maximum number of packets in memory (112 MB).
const MAX_PACKETS: usize = 2_000_000;
/// Maximum number of concurrent tests.
const MAX_OPEN_TESTS: usize = 1024;
/// Maximum number of tests in the folder.
const MAX_STORED_TESTS: usize = 10_000;

/// Maximum number of packets that are queued for the thread.
const WAITING: usize = 1 << 16;

/// A test in progress.
struct OneWayTest {
    id: u16,
    from: SocketAddr,
    /// Highest sequence number so far, counted across wraps; `None` before the first packet.
    highest: Option<i64>,
    records: Vec<PacketRecord>,
    stopped: bool,
    seen: SteadyTime,
}

/// Collects the packets of unidirectional tests, and writes each test after it has ended.
pub struct TestFolder {
    folder: PathBuf,
    tests: HashMap<(SocketAddr, u16), OneWayTest>,
    packets: usize,
    written: usize,
    refused: bool,
}

impl TestFolder {
    /// Creates a test folder; creates the folder if it does not exist.
    ///
    /// # Errors
    /// [`Error`](crate::Error) if it cannot be created.
    pub fn new(folder: &Path) -> Result<TestFolder> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("--late-packets: creating the folder {}", folder.display()))?;
        let folder = folder.to_owned();
        Ok(TestFolder { folder, tests: HashMap::new(), packets: 0, written: 0, refused: false })
    }

    /// Starts a thread that writes tests as they end. When the returned sender is dropped, the thread writes the
    /// remaining tests and ends.
    ///
    /// # Errors
    /// [`Error`](crate::Error) if the thread cannot be started.
    pub fn start(self) -> Result<(SyncSender<OneWayPacket>, JoinHandle<()>)> {
        let (packets, received) = sync_channel(WAITING);
        let thread = std::thread::Builder::new().name("late-packets".to_owned());
        Ok((packets, thread.spawn(move || self.run(&received))?))
    }

    /// Writes tests as they end, until the sender of `packets` is dropped. Then writes the remaining tests.
    fn run(mut self, packets: &Receiver<OneWayPacket>) {
        let mut ends: Option<SteadyTime> = None;
        loop {
            let next = match ends {
                None => packets.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(ends) => {
                    let left = (ends - clock::steady()).0.max(0);
                    packets.recv_timeout(Duration::from_nanos(left.unsigned_abs()))
                }
            };
            match next {
                Ok(packet) => self.add(&packet),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            ends = self.write_ended(clock::steady());
        }
        let left: Vec<OneWayTest> = self.tests.drain().map(|(_, test)| test).collect();
        left.iter().for_each(|test| self.write(test));
    }

    fn add(&mut self, packet: &OneWayPacket) {
        let name = (packet.from, packet.id);
        let full = self.packets >= MAX_PACKETS
            || self.tests.len() >= MAX_OPEN_TESTS && !self.tests.contains_key(&name)
            || self.written + self.tests.len() >= MAX_STORED_TESTS && !self.tests.contains_key(&name);
        if full {
            if !std::mem::replace(&mut self.refused, true) {
                warn!(
                    "--late-packets: some packets are not stored: limit of {MAX_PACKETS} packets or {MAX_OPEN_TESTS} tests at once, or {MAX_STORED_TESTS} tests in total"
                );
            }
            return;
        }
        self.packets += 1;
        let test = self.tests.entry(name).or_insert_with(|| OneWayTest {
            id: packet.id,
            from: packet.from,
            highest: None,
            records: Vec::new(),
            stopped: false,
            seen: clock::steady(),
        });
        test.add(packet);
    }

    /// Writes tests that have ended. Returns the earliest time at which another test ends if it receives no further
    /// packet.
    fn write_ended(&mut self, now: SteadyTime) -> Option<SteadyTime> {
        let ended: Vec<OneWayTest> =
            self.tests.extract_if(|_, test| test.ends() <= now).map(|(_, test)| test).collect();
        for test in ended {
            self.packets -= test.records.len();
            self.write(&test);
        }
        self.tests.values().map(OneWayTest::ends).min()
    }

    fn write(&mut self, test: &OneWayTest) {
        self.written += 1;
        match test.write(&self.folder) {
            Ok(path) => info!("one-way LaMP test of {}: {}", test.from, path.display()),
            Err(e) => warn!("--late-packets: {}", explain(&e)),
        }
    }
}

impl OneWayTest {
    /// Returns the time at which the test ends if it receives no further packet.
    fn ends(&self) -> SteadyTime {
        self.seen + if self.stopped { STOP_LINGER } else { SILENCE_TIMEOUT }
    }

    fn add(&mut self, packet: &OneWayPacket) {
        let OneWayPacket { record, last, .. } = packet;
        // Sequence numbers have sixteen bits. Choose the value that is nearest to the highest number so far.
        let seq = self.highest.map_or(record.seq, |highest| {
            let step = (record.seq - highest).rem_euclid(1 << 16);
            highest + if step < 1 << 15 { step } else { step - (1 << 16) }
        });
        self.highest = Some(self.highest.map_or(seq, |h| h.max(seq)));
        let mut record = *record;
        record.seq = seq;
        self.records.push(record);
        self.stopped |= last;
        self.seen = clock::steady();
    }

    /// Writes both files. Returns the name of the log.
    fn write(&self, folder: &Path) -> Result<PathBuf> {
        let ip = self.from.ip().to_canonical().to_string().replace(':', "_");
        let began = self.records.first().and_then(|r| r.time(Moment::Arrived));
        let second = began.map_or(0, |t| t.0 / SECOND);
        let name = |ending| format!("lamp-{ip}-{}-{}-{second}.{ending}", self.from.port(), self.id);
        let (log, csv) = (folder.join(name("log")), folder.join(name("csv")));
        let mut file = LogFile::create(&Naming::Given(log.clone()), LogVersion::V3)?;
        let session = self.session()?;
        file.begin(&session);
        self.records.iter().for_each(|record| file.record(record));
        file.finish(&session);
        file.close()?;
        output::write(&csv, |out| {
            writeln!(out, "{}", packets::header(false, ExtraFields::default()))?;
            let mut history = SampleHistory::default();
            self.records.iter().filter_map(|r| history.sample(r)).try_for_each(|sample| {
                writeln!(out, "{}", packets::row(&sample, false, ExtraFields::default()))
            })
        })?;
        Ok(log)
    }

    /// Returns the session of the test. LaMP does not announce the period, so it is estimated from the send times.
    fn session(&self) -> Result<Session> {
        let sent = |r: &PacketRecord| Some((r.seq, r.time(Moment::Sent)?));
        let ends = self.records.iter().find_map(sent).zip(self.records.iter().rev().find_map(sent));
        let period = ends.filter(|(a, b)| b.0 > a.0).map(|(a, b)| Span((b.1 - a.1).0 / (b.0 - a.0)));
        let period = period.filter(|p| p.0 > 0);
        let size = self.records.iter().find_map(PacketRecord::size).map_or(24, u64::from);
        let count = self.highest.map_or(1, |h| h.max(0) as u64 + 1);
        let spec = TestSpec::new(
            Direction::Up,
            Transport::Udp,
            count,
            size,
            period.unwrap_or(Span::millis(100)),
            Schedule::Periodic,
        )?;
        Ok(Session {
            created: self.records.first().and_then(|r| r.time(Moment::Arrived)),
            period_known: period.is_some(),
            src: Some(self.from.ip().to_canonical()),
            sent: u32::try_from(count).ok(),
            ending: if self.stopped { Ending::Complete } else { Ending::Interrupted },
            reason: (!self.stopped).then(|| "the last packet of the test did not arrive".to_owned()),
            name: Some(format!("one-way LaMP {}", self.id)),
            ..Session::new(spec)
        })
    }
}
