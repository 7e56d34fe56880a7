//! Values as compressed bytes, as the catalogue and the files of packets hold them.

use crate::error::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use zstd::bulk::Decompressor;

/// Most bytes of a value that was packed, before it was.
pub(crate) const MOST_UNPACKED: usize = 1 << 27;

/// A value as bytes: MessagePack, compressed.
pub(crate) fn pack<T: Serialize>(value: &T) -> Vec<u8> {
    zstd::bulk::compress(&rmp_serde::to_vec_named(value).unwrap_or_default(), 3).unwrap_or_default()
}

pub(crate) fn unpack<T: DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T, Error> {
    let impossible = || Error::Impossible(format!("{what} cannot be read"));
    let bytes = decompress(bytes, MOST_UNPACKED).ok_or_else(impossible)?;
    jitlat_core::msgpack::from_slice(&bytes).map_err(|_| impossible())
}

/// What was compressed, if it has at most `most` bytes and no more than its header says, if that says it.
pub(crate) fn decompress(bytes: &[u8], most: usize) -> Option<Vec<u8>> {
    let said = zstd::zstd_safe::get_frame_content_size(bytes).ok()?;
    let room = said.map_or(most, |n| usize::try_from(n).unwrap_or(usize::MAX));
    if room > most {
        return None;
    }
    thread_local! {
        // To make one takes as long as to unpack a few kilobytes.
        static UNPACKING: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    }
    UNPACKING.with_borrow_mut(|unpacking| {
        if unpacking.is_none() {
            *unpacking = Decompressor::new().ok();
        }
        unpacking.as_mut()?.decompress(bytes, room).ok()
    })
}
