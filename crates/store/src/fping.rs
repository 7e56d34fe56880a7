//! Lines of fping: round trips of one host, per probe (`-C`) and in summary (`-c`).

use jitlat_core::record::Moment;
use jitlat_core::twoway::round_trip;
use jitlat_core::{PacketRecord, Session};

/// Maximum number of probes of one host in a line.
const MAX_PROBES: u64 = 1 << 24;

/// Round trips of a host in the order of its probes, in ms; `None` for probes without an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replies(pub Vec<Option<f64>>);

impl Replies {
    /// Returns the first answer to each request of a two-way test. Requests beyond 16 million are left out.
    pub fn of(session: &Session, records: &[PacketRecord]) -> Replies {
        let sent = session.packets().min(MAX_PROBES) as usize;
        let mut replies = vec![None; sent];
        for record in records.iter().filter(|record| record.flags.is_clean()) {
            let place = usize::try_from(record.seq).ok().and_then(|seq| replies.get_mut(seq));
            if let Some(place @ None) = place {
                *place = milliseconds(record);
            }
        }
        Replies(replies)
    }

    /// Returns the number of answers.
    pub fn received(&self) -> usize {
        self.0.iter().flatten().count()
    }

    /// Returns the line of `fping -C N -q` about `host`, whose name has at least the given width.
    pub fn line(&self, host: &str, width: usize) -> String {
        let values: String =
            self.0.iter().map(|ms| format!(" {}", ms.map_or_else(|| "-".to_owned(), number))).collect();
        format!("{host:<width$} :{values}\n")
    }

    /// Returns the line of `fping -c N -q` about `host`, whose name has at least the given width.
    pub fn summary(&self, host: &str, width: usize) -> String {
        let (sent, received) = (self.0.len(), self.received());
        let loss = ((sent - received) * 100).checked_div(sent).unwrap_or(0);
        let mut line = format!("{host:<width$} : xmt/rcv/%loss = {sent}/{received}/{loss}%");
        if let Some([min, mean, max]) = self.extremes() {
            line += &format!(", min/avg/max = {}/{}/{}", number(min), number(mean), number(max));
        }
        line + "\n"
    }

    /// Returns the smallest, mean and largest round trip, in ms; `None` without answers.
    pub fn extremes(&self) -> Option<[f64; 3]> {
        let known = || self.0.iter().flatten().copied();
        let (min, max) = (known().reduce(f64::min)?, known().reduce(f64::max)?);
        Some([min, known().sum::<f64>() / self.received() as f64, max])
    }
}

/// Requests of one host so far, for the lines that fping prints per request without `-q`.
#[derive(Clone, Copy, Debug, Default)]
pub struct SoFar {
    sent: u64,
    received: u64,
    /// Sum of the round trips in ms.
    sum: f64,
}

impl SoFar {
    /// Counts the request `seq`, whose round trip took `ms`, or which was not answered in time, and returns its line.
    /// The name of `host` has at least the given width; `bytes` is the length of the answer with its ICMP header.
    pub fn line(&mut self, (host, width): (&str, usize), seq: u64, ms: Option<f64>, bytes: u64) -> String {
        self.sent = self.sent.max(seq.saturating_add(1));
        self.received += u64::from(ms.is_some());
        self.sum += ms.unwrap_or(0.0);
        let loss = (self.sent.saturating_sub(self.received) * 100).checked_div(self.sent).unwrap_or(0);
        let mean = match self.received {
            0 => "NaN".to_owned(),
            n => number(self.sum / n as f64),
        };
        match ms {
            Some(ms) => {
                let ms = number(ms);
                format!("{host:<width$} : [{seq}], {bytes} bytes, {ms} ms ({mean} avg, {loss}% loss)\n")
            }
            None => format!("{host:<width$} : [{seq}], timed out ({mean} avg, {loss}% loss)\n"),
        }
    }
}

/// Returns the round trip of an answer in ms; `None` if it is unknown.
pub fn milliseconds(record: &PacketRecord) -> Option<f64> {
    record.time(Moment::Returned)?;
    round_trip(record).map(|span| span.0 as f64 / 1e6)
}

/// Formats a time in ms with the digits that fping gives to times of this length.
pub fn number(ms: f64) -> String {
    match ms {
        ms if ms < 1.0 => format!("{ms:.3}"),
        ms if ms < 10.0 => format!("{ms:.2}"),
        ms if ms < 100.0 => format!("{ms:.1}"),
        ms => format!("{ms:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_fping() {
        let answered = Replies(vec![Some(0.062), Some(0.047), Some(0.0472)]);
        assert_eq!(answered.line("10.77.1.254", 11), "10.77.1.254 : 0.062 0.047 0.047\n");
        let none = Replies(vec![None; 3]);
        assert_eq!(none.line("10.77.1.99", 11), "10.77.1.99  : - - -\n");
        assert_eq!(none.summary("10.77.1.99", 10), "10.77.1.99 : xmt/rcv/%loss = 3/0/100%\n");
        let some = Replies(vec![Some(0.032), Some(0.061), Some(0.047), None]);
        let line = "h : xmt/rcv/%loss = 4/3/25%, min/avg/max = 0.032/0.047/0.061\n";
        assert_eq!(some.summary("h", 1), line);
        let mut so_far = SoFar::default();
        let mut line = |seq, ms| so_far.line(("10.77.1.254", 12), seq, ms, 64);
        assert_eq!(line(0, Some(0.029)), "10.77.1.254  : [0], 64 bytes, 0.029 ms (0.029 avg, 0% loss)\n");
        assert_eq!(line(1, None), "10.77.1.254  : [1], timed out (0.029 avg, 50% loss)\n");
        assert_eq!(line(3, Some(0.049)), "10.77.1.254  : [3], 64 bytes, 0.049 ms (0.039 avg, 50% loss)\n");
        assert_eq!(line(2, Some(0.03)), "10.77.1.254  : [2], 64 bytes, 0.030 ms (0.036 avg, 25% loss)\n");
        let timed_out = SoFar::default().line(("10.77.1.99", 1), 0, None, 64);
        assert_eq!(timed_out, "10.77.1.99 : [0], timed out (NaN avg, 100% loss)\n");
    }

    #[test]
    fn digits_depend_on_the_size() {
        let printed = [0.0312, 1.234, 45.67, 123.4, 12345.6].map(number);
        assert_eq!(printed, ["0.031", "1.23", "45.7", "123", "12346"]);
    }
}
