//! Command lines of other programs: [`Program`] with the table of its options and their effects, and [`Given`], a
//! command line that was read with that table.

use anyhow::Result;
use clap_lex::RawArgs;
use std::ffi::OsString;
use std::fmt::{self, Write};
use std::str::FromStr;

/// Program whose command line is accepted.
pub struct Program {
    /// Name of the program, and of links to jitlat that stand for it.
    pub name: &'static str,
    /// Description of the program, which begins with a verb.
    pub about: &'static str,
    /// Arguments in the usage line of the help.
    pub usage: &'static str,
    /// Options that are known, in the order of the program's own help.
    pub options: &'static [ForeignOption],
    /// Runs the command; returns its exit status.
    pub run: fn(&Given) -> Result<u8>,
    /// Exit status for a wrong command line.
    pub wrong: u8,
    /// Exit status if nothing was measured.
    pub failed: u8,
}

/// An option of another program.
pub struct ForeignOption {
    /// Spellings, separated by a comma and a space.
    pub names: &'static str,
    /// Name of the value; empty for a switch, in brackets if the value may be missing.
    pub value: &'static str,
    /// Effect of the option.
    pub becomes: Becomes,
}

/// Words of the command line of jitlat that replace an option of another program, or the reason why its value is wrong.
pub type Words = Result<Vec<String>, String>;

/// Effect of an option.
pub enum Becomes {
    /// Options of jitlat: their names, and a function that converts the value to words.
    Ours(&'static str, fn(&str) -> Words),
    /// A setting of the output, which this text describes.
    Printed(&'static str),
    /// No effect, for this reason.
    Nothing(&'static str),
    /// An error that says what to use instead.
    Refused(&'static str),
    /// This name and version are printed, and nothing is measured. Scripts look at the version of a program.
    Version(&'static str),
}

impl ForeignOption {
    /// An option that becomes `ours`; `words` converts its value.
    pub const fn ours(
        names: &'static str,
        value: &'static str,
        ours: &'static str,
        words: fn(&str) -> Words,
    ) -> ForeignOption {
        ForeignOption { names, value, becomes: Becomes::Ours(ours, words) }
    }

    /// An option that determines what is printed, as `meaning` describes.
    pub const fn printed(names: &'static str, value: &'static str, meaning: &'static str) -> ForeignOption {
        ForeignOption { names, value, becomes: Becomes::Printed(meaning) }
    }

    /// An option that is accepted and changes nothing.
    pub const fn nothing(names: &'static str, value: &'static str, why: &'static str) -> ForeignOption {
        ForeignOption { names, value, becomes: Becomes::Nothing(why) }
    }

    /// An option that is refused; `instead` says what to use.
    pub const fn refused(names: &'static str, value: &'static str, instead: &'static str) -> ForeignOption {
        ForeignOption { names, value, becomes: Becomes::Refused(instead) }
    }

    /// An option that prints the name and version `text`.
    pub const fn version(names: &'static str, text: &'static str) -> ForeignOption {
        ForeignOption { names, value: "", becomes: Becomes::Version(text) }
    }

    /// Returns the spellings.
    pub fn spellings(&self) -> impl Iterator<Item = &'static str> {
        self.names.split(", ")
    }

    fn takes_value(&self) -> bool {
        !self.value.is_empty() && !self.has_optional_value()
    }

    fn has_optional_value(&self) -> bool {
        self.value.starts_with('[')
    }
}

/// Command line of another program, as it was given.
pub struct Given {
    given: Vec<(&'static ForeignOption, String)>,
    /// Arguments that are neither options nor their values.
    pub operands: Vec<String>,
}

/// Reason why a command line is not run.
pub enum Unread {
    /// Help was requested.
    Help,
    /// This version was requested.
    Version(&'static str),
    /// An option or value is wrong.
    Wrong(String),
}

/// A wrong command line that is noticed after its options have been read. The exit status is [`Program::wrong`].
#[derive(Debug)]
pub struct WrongLine(String);

impl fmt::Display for WrongLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongLine {}

/// Creates the error of a wrong command line.
pub fn wrong(message: impl Into<String>) -> anyhow::Error {
    WrongLine(message.into()).into()
}

/// Makes the error of reading or checking an option that of a wrong command line.
pub fn as_wrong(error: impl Into<anyhow::Error>) -> anyhow::Error {
    wrong(crate::exit::explain(&error.into()))
}

impl From<String> for Unread {
    fn from(message: String) -> Unread {
        Unread::Wrong(message)
    }
}

impl Program {
    /// Reads the arguments of the program.
    pub fn read(&'static self, arguments: &[OsString]) -> Result<Given, Unread> {
        let mut given = Given { given: Vec::new(), operands: Vec::new() };
        let raw = RawArgs::new(arguments);
        let mut cursor = raw.cursor();
        let mut only_operands = false;
        while let Some(word) = raw.next(&mut cursor) {
            let text = |word: &std::ffi::OsStr| word.to_str().map(str::to_owned);
            let next = |cursor: &mut clap_lex::ArgCursor| raw.next_os(cursor).and_then(text);
            if only_operands || word.is_stdio() {
                given.operands.push(text(word.to_value_os()).ok_or("an argument is not UTF-8".to_owned())?);
            } else if word.is_escape() {
                only_operands = true;
            } else if let Some((name, attached)) = word.to_long() {
                let name = format!("--{}", name.map_err(|_| "an option is not UTF-8".to_owned())?);
                let option = self.option(&name)?;
                let value = match attached.and_then(text) {
                    Some(_) if option.value.is_empty() => {
                        return Err(format!("{name} takes no value").into());
                    }
                    None if option.takes_value() => next(&mut cursor).ok_or_else(|| lacks(option, &name))?,
                    attached => attached.unwrap_or_default(),
                };
                given.given.push((option, value));
            } else if let Some(mut flags) = word.to_short() {
                while let Some(letter) = flags.next_flag() {
                    let letter = letter.map_err(|_| "an option is not UTF-8".to_owned())?;
                    let name = format!("-{letter}");
                    let option = self.option(&name)?;
                    let value = if option.value.is_empty() {
                        None
                    } else {
                        let attached = flags.next_value_os().and_then(text);
                        match attached {
                            None if option.takes_value() => {
                                Some(next(&mut cursor).ok_or_else(|| lacks(option, &name))?)
                            }
                            attached => attached,
                        }
                    };
                    given.given.push((option, value.unwrap_or_default()));
                }
            } else {
                given.operands.push(text(word.to_value_os()).ok_or("an argument is not UTF-8".to_owned())?);
            }
        }
        for (option, value) in &given.given {
            if let Becomes::Version(text) = option.becomes {
                return Err(Unread::Version(text));
            }
            if let Becomes::Refused(instead) = option.becomes {
                let name = option.spellings().next().unwrap_or_default();
                return Err(format!("{name} is not taken: {instead}").into());
            }
            if let Becomes::Ours(_, words) = option.becomes {
                let name = option.spellings().next().unwrap_or_default();
                words(value).map_err(|why| format!("{name} {value}: {why}"))?;
            }
        }
        Ok(given)
    }

    fn option(&'static self, name: &str) -> Result<&'static ForeignOption, Unread> {
        match self.options.iter().find(|option| option.spellings().any(|spelling| spelling == name)) {
            Some(option) => Ok(option),
            None if name == "--help" || name == "-h" => Err(Unread::Help),
            None => Err(Unread::Wrong(format!(
                "{name} is not taken: `jitlat as {} --help` lists the options that are",
                self.name
            ))),
        }
    }

    /// Returns the help: usage, and the table of options.
    pub fn help(&self) -> String {
        let mut out = format!("{}.\n\nUsage: jitlat as {} {}\n\n", self.about, self.name, self.usage);
        let left =
            |option: &ForeignOption| format!("{} {}", option.names, option.value).trim_end().to_owned();
        let width = self.options.iter().map(|option| left(option).len()).max().unwrap_or(0).min(30);
        for option in self.options {
            let (left, right) = (left(option), option.describe());
            let _ = match left.len() > width {
                true => writeln!(out, "  {left}\n  {:width$}  {right}", ""),
                false => writeln!(out, "  {left:width$}  {right}"),
            };
        }
        out
    }

    /// Returns the table of options in Markdown.
    pub fn table(&self) -> String {
        let mut out = format!("| {} | here |\n|---|---|\n", self.name);
        for option in self.options {
            let names: Vec<String> = option.spellings().map(|name| format!("`{name}`")).collect();
            let value = if option.value.is_empty() { String::new() } else { format!(" {}", option.value) };
            let right = match option.becomes {
                Becomes::Ours(ours, _) => format!("`{ours}`"),
                _ => option.describe(),
            };
            let _ = writeln!(out, "| {}{value} | {right} |", names.join(", "));
        }
        out
    }
}

impl ForeignOption {
    fn describe(&self) -> String {
        match self.becomes {
            Becomes::Ours(ours, _) => ours.to_owned(),
            Becomes::Printed(meaning) => meaning.to_owned(),
            Becomes::Nothing(why) => format!("no effect: {why}"),
            Becomes::Refused(instead) => format!("not taken: {instead}"),
            Becomes::Version(_) => "the version is printed".to_owned(),
        }
    }
}

fn lacks(option: &ForeignOption, name: &str) -> String {
    format!("{name} needs a value: {name} {}", option.value)
}

impl Given {
    /// True if the option `name` was given.
    pub fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// Returns the last value of the option `name`; `None` if it was not given.
    pub fn value(&self, name: &str) -> Option<&str> {
        let is_it = |option: &ForeignOption| option.spellings().any(|spelling| spelling == name);
        self.given.iter().rev().find(|(option, _)| is_it(option)).map(|(_, value)| value.as_str())
    }

    /// Returns the last value of the option `name` as a number; `None` if it was not given.
    pub fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>> {
        let number = |text: &str| text.parse().map_err(|_| wrong(format!("{name} {text}: give a number")));
        self.value(name).map(number).transpose()
    }

    /// Returns the words of jitlat that replace the given options; options without an equivalent have none. Of options
    /// with the same equivalent the last one counts.
    pub fn words(&self) -> Result<Vec<String>> {
        let mut all = Vec::new();
        for (k, (option, value)) in self.given.iter().enumerate() {
            let Becomes::Ours(ours, words) = option.becomes else { continue };
            let is_same = |(later, _): &(&ForeignOption, String)| matches!(later.becomes, Becomes::Ours(o, _) if o == ours);
            if !self.given[k + 1..].iter().any(is_same) {
                all.extend(words(value).map_err(wrong)?);
            }
        }
        Ok(all)
    }

    /// Returns `message`, which is about options of a test of jitlat, with the names of the options that were typed.
    pub fn in_typed_names(&self, message: &str) -> String {
        let root = crate::root::command();
        let tests = ["ping", "test"].into_iter().filter_map(|name| root.find_subcommand(name));
        let known: Vec<&clap::Arg> = tests.flat_map(clap::Command::get_arguments).collect();
        let mut text = message.to_owned();
        for (option, value) in &self.given {
            let Becomes::Ours(_, words) = option.becomes else { continue };
            let typed = option.spellings().next().unwrap_or_default();
            for word in words(value).unwrap_or_default().iter().filter(|word| word.starts_with('-')) {
                let ours = word.split('=').next().unwrap_or_default();
                let names = |arg: &&&clap::Arg| {
                    let long = arg.get_long().map(|long| format!("--{long}"));
                    [long, arg.get_short().map(|short| format!("-{short}"))]
                };
                let same = known.iter().find(|arg| names(arg).iter().flatten().any(|name| name == ours));
                let others = same.map(|arg| names(&arg)).unwrap_or_default();
                others.iter().flatten().for_each(|name| text = renamed(&text, name, typed));
            }
        }
        text
    }

    /// Returns the only operand, which `what` describes.
    pub fn operand(&self, what: &str) -> Result<&str> {
        match &self.operands[..] {
            [one] => Ok(one),
            [] => Err(wrong(format!("give {what}"))),
            several => Err(wrong(format!("give one {what}, not {}: {}", several.len(), several.join(" ")))),
        }
    }

    /// Refuses all options except `names`, the only ones that `command` takes.
    pub fn only(&self, names: &[&str], command: &str) -> Result<()> {
        let other =
            |(option, _): &&(&'static ForeignOption, String)| !option.spellings().any(|s| names.contains(&s));
        match self.given.iter().find(other) {
            Some((option, _)) => {
                Err(wrong(format!("{command} takes {}, not {}", names.join(", "), option.names)))
            }
            None => Ok(()),
        }
    }

    /// Returns the value of the option `name`, which must be a file name and not an option; `None` if it is empty or
    /// was not given.
    pub fn file(&self, name: &str) -> Result<Option<&str>> {
        let file = self.value(name).filter(|file| !file.is_empty());
        file.map(|file| (!file.starts_with("--")).then_some(file).ok_or_else(|| wrong("give a file")))
            .transpose()
    }
}

/// Replaces the option `name` in `text` by `other`.
fn renamed(text: &str, name: &str, other: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(name) {
        let (before, after) = (&rest[..at], &rest[at + name.len()..]);
        let is_whole = !before.ends_with(is_part) && !after.starts_with(is_part);
        out += before;
        out += if is_whole { other } else { name };
        rest = after;
    }
    out + rest
}

/// Makes the words of an option without a value.
pub fn of_switch(words: &'static str) -> Words {
    Ok(words.split(' ').map(str::to_owned).collect())
}

/// Makes the words of `option` and `value`. A long option and its value are one word, so that a value is never read as
/// an option.
pub fn with(option: &str, value: impl Into<String>) -> Words {
    let value = value.into();
    Ok(match option.starts_with("--") {
        true => vec![format!("{option}={value}")],
        false => vec![option.to_owned(), value],
    })
}

/// Converts a number of milliseconds to our spelling of a time.
pub fn milliseconds(text: &str) -> Result<String, String> {
    scaled(text, 1e6)
}

/// Converts a number of seconds to our spelling of a time.
pub fn seconds(text: &str) -> Result<String, String> {
    scaled(text, 1e9)
}

fn scaled(text: &str, factor: f64) -> Result<String, String> {
    let number = text.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0 && n * factor < 9e18);
    number.map(|number| format!("{}ns", (number * factor).round() as i64)).ok_or("give a number".to_owned())
}

/// Converts a time with units, such as `1m30s` or `2.5ms`, to our spelling of a time.
pub fn with_units(text: &str) -> Result<String, String> {
    let wrong = || format!("'{text}' is not a time: write 20ms, 1.5s or 1m30s");
    // As in Go, zero needs no unit.
    if text == "0" {
        return Ok("0ns".to_owned());
    }
    let (mut rest, mut total) = (text, 0.0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, after) = rest.split_at(digits);
        let units =
            [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 6e10), ("h", 3.6e12)];
        let (unit, factor) = units.into_iter().find(|(unit, _)| after.starts_with(unit)).ok_or_else(wrong)?;
        total += number.parse::<f64>().map_err(|_| wrong())? * factor;
        rest = &after[unit.len()..];
    }
    if text.is_empty() || !(0.0..9e18).contains(&total) {
        return Err(wrong());
    }
    Ok(format!("{}ns", total.round() as i64))
}

/// Converts a TOS octet, which is decimal, or hexadecimal after `0x`, to a DSCP.
pub fn dscp_of_tos(text: &str) -> Result<String, String> {
    let number = match text.strip_prefix("0x") {
        Some(hex) => u8::from_str_radix(hex, 16),
        None => text.parse(),
    };
    number
        .map(|octet| (octet >> 2).to_string())
        .map_err(|_| "give a TOS octet, 0 to 255 or 0x00 to 0xff".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    static PROGRAM: Program = Program {
        name: "probe",
        about: "Probes",
        usage: "HOST",
        options: &[
            ForeignOption::ours("-c, --count", "N", "-n N", |n| with("-n", n)),
            ForeignOption::ours("-C, --vcount", "N", "-n N", |n| with("-n", n)),
            ForeignOption::version("-V", "probe 1"),
            ForeignOption::ours("-4", "", "-4", |_| of_switch("-4")),
            ForeignOption::ours("-p", "MS", "-p TIME", |ms| with("-p", milliseconds(ms)?)),
            ForeignOption::printed("-v", "[N]", "the first N packets"),
            ForeignOption::nothing("-Q", "", "there is nothing to silence"),
            ForeignOption::refused("-g, --generate", "", "give the hosts one by one"),
        ],
        run: |_| Ok(0),
        wrong: 3,
        failed: 4,
    };

    fn read(line: &str) -> Result<Given, String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        PROGRAM.read(&words).map_err(|unread| match unread {
            Unread::Help => "help".to_owned(),
            Unread::Version(text) => text.to_owned(),
            Unread::Wrong(message) => message,
        })
    }

    #[test]
    fn letters_are_read_in_every_spelling() {
        for line in
            ["-c 3 -4 host", "-c3 -4 host", "-4c3 host", "--count=3 -4 -- host", "host --count 3 -4 -Q"]
        {
            let given = read(line).map_err(|e| panic!("{line}: {e}")).unwrap();
            let mut words = given.words().unwrap();
            words.sort_unstable();
            assert_eq!(
                (words.join(" "), given.operand("HOST").unwrap()),
                ("-4 -n 3".to_owned(), "host"),
                "{line}"
            );
        }
        // Two options with the same equivalent would be refused; the last one counts.
        assert_eq!(read("-c 2 --vcount 5 h").unwrap().words().unwrap(), ["-n", "5"]);
        // An optional value must be attached to its option.
        let given = read("-v host -v12").unwrap();
        assert_eq!((given.value("-v"), given.operands.len()), (Some("12"), 1));
        assert_eq!(read("-p 0.5 h").unwrap().words().unwrap(), ["-p", "500000ns"]);
    }

    #[test]
    fn what_is_not_taken_is_named() {
        for (line, message) in [
            ("-g h", "-g is not taken: give the hosts one by one"),
            ("--generate h", "-g is not taken"),
            ("-z h", "-z is not taken: `jitlat as probe --help`"),
            ("h -c", "-c needs a value: -c N"),
            ("h --count", "--count needs a value"),
            ("-p x h", "-p x: give a number"),
            ("-h", "help"),
            ("-V h", "probe 1"),
        ] {
            let refused = read(line).err().unwrap_or_default();
            assert!(refused.starts_with(message), "{line}: {refused}");
        }
    }

    #[test]
    fn messages_have_the_names_that_were_typed() {
        let given = read("-c 0 -p 3 h").unwrap();
        let message = "invalid value '0' for '--packets <N>': give -n or --packets-x, not -nn";
        let typed = "invalid value '0' for '-c <N>': give -c or --packets-x, not -nn";
        assert_eq!(given.in_typed_names(message), typed);
        assert_eq!(read("-p 3 h").unwrap().in_typed_names(message), message);
    }

    #[test]
    fn times_and_octets() {
        assert_eq!(
            ["1m30s", "2.5ms", "300ns", "0"].map(|t| with_units(t).unwrap()),
            ["90000000000ns", "2500000ns", "300ns", "0ns"]
        );
        for wrong in ["", "5", "ms", "1.2.3s", "-1s", "999999999h"] {
            assert!(with_units(wrong).is_err(), "{wrong}");
        }
        assert_eq!(["184", "0xb8", "0"].map(|t| dscp_of_tos(t).unwrap()), ["46", "46", "0"]);
        assert!(dscp_of_tos("256").is_err());
    }

    #[test]
    fn the_table_contains_every_option() {
        let table = PROGRAM.table();
        assert!(
            table.contains("| `-c`, `--count` N | `-n N` |\n") && table.contains("not taken: give the hosts")
        );
        let line = format!("  {:14}  no effect: there is nothing to silence\n", "-Q");
        assert!(PROGRAM.help().contains(&line), "{}", PROGRAM.help());
    }
}
