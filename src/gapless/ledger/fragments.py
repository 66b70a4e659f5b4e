"""Pieces of SQL that follow from definitions in Python.

What the bounds of a chunk are, what an event holds and what its idempotency key is, is defined in
`gapless.core`; which columns a row has, in `gapless.ledger.rows`. No `.sql` file repeats any of it:
both dialects take it from here, by reference.

| in a statement   | stands for                                                                |
|------------------|---------------------------------------------------------------------------|
| `@Candidate`     | the columns of the row `Candidate`                                        |
| `@b.Candidate`   | the same columns, of the table `b`                                        |
| `@:NewBackfill`  | a parameter for each column                                               |
| `@Beat(items)`   | a query for the rows that the parameter `:items` holds, as JSON objects   |
| `@chunk_first`   | a definition of the core, for the chunk `n` of the backfill `b`; likewise |
|                  | `@chunk_last` and `@chunk_rank`                                           |
| `@planned_event` | the columns of `NewEvent`, from those of the chunk; likewise              |
|                  | `@completed_event`                                                        |
| `@compacted_key` | the idempotency key of that event; likewise `@folded_key`                 |
| `@chunk_events`  | the types of the events of chunks; `@event_chunk`, the chunk of such one  |

The definitions are not translated by hand: the core's own functions run on expressions instead of
numbers, and its events are made with a marker in the place of each value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

import msgspec

from gapless.core.chunk import Status, bounds, rank
from gapless.core.events import (
    BackfillChunkPlanned,
    BackfillCompacted,
    BackfillFolded,
    ChunkEnded,
    Codec,
    Event,
)
from gapless.ledger.records import Attempt
from gapless.ledger.rows import backfill, chunk, event, follow, queue, wallet, worker
from gapless.ledger.rows.event import NewEvent

_REFERENCE = re.compile(r"(:|\w+\.)?([A-Z]\w+)(?:\((\w+)\))?")
_BACKFILL_ID = "<backfill_id>"
_FIRST_MARKER = 10**15

ROWS: Mapping[str, type] = {
    name: kind
    for module in (backfill, chunk, event, follow, queue, wallet, worker)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
} | {"Attempt": Attempt}


@dataclass(frozen=True)
class Expression:
    """SQL that stands for a number: computing with it writes down the computation."""

    text: str

    def __add__(self, other: Expression | int) -> Expression:
        return Expression(f"({self} + {other})")

    def __sub__(self, other: Expression | int) -> Expression:
        return Expression(f"({self} - {other})")

    def __mul__(self, other: Expression | int) -> Expression:
        return Expression(f"({self} * {other})")

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Dialect:
    """Where one dialect of SQL differs from the other."""

    now: str  # the clock
    least: str  # the function that gives the smaller of two numbers
    items: Callable[[str, Mapping[str, type]], str]
    """A query for the rows that a parameter holds as JSON, by the names and types of columns."""
    field: Callable[[str, str], str]
    """An integer in a column of JSON objects, by the names of the column and of the field."""

    def parts(self) -> dict[str, str]:
        """The definitions of the core, under the names that statements refer to."""

        def least(one: Expression, other: Expression) -> Expression:
            return Expression(f"{self.least}({one}, {other})")

        n = Expression("n")
        first, last = bounds(n, Expression("b.partitions"), Expression("b.chunk_size"), least)
        return {
            "now": self.now,
            "chunk_first": str(first),
            "chunk_last": str(last),
            "chunk_rank": str(rank(n, Expression(":direction"))),
            "planned_event": _event(BackfillChunkPlanned, "chunk_index", "first", "last"),
            "completed_event": _event(ChunkEnded, "chunk_index", status=Status.COMPLETE),
            "compacted_key": _key(BackfillCompacted),
            "folded_key": _key(BackfillFolded),
            "event_chunk": self.field("payload", Codec.CHUNK_FIELD),
            "chunk_events": ", ".join(map(_quoted, Codec.CHUNK_TYPES)),
        }

    def columns(self, reference: str) -> str:
        """What a reference to a row stands for; raises a KeyError if there is no such row."""
        match = _REFERENCE.fullmatch(reference)
        if match is None:
            raise KeyError(reference)
        prefix, name, parameter = match.groups()
        kind = ROWS[name]
        if parameter is not None:
            return self.items(parameter, _types(kind))
        return ", ".join(f"{prefix or ''}{column}" for column in columns(kind))


def _columns(kind: type) -> tuple[str, ...]:
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    assert is_dataclass(kind)
    return tuple(each.name for each in fields(kind))


columns: Callable[[type], tuple[str, ...]] = cache(_columns)
"""The names of the columns that a class of rows has, in order."""


def _types(kind: type) -> dict[str, type]:
    hints = get_type_hints(kind)
    return {name: (get_args(hints[name]) or (hints[name],))[0] for name in columns(kind)}


def _event(kind: type[Event], *chunk_columns: str, **fixed: Any) -> str:
    """SQL for the columns of an event, in which the given fields are columns of a chunk."""
    markers = {name: _FIRST_MARKER + at for at, name in enumerate(chunk_columns)}
    made = NewEvent.of(kind(_BACKFILL_ID, **markers, **fixed))
    marked = {_BACKFILL_ID: "backfill_id"} | {str(at): name for name, at in markers.items()}
    return ", ".join(_joined(getattr(made, name), marked) for name in columns(NewEvent))


def _key(kind: type[Event]) -> str:
    """SQL for an idempotency key that depends on the backfill alone."""
    others = {name: None for name in columns(kind) if name != "backfill_id"}
    made: Event = kind(_BACKFILL_ID, **others)
    return _joined(made.idempotency_key, {_BACKFILL_ID: "b.id"})


def _joined(text: str, marked: Mapping[str, str]) -> str:
    """SQL for a text in which each marker stands for the value of a column."""
    pieces = re.split(f"({'|'.join(map(re.escape, marked))})", text)
    return " || ".join(marked.get(piece) or _quoted(piece) for piece in pieces if piece)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
