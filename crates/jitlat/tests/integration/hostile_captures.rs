//! Hostile captures: they are reported, and nothing breaks or grows without bound.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000 * SECOND;

fn jitlat(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_jitlat")).args(args).stdin(Stdio::null()).output().unwrap()
}

fn spp(dir: &Path, more: &[&str]) -> Output {
    let [r, m] = ["r.pcap", "m.pcap"].map(|n| dir.join(n).to_str().unwrap().to_owned());
    jitlat(&[&["spp", "-f", &r, "-F", &m], more].concat())
}

fn json(o: &Output) -> serde_json::Value {
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    serde_json::from_slice(&o.stdout).unwrap()
}

fn said(o: &Output) -> String {
    String::from_utf8_lossy(&[&o.stdout[..], &o.stderr].concat()).into_owned()
}

/// Returns a raw-IP capture with nanosecond timestamps.
fn pcap(packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut v: Vec<u8> =
        [0xa1b2_3c4du32, 2 | 4 << 16, 0, 0, 65_535, 101].iter().flat_map(|w| w.to_le_bytes()).collect();
    for (at, p) in packets {
        for w in [(at / SECOND) as u32, (at % SECOND) as u32, p.len() as u32, p.len() as u32] {
            v.extend(w.to_le_bytes());
        }
        v.extend(p);
    }
    v
}

fn udp4(src: [u8; 4], dst: [u8; 4], ports: [u16; 2], number: u32) -> Vec<u8> {
    let mut v = vec![0x45, 0, 0, 40];
    v.extend((number as u16).to_be_bytes());
    v.extend([0x40, 0, 64, 17, 0, 0]);
    v.extend([src, dst].concat());
    ports.iter().for_each(|p| v.extend(p.to_be_bytes()));
    v.extend([0, 20, 0, 0]);
    v.extend(u64::from(number).to_be_bytes());
    v.extend([7; 4]);
    v
}

fn udp6(src: u8, dst: u8, number: u32) -> Vec<u8> {
    let mut v = vec![0x60, 0, 0, 0, 0, 20, 17, 64];
    for last in [src, dst] {
        v.extend([0xfd, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    v.extend([0x13, 0x88, 0x13, 0x89, 0, 20, 0, 0]);
    v.extend(u64::from(number).to_be_bytes());
    v.extend([7; 4]);
    v
}

/// A packet as captured at both points: first at the reference, then at the monitor.
type Both = [Vec<u8>; 2];

/// Writes `n` exchanges, 10 ms apart: OUT takes 12 ms, IN 8 ms; the monitor's clock is ahead by `offset`.
fn write(dir: &Path, n: u32, offset: u64, out: impl Fn(u32) -> Both, back: impl Fn(u32) -> Both) {
    let (mut r, mut m) = (Vec::new(), Vec::new());
    for i in 0..n {
        let t = START + u64::from(i) * 10_000_000;
        let ([a, b], [c, d]) = (out(i), back(i));
        r.push((t, a));
        m.push((t + 12_000_000 + offset, b));
        m.push((t + 13_000_000 + offset, d));
        r.push((t + 21_000_000, c));
    }
    for (name, mut list) in [("r.pcap", r), ("m.pcap", m)] {
        list.sort_by_key(|p| p.0);
        std::fs::write(dir.join(name), pcap(&list)).unwrap();
    }
}

const A: [u8; 4] = [10, 0, 0, 1];
const B: [u8; 4] = [198, 51, 100, 2];
const NAT: [u8; 4] = [192, 0, 2, 9];

fn same(p: Vec<u8>) -> Both {
    [p.clone(), p]
}

#[test]
fn clocks_years_apart_do_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let years = 20 * 365 * 86_400 * SECOND;
    write(dir.path(), 200, years, |i| same(udp4(A, B, [1, 2], i)), |i| same(udp4(B, A, [2, 1], i)));
    let j = json(&spp(dir.path(), &["--json", "-"]));
    let s = &j["summary"];
    assert_eq!((&s["pairs"], &s["out"]["lost"], &s["in"]["lost"]), (&200.into(), &0.into(), &0.into()));
    assert_eq!((&s["rtt_ns"]["min"], &s["rtt_ns"]["max"]), (&20_000_000.into(), &20_000_000.into()));
    let off = s["clocks"]["offset_ns"].as_f64().unwrap() - years as f64;
    assert!(off.abs() <= 10e6 && s["clocks"]["offset_bound_ns"] == 10e6, "{}", s["clocks"]);
}

#[test]
fn addresses_are_found_also_of_ipv6_and_behind_nat() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 200, 5, |i| same(udp6(1, 2, i)), |i| same(udp6(2, 1, i)));
    let j = json(&spp(dir.path(), &["--json", "-"]));
    assert_eq!(
        (&j["reference_addresses"][0], &j["summary"]["pairs"]),
        (&"fd00:0:0:1::1".into(), &200.into())
    );
    let o = spp(dir.path(), &["-q", "-a", "fd00:0:0:1::1", "-A", "fd00:0:0:1::/64"]);
    assert_eq!(said(&o).lines().count(), 200);

    // First the address of the reference side, then its port, too, is translated on the path.
    for (ports, phrase) in
        [([1, 2], "addresses are translated"), ([40_001, 2], "addresses and ports are translated")]
    {
        let far = [ports[1], ports[0]];
        let out = |i| [udp4(A, B, [1, 2], i), udp4(NAT, B, ports, i)];
        // Only addresses distinguish an answer that repeats its question.
        let back = |i| [udp4(B, A, [2, 1], i + 100_000), udp4(B, NAT, far, i + 100_000)];
        write(dir.path(), 200, SECOND, out, back);
        let text = said(&spp(dir.path(), &["--summary", "--verbose"]));
        assert!(text.contains(phrase) && text.contains("192.0.2.9 seen at the monitor"), "{text}");
        let j = json(&spp(dir.path(), &["--json", "-"]));
        assert_eq!(
            (&j["summary"]["pairs"], &j["summary"]["rtt_ns"]["median"]),
            (&200.into(), &20_000_000.into())
        );
    }
    let o = spp(dir.path(), &["-a", "no-such-host.invalid", "-A", "198.51.100.2"]);
    assert!(o.status.code() == Some(2) && said(&o).contains("no host of that name"), "{}", said(&o));
}

#[test]
fn more_flows_than_the_limit_are_counted_together() {
    let dir = tempfile::tempdir().unwrap();
    const FLOWS: u32 = 70_000;
    let host = |i: u32| [10, (i >> 14) as u8, (i >> 7 & 127) as u8, (i & 127) as u8];
    write(dir.path(), FLOWS, 0, |i| same(udp4(host(i), B, [1, 2], i)), |i| same(udp4(B, host(i), [2, 1], i)));
    let j = json(&spp(dir.path(), &["--json", "-", "--per-flow", "-a", "10.0.0.0/8", "-A", "198.51.100.2"]));
    let flows = j["flows"].as_array().unwrap();
    assert_eq!(flows.len(), (1 << 16) + 1);
    let matched: u64 = flows.iter().map(|f| f["out"]["matched"].as_u64().unwrap()).sum();
    assert_eq!((matched, &flows[0]["flow"]), (FLOWS.into(), &"others".into()));
    assert_eq!(j["summary"]["pairs"], FLOWS);
}

#[test]
fn captures_of_different_times_and_of_one_point_twice_are_called_so() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 50, 0, |i| same(udp4(A, B, [1, 2], i)), |i| same(udp4(B, A, [2, 1], i)));
    let other: Vec<_> =
        (0..50).map(|i| (START + 3600 * SECOND + i, udp4(A, B, [1, 2], 1000 + i as u32))).collect();
    std::fs::write(dir.path().join("m.pcap"), pcap(&other)).unwrap();
    let o = spp(dir.path(), &[]);
    assert!(o.status.code() == Some(2) && said(&o).contains("do not overlap in time"), "{}", said(&o));
    std::fs::copy(dir.path().join("r.pcap"), dir.path().join("m.pcap")).unwrap();
    let text = said(&spp(dir.path(), &["--summary", "--verbose"]));
    assert!(text.contains("the same capture twice"), "{text}");
    let r = dir.path().join("r.pcap").to_str().unwrap().to_owned();
    let o = jitlat(&["tcp", &r, &r]);
    assert!(o.status.code() == Some(2) && said(&o).contains("no TCP segment"), "{}", said(&o));
    std::fs::write(dir.path().join("m.pcap"), pcap(&[])).unwrap();
    let o = spp(dir.path(), &[]);
    assert!(o.status.code() == Some(2) && said(&o).contains("contains no IP packets"), "{}", said(&o));
}

/// Sets each byte of headers and lengths to extreme values, one at a time.
#[test]
fn no_lie_about_a_length_breaks_anything() {
    let dir = tempfile::tempdir().unwrap();
    let tcp: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/spp/atm_tcp_up.ref.pcap");
    let good = std::fs::read(&tcp).unwrap()[..24 + 60 * 112].to_vec();
    let near = dir.path().join("r.pcap");
    std::fs::write(&near, &good).unwrap();
    let record = 24 + 30 * 112;
    // Record header, EtherType, IP version and lengths, TCP offset.
    let fields = [0, 4, 8, 12, 16 + 12, 16 + 14, 16 + 16, 16 + 20, 16 + 23, 16 + 46];
    for at in fields.map(|f| record + f).into_iter().chain([0, 4, 16, 20]) {
        for value in [[0; 4], [0xff; 4], [0x80, 0, 0, 0]] {
            let mut bad = good.clone();
            bad[at..at + 4].copy_from_slice(&value);
            std::fs::write(dir.path().join("m.pcap"), &bad).unwrap();
            let m = dir.path().join("m.pcap").to_str().unwrap().to_owned();
            for o in [spp(dir.path(), &["--json", "/dev/null", "--per-flow"]), jitlat(&["tcp", &m])] {
                let code = o.status.code();
                assert!(code == Some(0) || code == Some(2), "{code:?} with {value:?} at {at}: {}", said(&o));
            }
        }
    }
    for cut in [0, 10, 24, 30, record + 8, record + 60] {
        std::fs::write(dir.path().join("m.pcap"), &good[..cut]).unwrap();
        let code = spp(dir.path(), &["--summary", "--verbose"]).status.code();
        assert!(code == Some(0) || code == Some(2), "{code:?} cut at {cut}");
    }
}
