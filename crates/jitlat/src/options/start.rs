//! Options for the start of a test.

use anyhow::{Result, ensure};
use clap::Args;
use jitlat_core::start_time::StartTime;
use jitlat_core::{Span, quantity};
use jitlat_instruments::start::StartGate;

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Start")]
pub struct StartArgs {
    /// Send the first packet at this time (19:30, :00, +10s, 2026-11-28T19:30:00Z)
    ///
    /// UTC, by this host's clock. 19:30 and 19:30:00 mean the next such time of day, :00 the next full minute, +10s the next
    /// multiple of 10 s since midnight, so that tests that are started on several hosts begin together. The set-up begins 2 s
    /// earlier. Streams that the far host sends, and those of OWAMP, are set up at that time, and begin when they are ready.
    #[arg(long, value_name = "TIME")]
    pub start_at: Option<StartTime>,
    /// Begin only once the kernel reports at most this error of the clock (1ms)
    ///
    /// The maximum error that chrony, ntpd or phc2sys have reported to the kernel. The clock of the far host is not checked: give the
    /// option there, too, or look at both clocks in the report.
    #[arg(long, value_name = "ERROR", value_parser = quantity::duration)]
    pub clock_within: Option<Span>,
    /// Time after which waiting for --clock-within fails [default: 1m]
    #[arg(long, value_name = "T", value_parser = quantity::duration, requires = "clock_within")]
    pub clock_limit: Option<Span>,
}

impl StartArgs {
    /// Returns the conditions for the start of a test.
    pub fn gate(&self) -> StartGate {
        let usual = StartGate::default();
        StartGate {
            at: self.start_at,
            clock_within: self.clock_within,
            clock_limit: self.clock_limit.unwrap_or(usual.clock_limit),
        }
    }

    /// Checks that no option is given.
    ///
    /// # Errors
    /// If one is given; `what` begins the message, with the reason why the options cannot be used.
    pub fn check_unused(&self, what: &str) -> Result<()> {
        ensure!(
            self.start_at.is_none() && self.clock_within.is_none(),
            "{what} with --start-at or --clock-within: leave them out"
        );
        Ok(())
    }
}
