use super::super::testing::{frame, udp};
use super::*;

#[test]
fn frames_come_back_as_they_were_added() {
    let packets = [udp((1, 2), 1, b"a"), udp((2, 1), 2, b"longer"), udp((1, 2), 3, b"")];
    let mut batch = FrameBatch::default();
    assert_eq!((batch.len(), batch.is_empty(), batch.latest()), (0, true, None));
    for (at, packet) in [20, 30, 10].into_iter().zip(&packets) {
        batch.push(&Frame { wire_length: 1000, ..frame(at, packet) });
    }
    assert_eq!((batch.len(), batch.is_empty(), batch.latest()), (3, false, Some(WallTime(30))));
    let read: Vec<_> = batch.frames().map(|f| (f.at.0, f.link, f.wire_length, f.data.to_vec())).collect();
    let expected: Vec<_> =
        [20, 30, 10].into_iter().zip(packets).map(|(at, data)| (at, LinkType::RAW, 1000, data)).collect();
    assert_eq!(read, expected);
}
