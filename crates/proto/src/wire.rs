//! Reads and writes the fields of packets. Fields are big-endian unless their type states otherwise. Input
//! that is too short does not cause a panic.
//!
//! A packet with fields at fixed positions declares them once as [`Field`]s. A message of consecutive parts
//! is read with a [`Reader`].
//!
//! ```
//! use jitlat_proto::wire::Field;
//!
//! const SEQ: Field<u32> = Field::at(0);
//! const TIME: Field<u64> = SEQ.then();
//! let mut packet = [0; 12];
//! TIME.write(&mut packet, 7);
//! assert_eq!((SEQ.read(&packet), TIME.read(&packet)), (Some(0), Some(7)));
//! assert_eq!(TIME.read(&packet[..11]), None);
//! ```

use core::marker::PhantomData;
use core::ops::Range;

/// Type of a field: an integer in network byte order, or bytes.
pub trait FieldType: Sized {
    /// Length in bytes.
    const LENGTH: usize;
    /// Parses exactly [`LENGTH`](Self::LENGTH) bytes; `None` for any other length.
    fn from_wire(bytes: &[u8]) -> Option<Self>;
    /// Writes exactly [`LENGTH`](Self::LENGTH) bytes.
    fn to_wire(self, bytes: &mut [u8]);
}

/// An integer in little-endian byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LittleEndian<T>(pub T);

macro_rules! field_integers {
    ($($int:ty),*) => {$(
        impl FieldType for $int {
            const LENGTH: usize = size_of::<$int>();
            #[inline]
            fn from_wire(bytes: &[u8]) -> Option<$int> {
                bytes.try_into().ok().map(<$int>::from_be_bytes)
            }
            #[inline]
            fn to_wire(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_be_bytes());
            }
        }

        impl FieldType for LittleEndian<$int> {
            const LENGTH: usize = size_of::<$int>();
            #[inline]
            fn from_wire(bytes: &[u8]) -> Option<LittleEndian<$int>> {
                bytes.try_into().ok().map(|b| LittleEndian(<$int>::from_le_bytes(b)))
            }
            #[inline]
            fn to_wire(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.0.to_le_bytes());
            }
        }
    )*};
}
field_integers!(u8, u16, u32, u64, i32, i64);

impl<const N: usize> FieldType for [u8; N] {
    const LENGTH: usize = N;
    #[inline]
    fn from_wire(bytes: &[u8]) -> Option<[u8; N]> {
        bytes.try_into().ok()
    }
    #[inline]
    fn to_wire(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self);
    }
}

/// Position and type of a field in a packet.
#[derive(Debug)]
pub struct Field<T> {
    offset: usize,
    kind: PhantomData<T>,
}

impl<T> Clone for Field<T> {
    fn clone(&self) -> Field<T> {
        *self
    }
}

impl<T> Copy for Field<T> {}

impl<T: FieldType> Field<T> {
    /// Creates a field that begins at `offset`.
    pub const fn at(offset: usize) -> Field<T> {
        Field { offset, kind: PhantomData }
    }

    /// Creates the field that follows this one.
    pub const fn then<U: FieldType>(self) -> Field<U> {
        Field::at(self.end())
    }

    /// Returns the offset of the field.
    pub const fn start(self) -> usize {
        self.offset
    }

    /// Returns the offset after the field.
    pub const fn end(self) -> usize {
        self.offset + T::LENGTH
    }

    /// Returns the byte range of the field.
    pub const fn range(self) -> Range<usize> {
        self.offset..self.end()
    }

    /// Returns the value; `None` if `packet` is too short.
    #[inline]
    pub fn read(self, packet: &[u8]) -> Option<T> {
        packet.get(self.range()).and_then(T::from_wire)
    }

    /// Writes the value. A packet that is too short is not changed.
    #[inline]
    pub fn write(self, packet: &mut [u8], value: T) {
        if let Some(slot) = packet.get_mut(self.range()) {
            value.to_wire(slot);
        }
    }
}

/// Error: the data is too short for a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("truncated")]
pub struct Truncated;

/// A cursor over received bytes.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Creates a cursor at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// Returns the number of bytes that have not been read yet.
    pub fn remaining(&self) -> usize {
        self.0.len()
    }

    /// True if all bytes have been read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Truncated> {
        let (head, tail) = self.0.split_at_checked(n).ok_or(Truncated)?;
        self.0 = tail;
        Ok(head)
    }

    /// Returns the next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let (head, tail) = self.0.split_first_chunk::<N>().ok_or(Truncated)?;
        self.0 = tail;
        Ok(*head)
    }

    /// Returns all remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.0)
    }
}

macro_rules! integers {
    ($($name:ident $int:ty),*) => {
        impl Reader<'_> {
            $(
                #[doc = concat!("The next big-endian `", stringify!($int), "`.")]
                pub fn $name(&mut self) -> Result<$int, Truncated> {
                    self.array().map(<$int>::from_be_bytes)
                }
            )*
        }
    };
}
integers!(u8 u8, u16 u16, u32 u32, u64 u64, i32 i32, i64 i64);

/// Parses hexadecimal text; for tests.
#[cfg(test)]
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digit = |c: u8| (c as char).to_digit(16).unwrap_or_else(|| panic!("{c} is not a digit")) as u8;
    text.trim().as_bytes().chunks(2).map(|p| digit(p[0]) << 4 | digit(p[1])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_to_the_last_byte_and_no_further() {
        let mut r = Reader::new(&[1, 0, 2, 0xff, 0xff, 0xff, 0xfe, 9]);
        assert_eq!((r.u8(), r.u16(), r.i32()), (Ok(1), Ok(2), Ok(-2)));
        assert_eq!(r.u16(), Err(Truncated));
        assert_eq!((r.remaining(), r.rest()), (1, &[9][..]));
        assert_eq!(r.take(1), Err(Truncated));
    }

    #[test]
    fn bytes_are_a_field_too() {
        let (first, second): (Field<[u8; 3]>, Field<[u8; 2]>) =
            (Field::at(1), Field::<[u8; 3]>::at(1).then());
        let mut packet = [9, 0, 0, 0, 0, 0, 9];
        first.write(&mut packet, [1, 2, 3]);
        second.write(&mut packet, [4, 5]);
        assert_eq!(packet, [9, 1, 2, 3, 4, 5, 9]);
        assert_eq!((first.read(&packet), second.read(&packet)), (Some([1, 2, 3]), Some([4, 5])));
        assert_eq!(second.read(&packet[..5]), None);
    }

    #[test]
    fn a_reader_is_empty_when_all_is_read() {
        let mut reader = Reader::new(&[1, 2]);
        assert!(!reader.is_empty());
        assert_eq!(reader.take(2), Ok(&[1, 2][..]));
        assert!(reader.is_empty() && Reader::new(&[]).is_empty());
    }
}
