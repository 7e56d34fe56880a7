//! `twping`: round trips with a TWAMP server.

use super::arguments::{
    ForeignOption as Opt, Given, Program, Words, as_wrong, of_switch, seconds, with, wrong,
};
use super::measured::TwoWayTest;
use super::perfsonar::{self as common, Announcement, first_packets, mode, port, stream_words, unit};
use anyhow::{Result, bail};
use jitlat_core::far_host::FarHost;
use jitlat_output::terminal;
use jitlat_proto::amp::printed::OwpingOptions;
use jitlat_proto::twamp::TwpingStatistics;

pub static PROGRAM: Program = Program {
    name: "twping",
    about: "Measures round trips and both directions with a TWAMP server, with the text of twping",
    usage: "[OPTIONS] HOST[:PORT]",
    options: &[
        common::COUNT,
        common::SCHEDULE,
        Opt::ours("-L", "SECONDS", "-W TIME", |s| with("-W", seconds(s)?)),
        common::PADDING,
        common::DSCP,
        Opt::printed("-P", "PORT", "-s PORT (the first free one of a range)"),
        Opt::refused("-z", "SECONDS", "a test starts at once"),
        Opt::ours("-A", "MODES", "--twamp-mode", modes_of_twamp),
        Opt::ours("-u", "USER", "--twamp-user USER", |user| with("--twamp-user", user)),
        Opt::ours("-k", "FILE", "--twamp-key-file FILE", |file| with("--twamp-key-file", file)),
        common::LOCAL,
        Opt::ours("-B", "IFACE", "--interface IFACE", |name| with("--interface", name)),
        Opt::ours("-Z", "", "--nat", |_| of_switch("--nat")),
        common::V4,
        common::V6,
        Opt::refused("-a", "LIST", "percentiles are in the report of `jitlat ping --proto twamp -v`"),
        Opt::printed("-b", "SECONDS", "width of the buckets of delays (0.0001)"),
        common::UNIT,
        Opt::refused("-N", "N", "`jitlat ping --interval 1s --as intervals` writes windows"),
        Opt::refused("-F", "FILE", "`jitlat ping -o LOG` stores the packets"),
        common::PACKETS,
        common::UNIX_TIMES,
        Opt::printed("-R", "", "one line per packet, without text (--as twping)"),
        Opt::printed("-M", "", "machine-readable statistics (--as twping-m)"),
        common::QUIET,
    ],
    run,
    wrong: 1,
    failed: 1,
};

/// Number of packets without `-c`.
const PACKETS: u32 = 100;

fn modes_of_twamp(letters: &str) -> Words {
    mode(letters)?.map_or(Ok(Vec::new()), |mode| with("--twamp-mode", mode))
}

fn run(given: &Given) -> Result<u8> {
    let host = given.operand("HOST")?;
    let mut words = stream_words(given, PACKETS)?;
    // A named port means that a control server must answer: twping has no TWAMP Light.
    if host.parse::<FarHost>().map_err(as_wrong)?.port.is_none() {
        words.push(format!("--twamp-port={}", jitlat_proto::twamp::PORT));
    }
    words.extend(port(given)?.into_iter().flat_map(|port| ["-s".to_owned(), port.to_string()]));
    let mut style =
        OwpingOptions { unit: unit(given)?, unix_times: given.has("-U"), ..OwpingOptions::default() };
    if let Some(width) = given.number::<f64>("-b")? {
        if width <= 0.0 {
            return Err(wrong("-b: a bucket must be longer than zero"));
        }
        style.bucket = width;
    }
    words.extend(["--proto".to_owned(), "twamp".to_owned(), "--".to_owned(), host.to_owned()]);
    let test = TwoWayTest::new(&words)?;
    let stop = crate::interrupt::stop()?;
    let run = test.run(&mut Announcement::new(given, PACKETS)?, &stop)?.run;
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
