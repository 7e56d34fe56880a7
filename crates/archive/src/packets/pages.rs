//! Checks the headers of pages before the Parquet library reads them. This is necessary because the library allocates
//! the size that a header states, up to 2 GiB, before it decompresses anything. Headers are structures in Thrift's
//! compact form.

/// Maximum size of a decompressed page, in bytes. Pages written by jitlat have about 1 MB.
const MAX_PAGE_BYTES: u64 = 1 << 24;
/// Maximum depth of nested structures.
const MAX_NESTING: usize = 8;

/// Checks the headers of all pages in the bytes of a column. An error describes the problem.
pub(super) fn check(mut column: &[u8]) -> Result<(), String> {
    while !column.is_empty() {
        let (unpacked, packed) = header(&mut column).ok_or_else(|| "a page without a header".to_owned())?;
        if unpacked > MAX_PAGE_BYTES {
            return Err(format!("a page has an impossible size: {unpacked} bytes"));
        }
        let packed = usize::try_from(packed).ok();
        column = packed.and_then(|n| column.get(n..)).ok_or_else(|| "a page is truncated".to_owned())?;
    }
    Ok(())
}

/// Reads the header of a page. Returns the size of the page after decompression, and its stored size; `None` if the
/// header is not valid.
fn header(bytes: &mut &[u8]) -> Option<(u64, u64)> {
    let (mut id, mut unpacked, mut packed) = (0u64, None, None);
    loop {
        let kind = next_field(bytes, &mut id)?;
        match (id, kind) {
            (_, 0) => return Some((unpacked?, packed?)),
            (2, 5) => unpacked = Some(positive(bytes)?),
            (3, 5) => packed = Some(positive(bytes)?),
            _ => skip(bytes, kind, MAX_NESTING)?,
        }
    }
}

/// Reads the header of the next field. Returns the type of the field, and sets `id`, the number of the previous field,
/// to the number of this one. Type 0 ends a structure. `None` if the bytes are not valid.
fn next_field(bytes: &mut &[u8], id: &mut u64) -> Option<u8> {
    let first = byte(bytes)?;
    let (delta, kind) = (first >> 4, first & 15);
    *id = match (kind, delta) {
        (0, _) => 0,
        (_, 0) => positive(bytes)?,
        _ => id.checked_add(delta.into())?,
    };
    Some(kind)
}

fn skip(bytes: &mut &[u8], kind: u8, depth: usize) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    match kind {
        1 | 2 => Some(()),
        3 => byte(bytes).map(drop),
        4..=6 => varint(bytes).map(drop),
        7 => take(bytes, 8),
        8 => {
            let length = varint(bytes)?;
            take(bytes, length)
        }
        9 | 10 => {
            let head = byte(bytes)?;
            let number = if head >> 4 == 15 { varint(bytes)? } else { u64::from(head >> 4) };
            // A boolean in a list takes one byte.
            let kind = if matches!(head & 15, 1 | 2) { 3 } else { head & 15 };
            (0..number).try_for_each(|_| skip(bytes, kind, depth).filter(|()| kind > 0))
        }
        12 => {
            let mut id = 0;
            loop {
                match next_field(bytes, &mut id)? {
                    0 => return Some(()),
                    kind => skip(bytes, kind, depth)?,
                }
            }
        }
        _ => None,
    }
}

fn byte(bytes: &mut &[u8]) -> Option<u8> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*first)
}

fn take(bytes: &mut &[u8], n: u64) -> Option<()> {
    *bytes = bytes.get(usize::try_from(n).ok()?..)?;
    Some(())
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for k in 0..9 {
        let byte = byte(bytes)?;
        value |= u64::from(byte & 0x7f) << (7 * k);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Reads a number; `None` if it is negative. Zigzag encoding maps negative numbers to odd ones.
fn positive(bytes: &mut &[u8]) -> Option<u64> {
    varint(bytes).filter(|bits| bits & 1 == 0).map(|bits| bits >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a page of `packed` bytes that claims to have `unpacked`, with a structure and a list in its header.
    fn page(unpacked: &[u8], packed: u8) -> Vec<u8> {
        let inner = [0x15, 40, 0x18, 2, b'a', b'b', 0x19, 0x25, 2, 4, 0x11, 0];
        let header = [&[0x15, 0, 0x15][..], unpacked, &[0x15, packed * 2, 0x2c], &inner, &[0]].concat();
        [header, vec![7; packed.into()]].concat()
    }

    #[test]
    fn a_page_that_claims_too_much_is_refused_before_room_is_made() {
        let small = page(&[0x80, 0x01], 5);
        assert_eq!(
            check(&[small.clone(), page(&[0x80, 0x80, 0x80, 0x10], 0), small.clone()].concat()),
            Ok(())
        );
        let huge = [small.clone(), page(&[0xfe, 0xff, 0xff, 0xff, 0x0f], 3)].concat();
        assert_eq!(check(&huge), Err("a page has an impossible size: 2147483647 bytes".to_owned()));
        // The same field number, encoded in the long form.
        let odd = [&[0x15, 0, 0x05, 4, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0x15, 0, 0][..], &small].concat();
        assert_eq!(check(&odd), Err("a page has an impossible size: 2147483647 bytes".to_owned()));
        for cut in 1..small.len() {
            assert!(check(&small[..cut]).is_err(), "{cut}");
        }
        let deep = [&[0x1c; 40][..], &[0; 41]].concat();
        assert!(check(&deep).is_err());
    }
}
