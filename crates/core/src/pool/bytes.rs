//! Compact byte form of a [`Pool`], much smaller than its JSON form and fast to read.

use super::{COUNTED, Pool, Pooled, halves, has, is_worst_of_tests, scalar_of, whole};
use crate::distribution::LogHistogram;
use crate::distribution::log_histogram::bytes::{SparseHistogram, put, put_signed, take_signed, take_u64};
use crate::scalars::Scalar;
use std::collections::BTreeMap;

/// First byte of a pool without values of metrics that have no field of their own: the version.
const VERSION: u8 = 1;
/// First byte of a pool with values of metrics that have no field of their own: the version.
const WITH_WORST: u8 = 2;
/// Mark before the PDV values: they are stored.
const OWN: u8 = 0;
/// Mark in place of the PDV values: they are derived from the stored delays of a single test.
const OF_DELAYS: u8 = 1;

impl Pooled {
    fn write(&self, out: &mut Vec<u8>) {
        put_signed(out, whole(self.sum));
        put_signed(out, whole(self.sum_of_sizes));
        self.values.write(out);
    }

    fn read(bytes: &mut &[u8]) -> Option<Pooled> {
        let (sum, sum_of_sizes) = (halves(take_signed(bytes)?), halves(take_signed(bytes)?));
        Some(Pooled { values: LogHistogram::read(bytes)?, sum, sum_of_sizes })
    }

    /// Returns the values minus the smallest; `None` unless all values are stored exactly.
    fn above_smallest(&self) -> Option<Pooled> {
        let low = self.values.min().filter(|_| self.values.is_exact())?;
        Some(Pooled::of(self.values.ascending().into_iter().map(|x| x.saturating_sub(low))))
    }

    fn is_same(&self, other: &Pooled) -> bool {
        (self.sum, self.sum_of_sizes) == (other.sum, other.sum_of_sizes)
            && self.values.is_exact()
            && self.values.precision() == other.values.precision()
            && self.values.ascending() == other.values.ascending()
    }
}

/// A figure of a pool, and the amount of data from which it was computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolScalar {
    /// Number of tests.
    pub tests: u64,
    /// Number of packets sent that are known to be received or lost.
    pub sent: u64,
    /// The figure, in its own unit; `None` if it is undefined, or if [pools do not have it](super::has).
    pub value: Option<f64>,
}

/// A distribution in its stored form.
struct StoredDistribution {
    values: SparseHistogram,
    sums: [(i64, u64); 2],
}

impl StoredDistribution {
    fn read(bytes: &mut &[u8]) -> Option<StoredDistribution> {
        let sums = [halves(take_signed(bytes)?), halves(take_signed(bytes)?)];
        Some(StoredDistribution { values: SparseHistogram::read(bytes)?, sums })
            .filter(|stored| stored.values.is_possible())
    }

    /// Skips a stored distribution; `None` if it is not valid.
    fn skip(bytes: &mut &[u8]) -> Option<()> {
        take_signed(bytes)?;
        take_signed(bytes)?;
        SparseHistogram::skip(bytes)
    }

    fn scalar(&self, what: &str) -> Option<f64> {
        let StoredDistribution { values, sums } = self;
        scalar_of(what, values.len(), values.extremes(), *sums, |p| values.percentile(p))
    }
}

impl PoolScalar {
    /// Reads a figure of a pool.
    pub fn of(pool: &Pool, scalar: &Scalar) -> PoolScalar {
        PoolScalar { tests: pool.tests, sent: pool.sent, value: pool.scalar(scalar) }
    }

    /// Reads a figure from bytes returned by [`Pool::to_bytes`]; `None` if they are not valid. Parts that the figure
    /// does not need are neither read nor checked, which makes this much faster than reading the pool.
    pub fn from_bytes(bytes: &[u8], scalar: &Scalar) -> Option<PoolScalar> {
        let mut rest = bytes;
        let counted = take_counts(&mut rest)?;
        let found = |value| Some(PoolScalar { tests: counted.tests, sent: counted.sent, value });
        if !has(scalar) {
            return found(None);
        }
        if is_worst_of_tests(scalar) {
            return Pool::from_bytes(bytes).map(|pool| PoolScalar::of(&pool, scalar));
        }
        if let Some((_, of)) = COUNTED.iter().find(|(key, _)| *key == scalar.key) {
            return found(of(&counted));
        }
        let (family, what) = scalar.key.split_once('-')?;
        if family == "latency" {
            return found(StoredDistribution::read(&mut rest)?.scalar(what));
        }
        StoredDistribution::skip(&mut rest)?;
        match (family, *rest.split_off_first()?) {
            ("pdv", OWN) => found(StoredDistribution::read(&mut rest)?.scalar(what)),
            // There are few values, so reading the whole pool is fast.
            ("pdv", OF_DELAYS) => Pool::from_bytes(bytes).map(|pool| PoolScalar::of(&pool, scalar)),
            (_, OWN) => {
                StoredDistribution::skip(&mut rest)?;
                found(StoredDistribution::read(&mut rest)?.scalar(what))
            }
            (_, OF_DELAYS) => found(StoredDistribution::read(&mut rest)?.scalar(what)),
            _ => None,
        }
    }
}

/// Counts of a pool, in the order in which they are stored.
const COUNTS: [fn(&mut Pool) -> &mut u64; 10] = [
    |p| &mut p.tests,
    |p| &mut p.sent,
    |p| &mut p.received,
    |p| &mut p.unique,
    |p| &mut p.duplicate,
    |p| &mut p.invalid,
    |p| &mut p.lost,
    |p| &mut p.out_of_sequence,
    |p| &mut p.loss_runs,
    |p| &mut p.longest_loss_run,
];

/// Reads a pool with only its counts; `None` if they are not valid.
fn take_counts(bytes: &mut &[u8]) -> Option<Pool> {
    if ![VERSION, WITH_WORST].contains(bytes.split_off_first()?) {
        return None;
    }
    let mut pool = Pool::default();
    for count in COUNTS {
        *count(&mut pool) = take_u64(bytes)?;
    }
    Some(pool)
}

/// Reads a pool with its counts, delays and PDV; `None` if they are not valid.
fn take_delays(bytes: &mut &[u8]) -> Option<Pool> {
    let mut pool = take_counts(bytes)?;
    pool.delay = Pooled::read(bytes)?;
    pool.pdv = match *bytes.split_off_first()? {
        OWN => Pooled::read(bytes)?,
        OF_DELAYS => pool.delay.above_smallest()?,
        _ => return None,
    };
    Some(pool)
}

impl Pool {
    /// Returns a pool with only the counts.
    fn counts(&self) -> Pool {
        let no_values = Pooled::default;
        let worst = BTreeMap::new();
        Pool { delay: no_values(), pdv: no_values(), ipdv: no_values(), worst, ..*self }
    }

    /// Returns the stored form, from which [`Pool::from_bytes`] restores the same pool, except for the order
    /// of exactly stored values.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![if self.worst.is_empty() { VERSION } else { WITH_WORST }];
        let mut counted = self.counts();
        COUNTS.iter().for_each(|count| put(&mut out, (*count(&mut counted)).into()));
        self.delay.write(&mut out);
        if self.delay.above_smallest().is_some_and(|pdv| pdv.is_same(&self.pdv)) {
            out.push(OF_DELAYS);
        } else {
            out.push(OWN);
            self.pdv.write(&mut out);
        }
        self.ipdv.write(&mut out);
        if !self.worst.is_empty() {
            put(&mut out, self.worst.len() as u128);
        }
        for (key, value) in &self.worst {
            put(&mut out, key.len() as u128);
            out.extend(key.as_bytes());
            out.extend(value.to_bits().to_le_bytes());
        }
        out
    }

    /// Reads a pool from bytes returned by [`Pool::to_bytes`]; `None` if they are not valid. Memory is
    /// limited to a few megabytes plus a multiple of the number of bytes.
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Pool> {
        let with_worst = bytes.first() == Some(&WITH_WORST);
        let mut pool = take_delays(&mut bytes)?;
        pool.ipdv = Pooled::read(&mut bytes)?;
        for _ in 0..if with_worst { take_u64(&mut bytes)? } else { 0 } {
            let length = usize::try_from(take_u64(&mut bytes)?).ok()?;
            let key = core::str::from_utf8(bytes.split_off(..length)?).ok()?;
            let (value, rest) = bytes.split_first_chunk()?;
            bytes = rest;
            pool.worst.insert(key.to_owned(), f64::from_bits(u64::from_le_bytes(*value)));
        }
        Some(pool).filter(|pool| bytes.is_empty() && pool.is_possible())
    }

    /// Reads a pool without the differences between consecutive packets (IPDV), whose figures are then undefined. This
    /// takes two thirds of the time of [`Pool::from_bytes`]. Returns `None` if the bytes are not valid.
    pub fn delays_from_bytes(mut bytes: &[u8]) -> Option<Pool> {
        take_delays(&mut bytes).filter(Pool::is_possible)
    }
}
