//! [`RtpCaptures`]: analyses RTP streams and calls at one or two capture points.

use super::call_causes::{
    add_one_sided, at, did_not_move, leave_out_rests, never_ends, of_step, refute_clock_step,
};
use super::error::PassiveError;
use crate::analysis::Analysed;
use crate::stop::Stop;
use jitlat_core::analysis::{Analyzer, Options};
use jitlat_core::answer::{Cause, CauseId, Severity};
use jitlat_core::metrics::dejitter::VoiceCodec;
use jitlat_core::observer::Unobserved;
use jitlat_core::prefix::Prefix;
use jitlat_core::summary::Summary;
use jitlat_core::time::{SteadyTime, WallTime};
use jitlat_core::{Direction, PacketRecord, Span};
use jitlat_net::capture::interface::{InterfaceCapture, InterfaceSettings};
use jitlat_net::capture::{Capture, FollowedFiles, STDIN};
use jitlat_net::clock;
use jitlat_passive::pipeline::PointStep;
use jitlat_passive::recording::RecordedStep;
use jitlat_passive::rtp::{
    BetweenPoints, GivenFormat, RtpAnalyzer, RtpObserver, RtpResult, RtpStream, between, modelled_codec,
};
use jitlat_passive::{CapturePoint, Frame, IpPacket, Recording, Seen};
use jitlat_verdict::{PROFILES, confirm_path, judge_for};
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

/// Maximum number of frames of a followed capture that are read between two checks for a stop.
const FRAMES_PER_CHECK: usize = 4096;
/// Pause between two reads of a followed capture if nothing new was written.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time for which a capture at an interface waits for a packet before the next check for a stop.
const READ_TIMEOUT: Duration = Duration::from_millis(20);
/// Time limit for reading the remaining packets of a followed capture after a stop.
const FILE_END_TIMEOUT: Span = Span::seconds(30);
/// Clock rate of video formats, in Hz (RFC 3551 §5).
const VIDEO_CLOCK: u32 = 90_000;
/// Divisor of the memory limit of the analysis: the quotient is the limit of one stream, enough for 50 minutes of voice
/// with the default limit.
const MEMORY_SHARE: u64 = 64;
/// Number of records of a stream that are analysed together.
const RECORDS_PER_CALL: usize = 128;
/// Codec whose scores are part of the verdicts.
const JUDGED_CODEC: &str = "G.711+PLC";
/// Maximum number of packets that are retained for figures, of all streams together. A stream that would exceed it has
/// no samples.
const MAX_SAMPLES: usize = 4 << 20;

/// Source of packets.
#[derive(Clone, Debug)]
pub enum RtpSource {
    /// Capture files: two points if there are two captures of the same streams, otherwise read one after the other.
    Files(Vec<PathBuf>),
    /// A folder or file that is still being written.
    Followed(PathBuf),
    /// An interface of this host.
    Interface(String, InterfaceSettings),
}

/// Settings of an analysis of RTP streams.
#[derive(Clone, Debug, Default)]
pub struct RtpCaptures {
    /// Address or prefix of the streams to analyse; `None`: all streams.
    pub host: Option<Prefix>,
    /// Port of the streams to analyse; `None`: all streams.
    pub port: Option<u16>,
    /// Formats of dynamic payload types. They have priority over those in session descriptions.
    pub formats: Vec<GivenFormat>,
    /// Time limit for a live capture or followed files; `None`: no limit.
    pub duration: Option<Span>,
    /// Function that is called with the name of an interface as soon as packets are captured there; `None`: none.
    pub listening: Option<fn(&str)>,
    /// True to read two captures one after the other even if they contain the same streams.
    pub one_point: bool,
    /// True if the codec in the options of the analysis applies to all streams. Otherwise the codec of a stream
    /// replaces it if the model of voice quality supports that codec.
    pub one_codec: bool,
}

/// Streams and calls of a capture.
#[derive(Clone, Debug, Default)]
pub struct RtpOutcome {
    /// Streams and calls.
    pub result: RtpResult,
    /// Analysis of each stream, in the order of the streams in `result`.
    pub streams: Vec<Analysed>,
    /// Number of IP packets read.
    pub packets: u64,
    /// Number of frames that are not IP packets, or are unsupported.
    pub skipped: u64,
    /// Number of packets that the capture reported as dropped.
    pub drops: u64,
    /// Analysis of each stream between two points, in the order of the streams in `result`; `None` for a stream that
    /// the second point did not see. Empty for one point.
    pub between: Vec<Option<Analysed>>,
    /// Messages about errors in the files.
    pub notes: Vec<String>,
}

impl RtpCaptures {
    /// Analyses the packets of `source` until its end, until `stop` is requested or the time limit is reached. The
    /// streams are analysed with `options`. Two captures of the same streams are two points; the result is then that of
    /// the first point, with analyses of the streams between the points. `observer` receives the packets unless there
    /// are two points.
    ///
    /// # Errors
    /// [`PassiveError`] if the source cannot be read, or contains no RTP stream.
    pub fn analyse(
        &self,
        source: &RtpSource,
        options: &Options,
        stop: &Stop,
        observer: &mut dyn RtpObserver,
    ) -> Result<RtpOutcome, PassiveError> {
        if let RtpSource::Files(files) = source
            && let [first, second] = &files[..]
            && !self.one_point
            && ![first, second].iter().any(|path| path.as_os_str() == STDIN)
        {
            let [first, second] = [first, second].map(|path| RtpSource::Files(vec![path.clone()]));
            let (other, _) = self.read_point(&second, options, stop, true, &mut Unobserved)?;
            let (mut own, _) = self.read_point(&first, options, stop, true, &mut Unobserved)?;
            if let Some(found) = between(&own.result, &other.result) {
                own.add_between(&found, options, self.one_codec);
                own.add_steps_between(&other.result.recording.steps, &found.steps);
                own.notes.extend(other.result.notes().iter().map(|note| format!("the second point: {note}")));
                return Ok(own);
            }
        }
        let (outcome, filtered) = self.read_point(source, options, stop, false, observer)?;
        if outcome.result.streams.is_empty() {
            let RtpOutcome { packets, skipped, result, notes, .. } = outcome;
            let (name, udp) = (source.name(), result.udp_packets);
            return Err(PassiveError::NoRtp { name, packets, skipped, udp, filtered, notes });
        }
        Ok(outcome)
    }

    /// Analyses one point. Also returns true if an address or a port restricts the analysis to some packets.
    fn read_point(
        &self,
        source: &RtpSource,
        options: &Options,
        stop: &Stop,
        keeps_packets: bool,
        observer: &mut dyn RtpObserver,
    ) -> Result<(RtpOutcome, bool), PassiveError> {
        let mut analyzer = RtpAnalyzer::new(self.formats.clone());
        if keeps_packets {
            analyzer = analyzer.keeping_packets();
        }
        let mut analyses = StreamAnalyses::new(options, self.one_codec, observer);
        let mut outcome = RtpOutcome::default();
        let (mut packets, mut skipped) = (0, 0);
        let mut recording = Recording::of_media();
        let mut each = |seen: Seen<'_>| match seen {
            Seen::Packet(seen) => {
                packets += 1;
                if self.wants(seen.packet) {
                    analyzer.take(seen, &mut analyses);
                }
            }
            Seen::ClockSet => analyzer.clock_set(),
            Seen::Skipped(..) => skipped += 1,
        };
        (outcome.drops, outcome.notes) = self.read(source, stop, |f| recording.push(f, &mut each))?;
        recording.finish(&mut each);
        (outcome.packets, outcome.skipped) = (packets, skipped);
        outcome.result = analyzer.finish(&mut analyses);
        outcome.result.recording = recording.facts();
        outcome.streams = analyses.finish(&outcome.result);
        outcome.add_causes();
        Ok((outcome, self.host.is_some() || self.port.is_some()))
    }

    fn wants(&self, p: &IpPacket<'_>) -> bool {
        self.host.is_none_or(|h| h.contains(p.src()) || h.contains(p.dst()))
            && self.port.is_none_or(|port| p.ports().is_some_and(|(a, b)| a == port || b == port))
    }

    /// Passes all frames to `take`. Returns the number of packets that the capture dropped, and messages about errors.
    fn read(
        &self,
        source: &RtpSource,
        stop: &Stop,
        mut take: impl FnMut(&Frame<'_>),
    ) -> Result<(u64, Vec<String>), PassiveError> {
        let began = clock::steady();
        let is_over =
            |now: SteadyTime| stop.is_requested() || self.duration.is_some_and(|d| now - began >= d);
        match source {
            RtpSource::Files(files) => {
                let mut capture = Capture::open(files)?;
                while let Some(f) = capture.next_frame()
                    && !stop.is_requested()
                {
                    take(&f);
                }
                Ok((capture.drops(), capture.notes().to_vec()))
            }
            RtpSource::Followed(path) => {
                let mut followed = FollowedFiles::open(path)?;
                let mut over: Option<SteadyTime> = None;
                loop {
                    let now = clock::steady();
                    if over.is_none() && is_over(now) {
                        over = Some(now);
                        followed.end();
                    }
                    let frames = followed.poll(FRAMES_PER_CHECK, &mut take);
                    match over {
                        Some(since) if frames == 0 || now - since >= FILE_END_TIMEOUT => break,
                        None if frames == 0 => sleep(POLL_INTERVAL),
                        _ => {}
                    }
                }
                Ok((followed.drops(), followed.notes().to_vec()))
            }
            RtpSource::Interface(name, settings) => {
                let mut capture = InterfaceCapture::open(name, *settings)?;
                self.listening.iter().for_each(|listening| listening(name));
                let mut notes = Vec::new();
                while !is_over(clock::steady()) {
                    if let Err(e) = capture.poll(READ_TIMEOUT, |f| take(&f)) {
                        notes.push(e.to_string());
                        break;
                    }
                }
                capture.settle();
                while notes.is_empty() && capture.poll(Duration::ZERO, |f| take(&f)).is_ok_and(|n| n > 0) {}
                Ok((capture.drops(), notes))
            }
        }
    }
}

impl RtpOutcome {
    /// Adds the causes that only the whole capture shows: steps of its clock, and times in which one direction of a
    /// call has no packets.
    fn add_causes(&mut self) {
        let steps: Vec<&RecordedStep> = self.result.recording.steps.iter().filter(|s| s.proven).collect();
        for (stream, analysed) in self.result.streams.iter().zip(&mut self.streams) {
            if let Some(answer) = &mut analysed.summary.answer {
                let within = steps.iter().filter(|s| (stream.first..=stream.last).contains(&s.at));
                let within: Vec<&RecordedStep> = within.copied().collect();
                leave_out_rests(answer, &within, stream.first);
                answer.causes.extend(within.into_iter().map(|step| of_step(step, stream.first)));
            }
        }
        self.confirm_paths();
        self.doubt_queues();
        for call in &self.result.calls {
            for direction in Direction::BOTH {
                let found = call.one_sided(direction, &self.result.streams);
                let own = call.streams.iter().filter(|s| s.direction == direction).map(|s| s.stream);
                for part in found {
                    // The stream that is nearest to the time without packets.
                    let own = own.clone().filter(|k| !self.result.streams[*k].is_repair());
                    let nearest = match part.is_end {
                        true => own.max_by_key(|k| self.result.streams[*k].last),
                        false => own.min_by_key(|k| self.result.streams[*k].first),
                    };
                    let Some(nearest) = nearest else { continue };
                    let first = self.result.streams[nearest].first;
                    let answer = self.streams.get_mut(nearest).and_then(|s| s.summary.answer.as_mut());
                    answer.into_iter().for_each(|answer| add_one_sided(answer, &part, first));
                }
            }
        }
    }

    /// Names the path as the reason for those changes of the delay for which the packets of another host show that the
    /// recording's clock was not set at that time.
    fn confirm_paths(&mut self) {
        // Changes whose reason is open: index of the stream, time, and size in ns.
        let streams = self.result.streams.iter().zip(&self.streams).enumerate();
        let open: Vec<(usize, WallTime, i64)> = streams
            .flat_map(|(k, (stream, analysed))| {
                let causes = analysed.summary.answer.iter().flat_map(|answer| &answer.causes);
                let changes = causes.filter(|cause| cause.id == CauseId::RouteChange);
                changes.map(move |c| (k, at(stream, c.from_s), c.magnitude_ns.unwrap_or(0)))
            })
            .collect();
        let stood: Vec<(usize, WallTime)> = open
            .into_iter()
            .filter(|(k, time, size)| {
                let from = self.result.streams.get(*k).map(|s| s.from.ip());
                let others = self.result.streams.iter().zip(&self.streams);
                others
                    .filter(|(other, _)| other.clock_rate.is_some() && Some(other.from.ip()) != from)
                    .any(|(_, analysed)| did_not_move(&analysed.samples, *time, *size))
            })
            .map(|(k, time, _)| (k, time))
            .collect();
        for (k, (stream, analysed)) in self.result.streams.iter().zip(&mut self.streams).enumerate() {
            let Some(answer) = &mut analysed.summary.answer else { continue };
            confirm_path(answer, |change| stood.contains(&(k, at(stream, change.from_s))));
        }
    }

    /// Adds the recording's clock as a possible reason for queues that never end, if streams of two hosts have such
    /// queues from the same time on, and of the same size.
    fn doubt_queues(&mut self) {
        const NEAR: Span = Span::seconds(1);
        let streams = self.result.streams.iter().zip(&self.streams);
        let queues: Vec<(IpAddr, WallTime, i64)> = streams
            .flat_map(|(stream, analysed)| {
                let causes = analysed.summary.answer.iter().flat_map(|answer| &answer.causes);
                let length = (stream.last - stream.first).as_seconds();
                let lasting = causes.filter(move |cause| never_ends(cause, length));
                lasting.filter_map(|c| Some((stream.from.ip(), at(stream, c.from_s), c.magnitude_ns?)))
            })
            .collect();
        for (stream, analysed) in self.result.streams.iter().zip(&mut self.streams) {
            let Some(answer) = &mut analysed.summary.answer else { continue };
            let length = (stream.last - stream.first).as_seconds();
            let mut doubted = 0;
            for cause in answer.causes.iter_mut().filter(|cause| never_ends(cause, length)) {
                let (time, size) = (at(stream, cause.from_s), cause.magnitude_ns.unwrap_or(0));
                let is_same = |(host, from, other): &(IpAddr, WallTime, i64)| {
                    *host != stream.from.ip()
                        && (*from - time).0.saturating_abs() < NEAR.0
                        && other.saturating_sub(size).saturating_abs() <= size / 4
                };
                if queues.iter().any(is_same) {
                    cause.because.push_str(", or the recording's clock was set");
                    cause.confidence = 0.5;
                    doubted += 1;
                }
            }
            if doubted > 0 {
                answer.headline = answer
                    .headline
                    .replace(" in a queue, ", " in a queue, or the recording's clock was set, ");
            }
        }
    }

    /// Adds the steps of the clock of the second point to the causes between the points.
    fn add_steps_between(&mut self, other: &[RecordedStep], between: &[PointStep]) {
        let own = self.result.recording.steps.iter().map(|step| (step, "first"));
        let steps = own.chain(other.iter().map(|step| (step, "second"))).filter(|(step, _)| step.proven);
        let found: Vec<(RecordedStep, &str)> = between
            .iter()
            .map(|step| {
                let point = if step.point == CapturePoint::Reference { "first" } else { "second" };
                let PointStep { at, by_ns, error_ns, .. } = *step;
                (RecordedStep { at, by_ns, error_ns, proven: true }, point)
            })
            .collect();
        let steps = steps.chain(found.iter().map(|(step, point)| (step, *point)));
        let steps: Vec<(RecordedStep, &str)> = steps.map(|(step, point)| (*step, point)).collect();
        for (stream, between) in self.result.streams.iter().zip(&mut self.between) {
            let answer = between.as_mut().and_then(|analysed| analysed.summary.answer.as_mut());
            let causes = steps.iter().map(|(step, point)| {
                let cause = of_step(step, stream.first);
                Cause { because: format!("at the {point} point, {}", cause.because), ..cause }
            });
            answer.into_iter().for_each(|answer| answer.causes.extend(causes.clone()));
        }
    }

    /// Analyses the streams between two points.
    fn add_between(&mut self, found: &BetweenPoints, options: &Options, one_codec: bool) {
        self.between = vec![None; self.result.streams.len()];
        for stream in &found.streams {
            let known = self.result.streams.get(stream.streams[0]);
            let Some((place, known)) = self.between.get_mut(stream.streams[0]).zip(known) else { continue };
            let mut analyzer = Analyzer::new(&stream.session, &options_of(options, one_codec, known));
            analyzer.push_all(&stream.records);
            let (mut summary, samples) = analyzer.finish_with_samples(&stream.session);
            leave_out_wrong_scores(&mut summary, known, one_codec);
            *place = Some(Analysed { session: stream.session.clone(), summary, samples });
        }
        for stream in &found.streams {
            let other = found.streams.iter().find(|o| o.near != stream.near).and_then(|o| o.streams.first());
            let samples =
                other.and_then(|k| self.between.get(*k)?.as_ref()).map(|other| other.samples.clone());
            let first = stream.records.first().and_then(PacketRecord::sent);
            let own = self.between.get_mut(stream.streams[0]).and_then(Option::as_mut);
            let answer = own.and_then(|own| own.summary.answer.as_mut());
            if let (Some(answer), Some(samples), Some(first)) = (answer, samples, first) {
                refute_clock_step(answer, &samples, first);
            }
        }
        if found.streams.iter().any(|s| s.near_assumed) {
            self.notes.push(
                "the packets have the same TTL at both points, so the first capture is taken to be nearer to the caller"
                    .to_owned(),
            );
        }
    }
}

impl RtpSource {
    fn name(&self) -> String {
        match self {
            RtpSource::Files(files) => {
                files.iter().map(|f| f.display().to_string()).collect::<Vec<_>>().join(", ")
            }
            RtpSource::Followed(path) => path.display().to_string(),
            RtpSource::Interface(name, _) => name.clone(),
        }
    }
}

/// Running analysis of one stream.
struct StreamAnalysis {
    analyzer: Analyzer,
    /// Records that are not analysed yet: they are collected, because each call of the analyser has a fixed cost.
    waiting: Vec<PacketRecord>,
    /// Smallest delay.
    least: Option<Span>,
}

impl StreamAnalysis {
    fn take(&mut self, records: &[PacketRecord]) {
        self.waiting.extend_from_slice(records);
        if self.waiting.len() >= RECORDS_PER_CALL {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let least = self.waiting.iter().filter_map(PacketRecord::delay).min();
        self.least = self.least.into_iter().chain(least).min();
        // If the clock rate is unknown, so are the send times of received packets.
        for same in self.waiting.chunk_by(|a, b| a.sent().is_some() == b.sent().is_some()) {
            match same.first().is_some_and(|r| r.sent().is_some()) {
                true => self.analyzer.push_all(same),
                false => same.iter().for_each(|r| self.analyzer.push_delayless(r)),
            }
        }
        self.waiting.clear();
    }
}

/// Running analyses of all streams.
struct StreamAnalyses<'a> {
    options: &'a Options,
    one_codec: bool,
    /// Analyses by number of the stream.
    running: HashMap<u64, StreamAnalysis>,
    observer: &'a mut dyn RtpObserver,
}

impl<'a> StreamAnalyses<'a> {
    fn new(options: &'a Options, one_codec: bool, observer: &'a mut dyn RtpObserver) -> StreamAnalyses<'a> {
        StreamAnalyses { options, one_codec, running: HashMap::new(), observer }
    }

    /// Ends the analyses, and returns one for each stream in `result`, in the same order.
    fn finish(mut self, result: &RtpResult) -> Vec<Analysed> {
        let mut room = MAX_SAMPLES;
        let mut facts: Vec<(Direction, Option<Span>)> = vec![Default::default(); result.streams.len()];
        for call in &result.calls {
            call.streams.iter().for_each(|s| facts[s.stream] = (s.direction, call.round_trip_ns));
        }
        let analysed = |(stream, (direction, round_trip)): (&RtpStream, (Direction, Option<Span>))| {
            let mut running = self.running.remove(&stream.number);
            running.iter_mut().for_each(StreamAnalysis::flush);
            let least = running.as_ref().and_then(|running| running.least);
            let session = stream.session(direction, round_trip, least);
            let analyzer = running.map(|running| running.analyzer);
            let analyzer = analyzer.unwrap_or_else(|| Analyzer::new(&session, self.options));
            let (mut summary, mut samples) = analyzer.finish_with_samples(&session);
            leave_out_wrong_scores(&mut summary, stream, self.one_codec);
            match room.checked_sub(samples.seq.len()) {
                Some(left) => room = left,
                None => samples = Default::default(),
            }
            Analysed { session, summary, samples }
        };
        result.streams.iter().zip(facts).map(analysed).collect()
    }
}

/// Returns the options for one stream: with its own codec unless `one_codec` is true, and with the profile of its
/// medium.
fn options_of(options: &Options, one_codec: bool, stream: &RtpStream) -> Options {
    let own = modelled_codec(&stream.codec()).filter(|_| !one_codec).and_then(VoiceCodec::named);
    // Video has its own clock rate; without one, the stream may be either.
    let is_profile = |name: &str| match (name, stream.clock_rate) {
        ("voice", rate) => rate != Some(VIDEO_CLOCK),
        ("video", rate) => rate.is_none_or(|rate| rate == VIDEO_CLOCK),
        _ => false,
    };
    let profiles = PROFILES.iter().filter(|p| is_profile(&p.name)).cloned().collect::<Vec<_>>();
    Options {
        judge: options.judge.as_ref().map(|_| judge_for(profiles)),
        codec: own.unwrap_or_else(|| options.codec.clone()),
        memory: options.memory / MEMORY_SHARE,
        ..options.clone()
    }
}

/// Share of packets that were not recorded, as 1 in this many, above which there is no verdict.
const MIN_RECORDED: u64 = 10;

/// End of the clause about packets over TCP that waited.
const FOR_A_SEGMENT: &str = " for a retransmitted segment";

/// Rewrites `because`, the evidence of a period without packets, for a recording: it has no receiving program to rule
/// out.
fn without_receiver(because: &str, over_tcp: bool) -> String {
    const STANDSTILL: &str = "the path delivered nothing for ";
    const RULED_OUT: &str = "; the kernel's stamps rule out the receiving program";
    let Some((before, after)) = because.split_once(RULED_OUT) else { return because.to_owned() };
    // Over TCP the stream stalls, because a lost segment delays all segments after it.
    match over_tcp && before.contains(STANDSTILL) {
        true => {
            let waited =
                before.replace(STANDSTILL, "packets waited ").replace(", then everything at once", "");
            format!("{waited}{after}{FOR_A_SEGMENT}")
        }
        false => format!("{before}{after}"),
    }
}

/// Removes scores that do not apply to the stream: profiles of another medium, buffer scores that include the steps or
/// the drift of a clock or mix several codecs, and MOS of G.711 if another codec is scored.
fn leave_out_wrong_scores(summary: &mut Summary, stream: &RtpStream, one_codec: bool) {
    let unrecorded = stream.not_recorded.saturating_mul(MIN_RECORDED) > stream.expected;
    if unrecorded {
        summary.forget_loss(format!(
            "No verdict: the capture does not contain the segments of {} of {} packets.",
            stream.not_recorded, stream.expected
        ));
    }
    let Some(answer) = &mut summary.answer else { return };
    if stream.clock_rate.is_none() && answer.severity == Severity::Unknown && !unrecorded {
        answer.headline =
            "No verdict: the clock rate is unknown, so there is no jitter; --payload-type TYPE=CODEC/RATE \
                           gives it."
                .to_owned();
    }
    for cause in &mut answer.causes {
        cause.because = without_receiver(&cause.because, stream.over_tcp);
    }
    if answer.causes.first().is_some_and(|cause| cause.because.ends_with(FOR_A_SEGMENT)) {
        answer.headline = answer
            .headline
            .replace(" in a queue", FOR_A_SEGMENT)
            .replace(" queues of up to ", " waits for retransmitted segments of up to ");
    }
    // The clock rate may have become known only after the beginning of the analysis.
    if stream.clock_rate.is_some() {
        answer.profiles.retain(|name, _| (name == "video") == (stream.clock_rate == Some(VIDEO_CLOCK)));
    }
    if answer.without_clock_step.is_some() || answer.names(CauseId::ClockSkew) {
        summary.dejitter = None;
        answer.profiles.values_mut().for_each(|suits| suits.mos = None);
    }
    let speech = stream.payload_types.iter().filter(|t| !t.is_event && !t.is_noise());
    let mut models: Vec<&str> =
        speech.map(|t| t.codec.as_deref().and_then(modelled_codec).unwrap_or(JUDGED_CODEC)).collect();
    models.sort_unstable();
    models.dedup();
    if models.len() > 1 && !one_codec {
        summary.dejitter = None;
    }
    if one_codec || models != [JUDGED_CODEC] {
        answer.profiles.values_mut().for_each(|suits| suits.mos = None);
    }
}

impl RtpObserver for StreamAnalyses<'_> {
    fn begun(&mut self, stream: &RtpStream) {
        self.observer.begun(stream);
        let session = stream.begun_session(Direction::Up);
        let analyzer = Analyzer::new(&session, &options_of(self.options, self.one_codec, stream));
        self.running.insert(stream.number, StreamAnalysis { analyzer, waiting: Vec::new(), least: None });
    }

    fn records(&mut self, number: u64, records: &[PacketRecord]) {
        self.observer.records(number, records);
        self.running.get_mut(&number).into_iter().for_each(|running| running.take(records));
    }

    fn ended(&mut self, stream: &RtpStream, kept: bool) {
        self.observer.ended(stream, kept);
        if !kept {
            self.running.remove(&stream.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_has_no_receiving_program_to_rule_out() {
        let hold = "the path delivered nothing for 201 ms at 12.0 s, then everything at once; the kernel's stamps rule \
                    out the receiving program";
        assert_eq!(
            without_receiver(hold, true),
            "packets waited 201 ms at 12.0 s for a retransmitted segment"
        );
        assert_eq!(
            without_receiver(hold, false),
            "the path delivered nothing for 201 ms at 12.0 s, then everything at once"
        );
        assert_eq!(without_receiver("a queue", true), "a queue");
    }
}
