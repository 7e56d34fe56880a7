//! Reads the monitor's file, which is the same for all hosts. [`read`] returns the [`Model`], or all faults with line and
//! column.
//!
//! * [`keys`] – all sections and their keys
//! * `captures` – captures on interfaces
//! * `alerts` – alert rules and notifications; `maintenance` – times without alerts; `routes` – routes; `collectors` – hosts that receive tests
//! * [`reader`] – tables of TOML, read key by key
//! * `tests`, `hosts` and `web` – meaning of the other sections

mod alerts;
mod captures;
mod collectors;
mod hosts;
pub mod keys;
mod maintenance;
mod reader;
mod routes;
mod tests;
mod web;

pub use reader::{FileFault, OptionValue};
pub use tests::text_of;

use crate::model::{KeySource, Model, SendingHosts, Traffic};
use jitlat_core::Span;
use keys::{FileSection, SECTIONS, choose};
use reader::{Faults, TableReader};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The instruments that a test may name. The command provides them, because this crate only needs the traffic
/// of a test.
pub trait Instruments {
    /// Returns the names of all instruments; the first is the default.
    fn names(&self) -> Vec<&'static str>;

    /// Returns the name of the instrument that pings targets that are not hosts of the file.
    fn ping(&self) -> &'static str;

    /// Returns the traffic of a test.
    ///
    /// # Errors
    /// [`EntryError`].
    fn traffic(&self, asked: &DeclaredTest<'_>) -> Result<Traffic, EntryError>;

    /// Returns the name of each capture instrument, and true if it needs two points; the first is the default.
    fn captures(&self) -> Vec<(&'static str, bool)>;

    /// Checks the settings of a capture.
    ///
    /// # Errors
    /// [`EntryError`].
    fn capture(&self, asked: &DeclaredCapture<'_>) -> Result<(), EntryError>;

    /// True if webhooks may have `https://` addresses.
    fn has_https(&self) -> bool;

    /// Checks options of `jitlat serve`.
    ///
    /// # Errors
    /// [`EntryError`].
    fn serve(&self, options: &[(String, OptionValue)]) -> Result<(), EntryError>;
}

/// A test as it is declared in the file.
#[derive(Clone, Debug)]
pub struct DeclaredTest<'a> {
    /// Name of the instrument.
    pub instrument: &'a str,
    /// Profiles whose traffic the test sends.
    pub profiles: &'a [String],
    /// Options of the test.
    pub options: &'a [(String, OptionValue)],
    /// Time for which packets are sent; `None`: the options determine it.
    pub duration: Option<Span>,
    /// Hosts that send.
    pub direction: SendingHosts,
}

/// A capture as it is declared in the file.
#[derive(Clone, Debug)]
pub struct DeclaredCapture<'a> {
    /// Name of the instrument.
    pub instrument: &'a str,
    /// Options of the capture.
    pub options: &'a [(String, OptionValue)],
    /// True if the file names the two ends whose traffic is captured; otherwise the options must name them.
    pub has_ends: bool,
    /// True if the second point is at another host.
    pub is_far: bool,
}

/// A fault in a test or capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryError {
    /// The wrong option or key; `None`: the fault concerns the whole test.
    pub key: Option<String>,
    /// Description of the fault, with a correction.
    pub message: String,
}

/// Maximum number of pairs of all tests together. Each pair takes 12 bytes in the timetable.
pub const MAX_PAIRS: usize = 20_000_000;

/// Reads a file.
///
/// # Errors
/// All faults of the file.
pub fn read(text: &str, instruments: &dyn Instruments) -> Result<Model, Vec<FileFault>> {
    let root = DeTable::parse(text).map_err(|e| {
        let at = e.span().map_or(0, |span| span.start);
        vec![FileFault::new(text, at, format!("this is not TOML: {}", e.message().replace('\n', ", ")))]
    })?;
    let faults = Faults::default();
    let root = root.get_ref();
    for key in root.keys() {
        let name = key.get_ref();
        let names: Vec<&str> = SECTIONS.iter().map(|s| s.name).collect();
        if !names.contains(&&**name) {
            let meant = choose(name, &names);
            faults.add(&key.span(), format!("unknown section '{}': {meant}", name.escape_debug()));
        }
    }
    let file = Sections { root, faults: &faults };
    let hosts = hosts::hosts(&file);
    let (guard, setup) = hosts::timetable(&file);
    let serve = hosts::serve(&file, instruments);
    let keyless: Vec<&str> = hosts.iter().filter(|h| h.key.is_none()).map(|h| h.name.as_str()).collect();
    if serve.key.is_none() && !keyless.is_empty() && keyless.len() < hosts.len() {
        let message = format!(
            "the other hosts have keys and would refuse {}: give each host a key, or one for all in [serve]",
            keyless.join(", ")
        );
        faults.add(&(0..0), message);
    }
    let tests = tests::tests(&file, &hosts, instruments, guard + setup);
    let captures = captures::captures(&file, &hosts, &tests, &serve, instruments);
    let routes = routes::routes(&file, &hosts, &tests, &captures);
    let archive = hosts::archive(&file);
    let model = Model {
        alerts: alerts::alerts(&file, &hosts, &tests, (&captures, &routes), instruments.has_https()),
        collectors: collectors::collectors(&file, &hosts, &archive),
        maintenance: maintenance::maintenance(&file, &hosts, &tests, &captures),
        routes,
        tests,
        captures,
        web: web::web(&file, &hosts),
        hosts,
        archive,
        serve,
        guard,
        setup,
    };
    let faults = faults.of(text);
    if faults.is_empty() { Ok(model) } else { Err(faults) }
}

/// The tables at the root of the file.
struct Sections<'a> {
    root: &'a DeTable<'a>,
    faults: &'a Faults,
}

impl<'a> Sections<'a> {
    fn value(&self, section: &FileSection) -> Option<&'a Spanned<DeValue<'a>>> {
        self.root.iter().find(|(k, _)| k.get_ref() == section.name).map(|(_, v)| v)
    }

    /// Returns the tables of a section that may be repeated.
    fn tables(&self, section: &'static FileSection) -> Vec<TableReader<'a>> {
        match self.value(section) {
            Some(value) => match value.get_ref() {
                DeValue::Array(items) => {
                    items.iter().filter_map(|item| TableReader::new(section, item, self.faults)).collect()
                }
                _ => {
                    let title = section.title;
                    self.faults.add(
                        &value.span(),
                        format!("this section can be repeated: write {title} above each"),
                    );
                    Vec::new()
                }
            },
            None => Vec::new(),
        }
    }

    /// Returns the table of a section that occurs once; `None` if it is missing or not a table.
    fn table(&self, section: &'static FileSection) -> Option<TableReader<'a>> {
        TableReader::new(section, self.value(section)?, self.faults)
    }
}

/// Reads a key, or the name of a key file; `None` if the table has neither. Giving both is a fault.
fn key_source(table: &TableReader<'_>) -> Option<KeySource> {
    if table.has("key") && table.has("key-file") {
        table.fault("key", "'key' and 'key-file' cannot be combined: leave one of them out");
        return None;
    }
    if table.has("key") {
        let key = table.needed("key", "key = \"…\", 16 characters or more")?;
        return Some(KeySource::Text(key.into_inner()));
    }
    if table.has("key-file") {
        let file = table.needed("key-file", "key-file = \"mesh.key\"")?;
        return Some(KeySource::File(file.into_inner()));
    }
    None
}
