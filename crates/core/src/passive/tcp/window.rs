//! [`Window`]: the receive window that one side advertises.

use super::segment::{RST, SYN, Segment};
use crate::time::{Span, WallTime};

/// What an advertisement changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The window closed.
    Closed,
    /// It opened again, having been closed since.
    Opened(WallTime),
}

/// The window one side has advertised last.
#[derive(Debug, Default)]
pub(super) struct Window {
    scale: u8,
    bytes: Option<u64>,
    /// The field as it was, not scaled.
    field: Option<u16>,
    closed: Option<WallTime>,
}

impl Window {
    /// Handles the window advertised in a segment of this side.
    pub(super) fn note(&mut self, at: WallTime, s: &Segment) -> Option<Change> {
        if let Some(scale) = s.window_scale {
            self.scale = scale;
        }
        self.field = Some(s.window);
        if s.has(RST) || s.ack.is_none() {
            return None;
        }
        // The window of a SYN is never scaled (RFC 7323 §2.2).
        let scale = if s.has(SYN) { 0 } else { self.scale };
        let bytes = u64::from(s.window) << scale;
        self.bytes = Some(bytes);
        match (self.closed, bytes) {
            (None, 0) => {
                self.closed = Some(at);
                Some(Change::Closed)
            }
            (Some(since), 1..) => {
                self.closed = None;
                Some(Change::Opened(since))
            }
            _ => None,
        }
    }

    /// Whether a segment of this side does not change it.
    pub(super) fn is_kept_by(&self, s: &Segment) -> bool {
        self.field == Some(s.window)
    }

    /// The window in bytes; `None` if its scale is unknown.
    pub(super) fn bytes(&self) -> Option<u64> {
        self.bytes
    }
}

/// How long something lasted; never negative.
pub(super) fn lasted(since: WallTime, until: WallTime) -> Span {
    (until - since).max(Span(0))
}
