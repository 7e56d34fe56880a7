//! A [`Pool`] as bytes: a fraction of its JSON, and quick to read.

use super::{Pool, Pooled, halves, whole};
use crate::distribution::LogHistogram;
use crate::distribution::log_histogram::bytes::{put, put_signed, take_signed, take_u64};

/// What they begin with: the version.
const VERSION: u8 = 1;
/// How the delays less the smallest of their test are given: themselves, or by the delays of the only test.
const OWN: u8 = 0;
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

    /// Of exact values, those above the smallest.
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

impl Pool {
    fn counts(&self) -> [u64; 10] {
        let Pool { tests, sent, received, unique, duplicate, .. } = *self;
        let Pool { invalid, lost, out_of_sequence, loss_runs, longest_loss_run, .. } = *self;
        [
            tests,
            sent,
            received,
            unique,
            duplicate,
            invalid,
            lost,
            out_of_sequence,
            loss_runs,
            longest_loss_run,
        ]
    }

    /// As bytes, from which [`Pool::from_bytes`] makes the same. Values that are few enough to be kept lose their order.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        self.counts().into_iter().for_each(|n| put(&mut out, n.into()));
        self.delay.write(&mut out);
        if self.delay.above_smallest().is_some_and(|pdv| pdv.is_same(&self.pdv)) {
            out.push(OF_DELAYS);
        } else {
            out.push(OWN);
            self.pdv.write(&mut out);
        }
        self.ipdv.write(&mut out);
        out
    }

    /// What [`Pool::to_bytes`] made them of; `None` if they are nothing of the kind. Whatever they are, it takes a few megabytes at most
    /// beside what is proportional to them.
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Pool> {
        let bytes = &mut bytes;
        if bytes.split_off_first()? != &VERSION {
            return None;
        }
        let mut counts = [0; 10];
        for n in &mut counts {
            *n = take_u64(bytes)?;
        }
        let [
            tests,
            sent,
            received,
            unique,
            duplicate,
            invalid,
            lost,
            out_of_sequence,
            loss_runs,
            longest_loss_run,
        ] = counts;
        let delay = Pooled::read(bytes)?;
        let pdv = match *bytes.split_off_first()? {
            OWN => Pooled::read(bytes)?,
            OF_DELAYS => delay.above_smallest()?,
            _ => return None,
        };
        let ipdv = Pooled::read(bytes)?;
        let pool = Pool {
            tests,
            sent,
            received,
            unique,
            duplicate,
            invalid,
            lost,
            out_of_sequence,
            loss_runs,
            longest_loss_run,
            delay,
            pdv,
            ipdv,
        };
        Some(pool).filter(|pool| bytes.is_empty() && pool.is_possible())
    }
}
