//! Tests of the instruments as another program uses them.

mod examples;
mod passive;
mod refused;
mod rules;
