//! Path discovery: finds the routers on a path by the ICMP errors that they send about packets with an
//! expired TTL.
//!
//! * [`quotation`] – parses ICMP errors: the packet that they quote (RFC 792, 4443, 1812) and the MPLS
//!   labels in their extensions (RFC 4884, 4950)
//! * [`tracer`] – schedules probes and assigns answers to hops

pub mod quotation;
#[cfg(test)]
mod simulated;
pub mod tracer;

pub use quotation::{IcmpCause, IcmpFamily, MAX_LABELS, Quotation, QuotationError};
pub use tracer::{DueProbe, MAX_PROBES, ProbeAnswer, TracePlan, Tracer};
