//! Questions to the kernel over netlink(7), in this host's byte order: its tables of neighbours, queueing disciplines,
//! interfaces and stations.

use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read};
use std::time::Duration;

/// Length of the message header: length, type, flags, number, port.
const HEADER: usize = 16;
const ALIGNED: usize = 4;
/// Type of a message that reports an error instead of a result.
const ERROR: u16 = libc::NLMSG_ERROR as u16;
/// Maximum number of bytes that the kernel writes per call.
const READ_BUFFER: usize = 1 << 16;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// Requests all entries of a table with a message of type `kind` and body `body`, and passes the body of each
/// entry to `each` until `each` returns `Some`.
///
/// # Errors
/// Errors of the operating system.
pub(crate) fn dump<T>(kind: u16, body: &[u8], each: impl FnMut(&[u8]) -> Option<T>) -> io::Result<Option<T>> {
    // The message types of a table are consecutive: new entry, deleted entry, query. Answers are new entries.
    let question = Question { kind, answer: kind - 2, all: true, body };
    Netlink::open(libc::NETLINK_ROUTE)?.ask(&question, each)
}

/// A question to the kernel.
pub(crate) struct Question<'a> {
    /// Type of the message.
    pub kind: u16,
    /// Type of the messages that answer it.
    pub answer: u16,
    /// True if all entries of a table are requested, false for one entry.
    pub all: bool,
    /// The message after its header.
    pub body: &'a [u8],
}

/// A socket for questions to the kernel.
pub(crate) struct Netlink {
    kernel: Socket,
    answers: Vec<u8>,
    /// Number of the latest question.
    number: u32,
}

impl Netlink {
    /// Opens a socket of this protocol: `NETLINK_ROUTE`, `NETLINK_GENERIC`.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn open(protocol: libc::c_int) -> io::Result<Netlink> {
        let kernel = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(Protocol::from(protocol)))?;
        kernel.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Netlink { kernel, answers: vec![0; READ_BUFFER], number: 0 })
    }

    /// Asks `question`, and passes the body of each answer to `each` until `each` returns `Some`.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn ask<T>(
        &mut self,
        question: &Question<'_>,
        mut each: impl FnMut(&[u8]) -> Option<T>,
    ) -> io::Result<Option<T>> {
        self.number = self.number.wrapping_add(1);
        self.kernel.send(&request(question, self.number))?;
        loop {
            let length = self.kernel.read(&mut self.answers)?;
            for (message, number) in numbered(&self.answers[..length]) {
                match message {
                    // The rest of an answer that was not read to its end.
                    _ if number != self.number => {}
                    (answer, body) if answer == question.answer => {
                        if let Some(found) = each(body) {
                            return Ok(Some(found));
                        }
                        if !question.all {
                            return Ok(None);
                        }
                    }
                    (ERROR, body) => {
                        let code = u32_at(body, 0).map_or(libc::EIO, |code| -code.cast_signed());
                        return Err(io::Error::from_raw_os_error(code));
                    }
                    _ => return Ok(None),
                }
            }
        }
    }
}

fn request(question: &Question<'_>, number: u32) -> Vec<u8> {
    let Question { kind, all, body, .. } = question;
    let flags = (libc::NLM_F_REQUEST | if *all { libc::NLM_F_DUMP } else { 0 }) as u16;
    let mut message = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend(number.to_ne_bytes());
    message.resize(HEADER, 0);
    message.extend(*body);
    message
}

/// Iterates over the messages in `bytes`: type and the bytes after the header, and the number of the question.
fn numbered(mut bytes: &[u8]) -> impl Iterator<Item = ((u16, &[u8]), u32)> {
    std::iter::from_fn(move || {
        let (length, kind) = (u32_at(bytes, 0)? as usize, u16_at(bytes, 4)?);
        let (number, body) = (u32_at(bytes, 8)?, bytes.get(HEADER..length)?);
        bytes = bytes.get(length.next_multiple_of(ALIGNED)..).unwrap_or_default();
        Some(((kind, body), number))
    })
}

/// Iterates over the attributes in `bytes`: type and value.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (length, kind) = (usize::from(u16_at(bytes, 0)?), u16_at(bytes, 2)?);
        let value = bytes.get(ALIGNED..length)?;
        bytes = bytes.get(length.next_multiple_of(ALIGNED)..).unwrap_or_default();
        Some((kind, value))
    })
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|b| u16::from_ne_bytes(*b))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_ne_bytes(*b))
}

/// Encodes an attribute in the kernel's format.
pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((ALIGNED + value.len()) as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(ALIGNED), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_attributes_of_any_shape_are_survived() {
        let body = [attribute(1, b"etf\0"), attribute(7, &[9; 5]), attribute(2, &[])].concat();
        let question = |kind, body| request(&Question { kind, answer: 0, all: true, body }, 9);
        let mut bytes = question(38, &body);
        bytes.extend(question(3, &[]));
        let read: Vec<_> = numbered(&bytes).collect();
        assert_eq!(read, [((38, &body[..]), 9), ((3, &[][..]), 9)]);
        let inside: Vec<_> = attributes(&body).collect();
        assert_eq!(inside, [(1, &b"etf\0"[..]), (7, &[9; 5][..]), (2, &[][..])]);
        for cut in 0..bytes.len() {
            assert!(numbered(&bytes[..cut]).flat_map(|((_, body), _)| attributes(body)).count() <= 3);
        }
        // A zero length, or a length beyond the end, ends the iteration.
        assert_eq!(numbered(&[0; 64]).count() + attributes(&[0; 64]).count(), 0);
        assert_eq!(numbered(&[255; 64]).count() + attributes(&[255; 64]).count(), 0);
    }
}
