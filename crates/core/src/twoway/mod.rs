//! Two-way tests: views of their records as one-way records, facts about a test in addition to its packets, and its
//! results. With these views, one analysis handles round trips and both directions.

mod facts;
pub mod far_clock;
mod figures;
mod view;

pub use facts::{
    BROWSER_REQUESTS, Directions, FarReport, HTTP_REQUESTS, LossRun, LossSide, MarkedSlowdown, NotAnswers,
    ScheduleShift, TcpSample, TcpStats, TwoWay,
};
pub use figures::{DirectionResult, Processing, SendingMode, TwoWayFigures};
pub use view::{RecordView, lacks_delay, processing, project, round_trip};
