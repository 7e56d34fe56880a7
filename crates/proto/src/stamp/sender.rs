//! The session sender (RFC 8762 §4.2): creates requests of STAMP or TWAMP Light, and parses the answers.

use crate::stamp::auth::StampKey;
use crate::stamp::packet::{StampAnswer, StampLayout, StampRequest, is_answer};
use crate::stamp::tlv::{self, ClassOfService, DirectMeasurement, EcnReply, FollowUpTelemetry};
use crate::twoway::{DatagramKind, DepartureNotice, Protocol, Reply, ReplyMarks};
use jitlat_core::ntp::ErrorEstimate;
use jitlat_core::{EcnMarking, Span, Stamp, StampSource, WallTime};
use std::collections::BTreeMap;

/// Settings of a sender.
#[derive(Clone, Debug)]
pub struct StampOptions {
    /// Length of a request in bytes. It is increased if base packet and extensions need more.
    pub size: usize,
    /// True to allow requests of 14 to 43 bytes (TWAMP Light), which are shorter than those of STAMP.
    pub light: bool,
    /// Session identifier.
    pub ssid: u16,
    /// Key of the authenticated mode; only answers authenticated with it are accepted. `None`:
    /// unauthenticated mode.
    pub key: Option<StampKey>,
    /// Error estimate of this host's clock, which also determines the format of times.
    pub error: ErrorEstimate,
    /// DSCP that answers should have; also requests a report of the requests' DSCP on arrival. `None`:
    /// neither.
    pub class_of_service: Option<u8>,
    /// Marks of the requests. If they are on, answers should have the same marks, and a report of the requests' marks on
    /// arrival is requested.
    pub marking: EcnMarking,
    /// True to request the reflector's packet counts.
    pub direct_measurement: bool,
    /// True to request the actual departure time of the previous answer.
    pub follow_up: bool,
    /// True to request the source of the reflector's timestamps.
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
            marking: EcnMarking::Off,
            direct_measurement: false,
            follow_up: false,
            timestamp_info: false,
        }
    }
}

/// Creates requests and parses answers.
#[derive(Clone, Debug)]
pub struct StampSender {
    options: StampOptions,
    layout: StampLayout,
    size: usize,
    fixed_tlvs: Vec<u8>,
    /// DSCP of the last answered request on arrival; `None` if unknown.
    far_dscp: Option<u8>,
    marks: RequestMarks,
    counters: Option<DirectMeasurement>,
    last: Option<Last>,
    lag: FollowUpLag,
    far_stamps: Option<[u8; 4]>,
}

/// Facts about the last answer.
#[derive(Clone, Copy, Debug)]
struct Last {
    /// Number of the request.
    asked: u32,
    /// Number of the answer.
    seq: u32,
    /// Transmit time stated in the answer.
    stated: WallTime,
}

/// DSCP and ECN fields of requests on arrival at the reflector: each value with the number of answers that report it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestMarks {
    /// DSCP.
    pub dscp: BTreeMap<u8, u64>,
    /// ECN field.
    pub ecn: BTreeMap<u8, u64>,
    /// Number of answers for which the reflector's policy refused the requested DSCP.
    pub refused: u64,
    /// Number of answers that the reflector could not send with the requested ECN field.
    pub unmarked: u64,
    /// Number of answers that do not state whether they have the requested ECN field.
    pub without_ecn: u64,
}

impl RequestMarks {
    fn add(&mut self, cos: ClassOfService) {
        *self.dscp.entry(cos.received).or_default() += 1;
        *self.ecn.entry(cos.ecn.bits()).or_default() += 1;
        self.unmarked += u64::from(cos.ecn_reply == EcnReply::Unable);
        self.without_ecn += u64::from(cos.answer_mark().is_none());
        self.refused += u64::from(cos.refused != 0);
    }
}

/// Maximum plausible time between a reported departure and the transmit time in the answer; larger values are
/// ignored.
const MAX_DEPARTURE_DIFFERENCE: Span = Span::seconds(1);

/// Statistics of the time from the transmit time in an answer to its actual departure, which the follow-up extension
/// reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FollowUpLag {
    /// Number of answers whose actual departure is known.
    pub known: u64,
    /// Sum of the times over these answers.
    pub sum: Span,
    /// Largest value.
    pub largest: Span,
}

impl StampSender {
    /// Creates a sender.
    pub fn new(options: StampOptions) -> StampSender {
        let layout = if options.key.is_some() { StampLayout::Keyed } else { StampLayout::Clear };
        let mut fixed_tlvs = Vec::new();
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
            marks: RequestMarks::default(),
            counters: None,
            last: None,
            lag: FollowUpLag::default(),
            far_stamps: None,
        }
    }

    /// Returns the length of a request, in bytes.
    pub fn size(&self) -> usize {
        let mut probe = Vec::new();
        self.clone().request(0, false, WallTime(0), &mut probe);
        probe.len()
    }

    /// Returns the DSCP of the last answered request on arrival; `None` if the reflector did not report it.
    pub fn far_dscp(&self) -> Option<u8> {
        self.far_dscp
    }

    /// Returns the DSCP and ECN fields of requests on arrival; empty if the reflector did not report them.
    pub fn marks(&self) -> &RequestMarks {
        &self.marks
    }

    /// Returns the reflector's packet counts; `None` if it did not report them.
    pub fn counters(&self) -> Option<DirectMeasurement> {
        self.counters
    }

    /// Returns statistics of the time from transmit time to actual departure, over the answers whose departure the
    /// reflector reported.
    pub fn lag(&self) -> FollowUpLag {
        self.lag
    }

    /// Returns the source of the reflector's timestamps: synchronisation source and method for reception,
    /// then for transmission (RFC 8972 §4.3). `None` if not reported.
    pub fn far_stamps(&self) -> Option<[u8; 4]> {
        self.far_stamps
    }

    /// Parses an answer that was truncated to the length of its request, and whose error estimate therefore does not
    /// describe the reflector's clock. The answer's number is that of the request, or the reflector's own.
    fn truncated(&self, datagram: &[u8]) -> DatagramKind {
        let short = |bytes: usize| bytes < self.layout.least_answer();
        let fields =
            StampRequest::parse(self.layout, datagram).filter(|_| short(self.size) && short(datagram.len()));
        match fields {
            // This is the sender's own request, returned.
            Some(fields) if fields.error == self.options.error => DatagramKind::Foreign,
            Some(fields) => DatagramKind::Reply(Reply {
                seq: fields.seq,
                seq_bits: 32,
                arrived: None,
                answered: None,
                far_seq: None,
                damaged: !fields.error.is_valid(),
                earlier: None,
                marks: ReplyMarks::default(),
            }),
            None => DatagramKind::Malformed,
        }
    }

    /// Returns the departure time of the previous answer; `None` if not reported.
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
        // Methods in RFC 8972 §4.3: by the adapter, by software at departure, in the control plane.
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
        let mut tlvs = Vec::new();
        let StampOptions { class_of_service, marking, .. } = self.options;
        if class_of_service.is_some() || marking.is_on() {
            let wanted = class_of_service.unwrap_or(0);
            let cos =
                ClassOfService { wanted, wanted_ecn: marking.of(seq.into()), ..ClassOfService::default() };
            tlv::push(&mut tlvs, tlv::kind::CLASS_OF_SERVICE, &cos.to_bytes());
        }
        tlvs.extend_from_slice(&self.fixed_tlvs);
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
        // The remaining bytes become a padding extension, for which one to three bytes are too short; these
        // are omitted.
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
            // This is not an answer to a request of this sender: it is the sender's own request, returned, or
            // an answer to another sender.
            return if is_answer(self.layout, datagram) {
                DatagramKind::Malformed
            } else {
                DatagramKind::Foreign
            };
        }
        let tail = datagram.get(self.layout.base()..).unwrap_or_default();
        let mut earlier = None;
        let mut marks = None;
        for step in tlv::Tlvs::new(tail) {
            let tlv::TlvStep::Whole(_, t) = step else { break };
            match t.kind {
                _ if t.flags & (tlv::flag::UNRECOGNISED | tlv::flag::MALFORMED) != 0 => {}
                tlv::kind::CLASS_OF_SERVICE => {
                    if let Some(cos) = ClassOfService::parse(t.value) {
                        self.far_dscp = Some(cos.received);
                        // A datagram counts once, whatever number of these TLVs it has.
                        if marks.is_none() {
                            self.marks.add(cos);
                        }
                        marks = Some(cos);
                    }
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
            marks: marks.map_or_else(ReplyMarks::default, |cos| ReplyMarks {
                request: Some(cos.ecn),
                answer: cos.answer_mark(),
            }),
        })
    }
}

/// Padding consists of zeros, because a reflector may interpret other values as a session identifier (see
/// docs/protocols).
static ZEROS: [u8; 65_507] = [0; 65_507];
