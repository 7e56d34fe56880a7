//! Schedule of a stream, encoded as a field of a request.

use super::fields::TaggedField;
use crate::jitlat::message::DecodeError;
use jitlat_core::gaps::Gaps;
use jitlat_core::{Schedule, Span};

mod law {
    pub(crate) const PERIODIC: u8 = 0;
    pub(crate) const POISSON: u8 = 1;
    pub(crate) const BURST: u8 = 2;
    pub const RANDOM: u8 = 3;
}

mod gap_law {
    pub(crate) const UNIFORM: u8 = 0;
    pub(crate) const EXPONENTIAL: u8 = 1;
    pub(crate) const NORMAL: u8 = 2;
}

mod layout {
    use crate::wire::Field;
    pub const LAW: Field<u8> = Field::at(0);
    /// Seed of random gaps, or size of a burst.
    pub(crate) const PARAMETER: Field<u64> = LAW.then();
    /// Length in bytes of every schedule except random gaps.
    pub const SHORT: usize = PARAMETER.end();
    pub const BATCH: Field<u32> = PARAMETER.then();
    pub(crate) const GAP_LAW: Field<u8> = BATCH.then();
    pub const FIRST: Field<i64> = GAP_LAW.then();
    pub const SECOND: Field<i64> = FIRST.then();
    /// Length in bytes of a schedule with random gaps.
    pub const LONG: usize = SECOND.end();
}

/// Encodes the schedule as a field value.
pub(super) fn encode(schedule: Schedule) -> Vec<u8> {
    let (law, parameter) = match schedule {
        Schedule::Periodic => (law::PERIODIC, 0),
        Schedule::Poisson { seed } => (law::POISSON, seed),
        Schedule::Burst { size } => (law::BURST, size.into()),
        Schedule::Random { seed, .. } => (law::RANDOM, seed),
    };
    let random = matches!(schedule, Schedule::Random { .. });
    let mut value = vec![0; if random { layout::LONG } else { layout::SHORT }];
    layout::LAW.write(&mut value, law);
    layout::PARAMETER.write(&mut value, parameter);
    if let Schedule::Random { gaps, batch, .. } = schedule {
        let (law, first, second) = match gaps {
            Gaps::Uniform { least, most } => (gap_law::UNIFORM, least, most),
            Gaps::Exponential { least, mean } => (gap_law::EXPONENTIAL, least, mean),
            Gaps::Normal { mean, deviation } => (gap_law::NORMAL, mean, deviation),
        };
        layout::BATCH.write(&mut value, batch);
        layout::GAP_LAW.write(&mut value, law);
        layout::FIRST.write(&mut value, first.0);
        layout::SECOND.write(&mut value, second.0);
    }
    value
}

/// Parses the schedule in the value of `field`.
pub(super) fn decode(field: &TaggedField<'_>) -> Result<Schedule, DecodeError> {
    let missing = || field.bad("schedule");
    let law = layout::LAW.read(field.value).ok_or_else(missing)?;
    let length = if law == law::RANDOM { layout::LONG } else { layout::SHORT };
    if field.value.len() != length {
        return Err(missing());
    }
    let parameter = layout::PARAMETER.read(field.value).ok_or_else(missing)?;
    match law {
        law::PERIODIC => Ok(Schedule::Periodic),
        law::POISSON => Ok(Schedule::Poisson { seed: parameter }),
        law::BURST => match u32::try_from(parameter) {
            Ok(size) => Ok(Schedule::Burst { size }),
            Err(_) => Err(field.bad("burst")),
        },
        law::RANDOM => {
            let gaps = gaps(field.value).ok_or_else(|| field.bad("law of gaps"))?;
            let batch = layout::BATCH.read(field.value).ok_or_else(missing)?;
            Ok(Schedule::Random { gaps, batch, seed: parameter })
        }
        _ => Err(DecodeError::Invalid(format!("schedule {law} is not known to this version"))),
    }
}

fn gaps(value: &[u8]) -> Option<Gaps> {
    let first = Span(layout::FIRST.read(value)?);
    let second = Span(layout::SECOND.read(value)?);
    Some(match layout::GAP_LAW.read(value)? {
        gap_law::UNIFORM => Gaps::Uniform { least: first, most: second },
        gap_law::EXPONENTIAL => Gaps::Exponential { least: first, mean: second },
        gap_law::NORMAL => Gaps::Normal { mean: first, deviation: second },
        _ => return None,
    })
}
