//! `irtt`: round trips with an IRTT server, and the server.

use super::arguments::{
    ForeignOption as Opt, Given, Program, as_wrong, dscp_of_tos, of_switch, with, with_units, wrong,
};
use super::measured::{Arrivals, TwoWayTest};
use anyhow::{Context, Result, bail};
use jitlat_core::observer::{Event, Observer};
use jitlat_output::terminal;
use jitlat_store::irtt::text::{ReplyLines, raw, table};
use jitlat_store::output as file;
use std::cell::RefCell;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use tempfile::NamedTempFile;

pub static PROGRAM: Program = Program {
    name: "irtt",
    about: "Measures round trips with an IRTT server (client HOST), or answers as one (server), with the text and the JSON of irtt",
    usage: "client [OPTIONS] HOST[:PORT]\n       jitlat as irtt server [-b ADDR[:PORT]] [-i TIME] [--hmac KEY]",
    options: &[
        Opt::ours("-d", "TIME", "--duration TIME", |time| with("--duration", with_units(time)?)),
        Opt::ours("-i", "TIME", "-p TIME; server: --irtt-min-interval TIME", |time| {
            with("-p", with_units(time)?)
        }),
        Opt::printed("-l", "BYTES", "-l BYTES; a length that is too short is increased"),
        Opt::printed("-o", "FILE", "--as irtt=FILE; compressed as FILE.json.gz, except FILE.json and -"),
        Opt::printed("-q", "", "no line per reply"),
        Opt::printed("-Q", "", "nothing is printed"),
        Opt::printed("-n", "", "one request shows that the server answers"),
        Opt::printed("-r", "", "a line of seven columns per reply"),
        Opt::refused("-s", "", "`jitlat ping HOST --proto irtt --live` shows a test while it runs"),
        Opt::ours("--stats", "WHAT", "--received-stats WHAT", |what| with("--received-stats", what)),
        Opt::ours("--tstamp", "WHEN", "--tstamp WHEN", |when| with("--tstamp", when)),
        Opt::ours("--clock", "CLOCK", "--server-clock CLOCK", |clock| with("--server-clock", clock)),
        Opt::ours("--dscp", "TOS", "-D DSCP (the TOS octet divided by 4)", |tos| {
            with("-D", dscp_of_tos(tos)?)
        }),
        Opt::ours("--df", "default", "nothing; true and false are refused", |df| match df {
            "default" => Ok(Vec::new()),
            _ => Err("the system decides; `jitlat ping` finds the largest packet that passes".to_owned()),
        }),
        Opt::ours("--wait", "TIME", "-W TIME (of 3x4s the 4s)", |wait| {
            let time = wait.split_once(['x', 'r']).map_or(wait, |(_, time)| time);
            with("-W", with_units(time)?)
        }),
        Opt::ours("--timer", "KIND", "--pace sleep, hybrid or spin", |kind| match kind {
            "simple" | "comp" => with("--pace", "sleep"),
            "busy" => with("--pace", "spin"),
            kind if kind.starts_with("hybrid") => with("--pace", "hybrid"),
            _ => Err("give simple, comp, hybrid or busy".to_owned()),
        }),
        Opt::nothing("--tcomp", "KIND", "the sender waits for absolute times"),
        Opt::ours("--fill", "FILL", "--fill FILL", |fill| with("--fill", fill)),
        Opt::nothing("--fill-one", "", "the payload has the same length and kind"),
        Opt::ours("--sfill", "FILL", "--server-fill FILL", |fill| with("--server-fill", fill)),
        Opt::ours("--local", "ADDR", "--bind ADDR, -s PORT", |address| {
            let far: jitlat_core::far_host::FarHost = match address.strip_prefix(':') {
                Some(port) => return with("-s", port),
                None => address.parse().map_err(|e: jitlat_core::quantity::QuantityError| e.to_string())?,
            };
            let mut words = with("--bind", far.name)?;
            if let Some(port) = far.port {
                words.extend(with("-s", port.to_string())?);
            }
            Ok(words)
        }),
        Opt::printed("--hmac", "KEY", "--irtt-key-file, with a file of this key"),
        Opt::ours("-4", "", "-4", |_| of_switch("-4")),
        Opt::ours("-6", "", "-6", |_| of_switch("-6")),
        Opt::nothing("--timeouts", "TIMES", "the first request is repeated as often as is useful"),
        Opt::ours("--ttl", "0", "nothing; other values are refused", |ttl| match ttl {
            "0" => Ok(Vec::new()),
            _ => Err("packets have the system's TTL".to_owned()),
        }),
        Opt::ours("--loose", "", "--loose", |_| of_switch("--loose")),
        Opt::nothing("--thread", "", "each stream has a thread"),
        Opt::printed("-b", "ADDR", "server: --bind ADDR, --irtt-port PORT"),
        Opt::nothing("--set-src-ip", "", "server: answers leave from the address of the request"),
        Opt::nothing("--pburst", "N", "server: five packets may follow each other, as in irtt"),
        Opt::nothing("--gc", "MODE", "there is no garbage collector"),
        Opt::version("-v, --version", VERSION),
    ],
    run,
    wrong: 2,
    failed: 1,
};

/// Version whose options and text are those here.
const VERSION: &str = "irtt version: 0.9.0";

fn run(given: &Given) -> Result<u8> {
    match given.operands.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["client", host] => client(given, host),
        ["server"] => server(given),
        ["help", ..] => {
            terminal::print(&PROGRAM.help())?;
            Ok(0)
        }
        ["version"] => {
            terminal::print(&super::with_version(VERSION))?;
            Ok(0)
        }
        ["client"] => Err(wrong("give a host: irtt client HOST")),
        ["client", ..] => Err(wrong(format!("give one host, not {}", given.operands[1..].join(" ")))),
        ["bench" | "clock" | "sleep"] => bail!("`jitlat doctor` measures the clocks and timers of this host"),
        _ => Err(wrong("give a command: irtt client HOST, or irtt server")),
    }
}

/// Writes the key in a file that only this user can read.
fn key_file(key: &str) -> Result<NamedTempFile> {
    let mut file = NamedTempFile::new().context("creating a file for the key")?;
    file.write_all(key.as_bytes()).context("writing the key to a file")?;
    Ok(file)
}

fn client(given: &Given, host: &str) -> Result<u8> {
    // irtt reads these values before it refuses them: the exit status is that of a failed test.
    for (name, what) in [("-d", "duration"), ("-i", "interval")] {
        if let Some(text) = given.value(name).filter(|text| with_units(text).is_ok_and(|time| time == "0ns"))
        {
            bail!("{name} {text}: the {what} must be longer than zero");
        }
    }
    let mut words = given.words()?;
    let key = given.value("--hmac").map(key_file).transpose()?;
    words.extend(key.iter().map(|file| format!("--irtt-key-file={}", file.path().display())));
    let probes = given.has("-n");
    if probes {
        // One answered request shows that the server accepts the session.
        words.retain(|word| !word.starts_with("--duration"));
        words.extend(["-n".to_owned(), "1".to_owned()]);
    } else if !given.has("-d") {
        words.push("--duration=1m".to_owned());
    }
    for (name, usual) in [("-i", ["-p", "1s"]), ("--wait", ["-W", "4s"])] {
        if !given.has(name) {
            words.extend(usual.map(str::to_owned));
        }
    }
    let json = given.file("-o")?.filter(|_| !probes).map(json_name);
    words.extend(json.iter().map(|file| format!("--as=irtt={file}")));
    let quiet = given.has("-Q");
    // As in irtt, the text goes to standard error if the document is written to standard output.
    let print = |text: &str| match (quiet, json.as_deref()) {
        (true, _) => Ok(()),
        (false, Some("-")) => terminal::print_to_stderr(text),
        (false, _) => terminal::print(text),
    };
    let per_reply = !given.has("-q") && !given.has("-r") && !probes;
    words.extend(["--proto".to_owned(), "irtt".to_owned(), "--".to_owned(), host.to_owned()]);
    let mut test = TwoWayTest::new(&words)?;
    if let Some(length) = given.number::<u64>("-l")?.filter(|length| *length > test.least_size()) {
        words.splice(0..0, ["-l".to_owned(), length.to_string()]);
        test = TwoWayTest::new(&words)?;
    }
    let json_to = json.as_deref().filter(|file| *file != "-");
    json_to.map_or(Ok(()), |file| file::check(Path::new(file)))?;
    print(&format!("[Connecting] connecting to {host}\n"))?;
    let mut lines = ReplyLines::new(true);
    let address = RefCell::new(host.to_owned());
    let mut connected = false;
    let mut arrivals = Arrivals::new(|record| {
        let mut text = String::new();
        if !std::mem::replace(&mut connected, true) {
            text = format!("[{}] [Connected] connection established\n", address.borrow());
        }
        if per_reply {
            text += &lines.line(record);
        }
        // A closed output does not end the test.
        let _ = print(&text);
    });
    let mut show = |event: &Event<'_>| {
        if let Event::Started([session, ..]) = event
            && let Some(ip) = session.dst
        {
            *address.borrow_mut() = SocketAddr::new(ip, session.spec.dst_port).to_string();
        }
        arrivals.event(event);
    };
    let stop = crate::interrupt::stop()?;
    let result = test.run(&mut show, &stop)?;
    let received = result.run.summary.counts.received;
    if probes {
        if received == 0 {
            bail!("{host} does not answer");
        }
        print(&format!("[{}] [NoTest] skipping test at user request\n", address.borrow()))?;
        return Ok(0);
    }
    let (session, records) = (&result.run.session, &result.run.records);
    print(&if given.has("-r") { raw(session, records) } else { format!("\n{}", table(session, records)) })?;
    if received == 0 {
        bail!("no reply from {host}");
    }
    Ok(u8::from(!result.whole))
}

/// Returns the name of the JSON file as irtt forms it. Only `-` and names that end in `.json` are not compressed.
fn json_name(name: &str) -> String {
    if name == "-" || name.ends_with(".json") || name.ends_with(".json.gz") {
        return name.to_owned();
    }
    format!("{}.json.gz", name.strip_suffix(".gz").unwrap_or(name))
}

fn server(given: &Given) -> Result<u8> {
    given.only(&["-b", "-i", "--hmac", "--set-src-ip", "--pburst", "--gc", "--thread"], "irtt server")?;
    let mut words = Vec::new();
    for at in given.value("-b").unwrap_or_default().split(',').filter(|at| !at.is_empty()) {
        match at.strip_prefix(':') {
            Some(port) => words.push(format!("--irtt-port={port}")),
            None => {
                let far = at.trim_start_matches('%').parse::<jitlat_core::far_host::FarHost>();
                let far = far.map_err(as_wrong)?;
                words.push(format!("--bind={}", far.name));
                words.extend(far.port.map(|port| format!("--irtt-port={port}")));
            }
        }
    }
    let interval = given.value("-i").unwrap_or("10ms");
    words.push(format!("--irtt-min-interval={}", with_units(interval).map_err(wrong)?));
    let key = given.value("--hmac").map(key_file).transpose()?;
    words.extend(key.iter().map(|file| format!("--irtt-key-file={}", file.path().display())));
    super::serve("irtt", words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_files_have_the_names_of_irtt() {
        for (given, name) in [
            ("-", "-"),
            ("a.json", "a.json"),
            ("a.json.gz", "a.json.gz"),
            ("a.gz", "a.json.gz"),
            ("a", "a.json.gz"),
            ("d.x/a.txt", "d.x/a.txt.json.gz"),
        ] {
            assert_eq!(json_name(given), name);
        }
    }
}
