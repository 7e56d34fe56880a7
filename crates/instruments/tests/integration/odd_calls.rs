//! Captures of calls with known faults of the path, known pauses of the senders, and known effects of the recording. Each
//! kind is tested with as many seeds as the captures of [`super::odd_captures`].

use super::made_captures::{
    ETHERNET, Form, MS, RAW, Random, SECOND, TUNNELS, US, ip, is_as_stated, pcap, seeds, wrapped,
};
use jitlat_core::Direction;
use jitlat_core::answer::CauseId;
use jitlat_instruments::passive::{RtpCaptures, RtpOutcome, RtpSource};
use jitlat_instruments::{Stop, Unobserved};
use jitlat_passive::rtp::{RtpCall, RtpStream};
use std::path::PathBuf;

/// Number of packets that each side sends.
const PACKETS: usize = 500;
/// Payload type of telephone events, which is not signalled.
const EVENT: u8 = 101;
/// Largest jitter of the path.
const JITTER: i64 = 5 * MS;

/// Frames with their recorded times.
type Frames = Vec<(i64, Vec<u8>)>;

/// Counts that the analysis of one direction must find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Truth {
    streams: u64,
    packets: u64,
    lost: u64,
    duplicates: u64,
    reordered: u64,
    silences: u64,
    events: u64,
}

impl Truth {
    fn of<'a>(streams: impl Iterator<Item = &'a RtpStream>) -> Truth {
        streams.fold(Truth::default(), |sum, s| Truth {
            streams: sum.streams + 1,
            packets: sum.packets + s.packets,
            lost: sum.lost + s.lost,
            duplicates: sum.duplicates + s.duplicates,
            reordered: sum.reordered + s.reordered,
            silences: sum.silences + s.silences,
            events: sum.events + s.events,
        })
    }
}

/// Fate of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Arrives,
    Lost,
    Duplicated,
    Reordered,
}

/// Sender of one side of a call.
struct Sender {
    up: bool,
    form: Form,
    payload_type: u8,
    ssrc: u32,
    sequence: u16,
    timestamp: u32,
    ident: u16,
}

impl Sender {
    fn new(random: &mut Random, up: bool, form: Form) -> Sender {
        let payload_type = random.one_of(&[0, 8]);
        let (ssrc, sequence, timestamp) = (random.next() as u32, random.next() as u16, random.next() as u32);
        Sender { up, form, payload_type, ssrc, sequence, timestamp, ident: 1 }
    }

    /// Changes the source (SSRC), as after a transfer.
    fn change_source(&mut self, random: &mut Random) {
        (self.ssrc, self.sequence) = (self.ssrc ^ 0x5a5a, random.next() as u16);
        self.timestamp = random.next() as u32;
    }

    /// Returns the next IP packet, which has the timestamp `timestamp`.
    fn packet(&mut self, payload_type: u8, marker: bool, timestamp: u32, payload: &[u8]) -> Vec<u8> {
        let mut t = if self.up { [4000u16, 5000] } else { [5000, 4000] }.map(u16::to_be_bytes).concat();
        t.extend((20 + payload.len() as u16).to_be_bytes());
        t.extend([0, 0, 0x80, payload_type | u8::from(marker) << 7]);
        t.extend(self.sequence.to_be_bytes());
        t.extend([timestamp.to_be_bytes(), self.ssrc.to_be_bytes()].concat());
        t.extend(payload);
        self.sequence = self.sequence.wrapping_add(1);
        self.ident = self.ident.wrapping_add(1).max(1);
        ip(self.form, self.up, 17, self.ident, 64, &t)
    }
}

/// Returns the packets of one side of a call as they pass the capture point, in any order, and the truth. Pauses are in
/// the first third of the call, a change of the source and telephone events in the last third.
fn side(random: &mut Random, up: bool, form: Form, interval: i64) -> (Frames, Truth) {
    let mut sender = Sender::new(random, up, form);
    let ticks = (interval / 125_000) as u32;
    let (delay, begin) = (random.within(5, 90) * MS, random.within(0, 30) * MS);
    let jitter = random.within(0, JITTER);
    let (lossy, odd) = (random.within(0, 3), random.within(0, 2) == 0);
    let silence = (random.within(0, 2) == 0).then(|| random.within(60, 140) as usize);
    let change = (random.within(0, 3) == 0).then(|| random.within(400, 440) as usize);
    let event = (random.within(0, 2) == 0).then(|| random.within(350, 390) as usize);
    let mut truth = Truth { streams: 1 + u64::from(change.is_some()), ..Truth::default() };
    let (mut frames, mut sent) = (Frames::new(), begin);
    let mut last = Fate::Arrives;
    for k in 0..PACKETS {
        let mut marker = false;
        if silence == Some(k) {
            let pause = random.within(5, 100);
            sent += pause * interval;
            sender.timestamp = sender.timestamp.wrapping_add(pause as u32 * ticks);
            (marker, truth.silences) = (true, truth.silences + 1);
        }
        if change == Some(k) {
            sender.change_source(random);
            marker = true;
        }
        let is_event = event.is_some_and(|from| (from..from + 8).contains(&k));
        let packet = match is_event {
            true => {
                let from = event.map_or(0, |from| k - from) as u32;
                truth.events += u64::from(from == 0);
                let timestamp = sender.timestamp.wrapping_sub(from * ticks);
                let lasts = ((from + 1) * ticks) as u16;
                let body =
                    [5, if from > 4 { 0x8a } else { 10 }, lasts.to_be_bytes()[0], lasts.to_be_bytes()[1]];
                sender.packet(EVENT, from == 0, timestamp, &body)
            }
            false => sender.packet(sender.payload_type, marker, sender.timestamp, &[k as u8; 80]),
        };
        // The first packets of a source make it known, and the last one shows what is missing.
        let begins = |from: Option<usize>| from.is_some_and(|from| (from.max(1) - 1..from + 10).contains(&k));
        let is_plain = k < 10 || k + 2 >= PACKETS || is_event || begins(silence) || begins(change);
        let fate = match random.within(0, 1000) {
            _ if is_plain || last != Fate::Arrives => Fate::Arrives,
            n if n < lossy * 15 => Fate::Lost,
            n if odd && n >= 985 => Fate::Duplicated,
            n if odd && n >= 970 => Fate::Reordered,
            _ => Fate::Arrives,
        };
        last = fate;
        let arrives = sent + delay + random.within(0, jitter + 1);
        truth.packets += [1, 0, 2, 1][fate as usize];
        match fate {
            Fate::Arrives => frames.push((arrives, packet)),
            Fate::Lost => truth.lost += 1,
            Fate::Duplicated => {
                truth.duplicates += 1;
                frames.push((arrives, packet.clone()));
                frames.push((arrives + random.within(1500, 4000) * US, packet));
            }
            Fate::Reordered => {
                truth.reordered += 1;
                // The packet arrives after the next packet and before the one after that.
                frames.push((sent + delay + interval + JITTER + US, packet));
            }
        }
        sent += interval;
        sender.timestamp = sender.timestamp.wrapping_add(ticks);
    }
    (frames, truth)
}

/// Returns both sides of a call in the order of time, and the truth about each.
fn call(random: &mut Random) -> (Frames, [Truth; 2], Form) {
    let form = Form { v6: random.within(0, 3) == 0, numbered: random.within(0, 3) > 0 };
    let interval = random.one_of(&[10, 20, 30]) * MS;
    let [(mut frames, up), (down, of_down)] = [true, false].map(|up| side(random, up, form, interval));
    frames.extend(down);
    frames.sort_by_key(|f| f.0);
    (frames, [up, of_down], form)
}

fn analysed(link: u32, frames: &Frames) -> RtpOutcome {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("call.pcap");
    std::fs::write(&path, pcap(link, frames)).unwrap();
    let source = RtpSource::Files(vec![path]);
    RtpCaptures::default()
        .analyse(&source, &jitlat_verdict::options(), &Stop::new(), &mut Unobserved)
        .unwrap()
}

/// Asserts the results that a call must have, however it was recorded.
fn assert_call(r: &RtpOutcome, truth: [Truth; 2], context: &str) {
    let [call] = &r.result.calls[..] else { panic!("{context}: {} calls", r.result.calls.len()) };
    let of = |call: &RtpCall, direction: Direction| {
        let own = call.streams.iter().filter(move |s| s.direction == direction);
        own.map(|s| s.stream).collect::<Vec<_>>()
    };
    // The first packet may come from either side.
    let first = of(call, Direction::Up).iter().any(|k| r.result.streams[*k].from.port() == 4000);
    let truth = if first { truth } else { [truth[1], truth[0]] };
    for (direction, truth) in Direction::BOTH.into_iter().zip(truth) {
        let own = of(call, direction);
        let found = Truth::of(own.iter().map(|k| &r.result.streams[*k]));
        assert_eq!(found, truth, "{context}, {direction:?}");
        for analysed in own.iter().map(|k| &r.streams[*k]) {
            let delays = || analysed.samples.delay.iter();
            let (least, most) = (delays().min().unwrap(), delays().max().unwrap());
            let late = if truth.reordered > 0 { 30 * MS + JITTER } else { 0 };
            assert!(most - least <= JITTER + late + 5 * MS, "{context}, {direction:?}: {least} {most}");
            let answer = analysed.summary.answer.as_ref().unwrap();
            let wrong = [CauseId::Queue, CauseId::RouteChange, CauseId::ClockStep, CauseId::Outage];
            let wrong = answer.causes.iter().find(|cause| wrong.contains(&cause.id));
            assert_eq!(wrong, None, "{context}, {direction:?}");
        }
    }
    let changes: u64 = truth.iter().map(|t| t.streams - 1).sum();
    assert_eq!(call.ssrc_changes, changes, "{context}");
}

#[test]
fn what_happens_to_a_call_is_counted() {
    for seed in 0..seeds() {
        let mut random = Random(seed ^ 0xca11);
        let (frames, truth, _) = call(&mut random);
        let r = analysed(RAW, &frames);
        assert_call(&r, truth, &format!("seed {seed}"));
        assert_eq!((r.result.copies, r.result.recording.steps.len()), (0, 0), "seed {seed}");
    }
}

#[test]
fn a_clock_that_was_set_during_a_call_is_named_and_its_step_corrected() {
    for seed in 0..seeds() {
        let mut random = Random(seed ^ 0xc10c);
        let (mut frames, truth, _) = call(&mut random);
        let sizes = [30, -30, 70, -70, 150, -150, 900, -900, 17_000, -17_000, 3_600_000, -3_600_000];
        let by = random.one_of(&sizes) * MS + random.within(-9, 9) * MS / 10;
        // Both sides talk.
        let middle = frames.len() / 2 + random.within(0, 60) as usize;
        frames.iter_mut().skip(middle).for_each(|f| f.0 += by);
        let r = analysed(RAW, &frames);
        let steps = &r.result.recording.steps;
        let context = format!("seed {seed}, {by}: {steps:?}");
        let is_right = matches!(&steps[..], [s] if s.proven && is_as_stated(s.by_ns, s.error_ns, by));
        assert!(is_right, "{context}");
        assert_call(&r, truth, &context);
    }
}

#[test]
fn packets_of_a_call_that_were_recorded_twice_are_left_out() {
    for seed in 0..seeds() {
        let mut random = Random(seed ^ 0xd0b1);
        let (all, truth, form) = call(&mut random);
        let is_router = random.within(0, 2) == 0;
        let ethernet = |second: bool, packet: &[u8]| {
            let mut packet = packet.to_vec();
            let hop = u8::from(second && is_router);
            packet[if form.v6 { 7 } else { 8 }] -= hop;
            let kind: [u8; 2] = if form.v6 { [0x86, 0xdd] } else { [8, 0] };
            [&[2, 0, 0, 0, hop, 2, 2, 0, 0, 0, hop, 1], &kind[..], &packet].concat()
        };
        let mut frames = Frames::new();
        for (at, packet) in &all {
            frames.push((*at, ethernet(false, packet)));
            frames.push((at + random.within(1, 40) * US, ethernet(true, packet)));
        }
        frames.sort_by_key(|f| f.0);
        let r = analysed(ETHERNET, &frames);
        let context = format!("seed {seed}, {}", if is_router { "router" } else { "mirror" });
        assert_call(&r, truth, &context);
        assert_eq!(r.result.copies, all.len() as u64, "{context}");
    }
}

#[test]
fn calls_in_tunnels_are_those_outside() {
    for seed in 0..seeds().div_ceil(6) {
        for kind in TUNNELS {
            let mut random = Random(seed ^ 0x7e1);
            let (all, truth, form) = call(&mut random);
            let frames: Frames =
                all.iter().map(|(at, packet)| (*at, wrapped(kind, packet, form.v6))).collect();
            let r = analysed(RAW, &frames);
            let context = format!("seed {seed}, {kind}");
            assert_call(&r, truth, &context);
            assert_eq!(r.result.recording.tunnelled, all.len() as u64, "{context}");
        }
    }
}

#[test]
fn a_call_at_two_points_has_its_delays() {
    for seed in 0..seeds() {
        let mut random = Random(seed ^ 0x2bad);
        let (far, _, form) = call(&mut random);
        // The second point is at the called side, and its clock has another time.
        let delays = [random.within(10, 80) * MS, random.within(10, 80) * MS];
        let clock = random.one_of(&[0, 7 * SECOND, -3 * SECOND]) + random.within(-400, 400) * MS;
        let is_up = |packet: &[u8]| packet[if form.v6 { 40 } else { 20 }..][..2] == 4000u16.to_be_bytes();
        let mut points: [Frames; 2] = [Frames::new(), Frames::new()];
        for (at, packet) in &far {
            let up = is_up(packet);
            let late = delays[usize::from(!up)] + random.within(0, 900) * US;
            let mut other = packet.clone();
            let hop = if form.v6 { 7 } else { 8 };
            other[hop] -= 1;
            let (first, second) = if up { (packet.clone(), other) } else { (other, packet.clone()) };
            points[0].push((if up { *at } else { at + late }, first));
            points[1].push((clock + if up { at + late } else { *at }, second));
        }
        let folder = tempfile::tempdir().unwrap();
        let files = ["near", "far"].map(|name| folder.path().join(name));
        for (file, frames) in files.iter().zip(&mut points) {
            frames.sort_by_key(|f| f.0);
            std::fs::write(file, pcap(RAW, frames)).unwrap();
        }
        let source = RtpSource::Files(files.to_vec());
        let options = jitlat_verdict::options();
        let r = RtpCaptures::default().analyse(&source, &options, &Stop::new(), &mut Unobserved).unwrap();
        assert_eq!(r.between.len(), r.result.streams.len(), "seed {seed}");
        for (stream, between) in r.result.streams.iter().zip(&r.between) {
            let between = between.as_ref().unwrap();
            let way = usize::from(stream.from.port() != 4000);
            assert_eq!(between.summary.counts.lost, 0, "seed {seed}: {stream:?}");
            let (shift, error) = between.summary.correction().unwrap();
            let least = between.samples.delay.iter().min().unwrap() - shift;
            let wrong = (least - delays[way]) as f64;
            let causes: Vec<&str> =
                between.summary.answer.iter().flat_map(|a| &a.causes).map(|c| &*c.because).collect();
            assert!(
                wrong.abs() <= error + 1e6,
                "seed {seed}: {wrong} of {delays:?}, +/- {error}: {causes:?} {:?}",
                r.notes
            );
        }
    }
}
