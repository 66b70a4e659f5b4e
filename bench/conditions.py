"""How a node treats its clients, as options of `bench.node`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Conditions:
    """What makes a node slow, limited or unreliable; by default, nothing does."""

    latency_ms: float = 0
    rps: float | None = None  # calls per second
    metered: bool = False  # a batch above what is left of `rps` is refused as a whole
    faults: str = ""  # as in the devnode
    per_call: bool = False  # a faulty call fails its whole batch
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
