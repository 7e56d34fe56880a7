//! The session sender (RFC 8762 §4.2): makes requests of STAMP or TWAMP Light, and parses their answers.

use crate::stamp::auth::StampKey;
use crate::stamp::packet::{StampAnswer, StampLayout, StampRequest, is_answer};
use crate::stamp::tlv::{self, ClassOfService, DirectMeasurement, FollowUpTelemetry};
use crate::twoway::{DatagramKind, DepartureNotice, Protocol, Reply};
use jitlat_core::ntp::ErrorEstimate;
use jitlat_core::{Span, Stamp, StampSource, WallTime};

/// StampOptions of a sender.
#[derive(Clone, Debug)]
pub struct StampOptions {
    /// Bytes of a request; increased to the size that the base packet and the extensions need.
    pub size: usize,
    /// Requests shorter than STAMP's 44 bytes, 14 at least, are allowed (TWAMP Light).
    pub light: bool,
    /// Session identifier.
    pub ssid: u16,
    /// Sign requests and accept only signed answers.
    pub key: Option<StampKey>,
    /// State of this host's clock, and the format of its times.
    pub error: ErrorEstimate,
    /// Request the DSCP at the far end, and this one on answers; `None`: do not.
    pub class_of_service: Option<u8>,
    /// Request the far host's packet counts.
    pub direct_measurement: bool,
    /// Request the time at which the previous answer really left.
    pub follow_up: bool,
    /// Request the source of the far host's stamps.
    pub timestamp_info: bool,
}

impl Default for StampOptions {
    fn default() -> StampOptions {
        StampOptions {
            size: StampLayout::Clear.base(),
            light: false,
            ssid: 0,
            key: None,
            error: ErrorEstimate::UNKNOWN,
            class_of_service: None,
            direct_measurement: false,
            follow_up: false,
            timestamp_info: false,
        }
    }
}

/// Makes requests and parses answers.
#[derive(Clone, Debug)]
pub struct StampSender {
    options: StampOptions,
    layout: StampLayout,
    size: usize,
    fixed_tlvs: Vec<u8>,
    /// DSCP of the last request as the far host received it.
    far_dscp: Option<u8>,
    counters: Option<DirectMeasurement>,
    last: Option<Last>,
    lag: FollowUpLag,
    far_stamps: Option<[u8; 4]>,
}

/// The last answer.
#[derive(Clone, Copy, Debug)]
struct Last {
    /// Number of its request.
    asked: u32,
    /// Its own number.
    seq: u32,
    /// The transmit time in it.
    stated: WallTime,
}

/// A report of a departure further than this from the time in the answer is none.
const MAX_DEPARTURE_DIFFERENCE: Span = Span::seconds(1);

/// How long after their transmit times answers really left, by the follow-up extension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FollowUpLag {
    /// Number of answers for which it is known.
    pub known: u64,
    /// Sum over them.
    pub sum: Span,
    /// The largest.
    pub largest: Span,
}

impl StampSender {
    /// A sender of these requests.
    pub fn new(options: StampOptions) -> StampSender {
        let layout = if options.key.is_some() { StampLayout::Keyed } else { StampLayout::Clear };
        let mut fixed_tlvs = Vec::new();
        if let Some(wanted) = options.class_of_service {
            let cos = ClassOfService { wanted, ..ClassOfService::default() };
            tlv::push(&mut fixed_tlvs, tlv::kind::CLASS_OF_SERVICE, &cos.to_bytes());
        }
        if options.follow_up {
            tlv::push(&mut fixed_tlvs, tlv::kind::FOLLOW_UP, &FollowUpTelemetry::default().to_bytes());
        }
        if options.timestamp_info {
            tlv::push(&mut fixed_tlvs, tlv::kind::TIMESTAMP_INFO, &[0; 4]);
        }
        let size = match options.light {
            true if options.key.is_none() => options.size.max(layout.shortest_request()),
            _ => options.size.max(layout.base()),
        };
        StampSender {
            options,
            layout,
            size,
            fixed_tlvs,
            far_dscp: None,
            counters: None,
            last: None,
            lag: FollowUpLag::default(),
            far_stamps: None,
        }
    }

    /// Bytes of the requests.
    pub fn size(&self) -> usize {
        let mut probe = Vec::new();
        self.clone().request(0, false, WallTime(0), &mut probe);
        probe.len()
    }

    /// DSCP with which the last answered request arrived; `None` if the far host did not report it.
    pub fn far_dscp(&self) -> Option<u8> {
        self.far_dscp
    }

    /// The far host's packet counts; `None` if it did not report them.
    pub fn counters(&self) -> Option<DirectMeasurement> {
        self.counters
    }

    /// How long after their transmit times answers really left, as far as the far host reported it.
    pub fn lag(&self) -> FollowUpLag {
        self.lag
    }

    /// The source of the far host's stamps: synchronisation source and method of receiving, then of sending (RFC 8972
    /// §4.3). `None` if it did not report them.
    pub fn far_stamps(&self) -> Option<[u8; 4]> {
        self.far_stamps
    }

    /// An answer cut to the size of its request: it says when it was sent by a clock of which nothing is known, and is known
    /// by the number of its request, or the reflector's own.
    fn truncated(&self, datagram: &[u8]) -> DatagramKind {
        let short = |bytes: usize| bytes < self.layout.least_answer();
        let fields =
            StampRequest::parse(self.layout, datagram).filter(|_| short(self.size) && short(datagram.len()));
        match fields {
            // Our own request, returned.
            Some(fields) if fields.error == self.options.error => DatagramKind::Foreign,
            Some(fields) => DatagramKind::Reply(Reply {
                seq: fields.seq,
                seq_bits: 32,
                arrived: None,
                answered: None,
                far_seq: None,
                damaged: !fields.error.is_valid(),
                earlier: None,
            }),
            None => DatagramKind::Malformed,
        }
    }

    /// When the answer before this one left.
    fn follow_up(
        &mut self,
        report: FollowUpTelemetry,
        answer: &StampAnswer,
        near: WallTime,
    ) -> Option<DepartureNotice> {
        let last = self.last.filter(|last| report.method != 0 && report.seq == last.seq)?;
        let at = answer.error.decode(report.sent, near)?;
        let lag = at.checked_since(last.stated).filter(|lag| lag.0.abs() <= MAX_DEPARTURE_DIFFERENCE.0)?;
        self.lag.known += 1;
        self.lag.sum = Span(self.lag.sum.0.saturating_add(lag.0));
        self.lag.largest = self.lag.largest.max(lag);
        // RFC 8972 §4.3: by the adapter; by software, where it leaves; in the control plane.
        let source = match report.method {
            1 => StampSource::Hardware,
            2 => StampSource::Kernel,
            _ => StampSource::User,
        };
        Some(DepartureNotice { seq: last.asked, stamp: Stamp { at, source } })
    }
}

impl Protocol for StampSender {
    fn request(&mut self, seq: u32, _last: bool, sent: WallTime, out: &mut Vec<u8>) {
        let start = out.len();
        let base = self.layout.base();
        out.resize(start + self.size.min(base), 0);
        let asked = StampRequest {
            seq,
            sent: self.options.error.encode(sent),
            error: self.options.error,
            ssid: self.options.ssid,
        };
        asked.write(self.layout, &mut out[start..]);
        if let Some(key) = &self.options.key {
            key.sign_base(&mut out[start..]);
        }
        let mut tlvs = self.fixed_tlvs.clone();
        if self.options.direct_measurement {
            let counts =
                DirectMeasurement { sender_sent: seq.wrapping_add(1), ..DirectMeasurement::default() };
            tlv::push(&mut tlvs, tlv::kind::DIRECT_MEASUREMENT, &counts.to_bytes());
        }
        let signature = if self.options.key.is_some() && !tlvs.is_empty() { 20 } else { 0 };
        let room = self.size.saturating_sub(base + tlvs.len() + signature);
        if let Some(key) = self.options.key.as_ref().filter(|_| signature > 0) {
            key.push_tlv(seq, &mut tlvs);
        }
        out.extend(tlvs);
        // The rest becomes a padding extension; one to three bytes cannot, and are omitted.
        if room >= tlv::HEADER_LEN {
            tlv::push(out, tlv::kind::PADDING, &ZEROS[..(room - tlv::HEADER_LEN).min(ZEROS.len())]);
        }
    }

    fn far_clock(&self) -> bool {
        true
    }

    fn may_count(&self) -> bool {
        true
    }

    fn amends(&self) -> bool {
        self.options.follow_up
    }

    fn receive(&mut self, datagram: &[u8], near: WallTime) -> DatagramKind {
        let Some(answer) = StampAnswer::parse(self.layout, datagram) else { return self.truncated(datagram) };
        if let Some(key) = &self.options.key
            && !key.verify_base(datagram)
        {
            return DatagramKind::Forged;
        }
        if answer.sender_error != self.options.error {
            // Not an answer to our request: our own request returned, or another sender's answer.
            return if is_answer(self.layout, datagram) {
                DatagramKind::Malformed
            } else {
                DatagramKind::Foreign
            };
        }
        let tail = datagram.get(self.layout.base()..).unwrap_or_default();
        let mut earlier = None;
        for step in tlv::Tlvs::new(tail) {
            let tlv::TlvStep::Whole(_, t) = step else { break };
            match t.kind {
                _ if t.flags & (tlv::flag::UNRECOGNISED | tlv::flag::MALFORMED) != 0 => {}
                tlv::kind::CLASS_OF_SERVICE => {
                    self.far_dscp = ClassOfService::parse(t.value).map(|c| c.received).or(self.far_dscp);
                }
                tlv::kind::FOLLOW_UP => {
                    if let Some(report) = FollowUpTelemetry::parse(t.value) {
                        earlier = self.follow_up(report, &answer, near).or(earlier);
                    }
                }
                tlv::kind::TIMESTAMP_INFO => self.far_stamps = t.value.first_chunk().copied(),
                tlv::kind::DIRECT_MEASUREMENT => {
                    self.counters = DirectMeasurement::parse(t.value).or(self.counters);
                }
                _ => {}
            }
        }
        let (arrived, answered) =
            (answer.error.decode(answer.arrived, near), answer.error.decode(answer.answered, near));
        self.last = answered.map(|stated| Last { asked: answer.sender_seq, seq: answer.seq, stated });
        DatagramKind::Reply(Reply {
            seq: answer.sender_seq,
            seq_bits: 32,
            arrived,
            answered,
            far_seq: Some(answer.seq),
            damaged: !answer.error.is_valid(),
            earlier,
        })
    }
}

/// Padding is zeros: a reflector may interpret anything else as a session identifier (see the protocol's page).
static ZEROS: [u8; 65_507] = [0; 65_507];
