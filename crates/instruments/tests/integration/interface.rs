//! Samples of the interface, and the position from gpsd, in the sessions of tests.

use jitlat_core::observer::Event;
use jitlat_core::{Session, Span};
use jitlat_instruments::ping::PingProtocol;
use jitlat_instruments::{Arguments, Instrument, Ping, Stop};
use jitlat_net::interface::WatchSettings;
use jitlat_net::reflect::{Reflectors, StampReflector};
use jitlat_proto::policy::Policy;
use jitlat_waiting::until;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

const VERSION: &str = r#"{"class":"VERSION","release":"3.25","rev":"3.25","proto_major":3,"proto_minor":15}"#;
const FIX: &str =
    r#"{"class":"TPV","mode":3,"lat":45.0621819,"lon":7.6624713,"altHAE":301.2,"speed":13.891}"#;

/// Answers one connection as gpsd does, and returns it: the reports stop when it is dropped.
fn gpsd() -> (SocketAddr, std::thread::JoinHandle<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        writeln!(stream, "{VERSION}").unwrap();
        let mut asked = String::new();
        BufReader::new(&stream).read_line(&mut asked).unwrap();
        assert!(asked.starts_with("?WATCH="), "{asked}");
        writeln!(stream, "{FIX}").unwrap();
        stream
    });
    (address, server)
}

/// Measures over the loopback, and calls `arrived` when answers arrive.
fn ping(watch: WatchSettings, arrived: &dyn Fn()) -> Session {
    let mut reflectors = Reflectors::new(Policy::default()).unwrap();
    reflectors
        .start(&StampReflector { port: 0, ..StampReflector::default() }, &["127.0.0.1".parse().unwrap()]);
    let at = reflectors.listening()[0].1;
    let arguments = Arguments::new().with("stamp-port", at.port().to_string());
    let client = PingProtocol::named("stamp").unwrap().client(&arguments).unwrap();
    let test = Ping { packets: 20, period: Span::millis(5), watch, ..Ping::boxed("127.0.0.1", client) };
    let mut last = None;
    let outcome = test.run(&Stop::new(), &mut |event: &Event<'_>| match event {
        Event::Arrived { .. } => arrived(),
        Event::Finished([session]) => last = Some(session.clone()),
        _ => {}
    });
    let [session] = &outcome.unwrap().sessions[..] else { panic!() };
    assert_eq!(last.as_ref(), Some(session), "observers and callers get the same samples");
    session.clone()
}

#[test]
fn the_position_is_part_of_the_session_if_it_is_wanted() {
    let (address, server) = gpsd();
    let reported = || until("the report of gpsd", Duration::from_secs(20), || server.is_finished());
    let watch = WatchSettings { gpsd: Some(address.to_string()), ..WatchSettings::default() };
    let session = ping(watch, &reported);
    drop(server.join().unwrap());
    let history = session.client.interface.expect("positions are known");
    // The last sample is taken at the end, when the report has arrived.
    let place = history.samples.last().unwrap().position.expect("a fix");
    assert_eq!(place.degrees(), [45.0621819, 7.6624713]);
    assert_eq!((place.altitude_cm, place.speed_cm_s), (Some(30_120), Some(1389)));
    assert!(history.samples.iter().all(|s| s.errors.is_none()), "the loopback is no interface to watch");
}

#[test]
fn nothing_is_sampled_on_the_loopback_and_nothing_is_said() {
    let session = ping(WatchSettings::default(), &|| ());
    assert_eq!(session.client.interface, None);
    assert!(session.client.notes.iter().all(|note| !note.contains("gpsd")), "{:?}", session.client.notes);
}

#[test]
fn a_gpsd_that_does_not_answer_is_a_note() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let watch = WatchSettings { gpsd: Some(closed.to_string()), ..WatchSettings::default() };
    let session = ping(watch, &|| ());
    assert_eq!(session.client.interface, None);
    let is_said =
        |note: &String| note.contains(&closed.to_string()) && note.contains("no positions are recorded");
    assert!(session.client.notes.iter().any(is_said), "{:?}", session.client.notes);
}
