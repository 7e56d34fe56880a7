//! [`Engine`]: does with sockets and threads what a control machine commands, and reports back. One
//! engine serves one control connection, one thread serves one flow; client and server use the same.

mod counters;
mod error;
mod idle;
mod receive;
pub(crate) mod rendezvous;
mod send;
mod sent_times;
mod stop_flags;
mod stream_socket;
mod tcp_flow;
mod udp_flow;
mod waker;

pub(crate) use waker::Waker;

use crate::pace::Pacing;
use crate::ring::{self, Outlet};
use counters::Counters;
use jitlat_core::observer::StreamProgress;
use jitlat_core::spec::TEST_PORT;
use jitlat_core::{PacketRecord, Span, Transport};
use jitlat_proto::jitlat::flow::{Command, FlowId, FlowReport, Opening, Role};
use rendezvous::Rendezvous;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use stop_flags::StopFlags;

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

/// All flows of one control connection.
pub struct Engine {
    settings: EngineSettings,
    flows: Vec<Flow>,
    reporter: Reporter,
    reports: Receiver<FlowReport>,
}

/// The conversing thread's handle on a flow.
struct Flow {
    id: FlowId,
    packets: u32,
    mailbox: Sender<Instruction>,
    stop_flags: Arc<StopFlags>,
    counters: Arc<Counters>,
    live: Option<Outlet<PacketRecord>>,
    thread: Option<JoinHandle<()>>,
}

/// What the conversing thread tells a flow's thread, beside the [`StopFlags`].
enum Instruction {
    /// See [`Command::Connect`].
    Connect(SocketAddr, Option<(u64, Span)>),
    /// A TCP connection came for the flow, and the bytes already read from it.
    Connected(TcpStream, Vec<u8>),
    /// See [`Command::Start`].
    Start,
}

/// Where a flow's thread puts its reports.
#[derive(Clone)]
struct Reporter {
    reports: Sender<FlowReport>,
    waker: Waker,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Reporter {
    fn report(&self, report: FlowReport) {
        // Without a reader the conversation is over, and nobody wants to know.
        let _ = self.reports.send(report);
        self.waker.wake();
    }

    /// Notes what had to be reduced, once.
    fn note(&self, notes: impl IntoIterator<Item = String>) {
        let mut all = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        for note in notes {
            if !all.contains(&note) {
                all.push(note);
            }
        }
    }
}

/// Everything a flow's thread works with.
struct Context {
    opening: Opening,
    settings: EngineSettings,
    mailbox: Receiver<Instruction>,
    stop_flags: Arc<StopFlags>,
    counters: Arc<Counters>,
    live: Option<ring::Intake<PacketRecord>>,
    reporter: Reporter,
}

impl Context {
    /// The address to bind the flow's socket to. Between two programs of one host a client that receives keeps
    /// off the usual port: the server's sender has it, and each would talk to itself.
    fn local(&self) -> SocketAddr {
        let (opening, mut local) = (&self.opening, self.settings.local);
        let same_host = opening.peer.to_canonical() == local.ip().to_canonical();
        let avoided = same_host && opening.any_port_will_do && opening.bind_port == TEST_PORT;
        local.set_port(if avoided { 0 } else { opening.bind_port });
        local
    }
}

impl Engine {
    /// An engine without flows.
    pub fn new(settings: EngineSettings) -> io::Result<Engine> {
        let (sender, reports) = channel();
        let reporter = Reporter { reports: sender, waker: Waker::new()?, notes: Arc::default() };
        Ok(Engine { settings, flows: Vec::new(), reporter, reports })
    }

    /// Wakes when a report waits.
    pub fn waker(&self) -> &Waker {
        &self.reporter.waker
    }

    /// Obeys.
    pub fn command(&mut self, command: Command) {
        match command {
            Command::Open(opening) => self.open(*opening),
            Command::Connect { flow, peer, greeting } => {
                self.instruct(flow, Instruction::Connect(peer, greeting));
            }
            Command::Start(flow) => self.instruct(flow, Instruction::Start),
            Command::Cut(flow, linger) => self.end(flow, |flags| flags.cut(linger)),
            Command::Stop(flow) => self.end(flow, StopFlags::stop),
            Command::Close(flow) => self.end(flow, StopFlags::close),
        }
    }

    /// The next report, if one waits.
    pub fn report(&self) -> Option<FlowReport> {
        self.reports.try_recv().ok()
    }

    /// What had to be reduced so far, in plain words.
    pub fn notes(&self) -> Vec<String> {
        self.reporter.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A snapshot of each flow.
    pub fn progress(&self) -> impl Iterator<Item = (FlowId, StreamProgress)> {
        self.flows.iter().map(|f| (f.id, f.counters.progress(f.packets)))
    }

    /// Hands over what arrived since the last call, where [`EngineSettings::live`]: records, or the number of those
    /// there was no room for.
    pub fn live(&mut self, mut each: impl FnMut(FlowId, Result<&[PacketRecord], u64>)) {
        for flow in &mut self.flows {
            if let Some(outlet) = &mut flow.live {
                outlet.drain(|records| each(flow.id, Ok(records)));
                let missed = outlet.take_overflow();
                if missed > 0 {
                    each(flow.id, Err(missed));
                }
            }
        }
    }

    fn open(&mut self, opening: Opening) {
        let id = opening.flow;
        if let Err(e) = self.try_open(opening) {
            self.reporter.report(FlowReport::Failed(id, format!("starting the flow's thread: {e}")));
        }
    }

    fn try_open(&mut self, opening: Opening) -> io::Result<()> {
        let (mailbox, inbox) = channel();
        let stop_flags = Arc::new(StopFlags::new()?);
        let counters = Arc::new(Counters::default());
        let (intake, live) = if self.settings.live && opening.role == Role::Receive {
            let (intake, outlet) = ring::ring(&opening.spec);
            (Some(intake), Some(outlet))
        } else {
            (None, None)
        };
        let (id, packets) = (opening.flow, opening.spec.packets());
        let context = Context {
            settings: self.settings.clone(),
            mailbox: inbox,
            stop_flags: stop_flags.clone(),
            counters: counters.clone(),
            live: intake,
            reporter: self.reporter.clone(),
            opening,
        };
        let connections = mailbox.clone();
        let run = move || match context.opening.spec.transport() {
            Transport::Udp => udp_flow::run(context),
            Transport::Tcp => tcp_flow::run(context, &connections),
        };
        let thread = std::thread::Builder::new().name(format!("flow {}", id.0)).spawn(run)?;
        self.flows.push(Flow { id, packets, mailbox, stop_flags, counters, live, thread: Some(thread) });
        Ok(())
    }

    fn flow(&self, id: FlowId) -> Option<&Flow> {
        self.flows.iter().find(|f| f.id == id)
    }

    fn instruct(&self, id: FlowId, step: Instruction) {
        if let Some(flow) = self.flow(id) {
            let _ = flow.mailbox.send(step);
            flow.stop_flags.waker.wake();
        }
    }

    fn end(&self, id: FlowId, request: impl Fn(&StopFlags)) {
        if let Some(flow) = self.flow(id) {
            request(&flow.stop_flags);
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.flows.iter().for_each(|f| f.stop_flags.close());
        for thread in self.flows.iter_mut().filter_map(|f| f.thread.take()) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
