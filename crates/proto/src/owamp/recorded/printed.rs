//! Compares the text of the statistics with the output of owping and owstats for the recorded sessions
//! (`testdata/owamp/printed`).

use super::captures;
use super::conversation::Message;
use crate::owamp::{DataRecord, OwpingOptions, SessionData, Statistics};
use jitlat_core::ntp::{ErrorEstimate, NtpTime};

/// Expected output for each capture that has results.
macro_rules! printed {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../../testdata/owamp/printed/", $name, ".txt")))),*]
    };
}

const PRINTED: &[(&str, &str)] = printed!(
    "auth-both-poisson",
    "auth-pad100-dscpEF",
    "auth-to-skip",
    "enc-both-poisson",
    "enc-both-raw",
    "enc-to-loss-poisson",
    "fetch-later",
    "open-both-interrupted",
    "open-both-poisson",
    "open-both-raw",
    "open-default-flags",
    "open-from-loss-raw",
    "open-ipv6-both",
    "open-raw-and-machine",
    "open-to-dup-reorder",
    "open-to-fixed",
    "open-to-loss",
    "open-to-skip",
    "open-to-slots-mixed",
);

/// A command and its output.
struct Command {
    line: &'static str,
    output: &'static str,
}

fn commands(text: &'static str) -> Vec<Command> {
    let mut commands = Vec::new();
    for part in text.split("\n$ ") {
        let (line, output) = part.strip_prefix("$ ").unwrap_or(part).split_once('\n').unwrap();
        commands.push(Command { line, output });
    }
    commands
}

impl Command {
    fn option(&self, name: &str) -> Option<&'static str> {
        let mut words = self.line.split(' ');
        words.find(|word| *word == name).and_then(|_| words.next())
    }

    fn has(&self, option: &str) -> bool {
        self.line.split(' ').any(|word| word == option)
    }

    fn style(&self) -> OwpingOptions {
        OwpingOptions {
            bucket: self.option("-b").map_or(0.0001, |b| b.parse().unwrap()),
            percentiles: self
                .option("-a")
                .map_or(Vec::new(), |a| a.split(',').map(|p| p.parse().unwrap()).collect()),
            ..OwpingOptions::default()
        }
    }
}

/// Returns the data fetched in a capture.
fn fetched(name: &str) -> Vec<SessionData> {
    let mut fetched: Vec<SessionData> = Vec::new();
    for capture in captures().iter().filter(|c| c.name == name) {
        for recorded in capture.connections.iter().filter(|c| c.set_up().is_some()) {
            for message in recorded.messages() {
                if let Message::Fetch(_, Ok(data)) = message {
                    let known = |d: &SessionData| d.session.sid() == data.session.sid();
                    if !fetched.iter().any(known) {
                        fetched.push((*data).clone());
                    }
                }
            }
        }
    }
    fetched
}

#[test]
fn what_owping_and_owstats_printed_is_printed_again() {
    let (mut packets, mut summaries, mut raw, mut machine) = (0, 0, 0, 0);
    for (name, text) in PRINTED {
        let sessions = fetched(name);
        for command in commands(text) {
            // The file that owstats reads does not contain host names.
            let anonymous = |text: String| match command.output.contains("[***]") {
                true => text.replace("[10.88.0.1]", "[***]").replace("[10.88.0.2]", "[***]"),
                false => text,
            };
            for data in &sessions {
                let ours = Statistics { data: data.clone(), style: command.style() };
                if command.has("-M") && command.output.contains(&format!("SID\t{}\n", hex(data))) {
                    // owping prints the lines of histograms in the order of its tables.
                    let sorted = |text: &str| {
                        let mut lines: Vec<&str> = text
                            .lines()
                            .filter(|line| !line.contains("_HOST") && !line.contains("_ADDR"))
                            .collect();
                        lines.sort_unstable();
                        lines.join("\n")
                    };
                    let part =
                        command.output.split("SUMMARY\t").find(|part| part.contains(&hex(data))).unwrap();
                    let theirs = format!("SUMMARY\t{}", part.split("(exit").next().unwrap());
                    assert_eq!(
                        sorted(&ours.machine()),
                        sorted(theirs.trim_end()),
                        "{name}: {}",
                        command.line
                    );
                    machine += 1;
                } else if command.has("-R") {
                    let ours = ours.raw();
                    assert!(command.output.contains(&ours), "{name}: {}\n{ours}", command.line);
                    raw += ours.lines().count();
                } else if command.output.contains(&format!("{}\n", hex(data))) && !command.has("-M") {
                    let whole = anonymous(ours.text());
                    let shown = match command.has("-v") {
                        true => whole.as_str(),
                        false => whole.rfind("\n---").map_or("", |at| &whole[at..]),
                    };
                    assert!(command.output.contains(shown), "{name}: {}\n{shown}", command.line);
                    packets += shown.matches("seq_no=").count();
                    summaries += 1;
                }
            }
        }
    }
    assert_eq!((packets, summaries, raw, machine), (297, 18, 84, 1));
}

fn hex(data: &SessionData) -> String {
    data.session.sid().0.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Results of sessions to the client are not fetched; their raw lines are parsed and formatted again.
#[test]
fn raw_lines_that_are_read_are_the_same_written() {
    let mut lines = 0;
    for (name, text) in PRINTED {
        for command in commands(text).iter().filter(|command| command.has("-R")) {
            let mut data = fetched("open-to-fixed").remove(0);
            let of_a_record =
                |line: &&str| line.split(' ').count() == 8 && line.starts_with(|c: char| c.is_ascii_digit());
            let read: Vec<&str> = command.output.lines().filter(of_a_record).collect();
            data.records = read.iter().map(|line| record(line)).collect();
            let ours = Statistics { data, style: OwpingOptions::default() }.raw();
            assert_eq!(ours.lines().collect::<Vec<_>>(), read, "{name}");
            lines += read.len();
        }
    }
    assert_eq!(lines, 128);
}

fn record(line: &str) -> DataRecord {
    let fields: Vec<&str> = line.split(' ').collect();
    let [seq, sent, _, _, received, _, _, ttl] = fields[..] else { panic!("{line}") };
    let received = NtpTime(received.parse().unwrap());
    DataRecord {
        seq: seq.parse().unwrap(),
        send_error: ErrorEstimate::UNKNOWN,
        receive_error: ErrorEstimate::UNKNOWN,
        sent: NtpTime(sent.parse().unwrap()),
        received: Some(received).filter(|at| at.0 != 0),
        ttl: ttl.parse().unwrap(),
    }
}
