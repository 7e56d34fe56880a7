//! Tests pushed to a collector: a [`PushConnection`] is the sending host's end, a [`PushService`] receives
//! the tests of other hosts.

mod collector;
mod connection;

pub use collector::{PushIntake, PushReply, PushService, PushServiceError, Shelf};
pub use connection::{PushConnection, PushFailure};
