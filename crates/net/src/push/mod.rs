//! Tests pushed to a collector: a [`PushConnection`] is a host's end, a [`PushService`] takes those of other hosts.

mod collector;
mod connection;

pub use collector::{PushIntake, PushReply, PushService, PushServiceError, Shelf};
pub use connection::{PushConnection, PushFailure};
