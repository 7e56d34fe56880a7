//! Captured packets: [`Capture`] reads pcap and pcapng files, plain or compressed, or standard input;
//! [`interface`] captures live.
//!
//! The project has its own readers for three reasons: any length field of a capture may be wrong, captures
//! truncated by a snap length are the normal case, and the program needs nanoseconds, the time resolution of
//! each interface, and drop counters. A length is trusted only once its bytes are present. A damaged file
//! yields all packets before the damage, and a note with the position of the damage.

mod buffer;
mod follow;
mod input;
#[cfg_attr(not(target_os = "linux"), path = "../elsewhere/capture_interface.rs")]
pub mod interface;
mod pcap;
mod pcapng;
mod write;

use buffer::ReadBuffer;
use jitlat_core::time::WallTime;
use jitlat_passive::LinkType;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

pub use follow::FollowedFiles;
pub use input::{STDIN, unpack};
pub use jitlat_passive::Frame;
pub use write::PcapWriter;

/// Longest frame accepted as valid, in bytes; larger than libpcap's limit of 256 KiB.
const MAX_FRAME: usize = 1 << 20;

/// Reason why a capture could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The file cannot be opened or read.
    #[error("cannot read the capture {path}: {source}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The beginning of the file matches no known format.
    #[error(
        "{path} is not a capture: it begins with neither a pcap nor a pcapng header (gzip, zstd and xz are unpacked)"
    )]
    Format {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file is empty.
    #[error("{path} is empty")]
    Blank {
        /// Path of the file.
        path: PathBuf,
    },
    /// The folder contains no captures.
    #[error("the folder {path} contains no capture with packets")]
    Empty {
        /// Path of the folder.
        path: PathBuf,
    },
    /// No path was given.
    #[error("no capture file was given")]
    Nothing,
}

/// The next item in a file.
enum CaptureItem {
    Frame { at: WallTime, link: LinkType, wire_length: u32, from: usize, length: usize },
    End(Option<String>),
}

enum CaptureFormat {
    Pcap(pcap::Pcap),
    PcapNg(pcapng::PcapNg),
}

struct OpenCapture {
    path: PathBuf,
    buffer: ReadBuffer,
    format: CaptureFormat,
}

/// Expands folders to the captures in them, ordered by their first packets, because the file names of a
/// rotating capture (`tcpdump -C`, `-G`) need not be in order. In a folder, files that are not captures,
/// captures without packets, and compressed copies of files that also exist uncompressed are skipped.
///
/// # Errors
/// [`CaptureError`] if a folder cannot be read or contains no capture.
pub fn in_folders(paths: &[PathBuf]) -> Result<Vec<PathBuf>, CaptureError> {
    let mut all = Vec::new();
    for path in paths {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let failed = |source| CaptureError::Io { path: path.clone(), source };
        let mut found = Vec::new();
        for entry in std::fs::read_dir(path).map_err(failed)? {
            let file = entry.map_err(failed)?.path();
            let reads = file.is_file() && !is_packed_copy(&file, Path::exists);
            let first = if reads { first_packet(&file) } else { None };
            found.extend(first.map(|at| (at, file)));
        }
        if found.is_empty() {
            return Err(CaptureError::Empty { path: path.clone() });
        }
        found.sort_unstable();
        all.extend(found.into_iter().map(|(_, file)| file));
    }
    Ok(all)
}

/// Returns the time of a capture's first packet; `None` if the file has no packets or is not a capture.
fn first_packet(file: &Path) -> Option<WallTime> {
    Capture::of(open(file).ok()?).next_frame().map(|frame| frame.at)
}

/// True if the name of `file` is that of a compressed copy (`tcpdump -z`), and the original exists according
/// to `is_there`.
fn is_packed_copy(file: &Path, is_there: impl Fn(&Path) -> bool) -> bool {
    let packed = ["gz", "zst", "xz"].iter().any(|name| file.extension().is_some_and(|ext| ext == *name));
    packed && is_there(&file.with_extension(""))
}

/// The packets of one capture point. Several files, as written by a rotating capture, are read one after the
/// other.
pub struct Capture {
    current: Option<OpenCapture>,
    waiting: VecDeque<PathBuf>,
    notes: Vec<String>,
    drops: u64,
    frames: u64,
}

impl Capture {
    /// Opens the first of `paths`; `-` is standard input. The others are opened when they are reached, but
    /// must already be readable.
    pub fn open(paths: &[PathBuf]) -> Result<Capture, CaptureError> {
        let (first, rest) = paths.split_first().ok_or(CaptureError::Nothing)?;
        for path in rest {
            if path.as_os_str() != STDIN {
                std::fs::File::open(path)
                    .map_err(|source| CaptureError::Io { path: path.clone(), source })?;
            }
        }
        Ok(Capture { waiting: rest.iter().cloned().collect(), ..Capture::of(open(first)?) })
    }

    /// Reads a capture from any reader; `name` is used in messages.
    pub fn from_reader(name: &str, reader: impl io::Read + Send + 'static) -> Result<Capture, CaptureError> {
        let path = PathBuf::from(name);
        let unpacked = input::unpack(Box::new(reader))
            .map_err(|source| CaptureError::Io { path: path.clone(), source })?;
        Ok(Capture::of(begin(path, ReadBuffer::new(unpacked))?))
    }

    fn of(open: OpenCapture) -> Capture {
        Capture { current: Some(open), waiting: VecDeque::new(), notes: Vec::new(), drops: 0, frames: 0 }
    }

    /// True if [`Self::next_frame`] returned `None` only because the next frame has not been written yet.
    fn is_waiting(&self) -> bool {
        self.current.is_some()
    }

    /// Returns the next frame of any of the files; `None` after the last. An error ends the file in which it
    /// occurs, and is added to [`Self::notes`].
    pub fn next_frame(&mut self) -> Option<Frame<'_>> {
        loop {
            let open = self.current.as_mut()?;
            let step = match &mut open.format {
                CaptureFormat::Pcap(p) => p.next(&mut open.buffer),
                CaptureFormat::PcapNg(p) => p.next(&mut open.buffer, &mut self.drops),
            };
            match step {
                Ok(CaptureItem::Frame { at, link, wire_length, from, length }) => {
                    self.frames += 1;
                    let open = self.current.as_ref()?;
                    return Some(Frame { at, link, wire_length, data: open.buffer.slice(from, length) });
                }
                Ok(CaptureItem::End(note)) => self.ended(note),
                // The frame has been written only in part. None of its bytes were consumed, so it is read
                // again later.
                Err(e) if e.kind() == ErrorKind::WouldBlock => return None,
                Err(e) => {
                    let at = open.buffer.offset();
                    self.ended(Some(format!("reading stopped at byte {at}: {e}")));
                }
            }
        }
    }

    fn ended(&mut self, note: Option<String>) {
        if let (Some(open), Some(note)) = (&self.current, note) {
            self.notes.push(format!("{}: {note}", open.path.display()));
        }
        self.current = None;
        while self.current.is_none() {
            let Some(path) = self.waiting.pop_front() else { return };
            match open(&path) {
                Ok(o) => self.current = Some(o),
                Err(e) => self.notes.push(e.to_string()),
            }
        }
    }

    /// Returns messages about errors in the files read so far.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the number of packets that the capturing system reported as dropped (pcapng interface
    /// statistics).
    pub fn drops(&self) -> u64 {
        self.drops
    }

    /// Returns the number of frames delivered so far.
    pub fn frames(&self) -> u64 {
        self.frames
    }
}

fn open(path: &Path) -> Result<OpenCapture, CaptureError> {
    let reader = input::open(path).map_err(|source| CaptureError::Io { path: path.to_owned(), source })?;
    begin(path.to_owned(), ReadBuffer::new(reader))
}

fn begin(path: PathBuf, mut buffer: ReadBuffer) -> Result<OpenCapture, CaptureError> {
    let io = |source| CaptureError::Io { path: path.clone(), source };
    let magic = buffer.peek(4).map_err(io)?.and_then(|first| first.first_chunk::<4>().copied());
    let format = match magic {
        Some([0x0a, 0x0d, 0x0d, 0x0a]) => Some(CaptureFormat::PcapNg(pcapng::PcapNg::default())),
        Some(_) => pcap::Pcap::begin(&mut buffer).map_err(io)?.map(CaptureFormat::Pcap),
        None if buffer.available() == 0 => return Err(CaptureError::Blank { path }),
        None => None,
    };
    match format {
        Some(format) => Ok(OpenCapture { path, buffer, format }),
        None => Err(CaptureError::Format { path }),
    }
}

#[cfg(test)]
mod tests;
