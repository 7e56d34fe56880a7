//! Tests pushed to a collector: [`PushConnection`] is the end of the sending host, [`PushService`] receives
//! the tests of other hosts.

mod collector;
mod connection;

pub use collector::{PushIntake, PushReply, PushService, PushServiceError, Shelf};
pub use connection::{PushConnection, PushFailure};
