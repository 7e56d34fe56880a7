//! Clocks, pacing, sockets, kernel stamps and the drivers that run the protocol machines: the only
//! crate that touches the kernel.
//!
//! * [`accept`] – connections: who has a place, and who is turned away
//! * [`clock`] – wall and steady clock, the kernel's account of its synchronisation, steps
//! * [`pace`] – waiting for absolute deadlines
//! * [`privilege`] – capabilities, and how to grant them
//! * [`stamp`] – kernel and hardware stamps
//! * [`engine`] – one thread a flow: sends or receives a stream as a protocol machine commands
//! * [`twoway`] – drivers of the two-way protocols; [`reflect`] – their reflectors
//! * [`ring`] – from the packet threads to the conversing one
//! * [`capture`] – packets seen on an interface or in a file
//! * [`digest`] – packets seen at interfaces of other hosts
//! * [`client`], [`server`] – the drivers of the two sides of a conversation
//! * [`doctor`] – what this host adds to every figure, and why
//! * [`emulator`] – an impaired path

pub mod accept;
pub mod capture;
pub mod client;
pub mod clock;
mod cmsg;
mod control;
mod departures;
pub mod digest;
pub mod doctor;
pub mod emulator;
pub mod engine;
mod frame;
pub mod pace;
pub mod path;
pub mod privilege;
pub mod random;
pub mod reflect;
pub mod ring;
pub mod server;
mod sockets;
pub mod stamp;
mod sys;
pub mod twoway;
