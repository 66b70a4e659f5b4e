"""Values of statements that are put together from parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import TypeVar

T = TypeVar("T")

AT_ONCE = 400
"""How many values of one kind a statement has at most: databases limit their number."""


class Bindings:
    """The values of one statement; `mark` returns what stands for a value in its text."""

    def __init__(self, *values: object) -> None:
        self.values = list(values)

    def mark(self, value: object) -> str:
        self.values.append(value)
        return f"${len(self.values)}"

    def marks(self, values: Iterable[object]) -> str:
        return ", ".join(self.mark(value) for value in values)

    def one_of(self, values: Sequence[object]) -> str:
        """Return a list for `IN`. The last value is repeated up to a power of two.

        So there are few different statements, and a database that has prepared them all has few.
        """
        size = 1 << (len(values) - 1).bit_length()
        return self.marks((*values, *repeat(values[-1], size - len(values))))


def portions(values: Sequence[T], size: int = AT_ONCE) -> Iterator[Sequence[T]]:
    """Cut values into portions for one statement each."""
    return (values[at : at + size] for at in range(0, len(values), size))
