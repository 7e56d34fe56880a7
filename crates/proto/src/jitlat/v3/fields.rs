//! Tagged fields: tag u8, length u16, value. Unknown tags are skipped. If a tag that may occur only once is
//! repeated, the last value is used.

use crate::jitlat::message::DecodeError;
use crate::wire::{Reader, Truncated};
use jitlat_core::clock::SyncState;
use jitlat_core::session::HostFacts;
use jitlat_core::{Span, WallTime};

/// Maximum length of a text in bytes. Longer texts are truncated.
const MAX_TEXT: usize = 1024;
/// Maximum number of notes about a host.
const MAX_NOTES: usize = 32;

/// Appends fields to a frame.
pub(super) struct FieldWriter<'a>(pub &'a mut Vec<u8>);

impl FieldWriter<'_> {
    /// Appends a field. Values are truncated at 65 535 bytes; only texts could be that long, and they are
    /// truncated earlier.
    pub fn bytes(&mut self, tag: u8, value: &[u8]) {
        let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
        self.0.push(tag);
        self.0.extend_from_slice(&length.to_be_bytes());
        self.0.extend_from_slice(&value[..length.into()]);
    }

    pub fn text(&mut self, tag: u8, text: &str) {
        self.bytes(tag, &text.as_bytes()[..text.floor_char_boundary(MAX_TEXT)]);
    }

    pub(crate) fn optional_text(&mut self, tag: u8, text: Option<&String>) {
        if let Some(text) = text {
            self.text(tag, text);
        }
    }

    pub fn u8(&mut self, tag: u8, v: u8) {
        self.bytes(tag, &[v]);
    }

    pub fn u16(&mut self, tag: u8, v: u16) {
        self.bytes(tag, &v.to_be_bytes());
    }

    pub fn u32(&mut self, tag: u8, v: u32) {
        self.bytes(tag, &v.to_be_bytes());
    }

    pub fn u64(&mut self, tag: u8, v: u64) {
        self.bytes(tag, &v.to_be_bytes());
    }

    pub fn i64(&mut self, tag: u8, v: i64) {
        self.bytes(tag, &v.to_be_bytes());
    }

    /// Appends a field that contains other fields.
    pub fn nested(&mut self, tag: u8, fill: impl FnOnce(&mut FieldWriter<'_>)) {
        let mut inner = Vec::new();
        fill(&mut FieldWriter(&mut inner));
        self.bytes(tag, &inner);
    }

    /// Appends facts about a host as one nested field; appends nothing if there are no facts.
    pub fn host(&mut self, tag: u8, host: &HostFacts) {
        if *host == HostFacts::default() {
            return;
        }
        self.nested(tag, |w| {
            w.optional_text(host::NAME, host.name.as_ref());
            w.optional_text(host::SYSTEM, host.system.as_ref());
            w.optional_text(host::CLOCK_SOURCE, host.clock_source.as_ref());
            for (tag, sync) in [(host::SYNC_BEFORE, host.sync_before), (host::SYNC_AFTER, host.sync_after)] {
                if let Some(sync) = sync {
                    w.bytes(tag, &sync_bytes(&sync));
                }
            }
            if let Some(step) = host.clock_step {
                w.i64(host::CLOCK_STEP, step.0);
            }
            host.notes.iter().take(MAX_NOTES).for_each(|note| w.text(host::NOTE, note));
        });
    }
}

mod host {
    pub const NAME: u8 = 1;
    pub(crate) const SYSTEM: u8 = 2;
    pub(crate) const CLOCK_SOURCE: u8 = 3;
    pub(crate) const SYNC_BEFORE: u8 = 4;
    pub(crate) const SYNC_AFTER: u8 = 5;
    pub(crate) const CLOCK_STEP: u8 = 6;
    pub(crate) const NOTE: u8 = 7;
}

/// Tags of the fields in the state of a host's clock.
mod sync_field {
    use crate::wire::Field;
    pub const SYNCHRONISED: Field<u8> = Field::at(0);
    pub const OFFSET: Field<i64> = SYNCHRONISED.then();
    pub(crate) const ESTIMATED_ERROR: Field<i64> = OFFSET.then();
    pub(crate) const MAXIMUM_ERROR: Field<i64> = ESTIMATED_ERROR.then();
    pub(crate) const FREQUENCY_PPB: Field<i64> = MAXIMUM_ERROR.then();
    pub const LENGTH: usize = FREQUENCY_PPB.end();
}

fn sync_bytes(sync: &SyncState) -> [u8; sync_field::LENGTH] {
    let mut bytes = [0; sync_field::LENGTH];
    sync_field::SYNCHRONISED.write(&mut bytes, sync.synchronised.into());
    sync_field::OFFSET.write(&mut bytes, sync.offset.0);
    sync_field::ESTIMATED_ERROR.write(&mut bytes, sync.estimated_error.0);
    sync_field::MAXIMUM_ERROR.write(&mut bytes, sync.maximum_error.0);
    sync_field::FREQUENCY_PPB.write(&mut bytes, sync.frequency_ppb);
    bytes
}

/// A parsed field: its tag, its value, and the name of the message for use in errors.
#[derive(Clone, Copy)]
pub(super) struct TaggedField<'a> {
    pub tag: u8,
    pub value: &'a [u8],
    message: &'static str,
}

/// Returns an iterator over the fields in `bytes`.
pub(super) fn fields<'a>(
    bytes: &'a [u8],
    message: &'static str,
) -> impl Iterator<Item = Result<TaggedField<'a>, DecodeError>> {
    let mut reader = Reader::new(bytes);
    core::iter::from_fn(move || {
        if reader.is_empty() {
            return None;
        }
        let mut field = || {
            let tag = reader.u8()?;
            let length = reader.u16()?;
            let value = reader.take(length.into())?;
            Ok(TaggedField { tag, value, message })
        };
        let result = field().map_err(|Truncated| DecodeError::Field(message, "field structure"));
        if result.is_err() {
            reader.rest();
        }
        Some(result)
    })
}

impl<'a> TaggedField<'a> {
    /// Returns the value, which must have exactly `N` bytes.
    pub fn array<const N: usize>(&self, what: &'static str) -> Result<[u8; N], DecodeError> {
        self.value.try_into().map_err(|_| DecodeError::Field(self.message, what))
    }

    pub fn u8(&self, what: &'static str) -> Result<u8, DecodeError> {
        self.array(what).map(u8::from_be_bytes)
    }

    pub fn bool(&self, what: &'static str) -> Result<bool, DecodeError> {
        self.u8(what).map(|v| v != 0)
    }

    pub fn u16(&self, what: &'static str) -> Result<u16, DecodeError> {
        self.array(what).map(u16::from_be_bytes)
    }

    pub fn u32(&self, what: &'static str) -> Result<u32, DecodeError> {
        self.array(what).map(u32::from_be_bytes)
    }

    pub fn u64(&self, what: &'static str) -> Result<u64, DecodeError> {
        self.array(what).map(u64::from_be_bytes)
    }

    pub fn i64(&self, what: &'static str) -> Result<i64, DecodeError> {
        self.array(what).map(i64::from_be_bytes)
    }

    pub fn nanos(&self, what: &'static str) -> Result<WallTime, DecodeError> {
        self.i64(what).map(WallTime)
    }

    /// Returns the text with control characters (terminal escapes, line feeds) replaced by spaces.
    pub fn text(&self) -> String {
        let cut = &self.value[..self.value.len().min(MAX_TEXT)];
        String::from_utf8_lossy(cut).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
    }

    pub fn bad(&self, what: &'static str) -> DecodeError {
        DecodeError::Field(self.message, what)
    }

    /// Parses facts about a host.
    pub fn host(&self) -> Result<HostFacts, DecodeError> {
        let mut facts = HostFacts::default();
        for field in fields(self.value, self.message) {
            let field = field?;
            match field.tag {
                host::NAME => facts.name = Some(field.text()),
                host::SYSTEM => facts.system = Some(field.text()),
                host::CLOCK_SOURCE => facts.clock_source = Some(field.text()),
                host::SYNC_BEFORE => facts.sync_before = Some(field.sync()?),
                host::SYNC_AFTER => facts.sync_after = Some(field.sync()?),
                host::CLOCK_STEP => facts.clock_step = Some(Span(field.i64("clock step")?)),
                host::NOTE if facts.notes.len() < MAX_NOTES => facts.notes.push(field.text()),
                _ => {}
            }
        }
        Ok(facts)
    }

    fn sync(&self) -> Result<SyncState, DecodeError> {
        let read = || {
            Some(SyncState {
                synchronised: sync_field::SYNCHRONISED.read(self.value)? != 0,
                offset: Span(sync_field::OFFSET.read(self.value)?),
                estimated_error: Span(sync_field::ESTIMATED_ERROR.read(self.value)?),
                maximum_error: Span(sync_field::MAXIMUM_ERROR.read(self.value)?),
                frequency_ppb: sync_field::FREQUENCY_PPB.read(self.value)?,
            })
        };
        read().ok_or_else(|| self.bad("synchronisation state"))
    }
}
