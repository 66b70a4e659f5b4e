"""What happens to wallets while their chain is followed, drawn from one integer.

Wallets are added at several moments, together or one by one, in one group or two, in each way to
look for movements, while their chain grows and is reorganised. If all are added with `scan`,
everything that blocks show must be found, whatever endpoints say. Events, balances and traces can
only be as honest as the endpoint that tells of them, so otherwise endpoints fail, but do not lie.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from gapless.devnode.evm.drafts import World
from gapless.wallets.ways import Way
from tests.simulation.follow_scenario import FollowScenario, doubt_of, drawn_follow
from tests.simulation.network import Provider
from tests.simulation.scenario import Kind, disk_of, incidents_of
from tests.simulation.subjects import SUBJECTS

STEPS = 40
CHAIN_SEED = 300
_CHOSEN = (0, 1, 2, 3, 11, 13, 14, 22, 78, 237, 254)
ADDRESSES = [World(CHAIN_SEED).wallets[at] for at in _CHOSEN]
"""Calls within transactions pay most of them. One has signed nothing, and one is a contract."""
_SEARCHED_FIRST = 45  # blocks: more than any node is behind, and than are not final
LISTED = "base-goerli"
"""A network on which only signatures spend, so that balances and nonces show where coins moved."""
_WAYS = ((Way.SCAN,), (Way.SCAN,), (Way.EVENTS,), (Way.EVENTS, Way.TRACES), tuple(Way))
_LIES = ("empty", "truncated", "wrong-block", "null", "stale-head", "gone")
_KINDS = tuple(each for each in Kind if each is not Kind.REORG)  # the chain has its own schedule


@dataclass(frozen=True)
class Addition:
    """Wallets that are added at a time."""

    at: float
    group: str
    addresses: tuple[str, ...]
    is_detached: bool
    way: Way


@dataclass(frozen=True)
class WalletScenario:
    """Everything in a run, except for the seed of what happens during it."""

    follow: FollowScenario
    additions: tuple[Addition, ...]
    workers: int
    chunk_size: int
    batch_size: int

    @property
    def is_scanned(self) -> bool:
        """Whether every block is read, and nothing else."""
        return all(each.way is Way.SCAN for each in self.additions)

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """All wallets of each group."""
        found: dict[str, dict[str, None]] = {}
        for each in self.additions:
            found.setdefault(each.group, {}).update(dict.fromkeys(each.addresses))
        return {group: tuple(its) for group, its in found.items()}


def drawn_wallets(seed: int) -> WalletScenario:
    """The scenario of a seed."""
    chance = Random(f"wallets {seed}")
    subject = replace(SUBJECTS["evm"], listed=chance.choice(("", LISTED)))
    ways = chance.choice(_WAYS)
    drawn = drawn_follow(seed, subject)
    providers = drawn.providers
    if ways != (Way.SCAN,):
        faults = [it for it in subject.faults if not any(lie in it for lie in _LIES)]
        providers = tuple(replace(it, faults=chance.choice(faults)) for it in providers)
        providers = _with_state(chance, providers)
    depth = chance.choice((16, 32))
    longest_flap = doubt_of(depth) * drawn.step_seconds
    horizon = STEPS * drawn.step_seconds
    head = chance.randrange(60, 100)
    follow = replace(
        drawn,
        head=head,
        start=chance.choice((0, head - _SEARCHED_FIRST)),
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
                way=chance.choice(ways),
            )
            for _ in range(chance.choice((1, 2, 3)))
        ),
        workers=chance.choice((1, 2, 2, 3, 4)),
        chunk_size=chance.choice((8, 20, 100)),
        batch_size=chance.choice((3, 10)),
    )


def _with_state(chance: Random, providers: tuple[Provider, ...]) -> tuple[Provider, ...]:
    """Providers of which some remember accounts, and some trace: the first one always does."""
    return tuple(
        replace(
            it,
            limits=replace(
                it.limits,
                traces=it is providers[0] or chance.random() < 0.5,
                state_blocks=chance.choice((None, None, 60, 5)),
            ),
        )
        for it in providers
    )
