//! [`CanonicalLog`]: the log of a test whose session and packets are known as a whole. A measured test has this one form: what is
//! archived, hashed and exported.

use super::compat::{LogVersion, RowLayout};
use super::exact::RowText;
use super::header;
use jitlat_core::Session;
use jitlat_core::session::Ending;

/// The version 3 log of a session that has ended: its lines before and after the rows, and the columns of these.
#[derive(Debug)]
pub struct CanonicalLog<'a> {
    session: &'a Session,
    layout: RowLayout,
}

impl<'a> CanonicalLog<'a> {
    /// The log of `session`; true: its packets have the kernel's TCP_INFO.
    pub fn new(session: &'a Session, has_tcp: bool) -> CanonicalLog<'a> {
        let layout = match (&session.two_way, has_tcp) {
            (None, _) => LogVersion::V3.one_way(),
            (Some(_), true) => RowLayout::TwoWayTcp,
            (Some(_), false) => RowLayout::TwoWay { queue: true },
        };
        CanonicalLog { session, layout }
    }

    /// What was known before the end: a log without its closing lines does not claim to be complete.
    fn begun(&self) -> Session {
        Session { ending: Ending::Unknown, reason: None, ..self.session.clone() }
    }

    /// The lines before the rows.
    pub fn header(&self) -> String {
        header::header_text(&self.begun(), LogVersion::V3, self.layout, None)
    }

    /// Writes rows, and reads them.
    pub fn row_text(&self) -> RowText {
        RowText::new(self.layout)
    }

    /// The lines after so many rows.
    pub fn closing(&self, rows: u64) -> String {
        let [said, known] = [&self.begun(), self.session].map(|session| header::facts(session, self.layout));
        header::trailer_text(rows, &said, &known)
    }
}
