"""Everything that is changed in a sink from outside is detected, except what is listed here.

A forger has full access to the rows, and may recompute the sink's own records afterwards: digests,
numbers of rows, and the counts that blocks have of their rows.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

from gapless.chains import Level
from gapless.core.ranges import RangeSet
from gapless.sinks.records import merged
from tests.conformance.verify.forgeries import Forged, Forgery, forgeries, pair
from tests.conformance.verify.places import Place, SqlitePlace
from tests.conformance.verify.signed import FIRST, signed_chain
from tests.conformance.verify.stage import cut, fill, look, refit
from tests.evm import SCHEMA

# What `verify --deep` cannot detect once records are recomputed, and why. `docs/concepts/proof.md`
# lists the same columns.
UNCOMMITTED = {
    "blocks.total_difficulty": "not in the header",
    "blocks.size": "not in the header",
    "blocks.uncles": "the header holds one hash for all of them, of headers that are not stored",
    "transactions.blob_gas_price": "follows from the header by parameters that change with forks",
    "blocks.extra": "keys without a column; only some networks hash any of them",
    "transactions.extra": "keys without a column",
    "logs.extra": "keys without a column",
    "withdrawals.extra": "keys without a column",
}
"""Nothing covers these columns."""
FOREIGN = {
    "transactions.max_fee_per_gas": "types 2 to 4",
    "transactions.max_priority_fee_per_gas": "types 2 to 4",
    "transactions.max_fee_per_blob_gas": "type 3",
    "transactions.blob_versioned_hashes": "type 3",
    "transactions.access_list": "types 1 to 4",
    "transactions.authorization_list": "type 4",
    "transactions.root": "receipts from before Byzantium",
    "transactions.source_hash": "Optimism deposits",
    "transactions.mint": "Optimism deposits",
    "transactions.is_system_tx": "Optimism deposits",
    "transactions.deposit_nonce": "Optimism deposits",
    "transactions.deposit_receipt_version": "Optimism deposits",
    "transactions.l1_fee": "Optimism",
    "transactions.l1_gas_price": "Optimism",
    "transactions.l1_gas_used": "Optimism",
    "transactions.gas_used_for_l1": "Arbitrum",
    "transactions.l1_block_number": "Arbitrum",
    "blocks.l1_block_number": "Arbitrum",
    "blocks.send_count": "Arbitrum",
    "blocks.send_root": "Arbitrum",
}
"""Columns that only these have. The encoding of any other type omits them, so a value can be added
where there was none. Nodes of some networks really send such values."""
DYNAMIC_PRICE = "transactions.gas_price"  # from type 2 on, the chain commits to limits instead
SENDER = "transactions.from_address"  # follows from the signature, which takes the level `senders`


def is_undetected(it: Forgery, level: Level) -> bool:
    column = f"{it.table}.{it.column}"
    if column in UNCOMMITTED:
        return it.deed != "garbage"
    if column in FOREIGN:
        return it.deed == "invent"
    if column == DYNAMIC_PRICE:
        return it.deed == "change" and it.row >= 2
    creates = it.row == 0  # and the address of what it creates follows from the sender
    return column == SENDER and level is not Level.SENDERS and not creates and it.deed != "swap"


def chosen(place: Place, *, every_row: bool = False) -> list[Forgery]:
    """The forgeries that a kind of sink allows."""
    honest = Forged(signed_chain(2))
    found = forgeries(honest.block(FIRST), honest.block(FIRST + 1), every_row=every_row)
    return [it for it in found if place.allows(it)]


async def test_an_honest_chain_is_complete(place: Place) -> None:
    await fill(place, signed_chain(6), Level.SENDERS)
    report = await look(place)
    assert report.complete
    assert report.reproven is not None
    assert not report.reproven.not_again


async def test_every_forgery_is_detected_while_the_records_are_unchanged(place: Place) -> None:
    """Every record covers two blocks; in each, at most one forgery is done to each table."""
    by_table: dict[str, list[Forgery]] = defaultdict(list)
    for it in chosen(place):
        by_table[it.table].append(it)
    chain = signed_chain(2 * max(map(len, by_table.values())) + 2)
    await fill(place, chain)
    forged = Forged(chain)
    await place.records(lambda found: cut(merged(found, SCHEMA), chain, 2))
    for deeds in by_table.values():
        for at, deed in enumerate(deeds):
            forged.forge(deed, at, recount=False)
    await place.lay(forged.tables(), forged.homes())
    report = await look(place)
    for table, deeds in by_table.items():
        spans = RangeSet(it.span for it in report.findings if it.dataset == table)
        assert [str(it) for at, it in enumerate(deeds) if not spans & it.places(at)] == []


@pytest.mark.parametrize("level", [Level.AUTO, Level.SENDERS])
async def test_recomputed_records_hide_only_what_is_listed(place: Place, level: Level) -> None:
    deeds = chosen(place, every_row=isinstance(place, SqlitePlace) and level is Level.AUTO)
    assert await undetected(place, deeds, level) == [
        str(it) for it in deeds if is_undetected(it, level)
    ]


async def undetected(place: Place, deeds: Sequence[Forgery], level: Level) -> list[str]:
    """The forgeries whose block a report does not name."""
    chain = signed_chain(2 * len(deeds) + 4)
    await fill(place, chain, level)
    forged = Forged(chain)
    for at, deed in enumerate(deeds):
        forged.forge(deed, at, recount=True)
    await place.lay(forged.tables(), forged.homes())
    await refit(place)
    report = await look(place)
    assert {it.check for it in report.findings} & {"digest", "rows", "damaged"} == set()
    named = RangeSet(it.span for it in report.findings)
    assert not named & RangeSet.of((pair(len(deeds)).first, pair(len(deeds) + 1).last))
    return [str(it) for at, it in enumerate(deeds) if not named & it.places(at)]


DOCS = Path(__file__).parents[3] / "docs" / "concepts" / "proof.md"
OTHER_NETWORKS = ("Optimism", "Arbitrum")  # rows of the table that no block here has


def test_the_documentation_lists_what_is_undetected() -> None:
    section = DOCS.read_text().partition("## What no level proves")[2].partition("\n## ")[0]
    fields = [line.split("|")[1] for line in section.splitlines() if line.startswith("| ")]
    listed = {
        name
        for field in fields
        if not any(network in field for network in OTHER_NETWORKS)
        for name in re.findall("`([a-z0-9_]+)`", field)
    }
    here = {*UNCOMMITTED, *FOREIGN, DYNAMIC_PRICE, SENDER}
    assert listed - {"senders"} == {name.partition(".")[2] for name in here}
