//! The arguments of a protocol: [`Argument`] describes one, [`Arguments`] holds the values given.
//!
//! Each protocol lists its arguments once. A command line converts the list to options, a script to keyword arguments; both
//! pass the values as text, which the protocol parses.

use crate::error::Error;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// One argument of a protocol.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// Name in lowercase with hyphens: `stamp-key-file`.
    pub name: &'static str,
    /// Kind of value.
    pub kind: ArgumentKind,
    /// Help: one line without a full stop, optionally followed by a blank line and details.
    pub help: &'static str,
    /// Value if the argument is not given; `None`: no default.
    pub default: Option<fn() -> String>,
    /// Value if only the name is given; `None`: a value is required.
    pub bare: Option<&'static str>,
    /// Name of another argument that this one requires; `None`: no other argument is required.
    pub requires: Option<&'static str>,
    /// Arguments (also those common to all protocols) that cannot be given together with this one.
    pub conflicts: &'static [&'static str],
}

/// Kind of an argument's value.
#[derive(Clone, Copy, Debug)]
pub enum ArgumentKind {
    /// Switch without a value.
    Nothing,
    /// Text that `check` accepts.
    Value {
        /// Placeholder of the value in help: `PORT`.
        name: &'static str,
        /// Returns an error message if the value is not valid.
        check: fn(&str) -> Result<(), String>,
    },
    /// One of several keywords.
    Choice {
        /// Placeholder of the choice in help: `MODE`.
        name: &'static str,
        /// Keywords with their meanings; a meaning is empty if the keyword explains itself.
        of: &'static [(&'static str, &'static str)],
    },
    /// Contents of a file, which the caller has read.
    File,
}

impl Argument {
    const fn new(name: &'static str, kind: ArgumentKind, help: &'static str) -> Argument {
        Argument { name, kind, help, default: None, bare: None, requires: None, conflicts: &[] }
    }

    /// Creates a switch.
    pub const fn switch(name: &'static str, help: &'static str) -> Argument {
        Argument::new(name, ArgumentKind::Nothing, help)
    }

    /// Creates an argument with a value; `check` (see [`parses_as`]) returns an error message for an invalid
    /// value.
    pub const fn value(
        name: &'static str,
        value: &'static str,
        help: &'static str,
        check: fn(&str) -> Result<(), String>,
    ) -> Argument {
        Argument::new(name, ArgumentKind::Value { name: value, check }, help)
    }

    /// Creates an argument whose value is one of several keywords, each with its meaning.
    pub const fn choice(
        name: &'static str,
        value: &'static str,
        help: &'static str,
        of: &'static [(&'static str, &'static str)],
    ) -> Argument {
        Argument::new(name, ArgumentKind::Choice { name: value, of }, help)
    }

    /// Creates an argument whose value is the contents of a file.
    pub const fn file(name: &'static str, help: &'static str) -> Argument {
        Argument::new(name, ArgumentKind::File, help)
    }

    /// Creates the argument for the port of a protocol's server; `default` applies if it is not given.
    pub const fn port(name: &'static str, help: &'static str, default: fn() -> String) -> Argument {
        Argument::value(name, "PORT", help, parses_as::<u16>).or(default)
    }

    /// Sets the value that applies if the argument is not given.
    pub const fn or(self, default: fn() -> String) -> Argument {
        Argument { default: Some(default), ..self }
    }

    /// Sets the value that applies if only the name is given.
    pub const fn bare(self, bare: &'static str) -> Argument {
        Argument { bare: Some(bare), ..self }
    }

    /// Requires that `other` is given as well.
    pub const fn requires(self, other: &'static str) -> Argument {
        Argument { requires: Some(other), ..self }
    }

    /// Forbids that any of `others` is given as well.
    pub const fn conflicts(self, others: &'static [&'static str]) -> Argument {
        Argument { conflicts: others, ..self }
    }

    /// Checks `text` as the value of this argument; the error explains what is wrong.
    fn check(&self, text: &str) -> Result<(), String> {
        match self.kind {
            ArgumentKind::Nothing | ArgumentKind::File => Ok(()),
            ArgumentKind::Value { check, .. } => check(text),
            ArgumentKind::Choice { of, .. } if of.iter().any(|(word, _)| word.eq_ignore_ascii_case(text)) => {
                Ok(())
            }
            ArgumentKind::Choice { of, .. } => {
                let keywords: Vec<&str> = of.iter().map(|(word, _)| *word).collect();
                Err(format!("choose one of {}", keywords.join(", ")))
            }
        }
    }
}

/// Checks that a text parses as a `T`; the error explains what is wrong.
pub fn parses_as<T: FromStr<Err: fmt::Display>>(text: &str) -> Result<(), String> {
    text.trim().parse::<T>().map(drop).map_err(|e| e.to_string())
}

/// A file given as an argument.
#[derive(Clone, PartialEq, Eq)]
pub struct NamedFile {
    /// Name, for messages only.
    pub name: String,
    /// Contents of the file.
    pub contents: Vec<u8>,
}

impl fmt::Debug for NamedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The contents are not printed because they may be a key.
        f.debug_struct("NamedFile").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Values given for a protocol's arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    values: BTreeMap<String, ArgumentInput>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ArgumentInput {
    Text(String),
    File(NamedFile),
}

impl Arguments {
    /// Creates an empty set of values.
    pub fn new() -> Arguments {
        Arguments::default()
    }

    /// Adds `name` with `value`; the value of a switch is ignored.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Arguments {
        self.values.insert(name.to_owned(), ArgumentInput::Text(value.into()));
        self
    }

    /// Adds `name` with the file `file`.
    #[must_use]
    pub fn with_file(mut self, name: &str, file: NamedFile) -> Arguments {
        self.values.insert(name.to_owned(), ArgumentInput::File(file));
        self
    }

    /// Returns the names of all arguments given.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// Returns the given arguments that are in `list`.
    #[must_use]
    pub fn of(&self, list: &[Argument]) -> Arguments {
        let known = |(name, _): &(&String, &ArgumentInput)| list.iter().any(|a| a.name == *name);
        Arguments { values: self.values.iter().filter(known).map(|(n, v)| (n.clone(), v.clone())).collect() }
    }

    /// Returns the values of all arguments in `list`, defaults included.
    ///
    /// # Errors
    /// [`Error::Settings`] for the first argument that is not in the list or whose value is not valid.
    pub fn complete(&self, list: &[Argument]) -> Result<Arguments, Error> {
        let mut all = self.clone();
        for (name, given) in &self.values {
            let argument = list.iter().find(|a| a.name == *name);
            let argument = argument.ok_or_else(|| Error::Settings(format!("{name}: not known here")))?;
            if let ArgumentInput::Text(text) = given {
                argument.check(text).map_err(|why| Error::Settings(format!("{name} {text}: {why}")))?;
            }
        }
        for argument in list {
            if let Some(default) = argument.default.filter(|_| !self.values.contains_key(argument.name)) {
                all.values.insert(argument.name.to_owned(), ArgumentInput::Text(default()));
            }
        }
        Ok(all)
    }

    /// True if `name` was given.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Returns the value of `name` as text; `None` if it was not given.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.values.get(name)? {
            ArgumentInput::Text(text) => Some(text.trim()),
            ArgumentInput::File(_) => None,
        }
    }

    /// Parses the value of `name`; `None` if it was not given.
    ///
    /// # Errors
    /// [`Error::Settings`] if the value does not parse as a `T`.
    pub fn get<T: FromStr<Err: fmt::Display>>(&self, name: &str) -> Result<Option<T>, Error> {
        let read = |text: &str| text.parse().map_err(|e| Error::Settings(format!("{name} {text}: {e}")));
        self.text(name).map(read).transpose()
    }

    /// Parses the value of `name`, which has a default or is required.
    ///
    /// # Errors
    /// [`Error::Settings`] if the value is missing or does not parse as a `T`.
    pub fn value<T: FromStr<Err: fmt::Display>>(&self, name: &str) -> Result<T, Error> {
        self.get(name)?.ok_or_else(|| Error::Settings(format!("{name} is missing")))
    }

    /// Returns the file given as `name`; `None` if it was not given.
    pub fn file(&self, name: &str) -> Option<&NamedFile> {
        match self.values.get(name)? {
            ArgumentInput::File(file) => Some(file),
            ArgumentInput::Text(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: [Argument; 3] = [
        Argument::port("a-port", "A port", || "862".to_owned()),
        Argument::choice("kind", "KIND", "A kind", &[("one", ""), ("two", "the second")]).bare("one"),
        Argument::switch("quick", "Be quick"),
    ];

    #[test]
    fn defaults_are_filled_in_and_slips_named() {
        let given = Arguments::new().with("kind", "two").complete(&LIST).unwrap();
        assert_eq!(given.value::<u16>("a-port").unwrap(), 862);
        assert_eq!((given.text("kind"), given.has("quick")), (Some("two"), false));
        for (name, value, why) in [
            ("a-port", "70000", "a-port 70000: "),
            ("kind", "three", "kind three: choose one of one, two"),
            ("kid", "one", "kid: not known"),
        ] {
            let e = Arguments::new().with(name, value).complete(&LIST).unwrap_err().to_string();
            assert!(e.starts_with(why), "{e}");
        }
        let both = Arguments::new().with("kind", "one").with("other", "x");
        assert_eq!(both.of(&LIST).names().collect::<Vec<_>>(), ["kind"]);
    }
}
