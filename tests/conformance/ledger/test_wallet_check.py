"""`check` names whatever does not fit together in the rows of wallets."""

from __future__ import annotations

import pytest

from gapless.core.errors import Unreadable
from gapless.core.retry import RetryPolicy
from gapless.ledger import Ledger
from tests.support import Home, PostgresHome, claim_one, fail
from tests.wallets import ALICE, BOB, add

NOT_INHERITED = """
DELETE FROM sync_passes
WHERE backfill_id IN (SELECT id FROM backfills WHERE parent_backfill_id IS NOT NULL)
"""
ABOUT = f"{ALICE} on chain 1: "


async def eventful(ledger: Ledger) -> str:
    """A wallet with a pass, a retry of it and a later one, beside another wallet."""
    (alice,) = await add(ledger, ALICE, chunk_size=50, retry=RetryPolicy())
    await fail(ledger, await claim_one(ledger), permanent=True)
    await add(ledger, ALICE, chunk_size=50)
    await add(ledger, ALICE, BOB, heights=(100, 249))
    assert await ledger.check() == []
    return alice.passes[0]


@pytest.mark.parametrize(
    ("tampering", "problem"),
    [
        ("DELETE FROM wallets WHERE address = '{alice}'", "its wallet is missing"),
        ("DELETE FROM syncs WHERE address = '{alice}'", "there is no such sync"),
        ("DELETE FROM sync_passes WHERE address = '{alice}'", "RangeSet() is planned, not 100-249"),
        ("UPDATE syncs SET first = 99 WHERE address = '{alice}'", "is planned, not 99-249"),
        ("UPDATE syncs SET last = 199 WHERE address = '{alice}'", "is planned, not 100-199"),
        (NOT_INHERITED, "is not a pass of it"),
        (
            "UPDATE sync_passes SET backfill_id = 'none' WHERE backfill_id = '{first}'",
            "its pass `none` is missing",
        ),
        (
            "UPDATE backfills SET parent_backfill_id = NULL WHERE parent_backfill_id = '{first}'",
            "heights are planned twice",
        ),
        ("UPDATE address_sets SET chain_id = 5", "is missing or damaged"),
        ("DELETE FROM address_sets", "is missing or damaged"),
    ],
)
async def test_tampering_is_found(
    breakable: Ledger, home: Home, tampering: str, problem: str
) -> None:
    first = await eventful(breakable)
    await home.run(tampering.format(alice=ALICE, first=first))
    found = [each for each in await breakable.check() if each.startswith(ABOUT)]
    assert any(problem in each for each in found), found


async def test_a_pass_that_looks_for_others_is_found(breakable: Ledger, home: Home) -> None:
    await add(breakable, ALICE)
    await add(breakable, BOB)
    await home.run(
        "UPDATE sync_passes SET address_set = (SELECT p.address_set FROM sync_passes p"
        f" WHERE p.address = '{BOB}') WHERE address = '{ALICE}'"
    )
    (found,) = await breakable.check()
    assert found.startswith(ABOUT)
    assert found.endswith("does not look for it")


async def test_a_damaged_selection_is_told_once(breakable: Ledger, home: Home) -> None:
    (alice, _) = await add(breakable, ALICE, BOB)
    value = r"'\x00'" if isinstance(home, PostgresHome) else "x'00'"
    await home.run(f"UPDATE selections SET data = {value}")
    problem = f"{alice.passes[0]}: the selection does not match its hash"
    assert await breakable.check() == [problem]


async def test_a_damaged_address_set_is_not_used(breakable: Ledger, home: Home) -> None:
    (alice,) = await add(breakable, ALICE)
    set_id = (await breakable.backfill(alice.passes[0])).spec["address_set"]
    value = r"'\x00'" if isinstance(home, PostgresHome) else "x'00'"
    await home.run(f"UPDATE address_sets SET addresses = {value}")
    with pytest.raises(Unreadable, match="cannot be read"):
        await breakable.address_set(set_id)
    await home.run("UPDATE address_sets SET chain_id = 2")
    assert len(await breakable.check()) == 1
