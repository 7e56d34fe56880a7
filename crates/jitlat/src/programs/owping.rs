//! `owping`: one-way tests with an OWAMP server, in one or both directions.

use super::arguments::{ForeignOption as Opt, Given, Program, Words, of_switch, seconds, with};
use super::measured::one_way;
use anyhow::{Context, Result, bail};
use jitlat_core::Direction;
use jitlat_output::terminal;
use jitlat_proto::amp::printed::DelayUnit;
use jitlat_proto::owamp::Statistics;
use jitlat_store::output as file;
use std::path::Path;

pub static PROGRAM: Program = Program {
    name: "owping",
    about: "Measures one-way delay with an OWAMP server, with the text of owping",
    usage: "[OPTIONS] HOST[:PORT]",
    options: &[
        Opt::printed("-t", "", "only the direction to HOST"),
        Opt::printed("-f", "", "only the direction from HOST (-R)"),
        Opt::printed("-T", "FILE", "like -t, and a data file of the session (.owp)"),
        Opt::printed("-F", "FILE", "like -f, and a data file of the session (.owp)"),
        Opt::ours("-c", "N", "-n N", |n| with("-n", n)),
        Opt::ours("-i", "SCHEDULE", "-p TIME, --schedule", schedule),
        Opt::ours("-L", "SECONDS", "--owamp-timeout TIME", |s| with("--owamp-timeout", seconds(s)?)),
        Opt::printed("-s", "BYTES", "-l BYTES (padding and header)"),
        Opt::ours("-D", "DSCP", "-D DSCP", |dscp| with("-D", dscp)),
        Opt::printed("-P", "PORT", "-s, -d PORT (the first free one of a range, with -t or -f)"),
        Opt::refused("-z", "SECONDS", "a test starts at once"),
        Opt::ours("-A", "MODES", "--owamp-mode", modes_of_owamp),
        Opt::ours("-u", "USER", "--owamp-user USER", |user| with("--owamp-user", user)),
        Opt::ours("-k", "FILE", "--owamp-key-file FILE", |file| with("--owamp-key-file", file)),
        Opt::ours("-S", "ADDR", "--bind ADDR", |address| with("--bind", address)),
        Opt::ours("-B", "IFACE", "--bind IFACE", |name| with("--bind", name)),
        Opt::ours("-4", "", "-4", |_| of_switch("-4")),
        Opt::ours("-6", "", "-6", |_| of_switch("-6")),
        Opt::ours("-a", "LIST", "--owamp-percentiles LIST", |list| with("--owamp-percentiles", list)),
        Opt::ours("-b", "SECONDS", "--owamp-bucket TIME", |s| with("--owamp-bucket", seconds(s)?)),
        Opt::printed("-n", "UNIT", "unit of delays: n, u, m or s"),
        Opt::refused("-N", "N", "`jitlat HOST --interval 1s --as intervals` writes windows"),
        Opt::printed("-v", "[N]", "a line for each packet, or the first N (--as owstats)"),
        Opt::printed("-U", "", "with -M also the times in seconds since 1970"),
        Opt::printed("-R", "", "one line per packet, without text (--as owping)"),
        Opt::printed("-M", "", "machine-readable statistics (--as owstats-m)"),
        Opt::printed("-Q", "", "nothing is printed"),
    ],
    run,
    wrong: 1,
    failed: 1,
};

/// Converts a schedule of owping to words of jitlat: seconds, followed by `f` for fixed gaps or `e` for exponential
/// ones.
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

fn modes_of_owamp(letters: &str) -> Words {
    mode(letters)?.map_or(Ok(Vec::new()), |mode| with("--owamp-mode", mode))
}

/// Returns the unit of delays.
pub fn unit(given: &Given) -> Result<DelayUnit> {
    let letter = given.value("-n").unwrap_or("m");
    DelayUnit::of_letter(letter).with_context(|| format!("-n {letter}: give n, u, m or s"))
}

/// Returns the words for the length of a packet: its header and the padding of `-s`; none without `-s`. The header has
/// `open` bytes, or `keyed` bytes with `-k`.
pub fn payload(given: &Given, open: u64, keyed: u64) -> Result<Vec<String>> {
    let header = if given.has("-k") { keyed } else { open };
    let padding = given.number::<u64>("-s")?;
    Ok(padding.map_or_else(Vec::new, |padding| vec!["-l".to_owned(), (padding + header).to_string()]))
}

/// Returns the first free port of `-P`, which is a port or a range; `None` if any port may be used.
pub fn port(given: &Given) -> Result<Option<u16>> {
    let Some(text) = given.value("-P").filter(|text| *text != "0") else { return Ok(None) };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = first.parse::<u16>().ok().zip(last.parse::<u16>().ok()).filter(|(a, b)| *a > 0 && a <= b);
    let Some((first, last)) = range else { bail!("-P {text}: give a port or a range, such as 8760-9960") };
    let is_free = |port: &u16| std::net::UdpSocket::bind((std::net::Ipv6Addr::UNSPECIFIED, *port)).is_ok();
    let free = (first..=last).find(is_free);
    free.with_context(|| format!("-P {text}: no port of this range is free on this host")).map(Some)
}

/// Formats the results of sessions as requested.
pub fn printed(given: &Given, sessions: &[Statistics]) -> Result<String> {
    let (unit, unix_times) = (unit(given)?, given.has("-U"));
    let first = given.number::<usize>("-v").unwrap_or(None);
    let text = |session: &Statistics| {
        let mut session = session.clone();
        (session.style.unit, session.style.unix_times) = (unit, unix_times);
        match (given.has("-R"), given.has("-M"), given.has("-v")) {
            (true, ..) => session.raw(),
            (_, true, _) => session.machine(),
            (.., true) => first_packets(&session.text(), first),
            _ => session.summary(),
        }
    };
    Ok(sessions.iter().map(text).collect())
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

/// Prints the time until results are available, as owping does unless `-R` or `-Q` is given.
pub fn announce(given: &Given, packets: u64, mean: f64, timeout: f64) -> Result<()> {
    if given.has("-R") || given.has("-Q") {
        return Ok(());
    }
    let seconds = packets as f64 * mean + timeout + 1.0;
    Ok(terminal::print(&format!("Approximately {seconds:.1} seconds until results available\n"))?)
}

/// Returns the mean gap of the schedule in seconds.
pub fn mean_gap(given: &Given) -> f64 {
    let text = given.value("-i").unwrap_or("0.1");
    text.trim_end_matches(['e', 'f']).parse().unwrap_or(0.1)
}

fn run(given: &Given) -> Result<u8> {
    let host = given.operand("HOST")?;
    let to = given.has("-t") || given.has("-T");
    let from = given.has("-f") || given.has("-F");
    let mut words = given.words()?;
    if !given.has("-c") {
        words.extend(["-n".to_owned(), "100".to_owned()]);
    }
    if !given.has("-i") {
        words.extend(schedule("0.1e").map_err(anyhow::Error::msg)?);
    }
    let padded = payload(given, 14, 48)?;
    match padded.is_empty() {
        true => words.extend(["-l".to_owned(), if given.has("-k") { "48" } else { "14" }.to_owned()]),
        false => words.extend(padded),
    }
    match (to, from) {
        (true, false) => {}
        (false, true) => words.push("-R".to_owned()),
        _ => words.push("-b".to_owned()),
    }
    if let Some(port) = port(given)? {
        match (to, from) {
            (true, false) => words.extend(["-s".to_owned(), port.to_string()]),
            (false, true) => words.extend(["-d".to_owned(), port.to_string()]),
            _ => bail!("-P needs -t or -f: with both directions the system chooses the ports"),
        }
    }
    for name in ["-T", "-F"] {
        if let Some(path) = given.file(name)? {
            file::check(Path::new(path)).with_context(|| name.to_owned())?;
        }
    }
    unit(given)?;
    words.extend(["--proto".to_owned(), "owamp".to_owned(), "--".to_owned(), host.to_owned()]);
    announce(given, given.number("-c")?.unwrap_or(100), mean_gap(given), given.number("-L")?.unwrap_or(2.0))?;
    let stop = crate::interrupt::stop()?;
    let result = one_way(&words, &stop)?;
    if result.owamp.is_empty() {
        bail!("{host}: the test ended before its results were available");
    }
    for (name, direction) in [("-T", Direction::Up), ("-F", Direction::Down)] {
        let Some(path) = given.file(name)? else { continue };
        let session = result.owamp.iter().find(|s| s.data.session.direction() == Some(direction));
        let session = session.with_context(|| format!("{name}: the session has no results"))?;
        file::write(Path::new(path), |out| out.write_all(&session.data.to_file()))?;
    }
    if !given.has("-Q") {
        terminal::print(&printed(given, &result.owamp)?)?;
    }
    Ok(0)
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
