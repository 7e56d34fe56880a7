//! Options of the priority of packets within this host.

use clap::Args;
use jitlat_core::AccessCategory;

/// Priority of packets within this host.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct PriorityArgs {
    /// Priority of sent packets within this host (SO_PRIORITY)
    ///
    /// It selects queues and the Wi-Fi access category: 0 to 6, or more with CAP_NET_ADMIN.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=i64::from(i32::MAX)))]
    pub priority: Option<u32>,
    /// Wi-Fi access category, as a priority: BK (1), BE (0), VI (4), VO (6)
    #[arg(long, value_name = "CATEGORY", conflicts_with = "priority")]
    pub ac: Option<AccessCategory>,
}

impl PriorityArgs {
    /// Returns the priority; `None`: the system's default.
    pub fn priority(self) -> Option<u32> {
        self.priority.or(self.ac.map(AccessCategory::priority))
    }
}
