//! Marks of a stream's packets, encoded as a field of a request.

use super::fields::TaggedField;
use crate::jitlat::message::DecodeError;
use jitlat_core::EcnMarking;

mod kind {
    pub const ECT0: u8 = 1;
    pub const ECT1: u8 = 2;
    pub const BOTH: u8 = 3;
}

mod layout {
    use crate::wire::Field;
    pub const KIND: Field<u8> = Field::at(0);
    /// Seed of interleaved marks, otherwise 0.
    pub const SEED: Field<u64> = KIND.then();
    pub const LENGTH: usize = SEED.end();
}

/// Encodes the marks as a field value. Requests without marks have no such field.
pub(super) fn encode(marking: EcnMarking) -> [u8; layout::LENGTH] {
    let (kind, seed) = match marking {
        EcnMarking::Off => (0, 0),
        EcnMarking::Ect0 => (kind::ECT0, 0),
        EcnMarking::Ect1 => (kind::ECT1, 0),
        EcnMarking::Both { seed } => (kind::BOTH, seed),
    };
    let mut value = [0; layout::LENGTH];
    layout::KIND.write(&mut value, kind);
    layout::SEED.write(&mut value, seed);
    value
}

/// Parses a field value.
pub(super) fn decode(field: &TaggedField<'_>) -> Result<EcnMarking, DecodeError> {
    let fields = (layout::KIND.read(field.value), layout::SEED.read(field.value));
    match fields {
        (Some(kind::ECT0), Some(_)) => Ok(EcnMarking::Ect0),
        (Some(kind::ECT1), Some(_)) => Ok(EcnMarking::Ect1),
        (Some(kind::BOTH), Some(seed)) => Ok(EcnMarking::Both { seed }),
        _ => Err(field.bad("marks")),
    }
}
