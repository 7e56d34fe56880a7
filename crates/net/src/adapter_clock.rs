//! Clocks of network adapters, compared with the system's wall clock. A hardware stamp is a reading of the adapter's clock: its
//! offset from the system clock is an error of every hardware stamp.

use crate::doctor::interfaces::adapter_clock_of;
use crate::sys;
use jitlat_core::Span;
use jitlat_core::clock::{AdapterClock, AdapterTimescale};
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

/// Readings of an adapter's clock and of the system's.
enum Readings {
    /// Times of the adapter's and of the system's clock at the same instant, in ns.
    Together(i64, i64),
    /// Readings of three times, one after the other, in ns: system's, adapter's and again system's clock.
    Between(Vec<[i64; 3]>),
}

/// Offset between the time scales TAI and UTC if the kernel does not know it: it has been 37 s since 2017.
const USUAL_TAI_OFFSET: Span = Span::seconds(37);
/// Error of readings that hardware takes at the same instant; generous, because drivers do not report it.
const TOGETHER_BOUND: Span = Span::micros(1);

/// Compares clock `number` (`/dev/ptpN`) with the system clock.
///
/// # Errors
/// Errors of the operating system: the device is missing, may not be opened, or does not support the comparison; or no
/// reading is usable.
pub fn read(number: u32) -> io::Result<AdapterClock> {
    let device = File::open(format!("/dev/ptp{number}"))?;
    let readings = match sys::adapter_clock_beside(device.as_fd()) {
        Ok((adapter, system)) => Readings::Together(adapter, system),
        Err(_) => Readings::Between(sys::adapter_clock_between(device.as_fd())?),
    };
    evaluate(number, &readings, tai_offset()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Reads the clock of the adapter whose interface has the address `local`; `None` if it has none, or if it cannot be read.
pub fn of_address(local: IpAddr) -> Option<AdapterClock> {
    read(adapter_clock_of(local)?).ok()
}

/// Returns TAI − UTC as the kernel knows it.
fn tai_offset() -> Span {
    let known = sys::kernel_clock().ok().map(|(_, clock)| Span::seconds(clock.tai.into()));
    known.filter(|offset| offset.0 > 0).unwrap_or(USUAL_TAI_OFFSET)
}

/// Determines the offset from `readings`; `None` if none of them is usable. Adapters usually run on TAI, which PTP distributes;
/// the whole seconds between the time scales are not an error.
fn evaluate(number: u32, readings: &Readings, tai: Span) -> Option<AdapterClock> {
    let (difference, bound) = match readings {
        Readings::Together(adapter, system) => (adapter.checked_sub(*system)?, TOGETHER_BOUND),
        Readings::Between(all) => {
            let usable = all.iter().filter(|[before, _, after]| after >= before);
            let [before, adapter, after] = usable.min_by_key(|[before, _, after]| after - before)?;
            let width = after - before;
            (adapter.checked_sub(before + width / 2)?, Span(width - width / 2))
        }
    };
    let of = |scale: Span| Span(difference.saturating_sub(scale.0));
    let near = |offset: Span| offset.0.unsigned_abs() < Span::millis(500).0.unsigned_abs();
    let (timescale, offset) = match (of(Span::ZERO), of(tai)) {
        (utc, _) if near(utc) => (AdapterTimescale::Utc, utc),
        (_, atomic) if near(atomic) => (AdapterTimescale::Tai, atomic),
        (other, _) => (AdapterTimescale::Other, other),
    };
    Some(AdapterClock { device: number, timescale, offset, bound })
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::time::SECOND;

    const NOW: i64 = 1_795_000_000 * SECOND;
    const TAI: Span = Span::seconds(37);

    #[test]
    fn the_narrowest_reading_counts() {
        let between = |ahead: i64, widths: &[i64]| {
            let reading = |(k, width): (usize, &i64)| {
                let before = NOW + k as i64 * 1_000_000;
                [before, before + width / 2 + ahead, before + width]
            };
            Readings::Between(widths.iter().enumerate().map(reading).collect())
        };
        let found = |readings: &Readings| evaluate(3, readings, TAI);
        let clock = |timescale, offset, bound| {
            Some(AdapterClock { device: 3, timescale, offset: Span(offset), bound: Span(bound) })
        };
        let widths = [9000, 2500, 4000];
        assert_eq!(found(&between(700, &widths)), clock(AdapterTimescale::Utc, 700, 1250));
        assert_eq!(found(&between(TAI.0 - 120, &widths)), clock(AdapterTimescale::Tai, -120, 1250));
        // A clock that nothing has set counts from its start.
        let unset = found(&between(17 * SECOND - NOW, &widths)).unwrap();
        assert_eq!((unset.timescale, unset.is_usable()), (AdapterTimescale::Other, false));
        // Readings during which the system clock was set back are not used.
        assert_eq!(found(&between(0, &[-5000])), None);
        assert_eq!(found(&Readings::Between(Vec::new())), None);
        let together = Readings::Together(NOW + TAI.0 + 40, NOW);
        assert_eq!(found(&together), clock(AdapterTimescale::Tai, 40, 1000));
    }

    #[test]
    fn a_bound_contains_the_true_offset() {
        // The adapter is read at any time between the two readings of the system clock.
        for at in [0, 1, 1200, 2499, 2500] {
            let found = evaluate(0, &Readings::Between(vec![[NOW, NOW + at + 50, NOW + 2500]]), TAI).unwrap();
            assert!((found.offset.0 - 50).abs() <= found.bound.0, "{at}: {found:?}");
        }
    }

    #[test]
    fn a_host_without_the_device_has_no_clock() {
        assert!(read(u32::MAX).is_err());
        assert_eq!(of_address(IpAddr::from([127, 0, 0, 1])), None);
    }
}
