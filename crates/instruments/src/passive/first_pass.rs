//! [`Passive::first_pass`]: finds how the packets of two captures are matched, how their clocks differ over
//! time, and the contents of each file.

use super::error::PassiveError;
use super::files::CaptureSource;
use super::settings::{Matching, Passive};
use jitlat_core::WallTime;
use jitlat_net::capture::Capture;
use jitlat_passive::pipeline::{CaptureHead, PreviewSample};
use jitlat_passive::{ClockLine, FirstPass, IdentityRule, IndexedFile, clock_line};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;

/// Number of addresses counted per file, and number of those stored in the index.
const COUNTED_HOSTS: (usize, usize) = (4096, 16);

impl Passive {
    /// Reads both captures once and returns the facts that runs over single parts of them have in common.
    ///
    /// # Errors
    /// [`PassiveError`] if a capture cannot be read a second time, or if the captures have no packets in
    /// common.
    pub fn first_pass(&self, points: &[CaptureSource; 2]) -> Result<FirstPass, PassiveError> {
        let is_caia = matches!(self.matching, Matching::Caia { .. });
        let [Some(reference), Some(monitor)] = points.each_ref().map(CaptureSource::again) else {
            return Err(PassiveError::NoSecondReading);
        };
        if is_caia {
            return Err(PassiveError::CaiaParts);
        }
        let paths = [reference, monitor];
        let mut heads = [CaptureHead::default(), CaptureHead::default()];
        for (head, paths) in heads.iter_mut().zip(&paths) {
            let mut capture = Capture::open(paths)?;
            while !head.is_full()
                && let Some(f) = capture.next_frame()
            {
                head.push(&f);
            }
        }
        let available = heads.iter().map(CaptureHead::available).min().unwrap_or(0);
        let again = paths.each_ref().map(|paths| Some(paths.clone()));
        let plan = match self.survey(&heads, again, available)? {
            Ok(plan) => plan,
            Err((why, _)) => return Err(PassiveError::NothingCommon { why, notes: Vec::new() }),
        };
        let mut samples = plan.inside.map(|inside| PreviewSample::new(available, inside));
        let mut captures = [Vec::new(), Vec::new()];
        for ((sample, files), paths) in samples.iter_mut().zip(&mut captures).zip(&paths) {
            for path in paths {
                files.push(index(path, sample)?);
            }
        }
        let [r, m] = samples.map(PreviewSample::into_previews);
        let clocks = match self.offset {
            Some(offset) => ClockLine { at: WallTime(0), offset, drift: 0.0 },
            None => clock_line(&r, &m, &plan),
        };
        Ok(FirstPass {
            kind: FirstPass::KIND.to_owned(),
            version: 1,
            identity: IdentityRule { fields: self.fields(&plan), available },
            offset_ns: self.offset.unwrap_or(plan.offset),
            common: plan.common,
            direction_assumed: plan.direction_assumed,
            echoes_apart: heads[0].pairs_without_echoes(&plan.sides[0], plan.inside[0]),
            sides: plan.sides,
            inside: plan.inside,
            clocks,
            captures,
        })
    }
}

/// Returns the index entry of a file, and adds the file's packets to the sample.
fn index(path: &PathBuf, sample: &mut PreviewSample) -> Result<IndexedFile, PassiveError> {
    let mut capture = Capture::open(std::slice::from_ref(path))?;
    let (mut span, mut frames): (Option<(WallTime, WallTime)>, u64) = (None, 0);
    let mut hosts: HashMap<IpAddr, u64> = HashMap::new();
    while let Some(f) = capture.next_frame() {
        frames += 1;
        span = Some(span.map_or((f.at, f.at), |(a, b)| (a.min(f.at), b.max(f.at))));
        if let Ok(p) = f.packet() {
            for host in [p.src(), p.dst()] {
                if hosts.len() < COUNTED_HOSTS.0 || hosts.contains_key(&host) {
                    *hosts.entry(host).or_default() += 1;
                }
            }
        }
        sample.push(&f);
    }
    let mut hosts: Vec<(IpAddr, u64)> = hosts.into_iter().collect();
    hosts.sort_by_key(|(host, packets)| (Reverse(*packets), *host));
    hosts.truncate(COUNTED_HOSTS.1);
    Ok(IndexedFile {
        file: path.display().to_string(),
        first_ns: span.map(|s| s.0),
        last_ns: span.map(|s| s.1),
        frames,
        drops: capture.drops(),
        hosts: hosts.into_iter().map(|(host, _)| host.to_string()).collect(),
        notes: capture.notes().to_vec(),
    })
}
