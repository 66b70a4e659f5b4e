"""Batches of a real chain and of another branch of it, and what must be true of any sink."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

from gapless.chains.evm.decode.structs import parse_block, parse_receipts
from gapless.chains.evm.decode.tables import decode_blocks
from gapless.chains.evm.tables import BLOCKS
from gapless.core.ranges import RangeSet, Span
from gapless.devnode import Parameters, simulated
from gapless.schema.arrow import Tables, arrow_schema
from gapless.schema.digest import digest
from gapless.sinks import Batch, Request, Sink
from tests.evm import EVERY_TABLE, table, with_transfers

CHAIN_ID = 1337
HEAD = 40
FORK = 20  # from here on, the other branch has other blocks
EVERYTHING = tuple(each.name for each in EVERY_TABLE)
HEADERS = ("blocks",)
ALL = Span(0, 10**6)
PROVEN = frozenset({"link", "receipts_root"})
HEADERS_OF_TEN = Request(Span(0, 9), frozenset({"blocks"}))


@cache
def branches() -> tuple[Tables, Tables]:
    """All tables of the chain, and of the same chain after a reorganisation."""
    parameters = Parameters(blocks=HEAD, txs=4, fewest=0, seed=3, chain_id=CHAIN_ID)
    with tempfile.TemporaryDirectory() as folder:
        chain = simulated(parameters, Path(folder))
        found = []
        for _ in range(2):
            heights = range(HEAD + 1)
            blocks = [parse_block(chain.block(height)) for height in heights]
            receipts = [parse_receipts(chain.receipts(height)) for height in heights]
            found.append(with_transfers(decode_blocks(blocks, receipts, CHAIN_ID)))
            chain.reorg(FORK)
    return found[0], found[1]


def rows_of(name: str, span: Span, branch: int = 0) -> pa.Table:
    """The rows of a table in the chain."""
    return within(branches()[branch][name], span)


def within(rows: pa.Table, span: Span) -> pa.Table:
    heights = rows["block_number"].to_numpy()
    inside = (heights >= span.first) & (heights <= span.last)
    return rows.filter(pa.array(inside)).combine_chunks()


def batch(
    first: int,
    last: int,
    *,
    branch: int = 0,
    tables: Collection[str] = EVERYTHING,
    proven: frozenset[str] = PROVEN,
) -> Batch:
    """Blocks of the chain. Without logs or transfers, their number is unknown."""
    span = Span(first, last)
    found = {name: rows_of(name, span, branch) for name in tables}
    for name, column in (("logs", "log_count"), ("transfers", "transfer_count")):
        if name not in tables:
            found["blocks"] = with_column(found["blocks"], column, None)
    return Batch(CHAIN_ID, span, Tables(found), proven, frozenset({"prices"}))


def with_column(rows: pa.Table, name: str, value: object) -> pa.Table:
    """The rows with one value throughout a column."""
    at = rows.schema.get_field_index(name)
    array = pa.array([value] * rows.num_rows, rows.schema.field(at).type)
    return rows.set_column(at, rows.schema.field(at), array)


def snapshot(folder: Path) -> dict[str, tuple[int, ...]]:
    """Changes whenever a file or folder below the path changes."""
    looks = {str(it.relative_to(folder)): it.stat() for it in [folder, *folder.rglob("*")]}
    return {
        name: (it.st_ino, it.st_mode, it.st_size, it.st_mtime_ns, it.st_ctime_ns)
        for name, it in looks.items()
    }


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Mounts a folder over itself, read-only: permissions do not stop root from writing."""
    bind = ["mount", "--bind", str(folder), str(folder)]
    if subprocess.run(bind, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a folder read-only")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def listed(folder: Path) -> list[str]:
    return sorted(it.name for it in folder.iterdir())


async def held(sink: Sink, name: str, span: Span = ALL) -> pa.Table:
    return await sink.read(table(name), CHAIN_ID, span)


async def ranges(sink: Sink, name: str = "blocks") -> list[tuple[int, int, int]]:
    """First, last and fence of the stored ranges of a table."""
    return [(*it.span, it.fence) for it in await sink.stored(CHAIN_ID) if it.dataset == name]


async def examine(sink: Sink) -> None:
    """Rows and records agree, blocks are linked, and every row has a record."""
    there = {each.name: await held(sink, each.name) for each in EVERY_TABLE}
    covered = {each.name: RangeSet() for each in EVERY_TABLE}
    expired = {each.name: RangeSet() for each in EVERY_TABLE}
    for record in await sink.stored(CHAIN_ID):
        assert not (covered[record.dataset] | expired[record.dataset]) & RangeSet.of(record.span)
        if record.expired:
            assert (record.rows, record.digest) == (0, 0)
            expired[record.dataset] |= RangeSet.of(record.span)
            continue
        rows = within(there[record.dataset], record.span)
        assert rows.num_rows == record.rows
        assert digest(table(record.dataset), rows) == record.digest
        blocks = within(there["blocks"], record.span)
        assert blocks["block_number"].to_pylist() == [*range(record.span[0], record.span[1] + 1)]
        assert blocks["parent_hash"][0].as_py() == record.parent_hash
        assert blocks["hash"][-1].as_py() == record.last_hash
        covered[record.dataset] |= RangeSet.of(record.span)
    for each in EVERY_TABLE:
        rows = there[each.name]
        assert rows.schema.equals(arrow_schema(each))
        assert set(rows["block_number"].to_pylist()) <= set(covered[each.name])
        keys = [*zip(*(rows[name].to_pylist() for name in each.key), strict=True)]
        assert keys == sorted(set(keys))
        assert not covered[each.name] - covered[BLOCKS.name]
        assert not expired[each.name] - expired[BLOCKS.name]
    columns = (
        there["blocks"][name].to_pylist() for name in ("block_number", "hash", "parent_hash")
    )
    hashes = {height: (hash_, parent) for height, hash_, parent in zip(*columns, strict=True)}
    for height, (hash_, _) in hashes.items():
        assert hashes.get(height + 1, (None, hash_))[1] == hash_
