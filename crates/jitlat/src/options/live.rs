//! `--live`.

use clap::Args;

/// Whether a test is watched on a full screen.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct LiveArgs {
    /// Watch the test on a full screen: delay and loss over time, distribution, every figure, the hosts' clocks; ? lists the
    /// keys. Of a saved log: scroll through it
    #[arg(long, help_heading = "Report")]
    pub live: bool,
}
