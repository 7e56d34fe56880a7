//! What one or several clients receive from a LaMP server over time.

use super::*;
use crate::lamp::report::Report;
use jitlat_core::{SteadyTime, WallTime};

const EPOCH: i64 = 1_795_176_909_000_000_000;

fn tick(ms: i64) -> Tick {
    Tick { wall: WallTime(EPOCH + ms * 1_000_000), steady: SteadyTime(ms * 1_000_000) }
}

/// A server and one client of it.
struct Bench {
    server: Server,
    from: SocketAddr,
}

impl Bench {
    fn new() -> Bench {
        Bench { server: Server::new(ServerRules::default()), from: "192.0.2.1:40000".parse().unwrap() }
    }

    /// The client's packet arrives 5 ms after it was sent; returns the kind of the answer, if there is one.
    fn ask(&mut self, at: i64, kind: Kind, seq: u16, word: u16) -> Option<Kind> {
        let mut out = Vec::new();
        let packet = Header::new(kind, 7, seq, word).at(tick(at).wall).to_bytes();
        let arrival = Arrival { from: self.from, at: tick(at + 5).wall, ttl: None, traffic_class: None };
        let _ = self.server.handle(&packet, &arrival, (), tick(at + 5), &mut out);
        Header::parse(&out).map(|h| h.kind)
    }

    /// Reports sent until then, with their times, as a driver that follows the timeouts would send them.
    fn reports(&mut self, from: i64, to: i64) -> Vec<(i64, Report)> {
        let mut sent = Vec::new();
        let mut now = from;
        while now < to {
            let mut out = Vec::new();
            while self.server.poll_transmit(tick(now), &mut out).is_some() {
                let text = std::str::from_utf8(&out[HEADER_LEN..]).unwrap().trim_end_matches('\0');
                sent.push((now, text.parse().unwrap()));
                out.clear();
            }
            let due = self.server.poll_timeout().map_or(to, |t| t.0.div_euclid(1_000_000));
            now = due.max(now + 1);
        }
        sent
    }
}

#[test]
fn a_delivered_report_is_the_last_word() {
    let mut bench = Bench::new();
    assert_eq!(bench.ask(0, Kind::Init, 0, 2), Some(Kind::Ack));
    (0..9).for_each(|k| assert_eq!(bench.ask(100 + 10 * k, Kind::Continue, k as u16, 0), None));
    bench.ask(190, Kind::Stop, 9, 0);
    let sent = bench.reports(195, 400);
    assert_eq!(sent.iter().map(|s| s.0).collect::<Vec<_>>(), [195, 395]);
    assert_eq!((sent[0].1.received, sent[0].1.timed_out), (10, false));
    bench.ask(400, Kind::Ack, 0, 0);
    // A late copy changes nothing.
    bench.ask(450, Kind::Continue, 3, 0);
    assert_eq!(bench.reports(450, 300_000), []);
    assert_eq!(bench.server.sessions(), 0, "forgotten in the end");
}

#[test]
fn packets_behind_the_stop_are_in_later_reports() {
    let mut bench = Bench::new();
    bench.ask(0, Kind::Init, 0, 2);
    bench.ask(100, Kind::Stop, 2, 0);
    assert_eq!(bench.reports(105, 106)[0].1.received, 1);
    bench.ask(120, Kind::Continue, 1, 0);
    assert_eq!(bench.reports(125, 310)[0].1.received, 2);
}

#[test]
fn a_lost_stop_is_reported_before_late_gives_up() {
    let mut bench = Bench::new();
    bench.ask(0, Kind::Init, 0, 2);
    (0..9).for_each(|k| assert_eq!(bench.ask(100 + 100 * k, Kind::Continue, k as u16, 0), None));
    // The STOP at 1000 is lost; LaTe waits for 5 s from then.
    let sent = bench.reports(1000, 30_000);
    assert!((3900..=4500).contains(&sent[0].0) && sent.len() >= 5, "{sent:?}");
    assert_eq!((sent[0].1.received, sent[0].1.timed_out, sent[0].1.highest_seq), (9, true, Some(8)));
}

#[test]
fn rare_packets_are_no_silence_and_a_pause_is_not_the_end() {
    let mut bench = Bench::new();
    bench.ask(0, Kind::Init, 0, 2);
    for k in 0..5 {
        let at = 20_000 * (i64::from(k) + 1);
        bench.ask(at, Kind::Continue, k, 0);
        assert_eq!(bench.reports(at + 5, at + 20_000), [], "20 s between packets");
    }
    // Silence is reported, and what follows counts as well.
    let sent = bench.reports(120_000, 122_000);
    assert!(sent.iter().all(|s| s.1.received == 5 && s.1.timed_out) && !sent.is_empty());
    bench.ask(122_000, Kind::Ack, 0, 0);
    assert_eq!(bench.reports(122_010, 130_000), []);
    bench.ask(130_000, Kind::Continue, 5, 0);
    bench.ask(130_100, Kind::Stop, 6, 0);
    let sent = bench.reports(130_105, 130_106);
    assert_eq!((sent[0].1.received, sent[0].1.timed_out), (7, false));
}

#[test]
fn ping_like_sessions_wait_for_rare_requests() {
    let mut bench = Bench::new();
    bench.ask(0, Kind::Init, 0, 1);
    for k in 0..4 {
        bench.reports(60_000 * i64::from(k), 60_000 * i64::from(k + 1));
        assert_eq!(bench.ask(60_000 * i64::from(k + 1), Kind::Request, k, 0), Some(Kind::Reply));
    }
    assert_eq!(bench.reports(240_000, 500_000), []);
    assert_eq!(bench.server.sessions(), 0);
}

#[test]
fn silent_sessions_make_room() {
    let mut server = Server::new(ServerRules { sessions: 2, ..ServerRules::default() });
    let mut open = |id: u16, at: i64| {
        let from = "192.0.2.1:40000".parse().unwrap();
        let arrival = Arrival { from, at: tick(at).wall, ttl: None, traffic_class: None };
        let packet = Header::new(Kind::Init, id, 0, 1).to_bytes();
        server.handle(&packet, &arrival, (), tick(at), &mut Vec::new()).map(drop)
    };
    assert_eq!((open(1, 0), open(2, 5000), open(3, 9000)), (Ok(()), Ok(()), Err(Silence::Limited)));
    assert_eq!((open(3, 10_000), open(4, 10_000)), (Ok(()), Err(Silence::Limited)));
}

#[test]
fn reports_go_the_way_the_last_packet_came() {
    let mut server = Server::<u8>::new(ServerRules::default());
    let from = "192.0.2.1:40000".parse().unwrap();
    let mut ask = |at: i64, kind: Kind, route: u8| {
        let packet = Header::new(kind, 7, 0, 2).at(tick(at).wall).to_bytes();
        let arrival = Arrival { from, at: tick(at + 5).wall, ttl: None, traffic_class: None };
        server.handle(&packet, &arrival, route, tick(at), &mut Vec::new()).unwrap();
        server.poll_transmit(tick(at), &mut Vec::new())
    };
    assert_eq!(ask(0, Kind::Init, 1), None);
    assert_eq!(ask(10, Kind::Stop, 2), Some((from, 2)));
}

/// Sessions are checked when something is due: the agenda holds each once.
#[test]
fn the_agenda_is_as_long_as_the_list_of_sessions() {
    let mut server = Server::<()>::new(ServerRules { sessions: 20_000, ..ServerRules::default() });
    let mut reports = 0;
    for at in 0..4 {
        for client in 0..20_000u16 {
            let from = SocketAddr::from(([10, 0, 0, 1], client));
            let from = if client < 1024 { SocketAddr::from(([10, 0, 0, 2], client + 1024)) } else { from };
            let arrival = Arrival { from, at: tick(at + 5).wall, ttl: None, traffic_class: None };
            let kind = [Kind::Init, Kind::Continue, Kind::Stop, Kind::Ack][at as usize];
            let packet = Header::new(kind, 7, at as u16, 2).at(tick(at).wall).to_bytes();
            server.handle(&packet, &arrival, (), tick(at), &mut Vec::new()).unwrap();
        }
        while server.poll_transmit(tick(at), &mut Vec::new()).is_some() {
            reports += 1;
        }
        assert_eq!((server.sessions.len(), server.agenda.len()), (20_000, 20_000));
    }
    assert_eq!(reports, 20_000);
    while server.poll_transmit(tick(125_000), &mut Vec::new()).is_some() {}
    assert_eq!((server.sessions.len(), server.agenda.len()), (0, 0));
}
