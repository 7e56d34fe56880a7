use super::*;
use jitlat_core::session::Ending;

const CREATED: WallTime = WallTime(1_795_000_000_000_000_000);

fn begin(plan: &str) -> Result<BrowserTest, BrowserError> {
    BrowserTest::begin(plan, SteadyTime(0), CREATED)
}

fn request(seq: u32) -> Vec<u8> {
    let mut bytes = seq.to_be_bytes().to_vec();
    bytes.resize(80, 0);
    bytes
}

/// Returns a test of four requests, of which the server has answered all but the last one.
fn answered() -> BrowserTest {
    let mut test = begin(r#"{"packets":4,"period_ms":20,"bytes":80}"#).unwrap();
    for seq in 0..3 {
        test.answer(&request(seq)).unwrap();
    }
    test
}

fn finish(rows: &str) -> Result<BrowserResult, BrowserError> {
    let report = format!(r#"{{"rows":{rows},"resolution_ms":0.1,"hidden":false,"stopped":false}}"#);
    answered().finish(&report, "Mozilla/5.0 (X11)\u{202e}", SteadyTime(1_000_000_000))
}

#[test]
fn a_report_becomes_records_of_round_trips_without_one_way_times() {
    let result = finish("[[0,0.5,10.5],[1,20,55],[2,40,50.1],[3,60,null]]").unwrap();
    let round_trips: Vec<(i64, i64)> = result
        .records
        .iter()
        .map(|r| (r.seq, (r.time(jitlat_core::record::Moment::Returned).unwrap() - r.sent().unwrap()).0))
        .collect();
    assert_eq!(round_trips, [(0, 10_000_000), (2, 10_100_000), (1, 35_000_000)]);
    assert!(result.records.iter().all(|r| r.arrived().is_none()));
    let session = result.session;
    assert_eq!((session.sent, session.ending), (Some(4), Ending::Complete));
    assert_eq!(session.two_way.unwrap().protocol, PROTOCOL);
    assert_eq!(session.client.notes, ["the browser's clock has steps of 100 us"]);
    assert!(session.client.system.unwrap().starts_with("Mozilla/5.0 (X11)"));
}

#[test]
fn plans_beyond_the_limits_are_refused() {
    for (plan, why) in [
        ("{}", "plan cannot be read"),
        ("[", "plan cannot be read"),
        (r#"{"packets":0,"period_ms":20,"bytes":80}"#, "number of requests must be 1 to 6000"),
        (r#"{"packets":6001,"period_ms":20,"bytes":80}"#, "number of requests"),
        (r#"{"packets":10,"period_ms":4,"bytes":80}"#, "time between requests must be 5 to 60000 ms"),
        (r#"{"packets":10,"period_ms":18446744073709551615,"bytes":80}"#, "time between requests"),
        (r#"{"packets":10,"period_ms":20,"bytes":1401}"#, "length must be 24 to 1400 bytes"),
        (r#"{"packets":6000,"period_ms":20,"bytes":80}"#, "duration must be at most 60 s"),
        (r#"{"packets":10,"period_ms":20,"bytes":80,"more":1}"#, "plan cannot be read"),
    ] {
        let refused = begin(plan).unwrap_err().to_string();
        assert!(refused.contains(why), "{plan}: {refused}");
    }
}

#[test]
fn each_request_is_answered_once_and_only_with_its_length() {
    let mut test = answered();
    for wrong in [request(0), request(4), request(u32::MAX), Vec::new(), vec![0; 3], vec![0, 0, 0, 3], {
        let mut long = request(3);
        long.push(0);
        long
    }] {
        assert_eq!(test.answer(&wrong), Err(BrowserError::Request(wrong.len())));
    }
    assert_eq!(test.answer(&request(3)), Ok(()));
    assert_eq!(test.deadline(), SteadyTime(15_080_000_000));
}

#[test]
fn a_report_that_contradicts_the_server_is_refused() {
    for (rows, why) in [
        ("[[3,60,61]]", "never sent"),
        ("[[4,60,61]]", "beyond the last"),
        ("[[0,0,1],[0,1,2]]", "twice"),
        ("[[0,5,1]]", "before its request"),
        ("[[0,0,1200]]", "after the end"),
        ("[[0,1200,null]]", "after the end"),
        ("[[1,20,30],[0,0,1]]", "before an earlier one"),
        ("[[0,-1,1]]", "not within the test"),
        ("[[0,0,1e300]]", "not within the test"),
        ("[[0,0]]", "cannot be read"),
        ("7", "cannot be read"),
    ] {
        let refused = finish(rows).unwrap_err().to_string();
        assert!(refused.contains(why), "{rows}: {refused}");
    }
    // An empty report is one: nothing was sent.
    assert_eq!(finish("[]").unwrap().session.sent, Some(0));
}

#[test]
fn a_test_in_the_background_and_one_that_was_stopped_say_so() {
    let report = r#"{"rows":[[0,0,1]],"resolution_ms":-1,"hidden":true,"stopped":true}"#;
    let session = answered().finish(report, "", SteadyTime(1_000_000_000)).unwrap().session;
    assert_eq!(session.ending, Ending::Interrupted);
    assert_eq!(session.client.system, None);
    let notes = session.client.notes.join("; ");
    assert!(
        notes.contains("steps of the browser's clock are unknown") && notes.contains("in the background")
    );
}
