//! The runtime inside another program: runs the example without a process of its own.

#[allow(dead_code)]
#[path = "../../examples/embed.rs"]
mod embed;

use jitlat_net::wake::StopSignal;
use std::time::Duration;

#[test]
fn a_program_runs_a_monitor_with_an_instrument_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    let stop = StopSignal::new().unwrap();
    let ended = std::thread::scope(|scope| {
        let monitor = scope.spawn(|| embed::monitor(folder.path(), &stop));
        let found = jitlat_waiting::within(Duration::from_secs(60), || embed::results(&archive) >= 2);
        stop.request();
        let ended = monitor.join().unwrap().unwrap();
        assert!(found, "{ended:?}");
        ended
    });
    assert_eq!(ended.keys().cloned().collect::<Vec<_>>(), [("echo".to_owned(), "127.0.0.1".to_owned())]);
    let counts = ended.values().next().unwrap();
    let done = embed::measured(counts);
    assert!(done >= 2 && done <= embed::results(&archive) as u64, "{counts:?}");
}

#[test]
fn what_prevents_it_is_an_error_of_its_own_kind() {
    use jitlat_monitor::runtime::{MonitorError, named};

    let model = crate::common::model(&format!(
        "{}[[test]]\nname = \"t\"\nevery = \"1h\"\n",
        crate::common::hosts(2, "")
    ));
    let Err(MonitorError::Settings(text)) = named(&model, "h3") else { panic!("there is no such host") };
    assert!(text.starts_with("--host: unknown host 'h3'"), "{text}");
}
