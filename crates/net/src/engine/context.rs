//! [`Context`]: what the thread of one flow works with.

use super::counters::Counters;
use super::rendezvous::Rendezvous;
use super::stop_flags::StopFlags;
use super::waker::Waker;
use crate::pace::Pacing;
use crate::ring;
use jitlat_core::spec::TEST_PORT;
use jitlat_core::{PacketRecord, Span};
use jitlat_proto::jitlat::flow::{FlowReport, Opening};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

/// Where an engine works.
#[derive(Clone)]
pub struct EngineSettings {
    /// This end of the control connection: test sockets are bound to its address.
    pub local: SocketAddr,
    /// How packet threads are run.
    pub pacing: Pacing,
    /// Where greetings and classic TCP senders are awaited.
    pub rendezvous: Arc<Rendezvous>,
    /// Whether records are also handed out while they arrive ([`Engine::live`]).
    pub live: bool,
}

/// What the conversing thread tells a flow's thread, beside the [`StopFlags`].
pub(super) enum Instruction {
    /// See [`Command::Connect`].
    Connect(SocketAddr, Option<(u64, Span)>),
    /// A TCP connection came for the flow, and the bytes already read from it.
    Connected(TcpStream, Vec<u8>),
    /// See [`Command::Start`].
    Start,
}

/// Where a flow's thread puts its reports.
#[derive(Clone)]
pub(super) struct Reporter {
    pub(super) reports: Sender<FlowReport>,
    pub(super) waker: Waker,
    pub(super) notes: Arc<Mutex<Vec<String>>>,
}

impl Reporter {
    pub(super) fn report(&self, report: FlowReport) {
        // Without a reader the conversation is over, and nobody wants to know.
        let _ = self.reports.send(report);
        self.waker.wake();
    }

    /// Notes what had to be reduced, once.
    pub(super) fn note(&self, notes: impl IntoIterator<Item = String>) {
        let mut all = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        for note in notes {
            if !all.contains(&note) {
                all.push(note);
            }
        }
    }
}

/// Everything a flow's thread works with.
pub(super) struct Context {
    pub(super) opening: Opening,
    pub(super) settings: EngineSettings,
    pub(super) mailbox: Receiver<Instruction>,
    pub(super) stop_flags: Arc<StopFlags>,
    pub(super) counters: Arc<Counters>,
    pub(super) live: Option<ring::Intake<PacketRecord>>,
    pub(super) reporter: Reporter,
}

impl Context {
    /// The address to bind the flow's socket to. Between two programs of one host a client that receives keeps
    /// off the usual port: the server's sender has it, and each would talk to itself.
    pub(super) fn local(&self) -> SocketAddr {
        let (opening, mut local) = (&self.opening, self.settings.local);
        let same_host = opening.peer.to_canonical() == local.ip().to_canonical();
        let avoided = same_host && opening.any_port_will_do && opening.bind_port == TEST_PORT;
        local.set_port(if avoided { 0 } else { opening.bind_port });
        local
    }
}
