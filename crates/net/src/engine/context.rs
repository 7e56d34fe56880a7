//! [`Context`]: what the thread of one flow works with.

use super::counters::StreamCounters;
use super::rendezvous::Rendezvous;
use super::stop_flags::StopFlags;
use super::stream_socket::Marks;
use crate::launch::LaunchHost;
use crate::pace::SendSettings;
use crate::ring;
use crate::wake::Waker;
use jitlat_core::spec::TEST_PORT;
use jitlat_core::{PacketRecord, Span};
use jitlat_proto::jitlat::flow::{FlowReport, Meeting, Opening};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

/// The settings of an engine.
#[derive(Clone)]
pub(crate) struct EngineSettings {
    /// This end of the control connection: test sockets are bound to its address.
    pub local: SocketAddr,
    /// How this host sends.
    pub sending: SendSettings,
    /// Where to wait for greetings and classic TCP senders.
    pub rendezvous: Arc<Rendezvous>,
    /// Where launch times are asked for, if they are.
    pub launch_host: &'static dyn LaunchHost,
    /// Whether records are also delivered as they arrive ([`Engine::live`]).
    pub live: bool,
}

/// What the conversing thread instructs a flow's thread to do, in addition to the [`StopFlags`].
pub(super) enum Instruction {
    /// See [`Command::Connect`].
    Connect(SocketAddr, Option<(u64, Span)>),
    /// A TCP connection for the flow has arrived, with the bytes already read from it.
    Connected(TcpStream, Vec<u8>),
    /// See [`Command::Start`].
    Start,
}

/// Sends the reports of a flow's thread.
#[derive(Clone)]
pub(super) struct Reporter {
    pub(super) reports: Sender<FlowReport>,
    pub(super) waker: Waker,
    pub(super) notes: Arc<Mutex<Vec<String>>>,
}

impl Reporter {
    pub(super) fn report(&self, report: FlowReport) {
        // Without a receiver the conversation has ended, and reports are not needed.
        let _ = self.reports.send(report);
        self.waker.wake();
    }

    /// Adds notes about what could not be done as requested, each once.
    pub(super) fn note(&self, notes: impl IntoIterator<Item = String>) {
        let mut all = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        for note in notes {
            if !all.contains(&note) {
                all.push(note);
            }
        }
    }
}

/// Everything that a flow's thread works with.
pub(super) struct Context {
    pub(super) opening: Opening,
    pub(super) settings: EngineSettings,
    pub(super) mailbox: Receiver<Instruction>,
    pub(super) stop_flags: Arc<StopFlags>,
    pub(super) counters: Arc<StreamCounters>,
    pub(super) live: Option<ring::RingIntake<PacketRecord>>,
    pub(super) reporter: Reporter,
}

impl Context {
    /// The marks of the flow's packets, where this host sends them.
    pub(super) fn marks(&self) -> Marks {
        Marks { dscp: self.opening.spec.dscp, priority: self.settings.sending.priority }
    }

    /// The address to bind the flow's socket to. If both programs run on one host, a receiving client avoids the usual
    /// port, which the server's sender uses.
    pub(super) fn local(&self) -> SocketAddr {
        let (opening, mut local) = (&self.opening, self.settings.local);
        let avoided = self.is_alone() && opening.bind_port == TEST_PORT;
        local.set_port(if avoided { 0 } else { opening.bind_port });
        local
    }

    /// Whether the port of the flow's socket must not be that of another socket: both programs run on one host, and a
    /// client at the port of the server's sender would send to itself.
    pub(super) fn is_alone(&self) -> bool {
        let opening = &self.opening;
        let same_host = opening.peer.to_canonical() == self.settings.local.ip().to_canonical();
        same_host && opening.any_port_will_do && opening.meeting == Meeting::Dial
    }
}
