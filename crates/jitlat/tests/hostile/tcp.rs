//! TCP request-response under attack: small requests for large responses.

use crate::forged::Scene;
use crate::honest::served_beside;
use jitlat_proto::reqresp::{ExchangeSizes, MAX_LEN, MIN_REQUEST, PORT};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Number of bytes per second that the server may send to one client.
const LIMIT: u64 = 1_000_000;

/// Requests responses of 65 535 bytes as fast as possible; returns the number of received bytes.
fn ask(stream: &mut TcpStream, over: &AtomicBool, received: &AtomicU64) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_millis(100)))?;
    let sizes = ExchangeSizes::new(MIN_REQUEST, MAX_LEN).unwrap();
    stream.write_all(&sizes.greeting())?;
    // As many requests as the server's buffer accepts at once.
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(Duration::from_millis(100)))?;
    let mut buffer = vec![0; MAX_LEN];
    while !over.load(Ordering::Relaxed) {
        let _ = stream.write(&[0; 50 * MIN_REQUEST]);
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => drop(received.fetch_add(n as u64, Ordering::Relaxed)),
            Err(_) => {}
        }
    }
    Ok(())
}

#[test]
fn an_honest_client_is_served_while_another_asks_for_all_it_can_get() {
    let received = AtomicU64::new(0);
    let lasted = AtomicU64::new(0);
    let attack = |scene: &Scene, over: &AtomicBool| {
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                let connect = || TcpStream::connect((scene.lab.server.v4, PORT));
                // Connections beyond the client's share are closed.
                let Ok(mut stream) = scene.lab.client.within(connect).unwrap() else { continue };
                let received = &received;
                scope.spawn(move || ask(&mut stream, over, received));
            }
        });
        lasted.store(begun.elapsed().as_millis() as u64, Ordering::Relaxed);
    };
    served_beside(
        "an_honest_client_is_served_while_another_asks_for_all_it_can_get",
        "--max-reflect-bandwidth 8Mbit",
        "--proto tcp",
        attack,
    );
    let (received, lasted) = (received.into_inner(), lasted.into_inner());
    let _ = writeln!(std::io::stderr(), "the attacker got {received} bytes in {lasted} ms");
    // A tenth of a second's limit, and one response, may arrive at once.
    let most = LIMIT * lasted / 1000 + LIMIT / 10 + 2 * MAX_LEN as u64;
    assert!(lasted == 0 || (MAX_LEN as u64..most).contains(&received), "{received} of {most}");
}
