//! [`SCALARS`]: the list of all scalars of a [`Summary`](crate::Summary). CSV, OpenMetrics, thresholds, help, and the
//! tables of comparisons, sweeps and pages are based on this list.
//!
//! The scalars of a metric are defined next to its computation, in [`crate::metrics`]. A [`Selector`] is the
//! form that users write: the key of a scalar, for a whole test or for one direction of a round-trip test.
//!
//! ```
//! use jitlat_core::scalars::{SCALARS, Selector};
//! use jitlat_core::{PacketRecord, Session, TestSpec, WallTime, analyze};
//!
//! let session = Session::new(TestSpec::default());
//! let records = (0..3).map(|i| PacketRecord::one_way(i, WallTime(i * 1000), WallTime(i * 1000 + 42)));
//! let summary = analyze(&session, records, &Default::default());
//! let selector: Selector = "latency-max".parse()?;
//! assert_eq!(selector.of(&summary).map(|x| x.as_f64()), Some(42.0));
//! let known = SCALARS.iter().filter(|scalar| scalar.of(&summary).is_some());
//! known.for_each(|scalar| println!("{} = {}", scalar.label, scalar.show(scalar.of(&summary).unwrap())));
//! # Ok::<(), jitlat_core::scalars::UnknownScalar>(())
//! ```

mod condition;
mod scalar;
mod selector;
mod source;
mod unit;

pub use condition::{ConditionError, GradeLimit, GradeSubject, ScalarCondition, Threshold};
pub use scalar::{Applies, Better, Quantile, Scalar, ScalarGetter};
pub use selector::{Selector, UnknownScalar, closest, selectors};
pub use source::ScalarSource;
pub use unit::{ExactNumber, ScalarUnit};

use crate::metrics::METRICS;

const COUNT: usize = {
    let (mut n, mut k) = (0, 0);
    while k < METRICS.len() {
        n += METRICS[k].scalars.len();
        k += 1;
    }
    n
};

/// All scalars, in the order in which tables list them.
pub static SCALARS: [Scalar; COUNT] = {
    let mut all = [METRICS[0].scalars[0]; COUNT];
    let (mut n, mut k) = (0, 0);
    while k < METRICS.len() {
        let mut j = 0;
        while j < METRICS[k].scalars.len() {
            all[n] = METRICS[k].scalars[j];
            n += 1;
            j += 1;
        }
        k += 1;
    }
    all
};

impl Scalar {
    /// Returns the scalar that has this key, or had it in an earlier version; `None` if there is none.
    pub fn named(key: &str) -> Option<&'static Scalar> {
        SCALARS.iter().find(|f| f.key == key || f.alias == Some(key))
    }
}

/// Returns the list for help texts: one line per scalar, with its key and its meaning.
pub fn help() -> String {
    let width = SCALARS.iter().map(|f| f.key.len()).max().unwrap_or(0);
    SCALARS.iter().map(|f| format!("  {:<width$}  {}\n", f.key, f.about)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_in_one_style() {
        let mut names = BTreeSet::new();
        let mut columns = BTreeSet::new();
        for f in &SCALARS {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
            assert!(f.key.chars().all(plain) && !f.key.starts_with(['-', '.']), "{}", f.key);
            assert!(
                names.insert(f.key) && f.alias.is_none_or(|a| names.insert(a)),
                "{} is there twice",
                f.key
            );
            assert!(columns.insert(f.column()), "{} is there twice", f.column());
            assert!(!f.key.starts_with("up-") && !f.key.starts_with("down-"), "{}", f.key);
            assert!(!f.label.is_empty() && f.label.chars().count() <= 22, "{}: '{}'", f.key, f.label);
            assert!(!f.about.is_empty() && !f.about.ends_with('.'), "{}: '{}'", f.key, f.about);
        }
    }

    #[test]
    fn names_of_columns_and_metrics_end_in_their_unit() {
        let names = |key| Scalar::named(key).map(|f| (f.column(), f.metric_name())).unwrap();
        assert_eq!(names("pdv-p99.9"), ("pdv_p99_9_ns".into(), "jitlat_pdv_p99_9_seconds".into()));
        assert_eq!(names("loss"), ("loss_ratio".into(), "jitlat_loss_ratio".into()));
        assert_eq!(names("sent"), ("sent".into(), "jitlat_packets_sent".into()));
        assert_eq!(names("burst-ratio").0, "burst_ratio");
    }
}
