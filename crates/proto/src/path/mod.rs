//! The path itself: the routers that a packet passes, found from their ICMP errors about packets whose TTL ends there.
//!
//! * [`quotation`] – parses ICMP errors: the packet they quote (RFC 792, 4443, 1812) and the MPLS labels in their
//!   extensions
//!   (RFC 4884, 4950)
//! * [`tracer`] – which probe is due when, and which hop an answer belongs to

pub mod quotation;
#[cfg(test)]
mod simulated;
pub mod tracer;

pub use quotation::{IcmpCause, IcmpFamily, MAX_LABELS, Quotation, QuotationError};
pub use tracer::{DueProbe, MAX_PROBES, ProbeAnswer, TracePlan, Tracer};
