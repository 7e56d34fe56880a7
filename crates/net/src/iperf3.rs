//! Load against an iperf3 server: runs [`Iperf3Client`] and sends or receives on its connections.

use crate::sockets;
use crate::sys::AsFd;
use crate::sys::{PollFd, PollFlags, poll};
use crate::{clock, random, sys};
use jitlat_core::{Direction, Ecn, Span, WallTime};
use jitlat_proto::iperf3::{self, Iperf3Client, Iperf3Error, Iperf3Event, Iperf3Params, ServerStream};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Reason why no load was sent.
#[derive(Debug, thiserror::Error)]
pub enum Iperf3LoadError {
    /// No connection to the server, or it failed.
    #[error("the iperf3 server at {to}: {source}")]
    Connection {
        /// Address of the server.
        to: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The conversation failed.
    #[error("{to}: {source}")]
    Conversation {
        /// Address of the server.
        to: SocketAddr,
        /// Reason.
        source: Iperf3Error,
    },
    /// The server did not answer in time.
    #[error("the iperf3 server at {0} does not answer")]
    Silent(SocketAddr),
}

/// Event of a running load.
#[derive(Clone, Copy, Debug)]
pub enum Iperf3Progress {
    /// Data flows on all connections.
    Running,
    /// The receiver of a connection has more bytes.
    Arrived {
        /// Index of the connection.
        stream: usize,
        /// Time at which this host learned of it.
        at: WallTime,
        /// Number of bytes since the last such event.
        bytes: u64,
    },
}

/// End of a load.
#[derive(Clone, Debug)]
pub struct Iperf3Outcome {
    /// Results of the connections at the server; empty if it did not send them.
    pub server: Vec<ServerStream>,
    /// Reason why the load ended before it was stopped; `None` if it did not.
    pub failure: Option<String>,
}

/// Timeout of the conversation before the data, and again after it.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum wait in ms, so that a stop is noticed soon.
const MAX_WAIT: Span = Span::millis(50);
/// Wait of a sender that is ahead of its rate, in ms.
const PACE: Span = Span::millis(2);
/// Time between two looks at what the far host has acknowledged.
const LOOK: Duration = Duration::from_millis(20);

/// Generates the load of `params` against the server at `to` until `end` is set.
///
/// # Errors
/// [`Iperf3LoadError`] if no data flowed.
pub fn run(
    to: SocketAddr,
    params: &Iperf3Params,
    priority: Option<u32>,
    end: &AtomicBool,
    observe: &mut dyn FnMut(Iperf3Progress),
) -> Result<Iperf3Outcome, Iperf3LoadError> {
    let failed = |source| Iperf3LoadError::Connection { to, source };
    let mut random = [0; iperf3::COOKIE_LEN - 1];
    random::fill(&mut random).map_err(failed)?;
    let cookie = iperf3::cookie(&random);
    let stopped = || end.load(Ordering::Acquire);
    let control = sockets::connect_tcp(None, to, STEP_TIMEOUT, stopped).map_err(failed)?;
    control.set_nonblocking(true).map_err(failed)?;
    let mut block = vec![0; params.block as usize];
    random::fill(&mut block).map_err(failed)?;
    let mut load = RunningLoad {
        to,
        params,
        priority,
        cookie,
        machine: Iperf3Client::new(params.clone(), cookie),
        control,
        output: Vec::new(),
        streams: Vec::new(),
        block,
        end,
        deadline: Instant::now() + STEP_TIMEOUT,
        began: Instant::now(),
        looked: Instant::now(),
        results: None,
    };
    load.run(observe)
}

/// A load from the first message to the results.
struct RunningLoad<'a> {
    to: SocketAddr,
    params: &'a Iperf3Params,
    priority: Option<u32>,
    cookie: [u8; iperf3::COOKIE_LEN],
    machine: Iperf3Client,
    control: TcpStream,
    /// Bytes for the control connection that the kernel has not accepted yet.
    output: Vec<u8>,
    streams: Vec<DataStream>,
    block: Vec<u8>,
    end: &'a AtomicBool,
    /// Time at which the conversation before or after the data must be over.
    deadline: Instant,
    /// Start of the data.
    began: Instant,
    looked: Instant,
    results: Option<Vec<ServerStream>>,
}

/// A connection with data.
struct DataStream {
    stream: TcpStream,
    direction: Direction,
    /// Bytes that this host wrote or read.
    bytes: u64,
    /// Bytes of which the receiver is known to have received them.
    arrived: u64,
    closed: bool,
}

impl RunningLoad<'_> {
    fn run(&mut self, observe: &mut dyn FnMut(Iperf3Progress)) -> Result<Iperf3Outcome, Iperf3LoadError> {
        let (mut flowed, mut ended) = (false, false);
        loop {
            let asked = self.end.load(Ordering::Acquire);
            if asked && !self.machine.runs() && !ended {
                return Ok(self.outcome(None));
            }
            if asked && !ended {
                let bytes: Vec<u64> = self.streams.iter().map(|s| s.bytes).collect();
                self.machine.end(&bytes);
                (ended, self.deadline) = (true, Instant::now() + STEP_TIMEOUT);
            }
            if self.results.is_some() {
                return Ok(self.outcome((!ended).then(|| "the server ended the load".to_owned())));
            }
            if (!flowed || ended) && Instant::now() > self.deadline {
                return match ended {
                    true => Ok(self.outcome(None)),
                    false => Err(Iperf3LoadError::Silent(self.to)),
                };
            }
            match self.turn(ended, observe) {
                Ok(running) if running && !flowed => flowed = true,
                Ok(_) => {}
                // Bytes that have arrived are known.
                Err(e) if flowed => return Ok(self.outcome((!ended).then(|| e.to_string()))),
                Err(e) => return Err(e),
            }
        }
    }

    fn outcome(&mut self, failure: Option<String>) -> Iperf3Outcome {
        Iperf3Outcome { server: self.results.take().unwrap_or_default(), failure }
    }

    /// Waits for an event and handles it. Returns true if data flows.
    fn turn(
        &mut self,
        ended: bool,
        observe: &mut dyn FnMut(Iperf3Progress),
    ) -> Result<bool, Iperf3LoadError> {
        let to = self.to;
        let failed = |source| Iperf3LoadError::Connection { to, source };
        self.output.extend(self.machine.output());
        let sends = self.machine.runs();
        let behind: Vec<bool> =
            self.streams.iter().map(|s| sends && !s.closed && self.is_behind(s)).collect();
        let paced =
            sends && self.streams.iter().zip(&behind).any(|(s, b)| s.direction == Direction::Up && !b);
        let wants = |s: &DataStream, behind: bool| match s.direction {
            _ if s.closed => PollFlags::empty(),
            Direction::Up if behind => PollFlags::POLLOUT,
            Direction::Up => PollFlags::empty(),
            Direction::Down => PollFlags::POLLIN,
        };
        let mut flags = PollFlags::POLLIN;
        flags.set(PollFlags::POLLOUT, !self.output.is_empty());
        let mut queue = vec![PollFd::new(self.control.as_fd(), flags)];
        // A connection that nothing is expected of would be ready all the time once the server has closed it.
        let data = self.streams.iter().zip(&behind).enumerate();
        let data: Vec<(usize, PollFlags)> = data
            .map(|(k, (stream, behind))| (k, wants(stream, *behind)))
            .filter(|(_, flags)| !flags.is_empty())
            .collect();
        queue.extend(data.iter().map(|(k, flags)| PollFd::new(self.streams[*k].stream.as_fd(), *flags)));
        poll(&mut queue, Some(if paced { PACE } else { MAX_WAIT })).map_err(failed)?;
        let ready: Vec<bool> = queue.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        if !self.output.is_empty() {
            match self.control.write(&self.output) {
                Ok(n) => drop(self.output.drain(..n)),
                Err(e) if sockets::waits(&e) => {}
                Err(e) => return Err(failed(e)),
            }
        }
        if ready[0] {
            self.control_input(observe)?;
        }
        for ((k, _), ready) in data.iter().zip(&ready[1..]) {
            if *ready && let Err(e) = self.data(*k, sends, observe) {
                self.streams[*k].closed = true;
                // The server closes its connections at the end of the test.
                if !ended {
                    return Err(failed(e));
                }
            }
        }
        if self.looked.elapsed() >= LOOK {
            self.look(observe);
        }
        Ok(self.machine.runs())
    }

    /// Returns true if a stream may send more at its rate.
    fn is_behind(&self, stream: &DataStream) -> bool {
        self.params
            .rate
            .is_none_or(|rate| (stream.bytes as f64) * 8.0 < rate as f64 * self.began.elapsed().as_secs_f64())
    }

    fn control_input(&mut self, observe: &mut dyn FnMut(Iperf3Progress)) -> Result<(), Iperf3LoadError> {
        let to = self.to;
        let mut buffer = [0; 4096];
        let n = match self.control.read(&mut buffer) {
            Ok(0) => {
                let source = io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the control connection");
                return Err(Iperf3LoadError::Connection { to, source });
            }
            Ok(n) => n,
            Err(e) if sockets::waits(&e) => return Ok(()),
            Err(source) => return Err(Iperf3LoadError::Connection { to, source }),
        };
        let events = self.machine.receive(&buffer[..n]);
        let events = events.map_err(|source| Iperf3LoadError::Conversation { to, source })?;
        for event in events {
            match event {
                Iperf3Event::Connect(streams) => {
                    for k in 0..streams {
                        let stream = self.connect(k);
                        let stream = stream.map_err(|source| Iperf3LoadError::Connection { to, source })?;
                        self.streams.push(stream);
                    }
                }
                Iperf3Event::Run => {
                    (self.began, self.looked) = (Instant::now(), Instant::now());
                    self.look(&mut |_| {});
                    observe(Iperf3Progress::Running);
                }
                Iperf3Event::Done(results) => {
                    // The last message is one byte, for which there is always room.
                    let _ = self.control.write_all(&self.machine.output());
                    self.results = Some(results);
                }
            }
        }
        Ok(())
    }

    fn connect(&self, index: usize) -> io::Result<DataStream> {
        // All connections together have one time limit, however slowly the server accepts each.
        let left = self.deadline.saturating_duration_since(Instant::now());
        let stopped = || self.end.load(Ordering::Acquire);
        let mut stream = sockets::connect_tcp(None, self.to, left, stopped)?;
        // A mark or priority that this system refuses does not prevent the load.
        let _ = sockets::mark(&stream, self.params.dscp, Ecn::NotEct);
        let _ = sockets::prefer(&stream, self.priority);
        stream.write_all(&self.cookie)?;
        stream.set_nonblocking(true)?;
        let direction = self.params.direction(index);
        Ok(DataStream { stream, direction, bytes: 0, arrived: 0, closed: false })
    }

    /// Sends or receives on a stream that is ready.
    fn data(&mut self, index: usize, sends: bool, observe: &mut dyn FnMut(Iperf3Progress)) -> io::Result<()> {
        let stream = &mut self.streams[index];
        let moved = match stream.direction {
            Direction::Up if sends => stream.stream.write(&self.block),
            Direction::Up => Ok(0),
            Direction::Down => match stream.stream.read(&mut self.block) {
                Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed a data connection")),
                other => other,
            },
        };
        let moved = match moved {
            Err(e) if sockets::waits(&e) => 0,
            other => other? as u64,
        };
        stream.bytes += moved;
        if stream.direction == Direction::Down && moved > 0 {
            stream.arrived += moved;
            observe(Iperf3Progress::Arrived { stream: index, at: clock::wall(), bytes: moved });
        }
        Ok(())
    }

    /// Reports what the server has acknowledged since the last look.
    fn look(&mut self, observe: &mut dyn FnMut(Iperf3Progress)) {
        self.looked = Instant::now();
        for (k, stream) in self.streams.iter_mut().enumerate().filter(|(_, s)| s.direction == Direction::Up) {
            let Ok(acknowledged) = sys::tcp_bytes_acknowledged(stream.stream.as_fd()) else { continue };
            let bytes = acknowledged.saturating_sub(stream.arrived);
            stream.arrived = acknowledged.max(stream.arrived);
            if bytes > 0 {
                observe(Iperf3Progress::Arrived { stream: k, at: clock::wall(), bytes });
            }
        }
    }
}
