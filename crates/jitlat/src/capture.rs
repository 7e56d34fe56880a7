//! `jitlat HOST --capture`: captures the test's own stream on this host's interface.

use crate::options::one_way::{NO_FILE, OneWayArgs};
use anyhow::{Context, Result};
use jitlat_instruments::passive::{CapturedStream, EndedCapture, SaveTo, StreamCapture};
use jitlat_net::client::TestRequest;
use jitlat_output::AnalysedStream;
use jitlat_output::ReportExtra;
use jitlat_report::text;
use jitlat_store::passive::capture_document;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Running capture of a test's stream.
pub struct TestCapture {
    capture: StreamCapture,
    file: Option<PathBuf>,
}

/// A capture that has ended.
pub struct EndedTestCapture {
    capture: EndedCapture,
    file: Option<PathBuf>,
}

impl TestCapture {
    /// Starts the capture if `args` request one.
    ///
    /// # Errors
    /// The reason why capturing is impossible. No packet has been sent in that case.
    pub fn start(request: &TestRequest, args: &OneWayArgs) -> Result<Option<TestCapture>> {
        let Some(file) = &args.capture else { return Ok(None) };
        let file = Some(file).filter(|f| f.as_os_str() != NO_FILE).cloned();
        let stream = CapturedStream::find(request).context("--capture")?;
        let save = file.as_deref().map(create).transpose()?;
        let capture = StreamCapture::start(stream, save).context("--capture")?;
        Ok(Some(TestCapture { capture, file }))
    }

    /// Ends the capture.
    pub fn finish(self) -> Result<EndedTestCapture> {
        Ok(EndedTestCapture { capture: self.capture.finish().context("--capture")?, file: self.file })
    }
}

impl EndedTestCapture {
    /// Returns the section about the capture in the report on `runs`.
    pub fn describe(self, runs: &[AnalysedStream]) -> Result<ReportExtra> {
        let traffic = self.capture.explain(runs.iter().map(|run| (&run.session, &run.samples)));
        let text = text::stream_traffic(&traffic, self.file.as_deref());
        let json = serde_json::to_value(capture_document(&traffic, self.file.as_deref()))?;
        Ok(ReportExtra { key: "capture", text, json })
    }
}

fn create(path: &Path) -> Result<SaveTo> {
    let file = File::create_new(path).with_context(|| format!("creating the capture {}", path.display()))?;
    Ok(Box::new(BufWriter::with_capacity(1 << 18, file)))
}
