//! Every option of every command has an effect, or is refused.
//!
//! The options come from the definitions of the command line, so a new option fails this test until `options.txt` has
//! a row for it: how it is given, and how its effect is visible.

use crate::network;
use crate::server::Server;
use crate::side_by_side;
use clap::{Arg, Command};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const JITLAT: &str = env!("CARGO_BIN_EXE_jitlat");
/// Read when the test runs, so that a row can be tried without compiling.
const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/integration/walk/options.txt");
/// Number of rows that are tried at the same time: most wait for packets.
const AT_A_TIME: usize = 8;
/// Time limit of a command, in seconds.
const LIMIT: &str = "120";
/// Time limit for a server to print that it listens.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// A row of the table.
struct Row {
    /// Commands that the row applies to.
    commands: Vec<&'static str>,
    /// The option: `--json`, or `-f`.
    option: &'static str,
    /// Arguments to add to those of the command.
    arguments: Vec<&'static str>,
    /// How the effect is visible.
    seen: Seen,
}

/// How the effect of an option is visible.
#[derive(Debug)]
enum Seen {
    /// The output differs from that of the same command without the option.
    Differs,
    /// The output contains this text, but not without the option.
    Says(String),
    /// The JSON on standard output has this value at this pointer; no value: any except null.
    Json(String, Option<String>),
    /// A file or folder of this name exists and is not empty.
    File(String),
    /// The command ends with this status.
    Exit(i32),
    /// The command ends with status 2 and a message that contains these words.
    Refused(String),
    /// A server prints this, and is then ended.
    Starts(String),
    /// A server with the arguments before `--` refuses a test with those after it, with these words.
    Denies(String),
    /// Packets without loss cannot show the effect: the same option of this command is tested, and both share one
    /// definition.
    AsOf(String),
}

/// Arguments of each command, in groups: a row with the first word of a group replaces the group.
type Bases = Vec<(&'static str, Vec<Vec<&'static str>>)>;

fn table() -> (Bases, Vec<Row>) {
    let (mut bases, mut rows) = (Bases::new(), Vec::new());
    let text: &'static str = fs::read_to_string(TABLE).unwrap().leak();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        let columns: Vec<&str> = line.split(" | ").map(str::trim).collect();
        match columns[..] {
            ["base", commands, words] => {
                let groups: Vec<Vec<&str>> =
                    words.split(';').map(|g| g.split_whitespace().collect()).collect();
                bases.extend(commands.split(", ").map(|command| (command, groups.clone())));
            }
            [commands, option, arguments, seen] => rows.push(Row {
                commands: commands.split(", ").collect(),
                option,
                arguments: arguments.split_whitespace().collect(),
                seen: seen_by(seen),
            }),
            _ => panic!("options.txt: {line}"),
        }
    }
    (bases, rows)
}

fn seen_by(text: &'static str) -> Seen {
    let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
    let rest = rest.replace('~', " ");
    match kind {
        "differs" => Seen::Differs,
        "says" => Seen::Says(rest),
        "json" => match rest.split_once('=') {
            Some((place, value)) => Seen::Json(place.to_owned(), Some(value.to_owned())),
            None => Seen::Json(rest, None),
        },
        "file" => Seen::File(rest),
        "exit" => Seen::Exit(rest.parse().unwrap()),
        "refused" => Seen::Refused(rest),
        "starts" => Seen::Starts(rest),
        "denies" => Seen::Denies(rest),
        "as" => Seen::AsOf(rest),
        _ => panic!("options.txt: there is no effect '{text}'"),
    }
}

/// Shared state of all rows: servers, and files to read.
struct Scene {
    host: String,
    server: Server,
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Scene {
        let host = network::own_address().to_string();
        let server = Server::start(
            &host,
            "jitlat,stamp,twamp,lamp,irtt,ipsla,tcp,owamp",
            &["--rpm", "--rpm-port", "0", "--max-reflect-bandwidth", "100G"],
        );
        let scene = Scene { host, server, folder: tempfile::tempdir().unwrap() };
        let make = |line: &str| {
            let output = scene.command(line, scene.folder.path()).output().unwrap();
            assert!(output.status.success(), "{line}: {output:?}");
        };
        fs::write(scene.file("key"), "c2VjcmV0IGtleSBvZiB0aGlzIHRlc3Q=\n").unwrap();
        std::os::unix::fs::symlink("/dev/null", scene.file("null")).unwrap();
        let mut mode = fs::metadata(scene.file("key")).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o600);
        fs::set_permissions(scene.file("key"), mode).unwrap();
        fs::write(scene.file("profiles.toml"), PROFILE).unwrap();
        fs::write(scene.file("monitor.toml"), MONITOR.replace("{HOST}", &scene.host)).unwrap();
        make("archive add {DIR}/archive {LOG} {LOG2}");
        make(
            "ping {HOST} --proto stamp {PORTS} -n 30 -p 1ms -o {DIR}/ping.log --name round --tag place=here",
        );
        make("archive add {DIR}/archive {DIR}/ping.log");
        make("demo -n 200 -p 1ms --name lossy --no-log --archive {DIR}/archive");
        make("sweep {HOST} -l 100,200 -n 5 -p 1ms --repetitions 1 --pause 0 -o {DIR}/sweep");
        make("spp -f {REF} -F {MON} --keep +0..+1000 --state {DIR}/spp.state -q");
        make("tcp {TCP} --keep 1/1 --state {DIR}/tcp.state");
        scene
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a word of the table with its names replaced.
    fn word(&self, word: &str) -> String {
        let testdata = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata");
        let path = |name: &str| format!("{testdata}/{name}");
        word.replace("{HOST}", &self.host)
            .replace("{DIR}", self.folder.path().to_str().unwrap())
            .replace("{LOG}", &path("b_wan_lossy_v1.log"))
            .replace("{LOG2}", &path("a_loopback_v1.log"))
            .replace("{REF}", &path("spp/atm_loss_udp340.ref.pcap"))
            .replace("{MON}", &path("spp/atm_loss_udp340.mon.pcap"))
            .replace("{TCP}", &path("spp/atm_tcp_up.ref.pcap"))
            .replace("{TCP2}", &path("spp/atm_tcp_up.mon.pcap"))
            .replace("{CALL}", &path("rtp/call.pcap"))
            .replace("{STAMP}", self.server.port(1))
            .replace("{TWAMP}", self.server.port(2))
            .replace("{LAMP}", self.server.port(3))
            .replace("{IRTT}", self.server.port(4))
            .replace("{IPSLA}", self.server.port(5))
            .replace("{REQRESP}", self.server.port(6))
            .replace("{OWAMP}", self.server.port(7))
            .replace("{RPM}", self.server.port(8))
    }

    fn command(&self, line: &str, folder: &Path) -> Process {
        let line = line.replace("{PORTS}", "--stamp-port {STAMP}");
        let mut process = Process::new(JITLAT);
        let words = line.split_whitespace().map(|word| self.word(word).replace('~', " "));
        process
            .args(words)
            .current_dir(folder)
            .env("LC_ALL", "C.UTF-8")
            .env("COLUMNS", "80")
            .stdin(Stdio::null());
        process
    }
}

const PROFILE: &str = "[[profile]]\nname = 'intercom'\nabout = 'a door'\npayload = 300\nperiod_ms = 1\nduration_s = 1\n\
                       delay_ms = [20, 50, 100]\nmissing = [0.001, 0.01, 0.1]\nsource = 'ours'\n";

const MONITOR: &str = "[[host]]\nname = 'a'\naddress = '{HOST}'\n[[host]]\nname = 'b'\naddress = '127.0.0.2'\n\
                       [[test]]\nname = 't'\nevery = '1min'\nfor = '1s'\n[serve]\noptions = { control-port = 45690 }\n";

/// Returns the command line of `row` for the command `name`.
fn line(bases: &Bases, name: &str, row: Option<&Row>) -> String {
    let arguments = row.map(|row| row.arguments.as_slice()).unwrap_or_default();
    if let Some(whole) = arguments.first().and_then(|word| word.strip_prefix('=')) {
        let rest = arguments[1..].join(" ");
        return format!("{whole} {rest}");
    }
    let groups = bases.iter().find(|(of, _)| *of == name).map(|(_, groups)| groups);
    let groups = groups.unwrap_or_else(|| panic!("options.txt has no base for {name}"));
    let replaced = |group: &&Vec<&str>| {
        let first = group[0];
        arguments.iter().any(|word| *word == first || word.strip_prefix('!') == Some(first))
    };
    let kept: Vec<&str> = groups.iter().filter(|g| !replaced(g)).flatten().copied().collect();
    let own: Vec<&str> = arguments.iter().filter(|word| !word.starts_with('!')).copied().collect();
    // Arguments after -- belong to the test of a sweep.
    match kept.iter().position(|word| *word == "--") {
        Some(at) => [&kept[..at], &own, &kept[at..]].concat().join(" "),
        None => [&kept[..], &own].concat().join(" "),
    }
}

struct Ran {
    code: Option<i32>,
    stdout: String,
    all: String,
    folder: tempfile::TempDir,
}

fn run(scene: &Scene, line: &str) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    // The time limit ends commands that would run for ever.
    let command = scene.command(line, folder.path());
    let mut limited = Process::new("timeout");
    limited.args(["-s", "KILL", LIMIT, JITLAT]).args(command.get_args()).current_dir(folder.path());
    limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::null());
    let output = limited.output().unwrap();
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    Ran { code: output.status.code(), all: stdout.clone() + &stderr, stdout, folder }
}

/// Returns the reason why the effect of `row` is not visible at the command `name`; `None` if it is visible.
fn fault(scene: &Scene, bases: &Bases, name: &str, row: &Row) -> Option<String> {
    let with = line(bases, name, Some(row));
    if let Seen::Starts(words) = &row.seen {
        return starts(scene, &with, words).err();
    }
    if let Seen::Denies(words) = &row.seen {
        return denies(scene, &with, words).err().map(|why| format!("{name} {}: {why}", row.option));
    }
    let ran = run(scene, &with);
    let said = || format!("`jitlat {with}` ends with {:?}:\n{}", ran.code, ran.all);
    let worked = matches!(ran.code, Some(0 | 1));
    let holds = match &row.seen {
        Seen::Refused(words) => ran.code == Some(2) && ran.all.contains(words.as_str()),
        Seen::Exit(code) => ran.code == Some(*code),
        Seen::File(file) => {
            let path = ran.folder.path().join(file);
            worked
                && fs::metadata(&path).is_ok_and(|m| {
                    m.is_dir() && fs::read_dir(&path).unwrap().count() > 0 || m.len() > 0 && m.is_file()
                })
        }
        Seen::Json(place, value) => {
            let json: Value = serde_json::from_str(&ran.stdout).unwrap_or_default();
            let found = json.pointer(place).unwrap_or(&Value::Null);
            let text = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
            worked && value.as_ref().map_or(!found.is_null(), |value| text == *value)
        }
        Seen::Differs => worked && ran.all != run(scene, &line(bases, name, None)).all,
        Seen::Says(words) => {
            worked
                && ran.all.contains(words.as_str())
                && !run(scene, &line(bases, name, None)).all.contains(words.as_str())
        }
        Seen::Starts(_) | Seen::Denies(_) | Seen::AsOf(_) => true,
    };
    (!holds).then(|| format!("{name} {}: not seen: {:?}: {}", row.option, row.seen, said()))
}

/// Starts a server, and ends it as soon as it prints `words`.
fn starts(scene: &Scene, line: &str, words: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let mut process = scene.command(line, folder.path());
    let mut child = process.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (say, said) = mpsc::channel();
    let pipes: [Box<dyn Read + Send>; 2] =
        [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
    for pipe in pipes {
        let say = say.clone();
        std::thread::spawn(move || {
            BufReader::new(pipe).lines().map_while(Result::ok).for_each(|line| drop(say.send(line)));
        });
    }
    drop(say);
    let mut all = String::new();
    let until = std::time::Instant::now() + STARTS_WITHIN;
    while let Ok(text) = said.recv_timeout(until.saturating_duration_since(std::time::Instant::now())) {
        all += &(text + "\n");
        if all.contains(words) {
            break;
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    if all.contains(words) { Ok(()) } else { Err(format!("`jitlat {line}` does not say '{words}':\n{all}")) }
}

/// Starts a server for one-way tests with the words of `line` before `--`, and a test with those after it.
fn denies(scene: &Scene, line: &str, words: &str) -> Result<(), String> {
    let (server, client) = line.split_once(" -- ").unwrap();
    let own: Vec<&str> = server.split_whitespace().chain(["--control-port", "0"]).collect();
    let server = Server::start(&scene.host, "jitlat", &own);
    let port = server.port(0).split(',').next().unwrap();
    let ran = run(scene, &format!("test {{HOST}} --control-port {port} --no-log {client}"));
    let refused = ran.code == Some(2) && ran.all.contains(words);
    if refused { Ok(()) } else { Err(format!("`{line}` is not refused with '{words}': {}", ran.all)) }
}

/// Calls `each` with every command that does something, and its name on the command line.
fn walk(command: &Command, name: &str, each: &mut dyn FnMut(&Command, &str)) {
    let subs: Vec<&Command> = command.get_subcommands().filter(|sub| sub.get_name() != "help").collect();
    if subs.is_empty() || name.is_empty() {
        each(command, name);
    }
    for sub in subs {
        walk(sub, format!("{name} {}", sub.get_name()).trim(), each);
    }
}

/// Name of an option as it is written (`--json`, or `-f`); `None` if the argument is not an option.
fn spelling(arg: &Arg) -> Option<String> {
    let long = arg.get_long().map(|long| format!("--{long}"));
    long.or_else(|| arg.get_short().map(|short| format!("-{short}")))
}

/// Lists the options of each command. Help, and the options of the log that all commands have, belong to the root.
fn options() -> Vec<(String, String)> {
    let mut root = jitlat::command();
    root.build();
    let mut all = Vec::new();
    walk(&root, "", &mut |command, name| {
        for arg in command.get_arguments() {
            let id = arg.get_id().as_str();
            let common = ["help", "version"].contains(&id) || arg.is_global_set() && !name.is_empty();
            if let Some(option) = spelling(arg).filter(|_| !common) {
                all.push((name.to_owned(), option));
            }
        }
    });
    all
}

#[test]
fn every_option_of_every_command_has_an_effect_or_is_refused() {
    let (bases, rows) = table();
    let options = options();
    // `jitlat HOST` is `jitlat test HOST`: both read the same options.
    let of = |name: &str| -> BTreeSet<&str> {
        options.iter().filter(|(of, _)| of == name).map(|(_, option)| option.as_str()).collect()
    };
    let log: BTreeSet<&str> = ["--log-level", "--log-format"].into();
    assert_eq!(of("").difference(&log).copied().collect::<BTreeSet<_>>(), of("test"));
    let (mut missing, mut tried) = (Vec::new(), Vec::new());
    for (name, option) in
        options.iter().filter(|(name, option)| !name.is_empty() || log.contains(option.as_str()))
    {
        let shown = if name.is_empty() { "jitlat" } else { name.as_str() };
        let found: Vec<&Row> =
            rows.iter().filter(|row| row.option == option && row.commands.contains(&shown)).collect();
        if found.is_empty() {
            missing.push(format!("{shown} | {option}"));
        }
        tried.extend(found.into_iter().map(|row| (shown, row)));
    }
    assert!(
        missing.is_empty(),
        "options.txt has no row for {} options:\n{}",
        missing.len(),
        missing.join("\n")
    );
    for row in &rows {
        if let Seen::AsOf(command) = &row.seen {
            assert!(of(command).contains(row.option), "options.txt: {command} has no {}", row.option);
        }
        for command in &row.commands {
            let known = tried.iter().any(|(name, other)| name == command && std::ptr::eq(*other, row));
            assert!(known, "options.txt: {command} has no {}", row.option);
        }
    }
    let scene = Scene::new();
    if let Ok(only) = std::env::var("JITLAT_WALK") {
        tried.retain(|(name, row)| format!("{name} {}", row.option).contains(&only));
    }
    let faults = std::sync::Mutex::new(Vec::new());
    side_by_side::side_by_side(AT_A_TIME, &tried, |(name, row)| {
        if let Some(fault) = fault(&scene, &bases, name, row) {
            faults.lock().unwrap().push(fault);
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{} options:\n{}", faults.len(), faults.join("\n"));
}
