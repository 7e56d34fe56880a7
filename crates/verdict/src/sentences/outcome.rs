//! Reasons why there is no score of Quality of Outcome.

/// Nothing was received.
pub const NOTHING_RECEIVED: &str = "nothing was received";

/// The analysis ran in constant memory.
pub const NOT_RECORDED: &str = "an analysis in constant memory does not show the precision of percentiles";

/// A clock was set during the test.
pub const CLOCK_WAS_SET: &str = "a clock was set during the test, so that one-way delays are unknown";

/// The clocks do not bound the one-way delay.
pub const CLOCK_UNBOUNDED: &str = "the clocks do not bound the one-way delay";

/// The delays are impossible with the estimated clock offset.
pub const CLOCKS_CONTRADICT: &str =
    "packets arrive before they are sent, even with the largest error of the clocks";

/// TCP hides loss.
pub const TCP_HIDES_LOSS: &str = "TCP hides the packets that the path loses";

/// The direction of losses is unknown.
pub const SIDE_OF_LOSS_UNKNOWN: &str = "it is unknown in which direction packets were lost";
