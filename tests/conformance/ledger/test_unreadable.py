"""If what the ledger stores for one backfill is unreadable, that backfill fails, and is shown."""

from __future__ import annotations

import pytest

from gapless.core.chunk import Status
from gapless.core.errors import Conflict, Unreadable
from gapless.core.selector import Selection
from gapless.ledger import Ledger
from tests.conformance.ledger.test_groups import HOOK, join
from tests.support import (
    Home,
    claim,
    claim_one,
    complete,
    create,
    fail,
    finish,
    plan,
    state,
    statuses,
)


async def spoil(home: Home, what: str, where: str = "id = 'bad'") -> None:
    table = "backfills" if home.url.startswith("sqlite") else "gapless.backfills"
    await home.run(f"UPDATE {table} SET {what} WHERE {where}")


@pytest.mark.parametrize(
    ("what", "named"), [("spec = '{'", "spec"), ("retry = '{\"base\": -1}'", "retry policy")]
)
async def test_a_claim_names_the_backfill_that_it_cannot_read(
    breakable: Ledger, home: Home, what: str, named: str
) -> None:
    await create(breakable, "bad")
    await spoil(home, what)
    with pytest.raises(Unreadable, match=f"the {named} of backfill `bad` cannot be read") as error:
        await claim(breakable)
    assert error.value.backfill_id == "bad"


async def test_a_condemned_backfill_fails_with_its_reason(ledger: Ledger) -> None:
    await create(ledger, partitions=5)
    await ledger.condemn("bf", "its spec cannot be read")
    found = await ledger.backfill("bf")
    assert (found.state, found.error) == ("FAILED", "its spec cannot be read")
    await ledger.condemn("bf", "again")
    assert (await ledger.backfill("bf")).error == "its spec cannot be read"


async def test_running_chunks_of_a_condemned_backfill_may_end(ledger: Ledger) -> None:
    await create(ledger, partitions=5)
    first, second = await claim(ledger, 2)
    await complete(ledger, first)
    await ledger.condemn("bf", "unreadable")
    assert await state(ledger) == "RUNNING"
    assert await claim(ledger) == []
    await fail(ledger, second, permanent=True)
    await ledger.settle()
    found = await ledger.backfill("bf")
    assert (found.state, found.error) == ("FAILED", "unreadable")
    assert (await statuses(ledger))[:2] == [Status.COMPLETE, Status.ABANDONED]


@pytest.mark.parametrize("column", ["spec", "selector", "retry"])
async def test_an_unreadable_backfill_is_listed_with_the_others(
    breakable: Ledger, home: Home, column: str
) -> None:
    await create(breakable, "bad")
    await create(breakable, "good")
    await spoil(home, f"{column} = 'no JSON'")
    assert {each.id for each in await breakable.backfills()} == {"bad", "good"}
    assert "cannot be read" in ((await breakable.backfill("bad")).unreadable or "")
    assert any("bad: the " in problem for problem in await breakable.check())


async def test_an_unreadable_backfill_can_be_neither_retried_nor_recreated(
    breakable: Ledger, home: Home
) -> None:
    await create(breakable, "bad", partitions=1)
    await fail(breakable, await claim_one(breakable), permanent=True)
    await breakable.settle()
    await spoil(home, "spec = 'no JSON'")
    with pytest.raises(Unreadable):
        await breakable.retry_failed("bad", "child")
    with pytest.raises(Conflict):
        await create(breakable, "bad", partitions=1)


async def test_a_missing_selection_is_unreadable(breakable: Ledger) -> None:
    with pytest.raises(Unreadable, match="is not in the ledger"):
        await breakable.selection("0123")


async def test_invalid_holes_name_their_backfill(breakable: Ledger, home: Home) -> None:
    await create(breakable, "bad")
    await plan(breakable, "bad", 1)
    table = "chunks" if home.url.startswith("sqlite") else "gapless.chunks"
    await home.run(f"UPDATE {table} SET holes = '[[1]]'")
    with pytest.raises(Unreadable) as error:
        await claim(breakable)
    assert error.value.backfill_id == "bad"


async def test_invalid_holes_do_not_keep_a_backfill_from_ending(
    breakable: Ledger, home: Home
) -> None:
    await create(breakable, partitions=2, chunk_size=2)
    await fail(breakable, await claim_one(breakable), permanent=True)
    table = "chunks" if home.url.startswith("sqlite") else "gapless.chunks"
    await home.run(f"UPDATE {table} SET holes = 'no JSON'")
    assert await breakable.settle() == ["bf"]
    found = await breakable.backfill("bf")
    assert (found.state, found.error) == ("FAILED", "Boom: it broke (chunk 0)")


async def test_a_hook_whose_id_is_taken_runs_in_the_next_epoch(ledger: Ledger) -> None:
    await create(ledger, "drained-wallets-1", partitions=1)
    await join(ledger, "a")
    await finish(ledger)
    (hook,) = await ledger.close_epochs()
    assert hook.id == "drained-wallets-2"
    assert await ledger.close_epochs() == []


async def test_an_unreadable_hook_fails_visibly(ledger: Ledger, home: Home) -> None:
    await join(ledger, "a")
    await finish(ledger)
    table = "groups" if home.url.startswith("sqlite") else "gapless.groups"
    await home.run(f"UPDATE {table} SET hook = '[]'")
    await ledger.close_epochs()
    hook = await ledger.backfill("drained-wallets-1")
    assert hook.state == "FAILED"
    assert "the hook of backfill `drained-wallets-1` cannot be read" in str(hook.error)
    assert await ledger.close_epochs() == []


async def test_a_hook_whose_spec_cannot_be_stored_fails_visibly(ledger: Ledger, home: Home) -> None:
    await join(ledger, "a")
    await finish(ledger)
    table = "groups" if home.url.startswith("sqlite") else "gapless.groups"
    spoiled = HOOK.replace('"main"', '"https://user:pw@node.example/KEY"')
    await home.run(f"UPDATE {table} SET hook = '{spoiled}'")
    await ledger.close_epochs()
    assert await state(ledger, "drained-wallets-1") == "FAILED"


async def test_a_key_with_a_nul_is_still_named(ledger: Ledger) -> None:
    """No scheme has such keys any more, but a ledger may contain some."""
    keys = Selection("static", keys=("a\0b",))
    await create(ledger, selection=keys)
    await fail(ledger, await claim_one(ledger), permanent=True)
    await ledger.settle()
    found = await ledger.backfill("bf")
    assert (found.state, found.error) == ("FAILED", r"Boom: it broke (chunk 0, partitions a\x00b)")
