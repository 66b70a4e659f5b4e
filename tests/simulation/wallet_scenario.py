"""What happens to wallets while their chain is followed, drawn from one integer.

Wallets are added at several moments, together or one by one, in one group or two, while their
chain grows and is reorganised. With `scan`, everything that blocks show must be found, whatever
endpoints say. A search for events can only be as honest as the endpoint that answers it, so without
`scan` endpoints fail, but do not lie.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from gapless.devnode.evm.drafts import World
from tests.simulation.follow_scenario import FollowScenario, doubt_of, drawn_follow
from tests.simulation.scenario import Kind, disk_of, incidents_of
from tests.simulation.subjects import SUBJECTS

STEPS = 40
CHAIN_SEED = 300
ADDRESSES = World(CHAIN_SEED).wallets[:16]
_LIES = ("empty", "truncated", "wrong-block", "null", "stale-head", "gone")
_KINDS = tuple(each for each in Kind if each is not Kind.REORG)  # the chain has its own schedule


@dataclass(frozen=True)
class Addition:
    """Wallets that are added at a time."""

    at: float
    group: str
    addresses: tuple[str, ...]
    is_detached: bool


@dataclass(frozen=True)
class WalletScenario:
    """Everything in a run, except for the seed of what happens during it."""

    follow: FollowScenario
    additions: tuple[Addition, ...]
    workers: int
    scan: bool
    chunk_size: int
    batch_size: int

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """All wallets of each group."""
        found: dict[str, dict[str, None]] = {}
        for each in self.additions:
            found.setdefault(each.group, {}).update(dict.fromkeys(each.addresses))
        return {group: tuple(its) for group, its in found.items()}


def drawn_wallets(seed: int) -> WalletScenario:
    """The scenario of a seed."""
    chance, subject = Random(f"wallets {seed}"), SUBJECTS["evm"]
    scan = chance.random() < 0.75
    drawn = drawn_follow(seed, subject)
    providers = drawn.providers
    if not scan:
        faults = [it for it in subject.faults if not any(lie in it for lie in _LIES)]
        providers = tuple(replace(it, faults=chance.choice(faults)) for it in providers)
    depth = chance.choice((16, 32))
    longest_flap = doubt_of(depth) * drawn.step_seconds
    horizon = STEPS * drawn.step_seconds
    follow = replace(
        drawn,
        head=chance.randrange(60, 100),
        start=0,
        steps=STEPS,
        finality_depth=depth,
        reorgs=replace(drawn.reorgs, depth=min(drawn.reorgs.depth, depth // 2)),
        datasets=",".join(subject.datasets),
        followers=chance.choice((1, 1, 2)),
        providers=tuple(
            replace(
                it,
                limits=replace(it.limits, finality_depth=depth),
                visibility=replace(it.visibility, flap=min(it.visibility.flap, longest_flap)),
            )
            for it in providers
        ),
        disk=disk_of(chance, slowest=(0.01, 0.01, 0.3), rarity=4),
        incidents=incidents_of(chance, horizon, _KINDS, most=10),
    )
    return WalletScenario(
        follow=follow,
        additions=tuple(
            Addition(
                at=horizon * chance.random() ** 2,
                group=chance.choice(("ours", "ours", "theirs")),
                addresses=tuple(chance.sample(ADDRESSES, chance.choice((1, 2, 6)))),
                is_detached=chance.random() < 0.7,
            )
            for _ in range(chance.choice((1, 2, 3)))
        ),
        workers=chance.choice((1, 2, 2)),
        scan=scan,
        chunk_size=chance.choice((8, 20, 100)),
        batch_size=chance.choice((3, 10)),
    )
