//! The ends of sessions at one host.

use crate::Tick;
use crate::amp::{Mode, TestKeys};
use crate::owamp::packet;
use crate::owamp::{Received, SentSummary, SessionData, SessionReceiver, SessionSender, TestSession};
use core::net::SocketAddr;
use jitlat_core::WallTime;
use jitlat_core::ntp::ErrorEstimate;

/// Of both hosts' clocks.
pub const ERROR: ErrorEstimate = ErrorEstimate(0x8a40);

/// One end of a session.
pub(super) struct End {
    pub(super) session: TestSession,
    pub(super) keys: Option<TestKeys>,
    pub(super) near: SocketAddr,
    pub(super) far: SocketAddr,
    pub(super) work: Work,
    /// Whether it has reported to the machine that nothing is left to do.
    pub(super) complete: bool,
}

pub(super) enum Work {
    /// Not begun.
    Waiting,
    Sending(Box<SessionSender>),
    Receiving(Box<SessionReceiver>),
    Ended,
}

impl End {
    pub(super) fn begin_sending(&mut self, now: Tick) {
        self.work = Work::Sending(Box::new(SessionSender::new(&self.session, self.keys.clone(), now)));
    }

    pub(super) fn begin_receiving(&mut self, mode: Mode) {
        let (ip, port) = (self.far.ip(), Some(self.far.port()));
        let receiver = SessionReceiver::new(&self.session, self.keys.clone(), packet::len(mode), ip, port);
        self.work = Work::Receiving(Box::new(receiver));
    }

    /// Takes the receiver out, if it is one.
    pub(super) fn end_receiving(&mut self) -> Option<SessionReceiver> {
        match core::mem::replace(&mut self.work, Work::Ended) {
            Work::Receiving(receiver) => Some(*receiver),
            other => {
                self.work = other;
                None
            }
        }
    }
}

pub(super) fn stop_sending(ends: &mut [End]) -> Vec<SentSummary> {
    let senders = ends.iter_mut().filter_map(|end| match &mut end.work {
        Work::Sending(sender) => Some(sender.stop()),
        _ => None,
    });
    let summaries = senders.collect();
    ends.iter_mut().filter(|end| matches!(end.work, Work::Sending(_))).for_each(|end| end.work = Work::Ended);
    summaries
}

pub(super) fn finish(ends: &mut [End], received: &Received) -> Option<SessionData> {
    let end = ends.iter_mut().find(|end| end.session.sid() == received.said.sid)?;
    end.end_receiving()?.finish(&received.said, received.at, ERROR).ok()
}

pub(super) fn abandon(ends: &mut [End], at: WallTime) -> Vec<SessionData> {
    ends.iter_mut().filter_map(End::end_receiving).map(|receiver| receiver.abandon(at, ERROR)).collect()
}
