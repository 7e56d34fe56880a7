use super::*;
use crate::clock;
use jitlat_passive::packet::decode;
use std::io::Write as _;
use std::net::{IpAddr, UdpSocket};

/// Starts a capture on the loopback device. If that is not possible, prints the reason and returns `None`.
fn loopback(test: &str) -> Option<InterfaceCapture> {
    match InterfaceCapture::open("lo", InterfaceSettings::default()) {
        Ok(live) => Some(live),
        Err(e) => {
            assert!(std::env::var_os("JITLAT_REQUIRE_PRIVILEGED").is_none(), "{test}: {e}");
            let _ = writeln!(io::stderr(), "skipped: {test}: {e}");
            None
        }
    }
}

/// Returns times and lengths of UDP packets to `port`, until `wanted` packets have arrived or two seconds
/// have passed.
fn lengths(live: &mut InterfaceCapture, port: u16, wanted: usize) -> Vec<(WallTime, u32)> {
    let mut seen = Vec::new();
    for _ in 0..100 {
        live.poll(Duration::from_millis(20), |f| {
            let Ok(p) = decode(f.link, f.data, f.wire_length) else { return };
            if p.ports().is_some_and(|(_, to)| to == port) {
                seen.push((f.at, p.length));
            }
        })
        .unwrap();
        if seen.len() >= wanted {
            break;
        }
    }
    seen
}

#[test]
fn each_packet_is_seen_once_stamped_and_with_its_whole_length() {
    let Some(mut live) = loopback("each_packet_is_seen_once_stamped_and_with_its_whole_length") else {
        return;
    };
    let to = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = to.local_addr().unwrap().port();
    let before = clock::wall();
    for length in [10, 1200, 9000] {
        to.send_to(&vec![0; length], ("127.0.0.1", port)).unwrap();
    }
    let seen = lengths(&mut live, port, 3);
    assert_eq!(seen.iter().map(|s| s.1).collect::<Vec<_>>(), [38, 1228, 9028]);
    assert!(seen.iter().all(|s| s.0 >= before && s.0 <= clock::wall()));
    assert!(live.frames() >= 3);
    assert_eq!(live.drops(), 0);
}

#[test]
fn what_is_passed_over_still_came_out_of_the_queue() {
    let test = "what_is_passed_over_still_came_out_of_the_queue";
    let Some(mut live) = loopback(test) else { return };
    // A separate address, because other tests use the loopback device as well.
    live.limit_to(&["127.81.7.3".parse().unwrap()]).unwrap();
    let to = UdpSocket::bind("127.81.7.3:0").unwrap();
    to.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let port = to.local_addr().unwrap().port();
    // A ring block may still contain packets from before the filter was set; they are delivered before the
    // first packet sent here.
    to.send_to(&[0; 9], ("127.81.7.3", port)).unwrap();
    assert_eq!(lengths(&mut live, port, 1).len(), 1);
    while live.poll(Duration::from_millis(200), |_| ()).unwrap() > 0 {}
    let before = live.frames();
    for _ in 0..3 {
        to.send_to(&[0; 9], ("127.81.7.3", port)).unwrap();
        to.recv(&mut [0; 16]).unwrap();
    }
    // Each packet passes the device twice, but is delivered once.
    let mut taken = 0;
    while taken < 6 {
        let now = live.poll(Duration::from_secs(10), |_| ()).unwrap();
        assert!(now > 0, "{taken} were taken");
        taken += now;
    }
    assert_eq!((taken, live.frames() - before), (6, 3));
    assert_eq!(live.poll(Duration::ZERO, |_| ()).unwrap(), 0);
}

#[test]
fn the_kernel_passes_only_the_hosts_asked_for() {
    let Some(mut live) = loopback("the_kernel_passes_only_the_hosts_asked_for") else { return };
    let to = UdpSocket::bind("0.0.0.0:0").unwrap();
    let port = to.local_addr().unwrap().port();
    let long = UdpSocket::bind("[::1]:0").unwrap();
    for (hosts, expected) in [
        (vec!["127.77.0.0/16"], vec![29]),
        (vec!["127.78.0.1"], vec![30]),
        (vec!["127.77.0.1", "127.78.0.0/31", "::2", "fe80::/10"], vec![29, 30]),
        (vec!["::/0"], vec![29, 30, 31]),
        (vec!["::2", "::3"], vec![]),
        (vec![], vec![29, 30, 31]),
    ] {
        let hosts: Vec<Prefix> = hosts.iter().map(|h| h.parse().unwrap()).collect();
        live.limit_to(&hosts).unwrap();
        to.send_to(&[0; 1], ("127.77.0.1", port)).unwrap();
        to.send_to(&[0; 2], ("127.78.0.1", port)).unwrap();
        to.send_to(&[0; 3], ("127.79.0.1", port)).unwrap();
        // The capture gets a packet before its socket does, so the filter may change once all packets have
        // arrived. A marker packet that passes every filter ends the wait.
        for _ in 0..3 {
            to.recv(&mut [0; 8]).unwrap();
        }
        live.limit_to(&[]).unwrap();
        to.send_to(&[0; 100], ("127.77.0.1", port)).unwrap();
        to.recv(&mut [0; 128]).unwrap();
        let mut seen = Vec::new();
        while !seen.contains(&128) {
            let more = lengths(&mut live, port, 1);
            assert!(!more.is_empty(), "{hosts:?}: {seen:?}");
            seen.extend(more.iter().map(|s| s.1));
        }
        seen.pop();
        assert_eq!(seen, expected, "{hosts:?}");
    }
    live.limit_to(&[IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]).into(), "fd00::/8".parse().unwrap()]).unwrap();
    let port = long.local_addr().unwrap().port();
    long.send_to(&[0; 5], ("::1", port)).unwrap();
    assert_eq!(lengths(&mut live, port, 1).iter().map(|s| s.1).collect::<Vec<_>>(), [53]);
}

#[test]
fn what_cannot_be_listened_to_is_said() {
    let error = InterfaceCapture::open("nosuch0", InterfaceSettings::default())
        .err()
        .map(|e| e.to_string())
        .unwrap_or_default();
    assert!(error.contains("'nosuch0'") && error.contains("lo"), "{error}");
    assert_eq!(find_interface("127.0.0.1".parse().unwrap()).as_deref(), Some("lo"));
}

#[test]
fn a_tag_the_kernel_took_out_is_known() {
    let mut details = Details::default();
    let fields = |status: u32| {
        let mut d = Vec::new();
        for w in [status, 1518, 256] {
            d.extend_from_slice(&w.to_ne_bytes());
        }
        for h in [0u16, 14, 0x2005, 0x88a8] {
            d.extend_from_slice(&h.to_ne_bytes());
        }
        d
    };
    details.auxiliary(&fields(0));
    assert_eq!((details.length, details.tag), (Some(1518), None));
    details.auxiliary(&fields(libc::TP_STATUS_VLAN_VALID));
    assert_eq!(details.tag, Some([0x81, 0, 0x20, 5]));
    details.auxiliary(&fields(libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID));
    assert_eq!(details.tag, Some([0x88, 0xa8, 0x20, 5]));
}

#[test]
fn a_ring_and_the_queue_deliver_the_same_packets() {
    let open = |ring| InterfaceCapture::open("lo", InterfaceSettings { ring, ..Default::default() });
    let (Ok(mut ring), Ok(mut queue)) = (open(true), open(false)) else {
        assert!(std::env::var_os("JITLAT_REQUIRE_PRIVILEGED").is_none(), "not permitted");
        return;
    };
    assert!(ring.delay() > queue.delay(), "this system has rings");
    // Other tests use the loopback device as well.
    for capture in [&ring, &queue] {
        capture.limit_to(&["127.81.9.1".parse().unwrap()]).unwrap();
    }
    let ours = |f: &Frame<'_>, port| {
        decode(f.link, f.data, f.wire_length).is_ok_and(|p| p.ports().is_some_and(|(_, to)| to == port))
    };
    let to = UdpSocket::bind("127.81.9.1:0").unwrap();
    let port = to.local_addr().unwrap().port();
    let mut seen = [Vec::new(), Vec::new()];
    // Enough packets for several blocks of the ring; many of them are truncated.
    for round in 0..60 {
        for k in 0..100 {
            to.send_to(&vec![k as u8; 1 + (round * 37 + k * 61) % 1400], ("127.81.9.1", port)).unwrap();
        }
        for (capture, seen) in [&mut ring, &mut queue].into_iter().zip(&mut seen) {
            if round == 59 {
                capture.settle();
            }
            let mut take = |f: Frame<'_>| {
                if ours(&f, port) {
                    seen.push((f.at, f.wire_length, f.data.to_vec()));
                }
            };
            while capture.poll(Duration::ZERO, &mut take).unwrap() > 0 {}
        }
    }
    assert_eq!([ring.drops(), queue.drops()], [0, 0]);
    assert_eq!(seen.each_ref().map(Vec::len), [6000, 6000]);
    assert!(seen[0] == seen[1], "stamps, lengths and bytes");
}
