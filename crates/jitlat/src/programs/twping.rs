//! `twping`: round trips with a TWAMP server.

use super::arguments::{ForeignOption as Opt, Given, Program, Words, of_switch, seconds, with};
use super::measured::two_way;
use super::owping::{announce, first_packets, mean_gap, mode, payload, port, schedule, unit};
use anyhow::{Context, Result, bail};
use jitlat_instruments::Unobserved;
use jitlat_output::terminal;
use jitlat_proto::amp::printed::OwpingOptions;
use jitlat_proto::twamp::TwpingStatistics;

pub static PROGRAM: Program = Program {
    name: "twping",
    about: "Measures round trips and both directions with a TWAMP server, with the text of twping",
    usage: "[OPTIONS] HOST[:PORT]",
    options: &[
        Opt::ours("-c", "N", "-n N", |n| with("-n", n)),
        Opt::ours("-i", "SCHEDULE", "-p TIME, --schedule", schedule),
        Opt::ours("-L", "SECONDS", "-W TIME", |s| with("-W", seconds(s)?)),
        Opt::printed("-s", "BYTES", "-l BYTES (padding and header)"),
        Opt::ours("-D", "DSCP", "-D DSCP", |dscp| with("-D", dscp)),
        Opt::printed("-P", "PORT", "-s PORT (the first free one of a range)"),
        Opt::refused("-z", "SECONDS", "a test starts at once"),
        Opt::ours("-A", "MODES", "--twamp-mode", modes_of_twamp),
        Opt::ours("-u", "USER", "--twamp-user USER", |user| with("--twamp-user", user)),
        Opt::ours("-k", "FILE", "--twamp-key-file FILE", |file| with("--twamp-key-file", file)),
        Opt::ours("-S", "ADDR", "--bind ADDR", |address| with("--bind", address)),
        Opt::ours("-B", "IFACE", "--interface IFACE", |name| with("--interface", name)),
        Opt::ours("-Z", "", "--nat", |_| of_switch("--nat")),
        Opt::ours("-4", "", "-4", |_| of_switch("-4")),
        Opt::ours("-6", "", "-6", |_| of_switch("-6")),
        Opt::refused("-a", "LIST", "percentiles are in the report of `jitlat ping --proto twamp -v`"),
        Opt::printed("-b", "SECONDS", "width of the buckets of delays (0.0001)"),
        Opt::printed("-n", "UNIT", "unit of delays: n, u, m or s"),
        Opt::refused("-N", "N", "`jitlat ping --interval 1s --as intervals` writes windows"),
        Opt::refused("-F", "FILE", "`jitlat ping -o LOG` stores the packets"),
        Opt::printed("-v", "[N]", "a line for each packet, or the first N"),
        Opt::printed("-U", "", "with -M also the times in seconds since 1970"),
        Opt::printed("-R", "", "one line per packet, without text (--as twping)"),
        Opt::printed("-M", "", "machine-readable statistics (--as twping-m)"),
        Opt::printed("-Q", "", "nothing is printed"),
    ],
    run,
    wrong: 1,
    failed: 1,
};

fn modes_of_twamp(letters: &str) -> Words {
    mode(letters)?.map_or(Ok(Vec::new()), |mode| with("--twamp-mode", mode))
}

fn run(given: &Given) -> Result<u8> {
    let host = given.operand("HOST")?;
    let mut words = given.words()?;
    if !given.has("-c") {
        words.extend(["-n".to_owned(), "100".to_owned()]);
    }
    if !given.has("-i") {
        words.extend(schedule("0.1e").map_err(anyhow::Error::msg)?);
    }
    words.extend(payload(given, 14, 48)?);
    words.extend(port(given)?.into_iter().flat_map(|port| ["-s".to_owned(), port.to_string()]));
    let mut style =
        OwpingOptions { unit: unit(given)?, unix_times: given.has("-U"), ..OwpingOptions::default() };
    if let Some(width) = given.number::<f64>("-b")? {
        style.bucket = Some(width).filter(|w| *w > 0.0).context("-b: a bucket must be longer than zero")?;
    }
    words.extend(["--proto".to_owned(), "twamp".to_owned(), "--".to_owned(), host.to_owned()]);
    announce(given, given.number("-c")?.unwrap_or(100), mean_gap(given), given.number("-L")?.unwrap_or(2.0))?;
    let stop = crate::interrupt::stop()?;
    let run = two_way(&words, &mut Unobserved, &stop)?.run;
    let Some(statistics) = TwpingStatistics::new(&run.session, &run.records, style) else {
        bail!(
            "{host} did not report its times, without which there is no such result: `jitlat ping {host} --proto twamp`"
        );
    };
    let first = given.number::<usize>("-v").unwrap_or(None);
    let text = match (given.has("-R"), given.has("-M"), given.has("-v")) {
        (true, ..) => statistics.raw(),
        (_, true, _) => statistics.machine(),
        (.., true) => first_packets(&statistics.text(), first),
        _ => statistics.summary(),
    };
    if !given.has("-Q") {
        terminal::print(&text)?;
    }
    Ok(0)
}
