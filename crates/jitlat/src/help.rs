//! Short help: `-h` shows the options that most people use, `--help` shows all.

use clap::Command;

/// Options that `-h` shows, by command and id. A command that is not listed shows all of its options.
const SHORT: &[(&str, &[&str])] = &[
    ("jitlat", &["host", "file", "packets"]),
    ("test", ONE_WAY),
    ("demo", ONE_WAY),
    (
        "ping",
        &[
            "host",
            "others",
            "proto",
            "packets",
            "duration",
            "payload",
            "period",
            "rate",
            "dscp",
            "timeout",
            "names",
            "output",
            "no_log",
            "verbose",
            "quiet",
            "live",
            "fail_if",
            "check",
            "interval",
            "json",
            "csv",
            "html",
            "as",
            "log_level",
        ],
    ),
    (
        "serve",
        &[
            "bind",
            "only",
            "control_port",
            "test_port",
            "announce",
            "key_file",
            "allow",
            "deny",
            "policy",
            "capture",
            "late_packets",
            "rpm",
            "public",
            "contact",
            "max_rate",
            "max_bandwidth",
            "max_duration",
            "user",
            "log_level",
            "log_format",
        ],
    ),
    (
        "analyze",
        &[
            "logs",
            "merge",
            "state",
            "dataset",
            "names",
            "verbose",
            "quiet",
            "live",
            "corrected",
            "text_plots",
            "fail_if",
            "check",
            "interval",
            "json",
            "csv",
            "html",
            "plots",
            "as",
            "percentile",
            "late_after",
            "trust_clocks",
            "log_level",
        ],
    ),
    (
        "watch",
        &[
            "hosts",
            "proto",
            "payload",
            "period",
            "every",
            "dscp",
            "archive",
            "listen",
            "token_file",
            "duration",
            "quiet",
            "print_file",
            "log_level",
        ],
    ),
    ("export", &["log", "file", "as", "interval", "percentile", "names", "log_level"]),
    (
        "archive show",
        &[
            "archive",
            "id",
            "names",
            "verbose",
            "quiet",
            "corrected",
            "fail_if",
            "interval",
            "json",
            "csv",
            "html",
            "plots",
            "as",
            "log_level",
        ],
    ),
    (
        "sweep",
        &[
            "host",
            "options",
            "payloads",
            "periods",
            "dscps",
            "proto",
            "transports",
            "packets",
            "repetitions",
            "pause",
            "output",
            "resume",
            "load",
            "verbose",
            "quiet",
            "json",
            "csv",
            "html",
            "plots",
            "log_level",
        ],
    ),
    (
        "spp",
        &[
            "reference",
            "monitor",
            "one_point",
            "reference_address",
            "monitor_address",
            "log",
            "reference_interface",
            "monitor_interface",
            "monitor_remote",
            "follow",
            "turnaround",
            "quiet",
            "summary",
            "only",
            "per_flow",
            "link",
            "verbose",
            "json",
            "html",
            "plots",
            "log_level",
        ],
    ),
    (
        "tcp",
        &[
            "captures",
            "host",
            "port",
            "top",
            "events",
            "one_point",
            "follow",
            "duration",
            "verbose",
            "quiet",
            "json",
            "html",
            "plots",
            "log_level",
        ],
    ),
    (
        "rtp",
        &[
            "captures",
            "interface",
            "host",
            "port",
            "call",
            "payload_type",
            "follow",
            "duration",
            "fail_if",
            "verbose",
            "quiet",
            "json",
            "csv",
            "html",
            "plots",
            "log_level",
        ],
    ),
];

/// Options of one-way tests that `-h` shows.
const ONE_WAY: &[&str] = &[
    "host",
    "file",
    "scenario",
    "packets",
    "duration",
    "payload",
    "period",
    "rate",
    "tcp",
    "reverse",
    "both",
    "dscp",
    "names",
    "output",
    "no_log",
    "verbose",
    "quiet",
    "live",
    "fail_if",
    "interval",
    "json",
    "csv",
    "html",
    "as",
    "log_level",
];

/// Returns `command` and its subcommands with short help.
pub fn arranged(command: Command) -> Command {
    let name = command.get_name().to_owned();
    arrange(command, &name).mut_subcommands(|sub| {
        let name = sub.get_name().to_owned();
        arrange(sub, &name).mut_subcommands(|verb| {
            let name = format!("{name} {}", verb.get_name());
            arrange(verb, &name)
        })
    })
}

fn arrange(command: Command, name: &str) -> Command {
    let Some((_, shown)) = SHORT.iter().find(|(of, _)| *of == name) else { return command };
    command.mut_args(|arg| {
        let hidden = !shown.contains(&arg.get_id().as_str());
        arg.hide_short_help(hidden)
    })
}

#[cfg(test)]
mod tests {
    use crate::root;
    use clap::Command;

    /// Calls `each` with every command and its name on the command line.
    fn walk(command: &mut Command, name: &str, each: &mut dyn FnMut(&mut Command, &str)) {
        each(command, name);
        for sub in command.get_subcommands_mut().filter(|sub| sub.get_name() != "help") {
            let name = format!("{name} {}", sub.get_name());
            walk(sub, &name, each);
        }
    }

    #[test]
    fn short_help_fits_one_screen() {
        let mut root = root::command();
        root.build();
        let mut long = Vec::new();
        walk(&mut root, "jitlat", &mut |command, name| {
            let help = command.render_help().to_string();
            if help.lines().count() > 40 {
                long.push(format!("{name} -h: {} lines\n{help}", help.lines().count()));
            }
        });
        assert!(long.is_empty(), "{}", long.join("\n"));
    }

    #[test]
    fn every_option_is_described_in_one_short_line() {
        let mut root = root::command();
        root.build();
        let mut faults = Vec::new();
        walk(&mut root, "jitlat", &mut |command, name| {
            for arg in command.get_arguments() {
                let id = arg.get_id();
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                if help.is_empty() {
                    faults.push(format!("{name}: {id} has no help"));
                } else if help.split(" [default: ").next().is_some_and(|text| text.chars().count() > 80) {
                    faults.push(format!("{name}: {id}: more than 80 characters: {help}"));
                } else if help.ends_with('.') {
                    faults.push(format!("{name}: {id}: a full stop: {help}"));
                }
            }
        });
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn every_option_of_short_help_exists() {
        let mut root = root::command();
        root.build();
        let mut unknown = Vec::new();
        walk(&mut root, "jitlat", &mut |command, name| {
            let name = name.strip_prefix("jitlat ").unwrap_or(name);
            let Some((_, ids)) = super::SHORT.iter().find(|(of, _)| *of == name) else { return };
            let known = |id: &str| command.get_arguments().any(|arg| arg.get_id() == id);
            // Some lists apply to several commands whose arguments differ.
            let own = ["host", "file", "scenario", "quiet"];
            let missing = ids.iter().filter(|id| !known(id) && !own.contains(id));
            unknown.extend(missing.map(|id| format!("{name}: there is no {id}")));
        });
        assert!(unknown.is_empty(), "{}", unknown.join("\n"));
    }
}
