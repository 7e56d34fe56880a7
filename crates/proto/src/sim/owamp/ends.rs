//! Ends of sessions on one host.

use crate::Tick;
use crate::amp::{SecurityMode, TestKeys};
use crate::owamp::packet;
use crate::owamp::{PeerSummary, SentSummary, SessionData, SessionReceiver, SessionSender, TestSession};
use core::net::SocketAddr;
use jitlat_core::WallTime;
use jitlat_core::ntp::ErrorEstimate;

/// Error estimate of both hosts' clocks.
pub const ERROR: ErrorEstimate = ErrorEstimate(0x8a40);

/// One end of a session.
pub(super) struct SimulatedEnd {
    pub(super) session: TestSession,
    pub(super) keys: Option<TestKeys>,
    pub(super) near: SocketAddr,
    pub(super) far: SocketAddr,
    pub(super) work: EndWork,
    /// True if the end has reported to the state machine that it has nothing left to do.
    pub(super) complete: bool,
}

pub(super) enum EndWork {
    /// Not started.
    Waiting,
    Sending(Box<SessionSender>),
    Receiving(Box<SessionReceiver>),
    Ended,
}

impl SimulatedEnd {
    pub(super) fn begin_sending(&mut self, now: Tick) {
        self.work = EndWork::Sending(Box::new(SessionSender::new(&self.session, self.keys.clone(), now)));
    }

    pub(super) fn begin_receiving(&mut self, mode: SecurityMode) {
        let (ip, port) = (self.far.ip(), Some(self.far.port()));
        let receiver = SessionReceiver::new(&self.session, self.keys.clone(), packet::len(mode), ip, port);
        self.work = EndWork::Receiving(Box::new(receiver));
    }

    /// Removes and returns the receiver, if this end is a receiver.
    pub(super) fn end_receiving(&mut self) -> Option<SessionReceiver> {
        match core::mem::replace(&mut self.work, EndWork::Ended) {
            EndWork::Receiving(receiver) => Some(*receiver),
            other => {
                self.work = other;
                None
            }
        }
    }
}

pub(super) fn stop_sending(ends: &mut [SimulatedEnd]) -> Vec<SentSummary> {
    let senders = ends.iter_mut().filter_map(|end| match &mut end.work {
        EndWork::Sending(sender) => Some(sender.stop()),
        _ => None,
    });
    let summaries = senders.collect();
    ends.iter_mut()
        .filter(|end| matches!(end.work, EndWork::Sending(_)))
        .for_each(|end| end.work = EndWork::Ended);
    summaries
}

pub(super) fn finish(ends: &mut [SimulatedEnd], received: &PeerSummary) -> Option<SessionData> {
    let end = ends.iter_mut().find(|end| end.session.sid() == received.summary.sid)?;
    end.end_receiving()?.finish(&received.summary, received.at, ERROR).ok()
}

pub(super) fn abandon(ends: &mut [SimulatedEnd], at: WallTime) -> Vec<SessionData> {
    ends.iter_mut()
        .filter_map(SimulatedEnd::end_receiving)
        .map(|receiver| receiver.abandon(at, ERROR))
        .collect()
}
