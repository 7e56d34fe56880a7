//! A minimal reader of the golden logs for tests; the full one is in another crate.

use jitlat_core::{
    Direction, Dscp, Flags, PacketRecord, Schedule, Session, Span, TestSpec, Transport, WallTime,
};
use std::path::PathBuf;

/// Returns the path of a file in `testdata/`.
pub fn testdata(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)
}

/// Reads a golden log: its session and its rows.
pub fn golden_log(name: &str) -> (Session, Vec<PacketRecord>) {
    let text = std::fs::read_to_string(testdata(name)).unwrap();
    let header = |key: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix("# ")?.strip_prefix(key)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {key} in {name}")).to_owned()
    };
    let number = |key: &str| header(key).parse::<u64>().unwrap();
    let transport = Transport::from_number(number("proto") as u32).unwrap();
    let period = Span(number("period") as i64);
    let mut spec = TestSpec::new(
        Direction::Up,
        transport,
        number("npkts"),
        number("pktlen"),
        period,
        Schedule::Periodic,
    )
    .unwrap();
    spec.dscp = Dscp::new(number("dscp") as u32).unwrap();
    spec.src_port = number("src_port") as u16;
    spec.dst_port = number("dst_port") as u16;
    let mut session = Session::new(spec);
    session.version = 1;
    session.direction_known = false;
    session.created = Some(WallTime(parse_date(text.lines().next().unwrap()) * 1_000_000_000));
    session.src = Some(header("src_ip").parse().unwrap());
    session.dst = Some(header("dst_ip").parse().unwrap());
    let seconds = |label: &str| {
        let line = text.lines().find(|l| l.starts_with('#') && l.contains(label))?;
        let value: f64 = line.split("= ").nth(1)?.strip_suffix(" s")?.parse().ok()?;
        Some(Span((value * 1e9).round() as i64))
    };
    if text.contains("clock error") {
        session.version = 2;
        session.classic_offset = seconds("clock error");
        session.classic_rtt = seconds("RTT");
    }
    let rows = text.lines().filter(|l| !l.starts_with('#')).map(|line| {
        let f: Vec<i64> = line.split(' ').map(|x| x.parse().unwrap()).collect();
        let mut record = PacketRecord::one_way(f[2], WallTime(f[1]), WallTime(f[3]));
        record.flags = Flags::from_classic(f[4] as i32);
        record
    });
    (session, rows.collect())
}

/// Parses a date such as `# Fri Jul 3 19:46:11 UTC 2009` to seconds since 1970.
fn parse_date(line: &str) -> i64 {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let months = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let month = months.find(fields[2]).unwrap() as i64 / 3 + 1;
    let (day, year): (i64, i64) = (fields[3].parse().unwrap(), fields[6].parse().unwrap());
    let time: Vec<i64> = fields[4].split(':').map(|x| x.parse().unwrap()).collect();
    let leap = |y: i64| i64::from(y % 4 == 0 && y % 100 != 0 || y % 400 == 0);
    let lengths = [31, 28 + leap(year), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let days: i64 = (1970..year).map(|y| 365 + leap(y)).sum::<i64>()
        + lengths[..month as usize - 1].iter().sum::<i64>()
        + day
        - 1;
    days * 86_400 + time[0] * 3600 + time[1] * 60 + time[2]
}
