"""Everything that is wrong with stored rows is found, and nothing else is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless.chains import network_of_chain
from gapless.chains.opening import open_sink
from gapless.core.ranges import RangeSet, Span
from gapless.schema.digest import digest
from gapless.sinks import Access, Request, Sink
from gapless.verification import Finding, Report, Verification, check
from gapless.verification import deep as deep_look
from tests.conformance.sink.stage import CHAIN_ID, EVERYTHING, FORK, HEADERS, PROVEN, batch, rows_of
from tests.evm import EVERY_TABLE, table


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes blocks meet at window boundaries, as in a long chain."""
    monkeypatch.setattr(check, "_WINDOW", 7)
    monkeypatch.setattr(deep_look, "_WINDOW", 4)
    monkeypatch.setattr(deep_look, "_PROOF_WINDOW", 3)


def looking(sink: Any, *, deep: bool = False, **known: Any) -> Verification:
    anchors = known.get("anchors", {})
    return Verification(sink, CHAIN_ID, network_of_chain(CHAIN_ID), anchors, deep)


async def report_of(sink: Sink, span: Span | None = None, *, deep: bool = False) -> Report:
    found = await looking(sink, deep=deep).report(span)
    assert found is not None
    return found


@pytest.mark.parametrize("deep", [False, True])
async def test_stored_rows_are_complete(sink: Sink, deep: bool) -> None:
    await sink.write(batch(3, 12), 5)
    await sink.write(batch(13, 30), 6)
    await sink.write(batch(10, 15), 7)
    report = await report_of(sink, deep=deep)
    assert report.complete
    assert (report.span, report.deep) == ((3, 30), deep)
    for each in report.coverage:
        assert each.heights == RangeSet.of((3, 30))
        assert each.rows == rows_of(each.dataset, Span(3, 30)).num_rows
        assert set(each.proven) == PROVEN
        assert each.unproven == {"prices": RangeSet.of((3, 30))}
    part = await report_of(sink, Span(9, 11), deep=deep)
    assert part.complete
    assert part.span == (9, 11)
    assert [each.rows for each in part.coverage] == [
        rows_of(each.dataset, part.span).num_rows for each in part.coverage
    ]


async def test_a_deep_verification_reports_every_row_that_it_reads(sink: Sink) -> None:
    await sink.write(batch(3, 30), 5)
    read: list[int] = []
    network = network_of_chain(CHAIN_ID)
    await Verification(sink, CHAIN_ID, network, {}, deep=True, progress=read.append).report()
    assert len(read) > 1
    assert sum(read) == sum(rows_of(each.name, Span(3, 30)).num_rows for each in EVERY_TABLE)


async def test_gaps_are_named(sink: Sink) -> None:
    await sink.write(batch(3, 30), 5)
    await sink.retract(CHAIN_ID, Span(10, 12), 6)
    await sink.retract(CHAIN_ID, Span(20, 20), 6)
    report = await report_of(sink)
    assert not report.complete
    assert report.findings == ()
    assert report.gaps == RangeSet.of((10, 12), (20, 20))
    beyond = await report_of(sink, Span(0, 40))
    assert beyond.gaps == RangeSet.of((0, 2), (10, 12), (20, 20), (31, 40))
    part = await report_of(sink, Span(11, 20))
    assert part.gaps == RangeSet.of((11, 12), (20, 20))


async def test_headers_may_extend_further_than_other_tables(sink: Sink) -> None:
    await sink.write(batch(0, 30, tables=HEADERS), 5)
    await sink.write(batch(10, 12), 6)
    await sink.write(batch(16, 20), 6)
    report = await report_of(sink)
    assert {each.dataset: each.gaps for each in report.coverage} == {
        "blocks": RangeSet(),
        **dict.fromkeys(EVERYTHING[1:], RangeSet.of((13, 15))),
    }
    asked = await report_of(sink, Span(8, 12))  # an explicit range must be complete
    assert asked.gaps == RangeSet.of((8, 9))


@pytest.mark.parametrize("span", [None, Span(5, 25)])
async def test_headers_beyond_the_requests_of_other_tables_are_not_a_gap(
    sink: Sink, span: Span | None
) -> None:
    await sink.request(CHAIN_ID, Request(Span(0, 30), frozenset(HEADERS)))
    await sink.request(CHAIN_ID, Request(Span(10, 20), frozenset(it.name for it in EVERY_TABLE)))
    await sink.write(batch(0, 30, tables=HEADERS), 5)
    await sink.write(batch(10, 20), 6)
    assert (await report_of(sink, span)).complete


async def test_an_empty_sink_is_not_complete(sink: Sink) -> None:
    assert await looking(sink).report() is None
    assert (await report_of(sink, Span(3, 9))).gaps == RangeSet.of((3, 9))


NOTHING_MORE = "present, but not recorded as stored"
WITH_LOGS = next(
    height for height in range(5, 20) if rows_of("logs", Span(height, height)).num_rows > 1
)
HERE = Span(WITH_LOGS, WITH_LOGS)
COUNT = rows_of("logs", HERE).num_rows

DAMAGE = {
    "DELETE FROM blocks WHERE block_number BETWEEN 6 AND 8": Finding(
        "lost", "blocks", Span(6, 8), "recorded as stored, but missing"
    ),
    "UPDATE blocks SET parent_hash = zeroblob(32) WHERE block_number = 7": Finding(
        "link", "blocks", Span(7, 7), "does not link to the stored block before it"
    ),
    "UPDATE blocks SET hash = zeroblob(32) WHERE block_number = 13": Finding(  # a window's last
        "link", "blocks", Span(14, 14), "does not link to the stored block before it"
    ),
    f"DELETE FROM logs WHERE block_number = {WITH_LOGS}": Finding(
        "count", "logs", HERE, f"the block declares {COUNT}, but 0 are stored"
    ),
    f"UPDATE logs SET log_position = 99, transaction_index = 99 WHERE rowid = "
    f"(SELECT max(rowid) FROM logs WHERE block_number = {WITH_LOGS})": None,
    "UPDATE blocks SET transaction_count = 77 WHERE block_number IN (0, 30)": None,
    f"UPDATE transactions SET block_number = 100 WHERE block_number = {WITH_LOGS}": None,
    "UPDATE blocks SET block_number = 31 WHERE block_number = 30": None,
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_damage_is_found(fragile: Sink, sql: apsw.Connection, damage: str) -> None:
    await fragile.write(batch(0, 30), 5)
    sql.execute(damage)
    assert sql.changes() > 0
    report = await report_of(fragile, deep=True)
    assert not report.complete
    assert report.gaps == RangeSet()
    if (expected := DAMAGE[damage]) is not None:
        shallow = await report_of(fragile)
        assert shallow.findings == (expected,)
    tables = {each.dataset for each in report.findings if each.check == "digest"}
    assert tables == {damage.split()[2 if damage.startswith("DELETE") else 1]}


async def test_a_changed_value_is_found_by_its_digest_and_by_its_root(
    fragile: Sink, sql: apsw.Connection
) -> None:
    await fragile.write(batch(0, 15), 5)
    await fragile.write(batch(16, 30), 6)
    sql.execute("UPDATE transactions SET gas = gas + 1 WHERE block_number = 20")
    assert (await report_of(fragile)).complete
    report = await report_of(fragile, Span(19, 22), deep=True)
    assert [(it.check, it.dataset, it.span) for it in report.findings] == [
        ("digest", "transactions", (16, 30)),
        ("proof", "blocks", (20, 20)),
    ]
    assert "transactions_root" in report.findings[1].message


async def test_lost_logs_are_found_even_if_no_block_counts_them(
    fragile: Sink, sql: apsw.Connection
) -> None:
    await fragile.write(batch(0, 30), 5)
    sql.execute("UPDATE blocks SET log_count = NULL")
    sql.execute("DELETE FROM logs WHERE block_number = ?", (WITH_LOGS,))
    total = rows_of("logs", Span(0, 30)).num_rows
    words = f"{total} rows were written, but {total - COUNT} are stored"
    assert (await report_of(fragile)).findings == (Finding("rows", "logs", Span(0, 30), words),)


@pytest.mark.parametrize("height", [0, 15, 35])
async def test_rows_without_a_record_are_found(
    fragile: Sink, sql: apsw.Connection, height: int
) -> None:
    await fragile.write(batch(3, 30), 5)
    await fragile.retract(CHAIN_ID, Span(15, 15), 6)
    columns = [row[1] for row in sql.execute("PRAGMA table_info(withdrawals)")]
    shown = ", ".join(str(height) if name == "block_number" else name for name in columns)
    sql.execute(f"INSERT INTO withdrawals SELECT {shown} FROM withdrawals LIMIT 1")
    (stray,) = (await report_of(fragile)).findings
    assert stray == Finding("stray", "withdrawals", Span(height, height), NOTHING_MORE)


class Busy:
    """A sink that another writer changes each time its blocks are read."""

    def __init__(self, sink: Sink, *changes: Callable[[], Awaitable[None]]) -> None:
        self._sink, self._changes = sink, [*changes]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sink, name)

    async def read(self, *wanted: Any) -> pa.Table:
        found = await self._sink.read(*wanted)
        if self._changes:
            await self._changes.pop(0)()
        return found


async def test_a_concurrent_writer_is_not_a_finding(sink: Sink) -> None:
    await sink.write(batch(5, 30), 5)
    await sink.retract(CHAIN_ID, Span(11, 13), 5)
    busy = Busy(
        sink,
        lambda: sink.write(batch(31, 40), 6),  # above what was recorded at first
        lambda: sink.write(batch(FORK, 40, branch=1), 7),  # not linked to what was read
        lambda: sink.write(batch(11, 13), 8),  # from outside
        lambda: sink.retract(CHAIN_ID, Span(0, 7), 9),
    )
    report = await looking(busy, deep=True).report()
    assert report is not None
    assert report.findings == ()
    assert report.gaps == RangeSet.of((11, 13)), "as it was at the start"


async def test_damage_is_found_while_others_write(fragile: Sink, sql: apsw.Connection) -> None:
    await fragile.write(batch(0, 30), 5)
    sql.execute("UPDATE blocks SET parent_hash = zeroblob(32) WHERE block_number = 12")
    busy = Busy(fragile, lambda: fragile.write(batch(15, 40), 6))
    report = await looking(busy).report()
    assert report is not None
    assert [(it.check, it.span) for it in report.findings] == [("link", (12, 12))]


async def test_duplicate_rows_are_found(tmp_path: Path) -> None:
    async with await open_sink(f"{tmp_path}/twice/") as sink:
        await sink.write(batch(0, 9), 5)
        for name in ("blocks", "logs"):
            file = tmp_path / "twice" / str(CHAIN_ID) / name / "0-9.5.parquet"
            rows = pq.read_table(file)
            pq.write_table(pa.concat_tables([rows.slice(0, 3), rows.slice(2)]), file)
        report = await report_of(sink, deep=True)
    twice = {(it.dataset, it.span) for it in report.findings if it.check == "duplicate"}
    height = rows_of("logs", Span(0, 9))["block_number"][2].as_py()
    assert twice == {("blocks", (2, 2)), ("logs", (height, height))}
    assert {it.check for it in report.findings} == {"damaged", "duplicate", "digest"}


async def test_a_duplicate_block_is_found_without_a_deep_verification(tmp_path: Path) -> None:
    target = f"{tmp_path}/twice.duckdb"
    async with await open_sink(target) as sink:
        await sink.write(batch(0, 9), 5)
    with duckdb.connect(target) as connection:
        connection.execute("INSERT INTO blocks SELECT * FROM blocks WHERE block_number = 6")
    async with await open_sink(target, Access.READ) as sink:
        report = await report_of(sink)
    twice = Finding("duplicate", "blocks", Span(6, 6), "stored more than once")
    assert twice in report.findings


async def test_a_page_that_nothing_else_reads_is_found_by_a_deep_verification(
    tmp_path: Path,
) -> None:
    async with await open_sink(f"{tmp_path}/rotten/") as sink:
        await sink.write(batch(0, 30), 5)
        file = tmp_path / "rotten" / str(CHAIN_ID) / "logs/0-30.5.parquet"
        group = pq.ParquetFile(file).metadata.row_group(0)
        columns = [group.column(at) for at in range(group.num_columns)]
        data = next(it for it in columns if it.path_in_schema == "data")
        content = bytearray(file.read_bytes())
        first, last = data.data_page_offset, data.data_page_offset + data.total_compressed_size
        content[first:last] = bytes(it ^ 0xFF for it in content[first:last])
        file.write_bytes(content)
        assert (await report_of(sink)).complete
        report = await report_of(sink, deep=True)
    assert {(it.check, it.dataset) for it in report.findings} == {("damaged", "logs")}
    assert report.damaged == RangeSet.of((0, 30))


async def test_a_table_that_ends_early_is_not_complete(sink: Sink) -> None:
    """It is compared with what was requested, not with what it happens to span."""
    await sink.request(CHAIN_ID, Request(Span(0, 30), frozenset(EVERYTHING)))
    await sink.write(batch(0, 30, tables=HEADERS), 5)
    await sink.write(batch(0, 14), 6)
    report = await report_of(sink)
    assert not report.complete
    assert {each.dataset: each.gaps for each in report.coverage} == {
        "blocks": RangeSet(),
        **dict.fromkeys(EVERYTHING[1:], RangeSet.of((15, 30))),
    }


async def test_what_was_never_requested_is_not_missing(sink: Sink) -> None:
    for span in (Span(0, 9), Span(20, 30)):
        await sink.request(CHAIN_ID, Request(span, frozenset(EVERYTHING)))
        await sink.write(batch(*span), 5)
    assert (await report_of(sink)).complete
    assert (await report_of(sink, Span(0, 30))).gaps == RangeSet.of((10, 19))


async def test_what_was_requested_and_never_written_is_missing(sink: Sink) -> None:
    await sink.request(CHAIN_ID, Request(Span(3, 9), frozenset({"blocks", "logs"})))
    report = await report_of(sink)
    assert report.gaps == RangeSet.of((3, 9))
    assert [each.dataset for each in report.coverage] == ["blocks", "logs"]


def forged(sql: apsw.Connection, dataset: str, fragile_rows: pa.Table) -> None:
    """Makes the record of a table match its current rows, whatever they are."""
    total = digest(table(dataset), fragile_rows).to_bytes(32, "big")
    sql.execute("UPDATE _gapless_ranges SET digest = ? WHERE dataset = ?", (total, dataset))


async def test_a_forged_digest_hides_no_change_to_proven_columns(
    fragile: Sink, sql: apsw.Connection
) -> None:
    await fragile.write(batch(0, 30), 5)
    sql.execute("UPDATE transactions SET value = zeroblob(32) WHERE block_number = 20")
    rows = await fragile.read(table("transactions"), CHAIN_ID, Span(0, 30))
    forged(sql, "transactions", rows)
    report = await report_of(fragile, deep=True)
    assert {(it.check, it.span) for it in report.findings} >= {("proof", (20, 20))}
    assert "digest" not in {it.check for it in report.findings}


async def test_proofs_that_rows_alone_cannot_repeat_are_listed(sink: Sink) -> None:
    claims = frozenset({"link", "receipts_root", "agreed"})
    await sink.write(batch(0, 30, proven=claims), 5)
    report = await report_of(sink, deep=True)
    assert report.complete
    assert report.reproven is not None
    assert report.reproven.not_again == {"agreed": RangeSet.of((0, 30))}
    assert report.reproven.proven["transactions_root"] == RangeSet.of((0, 30))


async def test_blocks_below_an_anchor_belong_to_its_chain(sink: Sink) -> None:
    await sink.write(batch(3, 30), 5)
    known = {
        height: rows_of("blocks", Span(height, height))["hash"][0].as_py() for height in (9, 25)
    }
    report = await looking(sink, anchors=known).report()
    assert report is not None
    assert report.complete
    assert [(it.height, it.heights) for it in report.anchored] == [(25, RangeSet.of((3, 25)))]


async def test_a_block_that_contradicts_an_anchor_is_found(sink: Sink) -> None:
    await sink.write(batch(0, 30), 5)
    report = await looking(sink, anchors={7: b"\x07" * 32}).report()
    assert report is not None
    assert [(it.check, it.span) for it in report.findings] == [("anchor", (7, 7))]
    assert report.anchored == ()


async def test_a_broken_link_or_a_lost_block_ends_what_an_anchor_proves(
    fragile: Sink, sql: apsw.Connection
) -> None:
    await fragile.write(batch(0, 30), 5)
    known = {25: rows_of("blocks", Span(25, 25))["hash"][0].as_py()}
    sql.execute("UPDATE blocks SET parent_hash = zeroblob(32) WHERE block_number = 12")
    report = await looking(fragile, anchors=known).report()
    assert report is not None
    assert [it.heights for it in report.anchored] == [RangeSet.of((12, 25))]
    sql.execute("DELETE FROM blocks WHERE block_number = 18")
    report = await looking(fragile, anchors=known).report()
    assert report is not None
    assert [it.heights for it in report.anchored] == [RangeSet.of((19, 25))]
