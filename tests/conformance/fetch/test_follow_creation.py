"""Creating a follow: what it requests of the sink, and that creating it again loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapless.blocks.request import FetchOptions
from gapless.chains.opening import open_sink
from gapless.config import Config
from gapless.core.backfill import State
from gapless.core.heights import HIGHEST
from gapless.core.ranges import Span
from gapless.devnode import DevNode
from gapless.following import control
from gapless.following.creation import Created, create
from gapless.following.request import build_follow
from gapless.following.spec import history
from gapless.following.state import follow_state
from gapless.following.status import follow_status
from gapless.ledger import open_ledger
from gapless.sinks import Access
from tests.conformance.fetch.conftest import Fetch
from tests.conformance.fetch.stage import HEAD

NEW_BLOCKS = f"{HEAD - 9}:{HEAD}"


@pytest.fixture
def target(tmp_path: Path) -> str:
    return f"{tmp_path}/chain.db"


async def follow(node: DevNode, target: str, ledger: str, start: int | None = 0) -> Created:
    request, targets = build_follow(Config(), "custom", [node.url], target, start, FetchOptions())
    return await create(request, targets.config, ledger)


async def stored(target: str) -> list[Span]:
    async with await open_sink(target, Access.READ) as sink:
        records = await sink.records(1337, Span(0, HIGHEST))
        return [each.span for each in records if each.dataset == "blocks"]


async def test_new_blocks_stay_while_history_is_missing(
    node: DevNode, target: str, ledger: str, fetch: Fetch
) -> None:
    await follow(node, target, ledger)
    await fetch(node, heights=NEW_BLOCKS, confirmations=0)
    await follow(node, target, ledger)
    assert await stored(target) == [Span(HEAD - 9, HEAD)]


async def test_what_is_not_linked_to_the_final_block_is_left_to_the_leader(
    node: DevNode, target: str, ledger: str, fetch: Fetch
) -> None:
    """By now, another process may have created the follow, and store these very blocks."""
    await fetch(node, heights=NEW_BLOCKS, confirmations=0)
    await follow(node, target, ledger)
    assert await stored(target) == [Span(HEAD - 9, HEAD)]
    opened = await open_ledger(ledger)
    try:
        state = follow_state(await opened.cursor("custom-chain"))
        assert state.retraction is not None
        assert state.retraction.span == Span(HEAD - 9, HEAD)
    finally:
        await opened.close()


@pytest.mark.parametrize(("name", "wanted"), [("chain.db", [Span(0, HEAD - 64)]), ("files/", [])])
async def test_a_sink_is_asked_for_what_it_will_store_soon(
    node: DevNode, tmp_path: Path, ledger: str, name: str, wanted: list[Span]
) -> None:
    """Parquet files get whole cells only, and none is final yet."""
    await follow(node, f"{tmp_path}/{name}", ledger)
    async with await open_sink(f"{tmp_path}/{name}", Access.READ) as sink:
        assert [each.span for each in await sink.requests(1337)] == wanted


async def test_a_name_can_be_used_again_after_its_follow_was_removed(
    node: DevNode, target: str, ledger: str
) -> None:
    removed = await follow(node, target, ledger)
    opened = await open_ledger(ledger)
    try:
        await opened.create(history(removed.backfill.id, removed.spec, Span(0, 9)))
        await control.remove(opened, "custom-chain")
        again = await follow(node, target, ledger)
        assert again.backfill.id != removed.backfill.id
        assert again.backfill.state is State.PENDING
        assert [backfill.id for _, backfill in await opened.follows()] == [again.backfill.id]
        status = await follow_status(opened, "custom-chain")
        assert (status.history_blocks, status.phase) == (0, "starting")
    finally:
        await opened.close()
