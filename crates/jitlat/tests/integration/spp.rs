//! `jitlat spp` on captures whose pairs are known.

use crate::schema;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/spp").join(name)
}

fn spp(reference: &Path, monitor: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_jitlat"))
        .env("LC_ALL", "C")
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

fn fields(o: &Output) -> Vec<Vec<String>> {
    let text = String::from_utf8(o.stdout.clone()).unwrap();
    text.lines().map(|l| l.split_whitespace().map(str::to_owned).collect()).collect()
}

fn expected(name: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(data(&format!("{name}.rtt.csv"))).unwrap();
    text.lines().skip(1).map(|l| l.split(',').map(str::to_owned).collect()).collect()
}

const ALL: [&str; 11] = [
    "atm_udp40",
    "atm_udp340",
    "atm_udp640",
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
            assert_eq!(fields(&o), expected(name), "{name} {addresses:?}");
        }
    }
}

#[test]
fn the_manner_of_the_caia_tool_has_all_but_the_last_pair() {
    for name in ["atm_udp40", "atm_udp340", "atm_loss_udp340", "htb_tcp_up", "var_skew_udp340"] {
        let o = pair(name, &["-c", "-p", "-O", "-q", "--compat", "-a", "10.77.1.2", "-A", "10.77.2.2"]);
        let (got, all) = (fields(&o), expected(name));
        assert!(
            got.len() >= all.len() - 1 && got[..] == all[..got.len()],
            "{name}: {} of {}",
            got.len(),
            all.len()
        );
    }
    // The default fields cannot distinguish packets without identification; another mask can.
    let masked = pair(
        "var_noid_loss_udp340",
        &["-c", "-p", "-O", "-q", "-#", "3135", "-a", "10.77.1.2", "-A", "10.77.2.2"],
    );
    assert_eq!(fields(&masked), expected("var_noid_loss_udp340"));
    let slipped = pair(
        "var_noid_loss_udp340",
        &["--compat", "--summary", "--verbose", "-a", "10.77.1.2", "-A", "10.77.2.2"],
    );
    assert!(String::from_utf8_lossy(&slipped.stdout).contains("have no IP identification"));
}

#[test]
fn columns_are_those_asked_for() {
    let first = |more: &[&str]| fields(&pair("atm_udp340", &[&["-q"], more].concat())).remove(0).join(" ");
    assert_eq!(first(&[]), "1795178768.454145 0.048927");
    assert_eq!(first(&["-c", "--sizes", "--rate"]), "1 1795178768.454145 0.048927 368 368 1.0");
    assert_eq!(first(&["-b", "-p"]).split(' ').nth(2), Some("0.007818"));
}

#[test]
fn losses_are_counted_each_way() {
    let json = json(&pair("atm_loss_udp340", &["--json", "-"]));
    let s = &json["summary"];
    assert_eq!((&s["pairs"], &s["out"]["lost"], &s["in"]["lost"]), (&420.into(), &4.into(), &15.into()));
    assert_eq!((&s["out"]["matched"], &s["in"]["matched"]), (&446.into(), &435.into()));
    assert_eq!(json["reference_addresses"][0], "10.77.1.2");
    let skew = self::json(&pair("var_skew_udp340", &["--json", "-"]));
    let ppm = skew["summary"]["clocks"]["skew_ppm"].as_f64().unwrap();
    assert!((ppm - 40.0).abs() < 1.0, "{ppm}");
}

#[test]
fn several_files_and_standard_input_are_read_like_one() {
    let dir = tempfile::tempdir().unwrap();
    let whole = std::fs::read(data("atm_udp340.ref.pcap")).unwrap();
    // The first 24 + 400 records of 16 + 96 bytes, and the rest after a second header.
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
    assert_eq!(fields(&o), expected("atm_udp340"));
}

#[test]
fn the_summary_is_one_screen() {
    let o = pair("atm_loss_udp340", &["--summary"]);
    let screen = String::from_utf8(o.stdout).unwrap();
    // The last lines repeat the command with its paths.
    let (screen, _) = screen.split_once("Next ").unwrap();
    assert!(screen.lines().count() <= 22 && screen.lines().all(|l| l.len() <= 80), "{screen}");
    insta::assert_snapshot!(screen);
}

#[test]
fn tables_that_were_asked_for_come_before_the_screen() {
    for (asked, head) in [
        (&["--per-flow"][..], "  flow\n"),
        (&["--per-prefix", "24"], "  flow\n"),
        (&["--interval", "20s"], "Windows of 20.00 s\n"),
        (&["--link", "pppoa-vc,up=128k,down=512k"], "bands"),
    ] {
        let page = String::from_utf8(pair("atm_udp340", &[asked, &["--summary"]].concat()).stdout).unwrap();
        let alone = String::from_utf8(pair("atm_udp340", &["--summary"]).stdout).unwrap();
        let first = alone.lines().next().unwrap();
        let (tables, screen) = page.split_once(first).unwrap_or_else(|| panic!("{asked:?}: {page}"));
        assert!(tables.contains(head), "{asked:?}: {page}");
        let (screen, _) = screen.split_once("Next ").unwrap();
        assert!(screen.lines().count() <= 22 && screen.lines().all(|l| l.len() <= 80), "{screen}");
    }
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
    let (code, text) = said(&spp(&same, &same, &["--verbose"]));
    assert!(code == Some(0) && text.contains("the same capture twice"), "{text}");
    let (code, text) = said(&spp(Path::new("-"), Path::new("-"), &[]));
    assert!(code == Some(2) && text.contains("only one"), "{text}");
}

fn json(o: &Output) -> serde_json::Value {
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    let document: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
    if document["instrument"] == "spp" && document["captures"].is_object() {
        schema::assert_valid("spp", &document);
    }
    document
}

#[test]
fn both_ways_go_through_the_common_analysis_and_their_logs_say_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("x");
    let o = pair("atm_loss_udp340", &["--json", "-", "--log", log.to_str().unwrap()]);
    let ways = json(&o)["directions"].clone();
    let counts = |s: &serde_json::Value| {
        ["sent", "lost", "duplicate", "out_of_sequence"].map(|k| s["counts"][k].as_u64().unwrap())
    };
    assert_eq!((counts(&ways[0]), counts(&ways[1])), ([450, 4, 0, 0], [450, 15, 0, 0]));
    assert_eq!(
        (&ways[0]["header"]["command"], &ways[1]["header"]["command"]),
        (&"SENDING".into(), &"SEND_ME".into())
    );
    assert_eq!(
        (&ways[0]["header"]["src_ip"], &ways[1]["header"]["src_ip"]),
        (&"10.77.1.2".into(), &"10.77.2.2".into())
    );
    // Both points use one clock: the estimate is off by at most half the smallest round trip.
    let clock = &ways[0]["clock"];
    let (offset, bound) = (clock["offset_ns"].as_f64().unwrap(), clock["bound_ns"].as_f64().unwrap());
    assert!(offset.abs() <= bound && bound < 25e6, "{clock}");
    let again = Command::new(env!("CARGO_BIN_EXE_jitlat"))
        .args(["analyze", "--json", "-"])
        .args([dir.path().join("x.up"), dir.path().join("x.down")])
        .output()
        .unwrap();
    let again = json(&again)["directions"].clone();
    for k in 0..2 {
        for key in ["counts", "latency", "pdv", "ipdv", "reordering", "clock"] {
            assert_eq!(again[k][key], ways[k][key], "{key}");
        }
        assert_eq!(again[k]["loss"]["run_length_hist"], ways[k]["loss"]["run_length_hist"]);
    }
}

#[test]
fn flows_prefixes_and_protocols_apart() {
    let j = json(&pair("atm_tcp_up", &["--json", "-", "--per-flow"]));
    let f = &j["flows"][0];
    assert_eq!((&f["flow"], &f["pairs"]), (&"tcp 10.77.1.2:33472 - 10.77.2.2:5022".into(), &751.into()));
    assert_eq!(
        (&f["out"]["matched"], &f["out"]["lost"], &f["in"]["lost"]),
        (&774.into(), &33.into(), &0.into())
    );
    assert_eq!(f["rtt_ns"]["min"], j["summary"]["rtt_ns"]["min"]);
    let j = json(&pair("atm_tcp_up", &["--json", "-", "--per-prefix", "16"]));
    assert_eq!(j["flows"][0]["flow"], "10.77.0.0/16 - 10.77.0.0/16");
    assert_eq!(pair("atm_tcp_up", &["--only", "udp"]).status.code(), Some(2));
    assert_eq!(fields(&pair("atm_tcp_up", &["-q", "--only", "tcp:5022"])).len(), 751);
}

#[test]
fn bands_are_found_and_explained() {
    let j = json(&pair("htb_tcp_up", &["--json", "-", "--link", "pppoe-llc,up=128k,down=512k"]));
    let level = &j["summary"]["levels"][0];
    assert!((level["spacing_ns"].as_f64().unwrap() - 106e6).abs() < 0.1e6, "{level}");
    assert!(
        level["explained"][0].as_str().unwrap().contains("OUT packet of 1450 bytes, 32 cells"),
        "{level}"
    );
    assert_eq!(json(&pair("htb_udp340", &["--json", "-"]))["summary"]["levels"], serde_json::json!([]));
}

#[test]
fn figures_stand_in_one_report() {
    let dir = tempfile::tempdir().unwrap();
    let (page, plots, ping) =
        (dir.path().join("r.html"), dir.path().join("plots"), dir.path().join("ping.txt"));
    let lines: Vec<_> = (1..30)
        .map(|s| format!("64 bytes from 10.77.2.2: icmp_seq={s} ttl=64 time={}.5 ms", 40 + s))
        .collect();
    std::fs::write(&ping, lines.join("\n")).unwrap();
    let paths = [&page, &plots, &ping].map(|p| p.to_str().unwrap().to_owned());
    let o =
        pair("atm_udp340", &["--html", &paths[0], "--plots", &paths[1], "--ping", &paths[2], "--summary"]);
    let text = String::from_utf8_lossy(&o.stdout);
    assert!(text.contains("ping in the file             29   41.50 ms"), "{text}");
    for id in
        ["rtt", "rtt-ping", "rtt-histogram", "rtt-cdf", "pair-rate", "variation", "out-jitter", "in-jitter"]
    {
        for kind in ["svg", "png"] {
            assert!(plots.join(format!("{id}.{kind}")).exists(), "{id}.{kind}");
        }
    }
    let html = std::fs::read_to_string(&page).unwrap();
    for part in
        ["Round trips of captured traffic", "RTT per pair", "450 captured packets", "id=\"figure-rtt-cdf\""]
    {
        assert!(html.contains(part), "{part}");
    }
}

/// Returns an ICMP echo in an Ethernet record of a capture: a request, or a reply from the far host.
fn echo(at_us: u64, number: u8, reply: bool) -> Vec<u8> {
    let (a, b) = ([10, 77, 1, 2], [10, 77, 2, 2]);
    let (from, to) = if reply { (b, a) } else { (a, b) };
    let mut frame = vec![2u8; 12];
    frame.extend([8, 0, 0x45, 0, 0, 28, 0, number, 0x40, 0, 64, 1, 0, 0]);
    frame.extend([from, to].concat());
    frame.extend([if reply { 0 } else { 8 }, 0, 0, 0, 0, 9, 0, number]);
    let header =
        [(at_us / 1_000_000) as u32, (at_us % 1_000_000) as u32, frame.len() as u32, frame.len() as u32];
    [header.map(u32::to_le_bytes).concat(), frame].concat()
}

#[test]
fn echoes_of_the_capture_and_of_the_file_are_two_sets() {
    let dir = tempfile::tempdir().unwrap();
    let (capture, output) = (dir.path().join("ref.pcap"), dir.path().join("ping.txt"));
    // 30 echoes after the traffic: 40 ms in the capture, half a millisecond more in ping's own output.
    let mut packets = std::fs::read(data("atm_udp340.ref.pcap")).unwrap();
    let mut lines = Vec::new();
    for k in 0..30u8 {
        let at = 1_795_178_800_000_000 + u64::from(k) * 1_000_000;
        packets.extend([echo(at, k, false), echo(at + 40_000, k, true)].concat());
        lines.push(format!(
            "[{}.040500] 64 bytes from 10.77.2.2: icmp_seq={k} ttl=64 time=40.5 ms",
            at / 1_000_000
        ));
    }
    std::fs::write(&capture, packets).unwrap();
    std::fs::write(&output, lines.join("\n")).unwrap();
    let ping = ["--ping", output.to_str().unwrap()];
    let monitor = data("atm_udp340.mon.pcap");
    let document = json(&spp(&capture, &monitor, &[&ping[..], &["--json", "-"]].concat()));
    let of = |key: &str| (document[key]["count"].as_u64(), document[key]["mean"].as_f64());
    assert_eq!(of("ping_rtt_ns"), (Some(30), Some(40e6)));
    assert_eq!(of("ping_file_rtt_ns"), (Some(30), Some(40.5e6)));
    let text = spp(&capture, &monitor, &[&ping[..], &["--summary", "--verbose"]].concat()).stdout;
    let text = String::from_utf8(text).unwrap();
    for row in ["ping in the capture          30   40.00 ms", "ping in the file             30   40.50 ms"] {
        assert!(text.contains(row), "{row}\n{text}");
    }
}

/// Captures of the payload sweep at one of the points, in order.
fn sweep(point: &str) -> Vec<PathBuf> {
    [40, 340, 640, 1240].map(|payload| data(&format!("atm_udp{payload}.{point}.pcap"))).to_vec()
}

/// Runs `jitlat spp` over the payload sweep.
fn spp_sweep(more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_jitlat"))
        .args(["spp", "-f"])
        .args(sweep("ref"))
        .arg("-F")
        .args(sweep("mon"))
        .args(more)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

const ADSL: &str = "pppoe-llc,up=128k,down=512k,tunnel=28";

#[test]
fn table_two_is_whole_in_every_form() {
    let o = spp_sweep(&["--summary", "--link", ADSL]);
    let text = String::from_utf8_lossy(&o.stdout).into_owned();
    let row = |start: &str| {
        let line =
            text.lines().find(|l| l.trim_start().starts_with(start)).unwrap_or_else(|| panic!("{text}"));
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("368 "), "368 368 437 10 8.28 33.13 41.41 46.80 48.94 48.98 5.39 7.54 7.57");
    assert_eq!(row("668 "), "668 668 422 16 13.25 53.00 66.25 71.70 73.61 73.68 5.45 7.36 7.43");
    let o = spp_sweep(&["--json", "-", "--link", ADSL]);
    let document = json(&o);
    let size = &document["sizes"][1];
    let ms = |v: &serde_json::Value| (v.as_f64().unwrap() / 1e4).round() / 100.0;
    assert_eq!(
        [&size["min_rtt_ns"], &size["median_rtt_ns"], &size["mean_rtt_ns"]].map(ms),
        [46.8, 48.94, 48.98]
    );
    let model = &size["model"];
    assert_eq!(
        (&model["out_cells"], ms(&model["rtt_ns"]), ms(&model["median_above_ns"])),
        (&10.into(), 41.41, 7.54)
    );
    let o = spp_sweep(&["-q", "--sizes-csv", "-", "--link", ADSL]);
    let rows = String::from_utf8(o.stdout).unwrap();
    let lines: Vec<Vec<&str>> = rows.lines().map(|l| l.split(',').collect()).collect();
    assert_eq!((lines.len(), lines[0].len(), lines[2][0]), (5, 14, "368"), "{rows}");
    let column = |name: &str| lines[0].iter().position(|c| *c == name).unwrap();
    assert_eq!(lines[2][column("median_rtt_ns")], size["median_rtt_ns"].to_string());
    assert_eq!(lines[2][column("model_rtt_ns")], "41406250");
    let without = spp_sweep(&["-q", "--sizes-csv", "-"]);
    assert!(String::from_utf8(without.stdout).unwrap().contains(",,,"));
}

#[test]
fn four_sizes_tell_the_rate_of_the_link() {
    let fit = json(&spp_sweep(&["--json", "-", "--link", "fit,tunnel=28"]))["link"].clone();
    let rate = fit["series_rate"].as_f64().unwrap();
    assert!((rate - 102_400.0).abs() < 150.0 && fit["cells_assumed"] == true, "{fit}");
    let o = spp_sweep(&["--summary", "--link", "fit,tunnel=28"]);
    let text = String::from_utf8_lossy(&o.stdout);
    for words in ["steps of 48 bytes (ATM cells)", "cells are assumed", "102.39 kbps", "pppoe-llc"] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    let one = pair("atm_udp340", &["--summary", "--link", "fit"]);
    assert!(String::from_utf8_lossy(&one.stdout).contains("here are 1"));
}

#[test]
fn several_captures_are_several_curves() {
    let dir = tempfile::tempdir().unwrap();
    let plots = dir.path().to_str().unwrap();
    let names = ["--label", "40 bytes,340,640,1240"];
    let o = spp_sweep(&[&names[..], &["--plots", plots, "--link", ADSL]].concat());
    let text = String::from_utf8_lossy(&o.stdout);
    assert!(o.status.success() && text.lines().count() == 5, "{o:?}");
    assert!(text.contains("40 bytes        429   17.84 ms   19.79 ms"), "{text}");
    let figure = |id: &str| std::fs::read_to_string(dir.path().join(format!("{id}.svg"))).unwrap();
    for id in ["captures-rtt", "captures-rtt-cdf"] {
        assert!(figure(id).contains(">40 bytes<") && figure(id).contains(">1240<"), "{id}");
    }
    assert!(figure("40-bytes-rtt").contains("Round trip over time"));
    let all = json(&spp_sweep(&[&names[..], &["--json", "-"]].concat()));
    assert_eq!(
        (&all["captures"][3]["label"], &all["captures"][3]["summary"]["pairs"]),
        (&"1240".into(), &438.into())
    );
    let rows = spp_sweep(&[&names[..], &["--csv", "-"]].concat()).stdout;
    assert_eq!(String::from_utf8(rows).unwrap().lines().count(), 5);
    let page = dir.path().join("page.html");
    assert!(spp_sweep(&[&names[..], &["-q", "--html", page.to_str().unwrap()]].concat()).status.success());
    assert!(std::fs::read_to_string(&page).unwrap().contains("Round trips of several captures"));
    for (wrong, said) in
        [(&["--label", "a,b"][..], "2 names"), (&["--label", "a,b,c,d", "--as", "hdr=x"], "--as hdr")]
    {
        let o = spp_sweep(wrong);
        assert!(o.status.code() == Some(2) && String::from_utf8_lossy(&o.stderr).contains(said), "{o:?}");
    }
}

#[test]
fn figures_by_size_within_a_range_and_with_periods() {
    let dir = tempfile::tempdir().unwrap();
    let plots = dir.path().to_str().unwrap();
    let o = spp_sweep(&["-q", "--plots", plots, "--link", ADSL, "--mark", "1s-8s=first", "--to", "60s"]);
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    let figure = |id: &str| std::fs::read_to_string(dir.path().join(format!("{id}.svg"))).unwrap();
    let by_size = figure("rtt-by-size");
    for words in ["model: the link", "means", "Only to 60.00 s"] {
        assert!(by_size.contains(words), "{words}");
    }
    assert!(figure("rtt-cdf-by-size").contains("1268 bytes"));
    assert!(figure("packet-sizes").contains("at the monitor"));
    assert!(figure("pair-rate").contains("pair rate over packet rate"));
    for id in ["rtt", "pair-rate", "variation"] {
        assert!(figure(id).contains(">first<"), "{id}");
    }
    assert!(!figure("rtt-cdf").contains(">first<"));
}

#[test]
fn thresholds_are_for_both_ways() {
    assert_eq!(pair("atm_loss_udp340", &["-q", "--fail-if", "loss>2%"]).status.code(), Some(1));
    assert_eq!(pair("atm_loss_udp340", &["-q", "--fail-if", "loss>20%"]).status.code(), Some(0));
}

#[test]
fn windows_of_each_way_add_up_to_the_whole() {
    let o = pair("atm_loss_udp340", &["--interval", "10s", "--json", "-"]);
    let v = json(&o);
    for (way, name) in v["directions"].as_array().unwrap().iter().zip(["out", "in"]) {
        let windows = way["intervals"].as_array().unwrap();
        assert!(windows.len() >= 3 && windows.iter().all(|w| w["summary"]["latency"]["mean"].is_number()));
        let sum = |key: &str| windows.iter().map(|w| w[key].as_u64().unwrap()).sum::<u64>();
        assert_eq!(sum("lost"), v["summary"][name]["lost"].as_u64().unwrap());
        assert_eq!(sum("accepted"), v["summary"][name]["matched"].as_u64().unwrap());
    }
    let text =
        String::from_utf8(pair("atm_loss_udp340", &["--interval", "10s", "--summary"]).stdout).unwrap();
    assert_eq!(text.matches("Windows of 10.00 s").count(), 2, "{text}");
}

#[test]
fn every_file_can_be_had_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let o = pair("atm_loss_udp340", &["-q", "--csv", &path("a.csv")]);
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    assert_eq!(fields(&o).len(), 420, "the lines are complete");
    let rows = |name: &str| std::fs::read_to_string(path(name)).unwrap().lines().count();
    assert_eq!((rows("a.csv.up"), rows("a.csv.down")), (1 + 446, 1 + 435));
    let logged = pair("atm_loss_udp340", &["-q", "--csv", &path("b.csv"), "--log", &path("b")]);
    assert!(logged.status.success());
    for way in ["up", "down"] {
        let [a, b] = ["a", "b"].map(|name| std::fs::read(path(&format!("{name}.csv.{way}"))).unwrap());
        assert_eq!(a, b, "{way}");
    }
    for (option, files) in [
        ("--as hdr=", &["x.up", "x.down"][..]),
        ("--as summary-csv=", &["x"]),
        ("--as openmetrics=", &["x"]),
        ("--interval=10s --as intervals=", &["x"]),
        ("--html", &["x"]),
        ("--json", &["x"]),
    ] {
        let file = path("x");
        let options = match option.strip_suffix('=') {
            Some(_) => format!("-q {option}{file}"),
            None => format!("-q {option} {file}"),
        };
        let o = pair("atm_loss_udp340", &options.split(' ').collect::<Vec<_>>());
        assert!(o.status.success() && fields(&o).len() == 420, "{option}: {o:?}");
        for name in files {
            let length = std::fs::metadata(path(name)).unwrap().len();
            assert!(length > 0, "{option}");
            std::fs::remove_file(path(name)).unwrap();
        }
    }
}

#[test]
fn what_cannot_be_written_costs_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("x.json");
    let mut spp = Command::new(env!("CARGO_BIN_EXE_jitlat"));
    spp.args([Path::new("spp"), Path::new("-f"), &data("atm_loss_udp340.ref.pcap")]);
    spp.args([Path::new("-F"), &data("atm_loss_udp340.mon.pcap"), Path::new("--json"), &json]);
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    // Standard output is full: summary and file are still complete.
    let o = spp.stdout(full()).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&o.stderr);
    assert_eq!(o.status.code(), Some(2), "{said}");
    assert!(said.contains("round trip") && said.contains("standard output"), "{said}");
    let whole: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(whole["summary"]["pairs"], 420);
    // The same holds for every other output, no matter which fails.
    let no_room = dir.path().join("full");
    for name in ["full", "full.up", "full.down"] {
        std::os::unix::fs::symlink("/dev/full", dir.path().join(name)).unwrap();
    }
    for option in ["csv", "summary-csv", "openmetrics", "html", "hdr", "ping"] {
        std::fs::remove_file(&json).unwrap();
        let path = if option == "ping" { "/dev/null/x" } else { no_room.to_str().unwrap() };
        let given = if option == "ping" { format!("--ping={path}") } else { format!("--as={option}={path}") };
        let o = pair("atm_loss_udp340", &["--json", json.to_str().unwrap(), &given]);
        let said = String::from_utf8_lossy(&o.stderr);
        assert_eq!(o.status.code(), Some(2), "{option}: {said}");
        assert!(said.contains("round trip") && said.contains(path), "{option}: {said}");
        assert!(json.exists() && fields(&o).len() == 420, "{option}");
    }
}

#[test]
fn what_could_not_be_written_is_refused_before_anything_is_read() {
    for option in ["json", "csv", "summary-csv", "openmetrics", "html", "plots", "hdr"] {
        let o = pair("atm_loss_udp340", &["--as", &format!("{option}=/dev/null/x")]);
        let said = String::from_utf8_lossy(&o.stderr);
        assert_eq!(o.status.code(), Some(2), "{option}: {said}");
        assert!(said.contains(option) && said.contains("/dev/null/x"), "{option}: {said}");
        assert!(fields(&o).is_empty() && !said.contains("round trip"), "{option}: {said}");
    }
}

/// Returns exit status, and standard error.
fn explained(o: &Output) -> (Option<i32>, String) {
    (o.status.code(), String::from_utf8_lossy(&o.stderr).into_owned())
}

/// Splits `name` at these seconds after its beginning, analyses each part separately with the plan in `plan`, and
/// joins them again.
fn joined(folder: &Path, plan: &Path, name: &str, cuts: &[&str], more: &[&str]) -> Output {
    let borders: Vec<String> = cuts.iter().map(|cut| format!("+{cut}")).collect();
    let ends = borders.iter().map(String::as_str).chain([""]);
    let parts: Vec<(String, PathBuf)> = std::iter::once("")
        .chain(borders.iter().map(String::as_str))
        .zip(ends)
        .enumerate()
        .map(|(k, (from, to))| (format!("{from}..{to}"), folder.join(format!("{name}.{k}.part"))))
        .collect();
    for (keep, state) in &parts {
        let plan = [
            "--plan",
            plan.to_str().unwrap(),
            "-d",
            "4",
            "--overlap",
            "5s",
            "--keep",
            keep,
            "--state",
            state.to_str().unwrap(),
        ];
        let o = pair(name, &[&plan[..], &["-q"]].concat());
        assert!(o.status.success() && state.exists(), "{name} {keep}: {}", explained(&o).1);
    }
    // Parts may be joined in any order.
    let states = parts.iter().rev().map(|(_, state)| state);
    Command::new(env!("CARGO_BIN_EXE_jitlat"))
        .env("LC_ALL", "C")
        .args(["spp", "--join"])
        .args(states)
        .args(more)
        .output()
        .unwrap()
}

#[test]
fn parts_joined_are_the_whole_line_for_line() {
    let folder = tempfile::tempdir().unwrap();
    let columns = ["-c", "-p", "-O", "--sizes", "--rate"];
    for name in ALL {
        let plan = folder.path().join("plan.json");
        assert!(pair(name, &["-d", "4", "--write-plan", plan.to_str().unwrap()]).status.success());
        let index: serde_json::Value = serde_json::from_slice(&std::fs::read(&plan).unwrap()).unwrap();
        let file = &index["captures"][0][0];
        assert!(
            file["first_ns"].as_i64() < file["last_ns"].as_i64() && file["frames"].as_u64() > Some(100),
            "{file}"
        );
        assert!(file["hosts"].as_array().unwrap().iter().any(|h| h == "10.77.1.2"), "{file}");
        let whole = pair(name, &[&columns[..], &["-d", "4", "-q"]].concat());
        assert!(whole.status.success() && whole.stdout.len() > 10_000);
        for cuts in [&["4.7"][..], &["2", "5.5", "8.25", "60"]] {
            let o = joined(folder.path(), &plan, name, cuts, &[&columns[..], &["-q"]].concat());
            assert!(o.status.success(), "{name}: {}", explained(&o).1);
            assert!(o.stdout == whole.stdout, "{name} cut at {cuts:?}");
        }
    }
}

#[test]
fn parts_print_the_lines_of_their_own_pairs() {
    for name in ["atm_loss_udp340", "var_skew_udp340", "var_disorder_udp340"] {
        let whole = pair(name, &["-d", "2", "-p", "-q"]).stdout;
        let mut lines = Vec::new();
        for keep in ["..+3", "+3..+7", "+7.."] {
            lines.extend(pair(name, &["-d", "2", "-p", "-q", "--keep", keep]).stdout);
        }
        assert!(lines == whole, "{name}");
    }
}

#[test]
fn parts_that_are_not_one_whole_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let state = |keep: &str, more: &[&str], to: &str| {
        let path = folder.path().join(to);
        pair("atm_udp340", &[&["-q", "--keep", keep, "--state", path.to_str().unwrap()], more].concat());
        path
    };
    let join = |parts: &[&PathBuf]| {
        let o = Command::new(env!("CARGO_BIN_EXE_jitlat"))
            .args(["spp", "-q", "--join"])
            .args(parts)
            .output()
            .unwrap();
        explained(&o)
    };
    let (a, b, c) = (state("..+2", &[], "a"), state("+2..+4", &[], "b"), state("+3..+5", &[], "c"));
    let (code, text) = join(&[&a, &b]);
    assert!(code == Some(0) && text.contains("parts are missing"), "{text}");
    let (code, text) = join(&[&a, &c]);
    assert!(code == Some(2) && text.contains("ends at"), "{text}");
    let other = state("+2..+4", &["-d", "3"], "d");
    let (code, text) = join(&[&a, &other]);
    assert!(code == Some(2) && text.contains("belong to different captures"), "{text}");
    let (code, text) = join(&[&data("README.md")]);
    assert!(code == Some(2) && text.contains("not a state"), "{text}");
}

#[test]
fn a_folder_stands_for_the_captures_in_it_in_the_order_of_their_packets() {
    let dir = tempfile::tempdir().unwrap();
    let whole = std::fs::read(data("atm_udp340.ref.pcap")).unwrap();
    let cut = 24 + 400 * 112;
    // Names like those of `tcpdump -C`, whose order differs.
    std::fs::write(dir.path().join("ref.pcap9"), &whole[..cut]).unwrap();
    std::fs::write(dir.path().join("ref.pcap10"), [&whole[..24], &whole[cut..]].concat()).unwrap();
    std::fs::write(dir.path().join("notes.txt"), "no capture").unwrap();
    let o = spp(dir.path(), &data("atm_udp340.mon.pcap"), &["-c", "-q"]);
    assert!(o.stdout == pair("atm_udp340", &["-c", "-q"]).stdout, "{}", explained(&o).1);
    let tcp = |path: &Path| {
        Command::new(env!("CARGO_BIN_EXE_jitlat"))
            .arg("tcp")
            .arg(path)
            .args(["--json", "-"])
            .output()
            .unwrap()
    };
    let (folder, none) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::copy(data("atm_tcp_up.ref.pcap"), folder.path().join("a")).unwrap();
    assert!(tcp(folder.path()).stdout == tcp(&data("atm_tcp_up.ref.pcap")).stdout);
    assert_eq!(tcp(none.path()).status.code(), Some(2));
}
