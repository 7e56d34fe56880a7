//! Every section of the file and its keys: the reader knows no others, and the guide has a row for each.

/// A section.
pub struct FileSection {
    /// As it is written: `[[host]]`.
    pub title: &'static str,
    /// Its name at the root of the file: `host`.
    pub name: &'static str,
    /// What may stand in it.
    pub keys: &'static [&'static str],
}

/// Hosts that measure, and answer.
pub const HOST: FileSection = FileSection {
    title: "[[host]]",
    name: "host",
    keys: &["name", "address", "key", "key-file", "bandwidth", "concurrent"],
};

/// Which hosts are tested with which.
pub const GROUP: FileSection = FileSection {
    title: "[[group]]",
    name: "group",
    keys: &["name", "kind", "hosts", "centre", "pairs", "lists"],
};

/// What is measured between the hosts of a group, and when.
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

/// What passes interfaces, all the time.
pub const CAPTURE: FileSection = FileSection {
    title: "[[capture]]",
    name: "capture",
    keys: &["name", "host", "instrument", "interface", "towards", "far-interface", "options", "every"],
};

/// Where results are kept, and how long.
pub const ARCHIVE: FileSection =
    FileSection { title: "[archive]", name: "archive", keys: &["folder", "packets", "tests", "size"] };

/// What each host answers.
pub const SERVE: FileSection =
    FileSection { title: "[serve]", name: "serve", keys: &["on", "key", "key-file", "options"] };

/// How slots are made.
pub const TIMETABLE: FileSection =
    FileSection { title: "[timetable]", name: "timetable", keys: &["guard", "setup"] };

/// What somebody wants to be told.
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
        "at",
        "quiet-days",
        "quiet-hours",
    ],
};

/// Who is told.
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
        "run",
        "run-token-file",
        "run-longest",
        "run-rate",
        "run-at-once",
        "run-per-hour",
    ],
};

/// A host that others push their tests to.
pub const COLLECTOR: FileSection =
    FileSection { title: "[[collector]]", name: "collector", keys: &["host", "port", "from", "spool"] };

/// Every section.
pub const SECTIONS: &[FileSection] =
    &[HOST, GROUP, TEST, PING, CAPTURE, ARCHIVE, COLLECTOR, SERVE, TIMETABLE, WEB, ALERT, NOTIFY];

/// The name of `names` that somebody meant who wrote `word`; `None` if none is near.
pub fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = names.map(|name| (strsim::osa_distance(word, name), name)).min()?;
    let slips = if word.chars().count() < 4 { 1 } else { 2 + word.len() / 8 };
    (near.0 <= slips).then_some(near.1)
}

/// "did you mean 'x'? ", if a name of `names` is near `word`, and then all of them.
pub fn choose(word: &str, names: &[&str]) -> String {
    let list = match names {
        [] => "there is none".to_owned(),
        names if names.len() > 24 => format!("there are {}", names.len()),
        names => format!("choose {}", names.join(", ")),
    };
    match nearest(word, names.iter().copied()) {
        Some(near) => format!("did you mean '{near}'? ({list})"),
        None => list,
    }
}
