//! The file: one for all hosts. [`read`] gives the [`Model`] or everything that is wrong, each with line and column.
//!
//! * [`keys`] – every section and its keys
//! * `captures` – what passes interfaces
//! * `alerts` – what somebody wants to be told; `collectors` – who is sent the tests
//! * [`reader`] – tables of TOML, read key by key
//! * `tests`, `hosts` and `web` – what the sections mean

mod alerts;
mod captures;
mod collectors;
mod hosts;
pub mod keys;
mod reader;
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

/// The instruments that a test may name. The command knows them: this crate only asks what a test would send.
pub trait Instruments {
    /// Their names; the first is that of a test that names none.
    fn names(&self) -> Vec<&'static str>;

    /// The one that pings targets which are no hosts of the file.
    fn ping(&self) -> &'static str;

    /// What a test sends.
    ///
    /// # Errors
    /// [`EntryError`].
    fn traffic(&self, asked: &DeclaredTest<'_>) -> Result<Traffic, EntryError>;

    /// Those of captures, each with whether it needs two points; the first is that of a capture that names none.
    fn captures(&self) -> Vec<(&'static str, bool)>;

    /// Checks what a capture asks for.
    ///
    /// # Errors
    /// [`EntryError`].
    fn capture(&self, asked: &DeclaredCapture<'_>) -> Result<(), EntryError>;

    /// Whether webhooks may have `https://` addresses.
    fn has_https(&self) -> bool;

    /// Checks options of `jitlat serve`.
    ///
    /// # Errors
    /// [`EntryError`].
    fn serve(&self, options: &[(String, OptionValue)]) -> Result<(), EntryError>;
}

/// A test as the file has it.
#[derive(Clone, Debug)]
pub struct DeclaredTest<'a> {
    /// The instrument.
    pub instrument: &'a str,
    /// Uses to send as.
    pub profiles: &'a [String],
    /// Its options.
    pub options: &'a [(String, OptionValue)],
    /// How long packets are sent.
    pub duration: Option<Span>,
    /// In which direction.
    pub direction: SendingHosts,
}

/// A capture as the file has it.
#[derive(Clone, Debug)]
pub struct DeclaredCapture<'a> {
    /// The instrument.
    pub instrument: &'a str,
    /// Its options.
    pub options: &'a [(String, OptionValue)],
    /// Whether the file says whose traffic it is, if the options do not.
    pub has_ends: bool,
    /// Whether its second point is at another host.
    pub is_far: bool,
}

/// What is wrong with a test or capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryError {
    /// The option or key it is about; `None`: the test as a whole.
    pub key: Option<String>,
    /// What is wrong, and what to write.
    pub message: String,
}

/// Most pairs of all tests together: their timetable takes 12 bytes each.
pub const MAX_PAIRS: usize = 20_000_000;

/// Reads a file.
///
/// # Errors
/// All that is wrong with it.
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
            faults.add(&key.span(), format!("there is no section '{}': {meant}", name.escape_debug()));
        }
    }
    let file = Sections { root, faults: &faults };
    let hosts = hosts::hosts(&file);
    let (guard, setup) = hosts::timetable(&file);
    let serve = hosts::serve(&file, instruments);
    let keyless: Vec<&str> = hosts.iter().filter(|h| h.key.is_none()).map(|h| h.name.as_str()).collect();
    if serve.key.is_none() && !keyless.is_empty() && keyless.len() < hosts.len() {
        let message = format!(
            "the others have keys, and refuse {}: give each a key, or [serve] one for all",
            keyless.join(", ")
        );
        faults.add(&(0..0), message);
    }
    let tests = tests::tests(&file, &hosts, instruments, guard + setup);
    let captures = captures::captures(&file, &hosts, &tests, &serve, instruments);
    let archive = hosts::archive(&file);
    let model = Model {
        alerts: alerts::alerts(&file, &hosts, &tests, &captures, instruments.has_https()),
        collectors: collectors::collectors(&file, &hosts, &archive),
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

/// The tables at the root.
struct Sections<'a> {
    root: &'a DeTable<'a>,
    faults: &'a Faults,
}

impl<'a> Sections<'a> {
    fn value(&self, section: &FileSection) -> Option<&'a Spanned<DeValue<'a>>> {
        self.root.iter().find(|(k, _)| k.get_ref() == section.name).map(|(_, v)| v)
    }

    /// The tables of a section that may be repeated.
    fn tables(&self, section: &'static FileSection) -> Vec<TableReader<'a>> {
        match self.value(section) {
            Some(value) => match value.get_ref() {
                DeValue::Array(items) => {
                    items.iter().filter_map(|item| TableReader::new(section, item, self.faults)).collect()
                }
                _ => {
                    let title = section.title;
                    self.faults.add(&value.span(), format!("there may be several: write {title} above each"));
                    Vec::new()
                }
            },
            None => Vec::new(),
        }
    }

    /// The table of a section that is there once.
    fn table(&self, section: &'static FileSection) -> Option<TableReader<'a>> {
        TableReader::new(section, self.value(section)?, self.faults)
    }
}

/// A key in the file, or the name of a file with it.
fn key_source(table: &TableReader<'_>) -> Option<KeySource> {
    if table.has("key") && table.has("key-file") {
        table.fault("key", "a key is here or in a file: leave 'key' or 'key-file' out");
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
