//! Clocks of network adapters (`/dev/ptpN`): readings together with the system clock.

use super::check;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Number of readings per request of [`adapter_clock_between`]; the kernel's maximum.
pub(crate) const ADAPTER_READINGS: usize = 25;

/// A time of the kernel's interface to adapter clocks (`struct ptp_clock_time`).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PtpClockTime {
    seconds: i64,
    nanoseconds: u32,
    reserved: u32,
}

impl PtpClockTime {
    fn nanos(self) -> i64 {
        self.seconds.saturating_mul(1_000_000_000).saturating_add(self.nanoseconds.into())
    }
}

/// `struct ptp_sys_offset_precise`.
#[repr(C)]
#[derive(Default)]
struct PreciseOffset {
    device: PtpClockTime,
    realtime: PtpClockTime,
    raw: PtpClockTime,
    reserved: [u32; 4],
}

/// `struct ptp_sys_offset_extended`.
#[repr(C)]
struct ExtendedOffset {
    count: u32,
    /// Clock of the readings before and after, since Linux 6.12; 0 is `CLOCK_REALTIME`.
    clock: i32,
    reserved: [u32; 2],
    readings: [[PtpClockTime; 3]; ADAPTER_READINGS],
}

/// Returns the number of the ioctl that reads and writes a structure of `size` bytes (`_IOWR('=', number, …)`).
const fn request(number: u64, size: usize) -> u64 {
    const READ_AND_WRITE: u64 = 3;
    READ_AND_WRITE << 30 | (size as u64) << 16 | (b'=' as u64) << 8 | number
}

/// `PTP_SYS_OFFSET_PRECISE`.
const PRECISE: u64 = request(8, size_of::<PreciseOffset>());
/// `PTP_SYS_OFFSET_EXTENDED`.
const EXTENDED: u64 = request(9, size_of::<ExtendedOffset>());

/// Reads an adapter's clock and the system's wall clock at the same time, which the hardware of few adapters supports.
/// Returns the adapter's and the system's time in ns since their epochs.
pub(crate) fn adapter_clock_beside(device: BorrowedFd<'_>) -> io::Result<(i64, i64)> {
    let mut offset = PreciseOffset::default();
    // SAFETY: PTP_SYS_OFFSET_PRECISE fills a ptp_sys_offset_precise, whose layout PreciseOffset has; it outlives the call.
    check(unsafe { libc::ioctl(device.as_raw_fd(), PRECISE as _, &raw mut offset) })?;
    Ok((offset.device.nanos(), offset.realtime.nanos()))
}

/// Reads an adapter's clock, each time between two readings of the system's wall clock. Returns the three times of each
/// reading in ns: system, adapter, system.
pub(crate) fn adapter_clock_between(device: BorrowedFd<'_>) -> io::Result<Vec<[i64; 3]>> {
    let none = [[PtpClockTime::default(); 3]; ADAPTER_READINGS];
    let mut offset =
        ExtendedOffset { count: ADAPTER_READINGS as u32, clock: 0, reserved: [0; 2], readings: none };
    // SAFETY: PTP_SYS_OFFSET_EXTENDED fills as many readings of a ptp_sys_offset_extended, whose layout ExtendedOffset has,
    // as `count` states, which is the length of the array; the structure outlives the call.
    check(unsafe { libc::ioctl(device.as_raw_fd(), EXTENDED as _, &raw mut offset) })?;
    let count = (offset.count as usize).min(ADAPTER_READINGS);
    Ok(offset.readings[..count].iter().map(|reading| reading.map(PtpClockTime::nanos)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn requests_have_the_numbers_of_the_kernel() {
        assert_eq!((PRECISE, EXTENDED), (0xc040_3d08, 0xc4c0_3d09));
    }

    #[test]
    fn another_file_is_no_clock() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(adapter_clock_beside(file.as_fd()).is_err() && adapter_clock_between(file.as_fd()).is_err());
    }
}
