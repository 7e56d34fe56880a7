//! [`StreamModel`]: common parts of the tests of a stream. Session and header of a test are compressed with those of the
//! first test of its stream as a dictionary, because they differ in little more than times and counts.

use crate::error::ArchiveError;
use crate::packed::{MAX_UNPACKED_BYTES, decompress, decompress_with, pack, unpack};
use crate::text::OtherLines;
use jitlat_core::Session;
use rusqlite::Connection;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// First byte of a value that is compressed with a model. A value that is compressed without one is a plain Zstandard
/// frame, which begins with another byte.
const WITH_MODEL: u8 = 1;
/// Maximum size of each part of a model, in bytes. A longer session or header is unusual, and as a dictionary would
/// slow down every test of the stream.
const MAX_MODEL_BYTES: usize = 16 << 10;
/// Compression level: with a dictionary of this size, higher levels gain nothing.
const LEVEL: i32 = 3;

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
    /// Returns session and header of a test as plain bytes.
    pub fn of(session: &Session, rest: &OtherLines) -> StreamModel {
        StreamModel {
            session: rmp_serde::to_vec_named(session).unwrap_or_default(),
            rest: rmp_serde::to_vec(rest).unwrap_or_default(),
        }
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

    /// Compresses session and header of a test.
    pub fn pack(&self, test: &StreamModel) -> (Vec<u8>, Vec<u8>) {
        (compressed(&test.session, &self.session), compressed(&test.rest, &self.rest))
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

fn impossible(what: &str) -> ArchiveError {
    ArchiveError::Impossible(format!("{what} cannot be read"))
}

fn compressed(plain: &[u8], model: &[u8]) -> Vec<u8> {
    let alone = || zstd::bulk::compress(plain, LEVEL);
    let with_model = || {
        let mut out = vec![WITH_MODEL];
        out.extend(zstd::bulk::Compressor::with_dictionary(LEVEL, model)?.compress(plain)?);
        Ok::<_, std::io::Error>(out)
    };
    if model.is_empty() { alone() } else { with_model() }.unwrap_or_default()
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
