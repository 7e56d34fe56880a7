//! `fping`: ICMP echo requests to one or more hosts.

use super::arguments::{ForeignOption as Opt, Given, Program, milliseconds, of_switch, with, wrong};
use super::measured::TwoWayTest;
use anyhow::{Context, Result, bail};
use jitlat_core::observer::{Event, Observer};
use jitlat_core::record::Moment;
use jitlat_core::time::SECOND;
use jitlat_core::{PacketRecord, WallTime};
use jitlat_instruments::Stop;
use jitlat_net::clock;
use jitlat_output::check::CheckState;
use jitlat_output::terminal;
use jitlat_output::terminal::replies::{GRACE, OpenRequests};
use jitlat_store::fping::{Replies, SoFar, milliseconds as trip, number};
use std::fmt::Write;
use std::io::IsTerminal;
use std::net::{Ipv4Addr, ToSocketAddrs};
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
        Opt::printed(
            "-g, --generate",
            "",
            "the hosts of a network (ADDR/LENGTH), or those from one address to another",
        ),
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
        Opt::printed("-A, --addr", "", "hosts are printed as addresses"),
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
        Opt::printed("-x, --reachable", "N", "one line: whether at least N hosts answer"),
        Opt::nothing("-T", "N", "as in fping"),
        Opt::version("-v, --version", "fping: Version 5.1"),
    ],
    run,
    wrong: 1,
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
        return Err(wrong("-l sends until Ctrl-C: leave out -c or -C"));
    }
    if given.has("-a") && given.has("-u") {
        return Err(wrong("-a prints hosts that answer, -u those that do not: give one of them"));
    }
    let period: f64 = given.number("-p")?.unwrap_or(1000.0);
    let mut words = given.words()?;
    let retries: u64 = given.number("-r")?.unwrap_or(3);
    if looped {
        words.extend(["-n".to_owned(), LOOP.to_string()]);
    } else if !counted {
        words.extend(["-n".to_owned(), (retries + 1).to_string()]);
    }
    let usual = if counted || looped { period.min(LONGEST_TIMEOUT) } else { 500.0 };
    let timeout = given.number::<f64>("-t")?.unwrap_or(usual);
    if !given.has("-t") {
        words.extend(with("-W", milliseconds(&timeout.to_string()).map_err(wrong)?).unwrap_or_default());
    }
    if !given.has("-p") {
        // Without a number of requests, each request follows the timeout of the previous one.
        let apart = if counted || looped { 1000.0 } else { timeout.max(1.0) };
        words.extend(with("-p", milliseconds(&apart.to_string()).map_err(wrong)?).unwrap_or_default());
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
        timeout: Duration::from_secs_f64(timeout.clamp(0.0, 1e6) / 1e3),
    };
    let least: Option<usize> = given.number("-x")?;
    let tests = hosts.iter().map(|host| {
        let ours = ["--proto", "icmp", "--", host].map(str::to_owned);
        TwoWayTest::new(&[&words[..], &ours].concat())
    });
    let tests: Vec<TwoWayTest> = tests.collect::<Result<_>>()?;
    let began = Instant::now();
    let results = measure(&hosts, &tests, lines)?;
    let mut out = String::new();
    let (mut summary, mut unknown) = (String::new(), String::new());
    let (mut unresolved, mut failed) = (false, false);
    for (host, result) in hosts.iter().zip(&results) {
        match result {
            HostResult::Unknown(why) => {
                unresolved = true;
                if !given.has("-q") {
                    let _ = writeln!(unknown, "{host}: {why}");
                }
            }
            HostResult::Failed(why) => {
                failed = true;
                let _ = writeln!(summary, "{host}: {why}");
            }
            HostResult::Replies(replies) if counted || looped => {
                summary +=
                    &if given.has("-C") { replies.line(host, width) } else { replies.summary(host, width) };
            }
            HostResult::Replies(_) if least.is_some() => {}
            HostResult::Replies(replies) => out += &verdict(given, host, replies),
        }
    }
    let alive = results.iter().filter(|result| matches!(result, HostResult::Replies(r) if r.received() > 0));
    let alive = alive.count();
    if let Some(least) = least {
        let enough = if alive >= least { "Enough" } else { "Not enough" };
        out = format!("{enough} hosts reachable (required: {least}, reachable: {alive})\n");
    }
    terminal::print(&out)?;
    if lines.each && !summary.is_empty() {
        summary.insert(0, '\n');
    }
    summary.insert_str(0, &unknown);
    if given.has("-s") {
        summary += &totals(&results, began.elapsed());
    }
    terminal::print_to_stderr(&summary)?;
    if let Some(least) = least.filter(|_| !failed) {
        return Ok(u8::from(alive < least));
    }
    let silent = |result: &HostResult| matches!(result, HostResult::Replies(r) if r.received() == 0);
    Ok(match (failed, unresolved, results.iter().any(silent)) {
        (true, ..) => PROGRAM.failed,
        (_, true, _) => 2,
        (.., true) => 1,
        _ => 0,
    })
}

/// Returns the hosts: operands, and lines of the file; those of a network with -g. Without any of these they are read
/// from standard input.
fn hosts(given: &Given) -> Result<Vec<String>> {
    let mut hosts = match given.has("-g") {
        true if given.has("-f") => return Err(wrong("-g and -f both give the hosts: leave one out")),
        true => generated(&given.operands).map_err(wrong)?,
        false => given.operands.clone(),
    };
    let is_piped = hosts.is_empty() && !io::stdin().is_terminal();
    if let Some(file) = given.file("-f")?.or(is_piped.then_some("-")) {
        let text = match file {
            "-" => io::read_to_string(io::stdin()),
            file => fs::read_to_string(file),
        };
        let text = text.with_context(|| format!("reading the hosts in {file}"))?;
        let names = text.lines().filter_map(|line| line.split_whitespace().next());
        hosts.extend(names.filter(|name| !name.starts_with('#')).map(str::to_owned));
    }
    if given.has("-A") {
        hosts.iter_mut().for_each(|host| *host = address(given, host).unwrap_or_else(|| host.clone()));
    }
    match hosts.len() {
        0 => Err(wrong("give a host: fping HOST")),
        1..=MAX_HOSTS => Ok(hosts),
        n => Err(wrong(format!("{n} hosts are too many: give at most {MAX_HOSTS}"))),
    }
}

/// Returns the addresses of a network, without those of the network itself and of its broadcasts, or those from the
/// first to the second operand.
fn generated(operands: &[String]) -> Result<Vec<String>, String> {
    let address = |text: &str| {
        let address = text.parse::<Ipv4Addr>().map_err(|_| format!("-g {text}: give IPv4 addresses"));
        address.map(u32::from)
    };
    let (first, last) = match operands {
        [network] => {
            let wrong = || format!("-g {network}: write a network like 192.0.2.0/24, or two addresses");
            let (ip, length) = network.split_once('/').ok_or_else(wrong)?;
            let length = length.parse::<u32>().ok().filter(|length| *length <= 32).ok_or_else(wrong)?;
            let hosts = u32::MAX.checked_shr(length).unwrap_or(0);
            let (first, last) = (address(ip)? & !hosts, address(ip)? | hosts);
            if hosts > 1 { (first + 1, last - 1) } else { (first, last) }
        }
        [first, last] => (address(first)?, address(last)?),
        _ => return Err("-g needs a network like 192.0.2.0/24, or two addresses".to_owned()),
    };
    let number = u64::from(last).saturating_sub(first.into()) + 1;
    match first <= last && number <= MAX_HOSTS as u64 {
        true => Ok((first..=last).map(|ip| Ipv4Addr::from(ip).to_string()).collect()),
        false if first > last => Err("-g: the first address is greater than the last one".to_owned()),
        false => Err(format!("-g: {number} hosts are too many: give at most {MAX_HOSTS}")),
    }
}

/// Returns the address of a host; `None` if it has none of the family that -4 or -6 requires.
fn address(given: &Given, host: &str) -> Option<String> {
    let mut known = (host, 0).to_socket_addrs().ok()?;
    let is_wanted = |ip: &std::net::SocketAddr| match ip.is_ipv4() {
        true => !given.has("-6"),
        false => !given.has("-4"),
    };
    known.find(is_wanted).map(|at| at.ip().to_string())
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
    /// Time after which a request counts as lost.
    timeout: Duration,
}

/// Tests all hosts at the same time.
fn measure(hosts: &[String], tests: &[TwoWayTest], lines: Lines) -> Result<Vec<HostResult>> {
    let stop = crate::interrupt::stop()?;
    let stops: Vec<Stop> = hosts.iter().map(|_| Stop::new()).collect();
    let (done, ended) = channel();
    thread::scope(|scope| {
        let mut running = Vec::new();
        for ((host, test), own) in hosts.iter().zip(tests).zip(&stops) {
            let done = done.clone();
            running.push(thread::Builder::new().name("target".to_owned()).spawn_scoped(
                scope,
                move || {
                    let result = run_test(host, test, lines, own);
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

fn run_test(host: &str, test: &TwoWayTest, lines: Lines, stop: &Stop) -> HostResult {
    let mut shown =
        RequestLines { host, lines, stop, open: OpenRequests::default(), so_far: SoFar::default() };
    match test.run(&mut shown, stop) {
        Err(e) => match e.downcast_ref() {
            Some(jitlat_instruments::Error::Resolve(_)) => HostResult::Unknown(lookup(&e)),
            // No route to the host, or a router that says so: as in fping, all requests are lost.
            _ if is_unreachable(&e) || is_of_far_host(&e) => {
                error!("{}", crate::exit::explain(&e));
                let requests = if lines.looped { 0 } else { test.requests() };
                shown.lost(requests.cast_signed());
                HostResult::Replies(Replies(vec![None; usize::try_from(requests).unwrap_or(0)]))
            }
            _ => HostResult::Failed(crate::exit::explain(&e)),
        },
        Ok(result) => HostResult::Replies(Replies::of(&result.run.session, &result.run.records)),
    }
}

/// Returns the reason why a name has no address, in the words of fping.
fn lookup(error: &anyhow::Error) -> String {
    let text = crate::exit::explain(error);
    match text.split_once("failed to lookup address information: ") {
        Some((_, reason)) => reason.split(';').next().unwrap_or(reason).to_owned(),
        None => text,
    }
}

/// Observer that prints a line for each answer, and for each request whose answer did not arrive in time.
struct RequestLines<'a> {
    host: &'a str,
    lines: Lines,
    /// Ends the test of this host.
    stop: &'a Stop,
    open: OpenRequests,
    so_far: SoFar,
}

impl RequestLines<'_> {
    fn answered(&mut self, records: &[PacketRecord]) {
        let now = Instant::now();
        for record in records {
            if self.lines.until_answer {
                self.stop.request();
            }
            self.open.sent(record.seq.saturating_add(1), now + self.lines.timeout + GRACE);
            // A late answer or a duplicate has no line.
            if self.open.answered(record.seq) {
                let at = record.time(Moment::Returned).unwrap_or_else(clock::wall);
                self.print(record.seq, trip(record), at);
            }
        }
    }

    /// Prints the lines of the remaining requests below `sent`, all of which have been sent.
    fn lost(&mut self, sent: i64) {
        self.open.sent(sent, Instant::now());
        let runs = self.open.rest(sent);
        self.timed_out(runs);
    }

    fn timed_out(&mut self, runs: Vec<(i64, i64)>) {
        for (first, last) in runs {
            (first..=last).for_each(|seq| self.print(seq, None, clock::wall()));
        }
    }

    /// Prints the line of a request whose answer arrived, or was given up, at `at`.
    fn print(&mut self, seq: i64, ms: Option<f64>, at: WallTime) {
        let Ok(seq) = u64::try_from(seq) else { return };
        if self.lines.each {
            let line = self.so_far.line((self.host, self.lines.width), seq, ms, self.lines.bytes);
            self.lines.print(&line, at);
        }
    }
}

impl Observer for RequestLines<'_> {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Arrived { records, .. } => self.answered(records),
            Event::Progress([progress, ..]) => {
                let now = Instant::now();
                self.open.sent(progress.sent.into(), now + self.lines.timeout + GRACE);
                let late = self.open.overdue(now);
                self.timed_out(late);
            }
            // Contains answers that were not in `Arrived`, such as the last ones.
            Event::Records { records, .. } => {
                let new: Vec<PacketRecord> =
                    records.iter().filter(|record| self.open.is_open(record.seq)).copied().collect();
                self.answered(&new);
            }
            Event::Finished([session, ..]) => self.lost(session.sent.map_or(0, i64::from)),
            _ => {}
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
    fn print(self, line: &str, at: WallTime) {
        let stamp = match self.stamped {
            true => format!("[{:.5}] ", at.0 as f64 / SECOND as f64),
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
