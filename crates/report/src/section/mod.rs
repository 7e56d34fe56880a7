//! [`Section`]: what an instrument adds to the report of the streams.

mod passive;

pub use passive::{passive_section, tcp_section};

use crate::figure::Figure;
use crate::text::screen::Screen;

/// Answer, table and figures of an instrument, shown before those of the parts.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Its title, and that of the whole report.
    pub title: String,
    /// What was measured, in one line.
    pub what: String,
    /// What the console shows of it. `None`: it has no answer of its own, that of the parts is shown.
    pub screen: Option<Screen>,
    /// Remarks, one paragraph each.
    pub remarks: Vec<String>,
    /// Names of the columns; the first column names the rows.
    pub columns: Vec<String>,
    /// The rows; without any there is no table.
    pub rows: Vec<Vec<String>>,
    /// Its figures, shown below the table.
    pub figures: Vec<Figure>,
}
