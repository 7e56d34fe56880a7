//! From a finished two-way test to what is shown of it.

use super::measure::Found;
use crate::cli::ReportArgs;
use crate::journal::Closed;
use crate::present::Run;
use jitlat_core::analysis::Analyzer;
use jitlat_core::session::Ending;
use jitlat_report::text;

/// Analyses what was found.
pub fn analyse(mut found: Found, log: Option<&Closed>, args: &ReportArgs) -> Run {
    if let Some(reason) =
        log.and_then(|l| l.broken.clone()).filter(|_| found.session.ending == Ending::Complete)
    {
        found.session.ending = Ending::StorageFailed;
        found.session.reason = Some(reason);
    }
    let mut analyzer = Analyzer::new(&found.session, &args.options());
    found.records.iter().for_each(|r| analyzer.push(r));
    let (summary, samples) = analyzer.finish_with_samples(&found.session);
    let samples = if args.keeps_packets() { samples } else { Default::default() };
    let path = log.and_then(|l| l.log.clone());
    let logged = path.as_ref().map(|path| text::logged(path) + "\n").unwrap_or_default();
    Run {
        summary,
        heading: format!("{}\n{logged}\n", text::asking(&found.session)),
        label: "round trip".to_owned(),
        session: found.session,
        samples,
        log: path,
        records: found.records,
        tcp: found.tcp,
    }
}
