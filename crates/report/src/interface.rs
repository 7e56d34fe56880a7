//! The interface of a test in one line: signal, rate, retries, channel, errors and drops.

use jitlat_core::interface::{InterfaceHistory, InterfaceQuantity as Quantity};

/// Describes the interface during a test: `wlan0: signal -61 dBm (-75 to -52), sends at 130 Mbit/s (6 to 173), 412 retries, 3
/// frames given up, 5180 MHz (channel 36)`. `None` if there is nothing to report: a wired interface without errors.
pub fn describe(history: &InterfaceHistory) -> Option<String> {
    let mut parts = Vec::new();
    let mut level = |quantity: Quantity, what: &str, unit: &str, number: fn(f64) -> String| {
        let Some([least, mean, most]) = history.level(quantity) else { return };
        let [low, middle, high] = [least, mean, most].map(number);
        let range = if low == high { String::new() } else { format!(" ({low} to {high})") };
        parts.push(format!("{what} {middle} {unit}{range}"));
    };
    level(Quantity::Signal, "signal", "dBm", |dbm| format!("{dbm:.0}"));
    level(Quantity::TxRate, "sends at", "Mbit/s", mbit);
    level(Quantity::RxRate, "receives at", "Mbit/s", mbit);
    let mut counted = |quantity: Quantity, what: &str, always: bool| {
        if let Some(n) = history.increase(quantity).filter(|n| always || *n > 0) {
            let (one, many) = what.split_once('|').unwrap_or((what, what));
            parts.push(format!("{n} {}", if n == 1 { one } else { many }));
        }
    };
    counted(Quantity::Retries, "retry|retries", true);
    counted(Quantity::Failed, "frame given up|frames given up", false);
    counted(Quantity::Errors, "error|errors", false);
    counted(Quantity::Drops, "drop|drops", false);
    let mut channels: Vec<u32> = history.samples.iter().filter_map(|s| s.frequency_mhz).collect();
    channels.dedup();
    if let Some(first) = channels.first() {
        let number = channel(*first).map_or_else(String::new, |channel| format!(" (channel {channel})"));
        let changes = match channels.len() - 1 {
            0 => String::new(),
            1 => ", 1 change of channel".to_owned(),
            n => format!(", {n} changes of channel"),
        };
        parts.push(format!("{first} MHz{number}{changes}"));
    }
    let places: Vec<[f64; 2]> = history.samples.iter().filter_map(|s| Some(s.position?.degrees())).collect();
    if let [first, .., last] | [first @ last] = &places[..] {
        let place = |[latitude, longitude]: [f64; 2]| format!("{latitude:.5} {longitude:.5}");
        let (from, to) = (place(*first), place(*last));
        parts.push(if from == to { format!("at {from}") } else { format!("from {from} to {to}") });
    }
    let name = if history.name.is_empty() { "interface" } else { &history.name };
    (!parts.is_empty()).then(|| format!("{name}: {}", parts.join(", ")))
}

fn mbit(kbit_s: f64) -> String {
    let mbit = kbit_s / 1e3;
    if mbit < 9.95 { format!("{mbit:.1}") } else { format!("{mbit:.0}") }
}

/// Returns the number of the 20 MHz channel (IEEE 802.11, annex E) with this centre, in MHz; `None` in other bands.
fn channel(mhz: u32) -> Option<u32> {
    match mhz {
        2412..=2472 => Some((mhz - 2407) / 5),
        2484 => Some(14),
        5160..=5885 => Some((mhz - 5000) / 5),
        5955..=7115 => Some((mhz - 5950) / 5),
        // ITS-G5 and 802.11p, 10 MHz wide.
        5886..=5925 => Some((mhz - 5000) / 5),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::WallTime;
    use jitlat_core::interface::{InterfaceSample, Position};

    fn history(samples: Vec<InterfaceSample>) -> InterfaceHistory {
        InterfaceHistory { name: "wlan0".to_owned(), samples }
    }

    #[test]
    fn a_radio_is_described_and_a_quiet_wire_is_not() {
        let radio = |at, signal, rate, retries, frequency| InterfaceSample {
            signal_dbm: Some(signal),
            tx_kbit_s: Some(rate),
            retries: Some(retries),
            failed: Some(7),
            errors: Some(0),
            drops: Some(at as u64),
            frequency_mhz: Some(frequency),
            ..InterfaceSample::at(WallTime(at))
        };
        let text =
            describe(&history(vec![radio(0, -50, 173_000, 100, 5180), radio(1, -70, 6_000, 112, 2437)]));
        assert_eq!(
            text.unwrap(),
            "wlan0: signal -60 dBm (-70 to -50), sends at 90 Mbit/s (6.0 to 173), 12 retries, 1 drop, 5180 MHz (channel 36), \
             1 change of channel"
        );
        let wire = |errors, at| InterfaceSample { errors: Some(errors), ..InterfaceSample::at(WallTime(at)) };
        assert_eq!(describe(&history(vec![wire(3, 0), wire(3, 1)])), None);
        assert_eq!(describe(&history(vec![wire(3, 0), wire(5, 1)])).unwrap(), "wlan0: 2 errors");
    }

    #[test]
    fn a_place_is_a_point_or_a_way() {
        let at = |at, latitude_e7| InterfaceSample {
            position: Some(Position {
                latitude_e7,
                longitude_e7: -76_624_713,
                altitude_cm: None,
                speed_cm_s: None,
            }),
            ..InterfaceSample::at(WallTime(at))
        };
        assert_eq!(describe(&history(vec![at(0, 450_621_819)])).unwrap(), "wlan0: at 45.06218 -7.66247");
        let moved = describe(&history(vec![at(0, 450_621_819), at(1, 450_631_819)]));
        assert_eq!(moved.unwrap(), "wlan0: from 45.06218 -7.66247 to 45.06318 -7.66247");
    }

    #[test]
    fn channels_have_their_numbers() {
        let numbers = [2412, 2437, 2484, 5180, 5885, 5900, 5955, 7115, 900].map(channel);
        let known = [Some(1), Some(6), Some(14), Some(36), Some(177), Some(180), Some(1), Some(233), None];
        assert_eq!(numbers, known);
    }
}
