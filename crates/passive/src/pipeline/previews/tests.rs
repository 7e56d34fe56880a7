use super::super::testing::{echo, frame, host, sides, udp};
use super::*;

#[test]
fn the_beginning_of_a_capture_is_kept() {
    let (short, long) = (udp((1, 2), 1, b"short"), udp((2, 1), 2, &[7; 400]));
    let mut head = CaptureHead::default();
    head.push(&frame(10, &short));
    head.push(&Frame { wire_length: 999, ..frame(20, &long) });
    let frames: Vec<_> = head.frames().map(|f| (f.at.0, f.link, f.wire_length, f.data.to_vec())).collect();
    assert_eq!(
        frames,
        [(10, LinkType::RAW, 33, short), (20, LinkType::RAW, 999, long[..BYTES_PER_FRAME].to_vec())]
    );
    assert_eq!(head.available(), BYTES_PER_FRAME);
    let previews = head.previews(40);
    assert_eq!(previews.iter().map(|p| (p.at.0, p.src)).collect::<Vec<_>>(), [(10, host(1)), (20, host(2))]);
    assert_eq!(previews[0].ports, Some((5000, 5000)));
    assert!(!head.is_full());
}

#[test]
fn what_is_available_is_what_the_shortest_cut_leaves() {
    let packet = udp((1, 2), 1, &[7; 200]);
    let mut head = CaptureHead::default();
    for captured in [228, 100, 60, 80] {
        head.push(&Frame { wire_length: 228, ..frame(10, &packet[..captured]) });
    }
    assert_eq!(head.available(), 60);
    let mut whole = CaptureHead::default();
    whole.push(&frame(10, &packet));
    assert_eq!(whole.available(), BYTES_PER_FRAME);
}

#[test]
fn a_head_is_full_after_so_many_frames() {
    let mut head = CaptureHead::default();
    for n in 0..MAX_FRAMES {
        assert!(!head.is_full(), "{n}");
        head.push(&frame(0, &[]));
    }
    assert!(head.is_full());
}

#[test]
fn echoes_alone_are_no_traffic() {
    let holds = |packets: &[Vec<u8>]| {
        let mut head = CaptureHead::default();
        packets.iter().for_each(|p| head.push(&frame(0, p)));
        head.pairs_without_echoes(&sides(), false)
    };
    assert!(!holds(&[]) && !holds(&[echo((1, 2), true), echo((2, 1), false)]));
    assert!(!holds(&[echo((1, 2), true), udp((1, 3), 1, b"x")]), "between others");
    assert!(!holds(&[echo((1, 2), true), udp((2, 1), 1, b"x")]), "unanswered");
    assert!(holds(&[echo((1, 2), true), udp((2, 1), 1, b"x"), udp((1, 2), 2, b"x")]));
    // One answer to many packets, and five pings.
    let pings: Vec<_> = (0..5).flat_map(|_| [echo((1, 2), true), echo((2, 1), false)]).collect();
    let unanswered: Vec<_> = (0..20).map(|k| udp((1, 2), k, b"x")).collect();
    assert!(!holds(&[&pings[..], &unanswered, &[udp((2, 1), 1, b"x")]].concat()));
    assert!(holds(&[&pings[..], &unanswered, &[udp((2, 1), 1, b"x"), udp((2, 1), 2, b"x")]].concat()));
}

/// Returns a sample of packets with these numbers as payload.
fn sample(numbers: core::ops::Range<u32>) -> Vec<PacketPreview> {
    let mut sample = PreviewSample::new(64, false);
    for n in numbers {
        sample.push(&frame(n.into(), &udp((1, 2), 1, &n.to_be_bytes())));
    }
    sample.into_previews()
}

#[test]
fn a_sample_is_chosen_by_content() {
    let all = MAX_SAMPLE as u32;
    let whole = sample(0..all);
    assert_eq!((whole.len(), whole[5].at), (MAX_SAMPLE, WallTime(5)));
    let half = sample(0..all + 1);
    assert!((MAX_SAMPLE * 2 / 5..MAX_SAMPLE * 3 / 5).contains(&half.len()), "{}", half.len());
    assert!(half.is_sorted_by_key(|p| p.at));
    // For packets in both captures, a capture that begins later selects the same ones.
    let later = sample(1000..all + 1001);
    let both = |list: &[PacketPreview]| -> Vec<WallTime> {
        list.iter().map(|p| p.at).filter(|at| (1000..=i64::from(all)).contains(&at.0)).collect()
    };
    assert_eq!(both(&half), both(&later));
}

#[test]
fn one_packet_over_and_over_does_not_fill_the_memory() {
    for payload in [b"a", b"b", b"c", b"d"] {
        let packet = udp((1, 2), 1, payload);
        let mut sample = PreviewSample::new(64, false);
        (0..2 * MAX_SAMPLE as i64 + 10).for_each(|n| sample.push(&frame(n, &packet)));
        assert!(sample.into_previews().len() <= 2 * MAX_SAMPLE);
    }
}
