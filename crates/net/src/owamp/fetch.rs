//! Fetches the records of earlier sessions from an OWAMP server.

use super::client::OwampError;
use crate::client::{AddressFamily, ClientError, ServerAddress, connect};
use crate::clock::tick;
use crate::drive::Driver;
use crate::random;
use jitlat_core::Span;
use jitlat_core::observer::Observer;
use jitlat_proto::Machine;
use jitlat_proto::amp::{SecurityMode, Sid};
use jitlat_proto::owamp::client::{Client, OwampClientEvent, OwampOptions};
use jitlat_proto::owamp::{FetchSession, SessionData, Unusable};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of records that are read per session.
const MAX_RECORDS: usize = 10_000_000;

/// Settings of a fetch.
#[derive(Clone, Debug)]
pub struct FetchRequest {
    /// Name or address of the server.
    pub host: String,
    /// TCP port of the control server.
    pub port: u16,
    /// Address family; `None`: any.
    pub family: Option<AddressFamily>,
    /// Local address; `None`: chosen by the system.
    pub bind: Option<IpAddr>,
    /// Security mode; `None`: the strongest that both sides support.
    pub mode: Option<SecurityMode>,
    /// User name and passphrase for the keyed modes; `None`: open mode.
    pub user: Option<(String, Vec<u8>)>,
    /// Sessions to fetch.
    pub sids: Vec<Sid>,
    /// Timeout for the server to complete each step of the conversation.
    pub step_timeout: Span,
}

/// Records of a session, or the reason why they are not available.
pub type FetchedSession = (Sid, Result<SessionData, Unusable>);

/// Fetches the sessions on one connection. Setting `stop` ends the fetch; sessions fetched by then are returned.
///
/// # Errors
/// [`OwampError`] if no connection was set up, or if it failed.
pub fn fetch(
    request: &FetchRequest,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Vec<FetchedSession>, OwampError> {
    let FetchRequest { host, port, family, bind, .. } = request;
    let programs = "owampd or `jitlat serve`";
    let server = ServerAddress { host, port: *port, family: *family, bind: *bind, programs };
    let (stream, address) = connect(&server, stop, observer)?;
    let (mut random, mut sid) = ([0; 64], [0; 4]);
    random::fill(&mut random)?;
    random::fill(&mut sid)?;
    let options = OwampOptions {
        mode: request.mode,
        user: request.user.clone(),
        sessions: Vec::new(),
        lead: Span::ZERO,
        start: None,
        fetches: request.sids.iter().map(|sid| FetchSession::whole(*sid)).collect(),
        most_records: MAX_RECORDS,
        step_timeout: request.step_timeout,
        random,
        sid,
    };
    let mut driver = Driver::new(Client::new(options, tick()), stream)?;
    let mut fetched = Vec::new();
    loop {
        while let Some(event) = driver.machine.poll_event() {
            match event {
                OwampClientEvent::Fetched(sid, data) => fetched.push((sid, *data)),
                OwampClientEvent::Over => {
                    driver.finish(Span::millis(100));
                    return Ok(fetched);
                }
                OwampClientEvent::Failed(failure) => return Err(OwampError::Failed { address, failure }),
                _ => {}
            }
        }
        driver.write_output();
        driver.wait(None);
        if stop.load(Ordering::Relaxed) {
            let host = host.clone();
            return if fetched.is_empty() {
                Err(ClientError::Interrupted { host, address }.into())
            } else {
                Ok(fetched)
            };
        }
        driver.read_input();
        driver.check_timer();
    }
}
