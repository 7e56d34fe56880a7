//! Tests of the instruments as used by another program.

mod examples;
mod load;
mod passive;
mod refused;
mod rules;
