use super::*;
use crate::{LinkType, decode};

fn fragment(ident: u16, offset: usize, more: bool, payload: &[u8]) -> Vec<u8> {
    let mut v = vec![0x45, 0];
    v.extend((20 + payload.len() as u16).to_be_bytes());
    v.extend(ident.to_be_bytes());
    v.extend(((offset as u16 / 8) | if more { 0x2000 } else { 0 }).to_be_bytes());
    v.extend([64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    v.extend(payload);
    v
}

/// Length, transport bytes and ports of a packet.
type Whole = (u32, Vec<u8>, Option<(u16, u16)>);

fn push(f: &mut Fragments, at: i64, bytes: &[u8]) -> Option<Whole> {
    let p = decode(LinkType::RAW, bytes, bytes.len() as u32).unwrap();
    let whole = f.push(WallTime(at), &p)?;
    let p = whole.packet().unwrap();
    assert!(!p.is_fragment());
    Some((p.length, p.transport().to_vec(), p.ports()))
}

fn payload() -> Vec<u8> {
    let mut v = vec![0x13, 0x88, 0x13, 0x89, 0, 100, 0, 0];
    v.extend(0..92);
    v
}

#[test]
fn fragments_in_any_order_make_their_packet() {
    let p = payload();
    let parts =
        [fragment(7, 0, true, &p[..40]), fragment(7, 40, true, &p[40..80]), fragment(7, 80, false, &p[80..])];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]] {
        let mut f = Fragments::keeping(256);
        assert_eq!(push(&mut f, 0, &parts[order[0]]), None);
        // The same fragment again changes nothing, and neither does one of another packet.
        assert_eq!(push(&mut f, 0, &parts[order[0]]), None);
        assert_eq!(push(&mut f, 0, &fragment(8, 0, true, &p[..40])), None);
        assert_eq!(push(&mut f, 1, &parts[order[1]]), None);
        assert_eq!(push(&mut f, 2, &parts[order[2]]), Some((120, p.clone(), Some((5000, 5001)))));
        assert_eq!((f.whole, f.incomplete()), (1, 1));
    }
}

#[test]
fn overlaps_and_impossible_ranges_are_refused() {
    let p = payload();
    let mut f = Fragments::keeping(256);
    push(&mut f, 0, &fragment(7, 0, true, &p[..40]));
    // Another beginning of the header, as an attack would send it.
    push(&mut f, 0, &fragment(7, 8, true, &p[8..40]));
    assert_eq!(push(&mut f, 0, &fragment(7, 40, false, &p[40..])), None);
    let mut f = Fragments::keeping(256);
    push(&mut f, 0, &fragment(7, 0, true, &p[..39]));
    assert_eq!(push(&mut f, 0, &fragment(7, 40, false, &p[40..])), None, "not a multiple of eight");
    let mut f = Fragments::keeping(256);
    push(&mut f, 0, &fragment(7, 65_528, false, &p[..40]));
    assert_eq!(push(&mut f, 0, &fragment(7, 0, true, &p[..40])), None, "longer than a packet can be");
}

#[test]
fn what_waits_is_bounded_and_given_up_in_time() {
    let p = payload();
    let mut f = Fragments::keeping(256);
    for ident in 0..1000 {
        push(&mut f, 0, &fragment(ident, 0, true, &p[..40]));
    }
    assert_eq!((f.open.len(), f.incomplete()), (MAX_OPEN, 1000));
    push(&mut f, REASSEMBLY_TIMEOUT.0 + 1, &fragment(1, 0, true, &p[..40]));
    assert_eq!(f.open.len(), 1);
    // Many tiny fragments of one packet.
    let mut f = Fragments::keeping(256);
    for k in 0..1000 {
        push(&mut f, 0, &fragment(7, 16 * k, true, &p[..8]));
    }
    assert!(f.open[0].ranges.len() <= MAX_FRAGMENTS && f.open[0].payload.len() <= 256);
}
