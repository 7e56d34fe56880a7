//! MessagePack for saved states and for the catalogue of an archive.

use serde::Deserialize;

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
    // Strings are borrowed from the slice, so their lengths are checked before anything is allocated. For an
    // array, serde reserves at most 1 MiB before its elements are read.
    let mut reader = rmp_serde::Deserializer::from_read_ref(bytes);
    reader.set_max_depth(MAX_DEPTH);
    T::deserialize(&mut reader)
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
