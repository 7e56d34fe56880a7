//! Fields of FEEDBACK: statistics of a receiver about a running stream, in less than 200 bytes.

use super::fields::{FieldWriter, TaggedField, fields};
use super::messages::required;
use crate::jitlat::flow::FlowId;
use crate::jitlat::message::{DecodeError, Message};
use jitlat_core::Span;
use jitlat_core::so_far::{Latest, ReceivedSoFar};

const NAME: &str = "FEEDBACK";

/// Appends the fields with the statistics of `flow`.
pub(super) fn encode(flow: FlowId, m: &ReceivedSoFar, w: &mut FieldWriter<'_>) {
    w.u8(1, flow.0);
    let counts = [m.received, m.missing, m.duplicates, m.reordered];
    w.bytes(2, counts.map(u64::to_be_bytes).as_flattened());
    w.bytes(3, [m.runs, m.longest].map(u32::to_be_bytes).as_flattened());
    if let Some(silence) = m.silence {
        w.i64(4, silence.0);
    }
    if let Some(jitter) = m.jitter {
        w.i64(5, jitter.0);
    }
    if let Some(delays) = m.delays {
        w.bytes(6, delays.map(i64::to_be_bytes).as_flattened());
    }
    w.u32(7, m.latest.received);
    if let Some(delays) = m.latest.delays {
        w.bytes(8, delays.map(i64::to_be_bytes).as_flattened());
    }
}

/// Parses the fields of a message.
pub(super) fn decode(bytes: &[u8]) -> Result<Message, DecodeError> {
    let (mut flow, mut counts, mut m) = (None, None, ReceivedSoFar::default());
    let mut latest = Latest::default();
    for field in fields(bytes, NAME) {
        let field = field?;
        match field.tag {
            1 => flow = Some(FlowId(field.u8("flow")?)),
            2 => counts = Some(numbers(&field, "counts", u64::from_be_bytes)?),
            3 => [m.runs, m.longest] = numbers(&field, "runs", u32::from_be_bytes)?,
            4 => m.silence = Some(Span(field.i64("silence")?)),
            5 => m.jitter = Some(Span(field.i64("jitter")?)),
            6 => m.delays = Some(ascending(&field, numbers(&field, "delays", i64::from_be_bytes)?)?),
            7 => latest.received = field.u32("packets received lately")?,
            8 => latest.delays = Some(ascending(&field, numbers(&field, "delays", i64::from_be_bytes)?)?),
            _ => {}
        }
    }
    [m.received, m.missing, m.duplicates, m.reordered] = required(counts, NAME, "counts")?;
    m.latest = latest;
    Ok(Message::Feedback(required(flow, NAME, "flow")?, m))
}

/// Returns the value of a field that has exactly `N` numbers of `W` bytes.
fn numbers<T: Copy + Default, const N: usize, const W: usize>(
    field: &TaggedField<'_>,
    what: &'static str,
    read: impl Fn([u8; W]) -> T,
) -> Result<[T; N], DecodeError> {
    let (numbers, rest) = field.value.as_chunks::<W>();
    let numbers: &[[u8; W]; N] = numbers.try_into().map_err(|_| field.bad(what))?;
    if rest.is_empty() { Ok(numbers.map(read)) } else { Err(field.bad(what)) }
}

/// Checks that quantiles do not decrease.
fn ascending<const N: usize>(field: &TaggedField<'_>, values: [i64; N]) -> Result<[i64; N], DecodeError> {
    if values.is_sorted() { Ok(values) } else { Err(field.bad("order of delays")) }
}
