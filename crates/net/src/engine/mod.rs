//! [`Engine`]: does with sockets and threads what a control machine commands, and reports back. One
//! engine serves one control connection, one thread serves one flow; client and server use the same.

mod idle;
pub mod lobby;
mod receive;
mod send;
mod shared;
mod tcp_flow;
mod udp_flow;

pub use shared::Bell;

use crate::pace::Pacing;
use crate::ring::{self, Outlet};
use jitlat_core::observer::StreamProgress;
use jitlat_core::spec::TEST_PORT;
use jitlat_core::{PacketRecord, Span, Transport};
use jitlat_proto::jitlat::flow::{Command, FlowId, Opening, Report, Role};
use lobby::Lobby;
use shared::{Counters, Orders};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Where an engine works.
#[derive(Clone)]
pub struct Site {
    /// This end of the control connection: test sockets are bound to its address.
    pub local: SocketAddr,
    /// How packet threads are run.
    pub pacing: Pacing,
    /// Where greetings and classic TCP senders are awaited.
    pub lobby: Arc<Lobby>,
    /// Whether records are also handed out while they arrive ([`Engine::live`]).
    pub live: bool,
}

/// All flows of one control connection.
pub struct Engine {
    site: Site,
    flows: Vec<Flow>,
    outbox: Outbox,
    reports: Receiver<Report>,
}

/// The conversing thread's handle on a flow.
struct Flow {
    id: FlowId,
    packets: u32,
    mailbox: Sender<Step>,
    orders: Arc<Orders>,
    counters: Arc<Counters>,
    live: Option<Outlet<PacketRecord>>,
    thread: Option<JoinHandle<()>>,
}

/// What the conversing thread tells a flow's thread, beside the urgent [`Orders`].
enum Step {
    /// See [`Command::Connect`].
    Connect(SocketAddr, Option<(u64, Span)>),
    /// A TCP connection came for the flow, and the bytes already read from it.
    Visitor(TcpStream, Vec<u8>),
    /// See [`Command::Start`].
    Start,
}

/// Where a flow's thread puts what it has to say.
#[derive(Clone)]
struct Outbox {
    reports: Sender<Report>,
    bell: Bell,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Outbox {
    fn report(&self, report: Report) {
        // Without a reader the conversation is over, and nobody wants to know.
        let _ = self.reports.send(report);
        self.bell.ring();
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
    site: Site,
    mailbox: Receiver<Step>,
    orders: Arc<Orders>,
    counters: Arc<Counters>,
    live: Option<ring::Intake<PacketRecord>>,
    outbox: Outbox,
}

impl Context {
    /// The address to bind the flow's socket to. Between two programs of one host a client that receives keeps
    /// off the usual port: the server's sender has it, and each would talk to itself.
    fn local(&self) -> SocketAddr {
        let (opening, mut local) = (&self.opening, self.site.local);
        let same_host = opening.peer.to_canonical() == local.ip().to_canonical();
        let avoided = same_host && opening.any_port_will_do && opening.bind_port == TEST_PORT;
        local.set_port(if avoided { 0 } else { opening.bind_port });
        local
    }
}

impl Engine {
    /// An engine without flows.
    pub fn new(site: Site) -> io::Result<Engine> {
        let (sender, reports) = channel();
        let outbox = Outbox { reports: sender, bell: Bell::new()?, notes: Arc::default() };
        Ok(Engine { site, flows: Vec::new(), outbox, reports })
    }

    /// Rings when a report waits.
    pub fn bell(&self) -> &Bell {
        &self.outbox.bell
    }

    /// Obeys.
    pub fn command(&mut self, command: Command) {
        match command {
            Command::Open(opening) => self.open(*opening),
            Command::Connect { flow, peer, greeting } => self.tell(flow, Step::Connect(peer, greeting)),
            Command::Start(flow) => self.tell(flow, Step::Start),
            Command::Cut(flow, linger) => self.order(flow, |orders| orders.cut(linger)),
            Command::Stop(flow) => self.order(flow, Orders::stop),
            Command::Close(flow) => self.order(flow, Orders::close),
        }
    }

    /// The next report, if one waits.
    pub fn report(&self) -> Option<Report> {
        self.reports.try_recv().ok()
    }

    /// What had to be reduced so far, in plain words.
    pub fn notes(&self) -> Vec<String> {
        self.outbox.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A snapshot of each flow.
    pub fn progress(&self) -> impl Iterator<Item = (FlowId, StreamProgress)> {
        self.flows.iter().map(|f| (f.id, f.counters.progress(f.packets)))
    }

    /// Hands over what arrived since the last call, where [`Site::live`].
    pub fn live(&mut self, mut each: impl FnMut(FlowId, &[PacketRecord])) {
        for flow in &mut self.flows {
            if let Some(outlet) = &mut flow.live {
                outlet.drain(|records| each(flow.id, records));
            }
        }
    }

    fn open(&mut self, opening: Opening) {
        let id = opening.flow;
        if let Err(e) = self.try_open(opening) {
            self.outbox.report(Report::Failed(id, format!("starting the flow's thread: {e}")));
        }
    }

    fn try_open(&mut self, opening: Opening) -> io::Result<()> {
        let (mailbox, inbox) = channel();
        let orders = Arc::new(Orders::new()?);
        let counters = Arc::new(Counters::default());
        let (intake, live) = if self.site.live && opening.role == Role::Receive {
            let (intake, outlet) = ring::ring(&opening.spec);
            (Some(intake), Some(outlet))
        } else {
            (None, None)
        };
        let (id, packets) = (opening.flow, opening.spec.packets());
        let context = Context {
            site: self.site.clone(),
            mailbox: inbox,
            orders: orders.clone(),
            counters: counters.clone(),
            live: intake,
            outbox: self.outbox.clone(),
            opening,
        };
        let visitors = mailbox.clone();
        let run = move || match context.opening.spec.transport() {
            Transport::Udp => udp_flow::run(context),
            Transport::Tcp => tcp_flow::run(context, &visitors),
        };
        let thread = std::thread::Builder::new().name(format!("flow {}", id.0)).spawn(run)?;
        self.flows.push(Flow { id, packets, mailbox, orders, counters, live, thread: Some(thread) });
        Ok(())
    }

    fn flow(&self, id: FlowId) -> Option<&Flow> {
        self.flows.iter().find(|f| f.id == id)
    }

    fn tell(&self, id: FlowId, step: Step) {
        if let Some(flow) = self.flow(id) {
            let _ = flow.mailbox.send(step);
            flow.orders.bell.ring();
        }
    }

    fn order(&self, id: FlowId, order: impl Fn(&Orders)) {
        if let Some(flow) = self.flow(id) {
            order(&flow.orders);
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.flows.iter().for_each(|f| f.orders.close());
        for thread in self.flows.iter_mut().filter_map(|f| f.thread.take()) {
            let _ = thread.join();
        }
    }
}
