//! [`SentTimes`]: send times of a stream's packets, from the most precise stamps available.

use crate::cmsg::Passage;
use crate::departures::{MAX_AWAITED, TransmitMatcher};
use crate::lead::Lead;
use crate::stamp::{StampMode, StampedPackets};
use crate::sys::{self, AsFd};
use jitlat_core::{Span, Stamp, StampSource, WallTime};
use jitlat_proto::jitlat::SentStamps;
use std::net::IpAddr;

/// Number of stamps for which memory is allocated before the stream starts. Longer streams allocate more.
const RESERVED_STAMPS: u32 = 1 << 20;

/// Collects the transmit stamps of one stream. Used by the sending thread, between packets.
pub(crate) struct SentTimes {
    want: StampMode,
    departures: TransmitMatcher<SendReading>,
    working: bool,
    /// Number of packets sent.
    sent: u32,
    times: StampsBySource,
    /// Estimator of the time from clock reading to departure; `None` if packets do not carry their departure time.
    lead: Option<Lead>,
}

/// Result of collecting the send times of a stream.
pub(crate) struct CollectedStamps {
    /// Stamps; `None` if there are none.
    pub stamps: Option<SentStamps>,
    /// Number of packets without a stamp; `None` if no stamps were requested.
    pub lost: Option<u32>,
    /// Explanation if stamps could not be taken as requested.
    pub note: Option<String>,
}

/// Sequence number of a packet, and this program's clock reading before it was sent.
type SendReading = (u32, WallTime);

/// Stamps collected so far, by source.
struct StampsBySource {
    /// True if the stamps are stored; false if only the lead is estimated.
    stored: bool,
    kernel: SentStamps,
    hardware: SentStamps,
}

impl StampsBySource {
    fn set(&mut self, seq: u32, passage: Passage, stamp: Stamp) {
        if !self.stored {
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
    /// Creates a collector of send timestamps for a stream of `packets` packets. The socket must have
    /// timestamping enabled for [`StampedPackets::SENT`].
    pub fn new(want: StampMode, packets: u32) -> SentTimes {
        let mut times = StampsBySource {
            stored: true,
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

    /// Makes the collector also estimate the lead, for packets that carry their departure time.
    pub fn with_lead(self) -> SentTimes {
        SentTimes { lead: Some(Lead::new()), ..self }
    }

    /// Creates a collector that only estimates the lead, for packets whose stamps are not part of the result.
    pub fn for_lead_alone(want: StampMode) -> SentTimes {
        let mut alone = SentTimes::new(want, 0).with_lead();
        alone.times.stored = false;
        alone
    }

    /// Returns the estimated time from a clock reading to the departure of a packet to `to`.
    pub fn lead(&self, to: IpAddr) -> Span {
        self.lead.as_ref().map_or(Span::ZERO, |lead| lead.of(to))
    }

    /// Makes the kernel count packets from 0 again. Called before the stream, and after a failed send.
    pub fn restart(&mut self, socket: impl AsFd) {
        if self.want != StampMode::User {
            let flags = sys::stamp_flags(self.want, StampedPackets::SENT);
            let restarted = self.departures.restart(socket, flags, |(seq, _), stamp| {
                if let Some((passage, stamp)) = stamp {
                    self.times.set(seq, passage, stamp);
                }
            });
            self.working = restarted.is_ok();
        }
    }

    /// Records that packet `seq` was sent; `reading` is this program's clock reading before sending.
    #[inline]
    pub fn sent(&mut self, seq: u32, reading: WallTime) {
        self.sent += 1;
        if self.working {
            self.departures.sent((seq, reading), reading);
        }
    }

    /// Returns the number of packets whose stamps have not arrived.
    #[inline]
    pub fn awaited(&self) -> u32 {
        self.departures.awaited()
    }

    /// Returns the number of packets that were not sent because their launch time had passed.
    pub fn missed(&self) -> u32 {
        self.departures.missed()
    }

    /// Reads one batch of stamps without blocking; returns the number of entries read from the queue.
    pub fn collect(&mut self, socket: impl AsFd) -> usize {
        let SentTimes { departures, times, lead, .. } = self;
        let count = departures.collect(socket.as_fd(), |(seq, read), passage, stamp| {
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

    /// Returns the stamps of one source: the adapter's, if they cover at least as many packets as the
    /// kernel's.
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
                "the adapter stamped {by_hardware} of {by_kernel} sent packets on the system's clock: using kernel stamps instead"
            )
        });
        CollectedStamps { stamps: (by_kernel > 0).then_some(kernel), lost, note }
    }
}
