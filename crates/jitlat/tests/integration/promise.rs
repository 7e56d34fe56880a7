//! Promises of the last release (docs/stability.md) hold: `testdata/released/VERSION` has its JSON schemas and its options.
//! Keys, types and options may be added. Anything that is removed or changed is an error, unless `testdata/released/changes.txt` names it
//! with its reason; CHANGELOG.md must have it, too.

use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The folder of the last release.
fn released() -> PathBuf {
    let folders = fs::read_dir(root().join("testdata/released")).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = folders.filter(|path| path.is_dir()).collect();
    assert_eq!(folders.len(), 1, "only the last release is kept: {folders:?}");
    folders.remove(0)
}

/// Values at one position in documents, for example `summary $.latency.mean`.
#[derive(Default)]
struct Position {
    /// Names of JSON's types that they may have.
    types: BTreeSet<String>,
    /// The key is in each object that may be there.
    always: bool,
}

/// A schema, the file that its references are relative to, and the references that led to it.
#[derive(Clone)]
struct Node {
    file: String,
    schema: Value,
    through: BTreeSet<(String, String)>,
}

/// Reads the schemas of a folder as the positions that they describe.
struct Reader {
    folder: PathBuf,
    files: BTreeMap<String, Value>,
    positions: BTreeMap<String, Position>,
}

impl Reader {
    fn positions(folder: &Path) -> BTreeMap<String, Position> {
        let mut reader =
            Reader { folder: folder.to_owned(), files: BTreeMap::new(), positions: BTreeMap::new() };
        let names =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(".schema.json")).collect();
        names.sort();
        for file in names {
            let path = format!("{} $", file.trim_end_matches(".schema.json"));
            let schema = reader.file(&file).clone();
            reader.walk(&path, vec![Node { file, schema, through: BTreeSet::new() }], true);
        }
        reader.positions
    }

    fn file(&mut self, name: &str) -> &Value {
        let path = self.folder.join(name);
        self.files.entry(name.to_owned()).or_insert_with(|| serde_json::from_str(&read(&path)).unwrap())
    }

    /// The alternatives of a schema, without references. A reference to itself is left out: the positions below it are there already.
    fn alternatives(&mut self, node: Node) -> Vec<Node> {
        if let Some(reference) = node.schema.get("$ref").and_then(Value::as_str) {
            let (file, pointer) = reference.split_once('#').unwrap();
            let file = if file.is_empty() { node.file } else { file.to_owned() };
            let mut through = node.through;
            if !through.insert((file.clone(), pointer.to_owned())) {
                return Vec::new();
            }
            let schema = self.file(&file).pointer(pointer).expect("a definition").clone();
            return self.alternatives(Node { file, schema, through });
        }
        let choices = ["anyOf", "oneOf"].iter().find_map(|key| node.schema.get(*key)?.as_array().cloned());
        let Some(choices) = choices else { return vec![node] };
        let choose = |schema: Value| Node { schema, ..node.clone() };
        let mut found: Vec<Node> =
            choices.into_iter().map(choose).flat_map(|choice| self.alternatives(choice)).collect();
        // Keys next to the choice belong to each alternative.
        if let Some(shared) = node.schema.get("properties").and_then(Value::as_object) {
            for alternative in &mut found {
                let object = alternative.schema.as_object_mut().unwrap();
                let properties = object.entry("properties").or_insert_with(|| Value::Object(Map::new()));
                properties.as_object_mut().unwrap().extend(shared.clone());
                let required = object.entry("required").or_insert_with(|| Value::Array(Vec::new()));
                let more = node.schema.get("required").and_then(Value::as_array).cloned();
                required.as_array_mut().unwrap().extend(more.unwrap_or_default());
            }
        }
        found
    }

    fn walk(&mut self, path: &str, nodes: Vec<Node>, always: bool) {
        let nodes: Vec<Node> = nodes.into_iter().flat_map(|node| self.alternatives(node)).collect();
        let position = self.positions.entry(path.to_owned()).or_default();
        position.always = always;
        for node in &nodes {
            match &node.schema["type"] {
                Value::String(name) => drop(position.types.insert(name.clone())),
                Value::Array(names) => {
                    position.types.extend(names.iter().map(|name| name.as_str().unwrap().to_owned()));
                }
                _ if node.schema.get("const").is_some() || node.schema.get("enum").is_some() => {
                    position.types.insert("string".to_owned());
                }
                _ => drop(position.types.insert("any".to_owned())),
            }
        }
        let objects: Vec<&Node> =
            nodes.iter().filter(|node| node.schema.get("properties").is_some()).collect();
        let mut keys: BTreeMap<String, (Vec<Node>, usize)> = BTreeMap::new();
        for node in &objects {
            let required = node.schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
            for (key, schema) in node.schema["properties"].as_object().unwrap() {
                let (schemas, in_all) = keys.entry(key.clone()).or_default();
                schemas.push(Node { schema: schema.clone(), ..(*node).clone() });
                *in_all += usize::from(required.iter().any(|name| name == key));
            }
        }
        let objects = objects.len();
        for (key, (schemas, in_all)) in keys {
            self.walk(&format!("{path}.{key}"), schemas, in_all == objects);
        }
        for (keyword, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
            let within = nodes.iter().filter(|node| node.schema[keyword].is_object());
            let within: Vec<Node> =
                within.map(|node| Node { schema: node.schema[keyword].clone(), ..node.clone() }).collect();
            if !within.is_empty() {
                self.walk(&format!("{path}{mark}"), within, true);
            }
        }
    }
}

/// Changes between two versions that a reader of the older one may notice.
fn changes(old: &BTreeMap<String, Position>, new: &BTreeMap<String, Position>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (path, was) in old {
        let Some(is) = new.get(path) else {
            // If an object is gone, its keys are not listed.
            let parent = path.rfind(['.', '[', '{']).map(|end| &path[..end]);
            if parent.is_none_or(|parent| new.contains_key(parent)) {
                found.insert(format!("{path} is gone"));
            }
            continue;
        };
        let known = |name: &String| {
            was.types.contains(name)
                || was.types.contains("any")
                || name == "integer" && was.types.contains("number")
        };
        if let Some(name) = is.types.iter().find(|name| !known(name)) {
            found.insert(format!("{path} may now be {name}"));
        }
        if was.always && !is.always {
            found.insert(format!("{path} may now be absent"));
        }
    }
    found
}

/// The changes that `changes.txt` permits: each line is a change, `: `, and its reason.
fn permitted() -> BTreeSet<String> {
    let text = read(&root().join("testdata/released/changes.txt"));
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let change =
        |line: &str| line.split_once(": ").unwrap_or_else(|| panic!("no reason: {line}")).0.to_owned();
    lines.map(change).collect()
}

#[test]
fn keys_types_and_options_of_the_last_release_are_still_there() {
    let mut found =
        changes(&Reader::positions(&released()), &Reader::positions(&root().join("docs/formats")));
    let mut command = jitlat::command();
    command.build();
    for line in read(&released().join("options.txt")).lines().filter(|line| !line.starts_with('#')) {
        let (name, options) = line.split_once(' ').unwrap();
        let part = if name == "-" { Some(&command) } else { command.find_subcommand(name) };
        let Some(part) = part else {
            found.insert(format!("the command {name} is gone"));
            continue;
        };
        for option in options.split(' ') {
            let accepts = |arg: &clap::Arg| match option.strip_prefix("--") {
                Some(long) => {
                    arg.get_long() == Some(long) || arg.get_all_aliases().unwrap_or_default().contains(&long)
                }
                None => {
                    let short = option.chars().nth(1).unwrap();
                    arg.get_short() == Some(short)
                        || arg.get_all_short_aliases().unwrap_or_default().contains(&short)
                }
            };
            if !part.get_arguments().any(accepts) {
                found.insert(format!("{name} {option} is gone"));
            }
        }
    }
    let permitted = permitted();
    let broken: Vec<&String> = found.difference(&permitted).collect();
    assert!(broken.is_empty(), "promised to stay (docs/stability.md): {broken:#?}");
    let outdated: Vec<&String> = permitted.difference(&found).collect();
    assert!(outdated.is_empty(), "changes.txt names what has not changed: {outdated:#?}");
}

#[test]
fn what_readers_would_notice_is_found_and_what_is_added_is_not() {
    let position = |types: &[&str], always| Position {
        types: types.iter().map(|&name| name.to_owned()).collect(),
        always,
    };
    let old: BTreeMap<String, Position> = [
        ("s $", position(&["object"], true)),
        ("s $.a", position(&["integer"], true)),
        ("s $.b", position(&["number"], true)),
        ("s $.c", position(&["object"], false)),
        ("s $.c.d", position(&["string"], true)),
    ]
    .map(|(path, position)| (path.to_owned(), position))
    .into();
    let new: BTreeMap<String, Position> = [
        ("s $", position(&["object"], true)),
        ("s $.a", position(&["integer", "null"], true)),
        ("s $.b", position(&["integer"], false)),
        ("s $.new", position(&["string"], true)),
    ]
    .map(|(path, position)| (path.to_owned(), position))
    .into();
    let found: Vec<String> = changes(&old, &new).into_iter().collect();
    assert_eq!(found, ["s $.a may now be null", "s $.b may now be absent", "s $.c is gone"]);
    assert!(changes(&old, &old).is_empty());
}
