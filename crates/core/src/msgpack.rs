//! MessagePack of saved states and of the catalogue of an archive: this reads what `rmp_serde` writes.
//!
//! `rmp_serde` can read it, too, but compiles a whole MessagePack reader for each type: that was a third of this crate's code, and more
//! than a third of the time to compile it. The reader here decodes a [`Token`] by the library `rmp`, once for all types, and each type
//! adds only the tokens that it can begin with. Structures are always read by field name; an array of fields has their order.

use rmp::Marker;
use rmp::decode::bytes::BytesReadError;
use rmp::decode::{Bytes, RmpRead, ValueReadError};
use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, Expected, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};

/// Nesting depth of arrays, maps and enumerations that no valid value has.
const MAX_DEPTH: u32 = 96;

/// Reason why bytes are not the expected value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// They end before the value does.
    #[error("it ends early")]
    End,
    /// They are not MessagePack, or have a type that `rmp_serde` never writes.
    #[error("it is not the MessagePack that this program writes")]
    Unknown,
    /// They are nested too deeply.
    #[error("it is nested too deeply")]
    Depth,
    /// They are another value, for this reason.
    #[error("{0}")]
    Other(String),
}

impl serde::de::Error for Error {
    fn custom<T: core::fmt::Display>(message: T) -> Error {
        Error::Other(message.to_string())
    }
}

impl From<BytesReadError> for Error {
    fn from(_: BytesReadError) -> Error {
        Error::End
    }
}

impl From<ValueReadError<BytesReadError>> for Error {
    fn from(_: ValueReadError<BytesReadError>) -> Error {
        Error::End
    }
}

/// Reads a value from `bytes`, which need not be trusted: memory is limited to a multiple of their length and a few MiB, recursion to a
/// fixed depth.
///
/// # Errors
/// Bytes that end early, are nested too deeply, or are another value.
///
/// ```
/// use jitlat_core::msgpack;
///
/// let bytes = rmp_serde::to_vec_named(&(1, "one")).unwrap();
/// assert_eq!(msgpack::from_slice::<(u8, String)>(&bytes), Ok((1, "one".to_owned())));
/// assert_eq!(msgpack::from_slice::<(u8, String)>(&bytes[..3]), Err(msgpack::Error::End));
/// ```
pub fn from_slice<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Error> {
    T::deserialize(&mut Reader { rest: Bytes::new(bytes), depth: MAX_DEPTH, field: None })
}

struct Reader<'a> {
    rest: Bytes<'a>,
    /// Number of levels that may still be opened.
    depth: u32,
    /// Name of the next field, in a structure that was written without names. Absent once it was read.
    field: Option<&'static str>,
}

/// A scalar, or the header of an array or a map with its length.
enum Token<'a> {
    Nil,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
    Array(u32),
    Map(u32),
}

impl Token<'_> {
    /// Returns the error of a value of another type.
    #[cold]
    fn mismatch(self, expected: &dyn Expected) -> Error {
        let found = match self {
            Token::Nil => Unexpected::Unit,
            Token::Bool(yes) => Unexpected::Bool(yes),
            Token::Unsigned(n) => Unexpected::Unsigned(n),
            Token::Signed(n) => Unexpected::Signed(n),
            Token::Float(x) => Unexpected::Float(x),
            Token::Text(text) => Unexpected::Str(text),
            Token::Bytes(bytes) => Unexpected::Bytes(bytes),
            Token::Array(_) => Unexpected::Seq,
            Token::Map(_) => Unexpected::Map,
        };
        Error::invalid_type(found, expected)
    }
}

impl<'a> Reader<'a> {
    fn token(&mut self) -> Result<Token<'a>, Error> {
        let from = &mut self.rest;
        Ok(match Marker::from_u8(from.read_u8()?) {
            Marker::Null => Token::Nil,
            Marker::False => Token::Bool(false),
            Marker::True => Token::Bool(true),
            Marker::FixPos(n) => Token::Unsigned(n.into()),
            Marker::U8 => Token::Unsigned(from.read_data_u8()?.into()),
            Marker::U16 => Token::Unsigned(from.read_data_u16()?.into()),
            Marker::U32 => Token::Unsigned(from.read_data_u32()?.into()),
            Marker::U64 => Token::Unsigned(from.read_data_u64()?),
            Marker::FixNeg(n) => Token::Signed(n.into()),
            Marker::I8 => Token::Signed(from.read_data_i8()?.into()),
            Marker::I16 => Token::Signed(from.read_data_i16()?.into()),
            Marker::I32 => Token::Signed(from.read_data_i32()?.into()),
            Marker::I64 => Token::Signed(from.read_data_i64()?),
            Marker::F32 => Token::Float(from.read_data_f32()?.into()),
            Marker::F64 => Token::Float(from.read_data_f64()?),
            Marker::FixStr(n) => self.text(n.into())?,
            Marker::Str8 => {
                let n = from.read_data_u8()?.into();
                self.text(n)?
            }
            Marker::Str16 => {
                let n = from.read_data_u16()?.into();
                self.text(n)?
            }
            Marker::Str32 => {
                let n = from.read_data_u32()?;
                self.text(n)?
            }
            Marker::Bin8 => {
                let n = from.read_data_u8()?.into();
                Token::Bytes(self.bytes(n)?)
            }
            Marker::Bin16 => {
                let n = from.read_data_u16()?.into();
                Token::Bytes(self.bytes(n)?)
            }
            Marker::Bin32 => {
                let n = from.read_data_u32()?;
                Token::Bytes(self.bytes(n)?)
            }
            Marker::FixArray(n) => Token::Array(n.into()),
            Marker::Array16 => Token::Array(from.read_data_u16()?.into()),
            Marker::Array32 => Token::Array(from.read_data_u32()?),
            Marker::FixMap(n) => Token::Map(n.into()),
            Marker::Map16 => Token::Map(from.read_data_u16()?.into()),
            Marker::Map32 => Token::Map(from.read_data_u32()?),
            _ => return Err(Error::Unknown),
        })
    }

    fn text(&mut self, bytes: u32) -> Result<Token<'a>, Error> {
        let text = core::str::from_utf8(self.bytes(bytes)?);
        text.map(Token::Text).map_err(|_| Error::Other("text in it is not UTF-8".to_owned()))
    }

    fn bytes(&mut self, n: u32) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.rest.remaining_slice().split_at_checked(n as usize).ok_or(Error::End)?;
        self.rest = Bytes::new(rest);
        Ok(taken)
    }

    /// Returns the marker of the next value and does not consume it.
    fn peek(&self) -> Option<Marker> {
        self.rest.remaining_slice().first().map(|byte| Marker::from_u8(*byte))
    }

    fn open(&mut self) -> Result<(), Error> {
        self.depth = self.depth.checked_sub(1).ok_or(Error::Depth)?;
        Ok(())
    }

    fn close(&mut self) {
        self.depth += 1;
    }

    /// Opens an array of `left` elements, or a map of `left` entries.
    fn parts(&mut self, left: u32) -> Result<Parts<'_, 'a>, Error> {
        self.open()?;
        Ok(Parts { reader: self, left, names: None })
    }

    /// Reads a name.
    fn name(&mut self, expected: &dyn Expected) -> Result<&'a str, Error> {
        match self.token()? {
            Token::Text(name) => Ok(name),
            other => Err(other.mismatch(expected)),
        }
    }

    /// Opens the array that is next.
    fn array(&mut self, expected: &dyn Expected) -> Result<Parts<'_, 'a>, Error> {
        match self.token()? {
            Token::Array(n) => self.parts(n),
            other => Err(other.mismatch(expected)),
        }
    }

    /// Opens the map that is next.
    fn map(&mut self, expected: &dyn Expected) -> Result<Parts<'_, 'a>, Error> {
        match self.token()? {
            Token::Map(n) => self.parts(n),
            other => Err(other.mismatch(expected)),
        }
    }

    /// Opens the structure that is next, written with or without field names.
    fn fields(
        &mut self,
        names: &'static [&'static str],
        expected: &dyn Expected,
    ) -> Result<Parts<'_, 'a>, Error> {
        match self.token()? {
            Token::Map(n) => self.parts(n),
            Token::Array(n) if n as usize > names.len() => Err(too_many()),
            Token::Array(n) => Ok(Parts { names: Some(names.iter()), ..self.parts(n)? }),
            other => Err(other.mismatch(expected)),
        }
    }
}

#[cold]
fn too_many() -> Error {
    Error::custom("it has more elements than were written")
}

/// Defines methods that read a number of any type; a visitor accepts it if it fits.
macro_rules! number {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match self.token()? {
                Token::Unsigned(n) => visitor.visit_u64(n),
                Token::Signed(n) => visitor.visit_i64(n),
                Token::Float(x) => visitor.visit_f64(x),
                other => Err(other.mismatch(&visitor)),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Nil => visitor.visit_unit(),
            Token::Bool(yes) => visitor.visit_bool(yes),
            Token::Unsigned(n) => visitor.visit_u64(n),
            Token::Signed(n) => visitor.visit_i64(n),
            Token::Float(x) => visitor.visit_f64(x),
            Token::Text(text) => visitor.visit_borrowed_str(text),
            Token::Bytes(bytes) => visitor.visit_borrowed_bytes(bytes),
            Token::Array(n) => {
                let mut parts = self.parts(n)?;
                let value = visitor.visit_seq(&mut parts)?;
                parts.end().map(|()| value)
            }
            Token::Map(n) => {
                let mut parts = self.parts(n)?;
                let value = visitor.visit_map(&mut parts)?;
                parts.end().map(|()| value)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.peek() == Some(Marker::Null) {
            self.token()?;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    /// Reads an array without elements.
    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Nil | Token::Array(0) => visitor.visit_unit(),
            _ => Err(Error::custom("something is where nothing was written")),
        }
    }

    /// Reads a name, or a map of one entry from the name to the content of the variant.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.open()?;
        let value = match self.token()? {
            Token::Text(name) => visitor.visit_enum(StrDeserializer::<Error>::new(name))?,
            Token::Map(1) => visitor.visit_enum(&mut *self)?,
            _ => return Err(Error::custom("a variant is a name, or a map of one entry")),
        };
        self.close();
        Ok(value)
    }

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let wide = |bytes: &[u8]| bytes.try_into().map(i128::from_be_bytes);
        match self.token()? {
            Token::Unsigned(n) => visitor.visit_i128(n.into()),
            Token::Signed(n) => visitor.visit_i128(n.into()),
            Token::Bytes(bytes) => visitor.visit_i128(wide(bytes).map_err(|_| Error::Unknown)?),
            _ => Err(Error::Unknown),
        }
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let wide = |bytes: &[u8]| bytes.try_into().map(u128::from_be_bytes);
        match self.token()? {
            Token::Unsigned(n) => visitor.visit_u128(n.into()),
            Token::Bytes(bytes) => visitor.visit_u128(wide(bytes).map_err(|_| Error::Unknown)?),
            _ => Err(Error::Unknown),
        }
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    number! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_f32 deserialize_f64
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let mut parts = self.array(&visitor)?;
        let value = visitor.visit_seq(&mut parts)?;
        parts.end().map(|()| value)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let mut parts = self.map(&visitor)?;
        let value = visitor.visit_map(&mut parts)?;
        parts.end().map(|()| value)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let mut parts = self.fields(fields, &visitor)?;
        let value = visitor.visit_map(&mut parts)?;
        parts.end().map(|()| value)
    }

    /// Reads the name of a field or variant.
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let name = match self.field.take() {
            Some(name) => name,
            None => self.name(&visitor)?,
        };
        visitor.visit_str(name)
    }

    forward_to_deserialize_any! { bool char str string bytes byte_buf unit ignored_any }
}

/// Elements of an array, or entries of a map.
struct Parts<'r, 'a> {
    reader: &'r mut Reader<'a>,
    left: u32,
    /// Remaining field names, in a structure that was written without them.
    names: Option<core::slice::Iter<'static, &'static str>>,
}

impl<'a> Parts<'_, 'a> {
    /// Returns an error unless all parts were read.
    fn end(self) -> Result<(), Error> {
        if self.left > 0 {
            return Err(too_many());
        }
        self.reader.close();
        Ok(())
    }

    fn next(&mut self) -> Option<&mut Reader<'a>> {
        self.left = self.left.checked_sub(1)?;
        Some(self.reader)
    }

    /// Returns the reader, positioned at the next key.
    fn next_key(&mut self) -> Option<&mut Reader<'a>> {
        self.left = self.left.checked_sub(1)?;
        self.reader.field = self.names.as_mut().and_then(Iterator::next).copied();
        Some(self.reader)
    }

    /// Number of parts that can follow: each has at least one byte.
    fn expected(&self) -> usize {
        (self.left as usize).min(self.reader.rest.remaining_slice().len())
    }
}

impl<'a> SeqAccess<'a> for Parts<'_, 'a> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'a>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.next().map(|reader| seed.deserialize(reader)).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.expected())
    }
}

impl<'a> MapAccess<'a> for Parts<'_, 'a> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'a>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        match self.next_key() {
            Some(reader) => seed.deserialize(reader).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<T: DeserializeSeed<'a>>(&mut self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(&mut *self.reader)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.expected())
    }
}

impl<'a> EnumAccess<'a> for &mut Reader<'a> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'a>>(self, seed: T) -> Result<(T::Value, Self), Error> {
        Ok((seed.deserialize(&mut *self)?, self))
    }
}

impl<'a> VariantAccess<'a> for &mut Reader<'a> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        <()>::deserialize(self)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'a>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'a>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'a>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_struct("", fields, visitor)
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
        /// With names and without.
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
        assert!(matches!(deep, Error::Depth), "{deep}");
        assert!(from_slice::<(u8, u8)>(&[0x93, 1, 2, 3]).is_err(), "an element too many");
        assert!(from_slice::<u8>(&[0xc1]).is_err(), "a byte that MessagePack never uses");
    }
}
