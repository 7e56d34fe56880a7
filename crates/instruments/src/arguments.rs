//! What a protocol can be told: [`Argument`]s describe it, [`Arguments`] carry it.
//!
//! A protocol lists its arguments once. A command line makes options of the list, a script keyword arguments, and both
//! hand the given values over as text, which the protocol reads.

use crate::error::Error;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// One argument of a protocol.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// Its name, in small letters with hyphens: `stamp-key-file`.
    pub name: &'static str,
    /// What it takes.
    pub takes: Takes,
    /// What it is, in a sentence without a full stop, for people.
    pub help: &'static str,
    /// Its value where none is given.
    pub default: Option<fn() -> String>,
    /// Its value where only its name is given.
    pub bare: Option<&'static str>,
    /// Another argument that it needs.
    pub requires: Option<&'static str>,
    /// Arguments, also those of every protocol, that it cannot stand beside.
    pub conflicts: &'static [&'static str],
}

/// What an argument takes.
#[derive(Clone, Copy, Debug)]
pub enum Takes {
    /// Nothing: it is there or not.
    Nothing,
    /// A text.
    Value {
        /// What people call the value: `PORT`.
        name: &'static str,
        /// Says what is wrong with a text.
        check: fn(&str) -> Result<(), String>,
    },
    /// One of some words.
    Choice {
        /// What people call the choice: `MODE`.
        name: &'static str,
        /// The words, and what each means where that needs saying.
        of: &'static [(&'static str, &'static str)],
    },
    /// The contents of a file, which whoever hands the arguments over has read.
    File,
}

impl Argument {
    const fn new(name: &'static str, takes: Takes, help: &'static str) -> Argument {
        Argument { name, takes, help, default: None, bare: None, requires: None, conflicts: &[] }
    }

    /// An argument that is there or not.
    pub const fn switch(name: &'static str, help: &'static str) -> Argument {
        Argument::new(name, Takes::Nothing, help)
    }

    /// An argument with a value that `check` (see [`is`]) finds nothing wrong with.
    pub const fn value(
        name: &'static str,
        value: &'static str,
        help: &'static str,
        check: fn(&str) -> Result<(), String>,
    ) -> Argument {
        Argument::new(name, Takes::Value { name: value, check }, help)
    }

    /// An argument whose value is one of some words, each with its meaning.
    pub const fn choice(
        name: &'static str,
        value: &'static str,
        help: &'static str,
        of: &'static [(&'static str, &'static str)],
    ) -> Argument {
        Argument::new(name, Takes::Choice { name: value, of }, help)
    }

    /// An argument whose value is a file's contents.
    pub const fn file(name: &'static str, help: &'static str) -> Argument {
        Argument::new(name, Takes::File, help)
    }

    /// The port of a protocol's server, `default` unless given.
    pub const fn port(name: &'static str, help: &'static str, default: fn() -> String) -> Argument {
        Argument::value(name, "PORT", help, is::<u16>).or(default)
    }

    /// With a value where none is given.
    pub const fn or(self, default: fn() -> String) -> Argument {
        Argument { default: Some(default), ..self }
    }

    /// With a value where only the name is given.
    pub const fn bare(self, bare: &'static str) -> Argument {
        Argument { bare: Some(bare), ..self }
    }

    /// Only beside `other`.
    pub const fn requires(self, other: &'static str) -> Argument {
        Argument { requires: Some(other), ..self }
    }

    /// Not beside any of `others`.
    pub const fn conflicts(self, others: &'static [&'static str]) -> Argument {
        Argument { conflicts: others, ..self }
    }

    /// What is wrong with `text` as its value.
    fn check(&self, text: &str) -> Result<(), String> {
        match self.takes {
            Takes::Nothing | Takes::File => Ok(()),
            Takes::Value { check, .. } => check(text),
            Takes::Choice { of, .. } if of.iter().any(|(word, _)| word.eq_ignore_ascii_case(text)) => Ok(()),
            Takes::Choice { of, .. } => {
                let words: Vec<&str> = of.iter().map(|(word, _)| *word).collect();
                Err(format!("choose of {}", words.join(", ")))
            }
        }
    }
}

/// Checks that a text reads as a `T`.
pub fn is<T: FromStr<Err: fmt::Display>>(text: &str) -> Result<(), String> {
    text.trim().parse::<T>().map(drop).map_err(|e| e.to_string())
}

/// A file that an argument names.
#[derive(Clone, PartialEq, Eq)]
pub struct NamedFile {
    /// Its name, for messages.
    pub name: String,
    /// What is in it.
    pub contents: Vec<u8>,
}

impl fmt::Debug for NamedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The contents may be a key.
        f.debug_struct("NamedFile").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Given arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    values: BTreeMap<String, Given>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Given {
    Text(String),
    File(NamedFile),
}

impl Arguments {
    /// None.
    pub fn new() -> Arguments {
        Arguments::default()
    }

    /// With `name` given as `value`; a switch takes any value.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Arguments {
        self.values.insert(name.to_owned(), Given::Text(value.into()));
        self
    }

    /// With the contents of a file.
    #[must_use]
    pub fn with_file(mut self, name: &str, file: NamedFile) -> Arguments {
        self.values.insert(name.to_owned(), Given::File(file));
        self
    }

    /// The names given.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// Those that `list` knows.
    #[must_use]
    pub fn of(&self, list: &[Argument]) -> Arguments {
        let known = |(name, _): &(&String, &Given)| list.iter().any(|a| a.name == *name);
        Arguments { values: self.values.iter().filter(known).map(|(n, v)| (n.clone(), v.clone())).collect() }
    }

    /// All values of the arguments of `list`, defaults included.
    ///
    /// # Errors
    /// [`Error::Settings`] with the first that is not of the list, or has a value it cannot have.
    pub fn complete(&self, list: &[Argument]) -> Result<Arguments, Error> {
        let mut all = self.clone();
        for (name, given) in &self.values {
            let argument = list.iter().find(|a| a.name == *name);
            let argument = argument.ok_or_else(|| Error::Settings(format!("{name}: not known here")))?;
            if let Given::Text(text) = given {
                argument.check(text).map_err(|why| Error::Settings(format!("{name} {text}: {why}")))?;
            }
        }
        for argument in list {
            if let Some(default) = argument.default.filter(|_| !self.values.contains_key(argument.name)) {
                all.values.insert(argument.name.to_owned(), Given::Text(default()));
            }
        }
        Ok(all)
    }

    /// Whether `name` is given.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The text of `name`.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.values.get(name)? {
            Given::Text(text) => Some(text.trim()),
            Given::File(_) => None,
        }
    }

    /// The value of `name`, if it is given.
    ///
    /// # Errors
    /// [`Error::Settings`] where its text is not a `T`.
    pub fn get<T: FromStr<Err: fmt::Display>>(&self, name: &str) -> Result<Option<T>, Error> {
        let read = |text: &str| text.parse().map_err(|e| Error::Settings(format!("{name} {text}: {e}")));
        self.text(name).map(read).transpose()
    }

    /// The value of `name`, which has a default.
    ///
    /// # Errors
    /// [`Error::Settings`] where its text is not a `T`, or it has none.
    pub fn value<T: FromStr<Err: fmt::Display>>(&self, name: &str) -> Result<T, Error> {
        self.get(name)?.ok_or_else(|| Error::Settings(format!("{name} is missing")))
    }

    /// The file of `name`.
    pub fn file(&self, name: &str) -> Option<&NamedFile> {
        match self.values.get(name)? {
            Given::File(file) => Some(file),
            Given::Text(_) => None,
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
            ("kind", "three", "kind three: choose of one, two"),
            ("kid", "one", "kid: not known"),
        ] {
            let e = Arguments::new().with(name, value).complete(&LIST).unwrap_err().to_string();
            assert!(e.starts_with(why), "{e}");
        }
        let both = Arguments::new().with("kind", "one").with("other", "x");
        assert_eq!(both.of(&LIST).names().collect::<Vec<_>>(), ["kind"]);
    }
}
