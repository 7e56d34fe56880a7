//! [`TcpWindow`]: receive window that one side advertises.

use super::segment::{RST, SYN, TcpSegment};
use jitlat_core::time::{Span, WallTime};

/// Change caused by an advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WindowChange {
    /// The window closed.
    Closed,
    /// The window opened again; contains the time at which it had closed.
    Opened(WallTime),
}

/// Latest window that one side has advertised.
#[derive(Debug, Default)]
pub(super) struct TcpWindow {
    /// Window scale from this side's SYN; `None` if the SYN was not seen.
    scale: Option<u8>,
    bytes: Option<u64>,
    /// Window field of the last segment, not scaled; `None` before the first segment.
    field: Option<u16>,
    closed: Option<WallTime>,
}

impl TcpWindow {
    /// Handles the window advertised in a segment of this side. Returns the change that it causes, if any.
    pub(super) fn note(&mut self, at: WallTime, s: &TcpSegment) -> Option<WindowChange> {
        if s.has(SYN) {
            self.scale = Some(s.window_scale.unwrap_or(0));
        }
        self.field = Some(s.window);
        if s.has(RST) || s.ack.is_none() {
            return None;
        }
        // The window of a SYN is never scaled (RFC 7323 §2.2).
        let scale = if s.has(SYN) { Some(0) } else { self.scale };
        self.bytes = scale.map(|scale| u64::from(s.window) << scale);
        // A window of zero is closed at any scale.
        let bytes = u64::from(s.window);
        match (self.closed, bytes) {
            (None, 0) => {
                self.closed = Some(at);
                Some(WindowChange::Closed)
            }
            (Some(since), 1..) => {
                self.closed = None;
                Some(WindowChange::Opened(since))
            }
            _ => None,
        }
    }

    /// True if a segment of this side does not change the window.
    pub(super) fn is_kept_by(&self, s: &TcpSegment) -> bool {
        self.field == Some(s.window)
    }

    /// True if the window is closed, which does not depend on its scale.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// Window in bytes; `None` if the window or its scale is unknown.
    pub(super) fn bytes(&self) -> Option<u64> {
        self.bytes
    }
}

/// Duration between two times; never negative.
pub(super) fn lasted(since: WallTime, until: WallTime) -> Span {
    (until - since).max(Span(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::segment::ACK;

    fn segment(window: u16, flags: u8) -> TcpSegment {
        TcpSegment { window, flags, ack: Some(1), ..TcpSegment::default() }
    }

    #[test]
    fn a_window_is_scaled_but_in_a_syn() {
        let mut w = TcpWindow::default();
        assert_eq!(w.bytes(), None);
        w.note(WallTime(0), &TcpSegment { window_scale: Some(3), ..segment(100, SYN | ACK) });
        assert_eq!(w.bytes(), Some(100));
        w.note(WallTime(0), &segment(100, ACK));
        assert_eq!(w.bytes(), Some(800));
    }

    #[test]
    fn a_reset_and_a_segment_that_acknowledges_nothing_leave_the_window() {
        let mut w = TcpWindow::default();
        w.note(WallTime(0), &segment(100, SYN | ACK));
        assert_eq!(w.note(WallTime(1), &segment(0, RST)), None);
        assert_eq!(w.note(WallTime(1), &TcpSegment { ack: None, ..segment(0, 0) }), None);
        assert_eq!(w.bytes(), Some(100));
        assert!(w.is_kept_by(&segment(0, ACK)) && !w.is_kept_by(&segment(100, ACK)));
    }

    #[test]
    fn without_the_syn_the_scale_is_unknown_and_a_closed_window_is_not() {
        let mut w = TcpWindow::default();
        w.note(WallTime(0), &segment(100, ACK));
        assert_eq!(w.bytes(), None);
        assert_eq!(w.note(WallTime(1), &segment(0, ACK)), Some(WindowChange::Closed));
    }

    #[test]
    fn a_window_closes_and_opens_once() {
        let mut w = TcpWindow::default();
        let mut note = |at, window| (w.note(WallTime(at), &segment(window, ACK)), w.is_closed());
        assert_eq!(
            [note(1, 5), note(2, 0), note(3, 0)],
            [(None, false), (Some(WindowChange::Closed), true), (None, true)]
        );
        assert_eq!(
            [note(4, 1), note(5, 2)],
            [(Some(WindowChange::Opened(WallTime(2))), false), (None, false)]
        );
    }

    #[test]
    fn nothing_lasts_less_than_no_time() {
        let lasted = |from, to| lasted(WallTime(from), WallTime(to));
        assert_eq!([lasted(3, 5), lasted(5, 3)], [Span(2), Span(0)]);
    }
}
