//! README.md explains in a minute what jitlat is, and every command in it exists.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Most lines that a person reads in a minute.
const LONGEST: usize = 120;
/// Limit of the size of all pictures together, in bytes.
const PICTURES: u64 = 200_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).unwrap()
}

/// Lists the commands in shell blocks and in code within text.
fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut shell = false;
    for event in Parser::new_ext(page, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => shell = &*language == "sh",
            Event::End(TagEnd::CodeBlock) => shell = false,
            Event::Text(text) if shell => commands.extend(text.lines().map(str::to_owned)),
            Event::Code(code) => commands.push(code.into_string()),
            _ => {}
        }
    }
    let of_jitlat = |line: &String| {
        let line = line.split(" #").next().unwrap_or_default().trim();
        line.strip_prefix("sudo ").unwrap_or(line).strip_prefix("jitlat ").map(str::to_owned)
    };
    commands.iter().filter_map(of_jitlat).collect()
}

#[test]
fn it_is_short_and_begins_with_what_jitlat_is() {
    let page = readme();
    assert!(page.lines().count() <= LONGEST, "{} lines", page.lines().count());
    assert!(page.starts_with("# jitlat\n\njitlat is "), "{}", &page[..80]);
}

#[test]
fn its_pictures_are_there_and_small() {
    let page = readme();
    let pictures: Vec<PathBuf> = Parser::new(&page)
        .filter_map(|event| match event {
            Event::Start(Tag::Image { dest_url, .. }) => Some(root().join(&*dest_url)),
            _ => None,
        })
        .collect();
    let bytes: Vec<u64> = pictures.iter().map(|picture| fs::metadata(picture).unwrap().len()).collect();
    assert!(!pictures.is_empty() && !bytes.contains(&0), "{pictures:?}: {bytes:?} bytes");
    assert!(bytes.iter().sum::<u64>() <= PICTURES, "{pictures:?}: {bytes:?} bytes");
}

#[test]
fn its_commands_and_their_options_exist() {
    let commands = commands(&readme());
    assert!(commands.len() > 15, "{commands:?}");
    for command in commands {
        // Options are parsed in order: an unknown one is refused before --help is reached.
        let arguments = command.split_whitespace().map(|word| word.trim_matches('\''));
        let output =
            Command::new(env!("CARGO_BIN_EXE_jitlat")).args(arguments).arg("--help").output().unwrap();
        assert!(output.status.success(), "jitlat {command}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_command_that_does_not_exist_is_found() {
    let page = "`jitlat HOST --no-such` and\n\n```sh\nsudo jitlat path HOST   # routers\ncargo test\n```\n";
    assert_eq!(commands(page), ["HOST --no-such", "path HOST"]);
}
