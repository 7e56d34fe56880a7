//! [`BrowserReport`]: the times that a browser has read; [`BrowserResult`]: the records that they become.

use super::{BrowserError, BrowserTest, MAX_NAME, PROTOCOL, TIMEOUT};
use jitlat_core::printable::printable;
use jitlat_core::record::Moment;
use jitlat_core::session::Ending;
use jitlat_core::twoway::TwoWay;
use jitlat_core::{PacketRecord, Session, Span, Stamp, StampSource, SteadyTime};
use serde::Deserialize;

/// Permitted excess of the browser's times over the duration that the server measured, in addition to a thousandth of that duration.
const TOLERANCE: Span = Span::millis(100);
/// Largest plausible step of a browser's clock; a larger one counts as unknown. Browsers that resist fingerprinting have coarse clocks.
const MAX_RESOLUTION: Span = Span::seconds(1);

/// Last message of a browser.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BrowserReport {
    /// Requests in the order in which they were sent: number, time of sending and of the answer in ms after the start of the test; `None`:
    /// no answer.
    rows: Vec<(u32, f64, Option<f64>)>,
    /// Smallest step of the browser's clock that was seen, in ms.
    resolution_ms: f64,
    /// True if the page was in the background during a part of the test.
    hidden: bool,
    /// True if the user ended the test early.
    stopped: bool,
}

/// Result of a browser's test.
#[derive(Clone, Debug)]
pub struct BrowserResult {
    /// Facts about the test, without the addresses of its hosts.
    pub session: Session,
    /// Answered requests, in the order of their answers.
    pub records: Vec<PacketRecord>,
}

/// Converts a time in ms to ns; `None` if it is not a time within a test.
fn span(ms: f64) -> Option<Span> {
    (0.0..=1e6).contains(&ms).then(|| Span((ms * 1e6).round() as i64))
}

impl BrowserReport {
    pub(super) fn result(
        self,
        test: &BrowserTest,
        browser: &str,
        now: SteadyTime,
    ) -> Result<BrowserResult, BrowserError> {
        let wrong = BrowserError::Contradiction;
        let lasted = now - test.began;
        // The browser starts its clock after the server has started the test.
        let latest = lasted + Span(lasted.0 / 1000) + TOLERANCE;
        let mut seen = vec![false; test.answered.len()];
        let mut records = Vec::with_capacity(self.rows.len().min(test.answered.len()));
        let mut last = Span::ZERO;
        for (seq, sent, returned) in &self.rows {
            let number = *seq as usize;
            let known = seen.get_mut(number).ok_or(wrong("a request has a number beyond the last one"))?;
            if std::mem::replace(known, true) {
                return Err(wrong("a request is reported twice"));
            }
            let sent = span(*sent).ok_or(wrong("a time is not within the test"))?;
            if sent < last || sent > latest {
                return Err(wrong("a request was sent before an earlier one, or after the end"));
            }
            last = sent;
            let Some(returned) = returned else { continue };
            let returned = span(*returned).ok_or(wrong("a time is not within the test"))?;
            if !test.answered[number] {
                return Err(wrong("a request has an answer that was never sent"));
            }
            if returned < sent || returned > latest {
                return Err(wrong("an answer arrived before its request, or after the end"));
            }
            let mut record = PacketRecord::new(i64::from(*seq));
            let stamp = |after: Span| Stamp { at: test.created + after, source: StampSource::User };
            record.set(Moment::Sent, stamp(sent));
            record.set(Moment::Returned, stamp(returned));
            record.set_size(Some(test.spec.payload()));
            records.push(record);
        }
        // The sort is stable: answers that arrived together stay in the order of their requests.
        records.sort_by_key(|record| record.time(Moment::Returned));
        let resolution = span(self.resolution_ms).filter(|step| *step <= MAX_RESOLUTION);
        let mut session = Session::new(test.spec.clone());
        session.created = Some(test.created);
        session.sent = u32::try_from(self.rows.len()).ok();
        session.ending = if self.stopped { Ending::Interrupted } else { Ending::Complete };
        session.client.system = Some(name(browser)).filter(|name| !name.is_empty());
        session.client.notes = self.notes(resolution);
        session.two_way = Some(Box::new(TwoWay {
            protocol: PROTOCOL.to_owned(),
            timeout: Some(TIMEOUT),
            remarks: vec![REMARK.to_owned()],
            ..TwoWay::default()
        }));
        Ok(BrowserResult { session, records })
    }

    /// Describes what limits the browser's times.
    fn notes(&self, resolution: Option<Span>) -> Vec<String> {
        let clock = match resolution {
            Some(step) => format!("the browser's clock has steps of {} us", (step.0 + 500) / 1000),
            None => "the steps of the browser's clock are unknown".to_owned(),
        };
        let hidden = "the page was in the background during the test: browsers then delay timers".to_owned();
        [Some(clock), Some(hidden).filter(|_| self.hidden)].into_iter().flatten().collect()
    }
}

/// Remark in every result.
const REMARK: &str = "measured by a browser, which reported the times itself: they include its processing, and the \
                      requests use TCP, which repeats lost packets, so that losses appear as delays";

/// Returns the browser's name without characters that are not printable, and not too long.
fn name(browser: &str) -> String {
    printable(browser).chars().take(MAX_NAME).collect()
}
