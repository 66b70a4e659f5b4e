"""What a companion changes is committed with the rows, or not at all."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import asyncpg
import pytest

from gapless.chains.opening import open_sink
from gapless.core.errors import FencedOff, SinkUnusable
from gapless.core.ranges import Span
from gapless.schema.arrow import Tables
from gapless.sinks import AccompaniedSink, Batch, CompanionTransaction, JoiningSink, companion
from gapless.wallets.store import WalletStore
from tests.conformance.sink.stage import CHAIN_ID, held, with_column
from tests.conformance.wallet_store.stage import NETWORK, RULES, WALLETS, blocks, moved

Note = tuple[str, int, int, int]


class Diary:
    """A companion that notes what it is told, and fails on demand."""

    def __init__(self) -> None:
        self.fails = False

    async def written(self, tx: CompanionTransaction, batch: Batch, fence: int) -> None:
        await tx.exclude_companions(batch.chain_id)
        table = tx.schema["blocks"]
        rows = await tx.read(table, batch.chain_id, batch.span, ["hash"])
        assert rows["hash"].equals(batch.tables["blocks"]["hash"])  # the rows are there already
        await self._note(tx, "written", batch.span, fence)

    async def retracted(
        self, tx: CompanionTransaction, chain_id: int, span: Span, fence: int
    ) -> None:
        await self._note(tx, "retracted", span, fence)

    async def _note(self, tx: CompanionTransaction, what: str, span: Span, fence: int) -> None:
        await tx.execute("INSERT INTO {diary} VALUES ($1, $2, $3, $4)", what, *span, fence)
        if self.fails:
            raise RuntimeError("no more paper")


@pytest.fixture
def diary(monkeypatch: pytest.MonkeyPatch) -> Diary:
    module: Any = ModuleType("diary_of_a_test")
    kept = Diary()
    module.companion = lambda: kept
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(companion.BUILT_IN, "diary", module.__name__)
    return kept


@pytest.fixture
async def kept(sink: AccompaniedSink, diary: Diary) -> AccompaniedSink:
    """A sink with the diary as its companion."""
    await sink.transact(CHAIN_ID, attach, alone=True)
    return sink


async def attach(tx: CompanionTransaction) -> None:
    await tx.execute("CREATE TABLE {diary} (what TEXT, first BIGINT, last BIGINT, fence BIGINT)")
    for _ in range(2):  # the second time changes nothing
        await companion.attach(tx, CHAIN_ID, "diary")


async def notes(sink: AccompaniedSink) -> list[Note]:
    rows = await sink.consult(lambda tx: tx.execute("SELECT * FROM {diary}"))
    return [(row[0], row[1], row[2], row[3]) for row in rows]


async def test_a_companion_is_told_of_every_change(kept: AccompaniedSink) -> None:
    await kept.write(blocks(18, 25), 1)
    await kept.retract(CHAIN_ID, Span(24, 30), 2)
    assert await notes(kept) == [("written", 18, 25, 1), ("retracted", 24, 30, 2)]


async def test_blocks_of_another_branch_are_retracted_first(kept: AccompaniedSink) -> None:
    await kept.write(blocks(18, 25), 1)
    await kept.retract(CHAIN_ID, Span(23, 25), 2)
    await kept.write(blocks(18, 22, branch=1), 3)
    assert (await notes(kept))[2:] == [("retracted", 20, 22, 3), ("written", 18, 22, 3)]


async def test_what_is_refused_is_not_told(kept: AccompaniedSink) -> None:
    await kept.write(blocks(18, 25), 5)
    with pytest.raises(FencedOff):
        await kept.write(blocks(18, 25), 4)
    with pytest.raises(FencedOff):
        await kept.retract(CHAIN_ID, Span(18, 25), 4)
    assert await notes(kept) == [("written", 18, 25, 5)]


async def test_rows_are_not_committed_without_their_companion(
    kept: AccompaniedSink, diary: Diary
) -> None:
    await kept.write(blocks(10, 12), 1)
    diary.fails = True
    with pytest.raises(RuntimeError, match="paper"):
        await kept.write(blocks(13, 15), 1)
    with pytest.raises(RuntimeError, match="paper"):
        await kept.retract(CHAIN_ID, Span(10, 12), 2)
    assert await notes(kept) == [("written", 10, 12, 1)]
    assert (await held(kept, "blocks")).num_rows == 3
    diary.fails = False
    await kept.write(blocks(13, 15), 1)
    assert [it[0] for it in await notes(kept)] == ["written", "written"]


async def test_other_chains_are_not_told(kept: AccompaniedSink) -> None:
    batch = blocks(10, 12, names=("blocks",))
    rows = batch.tables["blocks"]
    there = Batch(5, batch.span, Tables({"blocks": with_column(rows, "chain_id", 5)}))
    await kept.write(there, 1)
    assert await notes(kept) == []


async def test_a_process_that_does_not_know_a_companion_cannot_write(
    kept: AccompaniedSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(companion.BUILT_IN, "diary")
    with pytest.raises(SinkUnusable, match="`diary`, which is unknown") as refusal:
        await kept.write(blocks(10, 12), 1)
    assert refusal.value.hint == "upgrade Gapless"
    assert (await held(kept, "blocks")).num_rows == 0


async def test_a_companion_that_joins_later_is_known_to_open_sinks(
    target: str, sink: AccompaniedSink, diary: Diary
) -> None:
    async with await open_sink(target) as writer:
        await writer.write(blocks(10, 12), 1)
        await sink.transact(CHAIN_ID, attach, alone=True)
        await writer.write(blocks(13, 15), 1)
        assert await notes(sink) == [("written", 13, 15, 1)]


async def test_movements_follow_a_transaction_of_the_caller(
    postgres_target: str, records_database: str
) -> None:
    """As the ledger's, when it is in the same database."""
    connection = await asyncpg.connect(records_database)
    async with await open_sink(postgres_target) as sink:
        assert isinstance(sink, JoiningSink)
        store = WalletStore.of(sink)
        await store.add_members("home", NETWORK, RULES, WALLETS[:2], -1)
        for is_committed in (False, True):
            transaction = connection.transaction()
            await transaction.start()
            await sink.write_within(connection, blocks(0, 30), 1)
            assert await store.movements(CHAIN_ID, WALLETS[:2]) == []
            await (transaction.commit() if is_committed else transaction.rollback())
            found = [it async for piece in store.stream(CHAIN_ID, WALLETS) for it in piece]
            expected = moved(Span(0, 30), WALLETS[:2]) if is_committed else []
            assert sorted(found, key=lambda it: it.key) == expected
            assert bool(await store.balances("home")) == is_committed
            assert (await held(sink, "blocks")).num_rows == (31 if is_committed else 0)
    await connection.close()


@pytest.mark.parametrize("name", ["blocks.duckdb", "blocks/"])
async def test_other_sinks_have_no_companions(tmp_path: Any, name: str) -> None:
    async with await open_sink(f"{tmp_path}/{name}") as sink:
        assert not isinstance(sink, AccompaniedSink)
        with pytest.raises(SinkUnusable) as refusal:
            WalletStore.of(sink)
        assert "SQLite" in str(refusal.value.hint)
