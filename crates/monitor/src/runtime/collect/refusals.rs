//! [`RefusalLog`]: refusals of tests that are logged.

use jitlat_core::{Span, SteadyTime};

/// Time without a refusal after which a reason is logged again.
const REFUSALS_FORGOTTEN: Span = Span::seconds(3600);

/// Refusals of a host that are logged: the first, second, fourth, eighth, … new reason, so that a host that invents reasons does not
/// fill the log. Begins anew after an hour without a refusal.
#[derive(Debug, Default)]
pub struct RefusalLog {
    last: Option<(String, SteadyTime)>,
    reasons: u64,
}

impl RefusalLog {
    /// Counts a refusal; true if it is logged.
    pub fn is_news(&mut self, why: &str, now: SteadyTime) -> bool {
        let before = self.last.replace((why.to_owned(), now));
        match before {
            Some((_, at)) if now - at >= REFUSALS_FORGOTTEN => self.reasons = 0,
            Some((before, _)) if before == why => return false,
            _ => {}
        }
        self.reasons += 1;
        self.reasons.is_power_of_two()
    }
}
