//! [`PayloadFormat`]: codec and clock rate of a payload type: assigned (RFC 3551), agreed in SDP, or given by the user.

use core::fmt;
use core::str::FromStr;

/// Largest clock rate that is accepted, in Hz.
const MAX_CLOCK_RATE: u32 = 1_000_000;
/// Name of telephone events in SDP (RFC 4733).
const TELEPHONE_EVENT: &str = "telephone-event";
/// Maximum length of a codec's name from a capture, in bytes.
const MAX_NAME: usize = 32;

/// Codec and clock rate of a payload type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadFormat {
    /// Name of the codec, as in SDP.
    pub codec: String,
    /// Clock rate of the timestamps, in Hz; above 0.
    pub clock_rate: u32,
}

/// Assigned payload types (RFC 3551 §6): number, codec, clock rate.
const ASSIGNED: [(u8, &str, u32); 24] = [
    (0, "PCMU", 8000),
    (3, "GSM", 8000),
    (4, "G723", 8000),
    (5, "DVI4", 8000),
    (6, "DVI4", 16_000),
    (7, "LPC", 8000),
    (8, "PCMA", 8000),
    // The timestamps of G.722 count half of its samples, by an error that is now the standard (RFC 3551 §4.5.2).
    (9, "G722", 8000),
    (10, "L16", 44_100),
    (11, "L16", 44_100),
    (12, "QCELP", 8000),
    (13, "CN", 8000),
    (14, "MPA", 90_000),
    (15, "G728", 8000),
    (16, "DVI4", 11_025),
    (17, "DVI4", 22_050),
    (18, "G729", 8000),
    (19, "CN", 8000),
    (25, "CelB", 90_000),
    (26, "JPEG", 90_000),
    (28, "nv", 90_000),
    (31, "H261", 90_000),
    (32, "MPV", 90_000),
    (33, "MP2T", 90_000),
];

/// Codec names as in SDP, each with the codec of the voice quality model that has its published figures.
const MODELLED: [(&str, &str); 6] = [
    ("PCMU", "G.711+PLC"),
    ("PCMA", "G.711+PLC"),
    ("G729", "G.729A+VAD"),
    ("G723", "G.723.1-6.3+VAD"),
    ("GSM-EFR", "GSM-EFR"),
    ("G711", "G.711+PLC"),
];

/// Formats that repair other streams: retransmissions (RFC 4588) and error correction (RFC 5109, RFC 8627).
const REPAIR: [&str; 5] = ["rtx", "ulpfec", "parityfec", "flexfec", "flexfec-03"];

impl PayloadFormat {
    /// Returns the assigned format of a payload type; `None` if it has none.
    pub fn assigned(payload_type: u8) -> Option<PayloadFormat> {
        if payload_type == 34 {
            return Some(PayloadFormat { codec: "H263".to_owned(), clock_rate: 90_000 });
        }
        let (_, codec, clock_rate) = *ASSIGNED.iter().find(|a| a.0 == payload_type)?;
        Some(PayloadFormat { codec: codec.to_owned(), clock_rate })
    }

    /// True for telephone events, whose packets repeat the timestamp of the event's beginning.
    pub(super) fn is_telephone_event(&self) -> bool {
        self.codec.eq_ignore_ascii_case(TELEPHONE_EVENT)
    }
}

/// True if `codec`, a name in SDP, is a format that repairs another stream.
pub(super) fn is_repair(codec: &str) -> bool {
    REPAIR.iter().any(|name| name.eq_ignore_ascii_case(codec))
}

/// Returns the codec of the voice quality model that corresponds to `codec`, a name in SDP; `None` if the model has
/// no figures for it.
pub fn modelled_codec(codec: &str) -> Option<&'static str> {
    MODELLED.iter().find(|(name, _)| name.eq_ignore_ascii_case(codec)).map(|(_, model)| *model)
}

impl fmt::Display for PayloadFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.codec, self.clock_rate)
    }
}

impl FromStr for PayloadFormat {
    type Err = String;

    /// Parses `CODEC/RATE`, as in the rtpmap attribute of SDP. A number of channels may follow.
    fn from_str(text: &str) -> Result<PayloadFormat, String> {
        let mut parts = text.split('/');
        let codec = parts.next().unwrap_or_default().trim();
        let is_name = |c: char| c.is_ascii_graphic();
        let rate = parts.next().and_then(|rate| rate.trim().parse::<u32>().ok());
        let rate = rate.filter(|rate| (1..=MAX_CLOCK_RATE).contains(rate));
        match rate {
            Some(clock_rate)
                if !codec.is_empty() && codec.len() <= MAX_NAME && codec.chars().all(is_name) =>
            {
                Ok(PayloadFormat { codec: codec.to_owned(), clock_rate })
            }
            _ => Err(format!("'{text}' is not a codec with its clock rate, for example opus/48000")),
        }
    }
}

/// Format that the user gives for a payload type: `111=opus/48000`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenFormat {
    /// Payload type, 0 to 127.
    pub payload_type: u8,
    /// Its format.
    pub format: PayloadFormat,
}

impl FromStr for GivenFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<GivenFormat, String> {
        let (number, format) = text
            .split_once('=')
            .ok_or_else(|| format!("'{text}': write TYPE=CODEC/RATE, for example 111=opus/48000"))?;
        let payload_type = number.trim().parse().ok().filter(|n| *n < 128);
        let payload_type =
            payload_type.ok_or_else(|| format!("'{number}' is not a payload type: give 0 to 127"))?;
        Ok(GivenFormat { payload_type, format: format.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_assigned_or_written_as_in_sdp() {
        let of = |n| PayloadFormat::assigned(n).map(|f| f.to_string());
        assert_eq!(
            [0, 8, 9, 18].map(of).map(Option::unwrap),
            ["PCMU/8000", "PCMA/8000", "G722/8000", "G729/8000"]
        );
        assert_eq!((of(34).unwrap(), of(96), of(2)), ("H263/90000".to_owned(), None, None));
        let given: GivenFormat = "111=opus/48000/2".parse().unwrap();
        assert_eq!((given.payload_type, given.format.to_string()), (111, "opus/48000".to_owned()));
        assert!("101=telephone-event/8000".parse::<GivenFormat>().unwrap().format.is_telephone_event());
        for wrong in
            ["", "111", "128=a/8000", "-1=a/8000", "96=/8000", "96=a", "96=a/0", "96=a/2000000", "96=a b/1"]
        {
            assert!(wrong.parse::<GivenFormat>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_model_knows_some_codecs() {
        use jitlat_core::metrics::dejitter::VoiceCodec;
        assert_eq!((modelled_codec("pcma"), modelled_codec("opus")), (Some("G.711+PLC"), None));
        assert!(MODELLED.iter().all(|(_, model)| VoiceCodec::named(model).is_some()));
    }
}
