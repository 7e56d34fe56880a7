//! `/test/ID`: report of a test, made from its packets.

use crate::page::{self, PROGRAM, PageTab, encoded};
use crate::problem::Problem;
use crate::routes::RouteRequest;
use jitlat_archive::{Archive, ListedTest, TestId};
use jitlat_core::Analyzer;
use jitlat_report::figure::Trace;
use jitlat_report::html::{self, HtmlReport, PageFrame, ReportPart};
use maud::{Markup, html as markup};

/// Returns the catalogue's data of the test, on which its page depends.
pub fn version(archive: &Archive, asked: &RouteRequest) -> Result<String, Problem> {
    let id = archive.find(asked.part(0))?;
    Ok(format!("{id} {:?}", archive.listed(id)?))
}

/// Renders the page.
pub fn page(archive: &Archive, asked: &RouteRequest) -> Result<String, Problem> {
    let id = archive.find(asked.part(0))?;
    let listed = archive.listed(id)?;
    if !listed.has_packets {
        return Ok(without(&listed, "Its packets were removed to save space; its figures remain."));
    }
    if listed.packets > asked.app.limits.packets {
        let why = format!("It is too large for a report on this page: run jitlat archive show DIR {id}.");
        return Ok(without(&listed, &why));
    }
    report(archive, id, &listed)
}

/// Renders the report with the links of this server.
fn report(archive: &Archive, id: TestId, listed: &ListedTest) -> Result<String, Problem> {
    let unreadable = |e: &dyn std::fmt::Display| Problem::Failed(format!("Cannot read test {id}: {e}."));
    let mut reader = archive.reader(id, &listed.source)?;
    let mut analyzer = Analyzer::new(reader.session(), &jitlat_verdict::options());
    let mut failure = None;
    reader
        .records(&mut failure)
        .take_while(|_| !archive.is_stopped())
        .for_each(|record| analyzer.push(&record));
    if let Some(e) = failure.filter(|_| reader.reading().rows == 0) {
        return Err(unreadable(&e));
    }
    let session = reader.session().clone();
    let (mut summary, samples) = analyzer.finish_with_samples(&session);
    reader.reading().add_to(&mut summary);
    let without = summary.answer.as_ref().and_then(|answer| answer.without_clock_step.as_ref());
    let trace = Trace::of(&session, &samples).without_steps(&samples, without);
    let part = ReportPart { label: "", session: Some(&session), summary: &summary, trace: Some(&trace) };
    let report = HtmlReport {
        section: None,
        parts: &[part],
        corrected: false,
        command: None,
        program: PROGRAM,
        written: None,
    };
    let before = markup! { (page::navigation(PageTab::None)) (way_back(listed)) };
    let frame = PageFrame { style: "/style.css", scripts: &["/report.js"], before: &before };
    Ok(html::page_in(&report, &frame))
}

/// Renders a link to the path at the time of the test.
fn way_back(listed: &ListedTest) -> Markup {
    let (from, to) =
        crate::times::CalendarUnit::Day.around(listed.started_ns, &crate::zone::PageZone::default());
    let address = format!(
        "/path/{}/{}?from={}&to={}",
        encoded(&listed.src),
        encoded(&listed.dst),
        crate::times::address(from),
        crate::times::address(to)
    );
    markup! {
        nav.back aria-label="Path of this test" {
            a href=(address) { (listed.src) " → " (listed.dst) " on that day" }
        }
    }
}

/// Renders a test whose packets are not stored, from its data in the catalogue.
fn without(listed: &ListedTest, why: &str) -> String {
    let title = format!("{} to {}", listed.src, listed.dst);
    let header =
        markup! { p.what { (jitlat_archive::utc(listed.started_ns)) ", " (listed.packets) " packets" } };
    let main = markup! {
        (way_back(listed))
        p.headline.note { (listed.severity) ": " (listed.headline) }
        p { (why) }
    };
    page::page(&title, PageTab::None, &header, &main).0
}
