//! Tests of the instruments as used by another program.

mod examples;
mod interface;
mod load;
mod odd_calls;
mod odd_captures;
mod passive;
mod refused;
mod rules;
