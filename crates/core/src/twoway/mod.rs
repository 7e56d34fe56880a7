//! Two-way tests: their records viewed as one-way ones, so that one analysis serves round trips and both ways; what
//! such a test has in addition to its packets; and its figures.

mod facts;
pub mod far_clock;
mod figures;
mod view;

pub use facts::{
    Directions, FarReport, LossRun, LossSide, NotAnswers, ScheduleShift, TcpSample, TcpStats, TwoWay,
};
pub use figures::{DirectionResult, Processing, SendingMode, TwoWayFigures};
pub use view::{RecordView, lacks_delay, processing, project, round_trip};
