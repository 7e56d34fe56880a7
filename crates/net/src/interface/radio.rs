//! [`Radio`]: signal, rates, retries and channel of a wireless interface, from the kernel's nl80211.

use super::SampleSource;
use crate::netlink::{Netlink, Question, attribute, attributes, u16_at, u32_at};
use jitlat_core::interface::InterfaceSample;
use std::io;

/// Type of questions to the controller of generic netlink, its command and attributes.
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const FAMILY: &[u8] = b"nl80211\0";
/// Length of `genlmsghdr`: command, version, reserved.
const GENERIC_HEADER: usize = 4;
/// Commands and attributes of nl80211 (linux/nl80211.h).
const GET_INTERFACE: u8 = 5;
const GET_STATION: u8 = 17;
const IFINDEX: u16 = 3;
const STATION_INFO: u16 = 21;
const FREQUENCY: u16 = 38;
const SIGNAL: u16 = 7;
const TX_RATE: u16 = 8;
const RETRIES: u16 = 11;
const FAILED: u16 = 12;
const RX_RATE: u16 = 14;
/// Attributes of a rate, in units of 100 kbit/s, with 16 and with 32 bits.
const RATE_16: u16 = 1;
const RATE_32: u16 = 5;
/// Bits of an attribute's type that contain the type.
const TYPE: u16 = 0x3fff;

/// A wireless interface.
pub(crate) struct Radio {
    kernel: Netlink,
    family: u16,
    index: u32,
}

impl Radio {
    /// Opens the interface with this index; `None` if it is not wireless.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn of(index: u32) -> io::Result<Option<Radio>> {
        let mut kernel = Netlink::open(libc::NETLINK_GENERIC)?;
        let body = message(GET_FAMILY, &attribute(FAMILY_NAME, FAMILY));
        let question = Question { kind: CONTROLLER, answer: CONTROLLER, all: false, body: &body };
        // The kernel answers with an error if it has no wireless interface.
        let Ok(Some(family)) = kernel.ask(&question, family) else { return Ok(None) };
        let mut radio = Radio { kernel, family, index };
        Ok(radio.ask(GET_INTERFACE, false, |_| Some(())).is_some().then_some(radio))
    }

    fn ask<T>(&mut self, command: u8, all: bool, each: impl FnMut(&[u8]) -> Option<T>) -> Option<T> {
        let body = message(command, &attribute(IFINDEX, &self.index.to_ne_bytes()));
        let question = Question { kind: self.family, answer: self.family, all, body: &body };
        self.kernel.ask(&question, each).ok().flatten()
    }
}

impl SampleSource for Radio {
    fn read(&mut self, into: &mut InterfaceSample) {
        into.frequency_mhz = self.ask(GET_INTERFACE, false, frequency);
        let mut stations = Stations::default();
        self.ask(GET_STATION, true, |answer| {
            stations.add(answer);
            None::<()>
        });
        stations.write(into);
    }
}

fn message(command: u8, attributes: &[u8]) -> Vec<u8> {
    [&[command, 1, 0, 0], attributes].concat()
}

/// Returns the attributes of an answer: type without flags, and value.
fn answered(answer: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    nested(answer.get(GENERIC_HEADER..).unwrap_or_default())
}

fn nested(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    attributes(bytes).map(|(kind, value)| (kind & TYPE, value))
}

fn family(answer: &[u8]) -> Option<u16> {
    answered(answer).find(|(kind, _)| *kind == FAMILY_ID).and_then(|(_, value)| u16_at(value, 0))
}

fn frequency(answer: &[u8]) -> Option<u32> {
    answered(answer).find(|(kind, _)| *kind == FREQUENCY).and_then(|(_, value)| u32_at(value, 0))
}

/// The stations that an interface communicates with: the access point, or several peers.
#[derive(Debug, Default, PartialEq)]
struct Stations {
    count: usize,
    signal: Option<i16>,
    rates: [Option<u64>; 2],
    retries: Option<u64>,
    failed: Option<u64>,
}

impl Stations {
    /// Adds a station. Its counters are added to those of the others.
    fn add(&mut self, answer: &[u8]) {
        let Some((_, station)) = answered(answer).find(|(kind, _)| *kind == STATION_INFO) else { return };
        self.count += 1;
        let count = |sum: Option<u64>, value: &[u8]| {
            u32_at(value, 0).map(|n| sum.unwrap_or(0).saturating_add(n.into())).or(sum)
        };
        for (kind, value) in nested(station) {
            match kind {
                SIGNAL => self.signal = value.first().map(|dbm| dbm.cast_signed().into()),
                TX_RATE => self.rates[0] = rate(value),
                RX_RATE => self.rates[1] = rate(value),
                RETRIES => self.retries = count(self.retries, value),
                FAILED => self.failed = count(self.failed, value),
                _ => {}
            }
        }
    }

    /// Writes what is known. With several peers, it is unknown which of them the packets of the test go to, so their
    /// levels are left out.
    fn write(&self, into: &mut InterfaceSample) {
        (into.retries, into.failed) = (self.retries, self.failed);
        if self.count == 1 {
            into.signal_dbm = self.signal;
            [into.tx_kbit_s, into.rx_kbit_s] = self.rates;
        }
    }
}

/// Returns the rate in kbit/s; `None` if it is unknown.
fn rate(attributes: &[u8]) -> Option<u64> {
    let of = |wanted| nested(attributes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    let wide = of(RATE_32).and_then(|value| u32_at(value, 0)).map(u64::from);
    let units = wide.or_else(|| of(RATE_16).and_then(|value| u16_at(value, 0)).map(u64::from))?;
    (units > 0).then_some(100 * units)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::WallTime;
    use proptest::prelude::*;

    /// A message as mac80211 writes it: header, interface, address, generation, nested station.
    fn station(signal: i8, retries: u32, failed: u32) -> Vec<u8> {
        const NESTED: u16 = 0x8000;
        let rate = |units: u32| {
            [attribute(RATE_32, &units.to_ne_bytes()), attribute(RATE_16, &(units as u16).to_ne_bytes())]
                .concat()
        };
        let info = [
            attribute(16, &7u32.to_ne_bytes()),
            attribute(SIGNAL, &[signal.cast_unsigned()]),
            attribute(TX_RATE | NESTED, &rate(1300)),
            attribute(RX_RATE | NESTED, &rate(8667)),
            attribute(RETRIES, &retries.to_ne_bytes()),
            attribute(FAILED, &failed.to_ne_bytes()),
        ];
        let parts = [
            attribute(IFINDEX, &3u32.to_ne_bytes()),
            attribute(6, &[2, 0, 0, 0, 0, 1]),
            attribute(46, &1u32.to_ne_bytes()),
            attribute(STATION_INFO | NESTED, &info.concat()),
        ];
        message(19, &parts.concat())
    }

    fn sample(answers: &[Vec<u8>]) -> InterfaceSample {
        let (mut stations, mut sample) = (Stations::default(), InterfaceSample::at(WallTime(0)));
        answers.iter().for_each(|answer| stations.add(answer));
        stations.write(&mut sample);
        sample
    }

    #[test]
    fn one_station_is_read_and_of_several_only_the_counters() {
        let one = sample(&[station(-61, 412, 3)]);
        assert_eq!((one.signal_dbm, one.retries, one.failed), (Some(-61), Some(412), Some(3)));
        assert_eq!((one.tx_kbit_s, one.rx_kbit_s), (Some(130_000), Some(866_700)));
        let two = sample(&[station(-61, 412, 3), station(-80, 8, 0)]);
        assert_eq!((two.signal_dbm, two.tx_kbit_s, two.retries), (None, None, Some(420)));
        assert_eq!(sample(&[]), InterfaceSample::at(WallTime(0)));
    }

    #[test]
    fn family_and_frequency_are_found() {
        let answer =
            message(7, &[attribute(IFINDEX, &[3; 4]), attribute(FREQUENCY, &5180u32.to_ne_bytes())].concat());
        assert_eq!(frequency(&answer), Some(5180));
        let answer = message(
            1,
            &[attribute(FAMILY_NAME, FAMILY), attribute(FAMILY_ID, &28u16.to_ne_bytes())].concat(),
        );
        assert_eq!((family(&answer), family(&answer[..20])), (Some(28), None));
    }

    #[test]
    fn an_answer_cut_anywhere_is_survived() {
        let whole = station(-61, 412, 3);
        for cut in 0..whole.len() {
            let part = sample(&[whole[..cut].to_vec()]);
            assert!(part.signal_dbm.is_none_or(|dbm| dbm == -61) && part.retries.is_none_or(|n| n == 412));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0usize..150) {
            let mut twisted = station(-61, 412, 3);
            for (to, from) in twisted.iter_mut().skip(at).zip(&bytes) {
                *to = *from;
            }
            sample(&[bytes.clone(), twisted.clone()]);
            let _ = (frequency(&bytes), family(&bytes), frequency(&twisted), rate(&bytes));
        }
    }

    #[test]
    fn a_wired_interface_is_no_radio() {
        let loopback = nix::net::if_::if_nametoindex("lo").unwrap();
        assert!(Radio::of(loopback).unwrap().is_none());
    }
}
