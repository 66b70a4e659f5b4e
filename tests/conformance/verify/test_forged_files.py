"""Changes to the files of a Parquet sink, or to the manifest that lists them, are detected."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless.chains.evm.tables import BLOCKS, LOGS, TRANSACTIONS
from gapless.chains.opening import open_sink
from gapless.core.ranges import RangeSet, Span
from gapless.schema.arrow import Tables
from gapless.sinks import Batch
from tests.conformance.sink.stage import with_column, within
from tests.conformance.verify.places import ParquetPlace
from tests.conformance.verify.signed import CHAIN_ID, FIRST, signed_chain
from tests.conformance.verify.stage import FENCE, fill, look
from tests.evm import EVERY_TABLE

CHAIN = signed_chain(24)
LOWER, UPPER = Span(FIRST, FIRST + 11), Span(FIRST + 12, FIRST + 23)
NAMES = [each.name for each in EVERY_TABLE]


@pytest.fixture
async def whole(folder: ParquetPlace) -> ParquetPlace:
    """Two files of each table."""
    await fill(folder, {name: within(CHAIN[name], LOWER) for name in NAMES})
    await _append(folder)
    assert (await look(folder)).complete
    return folder


async def _append(place: ParquetPlace) -> None:
    rows = Tables({name: within(CHAIN[name], UPPER) for name in NAMES})
    async with await open_sink(place.target) as sink:
        (before, *_) = await sink.stored(CHAIN_ID)
        await sink.write(Batch(CHAIN_ID, UPPER, rows, before.proven), FENCE)


def path_of(place: ParquetPlace, name: str, span: Span = LOWER) -> Path:
    return next(path for it, path in place.files().items() if (it.dataset, it.span) == (name, span))


def deleted(place: ParquetPlace, name: str) -> None:
    path_of(place, name).unlink()


def truncated(place: ParquetPlace, name: str) -> None:
    path = path_of(place, name)
    path.write_bytes(path.read_bytes()[:-100])


def emptied(place: ParquetPlace, name: str) -> None:
    path_of(place, name).write_bytes(b"")


def flipped(place: ParquetPlace, name: str) -> None:
    """One bit among the rows, where the footer does not show it."""
    path = path_of(place, name)
    data = bytearray(path.read_bytes())
    data[len(data) // 4] ^= 1
    path.write_bytes(data)


def of_another_table(place: ParquetPlace, name: str) -> None:
    other = NAMES[(NAMES.index(name) + 1) % len(NAMES)]
    shutil.copy(path_of(place, other), path_of(place, name))


def of_other_blocks(place: ParquetPlace, name: str) -> None:
    shutil.copy(path_of(place, name, UPPER), path_of(place, name))


def of_another_schema(place: ParquetPlace, name: str) -> None:
    path = path_of(place, name)
    rows = pq.read_table(path)
    pq.write_table(rows.set_column(0, "chain_id", rows["chain_id"].cast(pa.string())), path)


def with_a_column(place: ParquetPlace, name: str) -> None:
    path = path_of(place, name)
    rows = pq.read_table(path)
    pq.write_table(rows.append_column("forged", rows["chain_id"]), path)


def without_a_column(place: ParquetPlace, name: str) -> None:
    """A nullable one, as missing in a file of an older version."""
    path = path_of(place, name)
    lacking = {BLOCKS.name: "withdrawals_root", TRANSACTIONS.name: "value", LOGS.name: "topic1"}
    rows = pq.read_table(path)
    pq.write_table(rows.drop_columns([lacking.get(name, "chain_id")]), path)


def reversed_rows(place: ParquetPlace, name: str) -> None:
    path = path_of(place, name)
    rows = pq.read_table(path)
    pq.write_table(rows.take([*range(rows.num_rows)][::-1]), path)


def beyond_its_range(place: ParquetPlace, name: str) -> None:
    """A row of a distant block, which the file's own range does not show."""
    path = path_of(place, name)
    rows = pq.read_table(path)
    pq.write_table(
        pa.concat_tables([rows, with_column(rows.slice(0, 1), "block_number", 2**40)]), path
    )
    _change_entries(place, name, rows=rows.num_rows + 1)


def stray(place: ParquetPlace, name: str) -> None:
    path = path_of(place, name)
    shutil.copy(path, path.with_name(f"{FIRST}-{FIRST + 11}.99.parquet"))


def stray_by_any_name(place: ParquetPlace, name: str) -> None:
    path = path_of(place, name)
    shutil.copy(path, path.with_name("more.parquet"))


def unlisted(place: ParquetPlace, name: str) -> None:
    chain = place.chain
    cells = {
        cell: tuple(it for it in entries if (it.dataset, it.span) != (name, LOWER))
        for cell, entries in chain.cells.items()
    }
    place.rewrite(msgspec.structs.replace(chain, cells=cells, requests=()))


def other_rows(place: ParquetPlace, name: str) -> None:
    _change_entries(place, name, rows=7)


def other_digest(place: ParquetPlace, name: str) -> None:
    _change_entries(place, name, digest="07" * 32)


def _change_entries(place: ParquetPlace, name: str, **fields: object) -> None:
    chain = place.chain
    cells = {
        cell: tuple(
            msgspec.structs.replace(it, **fields) if (it.dataset, it.span) == (name, LOWER) else it
            for it in entries
        )
        for cell, entries in chain.cells.items()
    }
    place.rewrite(msgspec.structs.replace(chain, cells=cells))


CHANGES: list[Callable[[ParquetPlace, str], None]] = [
    *(deleted, truncated, emptied, flipped, of_another_table, of_other_blocks, of_another_schema),
    *(with_a_column, without_a_column, reversed_rows, beyond_its_range, stray, stray_by_any_name),
    *(unlisted, other_rows, other_digest),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda it: it.__name__)
async def test_a_changed_file_is_detected(
    whole: ParquetPlace, tmp_path: Path, change: Callable[[ParquetPlace, str], None]
) -> None:
    copied = tmp_path / "honest"
    shutil.copytree(whole.folder, copied)
    for name in NAMES:
        change(whole, name)
        report = await look(whole)
        assert not report.complete
        assert name in {it.dataset for it in report.findings}
        shutil.rmtree(whole.folder)
        shutil.copytree(copied, whole.folder)


async def test_a_restored_manifest_is_detected(folder: ParquetPlace) -> None:
    """It does not list the files that were written after it."""
    await fill(folder, {name: within(CHAIN[name], LOWER) for name in NAMES})
    before = folder.manifest.read_bytes()
    await _append(folder)
    folder.restore(before)
    report = await look(folder)
    assert {(it.check, it.dataset) for it in report.findings} == {("stray", it) for it in NAMES}
    assert RangeSet(it.span for it in report.findings) == RangeSet.of(UPPER)
