//! Send times of the packets of a session (RFC 4656 §5, §3.6). Both ends compute the send times from the
//! session's identifier and slots: the sender follows them, and the receiver needs them to detect losses. The
//! arithmetic is fixed-point, so that both ends get identical results.

use super::message::ScheduleSlot;
use crate::amp::Sid;
use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use jitlat_core::ntp::NtpTime;

/// Partial sums of ln2ⁱ / i!, in units of 2⁻³². The first is ln 2.
const Q: [u32; 11] = [
    0xb172_17f8,
    0xeef1_93f7,
    0xfd27_1862,
    0xff9d_6dd0,
    0xfff4_cfd0,
    0xfffe_e819,
    0xffff_e7ff,
    0xffff_fe2b,
    0xffff_ffe0,
    0xffff_fffe,
    0xffff_ffff,
];

/// Generator of random numbers that are the same at both ends: AES in counter mode, keyed with the session
/// identifier.
#[derive(Clone)]
struct Uniform {
    cipher: Aes128,
    /// Number of 32-bit words drawn so far; a block contains several.
    drawn: u128,
    block: [u8; 16],
}

impl Uniform {
    fn new(sid: &Sid) -> Uniform {
        Uniform { cipher: Aes128::new(&sid.0.into()), drawn: 0, block: [0; 16] }
    }

    /// Returns the next 32 bits.
    fn draw(&mut self) -> u32 {
        let word = (self.drawn % 4) as usize;
        if word == 0 {
            let mut block = self.drawn.to_be_bytes().into();
            self.cipher.encrypt_block(&mut block);
            self.block = block.into();
        }
        self.drawn += 1;
        self.block.as_chunks::<4>().0.get(word).map_or(0, |bytes| u32::from_be_bytes(*bytes))
    }

    /// Returns an exponential deviate of mean 1, in units of 2⁻³² (Knuth's algorithm 3.4.1 S).
    fn exponential(&mut self) -> u64 {
        let ln2 = u64::from(Q[0]);
        let u = self.draw();
        let ones = u.leading_ones();
        // Also removes the zero that follows the leading ones.
        let u = u.checked_shl(ones + 1).unwrap_or(0);
        if u < Q[0] {
            return u64::from(ones) * ln2 + u64::from(u);
        }
        let k = 1 + Q.iter().position(|q| u < *q).unwrap_or(Q.len());
        let least = (0..k).map(|_| self.draw()).min().unwrap_or(0);
        multiply(u64::from(ones) << 32 | u64::from(least), ln2)
    }
}

/// Returns the product of two 32.32 numbers, truncated to 32.32.
fn multiply(x: u64, y: u64) -> u64 {
    ((u128::from(x) * u128::from(y)) >> 32) as u64
}

/// Send times of one session, in order. The first packet is sent one step after the start.
#[derive(Clone)]
pub struct OwampSchedule {
    slots: Box<[ScheduleSlot]>,
    uniform: Uniform,
    at: NtpTime,
    next: u32,
    packets: u32,
}

impl OwampSchedule {
    /// Creates the schedule of the session `sid`: `packets` packets from `start` on, with gaps according to
    /// `slots`, which are used in turn. If there are more slots than packets, the last ones are not used.
    pub fn new(sid: &Sid, start: NtpTime, slots: &[ScheduleSlot], packets: u32) -> OwampSchedule {
        let used = slots.len().min(packets as usize);
        OwampSchedule {
            slots: slots[..used].into(),
            uniform: Uniform::new(sid),
            at: start,
            next: 0,
            // Without slots there is no schedule.
            packets: if slots.is_empty() { 0 } else { packets },
        }
    }
}

impl Iterator for OwampSchedule {
    type Item = NtpTime;

    fn next(&mut self) -> Option<NtpTime> {
        if self.next >= self.packets {
            return None;
        }
        let step = match self.slots[self.next as usize % self.slots.len()] {
            ScheduleSlot::Exponential(mean) => multiply(self.uniform.exponential(), mean),
            ScheduleSlot::Fixed(interval) => interval,
        };
        self.next += 1;
        self.at = NtpTime(self.at.0.wrapping_add(step));
        Some(self.at)
    }
}

impl core::fmt::Debug for OwampSchedule {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Schedule")
            .field("next", &self.next)
            .field("packets", &self.packets)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::unhex;

    fn sid(hex: &str) -> Sid {
        Sid(unhex(hex).try_into().unwrap())
    }

    fn offsets(name: &str, slots: &[ScheduleSlot], packets: u32) -> Vec<u64> {
        OwampSchedule::new(&sid(name), NtpTime(0), slots, packets).map(|t| t.0).collect()
    }

    /// Check values of RFC 4656 Appendix B: sums of deviates of mean 1.
    #[test]
    fn published_check_values() {
        let published = [
            (
                "2872979303ab47eeac028dab3829dab2",
                [0x6d27_e540, 0xd_65c2_252a, 0x65_9ec0_a4ad, 0x3eb_7d73_5c01],
                0xf_4479_bd31_7381,
            ),
            ("0102030405060708090a0b0c0d0e0f00", [0; 4], 0xf_4336_8646_6a62),
            ("deadbeefdeadbeefdeadbeefdeadbeef", [0; 4], 0xf_416c_8884_d2d3),
            ("feed0feed1feed2feed3feed4feed5ab", [0; 4], 0xf_3f0b_4b41_6ec8),
        ];
        for (name, early, million) in published {
            let sums = offsets(name, &[ScheduleSlot::Exponential(1 << 32)], 1_000_000);
            assert_eq!(sums[999_999], million, "{name}");
            if early != [0; 4] {
                assert_eq!([1, 10, 100, 1000].map(|n: usize| sums[n - 1]), early, "{name}");
            }
        }
    }

    /// Schedule of a recorded session. The sender sent each packet 76 to 144 µs late.
    #[test]
    fn a_recorded_schedule() {
        let offsets =
            offsets("0a580002eeacbf271fc85c24ce3774ff", &[ScheduleSlot::Exponential(0x051e_b851)], 20);
        assert_eq!(offsets[..5], [0x0285_d110, 0x0bab_8075, 0x10b5_9db2, 0x132e_8cbd, 0x1d1b_39c6]);
        assert_eq!(offsets[19], 0x5cbf_390d);
    }

    #[test]
    fn slots_take_turns_and_fixed_ones_draw_nothing() {
        let slots = [ScheduleSlot::Exponential(1 << 32), ScheduleSlot::Fixed(7)];
        let mixed = offsets("2872979303ab47eeac028dab3829dab2", &slots, 20);
        assert_eq!(mixed[18], 0xd_65c2_252a + 9 * 7);
        assert_eq!(mixed[19] - mixed[18], 7);
        assert!(offsets("2872979303ab47eeac028dab3829dab2", &[], 20).is_empty());
        // With more slots than packets, the last slots are not reached.
        assert_eq!(offsets("2872979303ab47eeac028dab3829dab2", &slots, 1), [0x6d27_e540]);
    }

    #[test]
    fn a_first_word_of_ones_is_thirty_two_doublings() {
        // Result of the algorithm for the rarest number, which may not occur in the published sums.
        assert_eq!(u32::MAX.leading_ones(), 32);
        assert_eq!(u32::MAX.checked_shl(33), None);
    }
}
