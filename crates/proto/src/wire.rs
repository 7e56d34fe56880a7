//! Reading and writing big-endian fields. Readers never panic: what is not there is [`Truncated`].

/// A field lies beyond the end of the bytes at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("truncated")]
pub struct Truncated;

/// A cursor over received bytes.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// A cursor at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// Bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.0.len()
    }

    /// Whether everything has been read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Truncated> {
        let (head, tail) = self.0.split_at_checked(n).ok_or(Truncated)?;
        self.0 = tail;
        Ok(head)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let (head, tail) = self.0.split_first_chunk::<N>().ok_or(Truncated)?;
        self.0 = tail;
        Ok(*head)
    }

    /// Everything left.
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

/// The bytes written in hexadecimal, for tests.
#[cfg(test)]
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digit = |c: u8| (c as char).to_digit(16).unwrap_or_else(|| panic!("{c} is no digit")) as u8;
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
}
