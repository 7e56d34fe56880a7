//! [`ConnectionsReport`], [`OnePointReport`]: results of captures as [`Report`]s.

use crate::error::{Context, Result};
use crate::pages;
use crate::report::{Drawings, Report};
use jitlat_passive::OnePointResult;
use jitlat_passive::tcp::TcpResult;
use jitlat_report::Section;
use jitlat_store::passive::{OnePointDocument, tcp_document};
use serde_json::Value;

/// Report of TCP connections.
pub struct ConnectionsReport<'a> {
    /// Result of the analysis.
    pub result: &'a TcpResult,
    /// Section with the figures of the connection with the most bytes; `None` without connections.
    pub section: Option<Section>,
}

impl Report for ConnectionsReport<'_> {
    fn json(&self) -> Result<Value> {
        Ok(serde_json::to_value(tcp_document(self.result))?)
    }

    fn section(&self) -> Option<&Section> {
        self.section.as_ref()
    }

    fn page(&self) -> Result<String> {
        self.section().context("no connection to draw")?;
        Ok(pages::page(self.streams(), self.section()))
    }

    fn draw(&self, each: &mut Drawings<'_>) -> Result<()> {
        each("", &self.section().context("no connection to draw")?.figures)
    }
}

/// Report of round trips from the captures of one point.
pub struct OnePointReport<'a>(pub &'a OnePointResult);

impl Report for OnePointReport<'_> {
    fn json(&self) -> Result<Value> {
        Ok(serde_json::to_value(OnePointDocument::of(self.0))?)
    }
}
