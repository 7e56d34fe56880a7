//! What is done with a two-way test's answers while it runs: into the log, to LaTe's listeners, onto the terminal.
//! On a thread of its own, so that the test waits for none of them.

use super::late::Teller;
use super::measure::Found;
use crate::journal::{Closed, Journal};
use crate::live::Live;
use crate::progress::ProgressLine;
use anyhow::{Result, anyhow};
use jitlat_core::twoway::round_trip;
use jitlat_core::{PacketRecord, Session};
use jitlat_net::clock;
use jitlat_net::twoway::client::{News, Progress};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// News on its way.
const ROOM: usize = 1 << 16;
/// Between two looks: a listener that waited would have to be woken by the thread that sends.
const PAUSE: Duration = Duration::from_millis(20);

/// The listening thread.
pub struct Listening {
    to: SyncSender<News>,
    thread: JoinHandle<Listener>,
}

/// Whoever hears of a test while it runs.
pub struct Listener {
    /// Its log.
    pub journal: Option<Journal>,
    /// LaTe's listeners.
    pub teller: Option<Teller>,
    /// What is known of the test before it begins.
    pub session: Session,
    line: ProgressLine,
    seen: Live,
}

impl Listener {
    /// Of a test that is about to begin.
    pub fn new(journal: Option<Journal>, teller: Option<Teller>, session: Session) -> Listener {
        Listener { journal, teller, session, line: ProgressLine::new(), seen: Live::new() }
    }

    /// Begins to listen.
    pub fn start(self) -> Listening {
        let (to, from) = sync_channel(ROOM);
        Listening { to, thread: thread::spawn(move || self.listen(&from)) }
    }

    fn listen(mut self, from: &Receiver<News>) -> Listener {
        let mut answers = Vec::new();
        loop {
            let heard = loop {
                match from.try_recv() {
                    Ok(News::Answer(record)) => answers.push(record),
                    Ok(News::Progress(progress)) => self.progress(progress),
                    Err(end) => break end,
                }
            };
            self.answers(&answers);
            answers.clear();
            if heard == TryRecvError::Disconnected {
                self.line.clear();
                return self;
            }
            thread::sleep(PAUSE);
        }
    }

    fn answers(&mut self, answers: &[PacketRecord]) {
        if let Some(journal) = self.journal.as_mut().filter(|_| !answers.is_empty()) {
            journal.begin(&self.session);
            journal.early(answers);
        }
        answers.iter().for_each(|r| self.seen.push(r, round_trip(r)));
        if let Some(teller) = &mut self.teller {
            answers.iter().for_each(|r| teller.tell(r));
            teller.flush(clock::wall(), false);
        }
    }

    fn progress(&mut self, Progress { sent, answered }: Progress) {
        let spec = &self.session.spec;
        let packets = u64::from(spec.packets());
        let told = self.seen.told().map(|told| format!(", {told}")).unwrap_or_default();
        // How long stop-and-wait takes is up to the path.
        let left = spec.period().as_seconds() * packets.saturating_sub(sent) as f64;
        let left = if self.session.period_known { format!(", {left:.0} s left") } else { String::new() };
        self.line.show(&format!("{sent} of {packets} sent, {answered} answered{told}{left}"));
    }
}

impl Listening {
    /// Where the test tells its news.
    pub fn to(&self) -> SyncSender<News> {
        self.to.clone()
    }

    /// Hears the last of it.
    pub fn finish(self) -> Result<Listener> {
        drop(self.to);
        self.thread.join().map_err(|_| anyhow!("the thread that listens to the test failed"))
    }
}

/// Writes all that was found into the log.
pub fn save(mut journal: Journal, found: &Found) -> Closed {
    journal.begin(&found.session);
    journal.records_tcp(&found.records, &found.tcp);
    journal.close(&found.session)
}
