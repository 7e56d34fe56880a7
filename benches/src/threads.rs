//! Processor time of single threads, and of the whole machine.

use std::time::Duration;

/// Processor time so far of the threads of process `process` (`self`, or a process id) whose names begin with `name`.
pub fn cpu_of(process: &str, name: &str) -> Duration {
    let mut total = 0;
    for task in std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        if read("comm").starts_with(name) {
            total += read("schedstat").split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    Duration::from_nanos(total)
}

/// Busy time so far of all processors of this machine together, interrupts included, in steps of 10 ms.
pub fn busy() -> Duration {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    // user, nice, system, idle, iowait, irq, softirq, steal; guests are counted in the first two.
    let ticks = text.lines().next().unwrap_or_default().split_whitespace().skip(1).take(7);
    let ticks: Vec<u64> = ticks.filter_map(|n| n.parse().ok()).collect();
    let busy: u64 = ticks.iter().enumerate().filter(|(k, _)| ![3, 4].contains(k)).map(|(_, n)| n).sum();
    Duration::from_millis(busy * 10)
}

/// Median; NaN if there is no value.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Formats median, minimum and maximum for people.
pub fn range(values: impl Iterator<Item = f64> + Clone) -> String {
    let (low, high) = (values.clone().fold(f64::INFINITY, f64::min), values.clone().fold(0.0, f64::max));
    format!("{:.2} ({low:.2} to {high:.2})", median(values))
}
