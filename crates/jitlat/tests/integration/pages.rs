//! The page of every instrument in headless Chromium, as the command writes it: large and small, light and dark, on
//! paper.

use crate::browser;
use crate::listening;
use crate::network;
use crate::side_by_side;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Names of the pages, and commands that write them; HOST is a server. `-b` also draws.
const PAGES: [(&str, &str); 9] = [
    ("one-way", "HOST -n 300 -p 3ms -o one.log"),
    ("both", "HOST -b -n 300 -p 3ms -o both.log --plots figures"),
    ("ping", "ping HOST --proto stamp -n 300 -p 3ms -o ping.log"),
    ("load", "HOST -n 200 -p 3ms --load tcp:1Mbit,streams=2 --load-settle 50ms"),
    ("sweep", "sweep HOST --proto stamp -l 44,400 -n 60 -p 2ms --repetitions 2 --pause 1ms -o s.sweep"),
    ("spp", "spp --summary -f testdata/spp/atm_udp40.ref.pcap -F testdata/spp/atm_udp40.mon.pcap"),
    ("tcp", "tcp testdata/spp/htb_tcp_up.ref.pcap"),
    ("compare", "compare testdata/compare/1tcp-be.log testdata/compare/20tcp-be.log"),
    ("saved", "-f testdata/b_wan_lossy_v1.log"),
];

/// `jitlat serve` in the test's own network; ended with the test.
struct Server(Child);

impl Server {
    fn start(host: &str) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_jitlat"));
        let mut child = command.args(["serve", "--bind", host]).stdout(Stdio::piped()).spawn().unwrap();
        listening::wait_until_listening(&mut child, 2);
        Server(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Writes all pages to a folder; returns the page of each name.
fn pages(folder: &Path) -> Vec<(&'static str, String)> {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").canonicalize().unwrap();
    std::os::unix::fs::symlink(testdata, folder.join("testdata")).unwrap();
    let host = network::own_address();
    let _server = Server::start(&host.to_string());
    let page = |(name, command): (&'static str, &str)| {
        let command = format!("{} --html {name}.html", command.replace("HOST", &host.to_string()));
        let output = Command::new("timeout")
            .args(["120", env!("CARGO_BIN_EXE_jitlat")])
            .args(command.split(' '))
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        (name, std::fs::read_to_string(folder.join(format!("{name}.html"))).unwrap())
    };
    PAGES.into_iter().map(page).collect()
}

/// Returns the command that a page shows to repeat its test.
fn again(page: &str) -> String {
    let (_, rest) =
        page.split_once("Command to repeat the test: <code>").expect("every test can be repeated");
    let (command, _) = rest.split_once("</code>").unwrap();
    ["&#39;", "&#x27;", "&apos;"].iter().fold(command.to_owned(), |text, quote| text.replace(quote, "'"))
}

#[test]
fn the_same_test_again_is_the_same_test() {
    let folder = tempfile::tempdir().unwrap();
    let host = network::own_address();
    let _server = Server::start(&host.to_string());
    let tests = [
        "HOST -n 40 -p 3ms -l 200 -D 46 --name one",
        "HOST -b -n 40 -p 3ms --name 'both; ways'",
        "HOST -R -t -n 40 -p 3ms",
        "HOST -n 40 -p 3ms --schedule poisson --seed 7",
        "HOST -n 40 -p 3ms --schedule burst --burst 4",
        "ping HOST --proto stamp -n 40 -p 3ms -l 120 -D 10 --name 'it is a ping'",
        "ping HOST --proto tcp -n 20 --wait 2ms",
        "ping HOST --proto lamp -n 20 -p 4ms",
    ];
    let path = Path::new(env!("CARGO_BIN_EXE_jitlat")).parent().unwrap();
    let path = format!("{}:{}", path.display(), std::env::var("PATH").unwrap_or_default());
    let run = |command: &str| {
        let command = format!("timeout 120 {command} --html page.html");
        let output = Command::new("sh")
            .args(["-c", &command])
            .env("PATH", &path)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        again(&std::fs::read_to_string(folder.path().join("page.html")).unwrap())
    };
    for test in tests {
        let first = run(&format!("jitlat {}", test.replace("HOST", &host.to_string())));
        for word in test.split(' ').skip(1).filter(|word| word.starts_with('-')) {
            assert!(first.contains(word), "{test}: {word} is missing in {first}");
        }
        // The command shown by the page has every option that determines the sent packets.
        assert_eq!(run(&first), first, "{test}");
    }
}

#[test]
fn every_page_works_for_everybody_in_every_light() {
    if browser::browser().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let axe = browser::axe();
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut pages = pages(folder.path());
    // Without `JITLAT_FULL`, only the page with both directions and one other are tested.
    pages.truncate(if browser::full() { pages.len() } else { 2 });
    side_by_side::side_by_side(processors, &pages, |(name, page)| {
        // Nothing is fetched, and only scripts of the page itself run.
        assert!(page.contains("default-src 'none'"), "{name}");
        assert!(page.contains("<section class=\"first\""), "{name} begins with an answer");
        browser::driven(&format!("page-{name}"), page);
        let (first, all) = browser::printed(page).unwrap();
        assert_eq!(first, 1, "{name}: the answer is more than the first page on paper");
        assert!(*name != "both" || all <= 6, "{name}: {all} pages on paper");
        let Some(axe) = &axe else { return };
        // Large and light, small and dark: colours do not depend on the size, and names do not depend on the colour
        // scheme.
        for (arguments, _) in browser::CORNERS {
            let found = browser::accessibility(page, axe, arguments);
            assert_eq!(found.as_deref(), Some("ok"), "{name}, {arguments:?}");
        }
    });
}
