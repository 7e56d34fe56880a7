//! [`SeqSet`]: the set of accepted sequence numbers. Its memory grows with the number of packets received, even if they
//! claim arbitrary sequence numbers.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// Number of words in a page; eight words fill one cache line.
const WORDS: usize = 8;
const PAGE: u32 = 64 * WORDS as u32;

/// A set of sequence numbers as a paged bitmap: about one bit per packet of an ordinary stream, and one page of 64
/// bytes per packet in the worst case.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(into = "Pages", try_from = "Pages")]
pub struct SeqSet {
    pages: Vec<[u64; WORDS]>,
    /// Index in `pages` of each page number. Ascending, because scans need that order.
    indices: BTreeMap<u32, u32>,
    /// Indices released by [`SeqSet::retire`].
    free: Vec<u32>,
    /// The page used last. Streams are nearly in order, so it is usually needed next.
    recent: Option<(u32, u32)>,
    len: u64,
}

/// The bitmaps of a set, by page number.
type Pages = BTreeMap<u32, [u64; WORDS]>;

impl From<SeqSet> for Pages {
    fn from(set: SeqSet) -> Pages {
        set.indices.iter().map(|(&page, &index)| (page, set.pages[index as usize])).collect()
    }
}

impl TryFrom<Pages> for SeqSet {
    type Error = &'static str;

    fn try_from(pages: Pages) -> Result<SeqSet, &'static str> {
        let mut set = SeqSet::default();
        for (page, words) in pages {
            if page > u32::MAX / PAGE {
                return Err("a sequence number beyond 32 bits");
            }
            let index = set.page_of(page) as usize;
            set.pages[index] = words;
            set.len += words.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        }
        Ok(set)
    }
}

impl SeqSet {
    /// Adds `seq`; returns false if it was already in the set.
    #[inline]
    pub fn insert(&mut self, seq: u32) -> bool {
        let index = match self.recent {
            Some((page, index)) if page == seq / PAGE => index,
            _ => self.page_of(seq / PAGE),
        };
        let word = &mut self.pages[index as usize][(seq % PAGE / 64) as usize];
        let bit = 1u64 << (seq % 64);
        let new = *word & bit == 0;
        *word |= bit;
        self.len += u64::from(new);
        new
    }

    /// Adds all of `run`.
    pub fn insert_run(&mut self, run: Range<u32>) {
        self.change_run(run, |word, bits| *word |= bits);
    }

    /// Calls `change` for every word that contains numbers of `run`, with a mask of their bits.
    fn change_run(&mut self, run: Range<u32>, change: impl Fn(&mut u64, u64)) {
        let (mut at, end) = (u64::from(run.start), u64::from(run.end));
        while at < end {
            let page = (at / u64::from(PAGE)) as u32;
            let index = match self.recent {
                Some((known, index)) if known == page => index,
                _ => self.page_of(page),
            };
            let from = (at % u64::from(PAGE)) as u32;
            let to = (end - u64::from(page) * u64::from(PAGE)).min(PAGE.into()) as u32;
            let first = from / 64;
            let words = &mut self.pages[index as usize][first as usize..to.div_ceil(64) as usize];
            for (word, begin) in words.iter_mut().zip((64 * first..).step_by(64)) {
                let (low, high) = (from.max(begin) - begin, to.min(begin + 64) - begin);
                let before = word.count_ones();
                change(word, u64::MAX >> (64 - (high - low)) << low);
                self.len = self.len + u64::from(word.count_ones()) - u64::from(before);
            }
            at += u64::from(to - from);
        }
    }

    /// Splits off the sequence numbers from `number` on and renumbers them from 0.
    pub fn split_off(&mut self, number: u32) -> SeqSet {
        let mut rest = SeqSet::default();
        let from = u64::from(number);
        let later =
            |run: SeqRun| Some((run.start.max(from), run.start + run.len)).filter(|(from, to)| from < to);
        let later: Vec<(u64, u64)> = self.runs().filter_map(later).collect();
        for (start, end) in later {
            rest.insert_run((start - from) as u32..(end - from) as u32);
            self.change_run(start as u32..end as u32, |word, bits| *word &= !bits);
        }
        rest
    }

    /// Removes `seq`; returns false if it was not in the set.
    pub fn remove(&mut self, seq: u32) -> bool {
        let Some(&index) = self.indices.get(&(seq / PAGE)) else { return false };
        let word = &mut self.pages[index as usize][(seq % PAGE / 64) as usize];
        let bit = 1u64 << (seq % 64);
        let there = *word & bit != 0;
        *word &= !bit;
        self.len -= u64::from(there);
        there
    }

    /// Returns true if `seq` is in the set.
    #[inline]
    pub fn contains(&self, seq: u32) -> bool {
        let index = match self.recent {
            Some((page, index)) if page == seq / PAGE => index,
            _ => match self.indices.get(&(seq / PAGE)) {
                Some(&index) => index,
                None => return false,
            },
        };
        self.pages[index as usize][(seq % PAGE / 64) as usize] >> (seq % 64) & 1 == 1
    }

    fn page_of(&mut self, page: u32) -> u32 {
        let next = self.free.last().copied().unwrap_or(self.pages.len() as u32);
        let index = *self.indices.entry(page).or_insert(next);
        if index == next && self.free.pop().is_none() {
            self.pages.push([0; WORDS]);
        }
        self.recent = Some((page, index));
        index
    }

    /// Returns the number of elements.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the largest element; `None` if the set is empty.
    pub fn max(&self) -> Option<u32> {
        self.indices.iter().rev().find_map(|(&page, &index)| {
            let words = &self.pages[index as usize];
            let top = words.iter().rposition(|w| *w != 0)?;
            Some(page * PAGE + 64 * top as u32 + words[top].ilog2())
        })
    }

    /// Iterates over the maximal runs of consecutive numbers, ascending.
    pub fn runs(&self) -> SeqRuns<impl Iterator<Item = (u64, u64)>> {
        let words = self.indices.iter().flat_map(|(&page, &index)| {
            let base = u64::from(page) * u64::from(PAGE);
            self.pages[index as usize].iter().enumerate().map(move |(i, &w)| (base + 64 * i as u64, w))
        });
        SeqRuns { words, word: (0, 0), pending: None }
    }

    /// Iterates over the numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.runs().flat_map(|run| (run.start..run.start + run.len).map(|seq| seq as u32))
    }

    /// Adds all numbers of `other`.
    pub fn merge(&mut self, other: &SeqSet) {
        for (&page, &index) in other.indices.iter().filter(|p| other.pages[*p.1 as usize] != [0; WORDS]) {
            let target = self.page_of(page) as usize;
            for (word, add) in self.pages[target].iter_mut().zip(other.pages[index as usize]) {
                self.len += u64::from((add & !*word).count_ones());
                *word |= add;
            }
        }
    }

    /// Returns the number of pages of 512 sequence numbers in use.
    pub fn pages(&self) -> usize {
        self.indices.len()
    }

    /// Forgets the page with the smallest numbers. Returns its runs and the first number after it; `None` if no page is
    /// left. Forgotten numbers still count in [`SeqSet::len`].
    pub fn retire(&mut self) -> Option<(Vec<SeqRun>, u64)> {
        let (page, index) = self.indices.pop_first()?;
        let base = u64::from(page) * u64::from(PAGE);
        let words = core::mem::take(&mut self.pages[index as usize]);
        let words = (0..).zip(words).map(|(i, w)| (base + 64 * i, w));
        self.free.push(index);
        self.recent = None;
        Some((SeqRuns { words, word: (0, 0), pending: None }.collect(), base + u64::from(PAGE)))
    }

    /// Returns the ranks of the numbers in the set, which [`Ranks::of`] looks up.
    pub fn ranks(&self) -> Ranks<'_> {
        let mut before = vec![0; self.pages.len()];
        let mut sum = 0;
        for &index in self.indices.values() {
            before[index as usize] = sum;
            sum += self.pages[index as usize].iter().map(|w| w.count_ones()).sum::<u32>();
        }
        Ranks { set: self, before, recent: None }
    }
}

/// Ranks of numbers in a set.
pub struct Ranks<'a> {
    set: &'a SeqSet,
    before: Vec<u32>,
    recent: Option<(u32, u32)>,
}

impl Ranks<'_> {
    /// Returns the rank of `seq`, which must be in the set: the number of elements below it.
    #[inline]
    pub fn of(&mut self, seq: u32) -> u32 {
        let index = match self.recent {
            Some((page, index)) if page == seq / PAGE => index,
            _ => match self.set.indices.get(&(seq / PAGE)) {
                Some(&index) => {
                    self.recent = Some((seq / PAGE, index));
                    index
                }
                None => return 0,
            },
        } as usize;
        let (words, at) = (&self.set.pages[index], (seq % PAGE / 64) as usize);
        let inside: u32 = words[..at].iter().map(|w| w.count_ones()).sum();
        self.before[index] + inside + (words[at] & !(u64::MAX << (seq % 64))).count_ones()
    }
}

/// A run of consecutive sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SeqRun {
    /// First number.
    pub start: u64,
    /// Number of elements, at least 1.
    pub len: u64,
}

/// Iterator over maximal runs of set bits, given ascending pairs of a word and the number of its lowest bit.
pub struct SeqRuns<W> {
    words: W,
    word: (u64, u64),
    pending: Option<SeqRun>,
}

impl<W: Iterator<Item = (u64, u64)>> Iterator for SeqRuns<W> {
    type Item = SeqRun;

    fn next(&mut self) -> Option<SeqRun> {
        loop {
            let (base, bits) = self.word;
            if bits == 0 {
                match self.words.next() {
                    Some(word) => self.word = word,
                    None => return self.pending.take(),
                }
                continue;
            }
            let low = bits.trailing_zeros();
            let len = (!(bits >> low)).trailing_zeros();
            self.word.1 = if low + len == 64 { 0 } else { bits & (u64::MAX << (low + len)) };
            let found = SeqRun { start: base + u64::from(low), len: len.into() };
            match &mut self.pending {
                Some(run) if run.start + run.len == found.start => run.len += found.len,
                pending => {
                    if let Some(done) = pending.replace(found) {
                        return Some(done);
                    }
                }
            }
        }
    }
}

/// Iterates over the runs of 0…n−1 that are not in `present`, ascending: the loss bursts.
pub fn absent(present: impl Iterator<Item = SeqRun>, n: u64) -> impl Iterator<Item = SeqRun> {
    let end = core::iter::once(SeqRun { start: n, len: 1 });
    let mut next = 0;
    present.take_while(move |run| run.start < n).chain(end).filter_map(move |run| {
        let lost = SeqRun { start: next, len: run.start.saturating_sub(next) };
        next = run.start + run.len;
        (lost.len > 0).then_some(lost)
    })
}

/// Iterates over the parts of `runs` outside `cut`. Both are ascending and do not overlap.
pub fn without(
    runs: impl Iterator<Item = SeqRun>,
    cut: impl Iterator<Item = SeqRun>,
) -> impl Iterator<Item = SeqRun> {
    let end = |run: &SeqRun| run.start.saturating_add(run.len);
    let (mut runs, mut cut) = (runs, cut.peekable());
    let mut rest: Option<SeqRun> = None;
    core::iter::from_fn(move || {
        loop {
            let run = rest.take().or_else(|| runs.next())?;
            while cut.next_if(|c| end(c) <= run.start).is_some() {}
            let Some(c) = cut.peek().filter(|c| c.start < end(&run)) else { return Some(run) };
            if end(c) < end(&run) {
                rest = Some(SeqRun { start: end(c), len: end(&run) - end(c) });
            }
            if run.start < c.start {
                return Some(SeqRun { start: run.start, len: c.start - run.start });
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn hostile_numbers_cost_a_page_each() {
        let mut set = SeqSet::default();
        for seq in [0, u32::MAX, 1 << 31, 77_777_777] {
            assert!(set.insert(seq) && !set.insert(seq));
        }
        assert_eq!((set.pages.len(), set.len(), set.max()), (4, 4, Some(u32::MAX)));
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 77_777_777, 1 << 31, u32::MAX]);
    }

    proptest! {
        #[test]
        fn equals_an_ordinary_set(seqs in prop::collection::vec(0u32..3000, 0..400), n in 0u64..3200) {
            let mut set = SeqSet::default();
            let mut twin = BTreeSet::new();
            for &s in &seqs {
                prop_assert_eq!(set.insert(s), twin.insert(s));
            }
            for s in seqs.iter().step_by(5) {
                prop_assert_eq!(set.remove(*s), twin.remove(s));
            }
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), twin.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(set.max(), twin.last().copied());
            prop_assert_eq!((set.len(), set.is_empty()), (twin.len() as u64, twin.is_empty()));
            for s in 0..3200 {
                prop_assert_eq!(set.contains(s), twin.contains(&s));
            }
            let (even, third) = (self::set((0..3200).filter(|s| s % 2 == 0 && twin.contains(s))), self::set((0..3200).step_by(3)));
            let mut both = third.clone();
            both.merge(&even);
            let union: Vec<u32> = (0..3200).filter(|s| third.contains(*s) || even.contains(*s)).collect();
            prop_assert_eq!((both.len(), both.iter().collect::<Vec<_>>()), (union.len() as u64, union));
            let mut ranks = set.ranks();
            for (k, s) in twin.iter().enumerate() {
                prop_assert_eq!(ranks.of(*s), k as u32);
            }
            let lost: Vec<u64> = absent(set.runs(), n).flat_map(|r| r.start..r.start + r.len).collect();
            let expected: Vec<u64> = (0..n).filter(|i| !twin.contains(&(*i as u32))).collect();
            prop_assert_eq!(lost, expected);
        }
    }

    fn set(seqs: impl IntoIterator<Item = u32>) -> SeqSet {
        let mut set = SeqSet::default();
        seqs.into_iter().for_each(|seq| _ = set.insert(seq));
        set
    }

    proptest! {
        #[test]
        fn a_run_is_added_as_its_numbers(runs in prop::collection::vec((0u32..3000, 0u32..1400), 1..6)) {
            let (mut at_once, mut one_by_one) = (SeqSet::default(), SeqSet::default());
            for (start, len) in runs {
                at_once.insert_run(start..start + len);
                (start..start + len).for_each(|seq| _ = one_by_one.insert(seq));
                prop_assert_eq!(at_once.len(), one_by_one.len());
                prop_assert_eq!(at_once.runs().collect::<Vec<_>>(), one_by_one.runs().collect::<Vec<_>>());
            }
            let later: Vec<u32> = one_by_one.iter().filter_map(|seq| seq.checked_sub(1200)).collect();
            prop_assert_eq!(at_once.split_off(1200).iter().collect::<Vec<_>>(), later);
            let before: Vec<u32> = one_by_one.iter().filter(|seq| *seq < 1200).collect();
            prop_assert_eq!(at_once.iter().collect::<Vec<_>>(), before);
        }
    }

    #[test]
    fn runs_cross_words_and_pages() {
        let runs: Vec<SeqRun> = set((3..700).chain([702, 704]).chain(1000..1024)).runs().collect();
        let run = |start, len| SeqRun { start, len };
        assert_eq!(runs, [run(3, 697), run(702, 1), run(704, 1), run(1000, 24)]);
    }

    #[test]
    fn the_page_of_the_smallest_is_forgotten() {
        // Pages have 512 numbers: page 3 has 1536 to 2047.
        let mut s = set([1600, 1601, 1536, 2047, 5000]);
        assert_eq!((s.pages(), s.contains(1600)), (2, true));
        let run = |start, len| SeqRun { start, len };
        assert_eq!(s.retire(), Some((vec![run(1536, 1), run(1600, 2), run(2047, 1)], 2048)));
        assert_eq!((s.pages(), s.len(), s.iter().collect::<Vec<_>>()), (1, 5, vec![5000]));
        assert!(!s.contains(1600) && s.contains(5000));
        // A released page is used again only once.
        assert!(s.insert(9000) && s.insert(12_000));
        assert_eq!((s.pages.len(), s.iter().collect::<Vec<_>>()), (3, vec![5000, 9000, 12_000]));
        assert_eq!(SeqSet::default().retire(), None);
    }

    #[test]
    fn sets_are_stored_by_page() {
        let s = set([0, 63, 64, 511, 512, u32::MAX]);
        let stored = serde_json::to_string(&s).unwrap();
        let mut back: SeqSet = serde_json::from_str(&stored).unwrap();
        assert_eq!((back.len(), back.iter().collect::<Vec<_>>()), (6, s.iter().collect()));
        assert!(!back.insert(511) && back.insert(513));
        let beyond = stored.replace("\"8388607\"", "\"8388608\"");
        assert!(serde_json::from_str::<SeqSet>(&beyond).unwrap_err().to_string().contains("beyond 32 bits"));
    }

    #[test]
    fn nothing_is_empty_and_one_number_is_not() {
        let mut set = SeqSet::default();
        assert!(set.is_empty());
        set.insert(7);
        assert!(!set.is_empty());
    }

    #[test]
    fn what_is_cut_out_is_left_out() {
        let runs =
            |of: &[(u64, u64)]| of.iter().map(|&(start, len)| SeqRun { start, len }).collect::<Vec<_>>();
        let of = |from: &[(u64, u64)], cut: &[(u64, u64)]| {
            without(runs(from).into_iter(), runs(cut).into_iter()).collect::<Vec<_>>()
        };
        for (from, cut, left) in [
            (&[(5, 10)][..], &[][..], &[(5, 10)][..]),
            (&[(5, 10)], &[(0, 5), (15, 3)], &[(5, 10)]),
            (&[(5, 10)], &[(0, 6), (14, 3)], &[(6, 8)]),
            (&[(5, 10)], &[(5, 10)], &[]),
            (&[(5, 10)], &[(0, 30)], &[]),
            (&[(5, 10)], &[(7, 2), (10, 1)], &[(5, 2), (9, 1), (11, 4)]),
            (&[(5, 10), (20, 5)], &[(12, 10)], &[(5, 7), (22, 3)]),
            (&[(5, 10), (20, 5)], &[(0, 1), (6, 1), (24, 9)], &[(5, 1), (7, 8), (20, 4)]),
        ] {
            assert_eq!(of(from, cut), runs(left), "{from:?} without {cut:?}");
        }
    }
}
