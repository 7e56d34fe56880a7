//! Rules of the repository: every part of the full and the nightly checks has its job and its row, no test sleeps,
//! few types share their name.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Names of the parts of a script: its functions with a description.
fn parts(script: &str) -> BTreeSet<String> {
    let name = |line: &str| Some(line.split_once("() { # ")?.0.to_owned());
    script.lines().filter_map(name).collect()
}

/// Names in `part: [a, b]` of a workflow.
fn jobs(workflow: &str) -> BTreeSet<String> {
    let list = workflow.lines().find_map(|line| line.trim().strip_prefix("part: [")?.strip_suffix(']'));
    list.expect("a matrix of parts").split(", ").map(str::to_owned).collect()
}

#[test]
fn every_part_has_its_job_and_its_row() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    let page = read("docs/testing.md");
    for name in ["full", "nightly"] {
        let parts = parts(&read(&format!(".ci/{name}")));
        assert!(parts.len() > 5, "{name}: {parts:?}");
        assert_eq!(jobs(&read(&format!(".github/workflows/{name}.yml"))), parts, "{name}");
        let rows: Vec<&str> =
            page.lines().filter(|line| line.starts_with('|') && line.contains(name)).collect();
        for part in parts {
            let row = rows.iter().any(|row| row.contains(&format!("`{part}`")));
            assert!(row, "docs/testing.md has no row with {name} `{part}`");
        }
    }
}

/// Readers find each program of a release, its system, and how it was tested.
#[test]
fn every_program_of_a_release_is_in_the_pages() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    let programs = read("packaging/programs");
    let names = programs.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let names: BTreeSet<&str> = names.filter_map(|line| line.split_whitespace().next()).collect();
    let releases = read("docs/releases.md");
    let listed =
        releases.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(name, _)| name);
    let listed: BTreeSet<&str> =
        listed.filter(|name| names.contains(name) || name.contains("-linux-")).collect();
    let listed: BTreeSet<&str> = listed.into_iter().filter(|name| !name.contains("VERSION")).collect();
    assert_eq!(listed, names, "the table of programs in docs/releases.md");
    let installing = read("docs/guide/installing.md");
    for name in names {
        assert!(
            installing.contains(&format!("`{name}`")),
            "docs/guide/installing.md has no row with `{name}`"
        );
    }
}

/// Flags and arguments that a script of `packaging` passes to `cargo` during a release. Scripts that only print replace `cargo`,
/// rustup and cross compilers.
fn given_to_cargo(script: &str, arguments: &[&str], linkers: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let tool = |name: &str, text: &str| {
        use std::os::unix::fs::PermissionsExt;
        let file = folder.path().join(name);
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    };
    tool("cargo", r#"printf '%s\n' "$CARGO_ENCODED_RUSTFLAGS" | tr '\037' '\n' >&2; printf '%s\n' "$@" >&2"#);
    tool("rustup", "exit 0");
    for linker in linkers {
        tool(linker, "exit 1");
    }
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let output = Command::new(root.join("packaging").join(script))
        .args(arguments)
        .current_dir(&root)
        .env("PATH", path)
        .env("CARGO_ENCODED_RUSTFLAGS", RELEASE_FLAGS.join("\x1f"))
        .env_remove("SMALL_PROFILE")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{script} {arguments:?}: {said}");
    said.lines().map(str::to_owned).collect()
}

/// Flags that a release passes, so that its programs do not depend on folders.
const RELEASE_FLAGS: [&str; 2] = ["--remap-path-prefix=/a folder=/jitlat", "--remap-path-prefix=/b=/rust"];

/// A small program of a release is the one that `packaging/board` builds, with the release's names of paths.
#[test]
fn small_programs_of_a_release_are_those_for_boards() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let programs = fs::read_to_string(root.join("packaging/programs")).unwrap();
    let linkers = ["arm-linux-gnueabihf-gcc", "x86_64-w64-mingw32-gcc"];
    let mut small = 0;
    for line in programs.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [name, target, build, ..] = columns[..] else { panic!("{line}") };
        let Some(features) = build.strip_prefix("small") else { continue };
        let features = features.trim_start_matches('+').replace('+', ",");
        let built = given_to_cargo("build", &[name], &linkers);
        assert_eq!(built[..2], RELEASE_FLAGS, "{name}");
        assert_eq!(built, given_to_cargo("board", &[target, &features], &linkers), "{name}");
        for argument in ["--no-default-features", target, "small"] {
            assert!(built.iter().any(|given| given == argument), "{name}: no {argument} in {built:?}");
        }
        assert!(features.is_empty() || built.contains(&features), "{name}: {built:?}");
        if target.ends_with("-linux-musl") {
            let packed = "-Clink-arg=-zpack-relative-relocs";
            assert!(built.iter().any(|given| given == packed), "{name}: {built:?}");
        }
        small += 1;
    }
    assert!(small >= 4, "packaging/programs has {small} small programs");
}

/// Recipes that build the sources name the version that they build.
#[test]
fn recipes_have_the_version_of_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let version = |path: &str, before: &str| {
        let text = fs::read_to_string(root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
        let found =
            text.lines().find_map(|line| Some(line.strip_prefix(before)?.trim_matches('"').to_owned()));
        found.unwrap_or_else(|| panic!("{path} has no {before}"))
    };
    let sources = version("Cargo.toml", "version = ");
    assert_eq!(version("packaging/openwrt/Makefile", "PKG_VERSION:="), sources);
    assert_eq!(version("packaging/alpine/APKBUILD", "pkgver="), sources);
    assert_eq!(version("python/Cargo.toml", "version = "), sources);
}

/// `ps -L` shows the names of threads; ARCHITECTURE.md says what each waits for.
#[test]
fn every_name_of_a_thread_is_in_the_architecture() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let table = page.split("## Threads").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
    let first_column = |row: &str| Some(row.strip_prefix("| ")?.split(" | ").next()?.to_owned());
    let known: BTreeSet<String> = table
        .lines()
        .filter_map(first_column)
        .flat_map(|names| names.split([',', ':', '(']).map(|name| name.trim().to_owned()).collect::<Vec<_>>())
        .collect();
    let mut names = BTreeSet::new();
    for file in
        files(&root.join("crates")).into_iter().filter(|file| file.to_string_lossy().contains("/src/"))
    {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        for after in text.split("thread::Builder::new()").skip(1) {
            let Some(name) = after.trim_start().strip_prefix(".name(") else { continue };
            let literal = name.strip_prefix("format!(").unwrap_or(name).strip_prefix('"');
            // Numbers are `N` in the table; other names are not literals.
            if let Some(name) = literal.and_then(|rest| rest.split('"').next()) {
                names.insert(name.split('{').next().unwrap().trim().to_owned());
            }
        }
    }
    assert!(names.len() > 15, "{names:?}");
    let is_known = |name: &String| known.contains(name) || known.contains(&format!("{name} N"));
    let unknown: Vec<&String> = names.iter().filter(|name| !is_known(name)).collect();
    assert!(unknown.is_empty(), "ARCHITECTURE.md, Threads, has no row for {unknown:?}; it has {known:?}");
}

/// Lists the files below a folder.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn no_test_sleeps_and_no_snapshot_is_too_long_to_be_read() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let call = ["sleep", "("].concat();
    let (mut tests, mut snapshots) = (0, 0);
    for file in files(&crates) {
        let path = file.to_string_lossy().into_owned();
        if path.ends_with(".rs") && path.contains("/tests/") && !path.contains("/src/") {
            let text = fs::read_to_string(&file).unwrap();
            assert!(!text.contains(&call), "{path} sleeps: wait with jitlat_waiting for what it needs");
            tests += 1;
        } else if path.ends_with(".snap") {
            let lines = fs::read_to_string(&file).unwrap().lines().count();
            assert!(lines <= 200, "{path} has {lines} lines: assert what matters instead");
            snapshots += 1;
        }
    }
    assert!(tests > 50 && snapshots > 10, "{tests} files of tests, {snapshots} snapshots");
}

/// Name of the type that a line of a module declares.
fn declared_type(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub").map_or(line, |rest| {
        let end = if rest.starts_with('(') { rest.find(')').map_or(0, |end| end + 1) } else { 0 };
        rest[end..].trim_start()
    });
    let line = line.strip_prefix("unsafe ").unwrap_or(line);
    let rest =
        ["struct ", "enum ", "union ", "trait ", "type "].iter().find_map(|kind| line.strip_prefix(kind))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|name| !name.is_empty())
}

/// The name of a type states its subject: `AlertState`, `TestOutcome`. Only ends of protocols (`Client`, `Server`),
/// stand-ins for modules that a build leaves out, and a few more types may share their name.
#[test]
fn few_types_share_their_name() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut paths_of: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files(&crates) {
        let path = file.strip_prefix(&crates).unwrap().to_string_lossy().into_owned();
        let is_test = path.ends_with("tests.rs") || path.ends_with("testing.rs") || path.contains("/tests/");
        if !path.ends_with(".rs") || !path.contains("/src/") || is_test {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let lines = text.lines().take_while(|line| !line.starts_with("mod tests {"));
        for name in lines.filter_map(declared_type) {
            paths_of.entry(name.to_owned()).or_default().push(path.clone());
        }
    }
    let total: usize = paths_of.values().map(Vec::len).sum();
    let mut shared: Vec<_> = paths_of.iter().filter(|(_, paths)| paths.len() > 1).collect();
    shared.sort_by_key(|(_, paths)| Reverse(paths.len()));
    let count: usize = shared.iter().map(|(_, paths)| paths.len()).sum();
    assert!(total > 1000, "only {total} types found");
    assert!(
        count * 100 <= total * 15,
        "{count} of {total} types share their name with another; most often {:#?}",
        &shared[..shared.len().min(5)]
    );
}

/// Files of `net` above the boundary that are Linux's alone: other systems have a substitute in `elsewhere`, or none.
const LINUX_ONLY: [&str; 20] = [
    "adapter_clock.rs",
    "capture/interface.rs",
    "capture/interface/",
    "confine/",
    "emulator/",
    "frame.rs",
    "interface/driver_counters.rs",
    "interface/link_errors.rs",
    "interface/modem.rs",
    "interface/radio.rs",
    "launch.rs",
    "netlink.rs",
    "path.rs",
    "reflect/lamp_frames.rs",
    "rpm/",
    "sys/",
    "twoway/next_hop.rs",
    "twoway/raw.rs",
    "lamp_frame.rs",
    "elsewhere/",
];

#[test]
fn systems_are_distinguished_in_net_and_in_the_wiring_of_the_command() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let words = ["target_os", "target_family", "target_vendor", "unix", "windows", "cfg(linux"];
    let distinguishes = |line: &str| {
        line.contains("cfg") && words.iter().any(|word| line.contains(word)) && !line.contains("//")
    };
    let calls = |line: &str| ["nix::", "libc::", "std::os::"].iter().any(|call| line.contains(call));
    let mut seen = 0;
    for file in files(&crates) {
        let path = file.strip_prefix(&crates).unwrap().to_string_lossy().replace('\\', "/");
        let Some((package, within)) = path.split_once("/src/").filter(|_| path.ends_with(".rs")) else {
            continue;
        };
        if within.ends_with("tests.rs") {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let product = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        seen += 1;
        let may = package == "net"
            || (package, within) == ("store", "platform.rs")
            || (package, within) == ("jitlat", "lib.rs");
        let found = product.lines().find(|line| distinguishes(line));
        assert!(may || found.is_none(), "{path} distinguishes systems, which only net may: {found:?}");
        if package == "net" && !LINUX_ONLY.iter().any(|only| within.starts_with(only)) {
            let called = product.lines().find(|line| calls(line));
            assert_eq!(called, None, "{path} calls a system, which only net's `sys` may");
        }
    }
    assert!(seen > 300, "{seen} files");
}
