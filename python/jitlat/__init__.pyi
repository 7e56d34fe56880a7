import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from os import PathLike
from typing import Any, Literal, NamedTuple, Protocol, SupportsIndex

__version__: str

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

_Path = str | PathLike[str]
_Progress = Callable[[list[tuple[int, int, int, int]]], object] | bool
_Time = str | date | datetime
_Severity = Literal["good", "fair", "poor", "bad", "unknown"]
_Direction = Literal["up", "down", "both", "-"]
_Period = Literal["test", "hour", "day", "month", "year", "all"]

class Error(Exception):
    """Something could not be read, measured or analysed; the text is the command's message."""

class _Packet(NamedTuple):
    test_id: int
    rx_index: int
    seq: int
    stamps: int
    sent_ns: int | None
    arrived_ns: int | None
    answered_ns: int | None
    returned_ns: int | None
    flags: int
    size: int | None
    ttl: int | None
    tos: int | None
    send_lag_ns: int | None
    receive_lag_ns: int | None
    local_queue_ns: int | None
    tcp_retransmissions: int | None
    tcp_srtt_us: int | None
    tcp_cwnd: int | None
    tcp_mss: int | None
    request_ecn: int | None
    answer_ecn: int | None

class Packets:
    """The packets of one test, an Arrow table that is made while it is read."""

    @property
    def id(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def tags(self) -> dict[str, str]: ...
    @property
    def metadata(self) -> dict[str, str]: ...
    def arrow(self) -> Any: ...
    def pandas(self) -> Any: ...
    def polars(self) -> Any: ...
    def _repr_html_(self) -> str: ...
    def __iter__(self) -> Iterator[_Packet]: ...
    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class Tests(Sequence[Packets]):
    """Packets of several tests of an archive, which are looked up when they are used."""

    @property
    def ids(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: SupportsIndex) -> Packets: ...  # type: ignore[override]

class Table:
    """Rows of an archive's catalogue: an Arrow table with times as timestamps (UTC)."""

    @property
    def columns(self) -> list[str]: ...
    def arrow(self) -> Any: ...
    def pandas(self) -> Any: ...
    def polars(self) -> Any: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: SupportsIndex) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...
    def _repr_html_(self) -> str: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class Archive:
    """An archive of tests."""

    def __init__(self, path: _Path, *, create: bool = False) -> None: ...
    @property
    def path(self) -> PathLike[str]: ...
    def ls(
        self,
        *,
        figures: str | Sequence[str] | None = None,
        path: str | None = None,
        since: _Time | None = None,
        before: _Time | None = None,
        tags: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        protocol: str | None = None,
        direction: _Direction | None = None,
        severity: _Severity | None = None,
    ) -> Table: ...
    def query(
        self,
        figures: str | Sequence[str] | None = None,
        *,
        by: _Period = "day",
        path: str | None = None,
        since: _Time | None = None,
        before: _Time | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Table: ...
    def tests(
        self,
        *,
        path: str | None = None,
        since: _Time | None = None,
        before: _Time | None = None,
        tags: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        protocol: str | None = None,
        direction: _Direction | None = None,
        severity: _Severity | None = None,
    ) -> Tests: ...
    def add(self, logs: _Path | Iterable[_Path], *, tags: Mapping[str, str] | None = None) -> list[str]: ...
    def publish(
        self,
        lake: _Path,
        *,
        name: str | None = None,
        again: bool = False,
        filesystem: object | None = None,
    ) -> dict[str, Any]: ...

class Figure:
    """A figure, drawn on request."""

    def svg(self) -> str: ...
    def png(self, scale: float = 2.0) -> bytes: ...
    def _repr_svg_(self) -> str: ...

class Summary:
    """All figures of a test; scalars are attributes (`summary.latency_median`), times in ns."""

    @property
    def name(self) -> str: ...
    @property
    def name_of_log(self) -> str: ...
    @property
    def id(self) -> str | None: ...
    @property
    def started_ns(self) -> int | None: ...
    @property
    def stream(self) -> dict[str, Any]: ...
    @property
    def tags(self) -> dict[str, str]: ...
    @property
    def answer(self) -> dict[str, Any]: ...
    @property
    def scalars(self) -> dict[str, float | None]: ...
    @property
    def figures(self) -> list[str]: ...
    def json(self) -> str: ...
    def to_dict(self) -> dict[str, Any]: ...
    def text(self) -> str: ...
    def html(self) -> str: ...
    def figure(self, name: str) -> Figure: ...
    def _repr_html_(self) -> str: ...
    # Written by python/reference: the scalars.
    @property
    def sent(self) -> float | None:
        """Packets sent that are known to be received or lost."""
    @property
    def received(self) -> float | None:
        """Datagrams received, including duplicates and invalid ones."""
    @property
    def unique_valid(self) -> float | None:
        """Valid packets received, without duplicates: all other figures are about these packets."""
    @property
    def duplicate(self) -> float | None:
        """Further copies of packets received."""
    @property
    def invalid(self) -> float | None:
        """Packets that are damaged, or whose number or times are invalid."""
    @property
    def lost(self) -> float | None:
        """Packets that did not arrive intact and in time."""
    @property
    def late(self) -> float | None:
        """Lost packets that arrived intact but after the timeout."""
    @property
    def out_of_sequence(self) -> float | None:
        """Packets that arrived after a packet sent later."""
    @property
    def invalid_ratio(self) -> float | None:
        """Invalid packets divided by packets received."""
    @property
    def duplicates(self) -> float | None:
        """Duplicates divided by packets received."""
    @property
    def reordered(self) -> float | None:
        """Reordered packets divided by packets accepted."""
    @property
    def clock_regressions(self) -> float | None:
        """Number of times that the receiver's clock went backwards between two arrivals."""
    @property
    def receiver_drops(self) -> float | None:
        """Datagrams that the receiving kernel dropped because a buffer was full: lost by the host, not by the path."""
    @property
    def loss(self) -> float | None:
        """Lost packets divided by packets sent."""
    @property
    def loss_low(self) -> float | None:
        """Lower limit of the 95 % interval of the loss ratio, from the sizes and distances of loss events."""
    @property
    def loss_high(self) -> float | None:
        """Upper limit of the 95 % interval of the loss ratio, from the sizes and distances of loss events."""
    @property
    def loss_bound(self) -> float | None:
        """Upper limit of the loss ratio with 95 % confidence if nothing was lost: 3/N."""
    @property
    def loss_runs(self) -> float | None:
        """Loss bursts (consecutive losses)."""
    @property
    def loss_run_longest(self) -> float | None:
        """Length of the longest loss burst."""
    @property
    def loss_run_mean(self) -> float | None:
        """Mean length of a loss burst."""
    @property
    def burst_ratio(self) -> float | None:
        """Mean length of loss bursts divided by the mean length for random loss at the same ratio; above 1 is bursty."""
    @property
    def loss_noticeable(self) -> float | None:
        """Losses at most 99 packets after the previous loss, divided by all losses."""
    @property
    def loss_conditional(self) -> float | None:
        """Probability of loss after a lost packet."""
    @property
    def loss_correlation(self) -> float | None:
        """Correlation between the losses of neighbouring packets."""
    @property
    def loss_runs_z(self) -> float | None:
        """Standard score of the Wald-Wolfowitz runs test; below -1.96 losses come in bursts."""
    @property
    def gilbert_p(self) -> float | None:
        """Simple Gilbert model: probability of loss after a received packet."""
    @property
    def gilbert_q(self) -> float | None:
        """Simple Gilbert model: probability of reception after a lost packet."""
    @property
    def gilbert1960_p(self) -> float | None:
        """Gilbert's model of 1960: probability of changing from the good state to the bad."""
    @property
    def gilbert1960_r(self) -> float | None:
        """Gilbert's model of 1960: probability of changing from the bad state to the good."""
    @property
    def gilbert1960_h(self) -> float | None:
        """Gilbert's model of 1960: probability of reception in the bad state."""
    @property
    def bursts(self) -> float | None:
        """Bursts of losses with fewer than 16 packets received between them."""
    @property
    def burst_density(self) -> float | None:
        """Losses in bursts divided by packets in bursts."""
    @property
    def gap_density(self) -> float | None:
        """Losses in gaps divided by packets in gaps."""
    @property
    def burst_duration(self) -> float | None:
        """Mean duration of a burst of loss."""
    @property
    def gap_duration(self) -> float | None:
        """Mean duration of a gap between bursts of loss."""
    @property
    def duplication_fraction(self) -> float | None:
        """Arrivals divided by distinct packets, minus 1."""
    @property
    def replicated_rate(self) -> float | None:
        """Packets that arrived more than once, divided by distinct packets."""
    @property
    def duplicate_after_median(self) -> float | None:
        """Median time from a packet's first arrival to a further copy."""
    @property
    def duplicate_after_max(self) -> float | None:
        """Largest time from a packet's first arrival to a further copy."""
    @property
    def reorder_extent_max(self) -> float | None:
        """Largest number of arrivals from the first packet sent later to the reordered packet."""
    @property
    def reorder_late_max(self) -> float | None:
        """Largest time from the first arrival of a packet sent later to the arrival of the reordered packet."""
    @property
    def reorder_offset_max(self) -> float | None:
        """Largest payload to buffer for a reordered packet."""
    @property
    def reorder_free_runs(self) -> float | None:
        """Completed runs of packets in order."""
    @property
    def reorder_three_late(self) -> float | None:
        """Share of packets displaced by three or more positions, which a TCP sender counts as lost."""
    @property
    def reorder_late_ratio(self) -> float | None:
        """Share of packets that arrived after their position in send order."""
    @property
    def reorder_early_ratio(self) -> float | None:
        """Share of packets that arrived before their position in send order."""
    @property
    def reorder_displacement(self) -> float | None:
        """Mean distance of a packet from its position in send order, in arrivals."""
    @property
    def reorder_entropy(self) -> float | None:
        """Entropy of the reorder density, in nats."""
    @property
    def reorder_occupancy(self) -> float | None:
        """Mean occupancy of a reorder buffer that skips lost packets."""
    @property
    def target_period(self) -> float | None:
        """Requested time between packets."""
    @property
    def tx_period(self) -> float | None:
        """Mean time between packets, as sent; loss does not bias it."""
    @property
    def rx_period(self) -> float | None:
        """Mean time between packets, as received; loss lengthens it."""
    @property
    def tx_rate(self) -> float | None:
        """Packets sent per second."""
    @property
    def rx_rate(self) -> float | None:
        """Packets received per second."""
    @property
    def tx_throughput(self) -> float | None:
        """Payload bits sent per second."""
    @property
    def rx_throughput(self) -> float | None:
        """Payload bits received per second."""
    @property
    def ipdv_mean(self) -> float | None:
        """Mean difference between consecutive packets, which shows the trend, not the spread."""
    @property
    def ipdv_stddev(self) -> float | None:
        """Standard deviation of the variation between consecutive packets, including the tails."""
    @property
    def ipdv_iqr(self) -> float | None:
        """Interquartile range of the variation between consecutive packets, without the tails."""
    @property
    def ipdv_mean_abs(self) -> float | None:
        """Mean absolute delay variation of consecutive packets."""
    @property
    def ipdv_min(self) -> float | None:
        """Smallest variation between consecutive packets."""
    @property
    def ipdv_p0_1(self) -> float | None:
        """0.1th percentile of the variation between consecutive packets."""
    @property
    def ipdv_median(self) -> float | None:
        """Median variation between consecutive packets."""
    @property
    def ipdv_p99_9(self) -> float | None:
        """99.9th percentile of the variation between consecutive packets."""
    @property
    def ipdv_max(self) -> float | None:
        """Largest variation between consecutive packets."""
    @property
    def rfc3550_mean(self) -> float | None:
        """Mean of the running RTP jitter."""
    @property
    def rfc3550_max(self) -> float | None:
        """Largest running RTP jitter."""
    @property
    def rfc3550_final(self) -> float | None:
        """RTP jitter after the last packet, which reflects about the last 16 packets."""
    @property
    def mapdv2(self) -> float | None:
        """Mean positive plus mean negative deviation from a running mean of gain 1/16."""
    @property
    def pdv_p50(self) -> float | None:
        """50th percentile of delay above the smallest delay (PDV)."""
    @property
    def pdv_p90(self) -> float | None:
        """90th percentile of delay above the smallest delay (PDV)."""
    @property
    def pdv_p95(self) -> float | None:
        """95th percentile of delay above the smallest delay (PDV)."""
    @property
    def pdv_p99(self) -> float | None:
        """99th percentile of delay above the smallest delay (PDV)."""
    @property
    def pdv_p99_3(self) -> float | None:
        """99.3th percentile of delay above the smallest delay (PDV)."""
    @property
    def pdv_p99_5(self) -> float | None:
        """99.5th percentile of delay above the smallest delay (PDV)."""
    @property
    def pdv_p99_7(self) -> float | None:
        """99.7th percentile of delay above the smallest delay (PDV)."""
    @property
    def pdv_p99_9(self) -> float | None:
        """99.9th percentile of delay above the smallest delay (PDV)."""
    @property
    def pdv_max(self) -> float | None:
        """Largest delay above the smallest delay (PDV)."""
    @property
    def pdv_mean(self) -> float | None:
        """Mean delay above the smallest delay (PDV)."""
    @property
    def pdv_median(self) -> float | None:
        """Median delay above the smallest delay (PDV): the middle value, or the mean of the two middle values."""
    @property
    def pdv_stddev(self) -> float | None:
        """Standard deviation of delay above the smallest delay (PDV), which equals the standard deviation of delay."""
    @property
    def pdv_mode(self) -> float | None:
        """Mode of PDV: centre of the fullest bin, or half-sample mode if the median is in the same bin."""
    @property
    def latency_min(self) -> float | None:
        """Smallest raw delay."""
    @property
    def latency_median(self) -> float | None:
        """Median raw delay: the middle value, or the mean of the two middle values."""
    @property
    def latency_mean(self) -> float | None:
        """Mean raw delay."""
    @property
    def latency_p50(self) -> float | None:
        """50th percentile of raw delay."""
    @property
    def latency_p90(self) -> float | None:
        """90th percentile of raw delay."""
    @property
    def latency_p95(self) -> float | None:
        """95th percentile of raw delay."""
    @property
    def latency_p99(self) -> float | None:
        """99th percentile of raw delay."""
    @property
    def latency_p99_3(self) -> float | None:
        """99.3th percentile of raw delay."""
    @property
    def latency_p99_5(self) -> float | None:
        """99.5th percentile of raw delay."""
    @property
    def latency_p99_7(self) -> float | None:
        """99.7th percentile of raw delay."""
    @property
    def latency_p99_9(self) -> float | None:
        """99.9th percentile of raw delay."""
    @property
    def latency_max(self) -> float | None:
        """Largest raw delay."""
    @property
    def latency_stddev(self) -> float | None:
        """Standard deviation of raw delay."""
    @property
    def latency_mode(self) -> float | None:
        """Mode of raw delay: centre of the fullest bin, or half-sample mode if the median is in the same bin."""
    @property
    def latency_densest(self) -> float | None:
        """Half-sample mode of raw delay: the densest half of the sample, repeatedly."""
    @property
    def latency_corrected_min(self) -> float | None:
        """Smallest delay corrected by the clock estimate."""
    @property
    def latency_corrected_mean(self) -> float | None:
        """Mean delay corrected by the clock estimate."""
    @property
    def latency_corrected_median(self) -> float | None:
        """Median delay corrected by the clock estimate."""
    @property
    def latency_corrected_max(self) -> float | None:
        """Largest delay corrected by the clock estimate."""
    @property
    def clock_error(self) -> float | None:
        """Estimated clock offset: server minus client."""
    @property
    def clock_bound(self) -> float | None:
        """Largest possible error of the clock estimate, if no delay is negative."""
    @property
    def control_rtt_min(self) -> float | None:
        """Minimum round-trip time of the control channel."""
    @property
    def client_clock_step(self) -> float | None:
        """Step of the client's clock during the test."""
    @property
    def server_clock_step(self) -> float | None:
        """Step of the server's clock during the test."""
    @property
    def skew(self) -> float | None:
        """Slope of the lower hull of delay over send time: the relative clock skew, unless a queue causes it."""
    @property
    def pdv_deskewed_p99(self) -> float | None:
        """99th percentile of PDV after removal of the clock skew, if that is not negligible."""
    @property
    def pdv_deskewed_max(self) -> float | None:
        """Largest PDV after removal of the clock skew, if that is not negligible."""
    @property
    def slope(self) -> float | None:
        """Slope of delay over send time by least squares, in seconds per second."""
    @property
    def slope_r(self) -> float | None:
        """Pearson's correlation of delay and send time."""
    @property
    def slope_arrival(self) -> float | None:
        """Slope of delay over arrival time, in seconds per second: m of the burstiness plot."""
    @property
    def slope_arrival_r(self) -> float | None:
        """Pearson's correlation of delay and arrival time: r of the burstiness plot."""
    @property
    def path_changes(self) -> float | None:
        """Lasting jumps of the smallest delay, caused by a change of the route or of a clock."""
    @property
    def autocorrelation(self) -> float | None:
        """Lag-1 autocorrelation of delay in send order."""
    @property
    def effective_n(self) -> float | None:
        """Number of independent packets that would give the mean the same precision."""
    @property
    def latency_mean_low(self) -> float | None:
        """Lower limit of the 95 % interval of the mean delay, from batch means."""
    @property
    def latency_mean_high(self) -> float | None:
        """Upper limit of the 95 % interval of the mean delay, from batch means."""
    @property
    def latency_mean_90_low(self) -> float | None:
        """Lower limit of Student's 90 % interval of the mean delay, assuming independent packets."""
    @property
    def latency_mean_90_high(self) -> float | None:
        """Upper limit of Student's 90 % interval of the mean delay, assuming independent packets."""
    @property
    def latency_mean_95_low(self) -> float | None:
        """Lower limit of Student's 95 % interval of the mean delay, assuming independent packets."""
    @property
    def latency_mean_95_high(self) -> float | None:
        """Upper limit of Student's 95 % interval of the mean delay, assuming independent packets."""
    @property
    def latency_mean_99_low(self) -> float | None:
        """Lower limit of Student's 99 % interval of the mean delay, assuming independent packets."""
    @property
    def latency_mean_99_high(self) -> float | None:
        """Upper limit of Student's 99 % interval of the mean delay, assuming independent packets."""
    @property
    def within_mean(self) -> float | None:
        """Share of packets whose delay is within `--within` of the mean."""
    @property
    def within_median(self) -> float | None:
        """Share of packets whose delay is within `--within` of the median."""
    @property
    def mos(self) -> float | None:
        """Best mean opinion score of speech over the buffer sizes of the de-jitter curve."""
    @property
    def buffer(self) -> float | None:
        """Smallest play-out buffer for which at most 1 % of packets are late."""
    @property
    def buffer_best(self) -> float | None:
        """Smallest buffer of the curve with the best mean opinion score."""
    @property
    def buffer_1pct_loss(self) -> float | None:
        """Smallest buffer of the curve with at most 1 % total loss; undefined if the network alone loses more."""
    @property
    def adaptive_loss(self) -> float | None:
        """Packets lost with an adaptive buffer, including those lost by the network."""
    @property
    def adaptive_buffer(self) -> float | None:
        """Mean play-out offset of an adaptive buffer above the minimum delay."""
    @property
    def y1541_class(self) -> float | None:
        """Most demanding class whose bounds the test meets, in the order 6, 7, 0 … 4; 5 is the unspecified class."""
    @property
    def qoo_voice(self) -> float | None:
        """Quality of Outcome for the profile voice, from 0 (unacceptable) to 100 (optimal)."""
    @property
    def qoo_video(self) -> float | None:
        """Quality of Outcome for the profile video, from 0 (unacceptable) to 100 (optimal)."""
    @property
    def qoo_gaming(self) -> float | None:
        """Quality of Outcome for the profile gaming, from 0 (unacceptable) to 100 (optimal)."""
    @property
    def qoo_cloud_desktop(self) -> float | None:
        """Quality of Outcome for the profile cloud-desktop, from 0 (unacceptable) to 100 (optimal)."""
    @property
    def qoo_telemetry(self) -> float | None:
        """Quality of Outcome for the profile telemetry, from 0 (unacceptable) to 100 (optimal)."""
    @property
    def qoo_v2x(self) -> float | None:
        """Quality of Outcome for the profile v2x, from 0 (unacceptable) to 100 (optimal)."""
    @property
    def schedule_error_median(self) -> float | None:
        """Median lateness of the sender against its schedule."""
    @property
    def schedule_error_p99(self) -> float | None:
        """99th percentile of the sender's own schedule error."""
    @property
    def schedule_error_max(self) -> float | None:
        """Largest lateness of the sender against its schedule."""
    @property
    def schedule_error_late(self) -> float | None:
        """Packets sent more than half a period late."""
    @property
    def schedule_stretch(self) -> float | None:
        """Lag of the sender behind its schedule at the end, if it did not recover."""
    @property
    def stalls_sender(self) -> float | None:
        """Packets sent late because the sending host stalled."""
    @property
    def stalls_receiver(self) -> float | None:
        """Groups of packets that arrived together, as after a stall of the receiving host."""
    @property
    def stalls_waited(self) -> float | None:
        """Packets that waited in the receiving host more than half a period (in fast streams, a millisecond longer)."""
    @property
    def pdv_without_stalls_p99(self) -> float | None:
        """99th percentile of PDV without packets that the hosts delayed."""
    @property
    def pdv_without_stalls_max(self) -> float | None:
        """Largest PDV without packets that the hosts delayed."""
    @property
    def intended_latency_mean(self) -> float | None:
        """Mean delay counted from due times, if the sender's error is not negligible."""
    @property
    def intended_latency_pdv_p99(self) -> float | None:
        """99th percentile of PDV counted from due times, if the sender's error is not negligible."""
    @property
    def noise_pdv_p99(self) -> float | None:
        """99th percentile of PDV over the host's own loopback, if measured before the test."""
    @property
    def stddev_net(self) -> float | None:
        """Standard deviation of delay without the host's own share."""
    @property
    def send_stamps_lost(self) -> float | None:
        """Packets whose departure stamp was requested but never received."""
    @property
    def send_lag_mean(self) -> float | None:
        """Mean time from the sending program's clock reading to the send stamp."""
    @property
    def send_lag_max(self) -> float | None:
        """Largest time from the sending program's clock reading to the send stamp."""
    @property
    def receive_lag_mean(self) -> float | None:
        """Mean time from the arrival stamp to the receiving program's clock reading."""
    @property
    def receive_lag_max(self) -> float | None:
        """Largest time from the arrival stamp to the receiving program's clock reading."""
    @property
    def local_queue_median(self) -> float | None:
        """Median time in the queue of the sending host's own interface, before the path."""
    @property
    def local_queue_mean(self) -> float | None:
        """Mean time in the queue of the sending host's own interface."""
    @property
    def local_queue_p99(self) -> float | None:
        """99th percentile of the time in the queue of the sending host's own interface."""
    @property
    def local_queue_max(self) -> float | None:
        """Longest time in the queue of the sending host's own interface."""
    @property
    def interface_retries(self) -> float | None:
        """Frames that the client's radio sent again, during the test."""
    @property
    def interface_failed(self) -> float | None:
        """Frames that the client's radio gave up after the last retry, during the test."""
    @property
    def interface_signal(self) -> float | None:
        """Mean signal level at the client's radio, in dBm."""
    @property
    def interface_tx_rate(self) -> float | None:
        """Mean rate at which the client's radio sends frames."""
    @property
    def interface_errors(self) -> float | None:
        """Frames with errors at the client's interface, during the test."""
    @property
    def interface_drops(self) -> float | None:
        """Frames that the client's interface dropped, during the test."""
    @property
    def ecn_ce(self) -> float | None:
        """Share of ECT packets that arrived with CE (congestion experienced), of those sent with --ecn."""
    @property
    def ecn_l4s_gain(self) -> float | None:
        """Median of the time by which packets for the low-latency queue (ECT(1), CE) are faster than others of the same block, with --ecn both."""
    @property
    def processing_min(self) -> float | None:
        """Smallest time that the far host took to answer, which round trips do not include."""
    @property
    def processing_mean(self) -> float | None:
        """Mean time that the far host took to answer."""
    @property
    def processing_max(self) -> float | None:
        """Largest time that the far host took to answer."""
    @property
    def unsent(self) -> float | None:
        """Requests that this host could not send."""
    @property
    def lost_there(self) -> float | None:
        """Requests lost up (towards the far host), if the far host counts packets."""
    @property
    def lost_back(self) -> float | None:
        """Answers lost down (from the far host), if the far host counts packets."""
    @property
    def lost_either(self) -> float | None:
        """Requests or answers lost in an unknown direction."""
    @property
    def answers_foreign(self) -> float | None:
        """Datagrams received that do not belong to this test."""
    @property
    def answers_malformed(self) -> float | None:
        """Datagrams received that violate the protocol."""
    @property
    def answers_forged(self) -> float | None:
        """Datagrams received whose integrity check failed."""
    @property
    def answers_unmatched(self) -> float | None:
        """Answers to requests that were never sent or are too old."""
    @property
    def requests_refused(self) -> float | None:
        """ICMP port-unreachable messages from the far host."""
    @property
    def requests_prohibited(self) -> float | None:
        """ICMP messages reporting that a filter or policy prohibits the requests."""
    @property
    def tcp_retransmissions(self) -> float | None:
        """Segments that the kernel retransmitted during a TCP test."""
    @property
    def tcp_srtt_max(self) -> float | None:
        """Largest smoothed round-trip time of the kernel during a TCP test."""
    @property
    def tcp_cwnd_min(self) -> float | None:
        """Smallest congestion window during a TCP test, in segments."""
    @property
    def up_sent(self) -> float | None:
        """Packets sent that are known to be received or lost."""
    @property
    def up_duplicate(self) -> float | None:
        """Further copies of packets received."""
    @property
    def up_lost(self) -> float | None:
        """Packets that did not arrive intact and in time."""
    @property
    def up_out_of_sequence(self) -> float | None:
        """Packets that arrived after a packet sent later."""
    @property
    def up_loss(self) -> float | None:
        """Lost packets divided by packets sent."""
    @property
    def up_loss_low(self) -> float | None:
        """Lower limit of the 95 % interval of the loss ratio, from the sizes and distances of loss events."""
    @property
    def up_loss_high(self) -> float | None:
        """Upper limit of the 95 % interval of the loss ratio, from the sizes and distances of loss events."""
    @property
    def up_loss_bound(self) -> float | None:
        """Upper limit of the loss ratio with 95 % confidence if nothing was lost: 3/N."""
    @property
    def up_loss_runs(self) -> float | None:
        """Loss bursts (consecutive losses)."""
    @property
    def up_loss_run_longest(self) -> float | None:
        """Length of the longest loss burst."""
    @property
    def up_loss_run_mean(self) -> float | None:
        """Mean length of a loss burst."""
    @property
    def up_burst_ratio(self) -> float | None:
        """Mean length of loss bursts divided by the mean length for random loss at the same ratio; above 1 is bursty."""
    @property
    def up_loss_noticeable(self) -> float | None:
        """Losses at most 99 packets after the previous loss, divided by all losses."""
    @property
    def up_loss_conditional(self) -> float | None:
        """Probability of loss after a lost packet."""
    @property
    def up_loss_correlation(self) -> float | None:
        """Correlation between the losses of neighbouring packets."""
    @property
    def up_loss_runs_z(self) -> float | None:
        """Standard score of the Wald-Wolfowitz runs test; below -1.96 losses come in bursts."""
    @property
    def up_gilbert_p(self) -> float | None:
        """Simple Gilbert model: probability of loss after a received packet."""
    @property
    def up_gilbert_q(self) -> float | None:
        """Simple Gilbert model: probability of reception after a lost packet."""
    @property
    def up_gilbert1960_p(self) -> float | None:
        """Gilbert's model of 1960: probability of changing from the good state to the bad."""
    @property
    def up_gilbert1960_r(self) -> float | None:
        """Gilbert's model of 1960: probability of changing from the bad state to the good."""
    @property
    def up_gilbert1960_h(self) -> float | None:
        """Gilbert's model of 1960: probability of reception in the bad state."""
    @property
    def up_bursts(self) -> float | None:
        """Bursts of losses with fewer than 16 packets received between them."""
    @property
    def up_burst_density(self) -> float | None:
        """Losses in bursts divided by packets in bursts."""
    @property
    def up_gap_density(self) -> float | None:
        """Losses in gaps divided by packets in gaps."""
    @property
    def up_burst_duration(self) -> float | None:
        """Mean duration of a burst of loss."""
    @property
    def up_gap_duration(self) -> float | None:
        """Mean duration of a gap between bursts of loss."""
    @property
    def up_ipdv_mean(self) -> float | None:
        """Mean difference between consecutive packets, which shows the trend, not the spread."""
    @property
    def up_ipdv_stddev(self) -> float | None:
        """Standard deviation of the variation between consecutive packets, including the tails."""
    @property
    def up_ipdv_iqr(self) -> float | None:
        """Interquartile range of the variation between consecutive packets, without the tails."""
    @property
    def up_ipdv_mean_abs(self) -> float | None:
        """Mean absolute delay variation of consecutive packets."""
    @property
    def up_ipdv_min(self) -> float | None:
        """Smallest variation between consecutive packets."""
    @property
    def up_ipdv_p0_1(self) -> float | None:
        """0.1th percentile of the variation between consecutive packets."""
    @property
    def up_ipdv_median(self) -> float | None:
        """Median variation between consecutive packets."""
    @property
    def up_ipdv_p99_9(self) -> float | None:
        """99.9th percentile of the variation between consecutive packets."""
    @property
    def up_ipdv_max(self) -> float | None:
        """Largest variation between consecutive packets."""
    @property
    def up_rfc3550_mean(self) -> float | None:
        """Mean of the running RTP jitter."""
    @property
    def up_rfc3550_max(self) -> float | None:
        """Largest running RTP jitter."""
    @property
    def up_rfc3550_final(self) -> float | None:
        """RTP jitter after the last packet, which reflects about the last 16 packets."""
    @property
    def up_mapdv2(self) -> float | None:
        """Mean positive plus mean negative deviation from a running mean of gain 1/16."""
    @property
    def up_pdv_p50(self) -> float | None:
        """50th percentile of delay above the smallest delay (PDV)."""
    @property
    def up_pdv_p90(self) -> float | None:
        """90th percentile of delay above the smallest delay (PDV)."""
    @property
    def up_pdv_p95(self) -> float | None:
        """95th percentile of delay above the smallest delay (PDV)."""
    @property
    def up_pdv_p99(self) -> float | None:
        """99th percentile of delay above the smallest delay (PDV)."""
    @property
    def up_pdv_p99_3(self) -> float | None:
        """99.3th percentile of delay above the smallest delay (PDV)."""
    @property
    def up_pdv_p99_5(self) -> float | None:
        """99.5th percentile of delay above the smallest delay (PDV)."""
    @property
    def up_pdv_p99_7(self) -> float | None:
        """99.7th percentile of delay above the smallest delay (PDV)."""
    @property
    def up_pdv_p99_9(self) -> float | None:
        """99.9th percentile of delay above the smallest delay (PDV)."""
    @property
    def up_pdv_max(self) -> float | None:
        """Largest delay above the smallest delay (PDV)."""
    @property
    def up_pdv_mean(self) -> float | None:
        """Mean delay above the smallest delay (PDV)."""
    @property
    def up_pdv_median(self) -> float | None:
        """Median delay above the smallest delay (PDV): the middle value, or the mean of the two middle values."""
    @property
    def up_pdv_stddev(self) -> float | None:
        """Standard deviation of delay above the smallest delay (PDV), which equals the standard deviation of delay."""
    @property
    def up_pdv_mode(self) -> float | None:
        """Mode of PDV: centre of the fullest bin, or half-sample mode if the median is in the same bin."""
    @property
    def up_latency_min(self) -> float | None:
        """Smallest raw delay."""
    @property
    def up_latency_median(self) -> float | None:
        """Median raw delay: the middle value, or the mean of the two middle values."""
    @property
    def up_latency_mean(self) -> float | None:
        """Mean raw delay."""
    @property
    def up_latency_p50(self) -> float | None:
        """50th percentile of raw delay."""
    @property
    def up_latency_p90(self) -> float | None:
        """90th percentile of raw delay."""
    @property
    def up_latency_p95(self) -> float | None:
        """95th percentile of raw delay."""
    @property
    def up_latency_p99(self) -> float | None:
        """99th percentile of raw delay."""
    @property
    def up_latency_p99_3(self) -> float | None:
        """99.3th percentile of raw delay."""
    @property
    def up_latency_p99_5(self) -> float | None:
        """99.5th percentile of raw delay."""
    @property
    def up_latency_p99_7(self) -> float | None:
        """99.7th percentile of raw delay."""
    @property
    def up_latency_p99_9(self) -> float | None:
        """99.9th percentile of raw delay."""
    @property
    def up_latency_max(self) -> float | None:
        """Largest raw delay."""
    @property
    def up_latency_stddev(self) -> float | None:
        """Standard deviation of raw delay."""
    @property
    def up_latency_mode(self) -> float | None:
        """Mode of raw delay: centre of the fullest bin, or half-sample mode if the median is in the same bin."""
    @property
    def up_latency_densest(self) -> float | None:
        """Half-sample mode of raw delay: the densest half of the sample, repeatedly."""
    @property
    def up_latency_corrected_min(self) -> float | None:
        """Smallest delay corrected by the clock estimate."""
    @property
    def up_latency_corrected_mean(self) -> float | None:
        """Mean delay corrected by the clock estimate."""
    @property
    def up_latency_corrected_median(self) -> float | None:
        """Median delay corrected by the clock estimate."""
    @property
    def up_latency_corrected_max(self) -> float | None:
        """Largest delay corrected by the clock estimate."""
    @property
    def up_clock_error(self) -> float | None:
        """Estimated clock offset: server minus client."""
    @property
    def up_clock_bound(self) -> float | None:
        """Largest possible error of the clock estimate, if no delay is negative."""
    @property
    def up_control_rtt_min(self) -> float | None:
        """Minimum round-trip time of the control channel."""
    @property
    def up_skew(self) -> float | None:
        """Slope of the lower hull of delay over send time: the relative clock skew, unless a queue causes it."""
    @property
    def up_pdv_deskewed_p99(self) -> float | None:
        """99th percentile of PDV after removal of the clock skew, if that is not negligible."""
    @property
    def up_pdv_deskewed_max(self) -> float | None:
        """Largest PDV after removal of the clock skew, if that is not negligible."""
    @property
    def up_mos(self) -> float | None:
        """Best mean opinion score of speech over the buffer sizes of the de-jitter curve."""
    @property
    def up_buffer(self) -> float | None:
        """Smallest play-out buffer for which at most 1 % of packets are late."""
    @property
    def up_buffer_best(self) -> float | None:
        """Smallest buffer of the curve with the best mean opinion score."""
    @property
    def up_buffer_1pct_loss(self) -> float | None:
        """Smallest buffer of the curve with at most 1 % total loss; undefined if the network alone loses more."""
    @property
    def up_adaptive_loss(self) -> float | None:
        """Packets lost with an adaptive buffer, including those lost by the network."""
    @property
    def up_adaptive_buffer(self) -> float | None:
        """Mean play-out offset of an adaptive buffer above the minimum delay."""
    @property
    def up_y1541_class(self) -> float | None:
        """Most demanding class whose bounds the test meets, in the order 6, 7, 0 … 4; 5 is the unspecified class."""
    @property
    def up_qoo_voice(self) -> float | None:
        """Quality of Outcome for the profile voice, from 0 (unacceptable) to 100 (optimal)."""
    @property
    def up_qoo_video(self) -> float | None:
        """Quality of Outcome for the profile video, from 0 (unacceptable) to 100 (optimal)."""
    @property
    def up_qoo_gaming(self) -> float | None:
        """Quality of Outcome for the profile gaming, from 0 (unacceptable) to 100 (optimal)."""
    @property
    def up_qoo_cloud_desktop(self) -> float | None:
        """Quality of Outcome for the profile cloud-desktop, from 0 (unacceptable) to 100 (optimal)."""
    @property
    def up_qoo_telemetry(self) -> float | None:
        """Quality of Outcome for the profile telemetry, from 0 (unacceptable) to 100 (optimal)."""
    @property
    def up_qoo_v2x(self) -> float | None:
        """Quality of Outcome for the profile v2x, from 0 (unacceptable) to 100 (optimal)."""
    @property
    def up_send_stamps_lost(self) -> float | None:
        """Packets whose departure stamp was requested but never received."""
    @property
    def up_send_lag_mean(self) -> float | None:
        """Mean time from the sending program's clock reading to the send stamp."""
    @property
    def up_send_lag_max(self) -> float | None:
        """Largest time from the sending program's clock reading to the send stamp."""
    @property
    def up_receive_lag_mean(self) -> float | None:
        """Mean time from the arrival stamp to the receiving program's clock reading."""
    @property
    def up_receive_lag_max(self) -> float | None:
        """Largest time from the arrival stamp to the receiving program's clock reading."""
    @property
    def up_ecn_ce(self) -> float | None:
        """Share of ECT packets that arrived with CE (congestion experienced), of those sent with --ecn."""
    @property
    def up_ecn_l4s_gain(self) -> float | None:
        """Median of the time by which packets for the low-latency queue (ECT(1), CE) are faster than others of the same block, with --ecn both."""
    @property
    def down_sent(self) -> float | None:
        """Packets sent that are known to be received or lost."""
    @property
    def down_duplicate(self) -> float | None:
        """Further copies of packets received."""
    @property
    def down_lost(self) -> float | None:
        """Packets that did not arrive intact and in time."""
    @property
    def down_out_of_sequence(self) -> float | None:
        """Packets that arrived after a packet sent later."""
    @property
    def down_loss(self) -> float | None:
        """Lost packets divided by packets sent."""
    @property
    def down_loss_low(self) -> float | None:
        """Lower limit of the 95 % interval of the loss ratio, from the sizes and distances of loss events."""
    @property
    def down_loss_high(self) -> float | None:
        """Upper limit of the 95 % interval of the loss ratio, from the sizes and distances of loss events."""
    @property
    def down_loss_bound(self) -> float | None:
        """Upper limit of the loss ratio with 95 % confidence if nothing was lost: 3/N."""
    @property
    def down_loss_runs(self) -> float | None:
        """Loss bursts (consecutive losses)."""
    @property
    def down_loss_run_longest(self) -> float | None:
        """Length of the longest loss burst."""
    @property
    def down_loss_run_mean(self) -> float | None:
        """Mean length of a loss burst."""
    @property
    def down_burst_ratio(self) -> float | None:
        """Mean length of loss bursts divided by the mean length for random loss at the same ratio; above 1 is bursty."""
    @property
    def down_loss_noticeable(self) -> float | None:
        """Losses at most 99 packets after the previous loss, divided by all losses."""
    @property
    def down_loss_conditional(self) -> float | None:
        """Probability of loss after a lost packet."""
    @property
    def down_loss_correlation(self) -> float | None:
        """Correlation between the losses of neighbouring packets."""
    @property
    def down_loss_runs_z(self) -> float | None:
        """Standard score of the Wald-Wolfowitz runs test; below -1.96 losses come in bursts."""
    @property
    def down_gilbert_p(self) -> float | None:
        """Simple Gilbert model: probability of loss after a received packet."""
    @property
    def down_gilbert_q(self) -> float | None:
        """Simple Gilbert model: probability of reception after a lost packet."""
    @property
    def down_gilbert1960_p(self) -> float | None:
        """Gilbert's model of 1960: probability of changing from the good state to the bad."""
    @property
    def down_gilbert1960_r(self) -> float | None:
        """Gilbert's model of 1960: probability of changing from the bad state to the good."""
    @property
    def down_gilbert1960_h(self) -> float | None:
        """Gilbert's model of 1960: probability of reception in the bad state."""
    @property
    def down_bursts(self) -> float | None:
        """Bursts of losses with fewer than 16 packets received between them."""
    @property
    def down_burst_density(self) -> float | None:
        """Losses in bursts divided by packets in bursts."""
    @property
    def down_gap_density(self) -> float | None:
        """Losses in gaps divided by packets in gaps."""
    @property
    def down_burst_duration(self) -> float | None:
        """Mean duration of a burst of loss."""
    @property
    def down_gap_duration(self) -> float | None:
        """Mean duration of a gap between bursts of loss."""
    @property
    def down_ipdv_mean(self) -> float | None:
        """Mean difference between consecutive packets, which shows the trend, not the spread."""
    @property
    def down_ipdv_stddev(self) -> float | None:
        """Standard deviation of the variation between consecutive packets, including the tails."""
    @property
    def down_ipdv_iqr(self) -> float | None:
        """Interquartile range of the variation between consecutive packets, without the tails."""
    @property
    def down_ipdv_mean_abs(self) -> float | None:
        """Mean absolute delay variation of consecutive packets."""
    @property
    def down_ipdv_min(self) -> float | None:
        """Smallest variation between consecutive packets."""
    @property
    def down_ipdv_p0_1(self) -> float | None:
        """0.1th percentile of the variation between consecutive packets."""
    @property
    def down_ipdv_median(self) -> float | None:
        """Median variation between consecutive packets."""
    @property
    def down_ipdv_p99_9(self) -> float | None:
        """99.9th percentile of the variation between consecutive packets."""
    @property
    def down_ipdv_max(self) -> float | None:
        """Largest variation between consecutive packets."""
    @property
    def down_rfc3550_mean(self) -> float | None:
        """Mean of the running RTP jitter."""
    @property
    def down_rfc3550_max(self) -> float | None:
        """Largest running RTP jitter."""
    @property
    def down_rfc3550_final(self) -> float | None:
        """RTP jitter after the last packet, which reflects about the last 16 packets."""
    @property
    def down_mapdv2(self) -> float | None:
        """Mean positive plus mean negative deviation from a running mean of gain 1/16."""
    @property
    def down_pdv_p50(self) -> float | None:
        """50th percentile of delay above the smallest delay (PDV)."""
    @property
    def down_pdv_p90(self) -> float | None:
        """90th percentile of delay above the smallest delay (PDV)."""
    @property
    def down_pdv_p95(self) -> float | None:
        """95th percentile of delay above the smallest delay (PDV)."""
    @property
    def down_pdv_p99(self) -> float | None:
        """99th percentile of delay above the smallest delay (PDV)."""
    @property
    def down_pdv_p99_3(self) -> float | None:
        """99.3th percentile of delay above the smallest delay (PDV)."""
    @property
    def down_pdv_p99_5(self) -> float | None:
        """99.5th percentile of delay above the smallest delay (PDV)."""
    @property
    def down_pdv_p99_7(self) -> float | None:
        """99.7th percentile of delay above the smallest delay (PDV)."""
    @property
    def down_pdv_p99_9(self) -> float | None:
        """99.9th percentile of delay above the smallest delay (PDV)."""
    @property
    def down_pdv_max(self) -> float | None:
        """Largest delay above the smallest delay (PDV)."""
    @property
    def down_pdv_mean(self) -> float | None:
        """Mean delay above the smallest delay (PDV)."""
    @property
    def down_pdv_median(self) -> float | None:
        """Median delay above the smallest delay (PDV): the middle value, or the mean of the two middle values."""
    @property
    def down_pdv_stddev(self) -> float | None:
        """Standard deviation of delay above the smallest delay (PDV), which equals the standard deviation of delay."""
    @property
    def down_pdv_mode(self) -> float | None:
        """Mode of PDV: centre of the fullest bin, or half-sample mode if the median is in the same bin."""
    @property
    def down_latency_min(self) -> float | None:
        """Smallest raw delay."""
    @property
    def down_latency_median(self) -> float | None:
        """Median raw delay: the middle value, or the mean of the two middle values."""
    @property
    def down_latency_mean(self) -> float | None:
        """Mean raw delay."""
    @property
    def down_latency_p50(self) -> float | None:
        """50th percentile of raw delay."""
    @property
    def down_latency_p90(self) -> float | None:
        """90th percentile of raw delay."""
    @property
    def down_latency_p95(self) -> float | None:
        """95th percentile of raw delay."""
    @property
    def down_latency_p99(self) -> float | None:
        """99th percentile of raw delay."""
    @property
    def down_latency_p99_3(self) -> float | None:
        """99.3th percentile of raw delay."""
    @property
    def down_latency_p99_5(self) -> float | None:
        """99.5th percentile of raw delay."""
    @property
    def down_latency_p99_7(self) -> float | None:
        """99.7th percentile of raw delay."""
    @property
    def down_latency_p99_9(self) -> float | None:
        """99.9th percentile of raw delay."""
    @property
    def down_latency_max(self) -> float | None:
        """Largest raw delay."""
    @property
    def down_latency_stddev(self) -> float | None:
        """Standard deviation of raw delay."""
    @property
    def down_latency_mode(self) -> float | None:
        """Mode of raw delay: centre of the fullest bin, or half-sample mode if the median is in the same bin."""
    @property
    def down_latency_densest(self) -> float | None:
        """Half-sample mode of raw delay: the densest half of the sample, repeatedly."""
    @property
    def down_latency_corrected_min(self) -> float | None:
        """Smallest delay corrected by the clock estimate."""
    @property
    def down_latency_corrected_mean(self) -> float | None:
        """Mean delay corrected by the clock estimate."""
    @property
    def down_latency_corrected_median(self) -> float | None:
        """Median delay corrected by the clock estimate."""
    @property
    def down_latency_corrected_max(self) -> float | None:
        """Largest delay corrected by the clock estimate."""
    @property
    def down_clock_error(self) -> float | None:
        """Estimated clock offset: server minus client."""
    @property
    def down_clock_bound(self) -> float | None:
        """Largest possible error of the clock estimate, if no delay is negative."""
    @property
    def down_control_rtt_min(self) -> float | None:
        """Minimum round-trip time of the control channel."""
    @property
    def down_skew(self) -> float | None:
        """Slope of the lower hull of delay over send time: the relative clock skew, unless a queue causes it."""
    @property
    def down_pdv_deskewed_p99(self) -> float | None:
        """99th percentile of PDV after removal of the clock skew, if that is not negligible."""
    @property
    def down_pdv_deskewed_max(self) -> float | None:
        """Largest PDV after removal of the clock skew, if that is not negligible."""
    @property
    def down_mos(self) -> float | None:
        """Best mean opinion score of speech over the buffer sizes of the de-jitter curve."""
    @property
    def down_buffer(self) -> float | None:
        """Smallest play-out buffer for which at most 1 % of packets are late."""
    @property
    def down_buffer_best(self) -> float | None:
        """Smallest buffer of the curve with the best mean opinion score."""
    @property
    def down_buffer_1pct_loss(self) -> float | None:
        """Smallest buffer of the curve with at most 1 % total loss; undefined if the network alone loses more."""
    @property
    def down_adaptive_loss(self) -> float | None:
        """Packets lost with an adaptive buffer, including those lost by the network."""
    @property
    def down_adaptive_buffer(self) -> float | None:
        """Mean play-out offset of an adaptive buffer above the minimum delay."""
    @property
    def down_y1541_class(self) -> float | None:
        """Most demanding class whose bounds the test meets, in the order 6, 7, 0 … 4; 5 is the unspecified class."""
    @property
    def down_qoo_voice(self) -> float | None:
        """Quality of Outcome for the profile voice, from 0 (unacceptable) to 100 (optimal)."""
    @property
    def down_qoo_video(self) -> float | None:
        """Quality of Outcome for the profile video, from 0 (unacceptable) to 100 (optimal)."""
    @property
    def down_qoo_gaming(self) -> float | None:
        """Quality of Outcome for the profile gaming, from 0 (unacceptable) to 100 (optimal)."""
    @property
    def down_qoo_cloud_desktop(self) -> float | None:
        """Quality of Outcome for the profile cloud-desktop, from 0 (unacceptable) to 100 (optimal)."""
    @property
    def down_qoo_telemetry(self) -> float | None:
        """Quality of Outcome for the profile telemetry, from 0 (unacceptable) to 100 (optimal)."""
    @property
    def down_qoo_v2x(self) -> float | None:
        """Quality of Outcome for the profile v2x, from 0 (unacceptable) to 100 (optimal)."""
    @property
    def down_send_stamps_lost(self) -> float | None:
        """Packets whose departure stamp was requested but never received."""
    @property
    def down_send_lag_mean(self) -> float | None:
        """Mean time from the sending program's clock reading to the send stamp."""
    @property
    def down_send_lag_max(self) -> float | None:
        """Largest time from the sending program's clock reading to the send stamp."""
    @property
    def down_receive_lag_mean(self) -> float | None:
        """Mean time from the arrival stamp to the receiving program's clock reading."""
    @property
    def down_receive_lag_max(self) -> float | None:
        """Largest time from the arrival stamp to the receiving program's clock reading."""
    @property
    def down_ecn_ce(self) -> float | None:
        """Share of ECT packets that arrived with CE (congestion experienced), of those sent with --ecn."""
    @property
    def down_ecn_l4s_gain(self) -> float | None:
        """Median of the time by which packets for the low-latency queue (ECT(1), CE) are faster than others of the same block, with --ecn both."""
    # The end of the scalars.

class Summaries(Iterator[Summary]):
    """The summaries of whole tests, one after the other."""

    def __next__(self) -> Summary: ...

class State:
    """An analysis in progress, which can be saved as bytes and merged."""

    def __init__(
        self,
        packets: Packets,
        *,
        streaming: bool = False,
        bulk: bool = False,
        interval: float | None = None,
        late_after: float | None = None,
    ) -> None: ...
    def push(self, packets: _ArrowStream) -> None: ...
    def bytes(self) -> builtins.bytes: ...
    @staticmethod
    def load(data: builtins.bytes, *, bulk: bool = False) -> State: ...
    def merge(self, later: State) -> None: ...
    def summary(self) -> Summary: ...

class Pool:
    """Statistics over the packets of many tests; merges in any order."""

    def __init__(self, summary: Summary | None = None) -> None: ...
    def merge(self, other: Pool) -> None: ...
    @property
    def tests(self) -> int: ...
    @property
    def scalars(self) -> dict[str, float | None]: ...
    def json(self) -> str: ...
    def bytes(self) -> builtins.bytes: ...
    @staticmethod
    def load(data: str | builtins.bytes) -> Pool: ...
    def to_dict(self) -> dict[str, Any]: ...

class Comparison:
    """Runs side by side, with a verdict of each against the first."""

    def _repr_html_(self) -> str: ...
    def json(self) -> str: ...
    def to_dict(self) -> dict[str, Any]: ...
    def text(self) -> str: ...

class Captured:
    """Results from captures."""

    def _repr_html_(self) -> str: ...
    @property
    def failures(self) -> list[str]: ...
    def json(self) -> str: ...
    def to_dict(self) -> dict[str, Any]: ...
    def text(self) -> str: ...

def read_log(path: _Path) -> Packets: ...
def read_archive(
    directory: _Path,
    *,
    path: str | None = None,
    since: _Time | None = None,
    before: _Time | None = None,
    tags: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    protocol: str | None = None,
    direction: _Direction | None = None,
    severity: _Severity | None = None,
) -> Tests: ...
def analyze(
    packets: _Path | _ArrowStream,
    *,
    metadata: Mapping[str, str] | None = None,
    streaming: bool = False,
    bulk: bool = False,
    interval: float | None = None,
    late_after: float | None = None,
) -> Summary: ...
def summaries(
    packets: _ArrowStream,
    *,
    metadata: Mapping[str, str] | None = None,
    streaming: bool = False,
    bulk: bool = False,
    interval: float | None = None,
    late_after: float | None = None,
) -> Summaries: ...
def compare(
    summaries: Sequence[Summary] | Mapping[str, Summary],
    *,
    basis: Literal["pdv", "ipdv", "delay"] = "pdv",
    statistic: Literal["median", "p99"] = "median",
    margin: str | None = None,
    loss_margin: str | None = None,
) -> Comparison: ...
def verdict(summary: Summary) -> dict[str, Any]: ...
def figure(summary: Summary, name: str) -> Figure: ...
def scalars() -> list[tuple[str, str, str]]: ...
def scalar_attributes() -> list[tuple[str, str, str]]: ...
def spp(reference: _Path, monitor: _Path) -> Captured: ...
def tcp(*captures: _Path, one_point: bool = False) -> Captured: ...
def measure(
    host: str,
    *,
    direction: Literal["up", "down", "both"] = "up",
    packets: int = 500,
    size: int = 80,
    period: float = 0.02,
    transport: Literal["udp", "tcp"] = "udp",
    port: int | None = None,
    name: str | None = None,
    tags: Mapping[str, str] | None = None,
    progress: _Progress | None = None,
    bulk: bool = False,
) -> list[Summary]: ...
def ping(
    host: str,
    *,
    protocol: str = "icmp",
    packets: int = 100,
    size: int | None = None,
    period: float = 0.02,
    timeout: float = 2.0,
    name: str | None = None,
    tags: Mapping[str, str] | None = None,
    progress: _Progress | None = None,
    bulk: bool = False,
    **arguments: object,
) -> Summary: ...
