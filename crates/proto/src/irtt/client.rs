//! [`Client`]: opens and closes a session, and creates its requests.

use super::fill::{Fill, Filler};
use super::packet::{
    self, EchoFields, EchoLayout, IrttKey, IrttPacket, IrttPacketError, ServerInstant, flag,
};
use super::params::{IrttParams, ReceiveStats, ServerClocks, StampAt, VERSION};
use crate::machine::Tick;
use crate::twoway::{ConversationState, DatagramKind, Protocol, Reply, ReplyMarks};
use jitlat_core::spec::MAX_PAYLOAD;
use jitlat_core::{Span, SteadyTime, TestSpec, WallTime};

/// Timeouts of successive open requests, as in irtt.
pub(crate) const OPEN_TIMEOUTS: [Span; 4] =
    [Span::seconds(1), Span::seconds(2), Span::seconds(4), Span::seconds(8)];

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct IrttOptions {
    /// HMAC key; only packets with a valid HMAC are accepted. `None`: no HMAC.
    pub key: Option<IrttKey>,
    /// Parameters to request.
    pub params: IrttParams,
    /// True to accept any parameters that the server grants.
    pub loose: bool,
    /// Padding of requests.
    pub fill: Fill,
    /// Seed of random padding.
    pub seed: u64,
    /// True to pad the open request to the length of its answer. Servers that never send more bytes than they
    /// have received can then answer at once.
    pub padded: bool,
    /// Timeouts of successive open requests.
    pub open_timeouts: Vec<Span>,
}

impl IrttOptions {
    /// Returns settings for a test of this duration and interval, with all server statistics, which is irtt's
    /// default.
    pub fn new(duration: Span, interval: Span) -> IrttOptions {
        IrttOptions {
            key: None,
            params: IrttParams {
                version: VERSION,
                duration,
                interval,
                stats: ReceiveStats::Both,
                stamp_at: StampAt::Both,
                clocks: ServerClocks::Both,
                ..IrttParams::default()
            },
            loose: false,
            fill: Fill::None,
            seed: 0,
            padded: true,
            open_timeouts: OPEN_TIMEOUTS.to_vec(),
        }
    }
}

/// Reason why a test cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IrttFailure {
    /// No open request was answered.
    #[error(
        "no irtt server answered {0} requests to open a session: is one running there (`jitlat serve`, `irtt server`), \
         does it require a key (or another one), and does the firewall allow UDP?"
    )]
    Silent(usize),
    /// The server granted different parameters.
    #[error("the server restricts the test: {}; request these values, or accept what it grants with --loose", .0.join(", "))]
    Restricted(Vec<String>),
    /// The server speaks another version.
    #[error("the server speaks version {0} of the protocol, not 1")]
    Version(i64),
    /// The server refused to open a session.
    #[error("the server refused to open a session for this test")]
    Closed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum IrttClientState {
    /// Open requests are being sent: `sent` so far. At the time `due`, the next one is sent or the client gives up.
    Opening {
        sent: usize,
        due: Option<SteadyTime>,
    },
    Open,
    Failed(IrttFailure),
}

/// Client of one session.
#[derive(Clone, Debug)]
pub struct Client {
    options: IrttOptions,
    state: IrttClientState,
    token: u64,
    granted: IrttParams,
    layout: EchoLayout,
    /// Layout for servers that write both clocks of a midpoint although only one was negotiated; `None` if it
    /// does not apply.
    odd_layout: Option<EchoLayout>,
    filler: Filler,
    /// Latest receive window; `None` if no answer has contained one yet.
    window: Option<u64>,
    /// True once the server has ended the session.
    ended: bool,
}

impl Client {
    /// Creates a client that requests its session when it is first polled.
    pub fn new(options: IrttOptions) -> Client {
        Client {
            state: IrttClientState::Opening { sent: 0, due: None },
            token: 0,
            granted: IrttParams::default(),
            layout: EchoLayout::new(&options.params),
            odd_layout: None,
            filler: Filler::new(options.fill.clone(), options.seed),
            window: None,
            ended: false,
            options,
        }
    }

    /// Returns the granted parameters; all zero until they are granted.
    pub fn granted(&self) -> &IrttParams {
        &self.granted
    }

    /// Returns the length of a request, in bytes.
    pub fn size(&self) -> usize {
        let length = usize::try_from(self.granted.length).unwrap_or(0);
        self.layout.packet_len(self.options.key.as_ref()).max(length)
    }

    /// True if the server's duration limit ended the session before the test was complete.
    pub fn was_ended(&self) -> bool {
        self.ended
    }

    /// Returns the reason why the test could not run; `None` if it could.
    pub fn failure(&self) -> Option<&IrttFailure> {
        match &self.state {
            IrttClientState::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// Handles the answer to an open request.
    fn opened(&mut self, packet: &IrttPacket<'_>) -> DatagramKind {
        let Some((token, rest)) = packet.token() else { return DatagramKind::Malformed };
        let IrttClientState::Opening { sent: 1.., .. } = self.state else {
            // This answers a repeated open request, although the first one was answered, too, but late. It
            // belongs to a second session, which is not used.
            return DatagramKind::Conversation;
        };
        let Ok(granted) = IrttParams::parse(rest) else { return DatagramKind::Malformed };
        if granted.length > MAX_PAYLOAD.into() {
            // Requests would have this length, which exceeds the maximum length of a datagram.
            return DatagramKind::Malformed;
        }
        let restrictions = granted.restrictions(&self.options.params);
        self.token = token;
        self.layout = EchoLayout::new(&granted);
        self.odd_layout = EchoLayout::with_both_midpoints(&granted);
        self.state = if granted.version != VERSION {
            IrttClientState::Failed(IrttFailure::Version(granted.version))
        } else if packet.flags & flag::CLOSE != 0 || token == 0 {
            IrttClientState::Failed(IrttFailure::Closed)
        } else if restrictions.is_empty() || self.options.loose {
            IrttClientState::Open
        } else {
            IrttClientState::Failed(IrttFailure::Restricted(restrictions))
        };
        self.granted = granted;
        DatagramKind::Conversation
    }

    /// Handles the answer to a request.
    fn answered(&mut self, packet: &IrttPacket<'_>, near: WallTime, len: usize) -> DatagramKind {
        let Some((token, body)) = packet.token() else { return DatagramKind::Malformed };
        if token != self.token || self.state != IrttClientState::Open {
            return DatagramKind::Foreign;
        }
        // Only a midpoint with both clocks explains this length.
        let odd = self.odd_layout.as_ref().filter(|odd| len == self.size() + odd.len() - self.layout.len());
        let Some(mut echo) = odd.unwrap_or(&self.layout).read(body) else { return DatagramKind::Malformed };
        if odd.is_none() {
            detect_wall_time(&mut echo, near);
        }
        if packet.flags & flag::CLOSE != 0 {
            self.ended = true;
        }
        let (arrived, answered) = match self.granted.stamp_at {
            StampAt::Midpoint => (echo.midpoint, echo.midpoint),
            _ => (echo.received, echo.sent),
        };
        let (arrived, answered) = times(arrived, answered, near);
        // Bit 0 stands for the request itself; without it, the server has no window.
        self.window = Some(echo.window).filter(|window| window & 1 != 0);
        DatagramKind::Reply(Reply {
            seq: echo.seq,
            // irtt writes the whole sequence number.
            seq_bits: 32,
            arrived,
            answered,
            // Answers are numbered from 1.
            far_seq: self.granted.stats.has_count().then(|| echo.count.wrapping_sub(1)),
            damaged: len < self.size(),
            earlier: None,
            marks: ReplyMarks::default(),
        })
    }
}

/// Returns the wall times of an answer. If the server read only its monotonic clock, the difference of the
/// times is correct but the times are not: they give the server's processing time, but no one-way delays.
fn times(
    arrived: ServerInstant,
    answered: ServerInstant,
    near: WallTime,
) -> (Option<WallTime>, Option<WallTime>) {
    match (arrived.wall, answered.wall, arrived.monotonic, answered.monotonic) {
        // Only the difference of these times is meaningful.
        (None, None, Some(arrived), Some(answered)) => {
            (Some(near - Span(answered.saturating_sub(arrived).max(0))), Some(near))
        }
        (arrived, answered, ..) => (arrived.map(WallTime), answered.map(WallTime)),
    }
}

/// Detects wall-clock times in the field of the monotonic clock: irtt's server writes both clocks of a
/// midpoint even if only one was negotiated, and the length does not always show it. A monotonic time never
/// exceeds fifty years, but a wall-clock time does.
fn detect_wall_time(echo: &mut EchoFields, near: WallTime) {
    let midpoint = &mut echo.midpoint;
    if let (None, Some(time)) = (midpoint.wall, midpoint.monotonic)
        && (WallTime(time) - near).0.unsigned_abs() < 1 << 60
    {
        *midpoint = ServerInstant { wall: Some(time), monotonic: None };
    }
}

impl Protocol for Client {
    fn request(&mut self, seq: u32, _last: bool, _sent: WallTime, out: &mut Vec<u8>) {
        let start = out.len();
        let key = self.options.key.as_ref();
        packet::begin(0, key, out);
        out.extend(self.token.to_le_bytes());
        // Reserves space for the fields of the answer.
        self.layout.write(&EchoFields { seq, ..EchoFields::default() }, out);
        let fields = out.len();
        out.resize(start + self.size(), 0);
        self.filler.fill(&mut out[fields..]);
        packet::sign(self.options.key.as_ref(), &mut out[start..]);
    }

    fn receive(&mut self, datagram: &[u8], near: WallTime) -> DatagramKind {
        let packet = match IrttPacket::parse(datagram, self.options.key.as_ref()) {
            Ok(packet) => packet,
            Err(IrttPacketError::Foreign) => return DatagramKind::Foreign,
            Err(IrttPacketError::Forged) => return DatagramKind::Forged,
        };
        match packet.flags & (flag::OPEN | flag::REPLY) {
            // The packet is this client's own request, returned, or a request of another client.
            flags if flags & flag::REPLY == 0 => DatagramKind::Malformed,
            flag::REPLY => self.answered(&packet, near, datagram.len()),
            _ => self.opened(&packet),
        }
    }

    fn poll_conversation(&mut self, now: Tick, out: &mut Vec<u8>) -> bool {
        let key = self.options.key.as_ref();
        let start = out.len();
        match &mut self.state {
            IrttClientState::Opening { sent, due } if due.is_none_or(|due| now.steady >= due) => {
                let Some(wait) = self.options.open_timeouts.get(*sent) else { return false };
                *sent += 1;
                *due = Some(now.steady + *wait);
                packet::begin(flag::OPEN, key, out);
                if self.options.padded {
                    self.options.params.write_padded(out);
                } else {
                    self.options.params.write(out);
                }
            }
            _ => return false,
        }
        packet::sign(self.options.key.as_ref(), &mut out[start..]);
        true
    }

    fn poll_farewell(&mut self, out: &mut Vec<u8>) -> bool {
        // An opened session is closed even if it was not used, unless the server has already ended it.
        if self.token == 0 || self.ended {
            return false;
        }
        let start = out.len();
        packet::begin(flag::CLOSE, self.options.key.as_ref(), out);
        out.extend(core::mem::take(&mut self.token).to_le_bytes());
        packet::sign(self.options.key.as_ref(), &mut out[start..]);
        true
    }

    fn conversation_timeout(&self) -> Option<SteadyTime> {
        match &self.state {
            IrttClientState::Opening { due, .. } => Some(due.unwrap_or(SteadyTime(i64::MIN))),
            _ => None,
        }
    }

    fn conversation_state(&mut self, now: SteadyTime) -> ConversationState {
        let waits = self.options.open_timeouts.len();
        if let IrttClientState::Opening { sent, due } = self.state
            && sent >= waits
            && due.is_none_or(|due| now >= due)
        {
            self.state = IrttClientState::Failed(IrttFailure::Silent(waits));
        }
        match &self.state {
            IrttClientState::Opening { .. } => ConversationState::Opening,
            IrttClientState::Open if self.ended => ConversationState::Over,
            IrttClientState::Open => ConversationState::Ready,
            IrttClientState::Failed(failure) => ConversationState::Failed(failure.to_string()),
        }
    }

    fn granted_test(&self, planned: &TestSpec) -> Option<TestSpec> {
        let (asked, granted) = (&self.options.params, &self.granted);
        let period = if granted.interval > asked.interval { granted.interval } else { planned.period() };
        let shorter = granted.duration > Span::ZERO && granted.duration < asked.duration;
        // Like irtt, sends no request at or after the end of the duration.
        let within = u64::try_from((granted.duration.0 - 1) / period.0.max(1) + 1).unwrap_or(0);
        let packets = if shorter { within.min(planned.packets().into()) } else { planned.packets().into() };
        let size = self.size() as u64;
        if (period, packets, size)
            == (planned.period(), planned.packets().into(), u64::from(planned.payload()))
        {
            return None;
        }
        let (direction, transport, schedule) = (planned.direction(), planned.transport(), planned.schedule());
        let mut spec = TestSpec::new(direction, transport, packets.max(1), size, period, schedule).ok()?;
        spec.dscp = planned.dscp;
        Some(spec)
    }

    fn far_clock(&self) -> bool {
        self.granted.stamp_at != StampAt::None && self.granted.clocks.has_wall()
    }

    fn counts_answers(&self) -> bool {
        self.options.params.stats.has_count()
    }

    fn far_window(&self) -> Option<u64> {
        self.window
    }
}

#[cfg(test)]
impl Client {
    pub(super) fn options_fill(&self) -> &Fill {
        &self.options.fill
    }

    pub(super) fn token(&self) -> u64 {
        self.token
    }

    pub(super) fn layout(&self) -> &EchoLayout {
        &self.layout
    }
}
