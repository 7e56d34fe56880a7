//! MessagePack for saved states and for the catalogue of an archive.
//!
//! `rmp_serde` writes it. Its reader would be compiled again for each of the hundreds of types in a state, a megabyte of the small
//! program; here, what is independent of the type is compiled once: [`Reader::token`].

use rmp::Marker;
use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, Unexpected, Visitor};
use std::io;

/// Error: the bytes do not contain the expected value.
pub use rmp_serde::decode::Error;

/// Maximum nesting depth of arrays and maps: deeper input could overflow the stack. Valid values stay below it.
const MAX_DEPTH: usize = 96;

/// Reads a value from `bytes`, which may be untrusted: memory is limited to a multiple of their length plus a few MiB,
/// recursion to a fixed depth.
///
/// # Errors
/// The bytes end early, are nested too deeply, or have another type.
///
/// ```
/// use jitlat_core::msgpack;
///
/// let bytes = rmp_serde::to_vec_named(&(1, "one")).unwrap();
/// assert_eq!(msgpack::from_slice::<(u8, String)>(&bytes).unwrap(), (1, "one".to_owned()));
/// assert!(msgpack::from_slice::<(u8, String)>(&bytes[..3]).is_err());
/// ```
pub fn from_slice<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Error> {
    T::deserialize(&mut Reader { bytes, depth: MAX_DEPTH })
}

/// A value that contains no others, or the number of values that follow.
enum Token<'a> {
    Nil,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Single(f32),
    Double(f64),
    Text(&'a str),
    Binary(&'a [u8]),
    Array(u32),
    Map(u32),
}

struct Reader<'a> {
    bytes: &'a [u8],
    /// Number of arrays and maps that may still begin within the current one.
    depth: usize,
}

impl<'a> Reader<'a> {
    /// Reads the next token. Texts and binary data are borrowed, so that no length is trusted.
    fn token(&mut self) -> Result<Token<'a>, Error> {
        let marker = Marker::from_u8(u8::from_be_bytes(self.array()?));
        Ok(match marker {
            Marker::Null => Token::Nil,
            Marker::False => Token::Bool(false),
            Marker::True => Token::Bool(true),
            Marker::FixPos(value) => Token::Unsigned(value.into()),
            Marker::FixNeg(value) => Token::Signed(value.into()),
            Marker::U8 | Marker::U16 | Marker::U32 | Marker::U64 => Token::Unsigned(self.unsigned(marker)?),
            Marker::I8 => Token::Signed(i8::from_be_bytes(self.array()?).into()),
            Marker::I16 => Token::Signed(i16::from_be_bytes(self.array()?).into()),
            Marker::I32 => Token::Signed(i32::from_be_bytes(self.array()?).into()),
            Marker::I64 => Token::Signed(i64::from_be_bytes(self.array()?)),
            Marker::F32 => Token::Single(f32::from_be_bytes(self.array()?)),
            Marker::F64 => Token::Double(f64::from_be_bytes(self.array()?)),
            Marker::FixStr(length) => self.text(length.into())?,
            Marker::Str8 | Marker::Str16 | Marker::Str32 => {
                let length = self.unsigned(marker)?;
                self.text(length)?
            }
            Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => {
                let length = self.unsigned(marker)?;
                Token::Binary(self.take(length)?)
            }
            Marker::FixArray(length) => Token::Array(length.into()),
            Marker::Array16 | Marker::Array32 => Token::Array(self.unsigned(marker)? as u32),
            Marker::FixMap(length) => Token::Map(length.into()),
            Marker::Map16 | Marker::Map32 => Token::Map(self.unsigned(marker)? as u32),
            _ => return Err(Error::TypeMismatch(marker)),
        })
    }

    /// Reads the number after `marker`: a value, or a length.
    fn unsigned(&mut self, marker: Marker) -> Result<u64, Error> {
        Ok(match marker {
            Marker::U8 | Marker::Str8 | Marker::Bin8 => u8::from_be_bytes(self.array()?).into(),
            Marker::U16 | Marker::Str16 | Marker::Bin16 | Marker::Array16 | Marker::Map16 => {
                u16::from_be_bytes(self.array()?).into()
            }
            Marker::U64 => u64::from_be_bytes(self.array()?),
            _ => u32::from_be_bytes(self.array()?).into(),
        })
    }

    fn text(&mut self, length: u64) -> Result<Token<'a>, Error> {
        std::str::from_utf8(self.take(length)?).map(Token::Text).map_err(Error::Utf8Error)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Error> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or_else(end)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or_else(end)?;
        self.bytes = rest;
        Ok(*taken)
    }

    /// Reads a number of 128 bits, which is written as 16 bytes unless it is small.
    fn wide(&mut self) -> Result<i128, Error> {
        match self.token()? {
            Token::Binary(bytes) => bytes
                .try_into()
                .map(i128::from_be_bytes)
                .map_err(|_| Error::LengthMismatch(bytes.len() as u32)),
            Token::Unsigned(value) => Ok(value.into()),
            Token::Signed(value) => Ok(value.into()),
            other => Err(other.is_not("a number")),
        }
    }

    /// Enters an array, a map, or the value of a variant.
    fn enter(&mut self) -> Result<(), Error> {
        self.depth = self.depth.checked_sub(1).ok_or(Error::DepthLimitExceeded)?;
        Ok(())
    }

    fn number<V: Visitor<'a>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Unsigned(value) => visitor.visit_u64(value),
            Token::Signed(value) => visitor.visit_i64(value),
            Token::Single(value) => visitor.visit_f32(value),
            Token::Double(value) => visitor.visit_f64(value),
            other => Err(other.is_not("a number")),
        }
    }

    /// Passes a text to `visitor`, or the number of a field or variant.
    fn name<V: Visitor<'a>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Text(text) => visitor.visit_borrowed_str(text),
            Token::Unsigned(number) => visitor.visit_u64(number),
            other => Err(other.is_not("a text")),
        }
    }

    fn several<V: Visitor<'a>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        let token = self.token()?;
        self.enter()?;
        let (left, value) = match token {
            Token::Array(length) => {
                let mut items = Items { reader: self, left: length };
                let value = visitor.visit_seq(&mut items)?;
                (items.left, value)
            }
            Token::Map(length) => {
                let mut items = Items { reader: self, left: length };
                let value = visitor.visit_map(&mut items)?;
                (items.left, value)
            }
            other => return Err(other.is_not("an array or a map")),
        };
        self.depth += 1;
        if left == 0 { Ok(value) } else { Err(Error::LengthMismatch(left)) }
    }
}

impl Token<'_> {
    fn is_not(self, expected: &'static str) -> Error {
        let found = match self {
            Token::Nil => Unexpected::Unit,
            Token::Bool(value) => Unexpected::Bool(value),
            Token::Unsigned(value) => Unexpected::Unsigned(value),
            Token::Signed(value) => Unexpected::Signed(value),
            Token::Single(value) => Unexpected::Float(value.into()),
            Token::Double(value) => Unexpected::Float(value),
            Token::Text(text) => Unexpected::Str(text),
            Token::Binary(bytes) => Unexpected::Bytes(bytes),
            Token::Array(_) => Unexpected::Seq,
            Token::Map(_) => Unexpected::Map,
        };
        de::Error::invalid_type(found, &expected)
    }
}

fn end() -> Error {
    Error::InvalidMarkerRead(io::ErrorKind::UnexpectedEof.into())
}

/// Passes each call to one of the functions of [`Reader`], by which fewer of them are compiled for a type.
macro_rules! pass {
    ($to:ident: $($name:ident($($argument:ty),*))*) => {$(
        fn $name<V: Visitor<'a>>(self, $(_: $argument,)* visitor: V) -> Result<V::Value, Error> {
            self.$to(visitor)
        }
    )*};
}

impl<'a> Deserializer<'a> for &mut Reader<'a> {
    type Error = Error;

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        let before = self.bytes;
        match self.token()? {
            Token::Nil => visitor.visit_unit(),
            Token::Bool(value) => visitor.visit_bool(value),
            Token::Text(text) => visitor.visit_borrowed_str(text),
            Token::Binary(bytes) => visitor.visit_borrowed_bytes(bytes),
            Token::Array(_) | Token::Map(_) => {
                self.bytes = before;
                self.several(visitor)
            }
            _ => {
                self.bytes = before;
                self.number(visitor)
            }
        }
    }

    fn deserialize_bool<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Bool(value) => visitor.visit_bool(value),
            other => Err(other.is_not("true or false")),
        }
    }

    fn deserialize_i128<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_i128(self.wide()?)
    }

    fn deserialize_u128<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u128(self.wide()? as u128)
    }

    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.bytes.split_first() {
            Some((byte, rest)) if Marker::from_u8(*byte) == Marker::Null => {
                self.bytes = rest;
                visitor.visit_none()
            }
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'a>>(self, _: &str, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Nil | Token::Array(0) => visitor.visit_unit(),
            other => Err(other.is_not("nothing")),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(self, _: &str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'a>>(self, _: &str, _: &[&str], visitor: V) -> Result<V::Value, Error> {
        let before = self.bytes;
        match self.token()? {
            Token::Map(1) | Token::Array(1) => {
                self.enter()?;
                let value = visitor.visit_enum(Variant { reader: self, has_value: true })?;
                self.depth += 1;
                Ok(value)
            }
            Token::Map(length) | Token::Array(length) => Err(Error::LengthMismatch(length)),
            _ => {
                self.bytes = before;
                visitor.visit_enum(Variant { reader: self, has_value: false })
            }
        }
    }

    pass! {
        number:
        deserialize_u8() deserialize_u16() deserialize_u32() deserialize_u64()
        deserialize_i8() deserialize_i16() deserialize_i32() deserialize_i64()
        deserialize_f32() deserialize_f64()
    }
    pass! { name: deserialize_str() deserialize_string() deserialize_char() deserialize_identifier() }
    pass! {
        several:
        deserialize_seq() deserialize_map() deserialize_tuple(usize)
        deserialize_tuple_struct(&'static str, usize) deserialize_struct(&'static str, &'static [&'static str])
    }
    pass! { deserialize_any: deserialize_bytes() deserialize_byte_buf() deserialize_unit() deserialize_ignored_any() }
}

/// Rest of an array or a map.
struct Items<'r, 'a> {
    reader: &'r mut Reader<'a>,
    left: u32,
}

impl<'a> Items<'_, 'a> {
    fn next<T: DeserializeSeed<'a>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        match self.left.checked_sub(1) {
            None => Ok(None),
            Some(left) => {
                self.left = left;
                seed.deserialize(&mut *self.reader).map(Some)
            }
        }
    }
}

impl<'a> de::SeqAccess<'a> for &mut Items<'_, 'a> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'a>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.next(seed)
    }

    /// The length is not trusted: for an array, serde reserves at most 1 MiB before its elements are read.
    fn size_hint(&self) -> Option<usize> {
        Some(self.left as usize)
    }
}

impl<'a> de::MapAccess<'a> for &mut Items<'_, 'a> {
    type Error = Error;

    fn next_key_seed<T: DeserializeSeed<'a>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.next(seed)
    }

    fn next_value_seed<T: DeserializeSeed<'a>>(&mut self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(&mut *self.reader)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left as usize)
    }
}

/// A variant: its name, followed by its value if it has one.
struct Variant<'r, 'a> {
    reader: &'r mut Reader<'a>,
    has_value: bool,
}

impl<'r, 'a> Variant<'r, 'a> {
    fn value(self) -> Result<&'r mut Reader<'a>, Error> {
        match self.has_value {
            true => Ok(self.reader),
            false => Err(de::Error::invalid_type(Unexpected::UnitVariant, &"a variant with a value")),
        }
    }
}

impl<'a> de::EnumAccess<'a> for Variant<'_, 'a> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'a>>(self, seed: T) -> Result<(T::Value, Self), Error> {
        Ok((seed.deserialize(&mut *self.reader)?, self))
    }
}

impl<'a> de::VariantAccess<'a> for Variant<'_, 'a> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        match self.has_value {
            true => <()>::deserialize(self.reader),
            false => Ok(()),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'a>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.value()?)
    }

    fn tuple_variant<V: Visitor<'a>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.value()?.several(visitor)
    }

    fn struct_variant<V: Visitor<'a>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.value()?.several(visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{IpAddr, SocketAddr};
    use proptest::prelude::*;
    use serde::Serialize;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    enum Kind {
        Nothing,
        One(f32),
        Two(i16, Option<u64>),
        Named { text: String, many: Vec<i64> },
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Empty;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Inner(u32);

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Everything {
        yes: bool,
        small: i8,
        wide: (i128, u128),
        real: f64,
        inner: Option<Inner>,
        empty: Empty,
        kinds: Vec<Kind>,
        map: BTreeMap<String, Vec<u8>>,
        at: SocketAddr,
        from: IpAddr,
        letter: char,
        unit: (),
    }

    fn kind() -> impl Strategy<Value = Kind> {
        prop_oneof![
            Just(Kind::Nothing),
            (-1e9f32..1e9).prop_map(Kind::One),
            any::<(i16, Option<u64>)>().prop_map(|(a, b)| Kind::Two(a, b)),
            (".{0,40}", any::<Vec<i64>>()).prop_map(|(text, many)| Kind::Named { text, many }),
        ]
    }

    prop_compose! {
        fn everything()(
            (yes, small, wide, real) in (any::<bool>(), any::<i8>(), any::<(i128, u128)>(), -1e300..1e300f64),
            inner in any::<Option<u32>>(),
            kinds in proptest::collection::vec(kind(), 0..20),
            map in proptest::collection::btree_map(".{0,300}", any::<Vec<u8>>(), 0..20),
            (at, from, letter) in (any::<SocketAddr>(), any::<IpAddr>(), any::<char>()),
        ) -> Everything {
            let at = SocketAddr::new(at.ip(), at.port());
            Everything { yes, small, wide, real, inner: inner.map(Inner), empty: Empty, kinds, map, at, from, letter, unit: () }
        }
    }

    proptest! {
        /// Encoded with field names and without.
        #[test]
        fn what_was_written_is_read(value in everything()) {
            for bytes in [rmp_serde::to_vec_named(&value).unwrap(), rmp_serde::to_vec(&value).unwrap()] {
                prop_assert_eq!(&from_slice::<Everything>(&bytes).unwrap(), &value);
            }
        }

        #[test]
        fn a_value_that_ends_early_is_an_error(value in everything(), part in 0.0..1.0f64) {
            let bytes = rmp_serde::to_vec_named(&value).unwrap();
            let cut = (bytes.len() as f64 * part) as usize;
            prop_assert!(from_slice::<Everything>(&bytes[..cut]).is_err());
        }

        /// Of bytes that both accept, this reader and that of `rmp_serde` make the same value.
        #[test]
        fn changed_bytes_are_read_as_the_library_reads_them(value in everything(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = rmp_serde::to_vec_named(&value).unwrap();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let (Ok(ours), Ok(theirs)) = (from_slice::<Everything>(&bytes), rmp_serde::from_slice::<Everything>(&bytes)) {
                prop_assert_eq!(format!("{:?}", ours), format!("{:?}", theirs));
            }
        }

        #[test]
        fn any_bytes_give_a_value_or_an_error(bytes in any::<Vec<u8>>()) {
            let _ = from_slice::<Everything>(&bytes);
            let _ = from_slice::<BTreeMap<String, Vec<Option<Kind>>>>(&bytes);
        }
    }

    #[test]
    fn lengths_nobody_wrote_and_deep_nesting_are_errors() {
        let long = [0xdd, 0xff, 0xff, 0xff, 0xff];
        assert!(from_slice::<Vec<u64>>(&long).is_err());
        assert!(from_slice::<Vec<Vec<Vec<u64>>>>(&long.repeat(3)).is_err());
        let text = [0xdb, 0xff, 0xff, 0xff, 0xff, b'a'];
        assert!(from_slice::<String>(&text).is_err());
        let deep = from_slice::<serde::de::IgnoredAny>(&[0x91; 10_000]).unwrap_err();
        assert!(matches!(deep, Error::DepthLimitExceeded), "{deep}");
        assert!(from_slice::<(u8, u8)>(&[0x93, 1, 2, 3]).is_err(), "an element too many");
        assert!(from_slice::<u8>(&[0xc1]).is_err(), "a byte that MessagePack never uses");
    }
}
