//! [`Engine`]: executes the commands of a control state machine with sockets and threads, and reports the
//! results. One engine serves one control connection, and one thread serves one flow. Client and server use
//! the same code.

mod batches;
mod context;
mod counters;
mod error;
mod hand_over;
mod idle;
mod receive;
pub(crate) mod rendezvous;
mod send;
pub(crate) mod sent_times;
mod stop_flags;
pub(crate) mod stream_socket;
mod tcp_flow;
mod tcp_moments;
mod udp_flow;
mod watched;

pub(crate) use context::EngineSettings;

use crate::ring::{self, Outlet};
use crate::wake::Waker;
use context::{Context, Instruction, Reporter};
use counters::StreamCounters;
use jitlat_core::observer::StreamProgress;
use jitlat_core::{PacketRecord, SteadyTime, Transport};
use jitlat_proto::jitlat::flow::{FlowCommand, FlowId, FlowReport, FlowRole, Opening, WATCHED_RECORDS};
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use stop_flags::StopFlags;
use watched::WatchedFlow;

/// All flows of one control connection.
pub struct Engine {
    settings: EngineSettings,
    flows: Vec<FlowHandle>,
    reporter: Reporter,
    reports: Receiver<FlowReport>,
}

/// Handle of a flow for the control thread.
struct FlowHandle {
    id: FlowId,
    packets: u32,
    mailbox: Sender<Instruction>,
    stop_flags: Arc<StopFlags>,
    counters: Arc<StreamCounters>,
    live: Option<Outlet<PacketRecord>>,
    watched: Option<WatchedFlow>,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    /// Creates an engine without flows.
    pub fn new(settings: EngineSettings) -> io::Result<Engine> {
        let (sender, reports) = channel();
        let reporter = Reporter { reports: sender, waker: Waker::new()?, notes: Arc::default() };
        Ok(Engine { settings, flows: Vec::new(), reporter, reports })
    }

    /// Returns the waker that is woken when a report is available.
    pub(crate) fn waker(&self) -> &Waker {
        &self.reporter.waker
    }

    /// Executes a command.
    pub fn command(&mut self, command: FlowCommand) {
        match command {
            FlowCommand::Open(opening) => self.open(*opening),
            FlowCommand::Connect { flow, peer, greeting } => {
                self.instruct(flow, Instruction::Connect(peer, greeting));
            }
            FlowCommand::Start(flow) => self.instruct(flow, Instruction::Start),
            FlowCommand::Cut(flow, linger) => self.end(flow, |flags| flags.cut(linger)),
            FlowCommand::Stop(flow) => self.end(flow, StopFlags::stop),
            FlowCommand::Close(flow) => self.end(flow, StopFlags::close),
        }
    }

    /// Returns the next report; `None` if there is none.
    pub fn report(&self) -> Option<FlowReport> {
        self.reports.try_recv().ok()
    }

    /// Returns notes about settings that could not be applied as requested.
    pub fn notes(&self) -> Vec<String> {
        self.reporter.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the current progress of each flow.
    pub fn progress(&self) -> impl Iterator<Item = (FlowId, StreamProgress)> {
        self.flows.iter().map(|f| (f.id, f.counters.progress(f.packets)))
    }

    /// Passes to `each` the data that has arrived since the last call, if [`EngineSettings::live`] is set: records, or
    /// the number of records lost because the ring was full.
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

    /// Processes the records of watched flows that have arrived since the last call, and returns the reports
    /// that are due. Should be called about ten times per second.
    pub(crate) fn look_at_watched(&mut self, now: SteadyTime) -> Vec<FlowReport> {
        let looked = self.flows.iter_mut().filter_map(|flow| {
            let so_far = flow.watched.as_mut()?.look(now)?;
            Some(FlowReport::SoFar(flow.id, so_far))
        });
        looked.collect()
    }

    fn open(&mut self, opening: Opening) {
        let id = opening.flow;
        if let Err(e) = self.try_open(opening) {
            self.reporter.report(FlowReport::Failed(id, format!("cannot start the flow's thread: {e}")));
        }
    }

    fn try_open(&mut self, opening: Opening) -> io::Result<()> {
        let (mailbox, inbox) = channel();
        let stop_flags = Arc::new(StopFlags::new()?);
        let counters = Arc::new(StreamCounters::default());
        let receives = opening.role == FlowRole::Receive;
        let (intake, live, watched) = if self.settings.live && receives {
            let (intake, outlet) = ring::ring(&opening.spec);
            (Some(intake), Some(outlet), None)
        } else if opening.watched && receives {
            let (intake, outlet) = ring::of_slots(WATCHED_RECORDS);
            (Some(intake), None, Some(WatchedFlow::new(outlet)))
        } else {
            (None, None, None)
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
        self.flows.push(FlowHandle {
            id,
            packets,
            mailbox,
            stop_flags,
            counters,
            live,
            watched,
            thread: Some(thread),
        });
        Ok(())
    }

    fn flow(&self, id: FlowId) -> Option<&FlowHandle> {
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
