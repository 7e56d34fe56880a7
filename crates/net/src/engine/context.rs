//! [`Context`]: settings and channels of a flow's thread.

use super::counters::StreamCounters;
use super::rendezvous::Rendezvous;
use super::stop_flags::StopFlags;
use super::stream_socket::Marks;
use crate::launch::LaunchHost;
use crate::pace::SendSettings;
use crate::ring;
use crate::sockets::PacketMarker;
use crate::wake::Waker;
use jitlat_core::spec::TEST_PORT;
use jitlat_core::{PacketRecord, Span};
use jitlat_proto::jitlat::flow::{FlowReport, Meeting, Opening};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

/// Settings of an engine.
#[derive(Clone)]
pub(crate) struct EngineSettings {
    /// Local address of the control connection; test sockets are bound to the same IP address.
    pub local: SocketAddr,
    /// Settings for sending from this host.
    pub sending: SendSettings,
    /// Shared ports at which flows wait for greetings and classic TCP senders.
    pub rendezvous: Arc<Rendezvous>,
    /// Host functions for launch times, used only if launch times are requested.
    pub launch_host: &'static dyn LaunchHost,
    /// True if records are also delivered as they arrive ([`Engine::live`]).
    pub live: bool,
}

/// Instruction from the control thread to a flow's thread, in addition to the [`StopFlags`].
pub(super) enum Instruction {
    /// See [`FlowCommand::Connect`](jitlat_proto::jitlat::flow::FlowCommand::Connect).
    Connect(SocketAddr, Option<(u64, Span)>),
    /// Accepted TCP connection for the flow, and the bytes already read from the connection.
    Connected(TcpStream, Vec<u8>),
    /// See [`FlowCommand::Start`](jitlat_proto::jitlat::flow::FlowCommand::Start).
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
        // Sending fails if the control connection has ended; the reports are not needed then.
        let _ = self.reports.send(report);
        self.waker.wake();
    }

    /// Reports settings that could not be applied as requested; the engine stores each note once.
    pub(super) fn note(&self, notes: impl IntoIterator<Item = String>) {
        let mut all = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        for note in notes {
            if !all.contains(&note) {
                all.push(note);
            }
        }
    }
}

/// State shared by all parts of a flow's thread.
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
    /// Returns the marks of the packets that the flow sends from this host.
    pub(super) fn marks(&self) -> Marks {
        Marks { marker: self.marker(), priority: self.settings.sending.priority }
    }

    /// Returns the setter of DSCP and ECN fields.
    pub(super) fn marker(&self) -> PacketMarker {
        PacketMarker::new(self.opening.spec.dscp, self.opening.spec.marking)
    }

    /// Returns the local address for the flow's socket. If client and server run on the same host, a receiving client
    /// avoids the usual port, which the server's sender uses.
    pub(super) fn local(&self) -> SocketAddr {
        let (opening, mut local) = (&self.opening, self.settings.local);
        let avoided = self.is_alone() && opening.bind_port == TEST_PORT;
        local.set_port(if avoided { 0 } else { opening.bind_port });
        local
    }

    /// True if the flow's socket must not share its port: if client and server run on the same host, a client on the
    /// port of the server's sender would send to itself.
    pub(super) fn is_alone(&self) -> bool {
        let opening = &self.opening;
        let same_host = opening.peer.to_canonical() == self.settings.local.ip().to_canonical();
        same_host && opening.any_port_will_do && opening.meeting == Meeting::Dial
    }
}
