//! Captures as they occur in the field, made from known traffic: clocks that are set, copies, tunnels, fragments,
//! missing acknowledgements, coarse times. Each kind is tested with a few seeds, with 200 if `JITLAT_FULL=1`, or with the
//! number in `JITLAT_CAPTURES`.

use super::made_captures::{
    BEGIN, ETHERNET, Form, MS, RAW, Random, SECOND, TUNNELS, US, ip, is_as_stated, pcap, seeds, wrapped,
};
use jitlat_core::answer::{CauseId, Severity};
use jitlat_instruments::Stop;
use jitlat_instruments::TcpCaptures;
use jitlat_instruments::passive::{CaptureEvent, CaptureSource, Passive, one_point};
use jitlat_passive::CapturePoint;
use jitlat_passive::recording::RecordedStep;
use jitlat_passive::tcp::{TcpResult, answer};
use std::io::Cursor;
use std::path::PathBuf;

const SYN: u8 = 2;
const ACK: u8 = 16;

/// A segment at the capture point.
#[derive(Clone, Copy, Debug)]
struct Segment {
    at: i64,
    up: bool,
    seq: u32,
    ack: u32,
    flags: u8,
    payload: u16,
    /// TCP timestamp and echoed timestamp; `None` without the option.
    stamps: Option<(u32, u32)>,
    ident: u16,
    window: u16,
}

impl Segment {
    fn packet(&self, form: Form, ttl: u8) -> Vec<u8> {
        let ports: [u16; 2] = if self.up { [40_000, 80] } else { [80, 40_000] };
        let mut t = ports.map(u16::to_be_bytes).concat();
        t.extend(self.seq.to_be_bytes());
        t.extend(self.ack.to_be_bytes());
        let words = if self.stamps.is_some() { 8 } else { 5 };
        t.extend([words << 4, self.flags]);
        t.extend(self.window.to_be_bytes());
        t.extend([0, 0, 0, 0]);
        if let Some((value, echo)) = self.stamps {
            t.extend([1, 1, 8, 10]);
            t.extend([value.to_be_bytes(), echo.to_be_bytes()].concat());
        }
        t.extend((0..self.payload).map(|k| (k as u32 ^ self.seq) as u8));
        ip(form, self.up, 6, self.ident, ttl, &t)
    }
}

/// An upload over a path with the round trip `rtt`, captured near the client.
struct Upload {
    segments: Vec<Segment>,
    again: u64,
    rtt: i64,
}

/// Makes an upload of a few hundred segments with some real retransmissions; every segment is acknowledged.
fn upload(random: &mut Random, stamps: bool) -> Upload {
    let rtt = random.within(8, 120) * MS + random.within(0, 999) * US;
    let gap = random.within(3000, 9000) * US;
    let near = random.within(8, 60) * US;
    let base = random.next() as u32 >> 8;
    let ticks = |at: i64, host: u32| stamps.then_some((at / MS) as u32 + host);
    let mut list = Vec::new();
    let mut push = |at: i64, up: bool, seq: u32, ack: u32, flags: u8, payload: u16, echo: u32| {
        let stamps = ticks(at, if up { base } else { base ^ 0x55_5555 }).map(|value| (value, echo));
        list.push(Segment { at, up, seq, ack, flags, payload, stamps, ident: 0, window: 60_000 });
    };
    let stamp_of = |at: i64, host: u32| (at / MS) as u32 + host;
    let (client, server) = (base, base ^ 0x55_5555);
    push(0, true, 999, 0, SYN, 0, 0);
    push(rtt, false, 4999, 1000, SYN | ACK, 0, stamp_of(0, client));
    push(rtt + near, true, 1000, 5000, ACK, 0, stamp_of(rtt, server));
    let mut at = rtt + near + MS;
    let n = random.within(150, 320);
    let mut lost = Vec::new();
    let mut again = 0;
    for k in 0..n as u32 {
        let (seq, payload) = (1000 + k * 1000, 1000);
        push(at, true, seq, 5000, ACK | 8, payload, server);
        if random.within(0, 40) == 0 && lost.is_empty() && k > 4 && i64::from(k) < n - 60 {
            // Lost behind the point: later segments cause duplicate acknowledgements, then it is sent again.
            lost.push((at, seq));
        } else {
            let missing = lost.first().map(|l: &(i64, u32)| l.1);
            push(at + rtt, false, 5000, missing.unwrap_or(seq + 1000), ACK, 0, stamp_of(at, client));
        }
        if let Some(&(sent, missing)) = lost.first()
            && at - sent > rtt + 4 * gap
        {
            let now = at + gap / 3;
            push(now, true, missing, 5000, ACK | 8, 1000, server);
            push(now + rtt, false, 5000, seq + 1000, ACK, 0, stamp_of(now, client));
            again += 1;
            lost.clear();
        }
        at += gap;
    }
    list.sort_by_key(|s| s.at);
    // Cumulative acknowledgements never go back.
    let mut acked = 0;
    for s in list.iter_mut().filter(|s| !s.up && s.flags & SYN == 0) {
        s.ack = s.ack.max(acked);
        acked = s.ack;
    }
    for (k, s) in list.iter_mut().enumerate() {
        s.ident = k as u16 + 1;
    }
    Upload { segments: list, again, rtt }
}

fn analysed(link: u32, frames: &[(i64, Vec<u8>)]) -> TcpResult {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("odd.pcap");
    std::fs::write(&path, pcap(link, frames)).unwrap();
    let mut nobody = |_: &CaptureEvent<'_>| ();
    TcpCaptures::default().analyse(&[path], &Stop::new(), &mut nobody).unwrap()
}

/// Asserts the results that every upload must have, however it was recorded.
fn assert_upload(r: &TcpResult, upload: &Upload, seed: u64, kind: &str) {
    let c = &r.first.connections[0];
    let context = format!("{kind}, seed {seed}: {:?}", c.up);
    assert_eq!(r.first.connections.len(), 1, "{context}");
    assert_eq!((c.client.port(), c.server.port()), (40_000, 80), "{context}");
    assert_eq!((c.up.retransmissions, c.up.duplicates), (upload.again, 0), "{context}");
    let rtt = c.up.rtt_ack_ns.unwrap();
    assert!(rtt.min >= upload.rtt - MS && rtt.median <= upload.rtt + 2 * MS, "{context}");
    assert!(rtt.max <= upload.rtt + 60 * MS + upload.rtt, "{context}");
    let answer = answer(r);
    let wrong = [CauseId::Queue, CauseId::Duplication, CauseId::Reordering, CauseId::IncompleteLog];
    assert!(!answer.causes.iter().any(|cause| wrong.contains(&cause.id)), "{context}: {answer:?}");
    assert!(upload.again > 0 || answer.severity == Severity::Good, "{context}: {answer:?}");
}

fn form(random: &mut Random) -> Form {
    Form { v6: random.within(0, 3) == 0, numbered: random.within(0, 3) > 0 }
}

#[test]
fn a_clock_that_was_set_back_is_named_and_nothing_else() {
    for seed in 0..seeds() {
        let mut random = Random(seed);
        let stamps = random.within(0, 2) == 0;
        let (upload, form) = (upload(&mut random, stamps), form(&mut random));
        let by = -random.one_of(&[200 * MS, 500 * MS, SECOND, 17 * SECOND, 3600 * SECOND, 86_400 * SECOND]);
        let middle = upload.segments.len() / 2 + random.within(0, 40) as usize;
        let frames: Vec<_> = upload
            .segments
            .iter()
            .enumerate()
            .map(|(k, s)| (s.at + if k >= middle { by } else { 0 }, s.packet(form, 64)))
            .collect();
        let r = analysed(RAW, &frames);
        assert_upload(&r, &upload, seed, "set back");
        let answer = answer(&r);
        let clocks: Vec<i64> = answer
            .causes
            .iter()
            .filter(|cause| cause.id == CauseId::CaptureClock)
            .filter_map(|cause| cause.magnitude_ns)
            .collect();
        assert!(clocks.len() == 1 && (clocks[0] - by).abs() < 60 * MS, "seed {seed}: {by}, {clocks:?}");
        let steps = &r.first.recording.steps;
        let found = steps.len() == 1 && is_as_stated(steps[0].by_ns, steps[0].error_ns, by);
        assert!(found, "seed {seed}: {by}, {steps:?}");
    }
}

#[test]
fn a_clock_that_was_set_forward_is_found_by_timestamps() {
    for seed in 0..seeds() {
        let mut random = Random(seed ^ 0xf0);
        let (upload, form) = (upload(&mut random, true), form(&mut random));
        let by = random.one_of(&[150 * MS, 500 * MS, SECOND, 17 * SECOND, 3600 * SECOND]);
        let middle = upload.segments.len() / 2 + random.within(0, 40) as usize;
        let frames: Vec<_> = upload
            .segments
            .iter()
            .enumerate()
            .map(|(k, s)| (s.at + if k >= middle { by } else { 0 }, s.packet(form, 64)))
            .collect();
        let r = analysed(RAW, &frames);
        assert_upload(&r, &upload, seed, "set forward");
        let steps = &r.first.recording.steps;
        let found = steps.len() == 1 && is_as_stated(steps[0].by_ns, steps[0].error_ns, by);
        assert!(found, "seed {seed}: {by}, {steps:?}");
    }
}

#[test]
fn packets_recorded_twice_are_counted_and_left_out() {
    for seed in 0..seeds() {
        let mut random = Random(seed ^ 0xc0);
        let stamps = random.within(0, 2) == 0;
        let (upload, form) = (upload(&mut random, stamps), form(&mut random));
        // A router (other addresses, a hop more), the two ports of a mirror, or a bond and its member.
        let kind = random.one_of(&["router", "mirror", "bond"]);
        let later = if kind == "router" { random.within(5, 200) } else { random.within(1, 40) } * US;
        let ethernet = |second: bool, packet: &[u8]| {
            let hop = u8::from(second && kind == "router");
            let kind: [u8; 2] = if form.v6 { [0x86, 0xdd] } else { [8, 0] };
            [&[2, 0, 0, 0, hop, 2, 2, 0, 0, 0, hop, 1], &kind[..], packet].concat()
        };
        let mut frames = Vec::new();
        for s in &upload.segments {
            frames.push((s.at, ethernet(false, &s.packet(form, 64))));
            let ttl = if kind == "router" { 63 } else { 64 };
            frames.push((s.at + later, ethernet(true, &s.packet(form, ttl))));
        }
        frames.sort_by_key(|f| f.0);
        let r = analysed(ETHERNET, &frames);
        assert_upload(&r, &upload, seed, kind);
        assert_eq!(r.first.copies(), upload.segments.len() as u64, "seed {seed}, {kind}");
        assert!(r.notes.iter().any(|note| note.contains("more than once")), "{:?}", r.notes);
    }
}

/// Returns an IPv4 packet with another host in place of 10.0.0.1, another port in place of 40000, and a TTL of one hop
/// less, as on the far side of an address translation.
fn translated(packet: &[u8], up: bool) -> Vec<u8> {
    let mut v = packet.to_vec();
    let (host, port) = if up { (12, 20) } else { (16, 22) };
    v[host..host + 4].copy_from_slice(&[192, 0, 2, 9]);
    v[port..port + 2].copy_from_slice(&1024u16.to_be_bytes());
    v
}

#[test]
fn both_sides_of_an_address_translation_are_counted_once() {
    for seed in 0..seeds() {
        let mut random = Random(seed ^ 0x4a7);
        let stamps = random.within(0, 2) == 0;
        let upload = upload(&mut random, stamps);
        let form = Form { v6: false, numbered: !stamps };
        let later = random.within(5, 200) * US;
        let mut frames = Vec::new();
        for s in &upload.segments {
            // The client is on the near side, and the server beyond the translation.
            let (near, far) = if s.up { (64, 63) } else { (63, 64) };
            let (first, second) = if s.up { (0, later) } else { (later, 0) };
            frames.push((s.at + first, s.packet(form, near)));
            frames.push((s.at + second, translated(&s.packet(form, far), s.up)));
        }
        frames.sort_by_key(|f| f.0);
        let r = analysed(RAW, &frames);
        assert_upload(&r, &upload, seed, "translation");
        let n = upload.segments.len() as u64;
        assert_eq!((r.first.segments, r.first.recording.translated), (n, [1, n]), "seed {seed}");
        assert!(
            r.notes.iter().any(|note| note.contains("both sides of an address translation")),
            "{:?}",
            r.notes
        );
    }
}

/// Returns the packets of `senders`, two hosts in turn, each with its interval and its first time.
fn regular(random: &mut Random, senders: &[(i64, i64)]) -> Vec<(i64, Vec<u8>)> {
    let form = Form { v6: false, numbered: false };
    let mut frames = Vec::new();
    for (k, (interval, first)) in senders.iter().enumerate() {
        for n in 0..300i64 {
            let ports = [4000 + k as u16, 4001 + k as u16];
            let mut t = ports.map(u16::to_be_bytes).concat();
            t.extend([0, 180, 0, 0, 1, 2]);
            t.extend(n.to_be_bytes());
            t.extend([k as u8; 162]);
            let at = first + n * interval + random.within(0, 200) * US;
            frames.push((at, ip(form, k % 2 == 0, 17, 0, 64, &t)));
        }
    }
    frames.sort_by_key(|f| f.0);
    frames
}

#[test]
fn a_clock_that_was_set_forward_is_found_by_what_is_sent_at_regular_intervals() {
    const SENDERS: [(i64, i64); 4] = [(20 * MS, 0), (20 * MS, 7 * MS), (30 * MS, 4 * MS), (33 * MS, 11 * MS)];
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("odd.pcap");
    let steps = |frames: &[(i64, Vec<u8>)]| {
        std::fs::write(&path, pcap(RAW, frames)).unwrap();
        one_point(std::slice::from_ref(&path), &Stop::new()).unwrap().clock_steps
    };
    for seed in 0..seeds() {
        let mut random = Random(seed ^ 0x5e7);
        let by = random.one_of(&[110 * MS, 350 * MS, 1030 * MS, 3600 * SECOND + 70 * MS]);
        let all = regular(&mut random, &SENDERS);
        let middle = all.len() / 2 + random.within(0, 40) as usize;
        let mut set = all.clone();
        set.iter_mut().skip(middle).for_each(|f| f.0 += by);
        let found = steps(&set);
        let is_right = |step: &RecordedStep| step.proven && is_as_stated(step.by_ns, step.error_ns, by);
        let right = matches!(&found[..], [step] if is_right(step));
        assert!(right, "seed {seed}: {by}, {found:?}");
        // The recording pauses: packets are missing, or are delayed and recorded all at once.
        let pause = 2 * SECOND..2 * SECOND + random.within(110, 900) * MS;
        let missing: Vec<_> = all.iter().filter(|f| !pause.contains(&f.0)).cloned().collect();
        assert_eq!(steps(&missing), [], "seed {seed}: {pause:?}");
        let late = |at: i64| if pause.contains(&at) { pause.end + (at - pause.start) / 1000 } else { at };
        let mut late: Vec<_> = all.iter().map(|(at, packet)| (late(*at), packet.clone())).collect();
        late.sort_by_key(|f| f.0);
        assert_eq!(steps(&late), [], "seed {seed}: {pause:?}");
    }
}

#[test]
fn the_first_of_two_points_is_the_one_at_the_clients_in_whatever_order_they_are_given() {
    let folder = tempfile::tempdir().unwrap();
    let [near, far] = ["near.pcap", "far.pcap"].map(|name| folder.path().join(name));
    for seed in 0..seeds() {
        let mut random = Random(seed ^ 0xba);
        let (stamps, is_translated) = (random.within(0, 2) == 0, random.within(0, 3) > 0);
        let upload = upload(&mut random, stamps);
        let form = Form { v6: false, numbered: random.within(0, 2) == 0 };
        let (clock, half) = (random.one_of(&[0, 5 * SECOND]), upload.rtt / 2 - MS);
        let mut points = [Vec::new(), Vec::new()];
        for s in &upload.segments {
            let at_far = clock + if s.up { s.at + half } else { s.at - half };
            let [at_client, at_server] = [s.up, !s.up].map(|near| s.packet(form, if near { 64 } else { 63 }));
            points[0].push((s.at, at_client));
            points[1].push((at_far, if is_translated { translated(&at_server, s.up) } else { at_server }));
        }
        for (file, frames) in [&near, &far].into_iter().zip(&mut points) {
            frames.sort_by_key(|f| f.0);
            std::fs::write(file, pcap(RAW, frames)).unwrap();
        }
        for (files, is_exchanged) in [([&near, &far], false), ([&far, &near], true)] {
            let mut nobody = |_: &CaptureEvent<'_>| ();
            let files = files.map(Clone::clone);
            let r = TcpCaptures::default().analyse(&files, &Stop::new(), &mut nobody).unwrap();
            let context = format!("seed {seed}, {stamps} {is_translated} {form:?}: {:?}", r.notes);
            assert_eq!((r.is_exchanged, r.first.connections.len()), (is_exchanged, 1), "{context}");
            assert_eq!(r.first.connections[0].client.port(), 40_000, "{context}");
            let between = r.between[0].as_ref().unwrap();
            let lost = [&between.up, &between.down].map(|d| d.lost_between);
            assert_eq!(lost, [0; 2], "{context}");
            let at_both = between.up.at_both + between.down.at_both;
            assert!(at_both * 4 >= upload.segments.len() as u64 * 3, "{context}: {at_both}");
        }
    }
}

#[test]
fn connections_in_tunnels_are_those_outside() {
    for seed in 0..seeds().div_ceil(6) {
        for kind in TUNNELS {
            let mut random = Random(seed ^ 0x700);
            let (upload, form) = (upload(&mut random, true), form(&mut random));
            let frame = |s: &Segment| (s.at, wrapped(kind, &s.packet(form, 64), form.v6));
            let frames: Vec<_> = upload.segments.iter().map(frame).collect();
            let r = analysed(RAW, &frames);
            assert_upload(&r, &upload, seed, kind);
            assert_eq!(r.first.recording.tunnelled, frames.len() as u64, "{kind}");
        }
    }
}

#[test]
fn without_acknowledgements_there_are_no_round_trips() {
    for seed in 0..seeds() {
        let mut random = Random(seed ^ 0xac);
        let (think, pause) = (random.within(5, 60) * MS, random.within(1000, 9000) * MS);
        let mut frames = Vec::new();
        let form = form(&mut random);
        for k in 0..30u32 {
            let at = i64::from(k) * pause;
            let segment = |at, up, seq, ack, payload| Segment {
                at,
                up,
                seq,
                ack,
                flags: ACK | 8,
                payload,
                stamps: None,
                ident: 2 * k as u16 + u16::from(up) + 1,
                window: 60_000,
            };
            frames.push((at, segment(at, true, 1000 + 100 * k, 5000 + 300 * k, 100).packet(form, 64)));
            let answered = at + think;
            let answer = segment(answered, false, 5000 + 300 * k, 1100 + 100 * k, 300);
            frames.push((answered, answer.packet(form, 64)));
        }
        let r = analysed(RAW, &frames);
        let c = &r.first.connections[0];
        assert_eq!((c.up.rtt_ack_ns, c.down.rtt_ack_ns), (None, None), "seed {seed}");
        let answer = answer(&r);
        assert!(answer.causes.is_empty() && answer.severity == Severity::Unknown, "seed {seed}: {answer:?}");
    }
}

#[test]
fn coarse_times_are_named_and_make_no_queue() {
    for seed in 0..seeds() {
        let mut random = Random(seed ^ 0xca);
        let (upload, form) = (upload(&mut random, false), form(&mut random));
        let step = random.one_of(&[MS, 4 * MS, 10 * MS, 15_625 * US]);
        let frames: Vec<_> =
            upload.segments.iter().map(|s| (s.at / step * step, s.packet(form, 64))).collect();
        let r = analysed(RAW, &frames);
        assert_eq!(r.first.recording.resolution.map(|r| r.0), Some(step), "seed {seed}");
        let answer = answer(&r);
        assert!(!answer.causes.iter().any(|cause| cause.id == CauseId::Queue), "seed {seed}: {answer:?}");
        assert_eq!(r.first.connections[0].up.retransmissions, upload.again, "seed {seed}");
    }
}

#[test]
fn a_path_that_becomes_longer_or_shorter_is_no_queue() {
    for seed in 0..seeds() {
        let mut random = Random(seed ^ 0x9a7);
        let stamps = random.within(0, 2) == 0;
        let (upload, form) = (upload(&mut random, stamps), form(&mut random));
        let by = random.one_of(&[6, 25, 80, 400]) * MS;
        let is_longer = random.within(0, 2) == 0;
        let last = upload.segments.last().unwrap().at;
        let from = last / 2 - last / random.within(6, 20);
        let mut frames: Vec<_> = upload
            .segments
            .iter()
            .map(|s| {
                let late = if !s.up && (s.at >= from) == is_longer { by } else { 0 };
                (s.at + late, s.packet(form, 64))
            })
            .collect();
        frames.sort_by_key(|f| f.0);
        let r = analysed(RAW, &frames);
        let answer = answer(&r);
        let context = format!("seed {seed}, {by} {is_longer} {}: {answer:?}", upload.rtt);
        assert!(!answer.causes.iter().any(|cause| cause.id == CauseId::Queue), "{context}");
        // A level must last for half a second.
        if from.min(last - from) < upload.rtt + by + 600 * MS {
            continue;
        }
        let found: Vec<i64> = answer
            .causes
            .iter()
            .filter(|cause| cause.id == CauseId::RouteChange)
            .filter_map(|cause| cause.magnitude_ns)
            .collect();
        let by = if is_longer { by } else { -by };
        assert!(matches!(found[..], [size] if (size - by).abs() <= 2 * MS), "{context}");
    }
}

#[test]
fn what_several_queues_recorded_out_of_order_is_no_fault_of_the_path() {
    for seed in 0..seeds() {
        let mut random = Random(seed ^ 0x0d);
        let (upload, form) = (upload(&mut random, true), form(&mut random));
        let late = random.within(1, 4) * MS;
        // Data come through a queue that is read later than that of the acknowledgements.
        let mut frames: Vec<_> = upload
            .segments
            .iter()
            .map(|s| {
                (s.at + if s.up && random.within(0, 8) == 0 { late } else { 0 }, s.at, s.packet(form, 64))
            })
            .collect();
        frames.sort_by_key(|f| f.0);
        let frames: Vec<_> = frames.into_iter().map(|(_, at, packet)| (at, packet)).collect();
        let r = analysed(RAW, &frames);
        assert_upload(&r, &upload, seed, "several queues");
        assert!(r.first.recording.steps.is_empty(), "seed {seed}");
    }
}

/// Returns the captures of a call at two points, with 400 packets in each direction, and the delays of the directions.
/// `each` returns the frames that a point records for a packet.
fn call(
    random: &mut Random,
    each: impl Fn(usize, i64, Vec<u8>) -> Vec<(i64, Vec<u8>)>,
) -> ([Vec<u8>; 2], [i64; 2]) {
    let form = Form { v6: false, numbered: true };
    let delays = [random.within(5, 60) * MS, random.within(5, 60) * MS];
    let mut points: [Vec<(i64, Vec<u8>)>; 2] = [Vec::new(), Vec::new()];
    for k in 0..400i64 {
        for up in [true, false] {
            let ports: [u16; 2] = if up { [5000, 5002] } else { [5002, 5000] };
            let mut t = ports.map(u16::to_be_bytes).concat();
            t.extend([0, 180, 0, 0]);
            t.extend((0..172).map(|b| (b as i64 * 3 + k) as u8));
            let packet = ip(form, up, 17, (k + 1) as u16 + if up { 0 } else { 20_000 }, 64, &t);
            let sent = k * 20 * MS + if up { 0 } else { 7 * MS } + random.within(0, 300) * US;
            let arrives = sent + delays[usize::from(!up)] + random.within(0, 1500) * US;
            let times = if up { [sent, arrives] } else { [arrives, sent] };
            for (point, at) in times.into_iter().enumerate() {
                points[point].extend(each(point, at, packet.clone()));
            }
        }
    }
    let files = points.map(|mut list| {
        list.sort_by_key(|f| f.0);
        list
    });
    (files.map(|list| pcap(RAW, &list)), delays)
}

/// Returns the capture `file` with its clock set by `by` ns at the time `from`; the order of the packets stays.
fn set_clock(file: &[u8], from: i64, by: i64) -> Vec<u8> {
    let mut v = file.to_vec();
    let mut at = 24;
    while at < v.len() {
        let word = |k: usize| u32::from_le_bytes(*v[at + k..].first_chunk().unwrap());
        let (time, length) = (i64::from(word(0)) * SECOND + i64::from(word(4)), word(8) as usize);
        if time >= BEGIN + from {
            let time = time + by;
            v[at..at + 4].copy_from_slice(&((time / SECOND) as u32).to_le_bytes());
            v[at + 4..at + 8].copy_from_slice(&((time % SECOND) as u32).to_le_bytes());
        }
        at += 16 + length;
    }
    v
}

fn matched(files: [Vec<u8>; 2]) -> jitlat_passive::PassiveResult {
    let mut nobody = |_: &CaptureEvent<'_>| ();
    let [a, b] = files;
    let points = [("a", a), ("b", b)]
        .map(|(name, file)| CaptureSource::Reader(name.to_owned(), Box::new(Cursor::new(file))));
    Passive::default().follow_captures(points, &Stop::new(), &mut nobody).unwrap().result
}

#[test]
fn a_clock_of_one_of_two_points_is_corrected() {
    for seed in 0..seeds() {
        let mut random = Random(seed ^ 0x25);
        let (mut files, delays) = call(&mut random, |_, at, packet| vec![(at, packet)]);
        let point = random.one_of(&[CapturePoint::Reference, CapturePoint::Monitor]);
        let by = random.one_of(&[30 * MS, 100 * MS, -100 * MS, 700 * MS, -700 * MS, 4 * SECOND]);
        let from = random.within(3000, 5000) * MS;
        files[point as usize] = set_clock(&files[point as usize], from, by);
        let r = matched(files);
        let steps = r.clock_steps();
        let context = format!("seed {seed}, {point:?} {by}: {steps:?}");
        assert!(steps.len() == 1 && steps[0].point == point, "{context}");
        assert!(is_as_stated(steps[0].by_ns, steps[0].error_ns, by), "{context}");
        let counts = [&r.summary.out.counts, &r.summary.back.counts].map(|c| (c.matched, c.lost));
        assert_eq!(counts, [(400, 0); 2], "{context}");
        for (way, delay) in [&r.summary.out, &r.summary.back].into_iter().zip(delays) {
            let variation = way.delay_variation_ns.unwrap();
            assert!(variation.max < 6 * MS, "{context}: {variation:?} {delay}");
        }
        let rtt = r.summary.rtt_ns.unwrap();
        assert!(rtt.min >= delays[0] + delays[1] - MS, "{context}: {rtt:?}");
        assert_eq!(r.clock_causes().iter().map(|c| c.id).collect::<Vec<_>>(), [CauseId::CaptureClock]);
    }
}

/// Cuts an IPv4 packet into fragments of `size` bytes of payload.
fn fragments(packet: &[u8], size: usize) -> Vec<Vec<u8>> {
    let (header, payload) = packet.split_at(20);
    let count = payload.len().div_ceil(size);
    payload
        .chunks(size)
        .enumerate()
        .map(|(k, part)| {
            let mut v = header.to_vec();
            v[2..4].copy_from_slice(&(20 + part.len() as u16).to_be_bytes());
            let more = if k + 1 < count { 0x2000 } else { 0 };
            v[6..8].copy_from_slice(&(more | (k * size / 8) as u16).to_be_bytes());
            v.extend(part);
            v
        })
        .collect()
}

#[test]
fn fragments_are_the_packets_that_they_were() {
    for seed in 0..seeds() {
        let mut random = Random(seed ^ 0xf7);
        let (size, reversed) = (random.one_of(&[40usize, 64, 96, 128]), random.within(0, 2) == 0);
        let at_both = random.within(0, 3) == 0;
        let (files, delays) = call(&mut random, |point, at, packet| {
            if point == 0 && !at_both {
                return vec![(at, packet)];
            }
            let mut parts = fragments(&packet, size);
            if reversed {
                parts.reverse();
            }
            parts.into_iter().zip(0..).map(|(part, k)| (at + k * US, part)).collect()
        });
        let r = matched(files);
        let counts = [&r.summary.out.counts, &r.summary.back.counts].map(|c| (c.matched, c.lost));
        assert_eq!(counts, [(400, 0); 2], "seed {seed}, {size} bytes");
        assert_eq!(r.captures[1].recording.fragments[1..], [800, 0], "seed {seed}");
        let rtt = r.summary.rtt_ns.unwrap();
        assert!((rtt.median - delays[0] - delays[1]).abs() < 4 * MS, "seed {seed}: {rtt:?}");
    }
}

#[test]
fn one_point_inside_a_tunnel_and_one_outside_share_the_packets() {
    for (seed, kind) in TUNNELS.into_iter().enumerate() {
        let mut random = Random(seed as u64 ^ 0x2a);
        let (files, _) = call(&mut random, |point, at, packet| match point {
            0 => vec![(at, packet)],
            _ => vec![(at, wrapped(kind, &packet, false))],
        });
        let r = matched(files);
        let counts = [&r.summary.out.counts, &r.summary.back.counts].map(|c| (c.matched, c.lost));
        assert_eq!((counts, r.plan.inside), ([(400, 0); 2], [false, true]), "{kind}");
    }
}
