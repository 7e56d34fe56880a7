//! `jitlat spp` on captures whose pairs are known.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/spp").join(name)
}

fn spp(reference: &Path, monitor: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_jitlat"))
        .arg("spp")
        .args([Path::new("-f"), reference, Path::new("-F"), monitor])
        .args(more)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn pair(name: &str, more: &[&str]) -> Output {
    spp(&data(&format!("{name}.ref.pcap")), &data(&format!("{name}.mon.pcap")), more)
}

fn words(o: &Output) -> Vec<Vec<String>> {
    let text = String::from_utf8(o.stdout.clone()).unwrap();
    text.lines().map(|l| l.split_whitespace().map(str::to_owned).collect()).collect()
}

fn expected(name: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(data(&format!("{name}.rtt.csv"))).unwrap();
    text.lines().skip(1).map(|l| l.split(',').map(str::to_owned).collect()).collect()
}

const ALL: [&str; 10] = [
    "atm_udp40",
    "atm_udp340",
    "atm_udp1240",
    "htb_udp340",
    "atm_tcp_up",
    "htb_tcp_up",
    "atm_loss_udp340",
    "var_noid_loss_udp340",
    "var_skew_udp340",
    "var_disorder_udp340",
];

#[test]
fn every_pair_of_every_capture_to_the_microsecond() {
    for name in ALL {
        for addresses in [&[][..], &["-a", "10.77.1.2", "-A", "10.77.2.0/24"]] {
            let o = pair(name, &[&["-c", "-p", "-O", "-q"], addresses].concat());
            assert!(
                o.status.success() && o.stderr.is_empty(),
                "{name}: {}",
                String::from_utf8_lossy(&o.stderr)
            );
            assert_eq!(words(&o), expected(name), "{name} {addresses:?}");
        }
    }
}

#[test]
fn the_manner_of_the_caia_tool_has_all_but_the_last_pair() {
    for name in ["atm_udp40", "atm_udp340", "atm_loss_udp340", "htb_tcp_up", "var_skew_udp340"] {
        let o = pair(name, &["-c", "-p", "-O", "-q", "--compat", "-a", "10.77.1.2", "-A", "10.77.2.2"]);
        let (got, all) = (words(&o), expected(name));
        assert!(
            got.len() >= all.len() - 1 && got[..] == all[..got.len()],
            "{name}: {} of {}",
            got.len(),
            all.len()
        );
    }
    // Its default fields cannot tell packets without identification apart; another mask can.
    let masked = pair(
        "var_noid_loss_udp340",
        &["-c", "-p", "-O", "-q", "-#", "3135", "-a", "10.77.1.2", "-A", "10.77.2.2"],
    );
    assert_eq!(words(&masked), expected("var_noid_loss_udp340"));
    let slipped =
        pair("var_noid_loss_udp340", &["--compat", "--summary", "-a", "10.77.1.2", "-A", "10.77.2.2"]);
    assert!(String::from_utf8_lossy(&slipped.stdout).contains("have no IP identification"));
}

#[test]
fn columns_are_those_asked_for() {
    let first = |more: &[&str]| words(&pair("atm_udp340", &[&["-q"], more].concat())).remove(0).join(" ");
    assert_eq!(first(&[]), "1795178768.454145 0.048927");
    assert_eq!(first(&["-c", "--sizes", "--rate"]), "1 1795178768.454145 0.048927 368 368 1.0");
    assert_eq!(first(&["-b", "-p"]).split(' ').nth(2), Some("0.007818"));
}

#[test]
fn losses_are_counted_each_way() {
    let o = pair("atm_loss_udp340", &["--json", "-"]);
    let json: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
    let s = &json["summary"];
    assert_eq!((&s["pairs"], &s["out"]["lost"], &s["in"]["lost"]), (&420.into(), &4.into(), &15.into()));
    assert_eq!((&s["out"]["matched"], &s["in"]["matched"]), (&446.into(), &435.into()));
    assert_eq!(json["reference_addresses"][0], "10.77.1.2");
    let skew = pair("var_skew_udp340", &["--json", "-"]);
    let json: serde_json::Value = serde_json::from_slice(&skew.stdout).unwrap();
    let ppm = json["summary"]["clocks"]["skew_ppm"].as_f64().unwrap();
    assert!((ppm - 40.0).abs() < 1.0, "{ppm}");
}

#[test]
fn several_files_and_standard_input_are_read_like_one() {
    let dir = tempfile::tempdir().unwrap();
    let whole = std::fs::read(data("atm_udp340.ref.pcap")).unwrap();
    // The first 24 + 400 records of 16 + 96 bytes, and the rest under a header of its own.
    let cut = 24 + 400 * 112;
    let (a, b) = (dir.path().join("a.pcap"), dir.path().join("b.pcap"));
    std::fs::write(&a, &whole[..cut]).unwrap();
    std::fs::write(&b, [&whole[..24], &whole[cut..]].concat()).unwrap();
    let o = Command::new(env!("CARGO_BIN_EXE_jitlat"))
        .args(["spp", "-cpOq", "-f"])
        .args([&a, &b])
        .args(["-F", "-"])
        .stdin(std::fs::File::open(data("atm_udp340.mon.pcap")).unwrap())
        .output()
        .unwrap();
    assert_eq!(words(&o), expected("atm_udp340"));
}

#[test]
fn what_cannot_be_measured_is_explained() {
    let said = |o: &Output| (o.status.code(), String::from_utf8_lossy(&o.stderr).into_owned());
    let (code, text) = said(&spp(&data("atm_udp340.ref.pcap"), &data("atm_udp40.mon.pcap"), &[]));
    assert!(
        code == Some(2) && text.contains("no packet in common") && text.contains("do not overlap"),
        "{text}"
    );
    let (code, text) = said(&pair("atm_udp340", &["-a", "192.0.2.1", "-A", "10.77.2.2"]));
    assert!(code == Some(2) && text.contains("between 10.77.1.2 and 10.77.2.2"), "{text}");
    let (code, text) = said(&spp(&data("README.md"), &data("atm_udp40.mon.pcap"), &[]));
    assert!(code == Some(2) && text.contains("is not a capture"), "{text}");
    let same = data("atm_udp340.ref.pcap");
    let (code, text) = said(&spp(&same, &same, &[]));
    assert!(code == Some(0) && text.contains("the same capture twice"), "{text}");
    let (code, text) = said(&spp(Path::new("-"), Path::new("-"), &[]));
    assert!(code == Some(2) && text.contains("only one"), "{text}");
}
