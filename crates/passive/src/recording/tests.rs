use super::*;

fn udp(ident: u16, ttl: u8) -> Vec<u8> {
    let mut v =
        vec![0x45, 0, 0, 32, (ident >> 8) as u8, ident as u8, 0, 0, ttl, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    v.extend([0x13, 0x88, 0x13, 0x89, 0, 12, 0, 0, 1, 2, 3, 4]);
    v
}

fn run(frames: &[(i64, Vec<u8>)]) -> (Vec<String>, RecordingFacts) {
    let mut recording = Recording::inside_tunnels();
    let mut seen = Vec::new();
    let mut each = |s: Seen<'_>| {
        seen.push(match s {
            Seen::Packet(p) => format!("{} {:?}{}", p.at.0, p.copy, if p.is_late { " late" } else { "" }),
            Seen::Skipped(at, _, skip) => format!("{} {skip}", at.0),
            Seen::ClockSet => "set".to_owned(),
        });
    };
    for (at, data) in frames {
        let frame = Frame { at: WallTime(*at), link: LinkType::RAW, wire_length: data.len() as u32, data };
        recording.push(&frame, &mut each);
    }
    recording.finish(&mut each);
    (seen, recording.facts())
}

#[test]
fn every_frame_is_passed_on_once_and_in_order() {
    let frames = [(10, udp(1, 64)), (20, udp(1, 63)), (15, udp(2, 64)), (30, vec![0x45, 0])];
    let (seen, facts) = run(&frames);
    assert_eq!(
        seen,
        ["10 None", "20 Some(Elsewhere)", "15 None late", "30 cut before the end of its headers"]
    );
    assert_eq!((facts.copies, facts.disordered, facts.foreign.truncated()), (1, 1, 1));
}

#[test]
fn held_frames_are_passed_on_at_the_end() {
    const S: i64 = 1_000_000_000;
    let (seen, facts) = run(&[(100 * S, udp(1, 64)), (40 * S, udp(2, 64)), (41 * S, udp(3, 64))]);
    assert_eq!(seen.len(), 4);
    assert_eq!((&*seen[1], facts.steps.len(), facts.steps[0].proven), ("set", 1, true));
    assert_eq!(facts.notes(0).len(), 0);
}

/// Times at both ends of their range cannot be corrected by as much as they jumped. Each decision passes a frame on
/// nevertheless, so that any sequence of jumps ends.
#[test]
fn jumps_across_the_whole_range_of_times_end() {
    let times = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX / 2, i64::MAX - 1, i64::MAX];
    let mut frames = Vec::new();
    for k in 0..4096_usize {
        let at = times[(k * k + k / 8) % times.len()];
        frames.push((at, udp(k as u16, 64)));
    }
    let (seen, _) = run(&frames);
    assert_eq!(seen.iter().filter(|s| *s != "set").count(), frames.len());
}
