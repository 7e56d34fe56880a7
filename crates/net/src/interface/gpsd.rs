//! [`Gpsd`]: the position of this host, from gpsd (its JSON protocol, over TCP).

use super::SampleSource;
use crate::clock::steady;
use crate::sockets;
use jitlat_core::interface::{InterfaceSample, Position};
use jitlat_core::{Span, SteadyTime};
use serde::Deserialize;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Port of gpsd.
pub const GPSD_PORT: u16 = 2947;
/// Request for reports in JSON.
const WATCH: &[u8] = b"?WATCH={\"enable\":true,\"json\":true};\n";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum length of a line: gpsd's own limit is 10 240 bytes. Longer lines are skipped.
const MAX_LINE: usize = 16 << 10;
/// Maximum number of bytes that are read for one sample. A receiver sends about 2 kB per second.
const MAX_READ: usize = 64 << 10;
/// Time after which a position is out of date.
const MAX_AGE: Span = Span::seconds(3);

/// Reason why there are no positions.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpsdError {
    /// The address is not a host with a port.
    #[error("gpsd at {0}: no such host")]
    Address(String),
    /// The connection failed.
    #[error("gpsd at {address}: {source}; no positions are recorded. Is gpsd running there?")]
    Connect {
        /// Host and port.
        address: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The connection was lost or closed during the test.
    #[error("gpsd at {0} closed the connection during the test")]
    Closed(String),
    /// More was sent than a satellite receiver can have to report.
    #[error("gpsd at {0} sent more than 64 kB per second, and was not read any more")]
    Flood(String),
}

/// A connection to gpsd.
#[derive(Debug)]
pub struct Gpsd {
    address: String,
    /// `None` after the connection was lost.
    connection: Option<TcpStream>,
    lines: Lines,
    latest: Option<(SteadyTime, Position)>,
    failure: Option<GpsdError>,
}

impl Gpsd {
    /// Connects to `HOST:PORT`, `HOST` or an address, and requests reports.
    ///
    /// # Errors
    /// [`GpsdError`] if nothing answers there within two seconds.
    pub fn connect(address: &str) -> Result<Gpsd, GpsdError> {
        let wrong = || GpsdError::Address(address.to_owned());
        let failed = |source| GpsdError::Connect { address: address.to_owned(), source };
        let found = address.to_socket_addrs().or_else(|_| (address, GPSD_PORT).to_socket_addrs());
        let mut error = None;
        for peer in found.map_err(|_| wrong())? {
            let opened = sockets::connect_tcp(None, peer, CONNECT_TIMEOUT, || false);
            let opened = opened.and_then(|mut connection| {
                connection.set_nonblocking(true)?;
                connection.write_all(WATCH)?;
                Ok(connection)
            });
            match opened {
                Ok(connection) => {
                    return Ok(Gpsd {
                        address: address.to_owned(),
                        connection: Some(connection),
                        lines: Lines::default(),
                        latest: None,
                        failure: None,
                    });
                }
                Err(e) => error = Some(e),
            }
        }
        Err(error.map_or_else(wrong, failed))
    }

    /// Reads what has arrived, without waiting.
    fn receive(&mut self, now: SteadyTime) {
        let Some(connection) = &mut self.connection else { return };
        let mut left = MAX_READ;
        let mut buffer = [0; 4096];
        let failure = loop {
            match connection.read(&mut buffer) {
                Ok(0) => break GpsdError::Closed(self.address.clone()),
                Ok(length) => {
                    let latest = &mut self.latest;
                    self.lines.add(&buffer[..length], |line| {
                        if let Some(place) = position(line) {
                            *latest = place.map(|place| (now, place));
                        }
                    });
                    left = left.saturating_sub(length);
                    if left == 0 {
                        break GpsdError::Flood(self.address.clone());
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break GpsdError::Closed(self.address.clone()),
            }
        };
        self.connection = None;
        self.failure = Some(failure);
    }
}

impl SampleSource for Gpsd {
    fn read(&mut self, into: &mut InterfaceSample) {
        let now = steady();
        self.receive(now);
        into.position = self.latest.filter(|(at, _)| now - *at <= MAX_AGE).map(|(_, place)| place);
    }

    fn note(&self) -> Option<String> {
        self.failure.as_ref().map(ToString::to_string)
    }
}

/// The beginning of a line that has not arrived completely.
#[derive(Debug, Default)]
struct Lines {
    begun: Vec<u8>,
    /// True within a line that is too long.
    is_skipping: bool,
}

impl Lines {
    /// Adds bytes, and passes each complete line to `each`.
    fn add(&mut self, mut bytes: &[u8], mut each: impl FnMut(&[u8])) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.begin(&bytes[..end]);
            if !std::mem::take(&mut self.is_skipping) {
                each(&self.begun);
            }
            self.begun.clear();
            bytes = &bytes[end + 1..];
        }
        self.begin(bytes);
    }

    fn begin(&mut self, bytes: &[u8]) {
        if self.is_skipping || self.begun.len() + bytes.len() > MAX_LINE {
            self.is_skipping = true;
            self.begun.clear();
        } else {
            self.begun.extend(bytes);
        }
    }
}

/// The fields of a report that are used (gpsd_json(5), TPV).
#[derive(Deserialize)]
struct GpsdReport {
    class: String,
    mode: Option<u8>,
    lat: Option<f64>,
    lon: Option<f64>,
    #[serde(rename = "altHAE")]
    altitude: Option<f64>,
    speed: Option<f64>,
}

/// Returns the position in a report: `Some(None)` if it says that the position is unknown, `None` if it is another report or
/// cannot be read.
fn position(line: &[u8]) -> Option<Option<Position>> {
    let report: GpsdReport = serde_json::from_slice(line).ok()?;
    if report.class != "TPV" {
        return None;
    }
    // Below mode 2 the receiver has no fix.
    let known = report.mode.is_some_and(|mode| mode >= 2);
    let degrees = |value: Option<f64>, most: f64| {
        let value = value.filter(|degrees| degrees.abs() <= most)?;
        Some((value * 1e7).round() as i32)
    };
    let place = || {
        Some(Position {
            latitude_e7: degrees(report.lat, 90.0)?,
            longitude_e7: degrees(report.lon, 180.0)?,
            altitude_cm: report.altitude.filter(|m| m.abs() < 1e6).map(|m| (100.0 * m).round() as i32),
            speed_cm_s: report
                .speed
                .filter(|m_s| (0.0..1e5).contains(m_s))
                .map(|m_s| (100.0 * m_s).round() as u32),
        })
    };
    Some(known.then(place).flatten())
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::WallTime;
    use proptest::prelude::*;
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    const VERSION: &str =
        r#"{"class":"VERSION","release":"3.25","rev":"3.25","proto_major":3,"proto_minor":15}"#;
    const FIX: &str = r#"{"class":"TPV","device":"/dev/ttyACM0","mode":3,"time":"2026-11-28T04:00:00.000Z","ept":0.005,"lat":45.062181900,"lon":7.662471300,"altHAE":301.2000,"altMSL":253.7,"speed":13.891,"track":12.5,"eph":4.2}"#;
    const NO_FIX: &str = r#"{"class":"TPV","device":"/dev/ttyACM0","mode":1}"#;

    #[test]
    fn a_fix_is_a_place_and_other_reports_are_none() {
        let place = Position {
            latitude_e7: 450_621_819,
            longitude_e7: 76_624_713,
            altitude_cm: Some(30_120),
            speed_cm_s: Some(1389),
        };
        assert_eq!(position(FIX.as_bytes()), Some(Some(place)));
        assert_eq!(position(NO_FIX.as_bytes()), Some(None));
        for other in [VERSION, "", "{", "[]", r#"{"class":"SKY","lat":1,"lon":2,"mode":3}"#] {
            assert_eq!(position(other.as_bytes()), None, "{other}");
        }
        for impossible in ["91.0", "-1e300", "null"] {
            let line = FIX.replace("45.062181900", impossible);
            assert_eq!(position(line.as_bytes()), Some(None), "{line}");
        }
    }

    #[test]
    fn lines_arrive_in_any_pieces_and_long_ones_are_skipped() {
        let long = "x".repeat(MAX_LINE + 1);
        let text = format!("{VERSION}\n{long}\n{FIX}\n{long}{long}\n{NO_FIX}\n{FIX}");
        for size in [1, 7, 4096, text.len()] {
            let (mut lines, mut seen) = (Lines::default(), Vec::new());
            for piece in text.as_bytes().chunks(size) {
                lines.add(piece, |line| seen.push(String::from_utf8_lossy(line).into_owned()));
                assert!(lines.begun.len() <= MAX_LINE);
            }
            assert_eq!(seen, [VERSION, FIX, NO_FIX]);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..200) {
            position(&bytes);
            let mut twisted = FIX.as_bytes().to_vec();
            twisted.truncate(cut);
            twisted.extend(&bytes);
            position(&twisted);
            Lines::default().add(&twisted, |_| ());
        }
    }

    /// Answers one connection as gpsd does: its version, then, after the request, `reports`.
    fn serve(reports: Vec<u8>) -> (String, std::thread::JoinHandle<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(format!("{VERSION}\n").as_bytes()).unwrap();
            let mut asked = String::new();
            BufReader::new(&stream).read_line(&mut asked).unwrap();
            assert_eq!(asked.as_bytes(), WATCH);
            // The reader may end the connection before everything is sent.
            let _ = stream.write_all(&reports);
            stream
        });
        (address, server)
    }

    fn read_until(gpsd: &mut Gpsd, is_wanted: impl Fn(&Gpsd) -> bool) -> InterfaceSample {
        let mut sample = InterfaceSample::at(WallTime(0));
        jitlat_waiting::until("a report of gpsd", Duration::from_secs(20), || {
            gpsd.read(&mut sample);
            is_wanted(gpsd)
        });
        sample
    }

    #[test]
    fn the_place_comes_from_a_server_and_its_end_is_noted() {
        let (address, server) = serve(format!("{NO_FIX}\n{FIX}\n").into_bytes());
        let mut gpsd = Gpsd::connect(&address).unwrap();
        let sample = read_until(&mut gpsd, |gpsd| gpsd.latest.is_some());
        assert_eq!(sample.position.map(|place| place.latitude_e7), Some(450_621_819));
        assert_eq!(gpsd.note(), None);
        drop(server.join().unwrap());
        read_until(&mut gpsd, |gpsd| gpsd.failure.is_some());
        assert_eq!(gpsd.note(), Some(format!("gpsd at {address} closed the connection during the test")));
    }

    #[test]
    fn a_server_that_floods_is_not_read_any_more() {
        let (address, server) = serve(vec![b'x'; 1 << 22]);
        let mut gpsd = Gpsd::connect(&address).unwrap();
        read_until(&mut gpsd, |gpsd| gpsd.failure.is_some());
        assert!(gpsd.note().unwrap().contains("64 kB per second"), "{:?}", gpsd.note());
        assert!(gpsd.connection.is_none() && gpsd.lines.begun.len() <= MAX_LINE);
        server.join().unwrap();
    }

    #[test]
    fn nobody_there_is_an_error_that_says_so() {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let why = Gpsd::connect(&closed).unwrap_err().to_string();
        assert!(why.contains(&closed) && why.contains("no positions are recorded"), "{why}");
        assert!(matches!(Gpsd::connect("127.0.0.1:port"), Err(GpsdError::Address(_))));
    }
}
