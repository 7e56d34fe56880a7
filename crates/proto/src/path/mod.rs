//! The path itself: which routers a packet passes, told by what they say of packets whose time to live ends there.
//!
//! * [`quotation`] – reads ICMP errors: the packet they quote (RFC 792, 4443, 1812) and the MPLS labels beside it
//!   (RFC 4884, 4950)
//! * [`tracer`] – which probe is due when, and to which hop an answer belongs

pub mod quotation;
#[cfg(test)]
mod simulated;
pub mod tracer;

pub use quotation::{Cause, Family, MAX_LABELS, Quotation, QuotationError};
pub use tracer::{Answer, Due, Plan, SLOTS, Tracer};
