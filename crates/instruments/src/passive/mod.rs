//! [`Passive`]: round trips, losses and delays of other programs' traffic, from two capture points. [`TcpCaptures`]:
//! analysis of TCP connections from one or two points. [`RtpCaptures`]: analysis of RTP streams and calls from one or
//! two points.
//!
//! A point is a capture in files, or a live interface of this host or of another one that runs `jitlat serve
//! --capture`. Only the two points have to be given: addresses, direction, translation and clock offset are found from
//! the traffic.
//!
//! ```no_run
//! use jitlat_instruments::passive::{CaptureEvent, CaptureSource, Passive};
//! use jitlat_instruments::Stop;
//!
//! let points = ["reference.pcap", "monitor.pcap"].map(|path| CaptureSource::Files(vec![path.into()]));
//! let mut print = |event: &CaptureEvent<'_>| {
//!     if let CaptureEvent::Pairs(pairs) = event {
//!         pairs.iter().for_each(|p| println!("{} ns", p.pair.rtt().0));
//!     }
//! };
//! let outcome = Passive::default().follow_captures(points, &Stop::new(), &mut print)?;
//! println!("{} of the packets were lost", outcome.result.summary.out.counts.lost);
//! # Ok::<(), jitlat_instruments::passive::PassiveError>(())
//! ```

mod call_capture;
mod call_causes;
mod error;
mod files;
mod first_pass;
mod followed;
mod live;
mod one_point;
mod outcome;
mod periods;
mod points;
mod reader;
mod records;
mod rtp;
mod segments;
mod settings;
mod stream_capture;
mod tcp;

pub use call_capture::CallCapture;
pub use error::PassiveError;
pub use files::CaptureSource;
pub use jitlat_passive::{CaptureEvent, CaptureObserver};
pub use live::LiveSettings;
pub use one_point::one_point;
pub use outcome::PassiveOutcome;
pub use periods::{CaptureEnd, EndedCapturePeriod, PeriodEvent};
pub use points::LivePoint;
pub use rtp::{RtpCaptures, RtpOutcome, RtpSource};
pub use segments::SegmentCapture;
pub use settings::{Matching, PartTime, Passive, TimePart, Translation};
pub use stream_capture::{CapturedStream, EndedCapture, SaveTo, StreamCapture, StreamCaptureError};
pub use tcp::TcpCaptures;
