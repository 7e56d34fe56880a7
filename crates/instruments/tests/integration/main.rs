//! Tests of the instruments as used by another program.

mod examples;
mod interface;
mod passive;
mod refused;
mod rules;
