//! Compact byte form of a [`LogHistogram`]: exact values as ascending differences, and only non-empty
//! buckets.

use super::{Buckets, LogHistogram, Precision, bucket, values};
use crate::distribution::percentile::{Method, Percent, rank};

/// Maximum precision that is accepted when reading. It limits the memory for buckets, which does not depend
/// on the number of bytes read.
const MAX_PRECISION_BITS: u8 = 10;
/// Maximum number of values that is accepted when reading, low enough that sums cannot overflow.
const MAX_VALUES: u64 = 1 << 56;

/// Appends `x` as a variable-length integer: seven bits per byte, the lowest first.
pub(crate) fn put(out: &mut Vec<u8>, mut x: u128) {
    while x >= 0x80 {
        out.push(x as u8 | 0x80);
        x >>= 7;
    }
    out.push(x as u8);
}

/// Appends a signed `x` in zigzag form, so that small absolute values take few bytes.
pub(crate) fn put_signed(out: &mut Vec<u8>, x: i128) {
    put(out, ((x << 1) ^ (x >> 127)) as u128);
}

/// Reads a number that [`put`] appended; `None` if the bytes are not valid.
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

/// Reads a number that [`put`] appended; `None` if it has more than 64 bits, or if the bytes are not valid.
#[inline]
pub(crate) fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    // Fast path: most numbers take one byte.
    match bytes.split_first() {
        Some((&byte, rest)) if byte < 0x80 => {
            *bytes = rest;
            Some(byte.into())
        }
        _ => take_long(bytes),
    }
}

fn take_long(bytes: &mut &[u8]) -> Option<u64> {
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

/// Skips `n` numbers that [`put`] appended; each ends with a byte below 0x80. `None` if the bytes end early.
fn skip_numbers(bytes: &mut &[u8], n: u64) -> Option<()> {
    if n == 0 {
        return Some(());
    }
    let mut left = n;
    let end = bytes.iter().position(|byte| {
        left -= u64::from(*byte < 0x80);
        left == 0
    })?;
    *bytes = &bytes[end + 1..];
    Some(())
}

/// Reads a number that [`put_signed`] appended; `None` if the bytes are not valid.
pub(crate) fn take_signed(bytes: &mut &[u8]) -> Option<i128> {
    take(bytes).map(|x| (x >> 1) as i128 ^ -((x & 1) as i128))
}

fn take_i64(bytes: &mut &[u8]) -> Option<i64> {
    take_signed(bytes)?.try_into().ok()
}

impl LogHistogram {
    /// Returns the exact values, ascending; empty if the values are in buckets.
    pub(crate) fn ascending(&self) -> Vec<i64> {
        let mut values = self.first.clone();
        values.sort_unstable();
        values
    }

    /// Appends the histogram. When it is read again, its exact values are in ascending order.
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

    /// Reads the bytes that [`LogHistogram::write`] appended; `None` if they are not valid.
    pub(crate) fn read(bytes: &mut &[u8]) -> Option<LogHistogram> {
        Some(SparseHistogram::read(bytes)?.with_empty_buckets())
    }
}

/// A [`LogHistogram`] without its empty buckets, as it is stored. It is faster to read if only a single figure is
/// needed.
#[derive(Debug)]
pub(crate) struct SparseHistogram {
    precision: Precision,
    origin: Option<i64>,
    /// Exact values, ascending; empty if the values are in buckets.
    first: Vec<i64>,
    /// Buckets above and below the origin with their counts, ascending.
    sides: [Vec<(usize, u64)>; 2],
    n: u64,
    extremes: Option<(i64, i64)>,
}

impl SparseHistogram {
    /// Reads the bytes that [`LogHistogram::write`] appended; `None` if they are not valid.
    pub(crate) fn read(bytes: &mut &[u8]) -> Option<SparseHistogram> {
        let exact = take_u64(bytes)?.try_into().ok()?;
        let (&[bits, known], rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        if bits > MAX_PRECISION_BITS {
            return None;
        }
        let origin = take_i64(bytes)?;
        let n = take_u64(bytes).filter(|n| *n <= MAX_VALUES)?;
        let mut read = SparseHistogram {
            precision: Precision { exact, bits },
            origin: (known == 1).then_some(origin),
            first: Vec::new(),
            sides: [Vec::new(), Vec::new()],
            n,
            extremes: None,
        };
        if n == 0 {
            return Some(read);
        }
        let low = take_i64(bytes)?;
        let high = low.checked_add_unsigned(take_u64(bytes)?)?;
        read.extremes = Some((low, high));
        // Each value, and each bucket with its count, takes at least one byte, so a number above the number
        // of bytes is invalid.
        let room = |n: u64, bytes: &[u8]| usize::try_from(n).ok().filter(|n| *n <= bytes.len());
        if n <= exact as u64 {
            let n = room(n, bytes)?;
            read.first.reserve_exact(n);
            let mut x = low;
            for _ in 0..n {
                x = x.checked_add_unsigned(take_u64(bytes)?)?;
                read.first.push(x);
            }
            return Some(read);
        }
        let reach = bucket(u64::MAX, bits) as u64;
        for side in &mut read.sides {
            let n = room(take_u64(bytes)?, bytes)?;
            side.reserve_exact(n);
            let mut next = 0u64;
            for _ in 0..n {
                let at = next.checked_add(take_u64(bytes)?).filter(|at| *at <= reach)?;
                side.push((at as usize, take_u64(bytes).filter(|count| *count <= MAX_VALUES)?));
                next = at + 1;
            }
        }
        Some(read)
    }

    /// Skips the bytes that [`LogHistogram::write`] appended, without decoding the values; `None` if they end early.
    pub(crate) fn skip(bytes: &mut &[u8]) -> Option<()> {
        let exact = take_u64(bytes)?;
        *bytes = bytes.get(2..)?;
        skip_numbers(bytes, 1)?;
        let n = take_u64(bytes)?;
        if n == 0 {
            return Some(());
        }
        skip_numbers(bytes, 2)?;
        if n <= exact {
            return skip_numbers(bytes, n);
        }
        for _ in 0..2 {
            let buckets = take_u64(bytes)?;
            skip_numbers(bytes, buckets.checked_mul(2)?)?;
        }
        Some(())
    }

    fn with_empty_buckets(self) -> LogHistogram {
        let SparseHistogram { precision, origin, first, sides, n, extremes } = self;
        let [above, below] = sides.map(|side| {
            let (Some(first), Some(last)) = (side.first(), side.last()) else { return Buckets::default() };
            let mut buckets = Buckets { lowest: first.0, counts: vec![0; last.0 - first.0 + 1] };
            for (bucket, count) in &side {
                buckets.counts[bucket - first.0] = *count;
            }
            buckets
        });
        LogHistogram { precision, origin, first, above, below, n, extremes }
    }

    /// Like [`LogHistogram::is_possible`], but skips the checks that reading already made.
    pub(crate) fn is_possible(&self) -> bool {
        let is_exact = self.n <= self.precision.exact as u64;
        let counted = self.sides.iter().flatten().map(|(_, count)| u128::from(*count)).sum::<u128>();
        is_exact || self.origin.is_some() && counted == self.n.into()
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> u64 {
        self.n
    }

    /// Returns the smallest and the largest value; `None` without values.
    pub(crate) fn extremes(&self) -> Option<(i64, i64)> {
        self.extremes
    }

    /// Returns the percentile of the empirical distribution, equal to
    /// [`Quantiles::percentile`](super::Quantiles::percentile); `None` without values.
    pub(crate) fn percentile(&self, p: Percent) -> Option<i64> {
        let rank = rank(self.n as usize, p, Method::Edf)?;
        if !self.first.is_empty() {
            return self.first.get(rank).copied();
        }
        // Find the bucket first, then compute only the value of this bucket.
        let [above, below] = &self.sides;
        let mut before = 0u64;
        let mut has_rank = |count: u64| {
            before = before.saturating_add(count);
            before > rank as u64
        };
        let below = below.iter().rev().find(|(_, count)| has_rank(*count));
        let above = if below.is_none() { above.iter().find(|(_, count)| has_rank(*count)) } else { None };
        let (below, above) = (below.copied(), above.copied());
        let scale = (self.origin.unwrap_or(0), self.precision.bits, self.extremes);
        values(scale, below.into_iter(), above.into_iter()).next().map(|(value, _)| value)
    }
}
