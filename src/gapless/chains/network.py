"""A network: who it is, how it settles, and what of its blocks can be proven.

A check is listed for a network only where its blocks were seen to pass it, or where its client is
known to keep it; a check that honest blocks would fail is worse than none. Some networks changed
over time, so the checks go by height. What a network's blocks cannot prove is recorded with the
stored range as unproven: nothing here makes a proof look stronger than it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gapless.core.anchors import Anchor

_NONE = frozenset[str]()


@dataclass(frozen=True, slots=True)
class Finality:
    """Which blocks will not change: by the node's tag where it has one, else by depth."""

    tag: str | None
    depth: int


@dataclass(frozen=True, slots=True)
class Era:
    """From `start` on, these checks hold."""

    start: int
    checks: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Network:
    """What every family says of each of its networks; a family may add facts of its own."""

    family: str
    name: str
    chain_id: int | None  # None: whatever the node says
    block_time: float  # seconds
    finality: Finality
    reorg_depth: int = 64
    eras: tuple[Era, ...] = field(default=(), repr=False)
    anchors: tuple[Anchor, ...] = field(default=(), repr=False)
    """Its genesis and later blocks, as far as their hashes are known; ascending."""
    aliases: tuple[str, ...] = ()
    variable: str | None = None
    """The environment variable that other tools read the URL of its node from, too."""
    caveats: tuple[str, ...] = ()
    """What cannot be proven for reasons that the eras do not show."""

    def checks_at(self, height: int) -> frozenset[str]:
        """The checks that an honest block at this height passes."""
        return next((era.checks for era in reversed(self.eras) if era.start <= height), _NONE)

    def required(self, checks: frozenset[str], height: int) -> frozenset[str]:
        """Which of the checks a block at this height must pass: those that the network supports."""
        return self.checks_at(height) & checks
