//! Sentences of the verdict: causes, headlines, findings, warnings, profiles, comparisons and sweeps.
//!
//! Only this module contains prose, which can therefore be reviewed as a whole; the rest of the crate passes facts to
//! it. A headline states the finding first, then its size, then its start. Texts are plain ASCII with at most three
//! significant digits; terminals and pages typeset them (`µs` for `us`).

pub(crate) mod belief;
pub(crate) mod causes;
pub(crate) mod coincidence;
pub(crate) mod comparison;
pub(crate) mod findings;
pub(crate) mod headline;
pub(crate) mod load;
pub(crate) mod marks;
pub(crate) mod numbers;
pub(crate) mod outcome;
pub(crate) mod profiles;
pub(crate) mod sweep;
pub(crate) mod warnings;
