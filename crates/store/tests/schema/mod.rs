//! Checks JSON against its published schema, with the parts of JSON Schema that the published schemas use. A key that the
//! schema does not describe is an error as well, so that every new figure has to be described.

use serde_json::Value;
use std::path::Path;

/// Returns the schema `docs/formats/NAME.schema.json`.
fn published(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap()
}

/// Returns the errors of `document` against `docs/formats/NAME.schema.json`.
pub fn errors(name: &str, document: &Value) -> Vec<String> {
    let root = published(&format!("{name}.schema.json"));
    let mut validator = Validator { root: root.clone(), errors: Vec::new() };
    validator.check(&root, document, "$");
    validator.errors
}

pub fn assert_valid(name: &str, document: &Value) {
    let errors = errors(name, document);
    assert!(errors.is_empty(), "{errors:#?}");
}

struct Validator {
    root: Value,
    errors: Vec<String>,
}

impl Validator {
    fn check(&mut self, schema: &Value, value: &Value, at: &str) {
        let mut found = Vec::new();
        for (keyword, rule) in schema.as_object().unwrap() {
            match keyword.as_str() {
                "$ref" => {
                    // A reference within this file, or to another file in the folder.
                    let (file, pointer) = rule.as_str().unwrap().split_once('#').unwrap();
                    let root = if file.is_empty() { self.root.clone() } else { published(file) };
                    let target = root.pointer(pointer).expect("a definition").clone();
                    let mut there = Validator { root, errors: Vec::new() };
                    there.check(&target, value, at);
                    self.errors.append(&mut there.errors);
                    return;
                }
                "anyOf" | "oneOf" => {
                    let mut attempts = Vec::new();
                    for choice in rule.as_array().unwrap() {
                        let mut attempt = Validator { root: self.root.clone(), errors: Vec::new() };
                        attempt.check(choice, value, at);
                        attempts.push(attempt.errors);
                    }
                    if let Some(closest) = attempts.into_iter().min_by_key(Vec::len) {
                        self.errors.extend(closest);
                    }
                    return;
                }
                "type" => {
                    let named = |t: &Value| match t.as_str().unwrap() {
                        "integer" => value.is_i64() || value.is_u64(),
                        "number" => value.is_number(),
                        "string" => value.is_string(),
                        "boolean" => value.is_boolean(),
                        "array" => value.is_array(),
                        "object" => value.is_object(),
                        "null" => value.is_null(),
                        other => panic!("type {other}"),
                    };
                    if !rule.as_array().map_or_else(|| named(rule), |types| types.iter().any(named)) {
                        return self.errors.push(format!("{at}: {value} is not of type {rule}"));
                    }
                }
                "const" => {
                    if rule != value {
                        found.push(format!("{value} is not {rule}"));
                    }
                }
                "enum" => {
                    if !rule.as_array().unwrap().contains(value) {
                        found.push(format!("{value} is not one of {rule}"));
                    }
                }
                "minimum" => {
                    if value.as_f64().is_some_and(|v| v < rule.as_f64().unwrap()) {
                        found.push(format!("{value} is below {rule}"));
                    }
                }
                "maximum" => {
                    if value.as_f64().is_some_and(|v| v > rule.as_f64().unwrap()) {
                        found.push(format!("{value} is above {rule}"));
                    }
                }
                "minItems" | "maxItems" => {
                    let n = value.as_array().map(Vec::len);
                    let limit = rule.as_u64().unwrap() as usize;
                    if n.is_some_and(|n| if keyword == "minItems" { n < limit } else { n > limit }) {
                        found.push(format!("{keyword} is {limit}"));
                    }
                }
                "required" => {
                    for key in rule.as_array().unwrap() {
                        if value.as_object().is_some_and(|o| !o.contains_key(key.as_str().unwrap())) {
                            found.push(format!("{key} is missing"));
                        }
                    }
                }
                "items" => {
                    for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(rule, item, &format!("{at}[{i}]"));
                    }
                }
                "prefixItems" => {
                    let pairs =
                        rule.as_array().into_iter().flatten().zip(value.as_array().into_iter().flatten());
                    for (i, (rule, item)) in pairs.enumerate() {
                        self.check(rule, item, &format!("{at}[{i}]"));
                    }
                }
                "format"
                | "properties"
                | "patternProperties"
                | "additionalProperties"
                | "description"
                | "title"
                | "$schema"
                | "$defs" => {}
                other => panic!("keyword {other}"),
            }
        }
        self.errors.extend(found.into_iter().map(|what| format!("{at}: {what}")));
        self.check_keys(schema, value, at);
    }

    fn check_keys(&mut self, schema: &Value, value: &Value, at: &str) {
        for (key, item) in value.as_object().into_iter().flatten() {
            let mut patterns = schema["patternProperties"].as_object().into_iter().flatten();
            let rule = schema["properties"]
                .get(key)
                .or_else(|| patterns.find(|(pattern, _)| is_number(pattern, key)).map(|(_, rule)| rule))
                .or_else(|| schema.get("additionalProperties").filter(|rule| rule.is_object()));
            match rule {
                Some(rule) => {
                    let rule = rule.clone();
                    self.check(&rule, item, &format!("{at}.{key}"));
                }
                None => self.errors.push(format!("{at}.{key} is not described")),
            }
        }
    }
}

/// True if `key` matches `pattern`, one of the two patterns that the schemas use.
fn is_number(pattern: &str, key: &str) -> bool {
    match pattern {
        r"^\d+$" => key.parse::<u64>().is_ok(),
        r"^-?\d+$" => key.parse::<i64>().is_ok(),
        other => panic!("pattern {other}"),
    }
}
