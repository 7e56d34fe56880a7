//! The scalars of metrics that have fields of their own in the summary.

pub(crate) mod clock;
pub(crate) mod confidence;
pub(crate) mod counts;
pub(crate) mod dejitter;
pub(crate) mod delay;
pub(crate) mod duplication;
pub(crate) mod hosts;
pub(crate) mod loss;
pub(crate) mod objectives;
pub(crate) mod periods;
pub(crate) mod reordering;
pub(crate) mod round_trips;
pub(crate) mod trend;
pub(crate) mod variation;
