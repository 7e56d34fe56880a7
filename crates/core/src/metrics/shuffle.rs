//! [`Shuffle`]: which arrivals came in another order than they were sent.

use std::ops::Range;

/// Where arrivals were not in send order. Between these stretches every arrival is in its place, and no packet has its place
/// in another stretch than the one it arrived in.
#[derive(Clone, Debug, Default)]
pub(super) struct Shuffle {
    pub(super) stretches: Vec<MovedStretch>,
    /// By place in send order, which arrival it was: of all stretches, one after the other.
    order: Vec<u32>,
    /// By arrival, its place in send order: the same.
    pub(super) ranks: Vec<u32>,
    /// The first stretch that ends after 0, [`STEP`], 2 [`STEP`]… arrivals.
    first: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct MovedStretch {
    /// First arrival, and the one after the last.
    pub(super) from: u32,
    pub(super) to: u32,
    /// Where its arrivals begin in the columns.
    pub(super) at: u32,
}

/// Arrivals for each of which it is known near which stretch they are.
const STEP: usize = 64;

impl Shuffle {
    /// Of arrivals with these numbers; None if they ascend.
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
            for (place, k) in (start..).zip(&shuffle.order[at..]) {
                shuffle.ranks[at + *k as usize - start] = place as u32;
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

    /// The stretches that end after the k-th arrival.
    #[inline]
    pub(super) fn from(&self, k: usize) -> &[MovedStretch] {
        let near = self.first.get(k / STEP).map_or(self.stretches.len(), |first| *first as usize);
        let ended = self.stretches[near..].iter().take_while(|s| s.to as usize <= k).count();
        &self.stretches[near + ended..]
    }

    /// Which arrivals a stretch is, by place in send order.
    #[inline]
    pub(super) fn order_of(&self, stretch: &MovedStretch) -> &[u32] {
        &self.order[stretch.at as usize..][..(stretch.to - stretch.from) as usize]
    }

    /// Which arrival the k-th packet sent was.
    #[inline]
    pub(super) fn arrival(&self, k: usize) -> usize {
        match self.from(k).first() {
            Some(s) if s.from as usize <= k => self.order[s.at as usize + k - s.from as usize] as usize,
            _ => k,
        }
    }
}

/// Adds to `order` the arrivals at `range` by their numbers `seq`; in `room`.
fn sort_by_number(seq: &[u32], range: Range<usize>, order: &mut Vec<u32>, room: &mut Vec<u32>) {
    const NONE: u32 = u32::MAX;
    let (numbers, at) = (&seq[range.clone()], order.len());
    let least = numbers.iter().copied().min().unwrap_or(0);
    let span = numbers.iter().map(|number| number - least).max().map_or(0, |most| most as usize + 1);
    // A place for each number between them, if few are missing.
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
        // A number stands there twice, which is so in a state that somebody made up alone.
    }
    order.extend(range.map(|k| k as u32));
    order[at..].sort_unstable_by_key(|k| (seq[*k as usize], *k));
}

/// The shortest stretches, ascending, such that with each of them sorted all of `seq` are.
fn displaced(seq: &[u32]) -> Vec<Range<usize>> {
    // With the highest number in each.
    let mut found: Vec<(Range<usize>, u32)> = Vec::new();
    let mut highest = 0;
    for (k, &late) in seq.iter().enumerate() {
        if late >= highest {
            highest = late;
            continue;
        }
        // Everything before it that is higher.
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
