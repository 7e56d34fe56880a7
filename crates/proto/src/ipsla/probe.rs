//! Probes and their answers. An answer has the length of its request.

use super::{put, u16_at, u32_at, u64_at};
use crate::twoway::Silence;
use jitlat_core::ntp::{ErrorEstimate, TimeFormat};
use jitlat_core::time::SECOND;
use jitlat_core::{Span, WallTime};

/// Layout of probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeForm {
    /// Type 1 of version 1: UDP echo, returned unchanged.
    Echo,
    /// Type 2 of version 1: times in whole milliseconds since midnight UTC.
    Milliseconds,
    /// Type 3 of version 1 (`precision microseconds`): NTP times.
    Microseconds,
    /// Probes of version 2 (RFC 6812 §3.2), with times in this format.
    V2(TimeFormat),
}

/// Resolution of times in whole milliseconds.
pub const MILLISECOND: Span = Span::millis(1);
const NS_PER_MS: i64 = 1_000_000;
/// Milliseconds per day.
const DAY: i64 = 86_400_000;
/// Content of a probe beyond its fields, as Cisco devices fill it.
const FILL: [u8; 2] = [0xab, 0xcd];

/// Contents of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeAnswer {
    /// Number of the request from 0, with as many bits as [`ProbeForm::seq_bits`].
    pub seq: u32,
    /// Responder's own number of the answer, from 1, with as many bits; `None` in an echo.
    pub number: Option<u32>,
    /// Times at which the request arrived and the answer left; `None` in an echo. Times in whole milliseconds are the middle of
    /// the millisecond if both are the same; otherwise the end of the earlier and the beginning of the later millisecond.
    pub times: Option<(WallTime, WallTime)>,
}

impl ProbeForm {
    /// Returns the form of a probe of version 1; `None` if its type is unknown.
    pub fn of_v1(probe: &[u8]) -> Option<ProbeForm> {
        let forms = [ProbeForm::Echo, ProbeForm::Milliseconds, ProbeForm::Microseconds];
        let kind = u16_at(probe, 0)?;
        forms.into_iter().find(|form| form.kind() == kind)
    }

    fn kind(self) -> u16 {
        match self {
            ProbeForm::Echo => 1,
            ProbeForm::Milliseconds => 2,
            ProbeForm::Microseconds | ProbeForm::V2(_) => 3,
        }
    }

    /// Returns the length of the shortest probe, in bytes.
    pub fn shortest(self) -> usize {
        match self {
            ProbeForm::Echo | ProbeForm::Milliseconds => 16,
            ProbeForm::Microseconds | ProbeForm::V2(_) => 60,
        }
    }

    /// Returns the usual length of a probe, in bytes.
    pub fn usual(self) -> usize {
        match self {
            ProbeForm::Echo => 16,
            ProbeForm::Milliseconds => 32,
            ProbeForm::Microseconds => 68,
            // The RFC recommends at least 64 bytes of data.
            ProbeForm::V2(_) => 124,
        }
    }

    /// Returns the number of bits of sequence numbers.
    pub fn seq_bits(self) -> u8 {
        match self {
            ProbeForm::Milliseconds | ProbeForm::Microseconds => 16,
            ProbeForm::Echo | ProbeForm::V2(_) => 32,
        }
    }

    /// True if answers contain times of the responder.
    pub fn has_times(self) -> bool {
        self != ProbeForm::Echo
    }

    /// Returns the resolution of the responder's times; `None` if it is finer than any delay.
    pub fn resolution(self) -> Option<Span> {
        (self == ProbeForm::Milliseconds).then_some(MILLISECOND)
    }

    fn estimate(self) -> ErrorEstimate {
        let format = if let ProbeForm::V2(format) = self { format } else { TimeFormat::Ntp };
        ErrorEstimate::UNKNOWN.with_format(format)
    }

    /// Appends probe `seq` (from 0), sent at `sent`, of `size` bytes or the shortest length.
    pub fn write(self, seq: u32, sent: WallTime, size: usize, out: &mut Vec<u8>) {
        let start = out.len();
        let number = seq.wrapping_add(1);
        out.extend(FILL.iter().cycle().take(size.max(self.shortest())));
        let packet = &mut out[start..];
        let fields = match self {
            // An echo has no field for a number, so the number is put at the beginning of the data, which is returned.
            ProbeForm::Echo => 4,
            ProbeForm::Milliseconds => 16,
            ProbeForm::Microseconds => 56,
            ProbeForm::V2(_) => 60,
        };
        packet[..fields].fill(0);
        put(packet, 0, &self.kind().to_be_bytes());
        match self {
            ProbeForm::Echo => put(packet, 4, &number.to_be_bytes()),
            ProbeForm::Milliseconds => {
                put(packet, 4, &since_midnight(sent).to_be_bytes());
                put(packet, 12, &(number as u16).to_be_bytes());
            }
            ProbeForm::Microseconds => {
                put(packet, 4, &self.estimate().encode(sent).to_be_bytes());
                put(packet, 52, &(number as u16).to_be_bytes());
            }
            ProbeForm::V2(_) => {
                put(packet, 4, &self.estimate().encode(sent).to_be_bytes());
                put(packet, 52, &number.to_be_bytes());
            }
        }
    }

    /// Returns the number in a request of this form, for [`ProbeForm::Echo`] the beginning of its data.
    ///
    /// # Errors
    /// [`Silence`] if it is not a request: too short, of another type, or an answer of another responder.
    pub fn read(self, request: &[u8]) -> Result<u32, Silence> {
        if u16_at(request, 0) != Some(self.kind()) {
            return Err(Silence::Foreign);
        }
        if request.len() < self.shortest() {
            return Err(Silence::Short);
        }
        let (number, is_answer) = match self {
            ProbeForm::Echo => (u32_at(request, 4), false),
            ProbeForm::Milliseconds => (
                u16_at(request, 12).map(u32::from),
                u32_at(request, 8) != Some(0) || u16_at(request, 14) != Some(0),
            ),
            ProbeForm::Microseconds => (
                u16_at(request, 52).map(u32::from),
                u64_at(request, 20) != Some(0) || u16_at(request, 54) != Some(0),
            ),
            ProbeForm::V2(_) => (u32_at(request, 52), u64_at(request, 20) != Some(0)),
        };
        // If answers were answered, one forged packet could make two responders answer each other.
        if is_answer {
            return Err(Silence::Loop);
        }
        number.ok_or(Silence::Short)
    }

    /// Appends the answer to a `request` that was [read](Self::read), received and answered at `times`; `number` is the
    /// responder's number of the answer, from 1.
    pub fn answer(self, request: &[u8], times: (WallTime, WallTime), number: u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend(request);
        let packet = &mut out[start..];
        let (received, sent) = times;
        let encode = |time| self.estimate().encode(time).to_be_bytes();
        match self {
            ProbeForm::Echo => {}
            ProbeForm::Milliseconds => {
                let held = whole_millis(sent) - whole_millis(received);
                put(packet, 2, &u16::try_from(held.max(0)).unwrap_or(u16::MAX).to_be_bytes());
                put(packet, 8, &since_midnight(received).to_be_bytes());
                put(packet, 14, &(number as u16).to_be_bytes());
            }
            ProbeForm::Microseconds | ProbeForm::V2(_) => {
                put(packet, 12, &encode(received));
                put(packet, 20, &encode(sent));
                match self {
                    ProbeForm::Microseconds => put(packet, 54, &(number as u16).to_be_bytes()),
                    _ => put(packet, 56, &number.to_be_bytes()),
                }
            }
        }
    }

    /// Parses an answer that arrived at about `near`; `None` if it is not one.
    pub fn parse(self, answer: &[u8], near: WallTime) -> Option<ProbeAnswer> {
        if u16_at(answer, 0)? != self.kind() || answer.len() < self.shortest() {
            return None;
        }
        let (number, own) = match self {
            ProbeForm::Echo => (u32_at(answer, 4)?, None),
            ProbeForm::Milliseconds => (u16_at(answer, 12)?.into(), Some(u16_at(answer, 14)?.into())),
            ProbeForm::Microseconds => (u16_at(answer, 52)?.into(), Some(u16_at(answer, 54)?.into())),
            ProbeForm::V2(_) => (u32_at(answer, 52)?, Some(u32_at(answer, 56)?)),
        };
        let times = match self {
            ProbeForm::Echo => None,
            ProbeForm::Milliseconds => {
                let received = middle_of(u32_at(answer, 8)?, near)?;
                Some(times_of(received, Span::millis(u16_at(answer, 2)?.into())))
            }
            ProbeForm::Microseconds | ProbeForm::V2(_) => {
                let time = |at| self.estimate().decode(u64_at(answer, at)?, near);
                Some((time(12)?, time(20)?))
            }
        };
        let seq = number.wrapping_sub(1);
        let seq = if self.seq_bits() == 16 { u32::from(seq as u16) } else { seq };
        Some(ProbeAnswer { seq, number: own, times })
    }
}

/// Returns the times at which a request was received and answered. `received` is the middle of the millisecond in which it
/// was received, and `held` the hold time in whole milliseconds. A `held` of 1 ms can also mean that a request was answered
/// at once, across the boundary between two milliseconds. The times are therefore chosen so that the hold time between them
/// is the minimum that `held` proves, and round trips are not shortened by more.
fn times_of(received: WallTime, held: Span) -> (WallTime, WallTime) {
    if held < MILLISECOND {
        return (received, received);
    }
    let half = Span(MILLISECOND.0 / 2);
    (received + half, received + held - half)
}

fn whole_millis(time: WallTime) -> i64 {
    time.0.div_euclid(NS_PER_MS)
}

/// Returns the whole milliseconds since midnight UTC.
fn since_midnight(time: WallTime) -> u32 {
    whole_millis(time).rem_euclid(DAY) as u32
}

/// Returns the middle of the millisecond `since_midnight` of the day that makes it nearest to `near`; `None` if no day
/// has this many.
fn middle_of(since_midnight: u32, near: WallTime) -> Option<WallTime> {
    let near = whole_millis(near);
    let ahead = (i64::from(since_midnight) - near).rem_euclid(DAY);
    let ahead = if ahead > DAY / 2 { ahead - DAY } else { ahead };
    let time = near.checked_add(ahead)?.checked_mul(NS_PER_MS)?.checked_add(NS_PER_MS / 2)?;
    (i64::from(since_midnight) < DAY).then_some(WallTime(time))
}

const _: () = assert!(DAY * NS_PER_MS == 86_400 * SECOND);
