"""How a stored table is described: columns, keys, indexes, and what its rows promise.

Each chain family describes its own tables in these terms; sinks, `verify` and `export` work from
the description alone. Three rules shape every table:

- A key is a position, never a hash or a node's counter: real chains repeat transaction hashes and
  log indices, but a position in a block is taken once. Every key begins with `chain_id` and
  `block_number`.
- The first table of a family, its *anchor*, has exactly one row per block. Blocks are linked by its
  `links`, and its `counts` say how many rows a block has in the other tables, so that a range can
  be proven complete without a ledger.
- `block_timestamp` is on every table, so that a range can be selected by time without a join.
- A *derived* table has no facts of its own: its rows of a block follow from the block's rows in
  other tables. So it inherits their proofs, it can be made from stored rows without a node, and it
  is stored only on request.

A 256-bit number is stored as 32 bytes, big-endian (so that bytes compare as numbers do), next to a
`<name>_f64` to calculate with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import NamedTuple

F64 = "_f64"


class Kind(Enum):
    """The logical type of a column: what a value is, and how many bytes it always has."""

    INT = "an unsigned number below 2^64", None
    U256 = "an unsigned 256-bit number", 32
    WORD = "32 bytes, big-endian", 32
    HASH = "a 32-byte hash", 32
    ADDRESS = "a 20-byte address", 20
    NONCE = "8 bytes", 8
    BLOOM = "a 256-byte bloom filter", 256
    BYTES = "bytes of any length", None
    FLOAT = "the nearest double", None
    BOOL = "true or false", None
    TEXT = "text", None
    JSON = "JSON text", None

    def __init__(self, meaning: str, width: int | None) -> None:
        self.meaning = meaning
        self.width = width

    @property
    def is_text(self) -> bool:
        return self in (Kind.TEXT, Kind.JSON)

    __hash__ = object.__hash__  # members are singletons; hashing by name is slower


@dataclass(frozen=True)
class Column:
    name: str
    kind: Kind
    nullable: bool
    doc: str

    @property
    def stored(self) -> tuple[Column, ...]:
        """The stored columns: a 256-bit number has a second, rounded one."""
        if self.kind is not Kind.U256:
            return (self,)
        rounded = Column(self.name + F64, Kind.FLOAT, self.nullable, f"`{self.name}`, rounded")
        return (self, rounded)


def must(kind: Kind, /, **docs: str) -> tuple[Column, ...]:
    """Columns of one kind that are never null, each with its documentation."""
    return tuple(Column(name, kind, False, doc) for name, doc in docs.items())


def may(kind: Kind, /, **docs: str) -> tuple[Column, ...]:
    """Columns of one kind that may be null, each with its documentation."""
    return tuple(Column(name, kind, True, doc) for name, doc in docs.items())


@dataclass(frozen=True)
class Index:
    """An index for common queries; `only` is the condition of a partial index."""

    name: str
    columns: tuple[str, ...]
    only: str | None = None


class Links(NamedTuple):
    """The columns by which one block names the block before it."""

    hash: str
    parent: str


_USUAL_LINKS = Links("hash", "parent_hash")


@dataclass(frozen=True, eq=False)
class Table:
    name: str
    doc: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...] = ()
    parents: tuple[Table, ...] = ()  # the nearest first; the last one is the anchor
    is_large: bool = False  # partitioned by height in databases that support it
    derived_from: tuple[Table, ...] = ()  # the tables that its rows follow from
    links: Links = _USUAL_LINKS  # of an anchor
    counts: Mapping[str, str] = field(default_factory=dict)
    """Of an anchor: by table, the column that says how many rows a block has there."""

    def __iter__(self) -> Iterator[Column]:
        """Every column as it is stored, in order."""
        return iter(self._stored)

    @cached_property
    def _stored(self) -> tuple[Column, ...]:
        return tuple(stored for column in self.columns for stored in column.stored)

    def __getitem__(self, name: str) -> Column:
        return next(column for column in self if column.name == name)

    @property
    def anchor(self) -> Table:
        """The table with one row for each block that rows of this table belong to."""
        return self.parents[-1] if self.parents else self


class Schema(Mapping[str, Table]):
    """All tables that a sink may hold, by name: those of every family, parents first."""

    def __init__(
        self, families: Sequence[Sequence[Table]], chain_name: Callable[[int], str] = str
    ) -> None:
        """`chain_name` gives a chain the name that a folder of files uses for it."""
        self._families = {tables[0].name: tuple(tables) for tables in families}
        self._tables = {table.name: table for tables in families for table in tables}
        self._order = {name: at for at, name in enumerate(self._tables)}
        self.chain_name = chain_name

    def __getitem__(self, name: str) -> Table:
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    @property
    def tables(self) -> tuple[Table, ...]:
        return tuple(self._tables.values())

    def order(self, name: str) -> int:
        """Returns the position of a table; an unknown one comes last."""
        return self._order.get(name, len(self._order))

    def is_anchor(self, name: str) -> bool:
        return name in self._families

    def anchor_of(self, names: Iterable[str]) -> Table:
        """Returns the anchor that these tables share; raises `ValueError` if there is none."""
        wanted = {*names}
        anchors = {self[name].anchor for name in wanted if name in self}
        if len(anchors) != 1 or not wanted <= self.keys():
            raise ValueError(f"{sorted(wanted)} are not tables of one chain family")
        return anchors.pop()

    def family_of(self, anchor: Table) -> tuple[Table, ...]:
        """The tables of a family, parents first."""
        return self._families[anchor.name]
