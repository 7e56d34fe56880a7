//! [`Shuffle`]: the arrivals that were reordered.

use std::ops::Range;

/// Stretches of arrivals that were not in send order. Between stretches, every arrival has the same index in both
/// orders. All packets of a stretch stay within it.
#[derive(Clone, Debug, Default)]
pub(super) struct Shuffle {
    pub(super) stretches: Vec<MovedStretch>,
    /// Arrival index by send-order index, for all stretches in sequence.
    order: Vec<u32>,
    /// Send-order index by arrival index, for all stretches in sequence.
    pub(super) ranks: Vec<u32>,
    /// Index of the first stretch that ends after k·[`STEP`] arrivals, for k = 0, 1, 2…
    first: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct MovedStretch {
    /// Index of the first arrival.
    pub(super) from: u32,
    /// Index after the last arrival.
    pub(super) to: u32,
    /// Offset of the stretch's arrivals in the columns.
    pub(super) at: u32,
}

/// Number of arrivals per entry in the index of stretches.
const STEP: usize = 64;

impl Shuffle {
    /// Creates the shuffle of arrivals with the sequence numbers `seq`; `None` if these ascend.
    pub(super) fn of(seq: &[u32]) -> Option<Shuffle> {
        let found = displaced(seq);
        if found.is_empty() {
            return None;
        }
        let mut shuffle = Shuffle::default();
        let mut room = Vec::new();
        for Range { start, end } in found {
            let at = shuffle.order.len();
            sort_by_number(seq, start..end, &mut shuffle.order, &mut room);
            shuffle.ranks.resize(at + end - start, 0);
            for (position, k) in (start..).zip(&shuffle.order[at..]) {
                shuffle.ranks[at + *k as usize - start] = position as u32;
            }
            shuffle.stretches.push(MovedStretch { from: start as u32, to: end as u32, at: at as u32 });
        }
        let mut next = 0;
        shuffle.first = (0..seq.len().div_ceil(STEP))
            .map(|k| {
                let ended = |s: &&MovedStretch| s.to as usize <= k * STEP;
                next += shuffle.stretches[next..].iter().take_while(ended).count();
                next as u32
            })
            .collect();
        Some(shuffle)
    }

    /// Returns the stretches that end after the k-th arrival.
    #[inline]
    pub(super) fn from(&self, k: usize) -> &[MovedStretch] {
        let near = self.first.get(k / STEP).map_or(self.stretches.len(), |first| *first as usize);
        let ended = self.stretches[near..].iter().take_while(|s| s.to as usize <= k).count();
        &self.stretches[near + ended..]
    }

    /// Returns the arrival indices of a stretch in send order.
    #[inline]
    pub(super) fn order_of(&self, stretch: &MovedStretch) -> &[u32] {
        &self.order[stretch.at as usize..][..(stretch.to - stretch.from) as usize]
    }

    /// Returns the arrival index of the k-th packet sent.
    #[inline]
    pub(super) fn arrival(&self, k: usize) -> usize {
        match self.from(k).first() {
            Some(s) if s.from as usize <= k => self.order[s.at as usize + k - s.from as usize] as usize,
            _ => k,
        }
    }
}

/// Appends the arrivals in `range`, sorted by their sequence numbers in `seq`, to `order`. `room` is a reusable buffer.
fn sort_by_number(seq: &[u32], range: Range<usize>, order: &mut Vec<u32>, room: &mut Vec<u32>) {
    const NONE: u32 = u32::MAX;
    let (numbers, at) = (&seq[range.clone()], order.len());
    let least = numbers.iter().copied().min().unwrap_or(0);
    let span = numbers.iter().map(|number| number - least).max().map_or(0, |most| most as usize + 1);
    // If few numbers are missing, use one slot per number instead of sorting.
    if span <= 4 * numbers.len() {
        room.clear();
        room.resize(span, NONE);
        for (k, number) in range.clone().zip(numbers) {
            room[(number - least) as usize] = k as u32;
        }
        room.retain(|k| *k != NONE);
        if room.len() == numbers.len() {
            return order.extend_from_slice(room);
        }
        // A number occurs twice, which is only possible in a forged state: sort instead.
    }
    order.extend(range.map(|k| k as u32));
    order[at..].sort_unstable_by_key(|k| (seq[*k as usize], *k));
}

/// Returns the shortest ranges, ascending, whose sorting sorts all of `seq`.
fn displaced(seq: &[u32]) -> Vec<Range<usize>> {
    // Ranges, each with its highest number.
    let mut found: Vec<(Range<usize>, u32)> = Vec::new();
    let mut highest = 0;
    for (k, &late) in seq.iter().enumerate() {
        if late >= highest {
            highest = late;
            continue;
        }
        // Extend the range backwards to all higher numbers before it.
        let mut from = k;
        while from > 0 {
            match found.last() {
                Some((before, most)) if before.end == from => {
                    if *most < late {
                        break;
                    }
                    from = before.start;
                    found.pop();
                }
                _ if seq[from - 1] > late => from -= 1,
                _ => break,
            }
        }
        found.push((from..k + 1, highest));
    }
    found.into_iter().map(|(range, _)| range).collect()
}
