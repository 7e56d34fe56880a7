//! [`Check`]: tests as a check of Nagios, Icinga and other systems that run their plug-ins (Monitoring Plugins
//! Development Guidelines): a state, and one line with performance data.

use jitlat_core::answer::Severity;
use jitlat_core::scalars::{ExactNumber, GradeSubject, ScalarCondition, ScalarUnit, Selector, Threshold};
use jitlat_core::summary::Summary;

/// State of a check. The order is that of importance: the state of several hosts is the largest of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckState {
    /// Everything that was asked for is known, and nothing is violated.
    Ok,
    /// Something that was asked for is not known.
    Unknown,
    /// A condition for warnings is violated.
    Warning,
    /// A critical condition is violated, or the far host did not answer.
    Critical,
}

impl CheckState {
    /// Returns the exit status of a plug-in.
    pub fn code(self) -> u8 {
        match self {
            CheckState::Ok => 0,
            CheckState::Warning => 1,
            CheckState::Critical => 2,
            CheckState::Unknown => 3,
        }
    }

    /// Returns the name as plug-ins print it.
    pub fn name(self) -> &'static str {
        match self {
            CheckState::Ok => "OK",
            CheckState::Warning => "WARNING",
            CheckState::Critical => "CRITICAL",
            CheckState::Unknown => "UNKNOWN",
        }
    }

    /// Returns the line of a check that has this state and no performance data.
    pub fn line(self, text: &str) -> String {
        format!("{} - {}\n", self.name(), shortened(text))
    }
}

/// Conditions of a check.
#[derive(Clone, Debug, Default)]
pub struct Check {
    /// Conditions whose violation is a warning.
    pub warning: Vec<ScalarCondition>,
    /// Conditions whose violation is critical.
    pub critical: Vec<ScalarCondition>,
}

/// Stream of a check, or a host that could not be measured.
#[derive(Clone, Debug)]
pub struct CheckedStream<'a> {
    /// Name of the host or stream among several; it is not printed for a single one.
    pub label: &'a str,
    /// Its summary; or the state and the reason if there is none.
    pub found: Result<&'a Summary, (CheckState, String)>,
    /// True if the end of the test is unknown.
    pub cut_off: bool,
}

/// Figures in the performance data of every test, if they are defined.
const FIGURES: [&str; 5] = ["loss", "pdv-p99", "mos", "sent", "received"];
/// Further figures of round trips, whose delay does not depend on two clocks.
const FIGURES_OF_ROUND_TRIPS: [&str; 2] = ["latency-median", "latency-p99"];
/// Further figures of one-way tests.
const FIGURES_OF_ONE_WAY: [&str; 1] = ["latency-corrected-median"];
/// Minimum number of packets for a 99th percentile.
const MIN_PACKETS_FOR_P99: u64 = 100;
/// Maximum length of the text before the performance data, in characters. Some systems store no more than 4 KB.
const MAX_TEXT: usize = 1500;

impl Check {
    /// Judges `streams`. Returns the state, and the line with a line feed. `trouble` is a reason why the check is not OK
    /// that has nothing to do with the streams; `None` if there is none.
    pub fn judge(&self, streams: &[CheckedStream<'_>], trouble: Option<&str>) -> (CheckState, String) {
        let judged: Vec<(CheckState, String)> = streams.iter().map(|stream| self.judge_one(stream)).collect();
        let worst = judged.iter().map(|(state, _)| *state).max().unwrap_or(CheckState::Unknown);
        let is_shown =
            |(state, _): &&(CheckState, String)| worst == CheckState::Ok || *state != CheckState::Ok;
        let text = match (&judged[..], streams) {
            ([], _) => "nothing was measured".to_owned(),
            ([(_, text)], _) => text.clone(),
            _ => {
                let labelled = judged.iter().zip(streams);
                let mut shown: Vec<(CheckState, String)> = labelled
                    .map(|((state, text), stream)| match stream.found.is_err() && names(text, stream.label) {
                        true => (*state, text.clone()),
                        false => (*state, format!("{}: {text}", stream.label)),
                    })
                    .filter(|judged| is_shown(&judged))
                    .collect();
                shown.sort_by_key(|(state, _)| std::cmp::Reverse(*state));
                let texts: Vec<String> = shown.into_iter().map(|(_, text)| text).collect();
                format!("{} of {}: {}", texts.len(), streams.len(), texts.join("; "))
            }
        };
        let (state, text) = match trouble {
            Some(trouble) => (worst.max(CheckState::Unknown), format!("{trouble}; {text}")),
            None => (worst, text),
        };
        let several = streams.len() > 1;
        let data: Vec<String> = streams.iter().flat_map(|stream| self.performance(stream, several)).collect();
        let data = if data.is_empty() { String::new() } else { format!(" | {}", data.join(" ")) };
        (state, format!("{} - {}{data}\n", state.name(), shortened(&text)))
    }

    fn judge_one(&self, stream: &CheckedStream<'_>) -> (CheckState, String) {
        let summary = match &stream.found {
            Ok(summary) => *summary,
            Err((state, why)) => return (*state, why.clone()),
        };
        let counts = &summary.counts;
        if counts.received == 0 && summary.expects_answers() {
            return match (counts.sent, summary.two_way.is_some()) {
                (0, _) => (CheckState::Unknown, "nothing is known about any packet".to_owned()),
                (sent, true) => (CheckState::Critical, format!("none of {sent} requests was answered")),
                (sent, false) => (CheckState::Critical, format!("none of {sent} packets arrived")),
            };
        }
        let critical: Vec<&ScalarCondition> = violated(&self.critical, summary).collect();
        let warning: Vec<&ScalarCondition> = violated(&self.warning, summary).collect();
        // A figure beyond its critical threshold is usually also beyond that for warnings: it is named once.
        let is_new = |condition: &&&ScalarCondition| {
            condition.selector().is_none() || critical.iter().all(|c| c.selector() != condition.selector())
        };
        let named = critical.iter().chain(warning.iter().filter(is_new));
        let mut reasons: Vec<String> = named.filter_map(|condition| condition.violated(summary)).collect();
        let mut unknown: Vec<String> =
            self.warning.iter().chain(&self.critical).filter_map(|c| unknown(c, summary)).collect();
        if stream.cut_off {
            unknown.push("the end of the test is unknown".to_owned());
        }
        unknown.dedup();
        let state = match (critical.is_empty(), warning.is_empty(), unknown.is_empty()) {
            (false, _, _) => CheckState::Critical,
            (_, false, _) => CheckState::Warning,
            (_, _, false) => CheckState::Unknown,
            _ => CheckState::Ok,
        };
        reasons.append(&mut unknown);
        reasons.push(measured(summary));
        (state, reasons.join(", "))
    }

    /// Returns the performance data of a stream: the usual figures, and those of the conditions.
    fn performance(&self, stream: &CheckedStream<'_>, several: bool) -> Vec<String> {
        let Ok(summary) = stream.found else { return Vec::new() };
        let more = match summary.two_way.is_some() {
            true => &FIGURES_OF_ROUND_TRIPS[..],
            false => &FIGURES_OF_ONE_WAY,
        };
        let is_known = |key: &&&str| resolves_p99(summary) || !key.ends_with("-p99");
        let usual =
            FIGURES.iter().chain(more).filter(is_known).filter_map(|key| key.parse::<Selector>().ok());
        let mut selectors: Vec<Selector> = usual.filter(|s| s.of(summary).is_some()).collect();
        for selector in self.warning.iter().chain(&self.critical).filter_map(ScalarCondition::selector) {
            if !selectors.contains(selector) {
                selectors.push(*selector);
            }
        }
        let prefix = if several { format!("{} ", stream.label) } else { String::new() };
        selectors.iter().map(|selector| self.datum(&prefix, selector, summary)).collect()
    }

    /// Formats one figure: `'LABEL'=VALUE[UNIT];[WARN];[CRIT];[MIN]`; the value of an unknown figure is `U`.
    fn datum(&self, prefix: &str, selector: &Selector, summary: &Summary) -> String {
        let label: String = format!("{prefix}{selector}")
            .chars()
            .filter(|c| !c.is_control() && !"'=|".contains(*c))
            .collect();
        let (unit, factor) = unit(selector.scalar.unit);
        let value = selector.of(summary).map(ExactNumber::as_f64);
        let value = value.map_or_else(|| "U".to_owned(), |x| number(x * factor) + unit);
        let is_positive = is_never_negative(selector, summary);
        let [warning, critical] = [&self.warning, &self.critical].map(|conditions| {
            let of_figure = conditions.iter().filter(|c| c.selector() == Some(selector));
            range(of_figure.filter_map(ScalarCondition::threshold), factor, is_positive)
        });
        let least = if is_positive { "0" } else { "" };
        let fields = format!("'{label}'={value};{warning};{critical};{least}");
        fields.trim_end_matches(';').to_owned()
    }
}

/// Returns those of `conditions` that `summary` violates.
fn violated<'a>(
    conditions: &'a [ScalarCondition],
    summary: &'a Summary,
) -> impl Iterator<Item = &'a ScalarCondition> {
    conditions.iter().filter(|condition| condition.violated(summary).is_some())
}

/// Returns the reason why `condition` cannot be decided; `None` if it can.
fn unknown(condition: &ScalarCondition, summary: &Summary) -> Option<String> {
    condition.undecided(summary).or_else(|| {
        let selector = condition.selector()?;
        selector
            .of(summary)
            .is_none()
            .then(|| format!("{condition} cannot be decided: {selector} is unknown"))
    })
}

/// Describes the measurement: the verdict if there is one, loss, delay of round trips, and jitter.
fn measured(summary: &Summary) -> String {
    let show = |key: &str, called: &str| {
        let selector: Selector = key.parse().ok()?;
        Some(format!("{called} {}", selector.scalar.show(selector.of(summary)?)))
    };
    let grade = GradeSubject::Path.of(summary);
    let grade = (grade != Severity::Unknown).then(|| format!("path {}", grade.name()));
    let delay = summary.two_way.as_ref().and_then(|_| show("latency-median", "delay"));
    let fallback = summary.two_way.as_ref().and_then(|two_way| two_way.fallback()).map(str::to_owned);
    let jitter = resolves_p99(summary).then(|| show("pdv-p99", "jitter p99")).flatten();
    let parts = [fallback, grade, show("loss", "loss"), delay, jitter];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let packets = if summary.counts.sent == 1 { "packet" } else { "packets" };
    format!("{} ({} {packets})", parts.join(", "), summary.counts.sent)
}

/// True if enough packets arrived for a 99th percentile. With fewer packets it would be the maximum.
fn resolves_p99(summary: &Summary) -> bool {
    summary.counts.unique_valid >= MIN_PACKETS_FOR_P99
}

/// True if `text` contains the name of a host as a word.
fn names(text: &str, host: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || ".:-_%".contains(c);
    text.split(|c| !is_part(c)).any(|word| word == host || word.trim_end_matches([':', '.']) == host)
}

/// Returns the unit of performance data for figures with `unit`, and the factor from the unit in which they are stored.
/// Counts have no unit, because `c` is a counter that continues from one check to the next.
fn unit(unit: ScalarUnit) -> (&'static str, f64) {
    match unit {
        ScalarUnit::Time => ("ms", 1e-6),
        ScalarUnit::Share => ("%", 100.0),
        ScalarUnit::Bytes => ("B", 1.0),
        ScalarUnit::Packets
        | ScalarUnit::Count
        | ScalarUnit::Plain { .. }
        | ScalarUnit::PacketRate
        | ScalarUnit::BitRate
        | ScalarUnit::Ppm => ("", 1.0),
    }
}

/// Formats a number with at most six decimals.
fn number(x: f64) -> String {
    let text = format!("{x:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// True if the figure cannot be negative, so that a range can begin at 0.
fn is_never_negative(selector: &Selector, summary: &Summary) -> bool {
    let key = selector.scalar.key;
    match selector.scalar.unit {
        ScalarUnit::Time => {
            let is_round_trip = summary.two_way.is_some() && selector.direction.is_none();
            key.starts_with("pdv") || (is_round_trip && key.starts_with("latency"))
        }
        ScalarUnit::Plain { .. } => key == "mos",
        ScalarUnit::Ppm => false,
        _ => true,
    }
}

/// Formats the values that violate no threshold as a range; empty without thresholds.
fn range(thresholds: impl Iterator<Item = Threshold>, factor: f64, is_positive: bool) -> String {
    let (mut least, mut most): (Option<f64>, Option<f64>) = (None, None);
    for threshold in thresholds {
        match threshold {
            Threshold::Above(x) => most = Some(most.map_or(x, |most| most.min(x))),
            Threshold::Below(x) => least = Some(least.map_or(x, |least| least.max(x))),
        }
    }
    let [least, most] = [least, most].map(|x| x.map(|x| number(x * factor)));
    match (least, most) {
        (None, None) => String::new(),
        // Without a beginning the range begins at 0.
        (None, Some(most)) if is_positive => most,
        (None, Some(most)) => format!("~:{most}"),
        (Some(least), most) => format!("{least}:{}", most.unwrap_or_default()),
    }
}

/// Returns `text` in the form that is possible before performance data: on one line, without a bar, and not too long.
fn shortened(text: &str) -> String {
    let plain = |c: char| match c {
        '|' => '/',
        c if c.is_control() => ' ',
        c => c,
    };
    let mut plain: String = text.trim_end().chars().map(plain).collect();
    if let Some((at, _)) = plain.char_indices().nth(MAX_TEXT) {
        plain.truncate(at);
        plain.push('…');
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::analysis::{Options, analyze};
    use jitlat_core::session::Ending;
    use jitlat_core::twoway::TwoWayFigures;
    use jitlat_core::{Direction, PacketRecord, Schedule, Session, Span, TestSpec, Transport, WallTime};

    /// Returns the summary of round trips of 1, 2, … ms; the last `lost` are missing.
    fn round_trips(sent: u32, lost: u32) -> Summary {
        let ms = Span::millis(20);
        let spec = TestSpec::new(Direction::Up, Transport::Udp, sent.into(), 80, ms, Schedule::Periodic);
        let mut session = Session::new(spec.unwrap());
        (session.sent, session.ending) = (Some(sent), Ending::Complete);
        let ms = 1_000_000;
        let record = |k: i64| {
            let left = k * 20 * ms;
            PacketRecord::one_way(k, WallTime(left), WallTime(left + (k + 1) * ms))
        };
        let mut summary = analyze(&session, (0..i64::from(sent - lost)).map(record), &Options::default());
        summary.two_way = Some(Box::new(TwoWayFigures::default()));
        summary
    }

    fn conditions(texts: &[&str]) -> Vec<ScalarCondition> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn check(warning: &[&str], critical: &[&str]) -> Check {
        Check { warning: conditions(warning), critical: conditions(critical) }
    }

    fn one<'a>(summary: &'a Summary) -> CheckedStream<'a> {
        CheckedStream { label: "192.0.2.7", found: Ok(summary), cut_off: false }
    }

    #[test]
    fn states_follow_the_worst_condition() {
        let summary = round_trips(10, 1);
        for (warning, critical, state, code) in [
            (&[][..], &[][..], CheckState::Ok, 0),
            (&["loss>10%"], &["loss>20%"], CheckState::Ok, 0),
            (&["loss>5%"], &["loss>20%"], CheckState::Warning, 1),
            (&["loss>5%"], &["loss>7%"], CheckState::Critical, 2),
            (&["delay-p99>5ms"], &[], CheckState::Warning, 1),
            (&[], &["delay-max>5ms"], CheckState::Critical, 2),
            (&["up-loss>1%"], &[], CheckState::Unknown, 3),
            (&["up-loss>1%", "loss>5%"], &[], CheckState::Warning, 1),
            (&[], &["path>=bad"], CheckState::Unknown, 3),
            (&["qoo.voice<80"], &[], CheckState::Unknown, 3),
        ] {
            let (found, line) = check(warning, critical).judge(&[one(&summary)], None);
            assert_eq!((found, found.code()), (state, code), "{warning:?} {critical:?}: {line}");
            assert!(line.starts_with(&format!("{} - ", state.name())), "{line}");
            assert_eq!((line.matches('\n').count(), line.matches('|').count()), (1, 1), "{line}");
        }
    }

    #[test]
    fn performance_data_has_units_and_thresholds() {
        let summary = round_trips(10, 1);
        let check = check(&["delay-p99>5ms", "mos<4"], &["delay-p99>100ms", "loss>20%", "up-delay-max>1ms"]);
        let (_, line) = check.judge(&[one(&summary)], None);
        let (text, data) = line.trim_end().split_once(" | ").unwrap();
        assert!(text.contains("delay-p99>5ms (latency-p99 is 9.000 ms)"), "{text}");
        assert!(text.contains("loss 10.00%, delay 5.000 ms") && text.ends_with("(10 packets)"), "{text}");
        for datum in [
            "'loss'=10%;;20;0",
            "'latency-p99'=9ms;5;100;0",
            "'latency-median'=5ms;;;0",
            "'sent'=10;;;0",
            "'received'=9;;;0",
            "'up-latency-max'=U;;~:1",
        ] {
            assert!(data.contains(datum), "{datum}: {data}");
        }
        assert!(data.contains("'mos'=") && data.contains(";4:;;0"), "{data}");
        let mut one_way = round_trips(10, 1);
        one_way.two_way = None;
        let (_, line) =
            self::check(&["latency-mean>1s", "latency-mean<-1ms"], &[]).judge(&[one(&one_way)], None);
        assert!(line.contains("'latency-mean'=5ms;-1:1000"), "{line}");
    }

    #[test]
    fn a_99th_percentile_needs_packets_and_a_host_is_named_once() {
        for (packets, has_p99) in [(5, false), (99, false), (100, true)] {
            let (_, line) = Check::default().judge(&[one(&round_trips(packets, 0))], None);
            assert_eq!([line.contains("jitter p99"), line.contains("-p99'")], [has_p99; 2], "{line}");
        }
        let (_, line) = Check::default().judge(&[one(&round_trips(1, 0))], None);
        assert!(line.contains("(1 packet)"), "{line}");
        let alive = round_trips(10, 0);
        let why = "no way to 192.0.2.1: unreachable".to_owned();
        let dead =
            CheckedStream { label: "192.0.2.1", found: Err((CheckState::Critical, why)), cut_off: false };
        let (_, line) = Check::default().judge(&[dead, one(&alive)], None);
        assert!(line.starts_with("CRITICAL - 1 of 2: no way to 192.0.2.1: unreachable | "), "{line}");
        assert!(!names("192.0.2.10 is away", "192.0.2.1") && names("to 192.0.2.1, not", "192.0.2.1"));
    }

    #[test]
    fn a_dead_host_is_critical_and_the_others_keep_their_data() {
        let (alive, dead) = (round_trips(10, 0), round_trips(10, 10));
        let streams = [
            CheckedStream { label: "a=|'x\n", ..one(&alive) },
            CheckedStream { label: "b", ..one(&dead) },
            CheckedStream {
                label: "c",
                found: Err((CheckState::Unknown, "no such | host\n".to_owned())),
                cut_off: false,
            },
        ];
        let (state, line) = Check::default().judge(&streams, None);
        assert_eq!(state, CheckState::Critical, "{line}");
        let expected =
            "CRITICAL - 2 of 3: b: none of 10 requests was answered; c: no such / host | 'ax loss'=0%;;;0 ";
        assert!(line.starts_with(expected), "{line}");
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        let (state, line) = Check::default().judge(&streams[..1], None);
        assert!(state == CheckState::Ok && line.starts_with("OK - loss 0.00%"), "{line}");
        let (state, line) = Check::default().judge(&[CheckedStream { cut_off: true, ..one(&alive) }], None);
        assert!(state == CheckState::Unknown && line.contains("the end of the test is unknown"), "{line}");
        assert_eq!(Check::default().judge(&[], None).0, CheckState::Unknown);
        let (state, line) = Check::default().judge(&[one(&alive)], Some("the disk is full"));
        assert!(
            state == CheckState::Unknown && line.starts_with("UNKNOWN - the disk is full; loss"),
            "{line}"
        );
    }

    #[test]
    fn a_long_text_is_cut() {
        let line = CheckState::Unknown.line(&"é\n".repeat(5000));
        assert!(line.chars().count() < MAX_TEXT + 20 && line.ends_with("…\n"), "{line}");
        assert_eq!((number(-0.0), number(1e-9), number(12.5)), ("0".into(), "0".into(), "12.5".into()));
    }
}
