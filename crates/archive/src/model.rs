//! [`StreamModel`]: common parts of the tests of a stream. The header of a test is compressed with that of the first test of
//! its stream as a dictionary, because they differ in little more than times and counts. The session of a test is read from its
//! header; only a session that cannot be read from it is stored in addition, compressed in the same way.

use crate::error::ArchiveError;
use crate::packed::{MAX_UNPACKED_BYTES, decompress, decompress_with, pack, unpack};
use crate::text::OtherLines;
use jitlat_core::Session;
use jitlat_store::log::LogReader;
use rusqlite::Connection;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::Cursor;
use zstd::bulk::Compressor;

/// First byte of a value that is compressed with a model. A value that is compressed without one is a plain Zstandard
/// frame, which begins with another byte.
const WITH_MODEL: u8 = 1;
/// Maximum size of each part of a model, in bytes. A longer session or header is unusual, and as a dictionary would
/// slow down every test of the stream.
const MAX_MODEL_BYTES: usize = 16 << 10;
/// Compression level. Headers contain many times with similar digits, for which a high level pays: 509 bytes of the header of a
/// short test become 382 (440 with level 9, 381 with level 19).
const LEVEL: i32 = 12;

/// Session and header of a test, as plain bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct StreamModel {
    #[serde(with = "serde_bytes_of")]
    session: Vec<u8>,
    #[serde(with = "serde_bytes_of")]
    rest: Vec<u8>,
}

/// Serializes byte vectors as binary data.
mod serde_bytes_of {
    use crate::text::Blob;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        Blob(bytes.to_vec()).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        Blob::deserialize(from).map(|blob| blob.0)
    }
}

impl StreamModel {
    /// Returns session and header of a test as plain bytes. The session is empty if [`session_of`] reads it from the header.
    pub fn of(session: &Session, rest: &OtherLines) -> StreamModel {
        let plain = |session: &Session| rmp_serde::to_vec_named(session).unwrap_or_default();
        let mut own =
            StreamModel { session: plain(session), rest: rmp_serde::to_vec(rest).unwrap_or_default() };
        if session_of(rest).is_some_and(|read| plain(&read) == own.session) {
            own.session.clear();
        }
        own
    }

    /// Reads the model of a stream. Returns an empty model if the stream has none.
    pub fn read(db: &Connection, stream: i64) -> rusqlite::Result<StreamModel> {
        let mut found = db.prepare_cached("SELECT model FROM streams WHERE id = ?")?;
        let bytes: Option<Vec<u8>> = found.query_row([stream], |row| row.get(0))?;
        Ok(StreamModel::from_bytes(bytes.as_deref().unwrap_or_default()))
    }

    fn from_bytes(bytes: &[u8]) -> StreamModel {
        unpack(bytes, "the model of a stream").unwrap_or_default()
    }

    /// Makes this test the model of a stream that has none, unless it is too long.
    pub fn store(&self, db: &Connection, stream: i64) -> rusqlite::Result<()> {
        if self.session.len().max(self.rest.len()) > MAX_MODEL_BYTES {
            return Ok(());
        }
        let update = "UPDATE streams SET model = ? WHERE id = ? AND model IS NULL";
        db.prepare_cached(update)?.execute((pack(self), stream)).map(drop)
    }

    /// Returns the compressor of sessions and headers of tests of this stream.
    pub fn packer(&self) -> ModelPacker {
        let compressor = |model: &[u8]| Compressor::with_dictionary(LEVEL, model).ok();
        ModelPacker {
            session: (!self.session.is_empty()).then(|| compressor(&self.session)).flatten(),
            rest: (!self.rest.is_empty()).then(|| compressor(&self.rest)).flatten(),
        }
    }

    /// Reads the session of a test; `model` is the value in the table of streams.
    pub fn session(bytes: &[u8], model: &[u8], what: &str) -> Result<Session, ArchiveError> {
        read(bytes, model, |model| model.session).ok_or_else(|| impossible(what))
    }

    /// Reads the header of a test.
    pub fn rest(bytes: &[u8], model: &[u8], what: &str) -> Result<OtherLines, ArchiveError> {
        read(bytes, model, |model| model.rest).ok_or_else(|| impossible(what))
    }
}

/// Reads the session of a test from the lines of its log that are not rows.
pub(crate) fn session_of(rest: &OtherLines) -> Option<Session> {
    let (header, others) = match rest.lines.split_first() {
        Some(((0, header), others)) => (header.0.clone(), others),
        _ => (Vec::new(), rest.lines.as_slice()),
    };
    let end: Vec<u8> = others.iter().flat_map(|(_, lines)| lines.0.iter().copied()).collect();
    let mut log = LogReader::with_end("a test", Box::new(Cursor::new(header)), &end).ok()?;
    for (_, lines) in others {
        log.take_lines(&lines.0, |_| ()).ok()?;
    }
    log.take_end().ok()?;
    // Because the rows are left out here, the reader takes them for missing. A session that really lacks rows is stored separately.
    Some(Session { truncated: false, unrecorded: Vec::new(), ..log.session().clone() })
}

fn impossible(what: &str) -> ArchiveError {
    ArchiveError::Impossible(format!("{what} cannot be read"))
}

/// Compresses sessions and headers of tests of one stream. The model is prepared only once, because that takes about as long as
/// compressing a test with it.
pub(crate) struct ModelPacker {
    /// `None`: the stream has no model.
    session: Option<Compressor<'static>>,
    rest: Option<Compressor<'static>>,
}

impl ModelPacker {
    /// Compresses session and header of a test.
    pub fn pack(&mut self, test: &StreamModel) -> (Vec<u8>, Vec<u8>) {
        let session = match test.session[..] {
            [] => Vec::new(),
            _ => compressed(&test.session, self.session.as_mut()),
        };
        (session, compressed(&test.rest, self.rest.as_mut()))
    }
}

fn compressed(plain: &[u8], with_model: Option<&mut Compressor<'static>>) -> Vec<u8> {
    let Some(compressor) = with_model else {
        return zstd::bulk::compress(plain, LEVEL).unwrap_or_default();
    };
    let frame = compressor.compress(plain).unwrap_or_default();
    [&[WITH_MODEL], &frame[..]].concat()
}

fn read<T: DeserializeOwned>(bytes: &[u8], model: &[u8], part: fn(StreamModel) -> Vec<u8>) -> Option<T> {
    let plain = match bytes.split_first() {
        Some((&WITH_MODEL, frame)) => {
            decompress_with(&part(StreamModel::from_bytes(model)), frame, MAX_UNPACKED_BYTES)
        }
        _ => decompress(bytes, MAX_UNPACKED_BYTES),
    };
    jitlat_core::msgpack::from_slice(&plain?).ok()
}
