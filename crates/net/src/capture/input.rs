//! Opens a capture from a file or standard input, and detects compression from its first bytes.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

/// Path that stands for standard input.
pub const STDIN: &str = "-";

/// First bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// First bytes of a zstd file.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// First bytes of an xz file.
const XZ: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];

/// Maximum memory, in bytes, that a compressed file may request for window and dictionary; otherwise a small file
/// could exhaust the memory of this host.
const MAX_UNPACK_MEMORY: u64 = 128 << 20;

pub(super) fn open(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    let raw: Box<dyn Read + Send> =
        if path.as_os_str() == STDIN { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
    unpack(raw)
}

/// True if `head` is the beginning of a compressed file.
pub(super) fn is_packed(head: &[u8]) -> bool {
    [&GZIP[..], &ZSTD, &XZ].iter().any(|magic| head.starts_with(magic))
}

/// Decompresses gzip, zstd and xz; returns any other input unchanged.
///
/// # Errors
/// Errors of reading the first bytes.
pub fn unpack(mut raw: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut head = [0; 6];
    let mut got = 0;
    while got < head.len() {
        match raw.read(&mut head[got..])? {
            0 => break,
            n => got += n,
        }
    }
    let whole = Cursor::new(head[..got].to_vec()).chain(raw);
    Ok(match &head[..got] {
        head if head.starts_with(&GZIP) => Box::new(flate2::read::MultiGzDecoder::new(whole)),
        head if head.starts_with(&ZSTD) => {
            Box::new(Zstd { state: ZstdState::Between(BufReader::new(Box::new(whole))) })
        }
        head if head.starts_with(&XZ) => {
            Box::new(lzma_rust2::XzReader::new_mem_limit(whole, true, (MAX_UNPACK_MEMORY >> 10) as u32))
        }
        _ => Box::new(whole),
    })
}

type InputReader = BufReader<Box<dyn Read + Send>>;
type Decoder = ruzstd::decoding::StreamingDecoder<InputReader, ruzstd::decoding::FrameDecoder>;

/// A sequence of zstd frames, as written by `zstd` and joined by `cat`.
struct Zstd {
    state: ZstdState,
}

enum ZstdState {
    Between(InputReader),
    Within(Box<Decoder>),
    Ended,
}

impl Read for Zstd {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        use io::BufRead;
        loop {
            match std::mem::replace(&mut self.state, ZstdState::Ended) {
                ZstdState::Ended => return Ok(0),
                ZstdState::Between(mut source) => {
                    if source.fill_buf()?.is_empty() {
                        return Ok(0);
                    }
                    let decoder = Decoder::new_with_max_window_size(source, MAX_UNPACK_MEMORY)
                        .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))?;
                    self.state = ZstdState::Within(Box::new(decoder));
                }
                ZstdState::Within(mut decoder) => match decoder.read(buf)? {
                    0 if !buf.is_empty() => self.state = ZstdState::Between(decoder.into_inner()),
                    n => {
                        self.state = ZstdState::Within(decoder);
                        return Ok(n);
                    }
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_into_no_room_loses_nothing() {
        let plain: Vec<u8> = (0..10_000u32).flat_map(u32::to_be_bytes).collect();
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let mut file =
            unpack(Box::new(Cursor::new(ruzstd::encoding::compress_to_vec(&plain[..], level)))).unwrap();
        let mut read = vec![0; 100];
        file.read_exact(&mut read).unwrap();
        assert_eq!(file.read(&mut []).unwrap(), 0);
        file.read_to_end(&mut read).unwrap();
        assert!(read == plain);
    }
}
