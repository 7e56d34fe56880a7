//! Parameters that client and server negotiate when a session is opened: a list of numbered parameters, which omits
//! those that are zero. Numbers are varints; signed values are zigzag-encoded.

use super::packet::{EchoLayout, IrttKey};
use jitlat_core::{Span, units};

/// The only version of the protocol.
pub const VERSION: i64 = 1;
/// Maximum length of the name of a fill, in bytes.
pub(crate) const FILL_LEN: usize = 32;

/// Statistics of received requests that a server reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ReceiveStats {
    /// None.
    #[default]
    None = 0,
    /// Number of requests received so far.
    Count = 1,
    /// Receive window: one bit for each of the last 64 requests.
    Window = 2,
    /// Count and window.
    Both = 3,
}

impl ReceiveStats {
    /// All values, by code.
    pub const ALL: [ReceiveStats; 4] =
        [ReceiveStats::None, ReceiveStats::Count, ReceiveStats::Window, ReceiveStats::Both];

    /// True if the count is reported.
    pub(crate) fn has_count(self) -> bool {
        self as u8 & 1 != 0
    }

    /// True if the window is reported.
    pub(crate) fn has_window(self) -> bool {
        self as u8 & 2 != 0
    }
}

/// Events at which a server reads its clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StampAt {
    /// Never.
    #[default]
    None = 0,
    /// When the answer is sent.
    Send = 1,
    /// When the request is received.
    Receive = 2,
    /// When the request is received and when the answer is sent.
    Both = 3,
    /// Once, halfway between reception and answer.
    Midpoint = 4,
}

impl StampAt {
    /// All values, by code.
    pub const ALL: [StampAt; 5] =
        [StampAt::None, StampAt::Send, StampAt::Receive, StampAt::Both, StampAt::Midpoint];
}

/// Clocks that a server reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ServerClocks {
    /// No clock; only valid without timestamps.
    #[default]
    None = 0,
    /// The wall clock (UTC).
    Wall = 1,
    /// A clock that never steps and starts with the server.
    Monotonic = 2,
    /// Both clocks.
    Both = 3,
}

impl ServerClocks {
    /// All values, by code.
    pub const ALL: [ServerClocks; 4] =
        [ServerClocks::None, ServerClocks::Wall, ServerClocks::Monotonic, ServerClocks::Both];

    /// True if the wall clock is read.
    pub(crate) fn has_wall(self) -> bool {
        self as u8 & 1 != 0
    }

    /// True if the monotonic clock is read.
    pub(crate) fn has_monotonic(self) -> bool {
        self as u8 & 2 != 0
    }
}

/// Parameters of a session, as requested or granted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IrttParams {
    /// Version of the protocol; [`VERSION`].
    pub version: i64,
    /// Duration of the test; zero: not specified.
    pub duration: Span,
    /// Time between two requests; zero: not specified.
    pub interval: Span,
    /// Length of a packet in bytes. A value below the length of the fields means that length.
    pub length: i64,
    /// Statistics that the server reports.
    pub stats: ReceiveStats,
    /// Events at which the server reads its clocks.
    pub stamp_at: StampAt,
    /// Clocks that the server reads.
    pub clocks: ServerClocks,
    /// TOS octet of the packets, including the ECN bits.
    pub tos: i64,
    /// Name of the server's fill; empty: the server's default.
    pub fill: String,
}

/// Parameter numbers.
mod tag {
    pub const VERSION: u64 = 1;
    pub(crate) const DURATION: u64 = 2;
    pub(crate) const INTERVAL: u64 = 3;
    pub const LENGTH: u64 = 4;
    pub(crate) const STATS: u64 = 5;
    pub(crate) const STAMP_AT: u64 = 6;
    pub(crate) const CLOCKS: u64 = 7;
    pub const TOS: u64 = 8;
    pub(crate) const FILL: u64 = 9;
    /// Padding, which servers ignore as an unknown parameter.
    pub(crate) const PADDING: u64 = 100;
}

/// Reason why parameters cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadParams {
    /// The list ends within a parameter, or a number is too long.
    #[error("cut off")]
    Cut,
    /// The parameter with this number has an invalid value.
    #[error("parameter {0} has an invalid value")]
    Value(u64),
}

fn unsigned(bytes: &mut &[u8]) -> Result<u64, BadParams> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(BadParams::Cut)?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return Err(BadParams::Cut);
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(BadParams::Cut)
}

fn signed(bytes: &mut &[u8]) -> Result<i64, BadParams> {
    let zigzag = unsigned(bytes)?;
    Ok((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
}

fn push_unsigned(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn push(tag: u64, value: i64, out: &mut Vec<u8>) {
    if value != 0 {
        push_unsigned(tag, out);
        push_unsigned((value << 1 ^ value >> 63) as u64, out);
    }
}

impl IrttParams {
    /// Parses the bytes after the header of a packet.
    pub fn parse(mut bytes: &[u8]) -> Result<IrttParams, BadParams> {
        let mut params = IrttParams::default();
        while !bytes.is_empty() {
            let tag = unsigned(&mut bytes)?;
            if tag == tag::FILL {
                let len = usize::try_from(unsigned(&mut bytes)?).map_err(|_| BadParams::Value(tag))?;
                if len > FILL_LEN {
                    return Err(BadParams::Value(tag));
                }
                let (text, rest) = bytes.split_at_checked(len).ok_or(BadParams::Cut)?;
                bytes = rest;
                params.fill = core::str::from_utf8(text).map_err(|_| BadParams::Value(tag))?.to_owned();
                continue;
            }
            let value = signed(&mut bytes)?;
            let bad = BadParams::Value(tag);
            // The value is used as an index, and only small values are defined.
            let code = usize::try_from(value).map_err(|_| bad);
            match tag {
                tag::VERSION => params.version = value,
                tag::DURATION => params.duration = Some(Span(value)).filter(|d| d.0 > 0).ok_or(bad)?,
                tag::INTERVAL => params.interval = Some(Span(value)).filter(|d| d.0 > 0).ok_or(bad)?,
                tag::LENGTH => params.length = value,
                tag::STATS => params.stats = *ReceiveStats::ALL.get(code?).ok_or(bad)?,
                tag::STAMP_AT => params.stamp_at = *StampAt::ALL.get(code?).ok_or(bad)?,
                tag::CLOCKS => {
                    let clocks = ServerClocks::ALL.get(code?).filter(|c| **c != ServerClocks::None);
                    params.clocks = *clocks.ok_or(bad)?;
                }
                tag::TOS => params.tos = value,
                _ => {}
            }
        }
        Ok(params)
    }

    /// Appends the parameters that are not zero to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        push(tag::VERSION, self.version, out);
        push(tag::DURATION, self.duration.0, out);
        push(tag::INTERVAL, self.interval.0, out);
        push(tag::LENGTH, self.length, out);
        push(tag::STATS, self.stats as i64, out);
        push(tag::STAMP_AT, self.stamp_at as i64, out);
        push(tag::CLOCKS, self.clocks as i64, out);
        push(tag::TOS, self.tos, out);
        let fill = self.fill.as_bytes();
        if !fill.is_empty() {
            let fill = &fill[..fill.len().min(FILL_LEN)];
            push_unsigned(tag::FILL, out);
            push_unsigned(fill.len() as u64, out);
            out.extend(fill);
        }
    }

    /// Returns the length in bytes of the shortest packet that has the fields required by these parameters,
    /// with an HMAC if there is a `key`.
    pub fn shortest_packet(&self, key: Option<&IrttKey>) -> usize {
        EchoLayout::new(self).packet_len(key)
    }

    /// Appends the parameters like [`write`](IrttParams::write), and a padding parameter that servers ignore,
    /// so that the open request is not shorter than its answer.
    pub(crate) fn write_padded(&self, out: &mut Vec<u8>) {
        self.write(out);
        push(tag::PADDING, i64::MIN, out);
    }

    /// Describes each parameter that differs from `asked`; empty if everything was granted.
    pub fn restrictions(&self, asked: &IrttParams) -> Vec<String> {
        let changed: [(&str, String, String); 9] = [
            ("protocol version", asked.version.to_string(), self.version.to_string()),
            ("duration", units::duration(asked.duration), units::duration(self.duration)),
            ("interval", units::duration(asked.interval), units::duration(self.interval)),
            ("length", asked.length.to_string(), self.length.to_string()),
            ("received statistics", format!("{:?}", asked.stats), format!("{:?}", self.stats)),
            ("stamps", format!("{:?}", asked.stamp_at), format!("{:?}", self.stamp_at)),
            ("clocks", format!("{:?}", asked.clocks), format!("{:?}", self.clocks)),
            ("TOS octet", asked.tos.to_string(), self.tos.to_string()),
            ("fill", asked.fill.clone(), self.fill.clone()),
        ];
        let differs = changed.into_iter().filter(|(_, asked, granted)| asked != granted);
        differs.map(|(name, asked, granted)| format!("{name} {granted} instead of {asked}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::unhex;
    use proptest::prelude::*;

    #[test]
    fn a_recorded_list() {
        let bytes = unhex("0102028090bcfd020380b48913050606060706");
        let params = IrttParams {
            version: 1,
            duration: Span::millis(400),
            interval: Span::millis(20),
            stats: ReceiveStats::Both,
            stamp_at: StampAt::Both,
            clocks: ServerClocks::Both,
            ..IrttParams::default()
        };
        assert_eq!(IrttParams::parse(&bytes), Ok(params.clone()));
        let mut again = Vec::new();
        params.write(&mut again);
        assert_eq!(again, bytes);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (hex, wanted) in [
            ("01", BadParams::Cut),
            ("0280", BadParams::Cut),
            ("02ffffffffffffffffffffff01", BadParams::Cut),
            ("0205", BadParams::Value(2)),
            ("0300", BadParams::Value(3)),
            ("0508", BadParams::Value(5)),
            ("060a", BadParams::Value(6)),
            ("0700", BadParams::Value(7)),
            ("0708", BadParams::Value(7)),
            ("0921", BadParams::Value(9)),
            ("090461", BadParams::Cut),
            ("0901ff", BadParams::Value(9)),
        ] {
            assert_eq!(IrttParams::parse(&unhex(hex)), Err(wanted), "{hex}");
        }
        // Unknown parameters are skipped. The order is arbitrary; if a number is repeated, the last one
        // counts.
        let params = IrttParams::parse(&unhex("6406070204100402")).unwrap();
        assert_eq!((params.clocks, params.length), (ServerClocks::Wall, 1));
    }

    #[test]
    fn restrictions_are_described() {
        let asked = IrttParams { interval: Span::millis(5), tos: 184, ..IrttParams::default() };
        let granted = IrttParams { interval: Span::millis(10), tos: 0, ..asked.clone() };
        assert_eq!(
            granted.restrictions(&asked),
            ["interval 0.01 s instead of 0.005 s", "TOS octet 0 instead of 184"]
        );
        assert!(asked.restrictions(&asked).is_empty());
    }

    proptest! {
        #[test]
        fn any_list_survives_the_wire(
            version in any::<i64>(), duration in 1i64.., interval in 1i64.., length in any::<i64>(),
            codes in (0usize..4, 0usize..5, 1usize..4), tos in any::<i64>(), fill in "[a-z:0-9]{0,32}",
        ) {
            let params = IrttParams {
                version, duration: Span(duration), interval: Span(interval), length, stats: ReceiveStats::ALL[codes.0],
                stamp_at: StampAt::ALL[codes.1], clocks: ServerClocks::ALL[codes.2], tos, fill,
            };
            let mut bytes = Vec::new();
            params.write(&mut bytes);
            prop_assert_eq!(IrttParams::parse(&bytes), Ok(params));
        }

        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(params) = IrttParams::parse(&bytes) {
                let mut again = Vec::new();
                params.write(&mut again);
                prop_assert_eq!(IrttParams::parse(&again), Ok(params));
            }
        }
    }
}
