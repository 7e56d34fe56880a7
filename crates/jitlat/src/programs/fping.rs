//! `fping`: ICMP echo requests to one or more hosts.

use super::arguments::{ForeignOption as Opt, Given, Program, milliseconds, of_switch, with};
use super::measured::{Arrivals, two_way};
use anyhow::{Context, Result, bail};
use jitlat_core::time::SECOND;
use jitlat_instruments::Stop;
use jitlat_net::clock;
use jitlat_output::check::CheckState;
use jitlat_output::terminal;
use jitlat_store::fping::{Replies, milliseconds as trip, number, probe};
use std::fmt::Write;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use std::{fs, io, thread};
use tracing::error;

pub static PROGRAM: Program = Program {
    name: "fping",
    about: "Sends ICMP echo requests to hosts, and prints the lines of fping",
    usage: "[OPTIONS] HOST…",
    options: &[
        Opt::ours("-4, --ipv4", "", "-4", |_| of_switch("-4")),
        Opt::ours("-6, --ipv6", "", "-6", |_| of_switch("-6")),
        Opt::ours("-b, --size", "BYTES", "-l BYTES", |bytes| with("-l", bytes)),
        Opt::nothing("-B, --backoff", "N", "every request has the same timeout"),
        Opt::ours("-c, --count", "N", "-n N", |n| with("-n", n)),
        Opt::ours("-C, --vcount", "N", "-n N", |n| with("-n", n)),
        Opt::printed("-f, --file", "FILE", "hosts are also read from FILE; - is standard input"),
        Opt::refused("-g, --generate", "", "give the hosts one by one, or with -f"),
        Opt::refused("-H, --ttl", "N", "requests have the system's TTL; `jitlat path HOST` shows the hops"),
        Opt::ours("-I, --iface", "IFACE", "--interface IFACE", |name| with("--interface", name)),
        Opt::nothing("-i, --interval", "MS", "each host has a socket and a schedule of its own"),
        Opt::printed("-l, --loop", "", "until Ctrl-C, at most a million requests per host"),
        Opt::refused("-m, --all", "", "give the addresses one by one"),
        Opt::refused(
            "-M, --dontfrag",
            "",
            "a test that loses everything finds the largest packet: `jitlat ping HOST`",
        ),
        Opt::ours("-O, --tos", "N", "-D DSCP", |tos| with("-D", super::arguments::dscp_of_tos(tos)?)),
        Opt::ours("-p, --period", "MS", "-p TIME", |ms| with("-p", milliseconds(ms)?)),
        Opt::printed("-r, --retry", "N", "further requests to a host that does not answer (3)"),
        Opt::nothing("-R, --random", "", "the payload of each request differs"),
        Opt::ours("-S, --src", "ADDR", "--bind ADDR", |address| with("--bind", address)),
        Opt::ours("-t, --timeout", "MS", "-W TIME", |ms| with("-W", milliseconds(ms)?)),
        Opt::printed("-a, --alive", "", "only hosts that answer"),
        Opt::nothing("-A, --addr", "", "hosts are printed as given"),
        Opt::refused("-d, --rdns", "", "give the names"),
        Opt::printed("-D, --timestamp", "", "print timestamp before each output line"),
        Opt::printed("-e, --elapsed", "", "the round trip after `is alive`"),
        Opt::refused("-J, --json", "", "`jitlat ping A B C --json -` writes a list of JSON objects"),
        Opt::refused("-n, --name", "", "give the names"),
        Opt::refused("-N, --netdata", "", "`jitlat ping --as openmetrics` writes metrics"),
        Opt::refused("-o, --outage", "", "losses in a row are in the report of `jitlat ping`"),
        Opt::printed("-q, --quiet", "", "no line per request"),
        Opt::refused("-Q, --squiet", "SECS", "`jitlat ping --interval 1s --as intervals` writes windows"),
        Opt::printed("-s, --stats", "", "totals at the end, on standard error"),
        Opt::printed("-u, --unreach", "", "only hosts that do not answer"),
        Opt::refused("-x, --reachable", "N", "`jitlat ping A B --fail-if loss>50%` sets the exit status"),
        Opt::nothing("-v, --version", "", "`jitlat --version` prints the version"),
    ],
    run,
    wrong: 3,
    failed: 4,
};

/// Maximum number of hosts. Each needs a thread and a socket.
const MAX_HOSTS: usize = 256;
/// Number of requests per host with -l.
const LOOP: u64 = 1_000_000;
/// Longest default timeout with -c, -C and -l, in ms.
const LONGEST_TIMEOUT: f64 = 2000.0;
/// Bytes of ICMP header before the payload that -b counts.
const ICMP_HEADER: u64 = 8;
/// Time between two checks for a stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Result of a host.
enum HostResult {
    Replies(Replies),
    /// The name has no address.
    Unknown(String),
    /// Nothing was measured.
    Failed(String),
}

fn run(given: &Given) -> Result<u8> {
    let hosts = hosts(given)?;
    let counted = given.has("-c") || given.has("-C");
    let looped = given.has("-l");
    if counted && looped {
        bail!("-l sends until Ctrl-C: leave out -c or -C");
    }
    if given.has("-a") && given.has("-u") {
        bail!("-a prints hosts that answer, -u those that do not: give one of them");
    }
    let period: f64 = given.number("-p")?.unwrap_or(1000.0);
    let mut words = given.words()?;
    let retries: u64 = given.number("-r")?.unwrap_or(3);
    if looped {
        words.extend(["-n".to_owned(), LOOP.to_string()]);
    } else if !counted {
        words.extend(["-n".to_owned(), (retries + 1).to_string()]);
    }
    let timeout = given.number::<f64>("-t")?;
    if timeout.is_none() {
        let timeout = if counted || looped { period.min(LONGEST_TIMEOUT) } else { 500.0 };
        words.extend(
            with("-W", milliseconds(&timeout.to_string()).map_err(anyhow::Error::msg)?).unwrap_or_default(),
        );
    }
    if !given.has("-p") {
        // Without a number of requests, each request follows the timeout of the previous one.
        let apart = if counted || looped { 1000.0 } else { timeout.unwrap_or(500.0).max(1.0) };
        words.extend(
            with("-p", milliseconds(&apart.to_string()).map_err(anyhow::Error::msg)?).unwrap_or_default(),
        );
    }
    let bytes = given.number::<u64>("-b")?.unwrap_or(56) + ICMP_HEADER;
    if !given.has("-b") {
        words.extend(["-l".to_owned(), "56".to_owned()]);
    }
    let width = hosts.iter().map(|host| host.chars().count()).max().unwrap_or(0);
    let lines = Lines {
        each: (counted || looped) && !given.has("-q"),
        looped,
        until_answer: !counted && !looped,
        stamped: given.has("-D"),
        width,
        bytes,
    };
    let began = Instant::now();
    let results = measure(&hosts, &words, lines)?;
    let mut out = String::new();
    let mut summary = String::new();
    let (mut unresolved, mut failed) = (false, false);
    for (host, result) in hosts.iter().zip(&results) {
        match result {
            HostResult::Unknown(why) => {
                unresolved = true;
                let _ = writeln!(summary, "{host}: {why}");
            }
            HostResult::Failed(why) => {
                failed = true;
                let _ = writeln!(summary, "{host}: {why}");
            }
            HostResult::Replies(replies) if counted || looped => {
                summary +=
                    &if given.has("-C") { replies.line(host, width) } else { replies.summary(host, width) };
            }
            HostResult::Replies(replies) => out += &verdict(given, host, replies),
        }
    }
    terminal::print(&out)?;
    if lines.each {
        summary.insert(0, '\n');
    }
    if given.has("-s") {
        summary += &totals(&results, began.elapsed());
    }
    terminal::print_to_stderr(&summary)?;
    let silent = |result: &HostResult| matches!(result, HostResult::Replies(r) if r.received() == 0);
    Ok(match (failed, unresolved, results.iter().any(silent)) {
        (true, ..) => PROGRAM.failed,
        (_, true, _) => 2,
        (.., true) => 1,
        _ => 0,
    })
}

/// Returns the hosts: operands, and lines of the file.
fn hosts(given: &Given) -> Result<Vec<String>> {
    let mut hosts = given.operands.clone();
    if let Some(file) = given.file("-f")? {
        let text = match file {
            "-" => io::read_to_string(io::stdin()),
            file => fs::read_to_string(file),
        };
        let text = text.with_context(|| format!("reading the hosts in {file}"))?;
        let names = text.lines().filter_map(|line| line.split_whitespace().next());
        hosts.extend(names.filter(|name| !name.starts_with('#')).map(str::to_owned));
    }
    match hosts.len() {
        0 => bail!("give a host: fping HOST"),
        1..=MAX_HOSTS => Ok(hosts),
        n => bail!("{n} hosts are too many: give at most {MAX_HOSTS}"),
    }
}

/// Settings of the lines that are printed per request.
#[derive(Clone, Copy)]
struct Lines {
    each: bool,
    looped: bool,
    /// True to end the test of a host with its first answer.
    until_answer: bool,
    stamped: bool,
    width: usize,
    bytes: u64,
}

/// Tests all hosts at the same time.
fn measure(hosts: &[String], words: &[String], lines: Lines) -> Result<Vec<HostResult>> {
    let stop = crate::interrupt::stop()?;
    let stops: Vec<Stop> = hosts.iter().map(|_| Stop::new()).collect();
    let (done, ended) = channel();
    thread::scope(|scope| {
        let mut running = Vec::new();
        for (host, own) in hosts.iter().zip(&stops) {
            let done = done.clone();
            running.push(thread::Builder::new().name("target".to_owned()).spawn_scoped(
                scope,
                move || {
                    let result = test(host, words, lines, own);
                    // Sending cannot fail: `ended` exists until all threads have ended.
                    let _ = done.send(());
                    result
                },
            )?);
        }
        let mut left = running.len();
        while left > 0 {
            match ended.recv_timeout(STOP_CHECK_INTERVAL) {
                Ok(()) => left -= 1,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if stop.flag().swap(false, std::sync::atomic::Ordering::SeqCst) {
                stops.iter().for_each(Stop::request);
            }
        }
        let ended = running.into_iter().map(|thread| match thread.join() {
            Ok(result) => Ok(result),
            Err(_) => bail!("the thread of a test panicked: this is a bug in jitlat; please report it"),
        });
        ended.collect()
    })
}

fn test(host: &str, words: &[String], lines: Lines, stop: &Stop) -> HostResult {
    let mut words = words.to_vec();
    words.extend(["--proto".to_owned(), "icmp".to_owned(), "--".to_owned(), host.to_owned()]);
    let mut so_far = Replies::default();
    let mut show = Arrivals::new(|record| {
        if lines.until_answer {
            stop.request();
        }
        let Ok(seq) = usize::try_from(record.seq) else { return };
        if !lines.each || seq < so_far.0.len() {
            return;
        }
        so_far.0.resize(seq, None);
        so_far.0.push(trip(record));
        lines.print(&probe(host, lines.width, &so_far, lines.bytes));
    });
    let result = two_way(&words, &mut show, stop);
    match result {
        Err(e) => match e.downcast_ref() {
            Some(jitlat_instruments::Error::Resolve(_)) => HostResult::Unknown(crate::exit::explain(&e)),
            // No route to the host, or a router that says so: as in fping, all requests are lost.
            _ if is_unreachable(&e) || is_of_far_host(&e) => {
                error!("{}", crate::exit::explain(&e));
                let probes = words.iter().skip_while(|word| *word != "-n").nth(1);
                let probes = probes.and_then(|n| n.parse::<usize>().ok()).unwrap_or(1);
                HostResult::Replies(Replies(vec![None; if lines.looped { 0 } else { probes }]))
            }
            _ => HostResult::Failed(crate::exit::explain(&e)),
        },
        Ok(result) => {
            let replies = Replies::of(&result.run.session, &result.run.records);
            // The lines of requests without an answer are printed at the end.
            for (seq, _) in replies.0.iter().enumerate().filter(|(_, ms)| lines.each && ms.is_none()) {
                lines.print(&probe(host, lines.width, &Replies(replies.0[..=seq].to_vec()), lines.bytes));
            }
            HostResult::Replies(replies)
        }
    }
}

/// Returns true if the host or a router on the path is the reason for `error`.
fn is_of_far_host(error: &anyhow::Error) -> bool {
    crate::check::state_of(error) == CheckState::Critical
}

/// Returns true if `error` means that there is no route to the host.
fn is_unreachable(error: &anyhow::Error) -> bool {
    let kinds = error.chain().filter_map(|cause| Some(cause.downcast_ref::<io::Error>()?.kind()));
    let unreachable = [io::ErrorKind::NetworkUnreachable, io::ErrorKind::HostUnreachable];
    kinds.into_iter().any(|kind| unreachable.contains(&kind))
}

impl Lines {
    fn print(self, line: &str) {
        let stamp = match self.stamped {
            true => format!("[{:.5}] ", clock::wall().0 as f64 / SECOND as f64),
            false => String::new(),
        };
        // A closed standard output does not end the test, whose result is on standard error.
        let _ = terminal::print(&(stamp + line));
    }
}

/// Formats the line that states whether a host is alive; empty if -a or -u excludes the host.
fn verdict(given: &Given, host: &str, replies: &Replies) -> String {
    let elapsed = match replies.extremes().filter(|_| given.has("-e")) {
        Some([first, ..]) => format!(" ({} ms)", number(first)),
        None => String::new(),
    };
    match (replies.received() > 0, given.has("-a"), given.has("-u")) {
        (true, true, _) => format!("{host}{elapsed}\n"),
        (false, _, true) => format!("{host}\n"),
        (true, _, true) | (false, true, _) => String::new(),
        (true, ..) => format!("{host} is alive{elapsed}\n"),
        (false, ..) => format!("{host} is unreachable\n"),
    }
}

/// Formats the totals of `-s`.
fn totals(results: &[HostResult], elapsed: Duration) -> String {
    let replies =
        || results.iter().filter_map(|r| if let HostResult::Replies(r) = r { Some(r) } else { None });
    let alive = replies().filter(|r| r.received() > 0).count();
    let known = replies().count();
    let sent: usize = replies().map(|r| r.0.len()).sum();
    let received: usize = replies().map(Replies::received).sum();
    let all = Replies(replies().flat_map(|r| r.0.iter().copied()).collect());
    let mut out = format!(
        "\n{:8} targets\n{alive:8} alive\n{:8} unreachable\n{:8} unknown addresses\n\n{:8} timeouts (waiting for \
         response)\n{sent:8} ICMP Echos sent\n{received:8} ICMP Echo Replies received\n{:8} other ICMP received\n\n",
        results.len(),
        known - alive,
        results.len() - known,
        sent - received,
        0
    );
    let [min, mean, max] = all.extremes().unwrap_or_default().map(number);
    for (name, ms) in [("min", min), ("avg", mean), ("max", max)] {
        let _ = writeln!(out, " {ms} ms ({name} round trip time)");
    }
    let _ = writeln!(out, "{:13.3} sec (elapsed real time)\n", elapsed.as_secs_f64());
    out
}
