//! [`TwpingStatistics`]: prints a two-way test like perfSONAR's `twping`: without options, `-v`, `-R` and `-M`.
//!
//! As in [OWAMP's statistics](crate::owamp::statistics), percentiles are counted in buckets and include lost packets.
//! Unlike in twping's output, delays between clocks that are not synchronised are marked even if nothing was lost.

use crate::amp::Sid;
use crate::amp::printed::{
    DelayBuckets, Extremes, OwpingOptions, between, endpoint, error, estimate_of, general, hops, reading,
    time_of_day, unix_seconds,
};
use core::fmt::Write;
use core::net::{IpAddr, Ipv4Addr};
use jitlat_core::ntp::{ErrorEstimate, NtpTime};
use jitlat_core::record::Moment;
use jitlat_core::session::Ending;
use jitlat_core::twoway::LossSide;
use jitlat_core::{PacketRecord, Session, Span, WallTime};
use std::collections::{BTreeMap, HashSet};

/// TTL of packets for which none is known.
const NO_TTL: u8 = 255;
/// Timeout of a test that states none: twping's default.
const USUAL_TIMEOUT: Span = Span::seconds(2);
/// Maximum number of lost requests that are listed.
const MAX_LOST: u64 = 1 << 24;

/// One answer.
#[derive(Clone, Copy, Debug)]
struct Answer {
    seq: u32,
    /// Sequence number of the reflector.
    reflected: u32,
    /// Times of sending, of arrival and answer at the reflector, and of return.
    times: [NtpTime; 4],
    /// TTL of the answer on its return.
    ttl: u8,
}

impl Answer {
    fn forward(&self) -> f64 {
        between(self.times[0], self.times[1])
    }

    fn backward(&self) -> f64 {
        between(self.times[2], self.times[3])
    }

    fn processing(&self) -> f64 {
        between(self.times[1], self.times[2])
    }

    fn round_trip(&self) -> f64 {
        between(self.times[0], self.times[3]) - self.processing()
    }
}

/// Figures of one of the three delays: round trip, forward, backward.
#[derive(Default)]
struct DelayCounts {
    extremes: Extremes,
    buckets: DelayBuckets,
}

/// A two-way test in the format of twping.
#[derive(Debug)]
pub struct TwpingStatistics<'a> {
    session: &'a Session,
    answers: Vec<Answer>,
    /// Requests without an answer, with the times at which they were sent or should have been.
    lost: Vec<(u32, NtpTime)>,
    first: NtpTime,
    last: NtpTime,
    near_error: ErrorEstimate,
    far_error: ErrorEstimate,
    style: OwpingOptions,
}

impl<'a> TwpingStatistics<'a> {
    /// Creates the statistics of the test `session` with its answers in order of arrival; `None` if the far host did not
    /// report its times, which this format needs, or if millions of requests were lost.
    pub fn new(
        session: &'a Session,
        records: &[PacketRecord],
        style: OwpingOptions,
    ) -> Option<TwpingStatistics<'a>> {
        if !session.two_way.as_ref().is_some_and(|facts| facts.far_clock) {
            return None;
        }
        let sent = session.packets();
        let moments = [Moment::Sent, Moment::Arrived, Moment::Answered, Moment::Returned];
        let mut answers = Vec::new();
        for record in records.iter().filter(|r| r.flags.is_clean() && (0..sent as i64).contains(&r.seq)) {
            let [Some(a), Some(b), Some(c), Some(d)] = moments.map(|m| record.time(m)) else { continue };
            let (seq, ttl) = (u32::try_from(record.seq).ok()?, record.ttl().unwrap_or(NO_TTL));
            answers.push(Answer { seq, reflected: seq, times: [a, b, c, d].map(NtpTime::from), ttl });
        }
        number(session, &mut answers);
        let mut sent_at: BTreeMap<u32, NtpTime> = BTreeMap::new();
        for answer in &answers {
            sent_at.entry(answer.seq).or_insert(answer.times[0]);
        }
        if sent - sent_at.len() as u64 > MAX_LOST {
            return None;
        }
        let step = NtpTime::from_span(session.spec.period()).0 as i64;
        let first = sent_at.iter().next().map(|(seq, at)| (*seq, *at));
        let created = (0, NtpTime::from(session.created.unwrap_or(WallTime(0))));
        let scheduled = |seq: u32| {
            let before = sent_at.range(..=seq).next_back().map(|(near, at)| (*near, *at));
            let (near, at) = before.or(first).unwrap_or(created);
            NtpTime(at.0.wrapping_add(step.wrapping_mul(i64::from(seq) - i64::from(near)) as u64))
        };
        let sent = u32::try_from(sent).unwrap_or(u32::MAX);
        let unrecorded: Vec<_> = session.unrecorded_in(0, sent.into()).collect();
        let is_missing = |seq: &u32| {
            let at = u64::from(*seq);
            let next = unrecorded.partition_point(|run| run.start + run.len <= at);
            !sent_at.contains_key(seq) && unrecorded.get(next).is_none_or(|run| run.start > at)
        };
        Some(TwpingStatistics {
            lost: (0..sent).filter(is_missing).map(|seq| (seq, scheduled(seq))).collect(),
            first: scheduled(0),
            last: scheduled(sent.saturating_sub(1)),
            near_error: estimate_of(&session.client),
            far_error: estimate_of(&session.server),
            session,
            answers,
            style,
        })
    }

    /// Returns the lines of `twping -R`: for each request its sequence number, time, error estimate, arrival and TTL,
    /// and the same for its answer. Lost requests follow at the end.
    pub fn raw(&self) -> String {
        let (near, far) = (self.near_error, self.far_error);
        let mut out = String::new();
        for Answer { seq, reflected, times: [a, b, c, d], ttl } in &self.answers {
            let [a, d] = [a, d].map(|at| reading(Some(*at), near));
            let [b, c] = [b, c].map(|at| reading(Some(*at), far));
            let _ = writeln!(out, "{seq} {a} {b} {NO_TTL} {reflected} {c} {d} {ttl}");
        }
        let unknown = ErrorEstimate::UNKNOWN;
        let never = reading(None, unknown);
        for (seq, at) in &self.lost {
            let sent = reading(Some(*at), unknown);
            let _ = writeln!(out, "{seq} {sent} {never} {NO_TTL} 0 {never} {never} {NO_TTL}");
        }
        out
    }

    /// Returns the lines of `twping -v`: every packet, then the summary. Times of day are UTC.
    pub fn text(&self) -> String {
        let unit = self.style.unit;
        let (symbol, clocks) = (unit.symbol(), self.clocks());
        let mut out = self.heading();
        for answer in &self.answers {
            let [forward, backward, delay, processing] =
                [answer.forward(), answer.backward(), answer.round_trip(), answer.processing()]
                    .map(|seconds| unit.show(Some(seconds)));
            let _ = writeln!(
                out,
                "seq_no={:<10} fwd_delay={forward} {symbol} bck_delay={backward} {symbol} delay={delay} {symbol} \
                 proc_delay={processing} {symbol}\t{clocks}",
                answer.seq
            );
        }
        for (seq, _) in &self.lost {
            let _ = writeln!(out, "seq_no={seq:<10} *LOST*");
        }
        out + &self.summary()
    }

    /// Returns the lines of `twping` without options. Times of day are UTC.
    pub fn summary(&self) -> String {
        let mut out = self.heading();
        let (symbol, bucket) = (self.style.unit.symbol(), self.style.bucket);
        let show = |seconds| self.style.unit.show(seconds);
        let _ = writeln!(out, "first:\t{}\nlast:\t{}", time_of_day(self.first), time_of_day(self.last));
        let (sent, lost) = (self.sent(), self.lost.len());
        let share = if sent == 0 { 0.0 } else { 100.0 * lost as f64 / sent as f64 };
        let (up, down) = self.duplicates();
        let _ = writeln!(
            out,
            "{sent} sent, {lost} lost ({share:.3}%), {up} send duplicates, {down} reflect duplicates"
        );
        let counts = self.count();
        let names = ["round-trip", "send", "reflect"];
        for (name, counts) in names.into_iter().zip(&counts) {
            let _ = writeln!(
                out,
                "{name} time min/median/max = {}/{}/{} {symbol}, {}",
                show(counts.extremes.least()),
                show(counts.buckets.percentile(0.5, sent, bucket)),
                show(counts.extremes.most()),
                self.clocks()
            );
        }
        let processing = self.processing();
        let _ = writeln!(
            out,
            "reflector processing time min/max = {}/{} {symbol}",
            show(processing.least()),
            show(processing.most())
        );
        for (name, counts) in ["two-way", "send", "reflect"].into_iter().zip(&counts) {
            let jitter = show(counts.buckets.jitter(sent, bucket));
            let _ = writeln!(out, "{name} jitter = {jitter} {symbol} (P95-P50)");
        }
        let [forward, backward] = self.ttls();
        out += &hops("send ", &forward).unwrap_or_else(|| "send TTL not reported\n".to_owned());
        out += &hops("reflect ", &backward).unwrap_or_else(|| "reflect TTL not reported\n".to_owned());
        out.push('\n');
        out
    }

    /// Returns the lines of `twping -M`: a key and a value each, in seconds, and histograms.
    pub fn machine(&self) -> String {
        let mut out = String::new();
        let spec = &self.session.spec;
        let sent = self.sent();
        let mut line = |key: &str, value: String| {
            let _ = writeln!(out, "{key}\t{value}");
        };
        line("SUMMARY", "3.00".to_owned());
        line("SID", self.sid().to_string());
        for (end, (ip, port)) in ["FROM", "TO"].into_iter().zip(self.endpoints()) {
            line(&format!("{end}_HOST"), ip.to_string());
            line(&format!("{end}_ADDR"), ip.to_string());
            line(&format!("{end}_PORT"), port.to_string());
        }
        let ends = [self.first, self.last];
        for (name, at) in ["START_TIME", "END_TIME"].into_iter().zip(ends) {
            line(name, format!("{:020}", at.0));
        }
        if self.style.unix_times {
            for (name, at) in ["UNIX_START_TIME", "UNIX_END_TIME"].into_iter().zip(ends) {
                line(name, format!("{:.6}", unix_seconds(at)));
            }
        }
        line("DSCP", format!("0x{:02x}", spec.dscp.value()));
        let timeout = self.session.two_way.as_ref().and_then(|facts| facts.timeout).unwrap_or(USUAL_TIMEOUT);
        line("LOSS_TIMEOUT", NtpTime::from_span(timeout).0.to_string());
        // The fields of a request take 14 bytes.
        line("PACKET_PADDING", spec.payload().saturating_sub(14).to_string());
        line("SESSION_PACKET_COUNT", spec.packets().to_string());
        line("SAMPLE_PACKET_COUNT", spec.packets().to_string());
        line("BUCKET_WIDTH", general(self.style.bucket, 6));
        let finished = matches!(self.session.ending, Ending::Complete | Ending::Interrupted);
        line("SESSION_FINISHED", u8::from(finished).to_string());
        line("SENT", sent.to_string());
        line("SYNC", u8::from(self.is_synchronised()).to_string());
        let one_way = error(self.near_error) + error(self.far_error);
        for (name, error) in [("", 2.0 * one_way), ("_FWD", one_way), ("_BCK", one_way)] {
            line(&format!("MAXERR{name}"), general(error, 6));
        }
        let (up, down) = self.duplicates();
        line("DUPS_FWD", up.to_string());
        line("DUPS_BCK", down.to_string());
        line("LOST", self.lost.len().to_string());
        let counts = self.count();
        let processing = self.processing();
        let mut group = |key: &str, of: &dyn Fn(&DelayCounts) -> Option<f64>, processing: Option<f64>| {
            let values = ["", "_FWD", "_BCK"].into_iter().zip(counts.iter().map(of));
            for (suffix, value) in values.chain([("_PROC", processing)]) {
                value.into_iter().for_each(|value| line(&format!("{key}{suffix}"), general(value, 6)));
            }
        };
        let bucket = self.style.bucket;
        group("MIN", &|c| c.extremes.least(), processing.least());
        group("MEDIAN", &|c| c.buckets.percentile(0.5, sent, bucket), None);
        group("MAX", &|c| c.extremes.most(), processing.most());
        group("PDV", &|c| c.buckets.jitter(sent, bucket), None);
        let mut rows: BTreeMap<i64, [u64; 3]> = BTreeMap::new();
        for (column, counts) in counts.iter().enumerate() {
            for (index, packets) in &counts.buckets.0 {
                rows.entry(*index).or_default()[column] = *packets;
            }
        }
        if !rows.is_empty() {
            out += "<BUCKETS>\n";
            for (index, [both, forward, backward]) in &rows {
                let _ = writeln!(out, "\t{index}\t{both}\t{forward}\t{backward}");
            }
            out += "</BUCKETS>\n";
            let ttls = self.ttls();
            for (way, ttls) in ["FWD", "BCK"].into_iter().zip(&ttls) {
                if let (Some(least), Some(most)) = (ttls.keys().next(), ttls.keys().next_back()) {
                    let _ = writeln!(out, "MINTTL_{way}\t{least}\nMAXTTL_{way}\t{most}");
                }
            }
            let [forward, backward] = ttls;
            let all: std::collections::BTreeSet<u8> =
                forward.keys().chain(backward.keys()).copied().collect();
            out += "<TTLBUCKETS>\n";
            for ttl in all {
                let [up, down] = [&forward, &backward].map(|ttls| ttls.get(&ttl).copied().unwrap_or(0));
                let _ = writeln!(out, "\t{ttl}\t{up}\t{down}");
            }
            out += "</TTLBUCKETS>\n";
        }
        out.push('\n');
        out
    }

    fn sent(&self) -> u64 {
        let answered: HashSet<u32> = self.answers.iter().map(|answer| answer.seq).collect();
        (answered.len() + self.lost.len()) as u64
    }

    /// Returns the number of requests and of answers that arrived again. Without the far host's count, they are
    /// counted as answers.
    fn duplicates(&self) -> (u64, u64) {
        let directions = self.session.two_way.as_ref().and_then(|facts| facts.directions);
        match directions.filter(|directions| directions.stateful) {
            Some(known) => (known.up_duplicates, known.down_duplicates),
            None => (0, (self.answers.len() + self.lost.len()) as u64 - self.sent()),
        }
    }

    fn is_synchronised(&self) -> bool {
        self.near_error.synchronised() && self.far_error.synchronised() && !self.answers.is_empty()
    }

    fn clocks(&self) -> String {
        let unit = self.style.unit;
        let error = 2.0 * (error(self.near_error) + error(self.far_error));
        match self.is_synchronised() {
            true => format!("(err={} {})", unit.show(Some(error)), unit.symbol()),
            false => "(unsync)".to_owned(),
        }
    }

    fn endpoints(&self) -> [(IpAddr, u16); 2] {
        let unspecified = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let Session { src, dst, spec, .. } = self.session;
        [(src.unwrap_or(unspecified), spec.src_port), (dst.unwrap_or(unspecified), spec.dst_port)]
    }

    /// Returns the session identifier that the server assigned; for tests without one, an identifier of the same form.
    fn sid(&self) -> Sid {
        let given = |remark: &String| {
            let word = remark.strip_prefix("session ")?.split(' ').next()?;
            let number = u128::from_str_radix(word, 16).ok().filter(|_| word.len() == 32)?;
            Some(Sid(number.to_be_bytes()))
        };
        let remarks = self.session.two_way.iter().flat_map(|facts| &facts.remarks);
        let [_, (far, _)] = self.endpoints();
        remarks.into_iter().find_map(given).unwrap_or_else(|| Sid::new(far, self.first, [0; 4]))
    }

    fn heading(&self) -> String {
        let [from, to] = self.endpoints().map(|(ip, port)| endpoint(ip, port));
        format!("\n--- twping statistics from {from} to {to} ---\nSID:\t{}\n", self.sid())
    }

    /// Returns the figures of round trip, forward and backward. Duplicates count only for the extremes.
    fn count(&self) -> [DelayCounts; 3] {
        let mut counts: [DelayCounts; 3] = Default::default();
        let mut seen = HashSet::new();
        for answer in &self.answers {
            let first = seen.insert(answer.seq);
            let delays = [answer.round_trip(), answer.forward(), answer.backward()];
            for (counts, delay) in counts.iter_mut().zip(delays) {
                counts.extremes.count(delay);
                if first {
                    counts.buckets.count(delay, self.style.bucket);
                }
            }
        }
        counts
    }

    fn processing(&self) -> Extremes {
        let mut extremes = Extremes::default();
        self.answers.iter().for_each(|answer| extremes.count(answer.processing()));
        extremes
    }

    /// Returns the numbers of packets by TTL, forward and backward. The records do not contain the forward one.
    fn ttls(&self) -> [BTreeMap<u8, u64>; 2] {
        let (mut forward, mut backward) = (BTreeMap::new(), BTreeMap::new());
        let mut seen = HashSet::new();
        for answer in self.answers.iter().filter(|answer| seen.insert(answer.seq)) {
            *forward.entry(NO_TTL).or_default() += 1;
            *backward.entry(answer.ttl).or_default() += 1;
        }
        [forward, backward]
    }
}

/// Gives each answer the number that the reflector gave it. The records do not contain it, but it is the position in the
/// order of arrival at the reflector, which also counts requests whose answers were lost.
fn number(session: &Session, answers: &mut [Answer]) {
    let losses = session.two_way.as_ref().map_or(&[][..], |facts| &facts.losses);
    let down = losses.iter().filter(|run| run.side == LossSide::Down);
    let down: Vec<u32> = down.flat_map(|run| (0..run.length).map(|k| run.first.saturating_add(k))).collect();
    let mut order: Vec<usize> = (0..answers.len()).collect();
    order.sort_by_key(|k| answers[*k].times[1].0);
    for (position, k) in order.into_iter().enumerate() {
        let seq = answers[k].seq;
        let unanswered = down.partition_point(|lost| *lost < seq);
        answers[k].reflected = (position + unanswered) as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::time::{Stamp, StampSource};
    use jitlat_core::twoway::TwoWay;
    use jitlat_core::{Direction, Schedule, TestSpec, Transport};

    /// Lines of `twping -R`. The requests 3 and 8 were lost in transit.
    const RAW: &str = include_str!("../../../../testdata/twamp/twping-R.txt");
    /// Returns the session and the records that these lines are about.
    fn read() -> (Session, Vec<PacketRecord>) {
        let spec = TestSpec::new(Direction::Up, Transport::Udp, 10, 41, Span::millis(20), Schedule::Periodic);
        let mut session = Session::new(spec.unwrap());
        (session.src, session.dst) = (Some([10, 77, 0, 1].into()), Some([10, 77, 0, 2].into()));
        (session.spec.src_port, session.spec.dst_port) = (9238, 19107);
        session.sent = Some(10);
        session.ending = Ending::Complete;
        let remarks = vec![
            "session 0a4d0002eeaab9c875ab29e4e865a4d4 negotiated with TCP 10.77.0.2:862, mode open"
                .to_owned(),
        ];
        session.two_way = Some(Box::new(TwoWay { far_clock: true, remarks, ..TwoWay::default() }));
        let near = WallTime(1_767_225_600_000_000_000);
        let mut records = Vec::new();
        for line in RAW.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let times = [1, 4, 9, 12].map(|k| NtpTime(words[k].parse().unwrap()));
            if times[3].0 == 0 {
                continue;
            }
            let mut record = PacketRecord::new(words[0].parse().unwrap());
            let moments = [Moment::Sent, Moment::Arrived, Moment::Answered, Moment::Returned];
            for (moment, at) in moments.into_iter().zip(times) {
                record.set(moment, Stamp { at: at.to_nanos(near), source: StampSource::User });
            }
            record.set_ttl(Some(255));
            records.push(record);
        }
        (session, records)
    }

    #[test]
    fn raw_lines_of_twping_are_printed_again() {
        let (session, records) = read();
        let ours = TwpingStatistics::new(&session, &records, OwpingOptions::default()).unwrap().raw();
        assert_eq!(ours.lines().count(), RAW.lines().count());
        for (ours, theirs) in ours.lines().zip(RAW.lines()) {
            let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
            for (k, (a, b)) in words(ours).iter().zip(words(theirs)).enumerate() {
                // Records have a resolution of 1 ns, and the time of a lost request is derived from its neighbours.
                let time = [1, 4, 9, 12].contains(&k);
                let apart = a.parse::<i128>().ok().zip(b.parse::<i128>().ok()).map(|(a, b)| (a - b).abs());
                let limit = if theirs.contains(" 00000000000000000000 ") { 1 << 27 } else { 5 };
                assert!(
                    *a == b || time && apart.is_some_and(|apart| apart <= limit),
                    "{k}: {ours}\n{theirs}"
                );
            }
        }
    }

    #[test]
    fn summary_and_machine_readable_lines_have_the_form_of_twping() {
        let (session, records) = read();
        let ours = TwpingStatistics::new(&session, &records, OwpingOptions::default()).unwrap();
        let text = ours.text();
        for line in [
            "--- twping statistics from [10.77.0.1]:9238 to [10.77.0.2]:19107 ---\nSID:\t0a4d0002eeaab9c875ab29e4e865a4d4\n",
            "seq_no=3          *LOST*\nseq_no=8          *LOST*\n",
            "10 sent, 2 lost (20.000%), 0 send duplicates, 0 reflect duplicates\n",
            "two-way jitter = nan ms (P95-P50)\n",
            "send hops = 0 (consistently)\nreflect hops = 0 (consistently)\n\n",
            " ms, (unsync)\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        let machine = ours.machine();
        let keys: Vec<&str> = machine.lines().map(|line| line.split('\t').next().unwrap_or("")).collect();
        let theirs = "SUMMARY SID FROM_HOST FROM_ADDR FROM_PORT TO_HOST TO_ADDR TO_PORT START_TIME END_TIME DSCP \
                      LOSS_TIMEOUT PACKET_PADDING SESSION_PACKET_COUNT SAMPLE_PACKET_COUNT BUCKET_WIDTH \
                      SESSION_FINISHED SENT SYNC MAXERR MAXERR_FWD MAXERR_BCK DUPS_FWD DUPS_BCK LOST MIN MIN_FWD \
                      MIN_BCK MIN_PROC MEDIAN MEDIAN_FWD MEDIAN_BCK MAX MAX_FWD MAX_BCK MAX_PROC <BUCKETS>";
        assert!(keys.join(" ").starts_with(theirs), "{machine}");
        for line in [
            "PACKET_PADDING\t27",
            "LOST\t2",
            "SYNC\t0",
            "MAXERR\t9.31323e-10",
            "\t255\t8\t8\n</TTLBUCKETS>\n\n",
        ] {
            assert!(machine.contains(line), "{line} in {machine}");
        }
    }

    #[test]
    fn a_test_without_times_of_the_far_host_has_no_such_format() {
        let (mut session, records) = read();
        session.two_way = Some(Box::default());
        assert!(TwpingStatistics::new(&session, &records, OwpingOptions::default()).is_none());
    }
}
