//! Runs the example.

#[allow(dead_code)]
#[path = "../examples/frames.rs"]
mod frames;

use jitlat_core::Span;

#[test]
fn frames_become_a_connection_with_a_retransmission() {
    let connections = frames::connections(&frames::exchange());
    let [c] = &connections[..] else { panic!("{connections:?}") };
    assert_eq!(c.client.to_string(), "192.0.2.1:40000");
    assert_eq!(c.handshake_server_ns, Some(Span::millis(30)));
    assert_eq!((c.up.bytes, c.up.unique_bytes, c.up.retransmissions), (200, 100, 1));
}
