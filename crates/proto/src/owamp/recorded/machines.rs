//! Replays recorded conversations with one of this crate's state machines in place of one of the recorded
//! programs. Session identifiers, which the receiver chooses at random, are replaced in the messages of the
//! other program; everything else is as recorded.

use super::conversation::Message;
use super::{captures, *};
use crate::amp::message::RequestSession;
use crate::amp::{AcceptCode, AmpEndReason, AmpStep, ServerRandom, Sid, Users};
use crate::machine::{Machine, Tick};
use crate::owamp::client::{self, Client, OwampOptions};
use crate::owamp::server::{self, Server};
use crate::owamp::{OwampRules, OwampSessionSpec, Owner, SessionData, Unusable};
use core::net::SocketAddr;
use jitlat_core::ntp::NtpTime;
use jitlat_core::{Direction, Dscp, Span, SteadyTime, WallTime};
use std::sync::Arc;

/// Pairs of session identifiers: the recorded one, and the one drawn in this test.
#[derive(Default)]
struct Names(Vec<(Sid, Sid)>);

impl Names {
    fn ours(&self, recorded: Sid) -> Sid {
        self.0.iter().find(|(theirs, _)| *theirs == recorded).map_or(recorded, |(_, ours)| *ours)
    }

    /// Returns the message with the identifiers of this test.
    fn in_message(&self, message: &Message) -> Message {
        let mut message = message.clone();
        match &mut message {
            Message::Request(session, answer) => {
                session.request.sid = self.ours(session.request.sid);
                answer.sid = self.ours(answer.sid);
            }
            Message::Start(_) => {}
            Message::Stop { client, server } => {
                for session in client.sessions.iter_mut().chain(&mut server.sessions) {
                    session.sid = self.ours(session.sid);
                }
            }
            Message::Fetch(fetch, data) => {
                fetch.sid = self.ours(fetch.sid);
                if let Ok(data) = data {
                    let data = Arc::make_mut(data);
                    data.session.request.sid = self.ours(data.session.request.sid);
                }
            }
        }
        message
    }
}

/// Returns the recorded connections that the server accepted.
fn let_in() -> Vec<Recorded> {
    let all = captures().into_iter().flat_map(|c| c.connections);
    all.filter(|c| c.server_start().is_some_and(|s| s.accept == AcceptCode::Ok)).collect()
}

fn hosts(recorded: &Recorded) -> (SocketAddr, SocketAddr) {
    let hosts = match recorded.capture {
        "open-ipv6-both" => ("[fd88::1]:50000", "[fd88::2]:861"),
        _ => ("10.88.0.1:50000", "10.88.0.2:861"),
    };
    (hosts.0.parse().unwrap(), hosts.1.parse().unwrap())
}

fn now(recorded: &Recorded) -> Tick {
    Tick { wall: WallTime(recorded.payloads[0].at), steady: SteadyTime(0) }
}

struct ReplayedServer {
    server: Server,
    now: Tick,
    output: Vec<u8>,
    events: Vec<server::OwampServerEvent>,
}

impl ReplayedServer {
    fn receive(&mut self, bytes: &[u8], message: Option<&Message>, names: &mut Names) {
        for piece in bytes.chunks(13) {
            self.server.handle(self.now, server::OwampServerInput::Bytes(piece));
            while let Some(event) = self.server.poll_event() {
                let input = match (&event, message) {
                    (server::OwampServerEvent::Open(asked), Some(Message::Request(_, answer))) => {
                        Some(server::OwampServerInput::Opened(match answer.accept {
                            AcceptCode::Ok => {
                                names.0.push((answer.sid, asked.session.sid()));
                                Ok(answer.port)
                            }
                            refused => Err(refused),
                        }))
                    }
                    (server::OwampServerEvent::Fetch(_, owner), Some(Message::Fetch(_, data))) => {
                        assert_eq!(*owner, self.server.owner());
                        let named = data.as_ref().ok().map(|data| {
                            let mut data: SessionData = (**data).clone();
                            data.session.request.sid = names.ours(data.session.request.sid);
                            Arc::new(data)
                        });
                        Some(server::OwampServerInput::Found(named))
                    }
                    (server::OwampServerEvent::StopSending, Some(Message::Stop { server, .. })) => {
                        for session in server.sessions.clone() {
                            self.server.handle(self.now, server::OwampServerInput::Sent(session));
                        }
                        None
                    }
                    _ => None,
                };
                if let Some(input) = input {
                    self.server.handle(self.now, input);
                }
                self.events.push(event);
            }
        }
        while self.server.poll_transmit(self.now, &mut self.output) {}
    }
}

#[test]
fn the_server_answers_every_recorded_client_as_owampd_did() {
    for recorded in let_in() {
        let name = recorded.capture;
        let (greeting, start) = (recorded.greeting(), recorded.server_start().unwrap());
        let keyed = recorded.keys().is_some();
        let users = if keyed { Users::one(USER, SECRET) } else { Users::default() };
        let rules = OwampRules { users, rounds: greeting.count, ..OwampRules::default() };
        let iv = start.server_iv;
        let random = ServerRandom { challenge: greeting.challenge, salt: greeting.salt, iv, sid: [7; 4] };
        let ((peer, local), now) = (hosts(&recorded), now(&recorded));
        let server = Server::new(rules, peer, local, now.wall, random, now);
        let mut replayed = ReplayedServer { server, now, output: Vec::new(), events: Vec::new() };
        let mut names = Names::default();
        let set_up = &recorded.stream(true)[..SetUp::LEN];
        replayed.receive(set_up, None, &mut names);

        // Everything sent after the set-up equals the recording.
        let mut streams = recorded.streams();
        let (mut ours, mut theirs) = (IncomingBytes::default(), OutgoingBytes::default());
        if let Some(keys) = recorded.keys() {
            ours.protect(&keys, &iv);
            theirs.protect(&keys, &iv);
        }
        let clear = Greeting::LEN + ServerStart::LEN;
        assert_eq!(
            replayed.output[Greeting::LEN..clear],
            recorded.stream(false)[Greeting::LEN..clear],
            "{name}"
        );
        ours.feed(&replayed.output.split_off(clear));
        let time = ours.take(ServerStart::TIME_LEN).unwrap();
        theirs.put(&time, &mut Vec::new());
        for message in recorded.messages() {
            // The identifiers are drawn while the request is answered.
            let mut command = Vec::new();
            names.in_message(&message).send_command(&mut streams.client.1, &mut command);
            replayed.output.clear();
            replayed.receive(&command, Some(&message), &mut names);
            let mut answer = Vec::new();
            names.in_message(&message).send_answer(&mut theirs, &mut answer);
            assert_eq!(replayed.output, answer, "{name}: {message:?}");
        }
        replayed.server.handle(now, server::OwampServerInput::Closed);
        assert!(matches!(
            replayed.server.poll_event(),
            Some(server::OwampServerEvent::Over(AmpEndReason::Closed))
        ));
        let owner = replayed.server.owner();
        assert_eq!(owner == Owner::User(USER.to_owned()), keyed, "{name}: {owner:?}");
        // There is one report for each session that the server received.
        let count = |wanted: fn(&server::OwampServerEvent) -> bool| {
            replayed.events.iter().filter(|e| wanted(e)).count()
        };
        let received = count(|e| matches!(e, server::OwampServerEvent::Received(_)));
        let up = count(|e| matches!(e, server::OwampServerEvent::Open(a) if a.direction == Direction::Up));
        let refused = usize::from(name.starts_with("refused"));
        assert_eq!(received + refused, up, "{name}: {:?}", replayed.events);
    }
}

fn spec(request: &RequestSession, slots: &[crate::owamp::ScheduleSlot]) -> OwampSessionSpec {
    let up = request.conf_receiver != 0;
    let (near, far) = if up {
        (SocketAddr::new(request.sender, request.sender_port), request.receiver)
    } else {
        (SocketAddr::new(request.receiver, request.receiver_port), request.sender)
    };
    OwampSessionSpec {
        direction: if up { Direction::Up } else { Direction::Down },
        near,
        far,
        packets: request.packets,
        slots: slots.to_vec(),
        padding: request.padding,
        timeout: Some(request.timeout.to_span()),
        dscp: Dscp::new(request.dscp().unwrap().into()).unwrap(),
    }
}

/// Returns the configuration of a client that makes the requests of the recorded one.
fn config(recorded: &Recorded) -> OwampOptions {
    let keys = recorded.keys();
    let mut random = [0; 64];
    if let Some(keys) = &keys {
        random[..16].copy_from_slice(&keys.aes);
        random[16..48].copy_from_slice(&keys.hmac);
        random[48..].copy_from_slice(&recorded.set_up().unwrap().client_iv);
    }
    let messages = recorded.messages();
    let sessions = messages.iter().filter_map(|m| match m {
        Message::Request(session, _) => Some(spec(&session.request, &session.slots)),
        _ => None,
    });
    let sessions: Vec<_> = sessions.collect();
    let fetches = messages.iter().filter_map(|m| match m {
        Message::Fetch(fetch, _) if sessions.is_empty() => Some(*fetch),
        _ => None,
    });
    OwampOptions {
        mode: recorded.mode(),
        user: keys.map(|_| (USER.to_owned(), SECRET.to_vec())),
        fetches: fetches.collect(),
        sessions,
        lead: Span::seconds(1),
        start: None,
        most_records: 1000,
        step_timeout: Span::seconds(5),
        random,
        sid: [9; 4],
    }
}

struct ReplayedClient {
    client: Client,
    now: Tick,
    output: Vec<u8>,
    events: Vec<client::OwampClientEvent>,
}

impl ReplayedClient {
    fn receive(&mut self, bytes: &[u8], message: Option<&Message>, names: &mut Names) {
        for piece in bytes.chunks(7) {
            self.client.handle(self.now, client::OwampClientInput::Bytes(piece));
            self.obey(message, names);
        }
    }

    fn obey(&mut self, message: Option<&Message>, names: &mut Names) {
        loop {
            while self.client.poll_transmit(self.now, &mut self.output) {}
            let Some(event) = self.client.poll_event() else { return };
            match (&event, message) {
                (client::OwampClientEvent::Granted(granted), Some(Message::Request(_, answer))) => {
                    assert_eq!(granted.far.port(), answer.port);
                    names.0.push((answer.sid, granted.session.sid()));
                }
                (client::OwampClientEvent::Ready, _) => {
                    self.client.handle(self.now, client::OwampClientInput::Start);
                }
                (client::OwampClientEvent::StopSending, Some(Message::Stop { client, .. })) => {
                    for session in client.sessions.clone() {
                        self.client.handle(self.now, client::OwampClientInput::Sent(session));
                    }
                }
                _ => {}
            }
            self.events.push(event);
        }
    }
}

#[test]
fn the_client_says_to_every_recorded_server_what_owping_said() {
    for recorded in
        let_in().into_iter().filter(|r| r.messages().len() > 1 || !r.capture.starts_with("refused"))
    {
        let (name, now) = (recorded.capture, now(&recorded));
        let client = Client::new(config(&recorded), now);
        let mut replayed = ReplayedClient { client, now, output: Vec::new(), events: Vec::new() };
        let (mut names, mut streams) = (Names::default(), recorded.streams());
        let set_up = Greeting::LEN + ServerStart::LEN + ServerStart::TIME_LEN;
        let messages = recorded.messages();
        replayed.receive(&recorded.stream(false)[..set_up], messages.first(), &mut names);
        assert_eq!(replayed.output[..SetUp::LEN], recorded.stream(true)[..SetUp::LEN], "{name}");
        let time = streams.server.0.take(ServerStart::TIME_LEN).unwrap();
        streams.server.1.put(&time, &mut Vec::new());

        let (mut ours, mut theirs) = (IncomingBytes::default(), OutgoingBytes::default());
        if let Some(keys) = recorded.keys() {
            ours.protect(&keys, &recorded.set_up().unwrap().client_iv);
            theirs.protect(&keys, &recorded.set_up().unwrap().client_iv);
        }
        replayed.output.drain(..SetUp::LEN);
        for message in &messages {
            if let Message::Stop { .. } = message {
                // All ends are complete. owping may send its Stop-Sessions first or second.
                for (_, sid) in &names.0 {
                    replayed.client.handle(now, client::OwampClientInput::Complete(*sid));
                }
                replayed.obey(Some(message), &mut names);
            }
            let mut renamed = names.in_message(message);
            let command = core::mem::take(&mut replayed.output);
            if let Message::Request(session, _) = &mut renamed {
                // The client chooses the start time, and the identifiers of the sessions that it receives.
                ours.feed(&command);
                let request =
                    RequestSession::parse(&ours.take_signed(RequestSession::LEN).unwrap().unwrap()).unwrap();
                ours.take_signed(session.slots.len() * 16 + 16).unwrap().unwrap();
                let start = request.start.to_nanos(now.wall) - now.wall;
                assert!(start >= Span::seconds(1), "{name}: {start:?}");
                (session.request.start, session.request.sid) = (request.start, request.sid);
                session.request.timeout = NtpTime::from_span(session.request.timeout.to_span());
                assert_eq!(request, session.request, "{name}");
            } else {
                ours.feed(&command);
                ours.take(command.len()).unwrap();
            }
            let mut expected = Vec::new();
            renamed.send_command(&mut theirs, &mut expected);
            assert_eq!(command, expected, "{name}: {message:?}");
            let mut answer = Vec::new();
            names.in_message(message).send_answer(&mut streams.server.1, &mut answer);
            replayed.receive(&answer, Some(message), &mut names);
        }
        let refused = name == "refused-second-session";
        let ended = match replayed.events.last() {
            Some(client::OwampClientEvent::Over) => !refused,
            Some(client::OwampClientEvent::Failed(failure)) => {
                refused && failure.to_string().contains("requesting a session")
            }
            _ => false,
        };
        assert!(ended, "{name}: {:?}", replayed.events);
        for message in &messages {
            let Message::Fetch(fetch, data) = names.in_message(message) else { continue };
            let fetched = replayed.events.iter().find_map(|e| match e {
                client::OwampClientEvent::Fetched(sid, fetched) if *sid == fetch.sid => {
                    Some((**fetched).clone())
                }
                _ => None,
            });
            assert_eq!(fetched, Some(data.map(|d| (*d).clone()).map_err(Unusable::Refused)), "{name}");
        }
    }
}

#[test]
fn refusals_are_reported_with_what_to_try() {
    for recorded in captures().into_iter().flat_map(|c| c.connections) {
        let name = recorded.capture;
        if !name.starts_with("refused") || name == "refused-second-session" {
            continue;
        }
        let now = now(&recorded);
        let mut config = match recorded.server_start() {
            Some(start) if start.accept == AcceptCode::Ok => config(&recorded),
            _ => OwampOptions {
                mode: recorded.mode(),
                user: None,
                sessions: Vec::new(),
                lead: Span::ZERO,
                start: None,
                fetches: Vec::new(),
                most_records: 0,
                step_timeout: Span::seconds(5),
                random: [0; 64],
                sid: [0; 4],
            },
        };
        if recorded.mode().is_some_and(crate::amp::SecurityMode::is_keyed) {
            config.user = Some(("somebody".to_owned(), b"not-the-passphrase".to_vec()));
        }
        let mut client = Client::new(config, now);
        for bytes in recorded.payloads.iter().filter(|p| !p.to_server) {
            client.handle(now, client::OwampClientInput::Bytes(&bytes.bytes));
            while client.poll_transmit(now, &mut Vec::new()) {}
        }
        let failure = core::iter::from_fn(|| client.poll_event()).find_map(|e| match e {
            client::OwampClientEvent::Failed(failure) => Some(failure),
            _ => None,
        });
        let failure = failure.expect(name);
        let (step, text) = match name {
            "refused-mode-not-offered" => {
                (None, "offers the modes encrypted; none of them can be used: give a user")
            }
            "refused-policy-openmode" => (None, "offers the modes authenticated, encrypted"),
            "refused-bandwidth" | "refused-disk" => (Some(AmpStep::Request), "no reason given"),
            _ => (Some(AmpStep::SetUp), "are the user and the passphrase right?"),
        };
        assert!(failure.to_string().contains(text), "{name}: {failure}");
        if let Some(step) = step {
            assert_eq!(failure, client::AmpFailure::Refused { step, accept: AcceptCode::Failure }, "{name}");
        }
        assert_eq!(client.poll_timeout(), None);
    }
}
