//! [`FollowedFiles`]: reads captures that are still being written: one growing file, or a folder in which a
//! rotating capture (`tcpdump -C`, `-G`, `-W`, `-z`) creates one file after another.

use super::buffer::ReadBuffer;
use super::{Capture, CaptureError, Frame, begin, first_packet, input, is_packed_copy};
use crate::clock;
use jitlat_core::time::{Span, SteadyTime, WallTime};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Minimum time between two scans of a folder.
const POLL_INTERVAL: Span = Span::millis(100);

/// Time without a change after which a compressed file is considered complete.
const MAX_PACKING_TIME: Duration = Duration::from_secs(1);

/// Reads captures that are still being written, up to their current end.
pub struct FollowedFiles {
    path: PathBuf,
    /// State of each file at the last scan.
    known: HashMap<PathBuf, SeenFile>,
    current: Option<Current>,
    /// Time of the first packet of the most recently opened file; `None` before the first file is opened.
    begun: Option<WallTime>,
    looked: Option<SteadyTime>,
    /// True once no more data is expected.
    ended: bool,
    drops: u64,
    notes: Vec<String>,
}

/// State of a file at a scan.
#[derive(Clone, Copy)]
struct SeenFile {
    length: u64,
    modified: Option<SystemTime>,
    /// Time of the first packet; `None` if the file has no packets or is not a capture.
    first: Option<WallTime>,
    /// Value of `first` when the file was opened for reading; `None` if it has not been opened.
    taken: Option<WallTime>,
}

/// File being read.
struct Current {
    path: PathBuf,
    capture: Capture,
    /// True once the file can no longer grow, so that its current end is final.
    whole: Arc<AtomicBool>,
    /// Number of bytes read.
    position: Arc<AtomicU64>,
}

/// Reads a file that may still grow. At its current end, reading fails with [`ErrorKind::WouldBlock`].
struct TailReader {
    file: File,
    whole: Arc<AtomicBool>,
    position: Arc<AtomicU64>,
}

impl Read for TailReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.file.read(buf)? {
            0 if !buf.is_empty() && !self.whole.load(Ordering::Relaxed) => Err(ErrorKind::WouldBlock.into()),
            n => {
                self.position.fetch_add(n as u64, Ordering::Relaxed);
                Ok(n)
            }
        }
    }
}

impl FollowedFiles {
    /// Follows a file or a folder. The folder may still be empty.
    ///
    /// # Errors
    /// [`CaptureError`] if it cannot be read.
    pub fn open(path: &Path) -> Result<FollowedFiles, CaptureError> {
        let failed = |source| CaptureError::Io { path: path.to_owned(), source };
        match path.is_dir() {
            true => drop(fs::read_dir(path).map_err(failed)?),
            false => drop(File::open(path).map_err(failed)?),
        }
        Ok(FollowedFiles {
            path: path.to_owned(),
            known: HashMap::new(),
            current: None,
            begun: None,
            looked: None,
            ended: false,
            drops: 0,
            notes: Vec::new(),
        })
    }

    /// Passes the available frames to `each`, at most `most`; returns how many were passed.
    pub fn poll(&mut self, most: usize, mut each: impl FnMut(&Frame<'_>)) -> usize {
        let mut frames = 0;
        while frames < most {
            let Some(current) = &mut self.current else {
                match self.next_file() {
                    Some(next) => self.take(&next),
                    None => break,
                }
                continue;
            };
            if let Some(frame) = current.capture.next_frame() {
                each(&frame);
                frames += 1;
                continue;
            }
            if !current.capture.is_waiting() {
                self.close();
                continue;
            }
            let (whole, path) = (Arc::clone(&current.whole), current.path.clone());
            let read = current.position.load(Ordering::Relaxed);
            // A capture with a limited number of files (`tcpdump -W`) overwrites the oldest ones.
            let shorter = fs::metadata(&path).is_ok_and(|now| now.len() < read);
            if shorter {
                self.notes.push(format!("{}: overwritten before it was read to its end", path.display()));
                self.close();
            } else if self.ended || self.next_file().is_some() {
                // A writer that has begun the next file no longer writes to this one, so its current end is
                // final.
                whole.store(true, Ordering::Relaxed);
            } else {
                break;
            }
        }
        frames
    }

    /// Declares the captures complete: [`Self::poll`] then reads to their ends without waiting for further
    /// data.
    pub fn end(&mut self) {
        if !self.ended {
            (self.ended, self.looked) = (true, None);
        }
    }

    /// Returns the number of packets that the capturing system reported as dropped, in files read to their
    /// ends.
    pub fn drops(&self) -> u64 {
        self.drops
    }

    /// Returns messages about errors in files read to their ends.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    fn close(&mut self) {
        if let Some(current) = self.current.take() {
            self.drops = self.drops.saturating_add(current.capture.drops());
            self.notes.extend(current.capture.notes().iter().cloned());
        }
    }

    /// Begins to read a file.
    fn take(&mut self, path: &Path) {
        let Some(known) = self.known.get_mut(path) else { return };
        known.taken = known.first;
        let before = self.begun.zip(known.first).is_some_and(|(begun, first)| first < begun);
        if before {
            self.notes.push(format!(
                "{}: skipped, because its packets are older than those already read",
                path.display()
            ));
            return;
        }
        self.begun = known.first;
        match Current::open(path) {
            Ok(current) => self.current = Some(current),
            Err(e) => self.notes.push(e.to_string()),
        }
    }

    /// Returns the next file to read: the unread file with the earliest first packet. `None` if there is
    /// none, or if the last scan was too recent.
    fn next_file(&mut self) -> Option<PathBuf> {
        let now = clock::steady();
        if self.looked.is_some_and(|looked| now - looked < POLL_INTERVAL) {
            return None;
        }
        let files = match self.path.is_dir() {
            true => fs::read_dir(&self.path).ok()?.filter_map(|e| Some(e.ok()?.path())).collect(),
            false => vec![self.path.clone()],
        };
        let mut next: Option<(WallTime, PathBuf)> = None;
        for path in files {
            let Ok(facts) = fs::metadata(&path) else { continue };
            if !facts.is_file() || self.path.is_dir() && self.is_copy(&path) {
                continue;
            }
            if self.current.as_ref().is_some_and(|current| current.path == path) {
                continue;
            }
            let (length, modified) = (facts.len(), facts.modified().ok());
            if !self.ended && is_being_packed(&path, modified) {
                continue;
            }
            let before = self.known.get(&path).copied();
            let taken = before.and_then(|known| known.taken);
            let known = match before {
                // The first packet is read again only if the file has changed.
                Some(known) if (known.length, known.modified) == (length, modified) => known,
                _ => SeenFile { length, modified, first: first_packet(&path), taken },
            };
            self.known.insert(path.clone(), known);
            let Some(first) = known.first.filter(|first| known.taken != Some(*first)) else { continue };
            let later = next.as_ref().is_some_and(|found| (found.0, &found.1) <= (first, &path));
            if !later {
                next = Some((first, path));
            }
        }
        // After a file was found, the folder is scanned again as soon as that file has been read.
        self.looked = if next.is_some() { None } else { Some(now) };
        next.map(|(_, path)| path)
    }

    /// True if `path` is a compressed copy of a file that exists or has been read.
    fn is_copy(&self, path: &Path) -> bool {
        is_packed_copy(path, |plain| {
            plain.exists() || self.known.get(plain).is_some_and(|known| known.taken.is_some())
        })
    }
}

/// True if `path` is a compressed file that changed so recently that it may be incomplete.
fn is_being_packed(path: &Path, modified: Option<SystemTime>) -> bool {
    let age = modified.and_then(|at| SystemTime::now().duration_since(at).ok());
    is_packed_copy(path, |_| true) && age.is_some_and(|age| age < MAX_PACKING_TIME)
}

impl Current {
    fn open(path: &Path) -> Result<Current, CaptureError> {
        let failed = |source| CaptureError::Io { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(failed)?;
        // Compressed files are only read when complete, so the end is final.
        let mut head = Vec::new();
        (&file).take(6).read_to_end(&mut head).map_err(failed)?;
        file.rewind().map_err(failed)?;
        let whole = Arc::new(AtomicBool::new(input::is_packed(&head)));
        let position = Arc::default();
        let tail = TailReader { file, whole: Arc::clone(&whole), position: Arc::clone(&position) };
        let reader = input::unpack(Box::new(tail)).map_err(failed)?;
        let capture = Capture::of(begin(path.to_owned(), ReadBuffer::new(reader))?);
        Ok(Current { path: path.to_owned(), capture, whole, position })
    }
}

#[cfg(test)]
mod tests;
