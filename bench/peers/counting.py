"""A tool's output compared with the chain: rows that are lost, and rows that are extra.

A row is identified by its key. Its other columns are not compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
from pyarrow import csv
from pyarrow import parquet as pq

from bench.peers.tools import TABLES, Output
from bench.rendered import Rendered

Key = tuple[int, ...]


class _Block(msgspec.Struct, gc=False):
    transactions: list[msgspec.Raw]


class _Receipt(msgspec.Struct, gc=False):
    logs: list[msgspec.Raw]


_block = msgspec.json.Decoder(_Block).decode
_receipts = msgspec.json.Decoder(list[_Receipt]).decode


@dataclass(frozen=True)
class Count:
    """Missing rows, and rows that are duplicated or do not belong there."""

    lost: int = 0
    doubled: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.lost + other.lost, self.doubled + other.doubled)


def truth(chain: Rendered, heights: range) -> dict[str, frozenset[Key]]:
    """The keys of all rows of these blocks, by table."""
    transactions = {at: len(_block(chain.blocks[at]).transactions) for at in heights}
    logs = {at: sum(len(each.logs) for each in _receipts(chain.receipts[at])) for at in heights}
    keys = (((at,) for at in heights), _places(transactions), _places(logs))
    return {table: frozenset(found) for table, found in zip(TABLES, keys, strict=True)}


def counted(
    folder: Path, outputs: Mapping[str, Output], wanted: Mapping[str, frozenset[Key]]
) -> dict[str, Count]:
    """What is lost and duplicated in each table."""
    return {
        table: compared(_keys(folder, output), wanted[table]) for table, output in outputs.items()
    }


def compared(keys: Iterable[Key], wanted: frozenset[Key]) -> Count:
    rows = list(keys)
    found = wanted.intersection(rows)
    return Count(lost=len(wanted) - len(found), doubled=len(rows) - len(found))


def _places(counts: Mapping[int, int]) -> Iterator[Key]:
    return ((height, at) for height, count in counts.items() for at in range(count))


def _keys(folder: Path, output: Output) -> Iterator[Key]:
    for path in sorted(folder.glob(output.files)):
        table = _read(path, output.key)
        yield from zip(*(table[name].to_pylist() for name in output.key), strict=True)


def _read(path: Path, columns: tuple[str, ...]) -> pa.Table:
    if path.suffix == ".parquet":
        return pq.ParquetFile(path).read(columns=list(columns))
    if path.stat().st_size == 0:  # a tool that ended before it wrote the header
        return pa.table({name: [] for name in columns})
    return csv.read_csv(path, convert_options=csv.ConvertOptions(include_columns=columns))
