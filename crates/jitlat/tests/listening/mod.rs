//! Waits until a server listens.

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Time limit for a server to listen: on a busy machine a program may start seconds late.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns the first `count` lines in which `server` prints where it listens, and which protocols answer there. If
/// they do not appear, the server is killed and the test fails. Later output is read and discarded, so that the
/// server never blocks.
pub fn wait_until_listening(server: &mut Child, count: usize) -> Vec<String> {
    wait_within(LIMIT, server, count)
}

fn wait_within(limit: Duration, server: &mut Child, count: usize) -> Vec<String> {
    let output = BufReader::new(server.stdout.take().unwrap());
    let (say, said) = mpsc::channel();
    std::thread::spawn(move || {
        let listens = |line: &String| line.contains(": listening on ") || line.contains(": answering ");
        // Sending fails for lines beyond `count`, which nobody receives.
        output.lines().map_while(Result::ok).filter(listens).for_each(|line| drop(say.send(line)));
    });
    let until = Instant::now() + limit;
    let next = || said.recv_timeout(until.saturating_duration_since(Instant::now())).ok();
    let lines: Vec<String> = std::iter::from_fn(next).take(count).collect();
    if lines.len() < count {
        let _ = server.kill();
        let _ = server.wait();
        panic!("the server said where it listens {} times, not {count}", lines.len());
    }
    lines
}

#[test]
fn a_server_that_says_nothing_or_too_little_ends_the_wait() {
    use std::process::{Command, Stdio};
    for says in ["", "echo 'stamp: answering on 127.0.0.1:862';"] {
        let mut silent = Command::new("sh");
        let mut server =
            silent.args(["-c", &format!("{says} exec sleep 600")]).stdout(Stdio::piped()).spawn().unwrap();
        let waited = std::panic::AssertUnwindSafe(|| wait_within(Duration::from_millis(200), &mut server, 2));
        assert!(std::panic::catch_unwind(waited).is_err(), "{says}");
        assert!(server.try_wait().unwrap().is_some(), "it was ended");
    }
}
