//! Options that perfSONAR's programs (owping, powstream, twping, owfetch, owstats) share, and the conversion of their
//! values.

use super::arguments::{ForeignOption as Opt, Given, Words, of_switch, seconds, with, wrong};
use anyhow::Result;
use jitlat_core::observer::{Event, Observer};
use jitlat_output::terminal;
use jitlat_proto::amp::printed::DelayUnit;

pub const COUNT: Opt = Opt::ours("-c", "N", "-n N", |n| with("-n", n));
pub const SCHEDULE: Opt = Opt::ours("-i", "SCHEDULE", "-p TIME, --schedule", schedule);
pub const PADDING: Opt = Opt::printed("-s", "BYTES", "-l BYTES (padding and header)");
pub const DSCP: Opt = Opt::ours("-D", "DSCP", "-D DSCP", |dscp| with("-D", dscp));
pub const LOCAL: Opt = Opt::ours("-S", "ADDR", "--bind ADDR", |address| with("--bind", address));
pub const V4: Opt = Opt::ours("-4", "", "-4", |_| of_switch("-4"));
pub const V6: Opt = Opt::ours("-6", "", "-6", |_| of_switch("-6"));
pub const BUCKET: Opt =
    Opt::ours("-b", "SECONDS", "--owamp-bucket TIME", |s| with("--owamp-bucket", seconds(s)?));
pub const UNIT: Opt = Opt::printed("-n", "UNIT", "unit of delays: n, u, m or s");
pub const PACKETS: Opt = Opt::printed("-v", "[N]", "a line for each packet, or the first N");
pub const UNIX_TIMES: Opt = Opt::printed("-U", "", "with -M also the times in seconds since 1970");
pub const RAW: Opt = Opt::printed("-R", "", "one line per packet, without text");
pub const MACHINE: Opt = Opt::printed("-M", "", "machine-readable statistics");
pub const QUIET: Opt = Opt::printed("-Q", "", "nothing is printed");

/// Options of a session of OWAMP.
pub mod owamp {
    use super::{Opt, seconds, with};

    pub const TIMEOUT: Opt =
        Opt::ours("-L", "SECONDS", "--owamp-timeout TIME", |s| with("--owamp-timeout", seconds(s)?));
    pub const USER: Opt = Opt::ours("-u", "USER", "--owamp-user USER", |user| with("--owamp-user", user));
    pub const KEYS: Opt =
        Opt::ours("-k", "FILE", "--owamp-key-file FILE", |file| with("--owamp-key-file", file));
    pub const INTERFACE: Opt = Opt::ours("-B", "IFACE", "--bind IFACE", |name| with("--bind", name));
}

/// Bytes of a test packet without padding, in the open mode and in the keyed modes.
const HEADERS: (u64, u64) = (14, 48);

/// Converts a schedule to words of jitlat: seconds, followed by `f` for fixed gaps or `e` for exponential ones.
pub fn schedule(text: &str) -> Words {
    if text.contains(',') {
        return Err("a list of gaps is not possible here: give one, such as 0.1f or 0.1e".to_owned());
    }
    let (number, law) = match text.strip_suffix('f') {
        Some(number) => (number, "periodic"),
        None => (text.strip_suffix('e').unwrap_or(text), "poisson"),
    };
    let mut words = with("-p", seconds(number)?)?;
    words.extend(with("--schedule", law)?);
    Ok(words)
}

/// Returns the words of a session: those of the options, and the programs' defaults for the number of packets and the
/// schedule. Packets have no padding unless `-s` requests it.
pub fn session_words(given: &Given, packets: u32) -> Result<Vec<String>> {
    let mut words = stream_words(given, packets)?;
    if !given.has("-s") {
        words.extend(["-l".to_owned(), header(given).to_string()]);
    }
    Ok(words)
}

/// Returns the words of [`session_words`], but without `-s` those of jitlat's default length.
pub fn stream_words(given: &Given, packets: u32) -> Result<Vec<String>> {
    let mut words = given.words()?;
    if !given.has("-c") {
        words.extend(["-n".to_owned(), packets.to_string()]);
    }
    if !given.has("-i") {
        words.extend(schedule("0.1e").map_err(wrong)?);
    }
    if let Some(padding) = given.number::<u64>("-s")? {
        words.extend(["-l".to_owned(), padding.saturating_add(header(given)).to_string()]);
    }
    Ok(words)
}

/// Returns the bytes of a test packet without padding.
fn header(given: &Given) -> u64 {
    if given.has("-k") { HEADERS.1 } else { HEADERS.0 }
}

/// Returns the mode for the letters of `-A`; `None` if there are several, of which the strongest possible one is used.
pub fn mode(letters: &str) -> Result<Option<&'static str>, String> {
    if letters.is_empty() || !letters.chars().all(|c| "AEMO".contains(c)) {
        return Err("give letters of A, E, M and O".to_owned());
    }
    Ok(match letters {
        "O" => Some("open"),
        "A" => Some("authenticated"),
        "E" => Some("encrypted"),
        "M" => Some("mixed"),
        _ => None,
    })
}

/// Returns the unit of delays.
pub fn unit(given: &Given) -> Result<DelayUnit> {
    let letter = given.value("-n").unwrap_or("m");
    DelayUnit::of_letter(letter).ok_or_else(|| wrong(format!("-n {letter}: give n, u, m or s")))
}

/// Returns the first free port of `-P`, which is a port or a range; `None` if any port may be used.
pub fn port(given: &Given) -> Result<Option<u16>> {
    let Some(text) = given.value("-P").filter(|text| *text != "0") else { return Ok(None) };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = first.parse::<u16>().ok().zip(last.parse::<u16>().ok()).filter(|(a, b)| *a > 0 && a <= b);
    let Some((first, last)) = range else {
        return Err(wrong(format!("-P {text}: give a port or a range, such as 8760-9960")));
    };
    let is_free = |port: &u16| std::net::UdpSocket::bind((std::net::Ipv6Addr::UNSPECIFIED, *port)).is_ok();
    let free = (first..=last).find(is_free);
    free.ok_or_else(|| anyhow::anyhow!("-P {text}: no port of this range is free on this host")).map(Some)
}

/// Returns `text` without the lines of packets after the first `most`.
pub fn first_packets(text: &str, most: Option<usize>) -> String {
    let mut shown = 0;
    let mut is_shown = |line: &&str| {
        let is_packet = line.starts_with("seq_no=");
        shown += usize::from(is_packet);
        !is_packet || most.is_none_or(|most| shown <= most)
    };
    text.split_inclusive('\n').filter(|line| is_shown(line)).collect()
}

/// Observer that prints the time until results are available once the server has accepted the test, as owping and twping
/// do unless `-R` or `-Q` is given.
pub struct Announcement {
    line: Option<String>,
}

impl Announcement {
    /// Creates the announcement of a test of `packets` packets.
    pub fn new(given: &Given, packets: u32) -> Result<Announcement> {
        let packets = given.number::<u32>("-c")?.unwrap_or(packets);
        let gap = given.value("-i").unwrap_or("0.1").trim_end_matches(['e', 'f']).parse().unwrap_or(0.1);
        let timeout: f64 = given.number("-L")?.unwrap_or(2.0);
        let seconds = f64::from(packets) * gap + timeout + 1.0;
        let line = format!("Approximately {seconds:.1} seconds until results available\n");
        Ok(Announcement { line: (!given.has("-R") && !given.has("-Q")).then_some(line) })
    }
}

impl Observer for Announcement {
    fn event(&mut self, event: &Event<'_>) {
        let is_accepted = match event {
            // The event of a two-way test comes before the server has answered.
            Event::Started(sessions) => sessions.iter().all(|session| session.two_way.is_none()),
            Event::Progress(_) | Event::Arrived { .. } | Event::Concluding(_) => true,
            _ => false,
        };
        if is_accepted && let Some(line) = self.line.take() {
            // A closed standard output does not end the test; it is noticed when the result is printed.
            let _ = terminal::print(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_of_owping_are_ours() {
        assert_eq!(schedule("0.02f").unwrap(), ["-p", "20000000ns", "--schedule=periodic"]);
        for exponential in ["0.1e", "0.1"] {
            assert_eq!(schedule(exponential).unwrap(), ["-p", "100000000ns", "--schedule=poisson"]);
        }
        assert!(schedule("1e,0f").is_err() && schedule("x").is_err());
    }

    #[test]
    fn only_the_first_packets_are_printed() {
        let text = "\nhead\nseq_no=0 a\nseq_no=1 b\nseq_no=2 c\n\nsum\n";
        assert_eq!(first_packets(text, Some(2)), "\nhead\nseq_no=0 a\nseq_no=1 b\n\nsum\n");
        assert_eq!(first_packets(text, Some(0)), "\nhead\n\nsum\n");
        assert_eq!(first_packets(text, None), text);
    }
}
