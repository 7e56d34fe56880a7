//! Clients and far ends used by most tests.

use super::Far;
use crate::{lamp, stamp};

pub(in crate::twoway) fn stamp_far(sessions: usize) -> Far {
    Far::Stamp(Box::new(stamp::StampSessionReflector::new(stamp::ReflectorRules {
        sessions,
        ..stamp::ReflectorRules::default()
    })))
}

pub(in crate::twoway) fn lamp_far() -> Far {
    Far::Lamp(Box::new(lamp::Server::new(lamp::ServerRules::default(), [7; 32])))
}

pub(in crate::twoway) fn stamp_sender() -> stamp::StampSender {
    stamp::StampSender::new(stamp::sender::StampOptions::default())
}

pub(in crate::twoway) fn lamp_client(
    mode: lamp::LampMode,
    follow_up: Option<lamp::LampFollowUp>,
) -> lamp::Client {
    lamp::Client::new(lamp::client::LampOptions {
        id: 77,
        mode,
        payload: 32,
        timeless: false,
        follow_up,
        broadcast: false,
    })
}
