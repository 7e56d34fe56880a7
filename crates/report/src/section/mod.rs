//! [`Section`]: part of a report that an instrument adds to the parts of the streams.

mod calls;
mod passive;

pub use calls::call_section;
pub use passive::{passive_section, tcp_section};

use crate::figure::Figure;
use crate::text::screen::Screen;

/// Verdict, table and figures of an instrument, shown before the parts of the streams.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Title of the section and of the whole report.
    pub title: String,
    /// Description of the measurement, in one line.
    pub what: String,
    /// Screen report of the instrument; `None` if it has no verdict of its own, so that the verdict of the
    /// parts is shown.
    pub screen: Option<Screen>,
    /// Remarks, one paragraph each.
    pub remarks: Vec<String>,
    /// Names of the columns; the first column names the rows.
    pub columns: Vec<String>,
    /// Rows; empty if there is no table.
    pub rows: Vec<Vec<String>>,
    /// Figures, shown below the table.
    pub figures: Vec<Figure>,
}
