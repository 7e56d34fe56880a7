//! From a finished two-way test to what is shown of it.

use super::measure::Found;
use crate::cli::ReportArgs;
use crate::present::Run;
use anyhow::Result;
use jitlat_core::analysis::Analyzer;
use jitlat_report::text;
use jitlat_store::log::LogFile;

/// Analyses what was found.
pub fn analyse(found: Found, args: &ReportArgs) -> Run {
    let mut analyzer = Analyzer::new(&found.session, &args.options());
    found.records.iter().for_each(|r| analyzer.push(r));
    let (summary, samples) = analyzer.finish_with_samples(&found.session);
    let samples = if args.keeps_packets() { samples } else { Default::default() };
    Run {
        summary,
        heading: text::asking(&found.session) + "\n\n",
        label: "round trip".to_owned(),
        session: found.session,
        samples,
        log: None,
        records: found.records,
        tcp: found.tcp,
    }
}

/// Writes the whole log.
pub fn write_log(mut log: LogFile, found: &Found) -> Result<()> {
    log.begin(&found.session);
    for (k, record) in found.records.iter().enumerate() {
        log.record_tcp(record, found.tcp.get(k));
    }
    log.finish(&found.session);
    log.close()?;
    Ok(())
}
