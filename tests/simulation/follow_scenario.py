"""What happens while a chain is followed, drawn from one integer.

The chain grows by more than 300 blocks, with reorganisations of one block up to the depth of
finality, while one to three processes follow it. Each endpoint sees the chain in its own way, and
some of them lie. Then the chain stands still and all incidents end.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from gapless.devnode import Limits, Metering, ReorgSchedule, Visibility
from tests.simulation.machine import Disk
from tests.simulation.network import Provider
from tests.simulation.scenario import Incident, Kind, disk_of, incidents_of
from tests.simulation.subjects import Subject, subject_of


@dataclass(frozen=True)
class FollowScenario:
    """Everything in a run, except for the seed of what happens during it."""

    seed: int
    subject: Subject
    chain: int
    head: int  # when it begins
    start: int | None  # the first block to store; None: the next one
    steps: int  # of the chain: new blocks, or reorganisations
    step_seconds: float
    finality_depth: int
    reorgs: ReorgSchedule
    datasets: str
    followers: int
    slots: dict[str, int]
    chunk_size: int
    requests: int
    heartbeat_seconds: float
    poll_seconds: float
    providers: tuple[Provider, ...]
    disk: Disk
    incidents: tuple[Incident, ...]


FOLLOW_CHAINS = 2
STEPS = 330
_SHORTER = 2  # blocks: short branches lower the head before the next reorganisation
_MARGIN = 6  # blocks: an old head may be cached, and the highest head be above the present one
_KINDS = (
    *(each for each in Kind if each is not Kind.REORG),  # the chain has its own schedule
    *(Kind.CRASH, Kind.CRASH, Kind.PAUSE, Kind.PAUSE, Kind.CUT_OFF, Kind.LEDGER_LOCK),
)


def doubt_of(finality_depth: int) -> int:
    """The blocks for which endpoints may serve a former branch; longer, and it would be final."""
    return finality_depth // 4


def drawn_follow(seed: int, subject: Subject | None = None) -> FollowScenario:
    """The scenario of a seed, of its family or another one."""
    subject = subject or subject_of(seed)
    deepest = subject.network.reorg_depth - _SHORTER
    chance = Random(f"follow {seed}")
    head = chance.randrange(20, 120)
    finality_depth = chance.choice((16, 32, 64, 96))
    doubt = doubt_of(finality_depth)
    step_seconds = chance.choice((1.0, 1.0, 1.0, 2.0))
    return FollowScenario(
        seed=seed,
        subject=subject,
        chain=chance.randrange(FOLLOW_CHAINS),
        head=head,
        start=chance.choice((0, chance.randrange(0, head), None)),
        steps=STEPS,
        step_seconds=step_seconds,
        finality_depth=finality_depth,
        reorgs=_reorgs(chance, seed, min(deepest, finality_depth - doubt - _MARGIN)),
        datasets=",".join(subject.datasets) if chance.random() < 0.15 else subject.anchor,
        followers=chance.choice((1, 2, 2, 3)),
        slots={"priority": 1, "backlog": chance.choice((1, 3))},
        chunk_size=chance.choice((10, 40)),
        requests=4,
        heartbeat_seconds=chance.choice((5.0, 10.0)),
        poll_seconds=chance.choice((1.0, 3.0, 3.0)),
        providers=_providers(chance, subject, finality_depth, step_seconds, doubt * step_seconds),
        disk=disk_of(chance, slowest=(0.01, 0.01, 0.3), rarity=16),
        incidents=incidents_of(chance, STEPS * step_seconds, _KINDS, most=12),
    )


def _reorgs(chance: Random, seed: int, deepest: int) -> ReorgSchedule:
    """Many shallow ones, or a few deep ones."""
    if chance.random() < 0.7:
        return ReorgSchedule(chance.choice((6, 12, 30)), chance.choice((1, 3)), seed)
    return ReorgSchedule(80, deepest, seed)


def _providers(
    chance: Random,
    subject: Subject,
    finality_depth: int,
    step_seconds: float,
    longest_flap: float,
) -> tuple[Provider, ...]:
    return tuple(
        _provider(chance, subject, name, finality_depth, step_seconds, longest_flap)
        for name in ("alpha", "beta", "gamma")[: chance.choice((1, 2, 2, 3))]
    )


def _provider(
    chance: Random,
    subject: Subject,
    name: str,
    finality_depth: int,
    step_seconds: float,
    longest_flap: float,
) -> Provider:
    fastest = chance.choice((0.005, 0.01, 0.02))
    slowest = fastest * chance.choice((2, 10, 20))
    limits = Limits(
        words=chance.choice(subject.words),
        max_batch=chance.choice((None, None, 20)),
        rps=chance.choice((None, None, 100.0)),
        metering=chance.choice(list(Metering)),
        finality_depth=finality_depth,
    )
    visibility = Visibility(
        lag=chance.choice((0, 0, 0, 1, 5)),
        cache=step_seconds * chance.choice((0, 0, 0, 1, 4)),
        flap=longest_flap * chance.choice((0.0, 0.0, 0.5, 1.0)),
        null=step_seconds * chance.choice((0.0, 0.0, 0.3, 0.6)),
    )
    return Provider(name, fastest, slowest, chance.choice(subject.faults), limits, visibility)
