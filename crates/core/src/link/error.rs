//! Error of parsing the description of a link.

/// A text that is not a link description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a link: give an encapsulation (pppoe-llc, pppoa-vc, bridged-llc, ipoa-llc, … with -fcs if included; \
     ethernet, ethernet-pppoe, ethernet-vlan; plain or plain+BYTES), then up=RATE, down=RATE, and tunnel=BYTES if \
     there is one: pppoe-llc,up=128k,down=512k,tunnel=28"
)]
pub struct NotALink(pub(super) String);
