"""The metrics of this process: what was done since its start, and what is in progress.

Each metric is a constant here, and all code updates it directly:

    BATCHES.add(1)
    CALLS.add(20, "archive", "eth_getBlockByNumber", "answered")

Metrics belong to the process, not to an object with a shorter life: a counter must not drop when a
fetch ends, because Prometheus takes that for a restart. Counting is an addition in a dictionary,
once per batch or request, never per row. It works without a metrics server, and the module that
knows the Prometheus format (`exposition`) is imported only to serve them.

The types are not those of prometheus-client: they count three times as fast, start without its
import, which takes longer than all of this module's (`python -m bench libraries`), and `absorb`
adds the counts of another process, for which prometheus-client needs files that both share.

Invariants: base units; `_total` on counters only; labels with few values, none of them a secret, a
height or an id. All updates happen on the event loop's thread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate
from time import perf_counter


class MetricKind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, eq=False)
class Series:
    """A counter or a gauge: one number for each combination of label values."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    highest: bool = False  # a gauge of the highest value over all processes of a command
    values: dict[tuple[str, ...], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.labels:
            self.values[()] = 0  # exported from the start

    def add(self, amount: float, *labels: str) -> None:
        self.values[labels] = self.values.get(labels, 0) + amount

    def set(self, value: float, *labels: str) -> None:
        """Sets a gauge, or a counter that the ledger keeps."""
        self.values[labels] = value

    def forget(self, *labels: str) -> None:
        """Removes the gauge of something that no longer exists."""
        self.values.pop(labels, None)

    @contextmanager
    def raised(self, amount: float, *labels: str) -> Iterator[None]:
        """Raises a gauge by this amount inside the context."""
        self.add(amount, *labels)
        try:
            yield
        finally:
            self.add(-amount, *labels)

    def absorb(self, labels: tuple[str, ...], more: list[float]) -> None:
        """Adds the counts of another process."""
        self.add(more[0], *labels)

    def raise_to(self, value: float, *labels: str) -> None:
        """Raises a gauge to this value if it is lower."""
        self.values[labels] = max(value, self.values.get(labels, value))

    def replace(self, values: Mapping[tuple[str, ...], float]) -> None:
        """Replaces all values, as `set` does for one."""
        self.values.clear()
        self.values.update(values)


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of values up to each of some limits, and the sum of all values."""

    name: str
    help: str
    limits: tuple[float, ...]
    labels: tuple[str, ...] = ()
    kind: MetricKind = MetricKind.HISTOGRAM
    counts: dict[tuple[str, ...], list[int]] = field(default_factory=dict)
    sums: dict[tuple[str, ...], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.labels:
            self._make(())

    def observe(self, value: float, *labels: str) -> None:
        if labels not in self.counts:
            self._make(labels)
        self.counts[labels][bisect_left(self.limits, value)] += 1
        self.sums[labels] += value

    def absorb(self, labels: tuple[str, ...], more: list[float]) -> None:
        """Adds the observations of another process: the counts, followed by the sum."""
        if labels not in self.counts:
            self._make(labels)
        *counts, total = more
        own = self.counts[labels]
        self.counts[labels] = [mine + int(each) for mine, each in zip(own, counts, strict=True)]
        self.sums[labels] += total

    @contextmanager
    def timed(self, *labels: str) -> Iterator[None]:
        """Observes the seconds spent inside the context, even if it raises."""
        began = perf_counter()
        try:
            yield
        finally:
            self.observe(perf_counter() - began, *labels)

    def buckets(self, labels: tuple[str, ...]) -> list[tuple[str, int]]:
        """Cumulative counts for each limit; the last limit is infinite."""
        names = [*(f"{limit:g}" for limit in self.limits), "+Inf"]
        return list(zip(names, accumulate(self.counts[labels]), strict=True))

    def _make(self, labels: tuple[str, ...]) -> None:
        self.counts[labels] = [0] * (len(self.limits) + 1)
        self.sums[labels] = 0.0


Metric = Series | Histogram
Snapshot = dict[str, list[tuple[tuple[str, ...], list[float]]]]
"""Counters, histograms and highest values by name: numbers for each combination of labels."""

_SHORT = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_LONG = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0, 604800.0)

DURATION = Histogram(
    "backfill_duration_seconds",
    "Time from the first claim of a backfill to its end, for those this process has settled.",
    _LONG,
)
BLOCKS = Series("blocks_backfilled_total", MetricKind.COUNTER, "Blocks written to a sink, durably.")
WORKERS = Series(
    "backfill_workers",
    MetricKind.GAUGE,
    "Requests that may be in flight at once, over all endpoints that are open.",
)
ACTIONS = Series("gapless_actions_total", MetricKind.COUNTER, "Log lines, by action.", ("action",))
CALLS = Series(
    "gapless_calls_total",
    MetricKind.COUNTER,
    "Calls sent; the outcome is answered, unanswered or cancelled.",
    ("endpoint", "method", "outcome"),
)
REPEATED_CALLS = Series(
    "gapless_calls_repeated_total", MetricKind.COUNTER, "Calls that were retried.", ("endpoint",)
)
REFUSALS = Series(
    "gapless_refusals_total",
    MetricKind.COUNTER,
    "Refusals and failures of an endpoint, by the reaction to them.",
    ("endpoint", "reaction"),
)
REQUEST_SECONDS = Histogram(
    "gapless_request_seconds",
    "Time from a request to the end of its answer.",
    _SHORT,
    ("endpoint",),
)
IN_FLIGHT = Series(
    "gapless_requests_in_flight",
    MetricKind.GAUGE,
    "Requests that wait for an answer.",
    ("endpoint",),
)
ENDPOINT_UP = Series(
    "gapless_endpoint_up",
    MetricKind.GAUGE,
    "1 if an endpoint can be used, 0 if it denies access, fails or is unreachable.",
    ("endpoint",),
)
REFUSED_ANSWERS = Series(
    "gapless_answers_refused_total",
    MetricKind.COUNTER,
    "Blocks of an endpoint that did not pass the checks.",
    ("endpoint",),
)
BATCHES = Series("gapless_batches_written_total", MetricKind.COUNTER, "Batches written to a sink.")
ROWS = Series(
    "gapless_rows_written_total",
    MetricKind.COUNTER,
    "Rows written to a sink.",
    ("chain", "dataset"),
)
WRITE_SECONDS = Histogram("gapless_sink_write_seconds", "Time to write a batch to a sink.", _SHORT)
STORED_HEIGHT = Series(
    "gapless_stored_height",
    MetricKind.GAUGE,
    "Highest block that a sink is known to hold; blocks below it may be missing.",
    ("chain", "sink"),
    highest=True,
)
HEAD_HEIGHT = Series(
    "gapless_head_height",
    MetricKind.GAUGE,
    "Head of the chain when a fetch last asked for it.",
    ("chain",),
)
FINAL_HEIGHT = Series(
    "gapless_finalized_height",
    MetricKind.GAUGE,
    "Highest block of the chain that is final, when a follower last asked for it.",
    ("chain",),
)
HEAD_SEEN = Series(
    "gapless_head_seen_timestamp_seconds",
    MetricKind.GAUGE,
    "When the follower of this process last saw the head of the chain, in seconds since 1970.",
    ("follow",),
)
HEAD_TIME = Series(
    "gapless_head_timestamp_seconds",
    MetricKind.GAUGE,
    "Time of the head's block when a follower last asked for it, in seconds since 1970.",
    ("chain",),
)
LAG_BLOCKS = Series(
    "gapless_lag_blocks",
    MetricKind.GAUGE,
    "Blocks between the head of the chain and the highest block that a sink is known to hold.",
    ("chain", "sink"),
)
LAG_SECONDS = Series(
    "gapless_lag_seconds",
    MetricKind.GAUGE,
    "Time since the oldest block above the newest stored one was planned, or since a head was last"
    " seen while there is none to see.",
    ("follow",),
)
LEADS = Series(
    "gapless_follow_leader",
    MetricKind.GAUGE,
    "1 if this process leads the follow, 0 if it stands by.",
    ("follow",),
)
REORGS = Series(
    "gapless_reorgs_total",
    MetricKind.COUNTER,
    "Reorganisations that a follower has found, by the number of blocks that were replaced.",
    ("chain", "depth"),
)
PUBLISHED_BLOCKS = Series(
    "gapless_published_blocks_total",
    MetricKind.COUNTER,
    "Blocks that this process has published on a stream.",
    ("publisher",),
)
PUBLISHED_ENTRIES = Series(
    "gapless_published_entries_total",
    MetricKind.COUNTER,
    "Entries of transactions and blocks that this process has published on a stream.",
    ("publisher",),
)
UNPUBLISHED = Series(
    "gapless_unpublished_blocks",
    MetricKind.GAUGE,
    "Blocks that the sink holds and that were not published yet.",
    ("publisher",),
)
PUBLISHED_HEIGHT = Series(
    "gapless_published_height",
    MetricKind.GAUGE,
    "Highest published block up to which nothing is missing.",
    ("publisher",),
)
PUBLISHES = Series(
    "gapless_publisher_leader",
    MetricKind.GAUGE,
    "1 if this process publishes, 0 if it stands by.",
    ("publisher",),
)
PARTITIONS = Series(
    "gapless_partitions_completed_total",
    MetricKind.COUNTER,
    "Partitions of chunks that were completed here.",
)
SLOTS = Series("gapless_slots", MetricKind.GAUGE, "Chunks that may run here at once.", ("queue",))
RUNNING = Series("gapless_chunks_running", MetricKind.GAUGE, "Chunks that run here.", ("queue",))
BACKFILLS = Series(
    "gapless_ledger_backfills",
    MetricKind.GAUGE,
    "Backfills in the ledger, of all workers.",
    ("state",),
)
CHUNKS = Series(
    "gapless_ledger_chunks",
    MetricKind.GAUGE,
    "Chunks of backfills that have not ended, of all workers.",
    ("status",),
)
QUEUE_CHUNKS = Series(
    "gapless_ledger_queue_chunks",
    MetricKind.GAUGE,
    "Chunks of a queue that have not ended, and its dead letters, of all workers.",
    ("queue", "status"),
)
QUEUE_RUNS = Series(
    "gapless_ledger_queue_runs_total",
    MetricKind.COUNTER,
    "Runs of a queue that have ended, of all workers; the outcome is completed or failed.",
    ("queue", "outcome"),
)
QUEUE_WAIT = Series(
    "gapless_ledger_queue_wait_seconds",
    MetricKind.GAUGE,
    "How long the oldest chunk has waited that a free slot could take; 0 if there is none.",
    ("queue",),
)
QUEUE_SLOTS = Series(
    "gapless_ledger_queue_slots", MetricKind.GAUGE, "Slots of live workers.", ("queue",)
)
QUEUE_PAUSED = Series(
    "gapless_ledger_queue_paused", MetricKind.GAUGE, "1 if a queue is paused.", ("queue",)
)

BUILD = Series(
    "gapless_build_info",
    MetricKind.GAUGE,
    "Always 1; the labels hold the versions of Gapless and Python.",
    ("version", "python"),
)

METRICS: tuple[Metric, ...] = (
    DURATION,
    BLOCKS,
    WORKERS,
    ACTIONS,
    CALLS,
    REPEATED_CALLS,
    REFUSALS,
    REQUEST_SECONDS,
    IN_FLIGHT,
    ENDPOINT_UP,
    REFUSED_ANSWERS,
    BATCHES,
    ROWS,
    WRITE_SECONDS,
    STORED_HEIGHT,
    HEAD_HEIGHT,
    FINAL_HEIGHT,
    HEAD_SEEN,
    HEAD_TIME,
    LAG_BLOCKS,
    LAG_SECONDS,
    LEADS,
    REORGS,
    PUBLISHED_BLOCKS,
    PUBLISHED_ENTRIES,
    UNPUBLISHED,
    PUBLISHED_HEIGHT,
    PUBLISHES,
    PARTITIONS,
    SLOTS,
    RUNNING,
    BACKFILLS,
    CHUNKS,
    QUEUE_CHUNKS,
    QUEUE_RUNS,
    QUEUE_WAIT,
    QUEUE_SLOTS,
    QUEUE_PAUSED,
    BUILD,
)


def snapshot() -> Snapshot:
    """The values to add to another process's; other gauges stay with their process."""
    found: Snapshot = {}
    for metric in METRICS:
        if isinstance(metric, Histogram):
            found[metric.name] = [
                (labels, [*counts, metric.sums[labels]]) for labels, counts in metric.counts.items()
            ]
        elif metric.kind is MetricKind.COUNTER or metric.highest:
            found[metric.name] = [(labels, [value]) for labels, value in metric.values.items()]
    return found


def absorb(now: Snapshot, before: Snapshot) -> None:
    """Adds what another process has counted since its previous snapshot."""
    for metric in METRICS:
        earlier = dict(before.get(metric.name, []))
        for labels, values in now.get(metric.name, []):
            if isinstance(metric, Series) and metric.highest:
                metric.raise_to(values[0], *labels)
                continue
            more = [
                value - known
                for value, known in zip(
                    values, earlier.get(labels, [0.0] * len(values)), strict=True
                )
            ]
            metric.absorb(labels, more)
