//! [`Watched`]: samples of the interface of a one-way test, which begin with its connection and end with its streams.

use jitlat_core::Session;
use jitlat_core::observer::Event;
use jitlat_net::interface::{InterfaceWatch, WatchSettings};
use std::cell::RefCell;
use std::net::IpAddr;

/// Samples of the interface of a test whose events are followed.
pub(crate) struct Watched<'a> {
    settings: &'a WatchSettings,
    bind: Option<IpAddr>,
    watch: RefCell<Option<InterfaceWatch>>,
}

impl<'a> Watched<'a> {
    /// Prepares samples of a test whose packets have the local address `bind`, or one that the system chooses.
    pub fn new(settings: &'a WatchSettings, bind: Option<IpAddr>) -> Watched<'a> {
        Watched { settings, bind, watch: RefCell::new(None) }
    }

    /// Starts with the connection, and ends with the streams.
    pub fn follow(&self, event: &Event<'_>) {
        let mut watch = self.watch.borrow_mut();
        match event {
            Event::Connected(to) if watch.is_none() => {
                *watch = Some(InterfaceWatch::start(self.settings, *to, self.bind, None));
            }
            Event::Concluding(_) | Event::Finished(_) => watch.iter_mut().for_each(InterfaceWatch::end),
            _ => {}
        }
    }

    /// Adds the samples to `session`, if they have ended.
    pub fn add_to(&self, session: &mut Session) {
        if let Some(watch) = &*self.watch.borrow() {
            watch.add_to(&mut session.client);
        }
    }
}
