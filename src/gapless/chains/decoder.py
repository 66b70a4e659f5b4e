"""Which program turns the answers of a family's nodes into rows.

A family may have a compiled core. It is optional and gives the same rows, proofs and refusals as
Python, so nothing but speed depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Decoder:
    """What runs when a family reads answers."""

    name: str
    is_parallel: bool = False
    """Whether it computes without Python's lock, so that several threads read at once."""
    unused_core: str | None = None
    """Why it is not the compiled core, if the family has one."""

    def __str__(self) -> str:
        return self.name if self.unused_core is None else f"{self.name} ({self.unused_core})"


PYTHON = Decoder("Python")
