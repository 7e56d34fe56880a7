//! [`SentTimes`]: the send times of a stream's packets, from the best stamps available.

use crate::cmsg::Passage;
use crate::departures::{MAX_AWAITED, TransmitMatcher};
use crate::lead::Lead;
use crate::stamp::{StampMode, StampedPackets, flags};
use jitlat_core::{Span, Stamp, StampSource, WallTime};
use jitlat_proto::jitlat::SentStamps;
use std::net::IpAddr;
use std::os::fd::AsFd;

/// Stamps for which memory is allocated before the stream; a longer stream allocates more.
const RESERVED_STAMPS: u32 = 1 << 20;

/// Collects the transmit stamps of one stream. Used by the sending thread, between packets.
pub(crate) struct SentTimes {
    want: StampMode,
    departures: TransmitMatcher<SendReading>,
    working: bool,
    /// Packets that were sent.
    sent: u32,
    times: StampsBySource,
    /// Where packets carry the time of their departure: learns how long that takes.
    lead: Option<Lead>,
}

/// What is known of the send times of a stream in the end.
pub(crate) struct CollectedStamps {
    /// The stamps; `None` without any.
    pub stamps: Option<SentStamps>,
    /// Packets that have none; `None` if none were asked for.
    pub lost: Option<u32>,
    /// What could not be done as requested.
    pub note: Option<String>,
}

/// A packet, and the program's clock reading before it was sent.
type SendReading = (u32, WallTime);

/// The stamps so far, by source.
struct StampsBySource {
    /// Whether they are wanted.
    kept: bool,
    kernel: SentStamps,
    hardware: SentStamps,
}

impl StampsBySource {
    fn set(&mut self, seq: u32, passage: Passage, stamp: Stamp) {
        if !self.kept {
            return;
        }
        match (passage, stamp.source) {
            (Passage::Queued, _) => self.kernel.set_entry(seq, stamp.at),
            (Passage::Left, StampSource::Hardware) => self.hardware.set(seq, stamp.at),
            (Passage::Left, _) => self.kernel.set(seq, stamp.at),
        }
    }
}

impl SentTimes {
    /// For a stream of `packets` whose socket's stamping was enabled for [`StampedPackets::SENT`].
    pub fn new(want: StampMode, packets: u32) -> SentTimes {
        let mut times = StampsBySource {
            kept: true,
            kernel: SentStamps::new(StampSource::Kernel),
            hardware: SentStamps::new(StampSource::Hardware),
        };
        let reserved = packets.min(RESERVED_STAMPS) as usize;
        if want != StampMode::User {
            times.kernel.reserve(reserved);
            times.kernel.reserve_entries(reserved);
        }
        if want == StampMode::Hardware {
            times.hardware.reserve(reserved);
        }
        let last = if want == StampMode::Hardware { StampSource::Hardware } else { StampSource::Kernel };
        let departures = TransmitMatcher::new(MAX_AWAITED, last);
        SentTimes { want, departures, working: false, sent: 0, times, lead: None }
    }

    /// For packets that carry the time of their departure.
    pub fn with_lead(self) -> SentTimes {
        SentTimes { lead: Some(Lead::new()), ..self }
    }

    /// For packets whose stamps nobody will ask for: of these only the lead is learnt.
    pub fn for_lead_alone(want: StampMode) -> SentTimes {
        let mut alone = SentTimes::new(want, 0).with_lead();
        alone.times.kept = false;
        alone
    }

    /// How long after a clock reading a packet to `to` leaves.
    pub fn lead(&self, to: IpAddr) -> Span {
        self.lead.as_ref().map_or(Span::ZERO, |lead| lead.of(to))
    }

    /// Makes the kernel number packets from 0 again: before the stream, and after a failed send.
    pub fn restart(&mut self, socket: impl AsFd) {
        if self.want != StampMode::User {
            let flags = flags(self.want, StampedPackets::SENT);
            let restarted = self.departures.restart(socket, flags, |(seq, _), stamp| {
                if let Some((passage, stamp)) = stamp {
                    self.times.set(seq, passage, stamp);
                }
            });
            self.working = restarted.is_ok();
        }
    }

    /// Records that packet `seq` was sent; the program read the clock before.
    #[inline]
    pub fn sent(&mut self, seq: u32, reading: WallTime) {
        self.sent += 1;
        if self.working {
            self.departures.sent((seq, reading), reading);
        }
    }

    /// Packets whose stamps have not arrived.
    #[inline]
    pub fn awaited(&self) -> u32 {
        self.departures.awaited()
    }

    /// Packets that did not leave because their launch time was over.
    pub fn missed(&self) -> u32 {
        self.departures.missed()
    }

    /// Reads one batch of stamps, without blocking; returns the number of entries in the queue.
    pub fn collect(&mut self, socket: impl AsFd) -> usize {
        let SentTimes { departures, times, lead, .. } = self;
        let count = departures.collect(&socket, |(seq, read), passage, stamp| {
            times.set(seq, passage, stamp);
            if (passage, stamp.source) == (Passage::Left, StampSource::Kernel)
                && let Some(lead) = lead
            {
                lead.note(read, stamp.at);
            }
        });
        if self.departures.is_suspect() {
            self.restart(socket);
        }
        count
    }

    /// The stamps of one source: the adapter's if they cover the stream as well as the kernel's.
    pub fn finish(self) -> CollectedStamps {
        let StampsBySource { mut kernel, mut hardware, .. } = self.times;
        let (by_kernel, by_hardware) = (kernel.known(), hardware.known());
        let is_adapters = by_hardware > 0 && by_hardware >= by_kernel;
        let known = if is_adapters { by_hardware } else { by_kernel };
        let lost = (self.want != StampMode::User)
            .then(|| self.sent.saturating_sub(known as u32).saturating_sub(self.departures.missed()));
        if is_adapters {
            hardware.take_entries(&mut kernel);
            return CollectedStamps { stamps: Some(hardware), lost, note: None };
        }
        let note = (self.want == StampMode::Hardware && by_kernel > 0).then(|| {
            format!(
                "the adapter stamped {by_hardware} of {by_kernel} sent packets on the system's clock: kernel stamps"
            )
        });
        CollectedStamps { stamps: (by_kernel > 0).then_some(kernel), lost, note }
    }
}
