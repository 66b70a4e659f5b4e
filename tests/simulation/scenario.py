"""What happens in a run, drawn from one integer.

A scenario is small, so that ten thousand of them can run: some dozens of blocks, one to three
workers, and a few incidents in the first minutes. Then all incidents end, and from then on
everything must recover by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from gapless.core.ranges import Span
from gapless.devnode import Limits, Metering
from tests.simulation.machine import Disk
from tests.simulation.network import Provider
from tests.simulation.subjects import Subject, subject_of


class Front(StrEnum):
    """Who runs the fetch."""

    WORKERS = "workers"  # it was detached: workers find it in the ledger
    FETCH = "fetch"  # one or several processes that run the same command


class Kind(StrEnum):
    """A way in which something goes wrong."""

    CRASH = "crash"  # a process is killed, and restarted a little later
    PAUSE = "pause"  # a process is paused for a while, and does not know it
    DRAIN = "drain"  # a process is asked to stop, and restarted
    CLOCK = "clock"  # a machine's wall clock jumps
    CUT_OFF = "cut-off"  # a process cannot reach the ledger, but others can
    LEDGER_LOCK = "ledger-lock"  # another program holds a transaction open on the ledger
    SINK_LOCK = "sink-lock"
    OUTAGE = "outage"  # a provider cannot be reached
    REORG = "reorg"  # the last blocks of the chain are replaced, and it grows


@dataclass(frozen=True)
class Incident:
    """Something that goes wrong at a time, for a time, for someone."""

    at: float
    kind: Kind
    victim: int
    seconds: float  # how long it lasts, or how far a clock jumps


@dataclass(frozen=True)
class Scenario:
    """Everything in a run, except for the seed of what happens during it."""

    seed: int
    subject: Subject
    front: Front
    sink: str
    chain: int
    head: int
    span: Span
    chunk_size: int
    batch_size: int
    order: str
    processes: int
    slots: int
    requests: int  # in flight, for each process and provider
    lease_seconds: float
    heartbeat_seconds: float
    poll_seconds: float
    providers: tuple[Provider, ...]
    disk: Disk
    incidents: tuple[Incident, ...]
    quiet_at: float  # seconds during which incidents may begin


FINAL = 64
"""How far below the head a block of the simulated network is final."""

CHAINS = 3
HEAD = 330


def drawn(seed: int, subject: Subject | None = None) -> Scenario:
    """The scenario of a seed, of its family or another one."""
    subject = subject or subject_of(seed)
    chance = Random(f"scenario {seed}")
    first = chance.choice((0, chance.randrange(0, 120)))
    span = Span(first, first + chance.randrange(20, 80))
    head = span.last + FINAL + chance.randrange(0, 10)
    front = Front.WORKERS if chance.random() < 0.7 else Front.FETCH
    slow = chance.random() < 0.35  # chunks outlast their lease many times
    horizon = chance.choice((40.0, 120.0) if slow else (15.0, 40.0, 120.0))
    return Scenario(
        seed=seed,
        subject=subject,
        front=front,
        sink="parquet" if chance.random() < 0.15 else "sqlite",
        chain=chance.randrange(CHAINS),
        head=min(head, HEAD),
        span=span,
        chunk_size=chance.choice((17, 40) if slow else (5, 10, 17, 40)),
        batch_size=chance.choice((2, 5) if slow else (2, 5, 9, 20)),
        order=chance.choice(("oldest", "oldest", "newest")),
        processes=chance.choice((1, 2, 2, 3)),
        slots=chance.choice((1, 2, 4)),
        requests=1 if slow else 4,
        lease_seconds=10.0 if slow else chance.choice((10.0, 20.0, 60.0)),
        heartbeat_seconds=chance.choice((2.0, 5.0, 10.0)),
        poll_seconds=chance.choice((1.0, 3.0)),
        providers=_providers(chance, subject, slow=slow),
        disk=disk_of(chance),
        incidents=incidents_of(chance, horizon),
        quiet_at=horizon * 1.5 + 10,
    )


def _providers(chance: Random, subject: Subject, *, slow: bool) -> tuple[Provider, ...]:
    return tuple(
        _provider(chance, subject, name, slow=slow)
        for name in ("alpha", "beta", "gamma")[: chance.choice((1, 2, 2, 3))]
    )


def _provider(chance: Random, subject: Subject, name: str, *, slow: bool) -> Provider:
    fastest = 1.0 if slow else chance.choice((0.005, 0.02, 0.2))
    slowest = fastest * (4 if slow else chance.choice((2, 10, 60)))
    limits = Limits(
        words=chance.choice(subject.words),
        max_batch=4 if slow else chance.choice((None, None, 4, 20)),
        rps=chance.choice((None, None, 30.0, 100.0)),
        metering=chance.choice(list(Metering)),
        missing=chance.choice((frozenset(), frozenset(), frozenset({subject.replaceable}))),
        finality_depth=FINAL,
    )
    return Provider(name, fastest, slowest, chance.choice(subject.faults), limits)


def disk_of(
    chance: Random, slowest: Sequence[float] = (0.01, 0.01, 0.3, 2.0, 8.0), rarity: float = 1
) -> Disk:
    """A disk, whose faults are `rarity` times rarer than usual, and pauses rarer still."""
    slow = chance.choice(slowest)
    faulty = chance.random() < 0.5
    return Disk(
        fastest=0.0005,
        slowest=slow,
        lost=chance.choice((0.0, 0.01, 0.03)) / rarity if faulty else 0.0,
        reply_lost=chance.choice((0.0, 0.01, 0.03)) / rarity if faulty else 0.0,
        crash_before=chance.choice((0.0, 0.005, 0.02)) / rarity if faulty else 0.0,
        crash_after=chance.choice((0.0, 0.005, 0.02)) / rarity if faulty else 0.0,
        pause=chance.choice((0.0, 0.0, 0.1, 0.3)) / rarity**1.5,
    )


_SECONDS = {
    Kind.CRASH: (0.1, 20.0),  # until it is restarted
    Kind.PAUSE: (1.0, 150.0),
    Kind.DRAIN: (0.1, 5.0),
    Kind.CLOCK: (1.0, 7200.0),
    Kind.CUT_OFF: (2.0, 90.0),
    Kind.LEDGER_LOCK: (0.5, 60.0),
    Kind.SINK_LOCK: (0.1, 90.0),
    Kind.OUTAGE: (1.0, 60.0),
    Kind.REORG: (1.0, 40.0),  # blocks below the head
}
_KINDS = (*Kind, Kind.CRASH, Kind.CRASH, Kind.PAUSE, Kind.PAUSE, Kind.CUT_OFF, Kind.CUT_OFF)


def incidents_of(
    chance: Random, horizon: float, kinds: Sequence[Kind] = _KINDS, most: int = 8
) -> tuple[Incident, ...]:
    """Incidents that begin within `horizon` seconds, most of them early."""
    found = []
    for _ in range(chance.randrange(0, most + 1)):
        kind = chance.choice(kinds)
        low, high = _SECONDS[kind]
        seconds = low * (high / low) ** chance.random()
        if kind is Kind.CLOCK and chance.random() < 0.5:
            seconds = -seconds
        found.append(Incident(horizon * chance.random() ** 2, kind, chance.randrange(8), seconds))
    return tuple(sorted(found, key=lambda each: each.at))
