//! [`CanonicalLog`]: the canonical log of a finished test, when its session and all packets are known. Measured tests
//! are archived, hashed and exported in this form.

use super::compat::{LogVersion, RowLayout};
use super::exact::RowText;
use super::header;
use jitlat_core::Session;
use jitlat_core::session::Ending;

/// Version 3 log of a finished session: the lines before and after the rows, and the columns of the rows.
#[derive(Debug)]
pub struct CanonicalLog<'a> {
    session: &'a Session,
    layout: RowLayout,
}

impl<'a> CanonicalLog<'a> {
    /// Creates the log of `session`; `has_tcp` is true if its packets have the kernel's TCP_INFO.
    pub fn new(session: &'a Session, has_tcp: bool) -> CanonicalLog<'a> {
        let layout = match (&session.two_way, has_tcp) {
            (None, _) => LogVersion::V3.one_way(),
            (Some(_), true) => RowLayout::TwoWayTcp,
            (Some(_), false) if session.spec.marking.is_on() => RowLayout::TwoWayMarked,
            (Some(_), false) => RowLayout::TwoWay { queue: true },
        };
        CanonicalLog { session, layout }
    }

    /// Returns the session as known before the end of the test: the header of a log that lacks its closing lines must
    /// not claim that the test was complete.
    fn begun(&self) -> Session {
        Session { ending: Ending::Unknown, reason: None, ..self.session.clone() }
    }

    /// Returns the lines before the rows.
    pub fn header(&self) -> String {
        header::header_text(&self.begun(), LogVersion::V3, self.layout, None)
    }

    /// Returns the writer and reader of rows.
    pub fn row_text(&self) -> RowText {
        RowText::new(self.layout)
    }

    /// Returns the lines that follow `rows` rows.
    pub fn closing(&self, rows: u64) -> String {
        let [written, known] =
            [&self.begun(), self.session].map(|session| header::facts(session, self.layout));
        header::trailer_text(rows, &written, &known)
    }
}
