//! The option `--live`.

use clap::Args;

/// Option of the full-screen view.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct LiveArgs {
    /// Show the test on a full screen; ? lists the keys
    ///
    /// The view has delay and loss over time, the distribution, every figure and the hosts' clocks. With a saved log,
    /// scroll through it.
    #[arg(long, help_heading = "While the test runs")]
    pub live: bool,
}
