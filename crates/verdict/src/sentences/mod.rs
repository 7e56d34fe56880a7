//! Every sentence of the verdict: causes, headlines, findings, warnings, profiles, comparisons and sweeps.
//!
//! The rest of the crate passes facts, and only this module writes prose, so that all of it can be read and reviewed in
//! one place. A headline gives the finding first, then its size, then since when. Texts are plain ASCII with at most
//! three significant digits; terminals and pages add what their type has (`µs` for `us`).

pub(crate) mod belief;
pub(crate) mod causes;
pub(crate) mod comparison;
pub(crate) mod findings;
pub(crate) mod headline;
pub(crate) mod numbers;
pub(crate) mod profiles;
pub(crate) mod sweep;
pub(crate) mod warnings;
