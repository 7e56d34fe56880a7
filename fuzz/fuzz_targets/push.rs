//! Input of a collector from a host with a key, arbitrary bytes: bodies in pieces of any size, offers, the first bytes of a
//! connection, and times and sizes against its quota.
#![no_main]
// Aims at: crates/proto/src/push

use jitlat_core::{Span, SteadyTime};
use jitlat_proto::push::answer::{Offers, PartAnswers};
use jitlat_proto::push::part::{MAX_LINE, PartHeader};
use jitlat_proto::push::quota::{PushQuota, PushUse};
use jitlat_proto::push::{MAX_TAGS, MAX_TESTS, earlier, is_earlier_name, is_name, most_packed};
use libfuzzer_sys::fuzz_target;
use std::io::BufReader;

/// Reads a body as a collector does; returns the parts and the bytes of their logs.
fn parts(body: &[u8], buffer: usize, refuses: bool) -> (Vec<PartHeader>, Vec<Vec<u8>>) {
    let mut body = BufReader::with_capacity(buffer, body);
    let (mut headers, mut logs) = (Vec::new(), Vec::new());
    while let Ok(Some(header)) = PartHeader::read(&mut body) {
        assert!(is_name(&header.hash) && header.tags.len() <= MAX_TAGS);
        assert_eq!(PartHeader::parse(header.line().trim_ascii_end()).ok(), Some(header.clone()));
        let mut log = Vec::new();
        let went = header.log(&mut body, |piece| {
            log.extend_from_slice(piece);
            if refuses { Err(()) } else { Ok(()) }
        });
        assert!(log.len() as u64 <= header.packed.unwrap_or(most_packed(header.bytes)));
        headers.push(header);
        logs.push(log);
        if went.is_err() {
            break;
        }
    }
    (headers, logs)
}

fn quotas(data: &[u8]) {
    let [rate, per_day, rest @ ..] = data else { return };
    let quota = PushQuota {
        tests_per_second: u32::from(*rate) + 1,
        bytes_per_day: (u64::from(*per_day) + 1) * 1000,
        bytes: 1 << 20,
    };
    let (mut uses, mut now, mut stored) = (PushUse::new(&quota, 0, SteadyTime(0)), SteadyTime(0), 0u64);
    let (mut tests, mut sent) = (0u64, 0u64);
    for op in rest.chunks(2) {
        now = now + Span(i64::from(op[0]) * 10_000_000);
        let bytes = u64::from(*op.get(1).unwrap_or(&0)) * 7;
        match uses.take(&quota, bytes, stored, now) {
            Ok(()) => (tests, sent, stored) = (tests + 1, sent + bytes, stored + bytes),
            Err(over) => {
                assert!(over.wait > Span::ZERO);
                // After that time there is room, unless the archive is full.
                let mut later = uses.clone();
                let alone = bytes <= quota.bytes_per_day && stored + bytes <= quota.bytes;
                let at = now + Span::seconds(200_000);
                assert!(!alone || later.take(&quota, bytes, stored, at).is_ok());
            }
        }
        let seconds = now.0 as f64 / 1e9;
        assert!(tests as f64 <= (seconds + 20.0) * f64::from(quota.tests_per_second) + 1.0);
        assert!(sent as f64 <= quota.bytes_per_day as f64 * (1.0 + seconds / 86_400.0) + 1.0);
        assert!(stored <= quota.bytes);
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&kind, rest)) = data.split_first() else { return };
    let whole = parts(rest, MAX_LINE * 2, false);
    let buffer = usize::from(kind) + 1;
    assert_eq!(whole, parts(rest, buffer, false));
    assert_eq!(whole.0, parts(rest, buffer, true).0, "a refused log does not hide the next part");
    if let Ok(offers) = Offers::parse(rest) {
        assert!(offers.tests.len() <= MAX_TESTS);
        assert!(offers.tests.iter().all(|name| is_name(name) || is_earlier_name(name)));
        let again = serde_json::to_vec(&offers).expect("texts and numbers");
        assert_eq!(Offers::parse(&again), Ok(offers));
    }
    // The answer of a collector is not trusted either.
    if let Ok(answers) = serde_json::from_slice::<PartAnswers>(rest) {
        answers.tests.iter().for_each(|answer| drop(answer.outcome()));
    }
    if earlier::is_earlier(rest) == Some(true) {
        assert!(rest.len() >= earlier::ENOUGH);
    }
    quotas(rest);
});
