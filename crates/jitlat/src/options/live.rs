//! `--live`.

use clap::Args;

/// Whether a test is watched on a full screen.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct LiveArgs {
    /// Show the test on a full screen; ? lists the keys
    ///
    /// Delay and loss over time, the distribution, every figure, the hosts' clocks. Of a saved log: scroll through
    /// it.
    #[arg(long, help_heading = "While the test runs")]
    pub live: bool,
}
