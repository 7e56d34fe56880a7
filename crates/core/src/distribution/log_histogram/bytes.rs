//! A [`LogHistogram`] as few bytes: kept values as ascending differences, and only the buckets that are not empty.

use super::{LogHistogram, Precision, bucket};

/// Most bits of precision that are read: what is allocated for the buckets grows with them, whatever the number of bytes.
const MOST_BITS: u8 = 10;
/// Most values that are believed: so many that sums of them still have room.
const MOST_VALUES: u64 = 1 << 56;

/// Appends `x`, seven bits a byte, the lowest first.
pub(crate) fn put(out: &mut Vec<u8>, mut x: u128) {
    while x >= 0x80 {
        out.push(x as u8 | 0x80);
        x >>= 7;
    }
    out.push(x as u8);
}

/// Appends `x` so that what is small without its sign takes few bytes.
pub(crate) fn put_signed(out: &mut Vec<u8>, x: i128) {
    put(out, ((x << 1) ^ (x >> 127)) as u128);
}

/// Takes what [`put`] appended.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u128> {
    let (mut x, mut shift) = (0, 0);
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        x |= u128::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(x);
        }
        shift += 7;
    }
}

/// The same, of at most 64 bits.
#[inline]
pub(crate) fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    let (mut x, mut shift) = (0, 0);
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        x |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(x);
        }
        shift += 7;
    }
}

/// Takes what [`put_signed`] appended.
pub(crate) fn take_signed(bytes: &mut &[u8]) -> Option<i128> {
    take(bytes).map(|x| (x >> 1) as i128 ^ -((x & 1) as i128))
}

fn take_i64(bytes: &mut &[u8]) -> Option<i64> {
    take_signed(bytes)?.try_into().ok()
}

impl LogHistogram {
    /// The kept values, ascending; none if they are in buckets.
    pub(crate) fn ascending(&self) -> Vec<i64> {
        let mut values = self.first.clone();
        values.sort_unstable();
        values
    }

    /// Appends it. It comes back with its kept values in ascending order.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        put(out, self.precision.exact as u128);
        out.push(self.precision.bits);
        out.push(self.origin.is_some().into());
        put_signed(out, self.origin.unwrap_or(0).into());
        put(out, self.n.into());
        let Some((low, high)) = self.extremes else { return };
        put_signed(out, low.into());
        put(out, high.abs_diff(low).into());
        if self.is_exact() {
            let mut before = low;
            for x in self.ascending() {
                put(out, x.abs_diff(before).into());
                before = x;
            }
            return;
        }
        for side in [&self.above, &self.below] {
            put(out, side.filled().count() as u128);
            let mut next = 0;
            for (bucket, count) in side.filled() {
                put(out, (bucket - next) as u128);
                put(out, count.into());
                next = bucket + 1;
            }
        }
    }

    /// Takes what [`LogHistogram::write`] appended; `None` if it is nothing of the kind.
    pub(crate) fn read(bytes: &mut &[u8]) -> Option<LogHistogram> {
        let exact = take_u64(bytes)?.try_into().ok()?;
        let (&[bits, known], rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        if bits > MOST_BITS {
            return None;
        }
        let origin = take_i64(bytes)?;
        let origin = (known == 1).then_some(origin);
        let mut read = LogHistogram::with_origin(origin, Precision { exact, bits });
        read.n = take_u64(bytes).filter(|n| *n <= MOST_VALUES)?;
        if read.n == 0 {
            return Some(read);
        }
        let low = take_i64(bytes)?;
        let high = low.checked_add_unsigned(take_u64(bytes)?)?;
        read.extremes = Some((low, high));
        if read.n <= exact as u64 {
            // A value takes a byte or more.
            let n = usize::try_from(read.n).ok().filter(|n| *n <= bytes.len())?;
            read.first.reserve_exact(n);
            let mut x = low;
            for _ in 0..n {
                x = x.checked_add_unsigned(take_u64(bytes)?)?;
                read.first.push(x);
            }
            return Some(read);
        }
        let reach = bucket(u64::MAX, bits) as u64;
        for side in [&mut read.above, &mut read.below] {
            let n = take_u64(bytes)?;
            let mut next = 0u64;
            for k in 0..n {
                let at = next.checked_add(take_u64(bytes)?).filter(|at| *at <= reach)?;
                if k == 0 {
                    side.lowest = at as usize;
                }
                let index = at as usize - side.lowest;
                side.counts.resize(index, 0);
                side.counts.push(take_u64(bytes).filter(|count| *count <= MOST_VALUES)?);
                next = at + 1;
            }
        }
        Some(read)
    }
}
