//! A client that measures over a WebSocket as a browser does (docs/protocols/browser.md).

#![allow(dead_code, reason = "each test uses a part")]

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::{Message, WebSocket};

/// Time to wait for a message of the server.
const LIMIT: Duration = Duration::from_secs(10);

/// Opens a WebSocket over `stream`, which is connected to `at`, as a page of `origin` would.
pub fn open(stream: TcpStream, at: SocketAddr, origin: &str) -> tungstenite::Result<WebSocket<TcpStream>> {
    let mut request = format!("ws://{at}/test").into_client_request()?;
    let headers = request.headers_mut();
    headers.insert("Origin", HeaderValue::from_str(origin).expect("an origin without control characters"));
    headers.insert("Sec-WebSocket-Protocol", HeaderValue::from_static("jitlat-browser-1"));
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_nodelay(true)?;
    match tungstenite::client::client(request, stream) {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::HandshakeError::Failure(e)) => Err(e),
        Err(tungstenite::HandshakeError::Interrupted(_)) => Err(tungstenite::Error::ConnectionClosed),
    }
}

/// Begins a test of `packets` requests of 80 bytes, one in 5 ms.
pub fn begin(socket: &mut WebSocket<TcpStream>, packets: u64) -> tungstenite::Result<()> {
    socket.send(Message::text(format!(r#"{{"packets":{packets},"period_ms":5,"bytes":80}}"#)))?;
    match socket.read()? {
        Message::Text(text) if text.as_str() == r#"{"ready":true}"# => Ok(()),
        _ => Err(tungstenite::Error::ConnectionClosed),
    }
}

/// Returns request `seq`.
pub fn request(seq: u32) -> Vec<u8> {
    let mut request = seq.to_be_bytes().to_vec();
    request.resize(80, 7);
    request
}

/// Runs a test whose requests each follow the answer to the one before, for at most `limit`; returns the number of answers, and the last
/// message of the server, which has the address of the report.
pub fn measure(
    mut socket: WebSocket<TcpStream>,
    packets: u64,
    limit: Duration,
) -> tungstenite::Result<(u64, String)> {
    begin(&mut socket, packets)?;
    let (began, mut rows) = (Instant::now(), Vec::new());
    let ms = || began.elapsed().as_secs_f64() * 1000.0;
    for seq in (0..packets as u32).take_while(|_| began.elapsed() < limit) {
        let sent = ms();
        socket.send(Message::binary(request(seq)))?;
        if socket.read()?.into_data() != request(seq) {
            return Err(tungstenite::Error::ConnectionClosed);
        }
        rows.push(format!("[{seq},{sent},{}]", ms()));
    }
    let (answers, rows) = (rows.len() as u64, rows.join(","));
    let report = format!(r#"{{"rows":[{rows}],"resolution_ms":0.1,"hidden":false,"stopped":false}}"#);
    socket.send(Message::text(report))?;
    Ok((answers, socket.read()?.to_string()))
}
