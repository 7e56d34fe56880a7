//! [`Sink`]: where records go. Log writers, summaries, progress lines and live views are sinks.

use crate::record::PacketRecord;
use crate::session::Session;

/// A consumer of one session's records, in arrival order.
pub trait Sink {
    /// Before the first record, with what is known of the session by then.
    fn begin(&mut self, _session: &Session) {}
    /// One received packet.
    fn record(&mut self, record: &PacketRecord);
    /// After the last record, with everything known of the session.
    fn finish(&mut self, _session: &Session) {}
}
