//! Options of reports.

use super::analysis::AnalysisArgs;
use super::condition::{self, TestCondition};
use crate::options::outputs::Outputs;
use anyhow::{Result, bail};
use clap::Args;
use jitlat_core::analysis::Options;
use jitlat_core::answer::Answer;
use jitlat_core::scalars;
use jitlat_output::check::Check;
use jitlat_output::running::RunningWindows;
use jitlat_output::screen::{self, StreamOrigin};
use jitlat_output::terminal;
use jitlat_output::text::{self, PageOptions};
use jitlat_output::{AnalysedStream, Report, ReportParts, ReportStreams};
use jitlat_report::text::windows;
use jitlat_store::log::STDOUT;
use std::path::Path;

/// Options of the computation and output of figures, for live tests and saved logs.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct ReportArgs {
    /// Print the full report, with delays corrected by the clock estimate
    #[arg(short = 'C', long)]
    pub corrected: bool,
    /// Plot delays corrected by the clock estimate
    #[arg(short = 'L', long)]
    pub plot_corrected: bool,
    #[command(flatten)]
    pub outputs: Outputs<{ ReportParts::ALL.0 }>,
    /// Exit with status 1 on a figure or grade: loss>1%, jitter-p99>30ms, host>=fair
    #[arg(long, value_name = "CONDITION", long_help = figures_help())]
    pub fail_if: Vec<TestCondition>,
    /// Print the classic report and the full report
    #[arg(short = 'v', long, visible_alias = "classic-report")]
    pub verbose: bool,
    /// Print the full report with small plots, or with a picture
    ///
    /// Pictures: kitty, Ghostty, WezTerm, Konsole, iTerm2, but not in tmux or screen. Other terminals get plots in characters.
    #[arg(long)]
    pub text_plots: bool,
    #[command(flatten)]
    pub analysis: AnalysisArgs,
    /// True if only the verdict line is printed ([`QuietArgs`]).
    #[arg(skip)]
    pub quiet: bool,
    /// True if the log goes to standard output (`-o -`), and therefore the report to standard error.
    #[arg(skip)]
    pub log_on_stdout: bool,
    /// Conditions of a check by a monitoring system, which prints one line instead of a report; `None` without `--check`.
    #[arg(skip)]
    pub check: Option<Check>,
}

/// Returns delay over time as a picture for this terminal; `None` if it shows no pictures.
fn picture(runs: &[AnalysedStream]) -> Option<String> {
    Some(format!("\n{}", terminal::picture::of_report(&ReportStreams::of(runs))?))
}

/// Option of the shortest report.
#[derive(Clone, Copy, Debug, Args)]
pub struct QuietArgs {
    /// Print one line, the verdict
    #[arg(short = 'q', long, conflicts_with_all = ["verbose", "text_plots", "corrected"], help_heading = "Output")]
    pub quiet: bool,
}

/// Options for the length of reports that are not about one test.
#[derive(Clone, Copy, Debug, Args)]
pub struct LengthArgs {
    /// Print every figure instead of one screen
    #[arg(short = 'v', long, help_heading = "Output")]
    pub verbose: bool,
    /// Print one line, the verdict
    #[arg(short = 'q', long, conflicts_with = "verbose", help_heading = "Output")]
    pub quiet: bool,
}

impl LengthArgs {
    /// Returns the text of the requested length: one line, all figures, or one screen.
    pub fn choose(
        self,
        answer: &Answer,
        full: impl FnOnce() -> String,
        screen: impl FnOnce() -> String,
    ) -> String {
        match (self.quiet, self.verbose) {
            (true, _) => answer.headline.clone() + "\n",
            (_, true) => full(),
            _ => screen(),
        }
    }
}

impl ReportArgs {
    /// Returns settings that analyse with the options `analysis`, and write only `outputs`.
    pub fn of_files(outputs: Outputs<{ ReportParts::ALL.0 }>, analysis: AnalysisArgs) -> ReportArgs {
        ReportArgs {
            corrected: false,
            plot_corrected: false,
            outputs,
            fail_if: Vec::new(),
            verbose: false,
            text_plots: false,
            analysis,
            quiet: true,
            log_on_stdout: false,
            check: None,
        }
    }

    /// Returns the options of the analysis.
    pub fn options(&self) -> Options {
        let mut options = self.analysis.options();
        self.outputs.ask(&mut options);
        options
    }

    /// Returns the observer that writes windows while a test runs.
    pub fn running_windows(&self) -> RunningWindows {
        RunningWindows::new(self.options(), self.outputs.place("intervals"), !self.is_silent())
    }

    /// Formats the console report of `runs` from `origin`; `explained` is a section that an instrument adds.
    pub fn page(&self, runs: &[AnalysedStream], origin: StreamOrigin<'_>, explained: &str) -> String {
        if self.quiet {
            return text::line(runs);
        }
        if !self.is_full() {
            let drawn = || picture(runs).or_else(|| terminal::is_terminal().then(|| text::courses(runs)));
            let picture = (origin == StreamOrigin::Demonstration).then(drawn).flatten();
            let page = screen::page(runs, origin, &self.outputs);
            return self.additional_text(runs, explained) + &page + &picture.unwrap_or_default();
        }
        // A picture replaces the plots in characters on terminals that show one.
        let picture = picture(runs).filter(|_| self.text_plots);
        let plots = self.text_plots && picture.is_none();
        let options = PageOptions { corrected: self.corrected, plots };
        text::page(runs, options)
            + &picture.unwrap_or_default()
            + explained
            + &text::figures_line(runs, &self.outputs, self.text_plots)
    }

    /// Formats additional output such as text plots. It is printed before the one-screen report, so that the report
    /// stays visible.
    fn additional_text(&self, runs: &[AnalysedStream], explained: &str) -> String {
        let windows = |run: &AnalysedStream| {
            let windows = windows(&run.summary, &run.shown_windows, &screen::options());
            match (windows.is_empty(), runs.len()) {
                (true, _) => windows,
                (false, 1) => windows + "\n",
                (false, _) => format!("== {}\n{windows}\n", run.label),
            }
        };
        let windows: String = runs.iter().map(windows).collect();
        match explained {
            "" => windows,
            text => format!("{windows}{}\n", text.trim_start()),
        }
    }

    /// True if the full report is printed instead of one screen.
    pub fn is_full(&self) -> bool {
        self.verbose || self.text_plots || self.corrected
    }

    /// True if one screen is printed.
    pub fn shows_screen(&self) -> bool {
        !(self.quiet || self.check.is_some() || self.outputs.is_silent() || self.is_full())
    }

    /// True if standard output gets only one requested output, or only the line of the verdict or of a check.
    pub fn is_silent(&self) -> bool {
        self.quiet || self.check.is_some() || self.log_on_stdout || self.outputs.is_silent()
    }

    /// Records the destination of the log, because nothing else may be printed to standard output if the log
    /// goes there.
    pub fn set_log(&mut self, log: Option<&Path>) {
        self.log_on_stdout = log.is_some_and(|path| path.as_os_str() == STDOUT);
    }

    /// Rejects, before the measurement, outputs that cannot be written for a test with `streams` streams that
    /// also writes the files `others`.
    pub fn check(&self, streams: usize, others: &[&Path]) -> Result<()> {
        if self.log_on_stdout && streams > 1 {
            bail!("-o - writes one stream to standard output: give -o a file name");
        }
        if self.log_on_stdout && self.outputs.is_silent() {
            bail!(
                "standard output can hold only one format, and -o - writes the log there: write all others to files"
            );
        }
        if self.check.is_some() && (self.log_on_stdout || self.outputs.is_silent()) {
            bail!("standard output can hold only the line of --check: write logs and formats to files");
        }
        self.outputs.check_analysis(&self.options())?;
        Ok(self.outputs.check(streams, others)?)
    }

    /// Rejects conditions on the effect of a load. To be called before a test without load.
    pub fn check_without_load(&self) -> Result<()> {
        match condition::on_load(&self.fail_if).next() {
            Some(condition) => {
                bail!("--fail-if {condition}: this test has no load; such conditions need --load")
            }
            None => Ok(()),
        }
    }

    /// Prints the report of `text` and writes every format, like
    /// [`WantedOutputs::write`](jitlat_output::WantedOutputs::write). If a log goes to standard output, the report goes
    /// to standard error; for a check, no report is printed. Failures are logged; returns true if there are none.
    pub fn write(&self, report: &dyn Report, text: impl FnOnce() -> String) -> bool {
        if self.check.is_some() {
            return jitlat_output::log_failures(&self.outputs.write_files(report));
        }
        if !self.log_on_stdout {
            return self.outputs.write(report, text);
        }
        let mut failures = self.outputs.write_files(report);
        failures.extend(terminal::print_to_stderr(&text()).err());
        jitlat_output::log_failures(&failures)
    }

    /// True if an output needs the individual packets after the analysis.
    pub fn keeps_packets(&self) -> bool {
        self.outputs.keeps_packets() || self.text_plots || self.shows_screen()
    }
}

/// Returns the help of `--fail-if`, with all figures.
pub fn figures_help() -> String {
    format!(
        "Exit with status 1 if a figure crosses a threshold, or a grade is as bad; may be repeated.\n\nA threshold \
         has the figure's unit: loss>1%, pdv-p99>30ms, latency-max>150ms, mos<3.8. For one direction of a \
         round-trip test: up-loss>1%, down-pdv-p99>30ms. Grades are path, the verdict, and host, the effect of \
         the hosts themselves (stalls, their own queues, packets that they refused), which the verdict leaves out: \
         path>=poor, host>=fair. Scores of Quality of Outcome are from 0 to 100, for any profile that was judged: \
         qoo.voice<80. Of a test under load: load.grade>B, a bufferbloat grade (A+, A, B, C, D, F) worse than B, \
         load.added-mean>30ms, load.added-median and load.added-p99 for the delay that the load adds, and \
         up-load.grade>B for one direction of a test in both; all other conditions hold for the phase under load. The \
         status is 2 if the grade, the score or the effect of the load is unknown. Figures:\n{}",
        scalars::help()
    )
}
