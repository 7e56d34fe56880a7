//! [`FigureArgs`]: range and marks of the figures of `jitlat spp`.

use clap::Args;
use jitlat_core::Span;
use jitlat_core::quantity;
use jitlat_report::figure::{FigureRange, MarkedPeriod};

/// Options that select the part of a measurement to be drawn. Numbers in figures always refer to the whole measurement.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Figures")]
pub struct FigureArgs {
    /// Draw only pairs from this time after the first pair
    #[arg(long, value_name = "T", value_parser = quantity::duration)]
    from: Option<Span>,
    /// Draw only pairs within this time of the first pair
    #[arg(long, value_name = "T", value_parser = quantity::duration)]
    to: Option<Span>,
    /// Draw only round trips of at least this
    #[arg(long, value_name = "T", value_parser = quantity::duration)]
    rtt_min: Option<Span>,
    /// Draw only round trips of at most this
    #[arg(long, value_name = "T", value_parser = quantity::duration)]
    rtt_max: Option<Span>,
    /// Mark a period in figures: 80s-120s=idle; may be repeated
    ///
    /// Periods with the same name share a colour.
    #[arg(long = "mark", value_name = "A-B=NAME")]
    pub marks: Vec<MarkedPeriod>,
}

impl FigureArgs {
    /// Returns the range to be drawn.
    pub fn range(&self) -> FigureRange {
        FigureRange { from: self.from, to: self.to, rtt_min: self.rtt_min, rtt_max: self.rtt_max }
    }
}
