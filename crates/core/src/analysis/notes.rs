//! Warnings about settings that an analysis could not apply.

use crate::answer::Warning;
use crate::time::Span;
use crate::units::eng4;

/// Returns the warning that a waiting time was requested, but the clocks are not good enough to apply it.
pub(super) fn wait_refused(wait: Span) -> Warning {
    let text = format!(
        "the waiting time of {} was not applied, because it needs one-way delays and the clocks are neither corrected \
         nor synchronised: late packets do not count as lost",
        eng4(wait.0)
    );
    Warning::new("wait_refused", text)
}

/// Returns the warning that percentiles are too high by up to `error` parts in 1024, and that figures which need a
/// second pass are missing.
pub(super) fn constant_memory(error: u32) -> Warning {
    let text = format!(
        "constant-memory analysis: percentiles may be up to {error}/1024 too high; de-skewed, per-segment and per-window \
         figures, stalls and batch intervals are missing"
    );
    Warning::new("streaming", text)
}

/// Returns the warning that the last `packets` packets of a log that does not mark its end have no rows.
pub(super) fn tail_without_rows(packets: u64) -> Warning {
    let text = format!("no rows for the last {packets} packets: lost, or the file was cut");
    Warning::new("tail_without_rows", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_done_is_named() {
        let [wait, constant] = [wait_refused(Span::millis(20)), constant_memory(4)];
        assert_eq!([&*wait.code, &*constant.code], ["wait_refused", "streaming"]);
        assert!(
            wait.text.starts_with("the waiting time of 20.00 ms was not") && constant.text.contains("4/1024")
        );
    }
}
