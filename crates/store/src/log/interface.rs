//! Samples of an interface as lines of a log: `1795234200123456789 signal=-61 tx_rate=130000 retries=412`.

use jitlat_core::WallTime;
use jitlat_core::interface::{InterfaceSample, Position};

/// Formats a sample: its time, and each known value as `key=value`.
pub(super) fn sample_text(sample: &InterfaceSample) -> String {
    let InterfaceSample { at, signal_dbm, tx_kbit_s, rx_kbit_s, frequency_mhz, retries, failed, .. } =
        *sample;
    let InterfaceSample { errors, drops, position, .. } = *sample;
    let number = |n: Option<u64>| n.map(|n| n.to_string());
    let values = [
        ("signal", signal_dbm.map(|dbm| dbm.to_string())),
        ("tx_rate", number(tx_kbit_s)),
        ("rx_rate", number(rx_kbit_s)),
        ("frequency", frequency_mhz.map(|mhz| mhz.to_string())),
        ("retries", number(retries)),
        ("failed", number(failed)),
        ("errors", number(errors)),
        ("drops", number(drops)),
        ("position", position.map(|position| position_text(&position))),
    ];
    let mut text = at.0.to_string();
    for (key, value) in values.into_iter().filter_map(|(key, value)| Some((key, value?))) {
        text += &format!(" {key}={value}");
    }
    text
}

/// Formats latitude and longitude in 10⁻⁷ degrees, altitude in cm and speed in cm/s, separated by commas; `-` is unknown.
fn position_text(position: &Position) -> String {
    let Position { latitude_e7, longitude_e7, altitude_cm, speed_cm_s } = *position;
    let altitude = altitude_cm.map_or_else(|| "-".to_owned(), |cm| cm.to_string());
    let speed = speed_cm_s.map_or_else(|| "-".to_owned(), |cm_s| cm_s.to_string());
    format!("{latitude_e7},{longitude_e7},{altitude},{speed}")
}

/// Parses a sample. Unknown keys are skipped.
pub(super) fn sample(text: &str) -> Result<InterfaceSample, String> {
    let wrong = || format!("'{}' is not a sample of an interface", text.trim());
    let mut words = text.split_ascii_whitespace();
    let at = words.next().and_then(|at| at.parse().ok()).ok_or_else(wrong)?;
    let mut sample = InterfaceSample::at(WallTime(at));
    for word in words {
        let (key, value) = word.split_once('=').ok_or_else(wrong)?;
        let number = || value.parse().ok().map(Some).ok_or_else(wrong);
        match key {
            "signal" => sample.signal_dbm = Some(value.parse().map_err(|_| wrong())?),
            "tx_rate" => sample.tx_kbit_s = number()?,
            "rx_rate" => sample.rx_kbit_s = number()?,
            "frequency" => sample.frequency_mhz = Some(value.parse().map_err(|_| wrong())?),
            "retries" => sample.retries = number()?,
            "failed" => sample.failed = number()?,
            "errors" => sample.errors = number()?,
            "drops" => sample.drops = number()?,
            "position" => sample.position = Some(position(value).ok_or_else(wrong)?),
            _ => {}
        }
    }
    Ok(sample)
}

fn position(text: &str) -> Option<Position> {
    let mut fields = text.split(',');
    let (latitude_e7, longitude_e7) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(Position {
        latitude_e7,
        longitude_e7,
        altitude_cm: unless_unknown(fields.next()?)?,
        speed_cm_s: unless_unknown(fields.next()?)?,
    })
}

/// Parses a number, or `-` for an unknown one; `None` if it is neither.
fn unless_unknown<T: std::str::FromStr>(text: &str) -> Option<Option<T>> {
    if text == "-" { Some(None) } else { text.parse().ok().map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_come_back_and_later_keys_are_skipped() {
        let full = InterfaceSample {
            at: WallTime(1_795_234_200_123_456_789),
            signal_dbm: Some(-61),
            tx_kbit_s: Some(130_000),
            rx_kbit_s: Some(866_700),
            frequency_mhz: Some(5180),
            retries: Some(412),
            failed: Some(3),
            errors: Some(u64::MAX),
            drops: Some(0),
            position: Some(Position {
                latitude_e7: -451_234_567,
                longitude_e7: 76_543_210,
                altitude_cm: Some(-120),
                speed_cm_s: None,
            }),
        };
        let line = "1795234200123456789 signal=-61 tx_rate=130000 rx_rate=866700 frequency=5180 retries=412 failed=3 \
                    errors=18446744073709551615 drops=0 position=-451234567,76543210,-120,-";
        assert_eq!(sample_text(&full), line);
        let bare = InterfaceSample::at(WallTime(-1));
        assert_eq!(sample_text(&bare), "-1");
        for before in [full, bare] {
            assert_eq!(sample(&sample_text(&before)), Ok(before));
        }
        assert_eq!(sample(&format!("{line} noise=-95")), Ok(full));
        for wrong in
            ["", "x", "5 signal", "5 signal=loud", "5 retries=-1", "5 position=1,2", "5 position=1,2,x,-"]
        {
            assert!(sample(wrong).is_err(), "{wrong}");
        }
    }
}
