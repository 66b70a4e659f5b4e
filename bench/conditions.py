"""How a node treats its clients, as the command line of `bench.node` is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Conditions:
    """What makes a node slow, stingy or unreliable; nothing does by default."""

    latency_ms: float = 0
    rps: float | None = None  # calls a second
    metered: bool = False  # a batch above what is left of `rps` is refused whole
    faults: str = ""  # as in the devnode
    per_call: bool = False  # a fault of one call fails its whole batch
    seed: int = 0  # of the faults

    @property
    def arguments(self) -> Sequence[str]:
        return (
            *("--latency-ms", str(self.latency_ms)),
            *(() if self.rps is None else ("--rps", str(self.rps))),
            *(("--metered",) if self.metered else ()),
            *("--faults", self.faults, "--seed", str(self.seed)),
            *(("--per-call",) if self.per_call else ()),
        )


ANSWERS_AT_ONCE = Conditions()
