use super::answer::{Offers, Outcome, PartAnswer};
use super::part::{MAX_LINE, PartError, PartHeader};
use super::quota::{PushQuota, PushUse};
use super::{Retry, earlier, most_packed};
use jitlat_core::{Span, SteadyTime};
use proptest::prelude::*;
use std::io::{BufReader, Cursor};

fn header(bytes: u64, packed: Option<u64>) -> PartHeader {
    let tags = vec![("client".to_owned(), "berlin".to_owned())];
    PartHeader { hash: "a0".repeat(32), source: "x.log".to_owned(), tags, bytes, packed }
}

/// Reads all parts of a body with a buffer of this size.
fn parts(body: &[u8], buffer: usize) -> Result<Vec<(PartHeader, Vec<u8>)>, PartError> {
    let (mut body, mut all) = (BufReader::with_capacity(buffer, body), Vec::new());
    while let Some(header) = PartHeader::read(&mut body)? {
        let mut log = Vec::new();
        let went = header.log(&mut body, |piece| -> Result<(), ()> {
            log.extend_from_slice(piece);
            Ok(())
        })?;
        assert_eq!(went, Ok(()));
        all.push((header, log));
    }
    Ok(all)
}

#[test]
fn a_body_is_read_as_it_was_written_whatever_the_pieces() {
    let logs = [&b"first"[..], b"", b"\n{}\n\0third"];
    let mut body = Vec::new();
    for log in logs {
        body.extend(header(1000, Some(log.len() as u64)).line());
        body.extend_from_slice(log);
    }
    for buffer in [1, 7, 8192] {
        let read = parts(&body, buffer).unwrap();
        assert_eq!(read.iter().map(|(_, log)| log.as_slice()).collect::<Vec<_>>(), logs);
        assert_eq!(read[0].0, header(1000, Some(5)));
    }
    // A log that is the rest of the body.
    let rest = [header(9, None).line(), b"the rest".to_vec()].concat();
    assert_eq!(parts(&rest, 3).unwrap()[0].1, b"the rest");
    for cut in 1..body.len() {
        let whole = parts(&body[..cut], 64);
        let ends = whole.as_ref().is_ok_and(|read| read.len() < 3);
        assert!(ends || matches!(whole, Err(PartError::Short)), "{cut}: {whole:?}");
    }
}

#[test]
fn a_part_that_nobody_wants_does_not_hide_the_next() {
    let body =
        [header(9, Some(4)).line(), b"bad!".to_vec(), header(9, Some(4)).line(), b"good".to_vec()].concat();
    let mut body = Cursor::new(body);
    let first = PartHeader::read(&mut body).unwrap().unwrap();
    assert_eq!(first.log(&mut body, |_| Err("no")).unwrap(), Err("no"));
    let second = PartHeader::read(&mut body).unwrap().unwrap();
    let mut log = Vec::new();
    let keep = |piece: &[u8]| {
        log.extend_from_slice(piece);
        Ok::<(), ()>(())
    };
    second.log(&mut body, keep).unwrap().unwrap();
    assert_eq!(log, b"good");
    assert!(PartHeader::read(&mut body).unwrap().is_none());
}

#[test]
fn lines_that_describe_no_test_are_refused_with_the_reason() {
    let refused = |line: Vec<u8>, why: &str| {
        let said = PartHeader::read(&mut Cursor::new(line)).unwrap_err().to_string();
        assert!(said.contains(why), "{said}, not {why}");
    };
    refused(b"nonsense\n".to_vec(), "not valid");
    refused(PartHeader { hash: "A0".repeat(32), ..header(1, None) }.line(), "64 hexadecimal digits");
    refused(PartHeader { hash: "../x".to_owned(), ..header(1, None) }.line(), "64 hexadecimal digits");
    refused(header(100, Some(most_packed(100) + 1)).line(), "packed is too large");
    let tags = vec![("k".to_owned(), String::new()); 65];
    refused(PartHeader { tags, ..header(1, None) }.line(), "more than 64 tags");
    refused(vec![b' '; MAX_LINE + 10], "too long");
    let long = [header(0, None).line(), vec![0; 1025]].concat();
    let mut body = Cursor::new(long);
    let part = PartHeader::read(&mut body).unwrap().unwrap();
    assert!(part.log(&mut body, |_| Ok::<(), ()>(())).is_err(), "more than the log can need");
}

#[test]
fn offers_and_answers_say_what_they_mean() {
    let offers =
        Offers { waiting: 3, dropped: 1, tests: vec!["0".repeat(64), "1".repeat(32)], ..Offers::default() };
    assert_eq!(Offers::parse(&serde_json::to_vec(&offers).unwrap()), Ok(offers));
    for wrong in
        ["", "[]", "{\"waiting\":-1,\"dropped\":0}", "{\"waiting\":0,\"dropped\":0,\"tests\":[\"x\"]}"]
    {
        assert!(Offers::parse(wrong.as_bytes()).is_err(), "{wrong}");
    }
    let many = Offers { tests: vec!["0".repeat(64); 257], ..Offers::default() };
    assert!(Offers::parse(&serde_json::to_vec(&many).unwrap()).unwrap_err().contains("more than 256"));
    let of = |answer: PartAnswer| answer.outcome();
    assert_eq!(of(PartAnswer::stored("x")), Outcome::Stored);
    assert_eq!(of(PartAnswer::known("x")), Outcome::Stored);
    assert_eq!(of(PartAnswer::refused("x", "no".to_owned())), Outcome::Refused("no".to_owned()));
    let wait = Outcome::Later("full".to_owned(), Span::seconds(2));
    assert_eq!(of(PartAnswer::later("x", "full".to_owned(), Span::millis(1200))), wait);
    assert_eq!(of(PartAnswer::over_quota("x", "full".to_owned(), Span::millis(1200))), wait);
    let unknown = PartAnswer { status: 500, ..PartAnswer::stored("x") };
    assert!(matches!(of(unknown), Outcome::Later(..)), "kept, not lost");
}

#[test]
fn each_quota_holds_and_says_when_it_has_room_again() {
    let quota = PushQuota { tests_per_second: 10, bytes_per_day: 86_400_000, bytes: 500_000_000 };
    let mut uses = PushUse::new(&quota, 0, SteadyTime(0));
    let mut at =
        |seconds: i64, bytes, stored| uses.take(&quota, bytes, stored, SteadyTime(seconds * 1_000_000_000));
    // The tests of 20 s are permitted at once, then as many as the rate permits.
    (0..200).for_each(|_| at(0, 1, 0).unwrap());
    let over = at(0, 1, 0).unwrap_err();
    assert!(over.what == "more than 10 tests/s" && over.wait == Span::millis(100), "{over:?}");
    (0..10).for_each(|_| at(1, 1, 0).unwrap());
    assert!(at(1, 1, 0).is_err());
    // 1000 bytes per second; the bytes of a day are permitted at once.
    at(100, 86_000_000, 0).unwrap();
    let over = at(101, 1_000_000, 0).unwrap_err();
    assert!(
        over.what.contains("in a day") && (Span::seconds(550)..Span::seconds(610)).contains(&over.wait),
        "{over:?}"
    );
    at(101 + over.wait.0 / 1_000_000_000 + 1, 1_000_000, 0).unwrap();
    let over = at(10_000, 10, 500_000_000).unwrap_err();
    assert_eq!(over.what, "more than 500000000 bytes in all");
    // The quota also holds if the clock does not advance, and for a host that pushed before the collector started.
    let mut later = PushUse::new(&quota, 86_400_000, SteadyTime(5));
    assert!(later.take(&quota, 10_000, 0, SteadyTime(5)).is_err());
    assert!(later.take(&quota, 10_000, 0, SteadyTime(20_000_000_000)).is_ok());
}

#[test]
fn the_greeting_of_the_earlier_protocol_is_recognised() {
    let hello = b"\0\0\0\x18\x01JLTP\0\x01";
    assert_eq!(earlier::is_earlier(hello), Some(true));
    (0..9).for_each(|n| assert_eq!(earlier::is_earlier(&hello[..n]), None));
    for other in [&b"\x16\x03\x01"[..], b"PUT /push", b"\0\0\0\x18\x01JLTD\0"] {
        assert_eq!(earlier::is_earlier(other), Some(false));
    }
    let refusal = earlier::refusal();
    assert_eq!(u32::from_be_bytes(refusal[..4].try_into().unwrap()) as usize, refusal.len() - 4);
    assert!(refusal[4..6] == [15, 0] && usize::from(refusal[6]) == refusal.len() - 7 && refusal[6] <= 200);
}

#[test]
fn pauses_grow_to_five_minutes_and_end_with_success() {
    let mut retry = Retry::new(7);
    let mut now = SteadyTime(0);
    let mut longest = Span::ZERO;
    for k in 0..20 {
        assert!(retry.may_try(now));
        let wait = retry.failed(now, Span::ZERO);
        let whole = Span::seconds(5 << k.min(10)).min(Span::seconds(300));
        assert!(wait <= whole && wait.0 >= whole.0 / 4 * 3, "{k}: {wait:?}");
        assert!(!retry.may_try(now + Span(wait.0 - 1)));
        now = now + wait;
        longest = longest.max(wait);
    }
    assert!(longest > Span::seconds(250));
    assert_eq!(retry.failed(now, Span::seconds(900)), Span::seconds(900));
    retry.succeeded();
    assert!(retry.may_try(now));
    assert!(retry.failed(now, Span::ZERO) <= Span::seconds(5));
}

proptest! {
    #[test]
    fn no_body_makes_it_panic_or_read_more_than_it_says(body in proptest::collection::vec(any::<u8>(), 0..400)) {
        let read = parts(&body, 16);
        if let Ok(read) = read {
            prop_assert!(read.iter().map(|(_, log)| log.len()).sum::<usize>() <= body.len());
        }
    }
}
