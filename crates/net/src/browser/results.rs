//! [`ReportShelf`]: the last reports, which browsers fetch by an unguessable name.

use crate::random;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of reports.
const MAX_REPORTS: usize = 32;
/// Maximum number of bytes of all reports.
const MAX_BYTES: usize = 32 << 20;
/// Time for which a report can be fetched, unless newer reports replace it earlier.
const KEPT_FOR: Duration = Duration::from_secs(3600);

/// A report and the name by which it is fetched.
#[derive(Debug)]
struct ShelvedReport {
    name: String,
    page: Arc<str>,
    added: Instant,
}

/// The last reports, in memory.
#[derive(Debug, Default)]
pub struct ReportShelf(Mutex<VecDeque<ShelvedReport>>);

impl ReportShelf {
    fn reports(&self) -> MutexGuard<'_, VecDeque<ShelvedReport>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a report, and returns its name. Removes the oldest reports if there are too many, or if they are too large.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn add(&self, page: String) -> io::Result<String> {
        let mut bytes = [0; 16];
        random::fill(&mut bytes)?;
        let name: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut reports = self.reports();
        reports.push_back(ShelvedReport { name: name.clone(), page: page.into(), added: Instant::now() });
        let bytes = |reports: &VecDeque<ShelvedReport>| reports.iter().map(|r| r.page.len()).sum::<usize>();
        while reports.len() > 1 && (reports.len() > MAX_REPORTS || bytes(&reports) > MAX_BYTES) {
            reports.pop_front();
        }
        Ok(name)
    }

    /// Returns the report called `name`; `None` if there is none, or it is too old.
    pub fn get(&self, name: &str) -> Option<Arc<str>> {
        let mut reports = self.reports();
        reports.retain(|report| report.added.elapsed() < KEPT_FOR);
        reports.iter().find(|report| report.name == name).map(|report| report.page.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_reports_make_room_by_number_and_by_size() {
        let shelf = ReportShelf::default();
        let first = shelf.add("first".to_owned()).unwrap();
        assert_eq!(shelf.get(&first).as_deref(), Some("first"));
        assert_eq!(shelf.get("another"), None);
        let names: Vec<String> = (0..MAX_REPORTS).map(|k| shelf.add(k.to_string()).unwrap()).collect();
        assert_eq!(shelf.get(&first), None);
        assert_eq!(shelf.get(&names[0]).as_deref(), Some("0"));
        let large = shelf.add("x".repeat(MAX_BYTES + 1)).unwrap();
        assert!(shelf.get(&large).is_some() && names.iter().all(|name| shelf.get(name).is_none()));
    }
}
