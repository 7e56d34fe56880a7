//! Sections and keys of the file. The reader rejects all others, and the guide documents each of them.

/// A section of the file.
pub struct FileSection {
    /// Title as it is written: `[[host]]`.
    pub title: &'static str,
    /// Name at the root of the file: `host`.
    pub name: &'static str,
    /// Keys of the section.
    pub keys: &'static [&'static str],
}

/// Hosts that measure and answer.
pub const HOST: FileSection = FileSection {
    title: "[[host]]",
    name: "host",
    keys: &[
        "name",
        "address",
        "site",
        "labels",
        "key",
        "key-file",
        "certificate",
        "pin",
        "bandwidth",
        "concurrent",
    ],
};

/// Groups of hosts that are tested with each other.
pub const GROUP: FileSection = FileSection {
    title: "[[group]]",
    name: "group",
    keys: &["name", "kind", "hosts", "centre", "pairs", "lists"],
};

/// Tests between the hosts of a group, and their times.
pub const TEST: FileSection = FileSection {
    title: "[[test]]",
    name: "test",
    keys: &[
        "name",
        "group",
        "instrument",
        "direction",
        "client",
        "profile",
        "options",
        "every",
        "for",
        "days",
        "hours",
        "spread",
    ],
};

/// Round trips to targets that need no jitlat.
pub const PING: FileSection = FileSection {
    title: "[[ping]]",
    name: "ping",
    keys: &["name", "targets", "from", "profile", "options", "every", "for", "days", "hours", "spread"],
};

/// Continuous captures on interfaces.
pub const CAPTURE: FileSection = FileSection {
    title: "[[capture]]",
    name: "capture",
    keys: &["name", "host", "instrument", "interface", "towards", "far-interface", "options", "every"],
};

/// Archive and retention of results.
pub const ARCHIVE: FileSection =
    FileSection { title: "[archive]", name: "archive", keys: &["folder", "packets", "tests", "size"] };

/// The server of each host.
pub const SERVE: FileSection =
    FileSection { title: "[serve]", name: "serve", keys: &["on", "key", "key-file", "options"] };

/// Times around the slots of the timetable.
pub const TIMETABLE: FileSection =
    FileSection { title: "[timetable]", name: "timetable", keys: &["guard", "setup"] };

/// Alert rules.
pub const ALERT: FileSection = FileSection {
    title: "[[alert]]",
    name: "alert",
    keys: &[
        "name",
        "if",
        "until",
        "of",
        "clear",
        "against",
        "by",
        "severity",
        "test",
        "host",
        "site",
        "label",
        "at",
        "quiet-days",
        "quiet-hours",
    ],
};

/// Times in which no alert begins to fire.
pub const MAINTENANCE: FileSection = FileSection {
    title: "[[maintenance]]",
    name: "maintenance",
    keys: &["host", "site", "label", "test", "from", "to", "days", "hours"],
};

/// Routes whose changes are recorded.
pub const ROUTE: FileSection = FileSection {
    title: "[[route]]",
    name: "route",
    keys: &["name", "from", "to", "proto", "port", "every"],
};

/// Receivers of notifications.
pub const NOTIFY: FileSection = FileSection {
    title: "[[notify]]",
    name: "notify",
    keys: &["name", "webhook", "ca-file", "command", "print"],
};

/// The page of a host's archive.
pub const WEB: FileSection = FileSection {
    title: "[web]",
    name: "web",
    keys: &[
        "on",
        "hosts",
        "listen",
        "token-file",
        "behind-proxy",
        "certificate",
        "plain",
        "link",
        "run",
        "run-token-file",
        "run-longest",
        "run-rate",
        "run-at-once",
        "run-per-hour",
    ],
};

/// Hosts that receive the tests of other hosts.
pub const COLLECTOR: FileSection = FileSection {
    title: "[[collector]]",
    name: "collector",
    keys: &[
        "host",
        "port",
        "url",
        "from",
        "spool",
        "pin",
        "ca-file",
        "plain",
        "certificate",
        "host-ca-file",
        "behind-proxy",
        "skew",
        "tests-per-second",
        "bytes-per-day",
        "bytes",
    ],
};

/// All sections.
pub const SECTIONS: &[FileSection] = &[
    HOST,
    GROUP,
    TEST,
    PING,
    CAPTURE,
    ROUTE,
    ARCHIVE,
    COLLECTOR,
    SERVE,
    TIMETABLE,
    WEB,
    ALERT,
    MAINTENANCE,
    NOTIFY,
];

/// Returns the name in `names` that is most similar to `word`; `None` if none is similar.
pub fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = names.map(|name| (strsim::osa_distance(word, name), name)).min()?;
    let slips = if word.chars().count() < 4 { 1 } else { 2 + word.len() / 8 };
    (near.0 <= slips).then_some(near.1)
}

/// Returns advice that lists all `names`, and suggests one if it is similar to `word`.
pub fn choose(word: &str, names: &[&str]) -> String {
    let list = match names {
        [] => "no names exist".to_owned(),
        names if names.len() > 24 => format!("{} names are defined", names.len()),
        names => format!("choose {}", names.join(", ")),
    };
    match nearest(word, names.iter().copied()) {
        Some(near) => format!("did you mean '{near}'? ({list})"),
        None => list,
    }
}
