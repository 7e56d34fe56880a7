//! Queries of the kernel's tables of neighbours and queueing disciplines (rtnetlink(7)), in this host's byte
//! order.

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
pub(crate) fn dump<T>(
    kind: u16,
    body: &[u8],
    mut each: impl FnMut(&[u8]) -> Option<T>,
) -> io::Result<Option<T>> {
    let route = Protocol::from(libc::NETLINK_ROUTE);
    let mut kernel = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(route))?;
    kernel.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    kernel.send(&request(kind, body))?;
    let mut table = vec![0; READ_BUFFER];
    loop {
        let length = kernel.read(&mut table)?;
        for message in messages(&table[..length]) {
            match message {
                // The message types of a table are consecutive: new entry, deleted entry, query. Answers are
                // new entries.
                (answer, body) if answer + 2 == kind => {
                    if let Some(found) = each(body) {
                        return Ok(Some(found));
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

fn request(kind: u16, body: &[u8]) -> Vec<u8> {
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    let mut message = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.resize(HEADER, 0);
    message.extend(body);
    message
}

/// Iterates over the messages in `bytes`: type, and the bytes after the header.
pub(crate) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (length, kind) = (u32_at(bytes, 0)? as usize, u16_at(bytes, 4)?);
        let body = bytes.get(HEADER..length)?;
        bytes = bytes.get(length.next_multiple_of(ALIGNED)..).unwrap_or_default();
        Some((kind, body))
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
#[cfg(test)]
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
        let mut bytes = request(38, &body);
        bytes.extend(request(3, &[]));
        let read: Vec<_> = messages(&bytes).collect();
        assert_eq!(read, [(38, &body[..]), (3, &[][..])]);
        let inside: Vec<_> = attributes(&body).collect();
        assert_eq!(inside, [(1, &b"etf\0"[..]), (7, &[9; 5][..]), (2, &[][..])]);
        for cut in 0..bytes.len() {
            assert!(messages(&bytes[..cut]).flat_map(|(_, body)| attributes(body)).count() <= 3);
        }
        // A zero length, or a length beyond the end, ends the iteration.
        assert_eq!(messages(&[0; 64]).count() + attributes(&[0; 64]).count(), 0);
        assert_eq!(messages(&[255; 64]).count() + attributes(&[255; 64]).count(), 0);
    }
}
