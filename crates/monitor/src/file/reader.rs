//! Reads tables of TOML key by key. Faults are recorded with their positions, and reading continues.

use super::keys::{FileSection, choose};
use jitlat_core::WallTime;
use jitlat_core::prefix::Prefix;
use jitlat_core::printable::{is_unprintable, printable};
use jitlat_core::quantity::QuantityError;
use jitlat_core::time::SECOND;
use jitlat_core::units::civil;
use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use toml::value::{Datetime, Offset};

/// A fault in the file and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFault {
    /// Line, from 1.
    pub line: usize,
    /// Column, in characters, from 1.
    pub column: usize,
    /// Description of the fault, with a correction.
    pub message: String,
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl FileFault {
    /// Creates a fault at the character at byte `at` of `text`.
    pub fn new(text: &str, at: usize, message: impl Into<String>) -> FileFault {
        let before = text.get(..at.min(text.len())).unwrap_or(text);
        let begin = before.rfind('\n').map_or(0, |n| n + 1);
        FileFault {
            line: before.matches('\n').count() + 1,
            column: before[begin..].chars().count() + 1,
            message: printable(&message.into()).into_owned(),
        }
    }
}

/// Faults so far: byte position in the text, message.
#[derive(Debug, Default)]
pub struct Faults(RefCell<Vec<(usize, String)>>);

impl Faults {
    /// Records a fault at the beginning of `span`.
    pub fn add(&self, span: &Range<usize>, message: impl Into<String>) {
        self.0.borrow_mut().push((span.start, message.into()));
    }

    /// Returns all faults in the order of the file.
    pub fn of(self, text: &str) -> Vec<FileFault> {
        let mut list = self.0.into_inner();
        list.sort();
        list.dedup();
        list.into_iter().map(|(at, message)| FileFault::new(text, at, message)).collect()
    }
}

/// A value with its position in the file.
pub type Located<T> = Spanned<T>;

/// Value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionValue {
    /// A switch.
    Switch(bool),
    /// A string, or a number as it is written in the file.
    Text(String),
    /// Several values, for an option that may be repeated.
    List(Vec<String>),
}

/// A table that is being read.
pub struct TableReader<'a> {
    section: &'static FileSection,
    entries: &'a DeTable<'a>,
    /// Position in the file.
    pub at: Range<usize>,
    faults: &'a Faults,
}

impl<'a> TableReader<'a> {
    /// Begins to read a table of `section`; unknown keys are faults.
    pub fn new(
        section: &'static FileSection,
        value: &'a Spanned<DeValue<'a>>,
        faults: &'a Faults,
    ) -> Option<TableReader<'a>> {
        let DeValue::Table(entries) = value.get_ref() else {
            faults.add(&value.span(), format!("{} is a table: write {}", section.name, section.title));
            return None;
        };
        for key in entries.keys() {
            let name = key.get_ref();
            if !section.keys.contains(&&**name) {
                let meant = choose(name, section.keys);
                faults.add(
                    &key.span(),
                    format!("{} has no key '{}': {meant}", section.title, name.escape_debug()),
                );
            }
        }
        Some(TableReader { section, entries, at: value.span(), faults })
    }

    fn value(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        debug_assert!(self.section.keys.contains(&key), "{key} is not in the list");
        self.entries.iter().find(|(k, _)| k.get_ref() == key).map(|(_, v)| v)
    }

    /// Records a fault in the value of `key`, or in the table if it does not have the key.
    pub fn fault(&self, key: &str, message: impl Into<String>) {
        let at = self.value(key).map_or(self.at.clone(), Spanned::span);
        self.faults.add(&at, message);
    }

    /// True if the table has `key`.
    pub fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// Records that `key` is missing.
    pub fn missing(&self, key: &str, example: &str) {
        self.faults.add(&self.at, format!("{} needs '{key}': write {example}", self.section.title));
    }

    /// Reads a string; `None` if `key` is missing or its value is wrong.
    pub fn text(&self, key: &str) -> Option<Located<String>> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::String(text) => Some(Located::new(value.span(), text.to_string())),
            other => {
                self.wrong(value, key, "a string", other);
                None
            }
        }
    }

    /// Reads a string that is required and must not be empty; `None` after a fault.
    pub fn needed(&self, key: &str, example: &str) -> Option<Located<String>> {
        if !self.has(key) {
            self.missing(key, example);
            return None;
        }
        let text = self.text(key)?;
        if text.get_ref().trim().is_empty() {
            self.faults.add(&text.span(), format!("'{key}' is empty: write {example}"));
            return None;
        }
        Some(text)
    }

    /// Reads the name of the section's object. It is also used in addresses of pages and in lists, hence it is one line without `/`.
    pub fn name(&self, example: &str) -> Option<Located<String>> {
        let name = self.needed("name", example)?;
        if name.get_ref().contains(|c: char| is_unprintable(c) || c == '/') {
            self.fault("name", "a name must be one line without '/' or control characters");
        }
        Some(name)
    }

    /// Reads a string that may be missing, but must not be empty.
    pub fn needed_if_there(&self, key: &str, example: &str) -> Option<String> {
        if self.has(key) { self.needed(key, example).map(Located::into_inner) } else { None }
    }

    /// Reads a value that is true or false; `None` if `key` is missing or its value is wrong.
    pub fn truth(&self, key: &str) -> Option<bool> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::Boolean(truth) => Some(*truth),
            other => {
                self.wrong(value, key, "true or false", other);
                None
            }
        }
    }

    /// Reads networks of proxies: a list of addresses and networks, or true for an empty list; `None` if `key` is missing, false or wrong.
    pub fn proxies(&self, key: &str) -> Option<Vec<Prefix>> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::Boolean(is_behind) => is_behind.then(Vec::new),
            _ => {
                let network = |text: Located<String>| {
                    let read = Prefix::trusted(text.get_ref());
                    read.map_err(|e| self.faults.add(&text.span(), format!("'{key}': {e}"))).ok()
                };
                let texts = self.list_of_texts(key, value)?;
                if texts.is_empty() {
                    let message = format!("'{key}': name an address or a network, such as 192.0.2.0/24");
                    self.faults.add(&value.span(), message);
                }
                Some(texts.into_iter().filter_map(network).collect())
            }
        }
    }

    /// Reads a quantity with the parser `parse`: a string with a unit, or a number. `None` if `key` is missing or its
    /// value is wrong.
    pub fn quantity<T>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, QuantityError>,
    ) -> Option<Located<T>> {
        let value = self.value(key)?;
        let Some(text) = plain(value.get_ref()) else {
            self.wrong(value, key, "a string with a unit", value.get_ref());
            return None;
        };
        match parse(&text) {
            Ok(found) => Some(Located::new(value.span(), found)),
            Err(e) => {
                self.faults.add(&value.span(), format!("'{key}': {e}"));
                None
            }
        }
    }

    /// Reads a time in UTC: a date and time of TOML, or a string of the same form. `None` if `key` is missing or its value
    /// is wrong.
    pub fn moment(&self, key: &str) -> Option<WallTime> {
        let value = self.value(key)?;
        let read = match value.get_ref() {
            DeValue::Datetime(at) => wall_time(at),
            DeValue::String(text) => text.parse().ok().and_then(|at: Datetime| wall_time(&at)),
            _ => None,
        };
        if read.is_none() {
            let message = format!("'{key}' must be a time in UTC: write {key} = 2026-12-24T22:00:00Z");
            self.faults.add(&value.span(), message);
        }
        read
    }

    /// Reads a number of at least one; `None` if `key` is missing or its value is wrong.
    pub fn number(&self, key: &str) -> Option<u32> {
        let value = self.value(key)?;
        let number = plain(value.get_ref()).and_then(|text| text.parse().ok()).filter(|n| *n > 0);
        if number.is_none() {
            self.wrong(value, key, "a number of 1 or more", value.get_ref());
        }
        number
    }

    /// Reads a string, or a list of strings; `None` if `key` is missing or its value is wrong.
    pub fn texts(&self, key: &str) -> Option<Vec<Located<String>>> {
        let value = self.value(key)?;
        self.list_of_texts(key, value)
    }

    fn list_of_texts(&self, key: &str, value: &'a Spanned<DeValue<'a>>) -> Option<Vec<Located<String>>> {
        match value.get_ref() {
            DeValue::String(text) => Some(vec![Located::new(value.span(), text.to_string())]),
            DeValue::Array(items) => {
                let mut list = Vec::new();
                for item in items {
                    match item.get_ref() {
                        DeValue::String(text) => list.push(Located::new(item.span(), text.to_string())),
                        other => self.wrong(item, key, "strings", other),
                    }
                }
                Some(list)
            }
            other => {
                self.wrong(value, key, "a list of strings", other);
                None
            }
        }
    }

    /// Reads a list of lists of strings; `None` if `key` is missing or its value is wrong.
    pub fn lists(&self, key: &str) -> Option<Vec<Located<Vec<Located<String>>>>> {
        let value = self.value(key)?;
        let DeValue::Array(items) = value.get_ref() else {
            self.wrong(value, key, "a list of lists of names", value.get_ref());
            return None;
        };
        let mut lists = Vec::new();
        for item in items {
            if !matches!(item.get_ref(), DeValue::Array(_)) {
                self.wrong(item, key, "lists of names", item.get_ref());
                continue;
            }
            lists.push(Located::new(item.span(), self.list_of_texts(key, item).unwrap_or_default()));
        }
        Some(lists)
    }

    /// Reads a table of options: long names without `--`, and values, each with its position.
    pub fn options(&self, key: &str) -> Vec<(Located<String>, Located<OptionValue>)> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let DeValue::Table(entries) = value.get_ref() else {
            self.wrong(value, key, "a table like { packets = 500 }", value.get_ref());
            return Vec::new();
        };
        let mut options = Vec::new();
        for (name, value) in entries {
            let found = match value.get_ref() {
                DeValue::Boolean(on) => OptionValue::Switch(*on),
                DeValue::Array(items) => {
                    let texts: Option<Vec<String>> = items.iter().map(|item| plain(item.get_ref())).collect();
                    match texts {
                        Some(texts) => OptionValue::List(texts),
                        None => {
                            self.wrong(value, name.get_ref(), "strings or numbers", value.get_ref());
                            continue;
                        }
                    }
                }
                other => match plain(other) {
                    Some(text) => OptionValue::Text(text),
                    None => {
                        self.wrong(
                            value,
                            name.get_ref(),
                            "a string, a number, true, or a list of these",
                            other,
                        );
                        continue;
                    }
                },
            };
            options.push((
                Located::new(name.span(), name.get_ref().to_string()),
                Located::new(value.span(), found),
            ));
        }
        options.sort_by_key(|(name, _)| name.span().start);
        options
    }

    fn wrong(&self, value: &Spanned<DeValue<'_>>, key: &str, wanted: &str, found: &DeValue<'_>) {
        self.faults.add(&value.span(), format!("'{key}' must be {wanted}, not a TOML {}", found.type_str()));
    }
}

/// Returns a time of TOML; one without an offset is in UTC. `None` if it has no date.
fn wall_time(at: &Datetime) -> Option<WallTime> {
    let date = at.date?;
    let minutes = match at.offset {
        None | Some(Offset::Z) => 0,
        Some(Offset::Custom { minutes }) => i64::from(minutes),
    };
    let seconds = at.time.map_or(0, |time| {
        i64::from(time.hour) * 3600 + i64::from(time.minute) * 60 + i64::from(time.second.unwrap_or(0))
    });
    // The number of days is found by bisection, because years have no simple length.
    let wanted = (i64::from(date.year), i64::from(date.month), i64::from(date.day));
    let (mut low, mut high) = (-800_000, 3_000_000);
    while low < high {
        let middle = (low + high) / 2;
        if civil(middle) < wanted { low = middle + 1 } else { high = middle }
    }
    let ns = (low * 86_400 + seconds - minutes * 60).checked_mul(SECOND)?;
    (civil(low) == wanted).then_some(WallTime(ns))
}

/// Returns a string, or a number as it is written in the file; `None` for other values.
fn plain(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().replace('_', "")),
        DeValue::Float(number) => Some(number.as_str().replace('_', "")),
        _ => None,
    }
}
