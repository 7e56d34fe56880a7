//! Tests pushed to a collector: [`PushConnection`] sends this host's tests, [`PushService`] receives the tests of other
//! hosts.

mod collector;
mod connection;

pub use collector::{PushIntake, PushReply, PushService, PushServiceError, Shelf};
pub use connection::{PushConnection, PushFailure};
