//! Every option of the analysis, and every output, from the command line.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn analyze(log: &str, options: &[&str]) -> Output {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(log);
    Command::new(env!("CARGO_BIN_EXE_jitlat")).arg("analyze").arg(path).args(options).output().unwrap()
}

fn json(log: &str, options: &[&str]) -> Value {
    let output = analyze(log, &[options, &["--json", "-"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn each_choice_of_the_analysis_shows_in_the_summary() {
    let wan = "b_wan_lossy_v1.log";
    let plain = json(wan, &[]);
    let with = |options: &[&str]| json(wan, options);
    assert!(with(&["--percentile", "99.99"])["pdv"]["percentiles"]["99.99"].is_i64());
    let seeded = with(&["--bootstrap=7"]);
    let bootstrap = &seeded["inference"]["bootstrap"];
    assert_eq!(bootstrap["seed"], 7);
    assert_eq!(bootstrap["median"].as_array().unwrap().len(), 2);
    assert_eq!(with(&["--bootstrap"])["inference"]["bootstrap"]["seed"], 1);
    assert!(plain["inference"]["bootstrap"].is_null());
    assert!(plain.get("latency_unconditional").is_none());
    assert!(with(&["--unconditional"])["latency_unconditional"].is_object());
    let curve = |v: &Value| v["dejitter"]["curve"].as_array().unwrap().clone();
    assert_eq!(curve(&with(&["--buffers", "0,20ms,60ms"])).len(), 3);
    let codec = |v: &Value| v["dejitter"]["codec"].as_str().unwrap().to_owned();
    assert!(codec(&with(&["--codec", "G.729A+VAD"])).starts_with("G.729A+VAD Ie=11 "));
    let own = with(&["--codec", "MELPe:20:15:112.5"]);
    assert!(codec(&own).starts_with("MELPe Ie=20 Bpl=15 ") && own["dejitter"]["user_declared_codec"] == true);
    let mos = |v: &Value| curve(v)[10]["MOS"].as_f64().unwrap();
    assert!(mos(&with(&["--delay-model", "full"])) < mos(&plain));
    let late = with(&["--late-after", "60ms", "--trust-clocks"]);
    assert!(late["counts"]["late"].as_u64().unwrap() > 0);
    assert_eq!(with(&["--late-after", "60ms"])["counts"]["late"], 0, "refused without clocks");
    assert_eq!(with(&["--streaming"])["latency"]["approx"], true);
    assert!(with(&["--interval", "5s"])["intervals"].as_array().unwrap().len() > 3);
    assert_eq!(with(&["--bins", "10"])["pdv"]["histogram"]["nbins"], 10);
    for bad in ["--codec=x", "--percentile=101", "--buffers=-1ms", "--late-after=0", "--delay-model=none"] {
        assert_eq!(analyze(wan, &[bad]).status.code(), Some(2), "{bad}");
    }
}

/// Returns the output for `log` in a terminal of the type `terminal` with that many columns.
fn printed(log: &str, options: &[&str], columns: &str, terminal: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_jitlat"))
        .arg("-f")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(log))
        .args(options)
        .envs([("COLUMNS", columns), ("TERM", terminal), ("LC_ALL", "C.UTF-8")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_report_is_one_screen_and_the_full_one_is_there_on_request() {
    for log in ["a_loopback_v1.log", "b_wan_lossy_v1.log", "c_unsync_v2.log", "d_edge_small_v1.log"] {
        for (columns, width) in [("80", 80), ("60", 60), ("200", 80), ("nonsense", 80)] {
            let screen = printed(log, &[], columns, "xterm");
            assert!(screen.lines().count() <= 23, "{log}: {screen}");
            assert!(screen.lines().all(|line| line.chars().count() <= width), "{log}: {screen}");
        }
        assert!(printed(log, &[], "80", "dumb").is_ascii());
        let full = printed(log, &["-v"], "80", "xterm");
        assert_eq!(full, printed(log, &["--classic-report"], "80", "xterm"));
        assert!(full.contains("\nmin/avg/max latency = ") && full.contains("\nFindings\n"), "{full}");
        assert_eq!(printed(log, &["-q"], "80", "xterm").lines().count(), 1);
        // Plots are added below, and nothing else changes.
        let plotted = printed(log, &["--text-plots"], "80", "xterm");
        assert!(plotted.starts_with(&full) && plotted.len() > full.len(), "{plotted}");
    }
}

#[test]
fn the_bootstrap_is_in_the_report_too() {
    let output = analyze("b_wan_lossy_v1.log", &["--bootstrap", "-v"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("by block bootstrap (seed 1), with 95% confidence: mean"), "{text}");
}

#[test]
fn histograms_for_other_tools() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("wan.hlog");
    let output =
        analyze("b_wan_lossy_v1.log", &["--as", &format!("hdr={}", file.display()), "--interval", "10s"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(file).unwrap();
    let histograms = |tag: &str| text.lines().filter(|l| l.starts_with(&format!("Tag={tag},"))).count();
    assert_eq!((histograms("pdv"), histograms("latency")), (3, 3), "{text}");
    assert_eq!(text.lines().filter(|l| l.contains(",HISTFA")).count(), 6);
    let output = analyze("b_wan_lossy_v1.log", &["--as", "hdr", "--json", "-"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("only one format"));
}

#[test]
fn intervals_are_json_lines() {
    let output = analyze("b_wan_lossy_v1.log", &["--interval", "5s", "--as", "intervals"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let report = String::from_utf8(analyze("b_wan_lossy_v1.log", &["--interval", "5s"]).stdout).unwrap();
    let table = report.split("Windows of 5.000 s\n").nth(1).unwrap().split("\n\n").next().unwrap();
    assert_eq!(table.lines().count(), 2 + lines.len(), "{table}");
    assert!(lines.iter().all(|l| l["ipdv_iqr"].is_i64() && l["pdv_max"].as_i64() >= l["pdv_p999"].as_i64()));
    let sum = |key: &str| lines.iter().map(|l| l[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("sent"), sum("accepted"), sum("lost")), (1500, 1441, 59));
}

/// Lists every command of the program, according to its help.
fn commands() -> Vec<String> {
    let help = Command::new(env!("CARGO_BIN_EXE_jitlat")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let list =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Only the first line of a command's description is not indented further.
    let name = |line: &str| {
        line.strip_prefix("  ")?.split(' ').next().filter(|word| !word.is_empty()).map(str::to_owned)
    };
    list.filter_map(name).collect()
}

#[test]
#[cfg(unix)]
fn an_argument_that_is_not_text_is_refused_with_a_sentence_unless_it_names_a_file() {
    use std::os::unix::ffi::OsStrExt;
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9.log");
    let run = |arguments: &[&std::ffi::OsStr]| {
        let output = Command::new(env!("CARGO_BIN_EXE_jitlat")).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let refused = |arguments: &[&std::ffi::OsStr]| {
        let (status, text) = run(arguments);
        let sentence = format!(r#"argument {}, "caf\xE9.log", is not UTF-8"#, arguments.len());
        assert!(status == Some(2) && text.contains(&sentence), "{arguments:?}: {status:?}, {text}");
    };
    refused(&[name]);
    refused(&["host".as_ref(), "--name".as_ref(), name]);
    for command in ["ping", "path", "test"] {
        refused(&[command.as_ref(), name]);
    }
    // Only the argument of --listen is refused, not the file name before it.
    refused(&["web".as_ref(), name, "--listen".as_ref(), name]);
    // A file name need not be text: the file is looked for.
    for arguments in
        [&["-f"][..], &["analyze"], &["tcp"], &["spp", "--one-point"], &["export"], &["compare", "b.log"]]
    {
        let typed: Vec<&std::ffi::OsStr> = arguments.iter().map(std::ffi::OsStr::new).chain([name]).collect();
        let (status, text) = run(&typed);
        let said = !text.contains("UTF-8") && !text.contains("panicked");
        assert!(status == Some(2) && said, "{typed:?}: {status:?}, {text}");
    }
    // No command panics.
    for command in &commands() {
        let (status, text) = run(&[command.as_ref(), "--no-such-option".as_ref(), name]);
        assert!(status == Some(2) && !text.contains("panicked"), "{command}: {status:?}, {text}");
    }
}
