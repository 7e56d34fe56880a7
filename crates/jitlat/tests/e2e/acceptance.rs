//! The link of Figure 16 and Example 2 of DRDC Ottawa TM 2011-047: 1613 ms in each direction.

use crate::harness::*;
use crate::undisturbed::undisturbed;
use jitlat_net::emulator::Lab;
use std::time::Duration;

/// Time for setting up, 20 s of stream and fetching the results, at 3.2 s per exchange.
const LIMIT: Duration = Duration::from_secs(200);

const STREAM: &str = "-n 1000 -l 80 -p 20ms --json -";

fn measure(lab: &Lab, arguments: &str) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let _tun = lab.tun(scenario("figure_16"), BY_SEQUENCE).unwrap();
    // Use the TCP of the hosts of 2009, not this machine's default: Reno, with the initial window of RFC 3390 instead
    // of ten segments. That makes TCP pause at first and reduce the delay later; BBR, which cannot measure the
    // bandwidth in an idle stream, may as well fall behind. Also use a retransmission timeout that a stall of this
    // machine does not trigger: a spurious timeout would restart TCP's pauses late in the stream.
    for (near, address) in [(&lab.client, lab.client.v4), (&lab.server, lab.server.v4)] {
        near.run(&format!(
            "ip route change 10.9.0.0/24 dev path src {address} initcwnd 3 rto_min 3s congctl reno"
        ))
        .unwrap();
    }
    let _server = Server::start(Place::In(&lab.server), folder.path(), lab.server.v4, "");
    let line = format!("{} {STREAM} {arguments}", lab.server.v4);
    Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT).report()
}

/// Both ends use the same clock, so the clock error is that of the method.
fn check_clock(report: &Report) {
    let rtt = report.ms("/clock/min_rtt_ns");
    assert!((3226.0..3240.0).contains(&rtt), "RTT {rtt} ms");
    let offset = report.ms("/clock/offset_ns");
    assert!(offset.abs() < 1.0, "clock error {offset} ms");
}

/// The three tests run in parallel, each on its own link: one after the other they would take four minutes.
#[test]
fn the_figures_of_the_serial_link() {
    undisturbed(|| {
        let Some(first) = lab("the_figures_of_the_serial_link") else { return };
        let labs = [first, Lab::new().unwrap(), Lab::new().unwrap()];
        let [udp, reverse, tcp] = std::thread::scope(|s| {
            let run = |(lab, arguments)| s.spawn(move || measure(lab, arguments));
            [(&labs[0], ""), (&labs[1], "-R"), (&labs[2], "-t")].map(run).map(|t| t.join().unwrap())
        });
        for report in [&udp, &reverse, &tcp] {
            let counts = ["sent", "unique_valid", "lost", "out_of_sequence"];
            assert_eq!(counts.map(|k| report.count(&format!("/counts/{k}"))), [1000, 1000, 0, 0]);
            check_clock(report);
        }
        // Figure 16.
        for report in [&udp, &reverse] {
            for figure in ["min", "median"] {
                let latency = report.ms(&format!("/latency/{figure}"));
                assert!((1613.0..1620.0).contains(&latency), "{figure} latency {latency} ms");
            }
        }
        // Example 2: latency far above the delay of the path, and a negative slope.
        let [min, mean, max] = ["min", "mean", "max"].map(|k| tcp.ms(&format!("/latency/{k}")));
        assert!((1613.0..1650.0).contains(&min), "minimum latency {min} ms");
        assert!(mean > 2000.0 && max > 4000.0, "latency {min}/{mean}/{max} ms: TCP did not pause");
        let slope = tcp.number("/regression_arrival/m");
        assert!(slope < -0.02, "slope {slope}");
    });
}
