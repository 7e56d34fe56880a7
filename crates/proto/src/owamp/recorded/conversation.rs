//! Messages of a recorded conversation, in order.

use super::Streams;
use crate::amp::AcceptCode;
use crate::amp::crypto::{IncomingBytes, OutgoingBytes};
use crate::amp::message::{
    AcceptSession, HMAC_LEN, RequestSession, SHORT_LEN, command, write_start, write_start_ack,
};
use crate::owamp::fetch::{DataReader, DataWriter};
use crate::owamp::message::{FetchAck, FetchSession, ScheduleSlot, StopSessions};
use crate::owamp::{SessionData, TestSession, Unusable};
use std::sync::Arc;

/// Command of the client with its answer. Both sides send Stop-Sessions, in any order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Message {
    Request(TestSession, AcceptSession),
    Start(AcceptCode),
    Stop { client: StopSessions, server: StopSessions },
    Fetch(FetchSession, Result<Arc<SessionData>, AcceptCode>),
}

fn signed(incoming: &mut IncomingBytes, len: usize) -> Vec<u8> {
    incoming.take_signed(len).expect("recorded whole").expect("signed with the keys of the connection")
}

fn stop(incoming: &mut IncomingBytes) -> StopSessions {
    let len = StopSessions::len_of(incoming.readable(), 16).unwrap().unwrap();
    StopSessions::parse(&signed(incoming, len)).unwrap()
}

impl Message {
    /// Reads the next message; `None` at the end.
    pub(super) fn read(streams: &mut Streams) -> Option<Message> {
        let (client, server) = (&mut streams.client.0, &mut streams.server.0);
        Some(match client.first()? {
            command::REQUEST_SESSION => {
                let request = RequestSession::parse(&signed(client, RequestSession::LEN)).unwrap();
                let slots = signed(client, request.slots as usize * ScheduleSlot::LEN + HMAC_LEN);
                let slots = slots
                    .chunks(ScheduleSlot::LEN)
                    .map(|slot| ScheduleSlot::parse(slot).unwrap().unwrap())
                    .collect();
                let answer = AcceptSession::parse(&signed(server, AcceptSession::LEN)).unwrap();
                Message::Request(TestSession { request, slots }, answer)
            }
            command::START => {
                signed(client, SHORT_LEN);
                Message::Start(signed(server, SHORT_LEN)[0].into())
            }
            command::STOP => Message::Stop { client: stop(client), server: stop(server) },
            command::FETCH_SESSION => {
                let fetch = FetchSession::parse(&signed(client, FetchSession::LEN)).unwrap();
                let data = match DataReader::new(fetch.sid, 1000).poll(server) {
                    Ok(data) => Ok(Arc::new(data.expect("recorded whole"))),
                    Err(Unusable::Refused(accept)) => Err(accept),
                    Err(other) => panic!("{other}"),
                };
                Message::Fetch(fetch, data)
            }
            other => panic!("command {other}"),
        })
    }

    /// Sends the client's message.
    pub(super) fn send_command(&self, outgoing: &mut OutgoingBytes, out: &mut Vec<u8>) {
        let mut bytes = Vec::new();
        match self {
            Message::Request(session, _) => {
                session.request.write(&mut bytes);
                outgoing.put_signed(&bytes, out);
                bytes.clear();
                session.slots.iter().for_each(|slot| slot.write(&mut bytes));
            }
            Message::Start(_) => write_start(&mut bytes),
            Message::Stop { client, .. } => client.write(&mut bytes),
            Message::Fetch(fetch, _) => fetch.write(&mut bytes),
        }
        outgoing.put_signed(&bytes, out);
    }

    /// Sends the server's message.
    pub(super) fn send_answer(&self, outgoing: &mut OutgoingBytes, out: &mut Vec<u8>) {
        let mut bytes = Vec::new();
        match self {
            Message::Request(_, answer) => answer.write(&mut bytes),
            Message::Start(accept) => write_start_ack(*accept, &mut bytes),
            Message::Stop { server, .. } => server.write(&mut bytes),
            Message::Fetch(_, Err(accept)) => FetchAck::refusal(*accept).write(&mut bytes),
            Message::Fetch(fetch, Ok(data)) => {
                let mut writer = DataWriter::new(*fetch, data.clone()).unwrap();
                while writer.poll(outgoing, out) {}
                return;
            }
        }
        outgoing.put_signed(&bytes, out);
    }
}
