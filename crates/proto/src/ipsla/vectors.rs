//! Conversations recorded between Cisco devices (version 1), and messages made from the text of RFC 6812 (version 2).

use super::auth::{AuthMode, IpslaKey};
use super::probe::ProbeForm;
use super::v1::{Operation, PortAnswer, PortRequest};
use super::v2::{Answer, ControlMessage, Status};
use jitlat_core::{Span, WallTime};

/// Parses hexadecimal digits, ignoring spaces.
fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_ascii_whitespace().collect();
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

/// 24 zero bytes.
const BLANK: &str = "000000000000000000000000000000000000000000000000";

#[test]
fn recorded_requests_and_answers_of_version_1() {
    let cases = [
        (0x72, Operation::Jitter, 0x4000, 5400, "0004 0010 00000000 c0a80c02 4000 1518"),
        (0x69, Operation::Echo, 0xa616, 5000, "0002 0010 00000000 c0a80c02 a616 1388"),
    ];
    for (seq, operation, port, ms, block) in cases {
        let recorded = hex(&format!("01{seq:02x} 0034 00000000 {block} 0001001c {BLANK}"));
        let answered = hex(&format!("01{seq:02x} 0018 00000000 {block}"));
        let address = "192.168.12.2".parse().unwrap();
        let request =
            PortRequest { seq, operation, address, port, duration: Span::millis(ms), signed: false };
        let mut written = Vec::new();
        request.write(&mut written);
        assert_eq!(written, recorded);
        assert_eq!(PortRequest::parse(&recorded), Some(request));
        let mut answer = Vec::new();
        PortRequest::accept(&recorded, &mut answer);
        assert_eq!(answer, answered);
        assert_eq!(PortAnswer::parse(&answered), Some(PortAnswer { seq, status: 0 }));
        assert_eq!(PortRequest::parse(&answered), None, "an answer is not a request");
        assert_eq!(PortAnswer::parse(&recorded), None, "a request is not an answer");
    }
}

#[test]
fn the_answer_of_another_open_responder_is_accepted() {
    // 24 bytes, a length of 8, and no command.
    let answer = hex("0172 0008 00000000 00000000 00000000 c0a80c02 4000 1518");
    assert_eq!(PortAnswer::parse(&answer), Some(PortAnswer { seq: 0x72, status: 0 }));
    let refused = hex("0172 0018 00000003 0004 0010 00000000 c0a80c02 4000 1518");
    assert_eq!(PortAnswer::parse(&refused), Some(PortAnswer { seq: 0x72, status: 3 }));
}

#[test]
fn a_request_over_ipv6_has_a_longer_block() {
    let request = PortRequest {
        seq: 1,
        operation: Operation::V6,
        address: "2001:db8::2".parse().unwrap(),
        port: 16_384,
        duration: Span::millis(70_000),
        signed: false,
    };
    let mut written = Vec::new();
    request.write(&mut written);
    let block = "0008 0020 00000000 20010db8000000000000000000000002 4000 0000 00011170";
    assert_eq!(written, hex(&format!("0101 0044 00000000 {block} 0001001c {BLANK}")));
    assert_eq!(PortRequest::parse(&written), Some(request));
}

/// A time on 2026-11-28, `ms` after midnight UTC, and half of the next millisecond.
fn after_midnight(ms: i64) -> WallTime {
    WallTime((20_785 * 86_400_000 + ms) * 1_000_000 + 500_000)
}

#[test]
fn recorded_probes_in_milliseconds() {
    let form = ProbeForm::Milliseconds;
    let fill = "abcdabcdabcdabcdabcdabcdabcdabcd";
    let request = hex(&format!("0002 0000 029aa061 00000000 0001 0000 {fill}"));
    let answered = hex(&format!("0002 0000 029aa061 029aa061 0001 0001 {fill}"));
    let sent = after_midnight(0x029a_a061);
    let mut written = Vec::new();
    form.write(0, sent, 32, &mut written);
    assert_eq!(written, request);
    assert_eq!(form.read(&request), Ok(1));
    let mut answer = Vec::new();
    form.answer(&request, (sent, sent + Span::micros(300)), 1, &mut answer);
    assert_eq!(answer, answered);
    let parsed = form.parse(&answered, sent + Span::millis(3)).unwrap();
    assert_eq!((parsed.seq, parsed.number, parsed.times), (0, Some(1), Some((sent, sent))));
    // An answer that was held into the next millisecond.
    let held = hex(&format!("0002 0001 029aa101 029aa101 0004 0004 {fill}"));
    let parsed = form.parse(&held, sent).unwrap();
    let received = after_midnight(0x029a_a101);
    let boundary = received + Span::micros(500);
    assert_eq!(parsed.times, Some((boundary, boundary)));
    assert!(form.read(&answered).is_err() && form.read(&held).is_err(), "answers are not requests");
    // An echo of 16 bytes, as recorded, comes back unchanged.
    let echo = hex("0001 0000 abcdabcdabcdabcdabcdabcd");
    assert_eq!(ProbeForm::Echo.read(&echo), Ok(0xabcd_abcd));
    let mut answer = Vec::new();
    ProbeForm::Echo.answer(&echo, (sent, sent), 1, &mut answer);
    assert_eq!(answer, echo);
}

#[test]
fn milliseconds_since_midnight_wrap() {
    let form = ProbeForm::Milliseconds;
    let day = 86_400_000;
    // Sent one millisecond before midnight, received one and answered two milliseconds after it.
    let (sent, received) = (after_midnight(day - 1), after_midnight(day + 1));
    let mut request = Vec::new();
    form.write(9, sent, 16, &mut request);
    assert_eq!(request[4..8], (day as u32 - 1).to_be_bytes());
    let mut answer = Vec::new();
    form.answer(&request, (received, received + Span::millis(1)), 10, &mut answer);
    assert_eq!((&answer[2..4], &answer[8..12]), (&[0, 1][..], &[0, 0, 0, 1][..]));
    for near in [sent, received + Span::millis(2), sent - Span::seconds(40_000), sent + Span::seconds(40_000)]
    {
        let times = form.parse(&answer, near).unwrap().times;
        let boundary = received + Span::micros(500);
        assert_eq!(times, Some((boundary, boundary)), "{near:?}");
    }
    answer[8..12].copy_from_slice(&(day as u32).to_be_bytes());
    assert_eq!(form.parse(&answer, sent), None, "no day has this many milliseconds");
}

#[test]
fn probes_with_finer_times() {
    use jitlat_core::ntp::TimeFormat::{Ntp, Ptp};
    for (form, size) in [(ProbeForm::Microseconds, 68), (ProbeForm::V2(Ntp), 124), (ProbeForm::V2(Ptp), 124)]
    {
        let sent = after_midnight(5);
        let mut request = Vec::new();
        form.write(0x1_0001, sent, size, &mut request);
        assert_eq!((request.len(), &request[..4]), (size, &[0, 3, 0, 0][..]));
        let times = (sent + Span(1234), sent + Span(5678));
        let mut answer = Vec::new();
        form.answer(&request, times, 0x1_0003, &mut answer);
        let parsed = form.parse(&answer, sent).unwrap();
        let bits = |n: u32| if form == ProbeForm::Microseconds { n & 0xffff } else { n };
        assert_eq!((parsed.seq, parsed.number), (bits(0x1_0001), Some(bits(0x1_0003))));
        assert_eq!(parsed.times, Some(times));
        // Only the responder's own fields differ.
        let changed: Vec<usize> = (0..size).filter(|at| request[*at] != answer[*at]).collect();
        let own = if form == ProbeForm::Microseconds { 54..56 } else { 56..60 };
        assert!(changed.iter().all(|at| (12..28).contains(at) || own.contains(at)), "{changed:?}");
        assert!(form.read(&answer).is_err());
    }
}

fn message(auth: Option<(AuthMode, u16)>) -> ControlMessage {
    ControlMessage {
        status: [0; 2],
        seq: 1,
        auth,
        random: auth.map_or([0; 16], |_| std::array::from_fn(|k| k as u8)),
        session: 0,
        probes: ("192.0.2.1:50001".parse().unwrap(), "192.0.2.2:50505".parse().unwrap()),
        control_port: 50_000,
        duration: Span::millis(5000),
    }
}

/// The time that is zero on the wire.
const NO_TIME: WallTime = WallTime(-2_208_988_800_000_000_000);

#[test]
fn messages_of_version_2() {
    let zeros = |n: usize| "00".repeat(n);
    let measurement = format!(
        "0002 0000 0000005c 02 01 0000 00000000 c0000201{z} c0000202{z} c0000201{z} c0000202{z} c350 0000 c351 c549 \
         00001388",
        z = zeros(12)
    );
    let header = "02000000 00000001 000000ac 0000000000000000";
    let wanted = hex(&format!("{header} 0001 0000 0000003c 00 00 0000 {} {measurement}", zeros(48)));
    let mut written = Vec::new();
    message(None).write(NO_TIME, None, &mut written);
    assert_eq!(written, wanted);
    assert_eq!(ControlMessage::parse(&written), Ok(message(None)));
    // Random number and digest may be missing without a key.
    let short = hex(&format!(
        "02000000 00000001 0000007c 0000000000000000 0001 0000 0000000c 00000000 {measurement}"
    ));
    assert_eq!(ControlMessage::parse(&short), Ok(message(None)));
    let key = IpslaKey::new(7, b"jitlat");
    let digests = [
        (AuthMode::Sha256, "be087c239f245620977947bf5ed5da443e28203c182af4e57a6d77b9e4edc7ab"),
        (AuthMode::HmacSha256, "fe23ae5224d4940e69b0d22fcee628407c23f19a882e758c17ba33b3f8cd7f63"),
    ];
    for (mode, digest) in digests {
        let mut written = Vec::new();
        let message = message(Some((mode, 7)));
        message.write(NO_TIME, Some(&key), &mut written);
        assert_eq!(written[48..80], hex(digest)[..]);
        assert_eq!(ControlMessage::parse(&written).as_ref(), Ok(&message));
        assert!(message.is_signed_by(&key, &written));
        assert!(!message.is_signed_by(&IpslaKey::new(7, b"other"), &written));
        for at in [0, 30, 48, 79, 171] {
            let mut forged = written.clone();
            forged[at] ^= 1;
            assert!(!message.is_signed_by(&key, &forged), "byte {at}");
        }
        // The answer is signed in the same way, and has the same length.
        let mut answer = Vec::new();
        let opened = Answer { status: Status::Success, session: 5, port: 50_505 };
        opened.write(&written, NO_TIME, Some((mode, &key)), &mut answer);
        let parsed = ControlMessage::parse(&answer).unwrap();
        assert!(answer.len() == written.len() && parsed.is_signed_by(&key, &answer));
        assert_eq!((parsed.session, parsed.random, parsed.status), (5, message.random, [0; 2]));
    }
}
