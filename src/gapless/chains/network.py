"""A network: its identity, its finality, and what its blocks can prove.

A check is listed for a network only if its blocks were seen to pass it, or if its client is known
to guarantee it; a check that honest blocks fail is worse than none. Some networks changed over
time, so the checks depend on the height. What a network's blocks cannot prove is recorded with the
stored range as unproven, so that no proof looks stronger than it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gapless.core.anchors import Anchor

_NONE = frozenset[str]()


@dataclass(frozen=True, slots=True)
class Finality:
    """Which blocks are final: by the node's tag if it has one, otherwise by depth."""

    tag: str | None
    depth: int


@dataclass(frozen=True, slots=True)
class Era:
    """The checks that honest blocks pass from height `start` on."""

    start: int
    checks: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Network:
    """The facts about a network that all families share; a family may add its own."""

    family: str
    name: str
    chain_id: int | None  # None: the one that the node reports
    block_time: float  # seconds
    finality: Finality
    reorg_depth: int = 64
    eras: tuple[Era, ...] = field(default=(), repr=False)
    anchors: tuple[Anchor, ...] = field(default=(), repr=False)
    """Its genesis and later blocks with known hashes, ascending."""
    aliases: tuple[str, ...] = ()
    variable: str | None = None
    """The environment variable from which other tools also read the URL of its node."""
    caveats: tuple[str, ...] = ()
    """What cannot be proven, for reasons that the eras do not cover."""

    def checks_at(self, height: int) -> frozenset[str]:
        """Return the checks that an honest block at this height passes."""
        return next((era.checks for era in reversed(self.eras) if era.start <= height), _NONE)

    def required(self, checks: frozenset[str], height: int) -> frozenset[str]:
        """Return the checks that a block at this height must pass: those the network supports."""
        return self.checks_at(height) & checks
