//! A UDP socket that answers: [`AnsweringSocket`] receives requests in batches, [`Answers`] sends what is answered.

use super::{Counters, LOOK_AROUND, Shared};
use crate::clock;
use crate::cmsg::{LocalAddress, ReceivedInfo};
use crate::departures::Departures;
use crate::random;
use crate::sockets::{enlarge, observe};
use crate::sys::{BATCH, Inbox, Outbox, SendOptions};
use jitlat_core::time::SECOND;
use jitlat_core::{Source, Span, WallTime};
use jitlat_proto::access::RateLimiter;
use jitlat_proto::lamp;
use jitlat_proto::twoway::reflect::{Arrival, Silence};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{TimestampingFlag as F, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;

/// The largest datagram.
pub const LARGEST: usize = 65_507;
/// A driver stamps a packet on handing it to the adapter, nearly always before the call returns; then it is given up.
const STAMP_PATIENCE: Span = Span::millis(5);
/// Answers whose stamps may be under way at a time.
const STAMPS_UNDER_WAY: usize = 1024;
/// Room for received datagrams, unless one alone needs more.
const INBOX_BYTES: usize = 4 << 20;

/// A UDP socket that answers. Some answers are to be stamped on leaving: `K` says which answer a stamp is of.
pub struct AnsweringSocket<K> {
    socket: UdpSocket,
    inbox: Inbox,
    shared: Shared,
    limiter: RateLimiter,
    answers: Answers<K>,
}

/// When an answer left by the kernel's stamp; `None` where that did not come.
#[derive(Clone, Copy)]
pub struct Left<K> {
    /// Which answer.
    pub which: K,
    /// When.
    pub at: Option<WallTime>,
}

impl<K: Copy> AnsweringSocket<K> {
    /// Binds to `at`; of each datagram the first `slot` bytes are kept.
    pub fn bind(at: SocketAddr, shared: &Shared, slot: usize) -> io::Result<AnsweringSocket<K>> {
        let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP))?;
        let v6 = at.is_ipv6();
        if v6 {
            socket.set_only_v6(true)?;
        }
        socket.bind(&at.into())?;
        socket.set_read_timeout(Some(LOOK_AROUND))?;
        observe(&socket, v6);
        enlarge(&socket);
        // Answers leave from the address that was asked; hop limits tell the asker the distance.
        if v6 {
            setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
            socket.set_unicast_hops_v6(255)?;
        } else {
            setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?;
            socket.set_ttl_v4(255)?;
        }
        let stamps = setsockopt(&socket, sockopt::Timestamping, &stamping()).is_ok();
        let mut seed = [0; 8];
        random::fill(&mut seed)?;
        Ok(AnsweringSocket {
            socket: socket.into(),
            inbox: Inbox::new((INBOX_BYTES / slot.max(1)).clamp(1, BATCH), slot),
            shared: shared.clone(),
            limiter: RateLimiter::new(shared.access.packets_per_second, u64::from_be_bytes(seed)),
            answers: Answers {
                outbox: Outbox::new(BATCH * 1500),
                which: Vec::with_capacity(BATCH),
                departures: Departures::new(STAMPS_UNDER_WAY, Source::Kernel),
                counters: Arc::clone(&shared.counters),
                bound: !at.ip().is_unspecified(),
                stamps,
                left: Vec::new(),
            },
        })
    }

    /// The socket.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Its address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Whether the kernel can say when answers leave.
    pub fn stamps_answers(&self) -> bool {
        self.answers.stamps
    }

    /// Waits for a batch, or a tenth of a second, and hands each datagram over with how it came in, to the address
    /// it was sent to; then everything answered is sent.
    pub fn receive(&mut self, mut each: impl FnMut(&mut Answers<K>, &[u8], &Arrival, Option<LocalAddress>)) {
        let flags = match self.answers.departures.awaited() {
            0 => libc::MSG_WAITFORONE,
            // A stamp does not end a wait for packets: wait for both.
            _ => {
                self.wait_for_stamps();
                libc::MSG_DONTWAIT
            }
        };
        if self.inbox.receive(self.socket.as_fd(), flags).is_err() {
            return;
        }
        let now = clock::tick();
        for datagram in self.inbox.datagrams() {
            let Some(from) = datagram.sender() else { continue };
            if !self.shared.access.admits(from.ip()) {
                self.shared.counters.silent(Silence::NotAllowed);
                continue;
            }
            if !self.limiter.allows(from.ip(), now.steady) {
                self.shared.counters.silent(Silence::Limited);
                continue;
            }
            let info = ReceivedInfo::parse(datagram.control);
            let arrival = Arrival {
                from,
                at: info.stamp.map_or(now.wall, |s| s.at),
                ttl: info.ttl,
                traffic_class: info.traffic_class,
            };
            if self.answers.outbox.is_full() {
                self.answers.flush(&self.socket);
            }
            each(&mut self.answers, datagram.data, &arrival, info.local);
        }
        self.answers.flush(&self.socket);
    }

    /// Sends what is not an answer to what was just received.
    pub fn send(&mut self, packet: &[u8], to: SocketAddr, from: Option<LocalAddress>) {
        self.answers.push(packet, to, from, 0);
        self.answers.flush(&self.socket);
    }

    /// Hands over which stamped answers have left, or have been given up. Where something is answered to that, `each`
    /// does it.
    pub fn take_stamps(&mut self, mut each: impl FnMut(&mut Answers<K>, Left<K>)) {
        let answers = &mut self.answers;
        if answers.departures.awaited() > 0 {
            let Answers { departures, left, .. } = answers;
            departures.collect(&self.socket, |which, stamp| left.push(Left { which, at: Some(stamp.at) }));
            let patience = clock::wall() - STAMP_PATIENCE;
            departures.give_up_before(patience, |which| left.push(Left { which, at: None }));
        }
        while let Some(left) = answers.left.pop() {
            each(answers, left);
            if answers.outbox.is_full() || answers.left.is_empty() {
                answers.flush(&self.socket);
            }
        }
    }

    fn wait_for_stamps(&self) {
        let mut ready = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        let _ = ppoll(&mut ready, Some(TimeSpec::new(0, STAMP_PATIENCE.0 % SECOND)), None);
    }
}

/// All that arrives is stamped; of what leaves, only answers that ask for it.
fn stamping() -> F {
    F::SOF_TIMESTAMPING_SOFTWARE
        | F::SOF_TIMESTAMPING_RX_SOFTWARE
        | F::SOF_TIMESTAMPING_OPT_ID
        | F::SOF_TIMESTAMPING_OPT_TSONLY
}

/// The sending half of an [`AnsweringSocket`]. Answers to one batch of requests leave together.
pub struct Answers<K> {
    outbox: Outbox,
    /// By place in the outbox: which answer its stamp is of, where it is to be stamped.
    which: Vec<Option<K>>,
    departures: Departures<K>,
    counters: Arc<Counters>,
    /// Answers need not be told where they leave from: the socket has one address.
    bound: bool,
    stamps: bool,
    /// What is known of stamped answers, until [`AnsweringSocket::take_stamps`] hands it over.
    left: Vec<Left<K>>,
}

impl<K: Copy> Answers<K> {
    /// Has `answer` sent with the rest of the batch, which has room for one answer and what follows it.
    pub fn push(&mut self, answer: &[u8], to: SocketAddr, from: Option<LocalAddress>, dscp: u8) {
        self.add(answer, to, from, dscp, None);
    }

    /// The same; [`AnsweringSocket::take_stamps`] will tell when it left.
    pub fn push_stamped(
        &mut self,
        answer: &[u8],
        to: SocketAddr,
        from: Option<LocalAddress>,
        dscp: u8,
        which: K,
    ) {
        self.add(answer, to, from, dscp, Some(which));
    }

    fn add(&mut self, answer: &[u8], to: SocketAddr, from: Option<LocalAddress>, dscp: u8, which: Option<K>) {
        let leave = SendOptions {
            class: dscp << 2,
            stamped: which.is_some() && self.stamps,
            // LaTe's raw clients, known by their port, read whole frames and drop those whose checksum was left to
            // an adapter that is not there.
            summed: to.port() == lamp::RAW_PORT,
        };
        self.outbox.push(answer, to, from.filter(|_| !self.bound), leave);
        self.which.push(which);
    }

    /// Notes that a request is not answered.
    pub fn silent(&self, why: Silence) {
        self.counters.silent(why);
    }

    fn flush(&mut self, socket: &UdpSocket) {
        if self.outbox.is_empty() {
            return;
        }
        let stamped = self.which.iter().any(Option::is_some);
        let reading = if stamped { clock::wall() } else { WallTime(0) };
        let mut sent = 0;
        while let Some(handed_over) = self.outbox.send_next(socket.as_fd()) {
            match handed_over {
                Ok(places) => {
                    sent += places.len() as u64;
                    for which in self.which[places].iter().flatten() {
                        if self.stamps {
                            self.departures.sent(*which, reading);
                        } else {
                            self.left.push(Left { which: *which, at: None });
                        }
                    }
                }
                // A request without an answer is lost, as on any path.
                Err(place) => {
                    if let Some(which) = self.which[place] {
                        self.left.push(Left { which, at: None });
                        self.restart(socket);
                    }
                }
            }
        }
        self.outbox.clear();
        self.which.clear();
        self.counters.answered(sent);
    }

    /// An answer that was to be stamped could not be sent: the kernel may or may not have counted it.
    fn restart(&mut self, socket: &UdpSocket) {
        if self.stamps {
            let left = &mut self.left;
            let restarted = self.departures.restart(socket, stamping(), |which, stamp| {
                left.push(Left { which, at: stamp.map(|s| s.at) });
            });
            self.stamps = restarted.is_ok();
        }
    }
}
