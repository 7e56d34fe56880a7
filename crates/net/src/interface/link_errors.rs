//! [`LinkErrors`]: errors and drops of an interface, as the kernel counts them for every kind (RTM_GETSTATS).

use super::SampleSource;
use crate::netlink::{Netlink, Question, attributes};
use jitlat_core::interface::InterfaceSample;
use std::io;

/// Message types of an interface's statistics, and the attribute and mask bit of `rtnl_link_stats64`.
const GET_STATS: u16 = 94;
const NEW_STATS: u16 = 92;
const LINK_64: u16 = 1;
const LINK_64_MASK: u32 = 1 << (LINK_64 - 1);
/// Length of `if_stats_msg`: family, padding, interface, mask.
const STATS_HEADER: usize = 12;
/// Positions in `rtnl_link_stats64`, in numbers of 64 bits.
const ERRORS: [usize; 2] = [4, 5];
const DROPS: [usize; 3] = [6, 7, 15];

/// Errors and drops of one interface.
pub(crate) struct LinkErrors {
    kernel: Netlink,
    question: [u8; STATS_HEADER],
}

impl LinkErrors {
    /// Reads from the interface with this index.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn of(index: u32) -> io::Result<LinkErrors> {
        let mut question = [0; STATS_HEADER];
        question[4..8].copy_from_slice(&index.to_ne_bytes());
        question[8..].copy_from_slice(&LINK_64_MASK.to_ne_bytes());
        Ok(LinkErrors { kernel: Netlink::open(libc::NETLINK_ROUTE)?, question })
    }
}

impl SampleSource for LinkErrors {
    fn read(&mut self, into: &mut InterfaceSample) {
        let question = Question { kind: GET_STATS, answer: NEW_STATS, all: false, body: &self.question };
        // An interface that was removed has no statistics.
        if let Ok(Some([errors, drops])) = self.kernel.ask(&question, counters) {
            (into.errors, into.drops) = (Some(errors), Some(drops));
        }
    }
}

/// Returns the sums of error and drop counters in the kernel's answer; `None` if it lacks them.
fn counters(answer: &[u8]) -> Option<[u64; 2]> {
    let (_, counters) = attributes(answer.get(STATS_HEADER..)?).find(|(kind, _)| *kind == LINK_64)?;
    let counter =
        |place: &usize| counters.get(8 * place..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
    let sum =
        |places: &[usize]| places.iter().map(counter).try_fold(0, |sum: u64, n| Some(sum.saturating_add(n?)));
    Some([sum(&ERRORS)?, sum(&DROPS)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attribute;
    use jitlat_core::WallTime;

    #[test]
    fn errors_and_drops_are_summed_and_any_answer_is_survived() {
        let numbers: Vec<u8> = (1..=24u64).flat_map(u64::to_ne_bytes).collect();
        let answer = [&[0; STATS_HEADER][..], &attribute(LINK_64, &numbers)].concat();
        assert_eq!(counters(&answer), Some([5 + 6, 7 + 8 + 16]));
        for cut in 0..answer.len() {
            assert_eq!(counters(&answer[..cut]), None);
        }
        assert_eq!(counters(&[255; 300]), None);
    }

    #[test]
    fn the_loopback_has_counters_and_a_missing_interface_has_none() {
        let read = |index| {
            let mut sample = InterfaceSample::at(WallTime(0));
            LinkErrors::of(index).unwrap().read(&mut sample);
            (sample.errors, sample.drops)
        };
        let loopback = nix::net::if_::if_nametoindex("lo").unwrap();
        assert!(matches!(read(loopback), (Some(_), Some(_))));
        assert_eq!(read(u32::MAX >> 1), (None, None));
    }
}
