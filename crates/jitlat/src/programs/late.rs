//! `LaTe`: latency over LaMP.

use super::arguments::{ForeignOption as Opt, Given, Program, Words, milliseconds, of_switch, seconds, with};
use super::measured::{Arrivals, TwoWayTest};
use anyhow::{Result, bail};
use jitlat_output::terminal;
use jitlat_store::late::summary::Setting;
use jitlat_store::late::{SampleHistory, text};
use std::cell::RefCell;

pub static PROGRAM: Program = Program {
    name: "LaTe",
    about: "Measures latency over LaMP as LaTe's client (-c HOST), or answers as its server (-s), with LaTe's text and files",
    usage: "-c HOST -B|-U -u [OPTIONS]\n       jitlat as LaTe -s -u [-p PORT]",
    options: &[
        Opt::printed("-c, --client", "HOST", "the far host"),
        Opt::printed("-l, --loopback-client", "", "-c 127.0.0.1"),
        Opt::printed("-s, --server", "", "`jitlat serve --only lamp`"),
        Opt::printed("-m, --loopback-server", "", "-s at 127.0.0.1"),
        Opt::ours("-B, --bidir", "", "--mode bidir", |_| of_switch("--mode=bidir")),
        Opt::ours("-U, --unidir", "", "--mode unidir", |_| of_switch("--mode=unidir")),
        Opt::nothing("-u, --udp", "", "LaMP is sent over UDP"),
        Opt::refused("-a, --amqp-1.0", "", "there is no AMQP here"),
        Opt::ours("-n, --num-packets", "N", "-n N", |n| with("-n", n)),
        Opt::printed(
            "-t, --interval, --server-timeout",
            "MS",
            "-p TIME (100), or with -R the time of the law",
        ),
        Opt::ours("-i, --test-duration", "SECONDS", "--duration TIME", |s| with("--duration", seconds(s)?)),
        Opt::refused("-z, --end-at-time", "TIME", "give -i SECONDS"),
        Opt::printed("-R, --random-interval", "LAW", "--schedule uniform, exponential or normal"),
        Opt::ours("-T, --client-timeout", "MS", "-W TIME", |ms| with("-W", milliseconds(ms)?)),
        Opt::ours("-P, --payload-bytes", "BYTES", "-l BYTES", |bytes| with("-l", bytes)),
        Opt::printed("-p, --port", "PORT", "--lamp-port PORT (46000)"),
        Opt::ours("-L, --latency-type", "LETTER", "--stamps SOURCE", |letter| match letter {
            "u" | "r" | "s" | "h" => with("--stamps", letter),
            _ => Err("give u, r, s or h".to_owned()),
        }),
        Opt::ours("-F, --follow-up", "", "--follow-up", |_| of_switch("--follow-up")),
        Opt::nothing(
            "-0, --no-follow-up",
            "",
            "follow-up is for the networks of `jitlat serve --lamp-trust`",
        ),
        Opt::nothing("-1, --print-after", "", "the server prints no packets"),
        Opt::nothing("-D, --no-dup-detect", "", "duplicates are found"),
        Opt::printed("-C, --confidence", "MASK", "--late-confidence LEVELS; bits of .90, .95 and .99 (2)"),
        Opt::ours("-A, --ac", "CATEGORY", "--ac CATEGORY", |category| with("--ac", category)),
        Opt::nothing("-d, --daemon", "", "the server answers any number of tests"),
        Opt::nothing("--initial-timeout", "", "the server has no such timeout"),
        Opt::nothing("-V, --verbose", "", "the report of `jitlat ping --proto lamp -v` has every figure"),
        Opt::ours("-r, --raw", "", "--raw", |_| of_switch("--raw")),
        Opt::nothing("-M, --mac-address", "MAC", "the address is found"),
        Opt::ours("--udp-force-src-port", "PORT", "-s PORT", |port| with("-s", port)),
        Opt::refused("--udp-force-dst-port", "PORT", "the server answers to the port of the request"),
        Opt::nothing("-e, --non-wireless", "", "the routing table chooses the interface"),
        Opt::refused("-I, --ifindex", "N", "give the name: -S IFACE"),
        Opt::ours("-S, --ifname", "IFACE", "--interface IFACE; server: --bind IFACE", |name| {
            with("--interface", name)
        }),
        Opt::nothing("-N, --bind-all", "", "every address is used"),
        Opt::ours("--bind-to-ip", "ADDR", "--bind ADDR", |address| with("--bind", address)),
        Opt::printed("-f, --report-file", "NAME", "--as late=NAME.csv, to which the test is appended"),
        Opt::printed("-o, --report-file-overwrite", "", "NAME.csv is replaced"),
        Opt::printed("--log-init-failures", "", "a test without an answer has a line too"),
        Opt::printed("-W, --report-perpacket", "NAME", "--as late-packets=NAME.csv"),
        Opt::nothing("-y, --report-perpacket-overwrite", "", "NAME.csv is replaced"),
        Opt::ours("-X, --report-extra-data", "LETTERS", "--late-extra LETTERS", |letters| {
            with("--late-extra", letters)
        }),
        Opt::ours("-w, --report-socket", "HOST[:PORT]", "--late-stream HOST[:PORT]", |to| {
            with("--late-stream", to.split(',').next().unwrap_or(to))
        }),
        Opt::ours(
            "-g, --report-graphite",
            "S-HOST[:PORT]-PATH",
            "--graphite, --graphite-every, --graphite-path",
            graphite,
        ),
        Opt::refused("-H, --broker-address", "HOST", "there is no AMQP here"),
        Opt::refused("-q, --queue-topic", "NAME", "there is no AMQP here"),
        Opt::version("-v, --version", "LaTe, version 0.1.7-beta"),
    ],
    run,
    wrong: 1,
    failed: 1,
};

/// Default number of packets, and default time between them in ms.
const USUAL: (&str, &str) = ("600", "100");

/// Converts the value of LaTe's `-g` to words of jitlat. The value has seconds, server and path, and may end in `-u`
/// for UDP.
fn graphite(text: &str) -> Words {
    let (text, udp) = match text.strip_suffix("-u") {
        Some(text) => (text, true),
        None => (text.strip_suffix("-t").unwrap_or(text), false),
    };
    let wrong = || format!("'{text}': write SECONDS-HOST-PATH");
    let (every, rest) = text.split_once('-').ok_or_else(wrong)?;
    let (server, path) = rest.rsplit_once('-').ok_or_else(wrong)?;
    let mut words = with("--graphite", server.split(',').next().unwrap_or(server))?;
    words.extend(with("--graphite-every", seconds(every)?)?);
    words.extend(with("--graphite-path", path)?);
    words.extend(udp.then(|| "--graphite-udp".to_owned()));
    Ok(words)
}

/// Converts the value of LaTe's `-R` to words of jitlat. The value has the letter of the law, a parameter in ms, and
/// the number of packets with the same gap. `time` is the value of `-t`, in ms.
fn law(text: &str, time: &str) -> Words {
    let letter = text.chars().next().ok_or("give a letter and a number of ms")?;
    let (parameter, batch) =
        text[letter.len_utf8()..].split_once(',').unwrap_or((&text[letter.len_utf8()..], "10"));
    let (time, parameter) = (milliseconds(time)?, milliseconds(parameter)?);
    let law = match letter {
        'u' | 'U' => format!("uniform:{parameter},{time},{batch}"),
        'e' => format!("exponential:{time},{parameter},{batch}"),
        'n' => format!("normal:{time},{parameter},{batch}"),
        _ => return Err("give u, U, e or n, and a number of ms".to_owned()),
    };
    with("--schedule", law)
}

/// Returns the name of an output file. LaTe adds the ending to `name`.
fn csv(name: &str) -> String {
    format!("{name}.csv")
}

fn run(given: &Given) -> Result<u8> {
    if let [extra, ..] = &given.operands[..] {
        bail!("'{extra}' is not an option: the host follows -c");
    }
    let port = given.value("-p").unwrap_or("46000");
    if given.has("-s") || given.has("-m") {
        let mut words = vec![format!("--lamp-port={port}")];
        let at = if given.has("-m") {
            Some("127.0.0.1")
        } else {
            given.value("-S").or(given.value("--bind-to-ip"))
        };
        words.extend(at.map(|at| format!("--bind={at}")));
        return super::serve("lamp", words);
    }
    let host = match (given.value("-c"), given.has("-l")) {
        (Some(host), _) => host,
        (None, true) => "127.0.0.1",
        (None, false) => bail!("give a mode: LaTe -c HOST -B -u for a client, LaTe -s -u for a server"),
    };
    if !given.has("-B") && !given.has("-U") {
        bail!("choose -B (round trips) or -U (one direction)");
    }
    let mut words = given.words()?;
    let time = given.value("-t").unwrap_or(USUAL.1);
    match given.value("-R") {
        Some(text) => words.extend(law(text, time).map_err(|e| anyhow::anyhow!("-R {text}: {e}"))?),
        None => words
            .extend(with("-p", milliseconds(time).map_err(anyhow::Error::msg)?).map_err(anyhow::Error::msg)?),
    }
    if !given.has("-n") && !given.has("-i") {
        words.extend(["-n".to_owned(), USUAL.0.to_owned()]);
    }
    if !given.has("-L") {
        words.push("--stamps=u".to_owned());
    }
    let mask = given.number::<u8>("-C")?.unwrap_or(2);
    let shown = [0, 1, 2].map(|bit| mask >> bit & 1 == 1);
    if given.has("-w") {
        let levels = ["90", "95", "99"].into_iter().zip(shown).filter(|(_, shown)| *shown);
        let levels: Vec<&str> = levels.map(|(level, _)| level).collect();
        words.extend(with("--late-confidence", levels.join(",")).map_err(anyhow::Error::msg)?);
    }
    if let Some(name) = given.file("-f")? {
        if given.has("-o") && std::path::Path::new(&csv(name)).exists() {
            std::fs::write(csv(name), "")?;
        }
        words.push(format!("--as=late={}", csv(name)));
    }
    words.extend(given.file("-W")?.map(|name| format!("--as=late-packets={}", csv(name))));
    words.extend([
        format!("--lamp-port={port}"),
        "--proto=lamp".to_owned(),
        "--".to_owned(),
        host.to_owned(),
    ]);

    let setting: RefCell<Option<Setting>> = RefCell::new(None);
    let begin = |known: &Setting, timeout: i64| {
        *setting.borrow_mut() = Some(known.clone());
        Ok(terminal::print(&text::settings(known, host, timeout))?)
    };
    let mut history = SampleHistory::default();
    let mut show = Arrivals::new(|record| {
        if let (Some(setting), Some(sample)) = (&*setting.borrow(), history.sample(record)) {
            // A closed standard output does not end the test.
            let _ = terminal::print(&text::reply(&sample, setting, host));
        }
    });
    let stop = crate::interrupt::stop()?;
    let result = TwoWayTest::new(&words)?.run_after(begin, &mut show, &stop)?;
    let run = &result.run;
    let Some(mut setting) = setting.take() else { bail!("nothing was measured") };
    setting.levels = shown;
    let highest = run.records.iter().filter_map(|r| u64::try_from(r.seq).ok()).max();
    let mut out = text::summary(&run.summary, &setting, highest);
    for name in ["-f", "-W"].into_iter().filter_map(|name| given.value(name)) {
        out += &format!("Report data was saved inside {}\n", csv(name));
    }
    terminal::print(&(out + "\nProgram terminated.\n"))?;
    Ok(u8::from(!result.whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laws_and_servers_of_late_are_ours() {
        assert_eq!(law("u20", "100").unwrap(), ["--schedule=uniform:20000000ns,100000000ns,10"]);
        assert_eq!(law("e50,15", "40").unwrap(), ["--schedule=exponential:40000000ns,50000000ns,15"]);
        assert!(law("x5", "1").is_err() && law("", "1").is_err());
        let words = [
            "--graphite=192.0.2.1:2003",
            "--graphite-every=5000000000ns",
            "--graphite-path=a.b",
            "--graphite-udp",
        ];
        assert_eq!(graphite("5-192.0.2.1:2003-a.b-u").unwrap(), words);
        assert!(graphite("5").is_err());
    }
}
