//! Tests of the instruments as used by another program.

mod examples;
mod interface;
mod load;
mod made_captures;
mod odd_calls;
mod odd_captures;
mod passive;
mod refused;
mod rules;
#[cfg(feature = "browser")]
#[path = "../websocket/mod.rs"]
mod websocket;
