//! Processors, power saving, load and scheduling, as reported by the kernel.

use super::{line, number};
use crate::sys;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const CPUS: &str = "/sys/devices/system/cpu";

/// Files and folders that the report is read from. Some systems hide them from ordinary users; Android hides them from apps.
const SOURCES: &[&str] = &[
    "/proc/loadavg",
    "/proc/stat",
    "/proc/cpuinfo",
    "/proc/pressure/cpu",
    "/proc/sys/net/core/rmem_max",
    "/sys/class/net",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    "/sys/devices/system/cpu/online",
];

/// Properties of this host that affect the wake-up delay of programs. Values that the kernel does not
/// report are `None` or empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineReport {
    /// Model name of the processor; `None` if unknown.
    pub model: Option<String>,
    /// Number of processors that this program may use.
    pub cpus: usize,
    /// Processors that are online, in the kernel's notation: `0-7`.
    pub online: Option<String>,
    /// Processors isolated from the scheduler, in the kernel's notation: `2-3`.
    pub isolated: Option<String>,
    /// Processors without a timer tick, in the kernel's notation: `2-3`.
    pub nohz_full: Option<String>,
    /// True if two threads share a core.
    pub smt: Option<bool>,
    /// Frequency governors in use, with the number of processors under each.
    pub governors: BTreeMap<String, usize>,
    /// Driver that selects idle states.
    pub idle_driver: Option<String>,
    /// Enabled idle states, deepest last.
    pub idle_states: Vec<IdleState>,
    /// Load average of the last minute.
    pub load: Option<f64>,
    /// Share of the last ten seconds in which a task waited for a processor, in percent.
    pub cpu_pressure: Option<f64>,
    /// Share of processor time since boot that the hypervisor gave to other guests, in percent.
    pub stolen: Option<f64>,
    /// Processor time that the control group allows, in processors; `None`: no limit.
    pub quota: Option<f64>,
    /// Type of virtual machine; `None` on bare metal.
    pub virtual_machine: Option<String>,
    /// Type of container; `None` outside of containers.
    pub container: Option<String>,
    /// True if the kernel is PREEMPT_RT.
    pub realtime_kernel: bool,
    /// Highest SCHED_FIFO priority that a program without CAP_SYS_NICE may use; 0 if none.
    pub rtprio_limit: Option<u64>,
    /// True if this program may use SCHED_FIFO; tested on a temporary thread.
    pub realtime_permitted: bool,
    /// Timer slack, in ns: maximum time by which a timer may fire late.
    pub timer_slack: Option<u64>,
    /// Clock source in use.
    pub clock_source: Option<String>,
    /// Available clock sources.
    pub clock_sources: Vec<String>,
    /// Files and folders of the kernel that this user may not read; values from them are `None`, or empty.
    pub unreadable: Vec<String>,
}

/// An idle state of a processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IdleState {
    /// Name of the state, e.g. `C6`.
    pub name: String,
    /// Wake-up latency in µs.
    pub exit_us: u64,
}

impl MachineReport {
    /// Reads the properties of this host.
    pub fn read() -> MachineReport {
        let clock = Path::new("/sys/devices/system/clocksource/clocksource0");
        let sources = line(clock.join("available_clocksource")).unwrap_or_default();
        MachineReport {
            model: model(),
            cpus: sys::processors(),
            online: line(format!("{CPUS}/online")),
            isolated: line(format!("{CPUS}/isolated")),
            nohz_full: line(format!("{CPUS}/nohz_full")).filter(|l| l != "(null)"),
            smt: number::<u8>(format!("{CPUS}/smt/active")).map(|active| active == 1),
            governors: governors(),
            idle_driver: line(format!("{CPUS}/cpuidle/current_driver")).filter(|d| d != "none"),
            idle_states: idle_states(),
            load: line("/proc/loadavg").and_then(|l| l.split(' ').next()?.parse().ok()),
            cpu_pressure: line("/proc/pressure/cpu").and_then(|l| pressure(&l)),
            stolen: line("/proc/stat").and_then(|l| stolen(&l)),
            quota: quota(),
            virtual_machine: virtual_machine(),
            container: container(),
            realtime_kernel: number::<u8>("/sys/kernel/realtime") == Some(1),
            rtprio_limit: sys::priority_limit(),
            realtime_permitted: realtime_permitted(),
            timer_slack: number("/proc/self/timerslack_ns").or_else(sys::timer_slack),
            clock_source: crate::clock::source(),
            clock_sources: sources.split_whitespace().map(str::to_owned).collect(),
            unreadable: SOURCES
                .iter()
                .filter(|path| is_forbidden(path))
                .map(|path| (*path).to_owned())
                .collect(),
        }
    }
}

/// True if the path exists, or may exist, but this user may not read it.
fn is_forbidden(path: &str) -> bool {
    fs::File::open(path).is_err_and(|e| e.kind() == std::io::ErrorKind::PermissionDenied)
}

fn model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let (_, name) = text.lines().find(|l| l.starts_with("model name"))?.split_once(':')?;
    Some(name.trim().to_owned())
}

fn governors() -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for policy in fs::read_dir(format!("{CPUS}/cpufreq")).into_iter().flatten().flatten() {
        if let Some(governor) = line(policy.path().join("scaling_governor")) {
            let cpus = line(policy.path().join("affected_cpus"));
            *found.entry(governor).or_default() += cpus.map_or(1, |c| c.split_whitespace().count());
        }
    }
    found
}

/// Returns the idle states of the first processor; they rarely differ between processors.
fn idle_states() -> Vec<IdleState> {
    let mut states: Vec<IdleState> = fs::read_dir(format!("{CPUS}/cpu0/cpuidle"))
        .into_iter()
        .flatten()
        .flatten()
        .filter(|s| number::<u8>(s.path().join("disable")) != Some(1))
        .filter_map(|s| {
            Some(IdleState { name: line(s.path().join("name"))?, exit_us: number(s.path().join("latency"))? })
        })
        .collect();
    states.sort_by_key(|s| s.exit_us);
    states
}

/// Returns the value of `avg10` in a line like `some avg10=11.75 avg60=…`; `None` if it has none.
fn pressure(line: &str) -> Option<f64> {
    line.split(' ').find_map(|w| w.strip_prefix("avg10="))?.parse().ok()
}

/// Returns the stolen share of processor time, in percent, from the line `cpu user nice system idle iowait irq softirq
/// steal …` (in ticks); `None` if the line has no ticks.
fn stolen(line: &str) -> Option<f64> {
    let ticks: Vec<u64> = line.split_whitespace().skip(1).take(8).map_while(|t| t.parse().ok()).collect();
    let all: u64 = ticks.iter().sum();
    (all > 0).then(|| *ticks.get(7).unwrap_or(&0) as f64 * 100.0 / all as f64)
}

/// Returns the processor time that the control group allows, in processors, from `max 100000` or `150000 100000`
/// (control groups v2) in the files of the group and of the groups above it; `None` without a limit.
fn quota() -> Option<f64> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|l| l.strip_prefix("0::"))?.trim_start_matches('/').to_owned();
    let root = Path::new("/sys/fs/cgroup");
    // The smallest quota of the group and its ancestors applies.
    let limits = Path::new(&path).ancestors().filter_map(|a| limit(&line(root.join(a).join("cpu.max"))?));
    limits.reduce(f64::min)
}

fn limit(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok().filter(|p| *p > 0.0)?)
}

fn virtual_machine() -> Option<String> {
    let dmi = |f: &str| line(format!("/sys/class/dmi/id/{f}"));
    let flagged = fs::read_to_string("/proc/cpuinfo")
        .is_ok_and(|t| t.lines().any(|l| l.starts_with("flags") && l.contains(" hypervisor")));
    let known = line("/sys/hypervisor/type");
    (flagged || known.is_some())
        .then(|| known.or_else(|| dmi("product_name")).unwrap_or_else(|| "a hypervisor".to_owned()))
}

fn container() -> Option<String> {
    if let Some(kind) = line("/run/systemd/container") {
        return Some(kind);
    }
    [("/.dockerenv", "docker"), ("/run/.containerenv", "podman")]
        .into_iter()
        .find(|(file, _)| Path::new(file).exists())
        .map(|(_, kind)| kind.to_owned())
}

/// True if this program may use SCHED_FIFO. Tried on a temporary thread, so that the calling thread stays unchanged.
fn realtime_permitted() -> bool {
    std::thread::spawn(|| crate::sys::schedule_fifo(1).is_ok()).join().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts() {
        assert_eq!(pressure("some avg10=11.75 avg60=7.04 avg300=3.28 total=43"), Some(11.75));
        assert_eq!(stolen("cpu  10 0 10 70 0 0 0 10 5 0"), Some(10.0));
        assert_eq!(stolen("cpu"), None);
        assert_eq!((limit("max 100000"), limit("150000 100000"), limit("1 0")), (None, Some(1.5), None));
    }

    #[test]
    fn this_machine_has_a_processor() {
        let m = MachineReport::read();
        assert!(m.cpus >= 1 && m.load.is_none_or(|l| l >= 0.0), "{m:?}");
        assert!(m.idle_states.is_sorted_by_key(|s| s.exit_us));
    }
}
