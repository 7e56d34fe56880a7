//! `iperf3`: UDP tests, whose far end is `jitlat serve`.

use super::arguments::{
    ForeignOption as Opt, Given, Program, Words, WrongLine, as_wrong, dscp_of_tos, of_switch, seconds, with,
    wrong,
};
use super::measured::{OneWayResult, OneWayTest};
use anyhow::{Context, Result};
use jitlat_core::Span;
use jitlat_core::far_host::FarHost;
use jitlat_core::spec::CONTROL_PORT;
use jitlat_instruments::Unobserved;
use jitlat_output::terminal;
use jitlat_store::iperf3::{Iperf3Test, error_document};

pub static PROGRAM: Program = Program {
    name: "iperf3",
    about: "Measures jitter and loss over UDP with `jitlat serve` as the far end, with the text and the JSON of iperf3",
    usage: "-u -c HOST [OPTIONS]",
    options: &[
        Opt::printed("-c, --client", "HOST", "the host that runs `jitlat serve`"),
        Opt::printed("-u, --udp", "", "UDP; without it: `jitlat HOST --load tcp --load-proto iperf3`"),
        Opt::refused("-s, --server", "", "`jitlat serve` is the server of these tests"),
        Opt::printed("-p, --port", "PORT", "--control-port PORT (2666)"),
        Opt::printed("-b, --bitrate", "RATE", "-r RATE; default 1M, and no rate of 0"),
        Opt::printed("-t, --time", "SECONDS", "--duration TIME (10), at least one packet"),
        Opt::ours("-n, --bytes", "BYTES", "-n N (with -l)", |_| Ok(Vec::new())),
        Opt::ours("-k, --blockcount", "N", "-n N", |n| with("-n", n)),
        Opt::printed("-l, --length", "BYTES", "-l BYTES (1460)"),
        Opt::ours("-R, --reverse", "", "-R", |_| of_switch("-R")),
        Opt::refused("--bidir", "", "run one test and another with -R, or `jitlat HOST -b`"),
        Opt::ours("-P, --parallel", "1", "nothing; other numbers are refused", |n| match n {
            "1" => Ok(Vec::new()),
            _ => Err("a test has one stream".to_owned()),
        }),
        Opt::printed("-i, --interval", "SECONDS", "length of the intervals (1); 0 for none"),
        Opt::ours("-B, --bind", "ADDR", "--bind ADDR", |address| with("--bind", address)),
        Opt::ours("--cport", "PORT", "-s PORT", |port| with("-s", port)),
        Opt::ours("-4, --version4", "", "-4", |_| of_switch("-4")),
        Opt::ours("-6, --version6", "", "-6", |_| of_switch("-6")),
        Opt::ours("-S, --tos", "TOS", "-D DSCP (the TOS octet divided by 4)", |tos| {
            with("-D", dscp_of_tos(tos)?)
        }),
        Opt::ours("--dscp", "DSCP", "-D DSCP", |dscp| with("-D", dscp)),
        Opt::printed("-J, --json", "", "JSON (--as iperf3)"),
        Opt::printed("-f, --format", "LETTER", "the prefix is chosen by the size"),
        Opt::nothing("-V, --verbose", "", "`jitlat -f LOG -v` prints every figure"),
        Opt::nothing("--forceflush", "", "the text is printed at the end"),
        Opt::nothing("--udp-counters-64bit", "", "numbers have 64 bits"),
        Opt::nothing("--get-server-output", "", "the text contains the receiver's figures"),
        Opt::nothing("--connect-timeout", "MS", "the connection has its own timeout"),
        Opt::refused("-O, --omit", "SECONDS", "no packet is left out"),
        Opt::refused("-w, --window", "BYTES", "buffers are chosen by the rate"),
        Opt::refused("-T, --title", "TEXT", "`jitlat --name TEXT` names a test"),
        Opt::refused("-Z, --zerocopy", "", "packets are sent one by one"),
        Opt::refused("--logfile", "FILE", "redirect the output to a file"),
        Opt::version("-v, --version", "iperf 3.12"),
    ],
    run,
    wrong: 1,
    failed: 1,
};

/// Longest test, in seconds, and lengths of the intervals that iperf3 takes.
const LONGEST: f64 = 86_400.0;
const INTERVALS: std::ops::RangeInclusive<f64> = 0.1..=60.0;
/// Payload of a packet without -l, as iperf3 chooses it for an MTU of 1500.
const USUAL_LENGTH: u64 = 1460;
/// Length of the test without -t, -n and -k, in seconds.
const USUAL_TIME: &str = "10";
/// Name and version in JSON, so that nobody takes it for that of iperf3.
const PROGRAM_VERSION: &str = concat!("jitlat ", env!("CARGO_PKG_VERSION"));

/// Parses a number with the suffix K, M or G.
fn number(text: &str, step: f64) -> Result<f64, String> {
    let (number, power) = match text.chars().last() {
        Some('k' | 'K') => (&text[..text.len() - 1], 1),
        Some('m' | 'M') => (&text[..text.len() - 1], 2),
        Some('g' | 'G') => (&text[..text.len() - 1], 3),
        _ => (text, 0),
    };
    let number = number.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
    number
        .map(|number| number * step.powi(power))
        .ok_or(format!("'{text}' is not a number: write 1000, 64K or 1M"))
}

/// Makes our words of rate, length and number of packets.
fn traffic(given: &Given) -> Words {
    let length = given.value("-l").map_or(Ok(USUAL_LENGTH as f64), |text| number(text, 1024.0))?;
    let rate = given.value("-b").unwrap_or("1M");
    if rate.contains('/') {
        return Err(format!("-b {rate}: a burst of packets is `jitlat HOST --schedule burst --burst N`"));
    }
    let rate = number(rate, 1000.0)?;
    if rate < 1.0 {
        return Err("-b 0: an unlimited rate is not possible over UDP here: give a rate".to_owned());
    }
    let mut words = with("-l", format!("{length:.0}"))?;
    let mut period = length * 8e9 / rate;
    if ["-t", "-n", "-k"].iter().filter(|name| given.has(name)).count() > 1 {
        return Err("-t, -n and -k all set the length of the test: give one".to_owned());
    }
    if let Some(bytes) = given.value("-n") {
        let packets = (number(bytes, 1024.0)? / length.max(1.0)).ceil();
        words.extend(with("-n", format!("{packets:.0}"))?);
    } else if !given.has("-k") {
        let time = given.value("-t").unwrap_or(USUAL_TIME);
        if number(time, 1.0)? > LONGEST {
            return Err(format!("-t {time}: give at most {LONGEST} seconds"));
        }
        words.extend(with("--duration", seconds(time)?)?);
        // At a low rate the test does not wait for the end of a period that is longer than the test.
        period = period.min(number(time, 1.0)? * 1e9);
    }
    words.extend(with("-p", format!("{:.0}ns", period.max(1.0)))?);
    Ok(words)
}

/// Runs the test. As in iperf3, an error is part of the document with -J, and the exit status is then 0.
fn run(given: &Given) -> Result<u8> {
    match measured(given) {
        Err(e) if given.has("-J") && !e.is::<WrongLine>() => {
            let document = error_document(PROGRAM_VERSION, &crate::exit::explain(&e));
            terminal::print(&(serde_json::to_string_pretty(&document)? + "\n"))?;
            Ok(0)
        }
        Ok(text) => {
            terminal::print(&text)?;
            Ok(0)
        }
        Err(e) => Err(e),
    }
}

/// Returns the text or document of a test.
fn measured(given: &Given) -> Result<String> {
    let host = given.value("-c").ok_or_else(|| wrong("give a server: iperf3 -u -c HOST"))?;
    if let [extra, ..] = &given.operands[..] {
        return Err(wrong(format!("'{extra}' is not an option: the host follows -c")));
    }
    if !given.has("-u") {
        return Err(wrong(format!(
            "without -u iperf3 measures the throughput of TCP: `jitlat {host} --load tcp --load-proto iperf3` does, with a \
             server of iperf3"
        )));
    }
    let FarHost { name, port } = host.parse().map_err(as_wrong)?;
    let port = given.number::<u16>("-p")?.or(port).unwrap_or(CONTROL_PORT);
    let interval = given.number::<f64>("-i")?.unwrap_or(1.0);
    if interval != 0.0 && !INTERVALS.contains(&interval) {
        return Err(wrong(format!("-i {interval}: give 0.1 to 60 seconds, or 0 for no intervals")));
    }
    if let Some(letter) = given.value("-f").filter(|text| text.len() != 1 || !"kmgtKMGT".contains(*text)) {
        return Err(wrong(format!("-f {letter}: give one of the letters k, m, g, t, K, M, G, T")));
    }
    let mut words = given.words()?;
    words.extend(traffic(given).map_err(wrong)?);
    words.extend([format!("--control-port={port}"), "--".to_owned(), name.clone()]);
    let test = OneWayTest::new(&words)?;
    let stop = crate::interrupt::stop()?;
    let OneWayResult { runs, .. } = test.run(&stop, &mut Unobserved)?;
    let run = runs.first().context("nothing was measured")?;
    // A test that ends after a time has this length, even if the last packet covers a longer time at a low rate.
    let is_timed = !given.has("-n") && !given.has("-k");
    let limit = is_timed.then(|| given.value("-t").unwrap_or(USUAL_TIME).parse().ok()).flatten();
    let limit = limit.map(|seconds: f64| Span((seconds * 1e9) as i64));
    let test = Iperf3Test::new(&run.session, &run.records, Span((interval * 1e9) as i64), limit);
    Ok(match given.has("-J") {
        true => serde_json::to_string_pretty(&test.document(&name, port, PROGRAM_VERSION))? + "\n",
        false => test.text(&name, port),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_those_of_iperf3() {
        assert_eq!(number("1M", 1000.0), Ok(1e6));
        assert_eq!(number("8K", 1024.0), Ok(8192.0));
        assert_eq!(number("2.5g", 1000.0), Ok(2.5e9));
        assert!(number("x", 1000.0).is_err() && number("", 1000.0).is_err());
    }
}
