"""Rows of figures, some of them with a bound, and the table that shows them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Bound:
    """What a figure must meet: at least, or at most, a limit."""

    limit: float
    at_most: bool = False

    def holds(self, value: float) -> bool:
        return value <= self.limit if self.at_most else value >= self.limit

    def __str__(self) -> str:
        return f"{'<=' if self.at_most else '>='} {self.limit:g}"


def at_least(limit: float) -> Bound:
    return Bound(limit)


def at_most(limit: float) -> Bound:
    return Bound(limit, at_most=True)


@dataclass(frozen=True)
class Row:
    """One line of the table: a figure as text, and the number that a bound applies to."""

    name: str
    figure: str
    ratio: float | None = None
    bound: Bound | None = None

    @property
    def ok(self) -> bool:
        return self.bound is None or (self.ratio is not None and self.bound.holds(self.ratio))

    @property
    def cells(self) -> tuple[str, ...]:
        ratio = "" if self.ratio is None else f"{self.ratio:.3g}"
        verdict = "" if self.bound is None else "ok" if self.ok else "FAIL"
        return self.name, self.figure, ratio, str(self.bound or ""), verdict


HEAD = ("measurement", "figure", "ratio", "bound", "")
WIDTHS = (58, 30, 8, 9, 4)


def line(cells: Sequence[str]) -> str:
    name, *others = (cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True))
    return "  ".join((name, *others)).rstrip()


def head() -> str:
    return f"{line(HEAD)}\n{line(tuple('-' * width for width in WIDTHS))}"


def per_second(rate: float) -> str:
    return f"{rate / 1000:.1f} k/s" if rate >= 1000 else f"{rate:.0f} /s"


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the ratios of the rounds, each from one moment."""
    return median(mine / other for mine, other in zip(ours, theirs, strict=True))
