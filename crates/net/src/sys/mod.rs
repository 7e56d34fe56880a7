//! The operating system: everything that differs between systems, with the same names on each, and all `unsafe` code of the
//! project. All exported functions are safe to call.
//!
//! | concept | items |
//! |---|---|
//! | descriptors | [`AsFd`], [`BorrowedFd`], [`OwnedFd`]; on Windows they are those of sockets |
//! | waiting | [`poll`], [`ReadySet`], [`Event`] |
//! | packets | [`Inbox`], [`Outbox`], [`send_batch`], [`receive_queued`] |
//! | options of sockets | `options`: buffers, marks, priorities, stamps, what is reported about packets |
//! | clocks and threads | `host`: both clocks, sleeping until a deadline, priorities, names |
//! | interfaces | [`interfaces`], [`interface_index`] |
//!
//! `linux` is the version in which everything can be measured. `plain` is for all other systems, with a file for what
//! only Windows, or only the others, have: packets are exchanged one by one, and stamps are the program's own readings
//! of the clock. Captures, raw frames, the emulator, confinement and adapters, which only Linux has, have a substitute in
//! `elsewhere`, which refuses with one message.
#![allow(unsafe_code)]

mod common;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod plain;
#[cfg(unix)]
mod streams;

pub(crate) use common::*;
#[cfg(target_os = "linux")]
pub(crate) use linux::*;
#[cfg(target_os = "linux")]
pub use linux::{AsFd, BorrowedFd, Datagram, OwnedFd, control};
#[cfg(not(target_os = "linux"))]
pub(crate) use plain::*;
#[cfg(not(target_os = "linux"))]
pub use plain::{AsFd, BorrowedFd, OwnedFd};
#[cfg(windows)]
pub use plain::{Keyboard, on_interrupt, stderr_is_ready};
#[cfg(unix)]
pub use streams::{Keyboard, stderr_is_ready};
