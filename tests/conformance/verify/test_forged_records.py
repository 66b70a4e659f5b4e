"""The records of a sink are not trusted: rows and requests show when they were changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

from gapless.chains import Level
from gapless.chains.evm.check_names import Check
from gapless.chains.evm.decode.restore import RECEIPT_COLUMNS
from gapless.chains.evm.tables import BLOCKS, LOGS
from gapless.core.ranges import RangeSet, Span
from gapless.sinks import Request, Stored
from tests.conformance.sink.stage import CHAIN_ID as SIMULATED
from tests.conformance.sink.stage import branches, with_column, within
from tests.conformance.verify.forgeries import Forged
from tests.conformance.verify.places import ParquetPlace, Place, SqlitePlace
from tests.conformance.verify.signed import FIRST, signed_chain
from tests.conformance.verify.stage import EVERYTHING, FENCE, fill, look, refit, refitted
from tests.evm import EVERY_TABLE, checks_of

CHAIN = signed_chain(12)
WHOLE = Span(FIRST, FIRST + 11)
NAMES = [each.name for each in EVERY_TABLE]
Change = Callable[[Stored], Iterable[Stored]]


def cut_above(it: Stored) -> Iterator[Stored]:
    yield replace(it, span=Span(it.span.first, it.span.last - 3))


def cut_below(it: Stored) -> Iterator[Stored]:
    yield replace(it, span=Span(it.span.first + 3, it.span.last))


def refitted_above(it: Stored) -> Iterator[Stored]:
    """As if less had been written: only the rows show that there is more."""
    yield from (refitted(each, CHAIN) for each in cut_above(it))


def widened(it: Stored) -> Iterator[Stored]:
    yield replace(it, span=Span(it.span.first, it.span.last + 3))


def widened_below(it: Stored) -> Iterator[Stored]:
    yield replace(it, span=Span(it.span.first - 3, it.span.last))


def with_gap(it: Stored) -> Iterator[Stored]:
    for first, last in ((0, 3), (6, 11)):
        yield refitted(replace(it, span=Span(FIRST + first, FIRST + last)), CHAIN)


def overlapping(it: Stored) -> Iterator[Stored]:
    yield it
    yield refitted(replace(it, span=Span(FIRST + 4, FIRST + 7), fence=FENCE + 1), CHAIN)


def gone(it: Stored) -> Iterator[Stored]:
    yield from ()


def other_digest(it: Stored) -> Iterator[Stored]:
    yield replace(it, digest=it.digest ^ 1)


def other_rows(it: Stored) -> Iterator[Stored]:
    yield replace(it, rows=it.rows - 1)


def other_parent(it: Stored) -> Iterator[Stored]:
    yield replace(it, parent_hash=b"\x07" * 32)


def other_last(it: Stored) -> Iterator[Stored]:
    yield replace(it, last_hash=b"\x07" * 32)


CHANGES: list[Change] = [
    *(cut_above, cut_below, refitted_above, widened, widened_below, with_gap, overlapping),
    *(gone, other_digest, other_rows, other_parent, other_last),
]


async def test_a_changed_record_is_detected(place: Place) -> None:
    """Even if no request says what should be stored."""
    await fill(place, CHAIN)
    await place.requests(lambda _: [])
    missed = []
    for name in NAMES if isinstance(place, SqlitePlace) else [LOGS.name]:
        for change in CHANGES:
            if isinstance(place, ParquetPlace) and change is overlapping:
                continue  # both would be the same file

            await place.records(partial(_changed, change, name))
            if (await look(place)).complete:
                missed.append(f"{change.__name__} {name}")
            await place.records(_honest)
            if isinstance(place, ParquetPlace):
                await place.lay(CHAIN, Forged(CHAIN).homes())
    assert missed == []
    assert (await look(place)).complete


def _changed(change: Change, dataset: str, found: list[Stored]) -> list[Stored]:
    return [new for it in found for new in (change(it) if it.dataset == dataset else [it])]


def _honest(_: Iterable[Stored]) -> list[Stored]:
    claims = frozenset(checks_of(Level.AUTO))
    made = (Stored(name, WHOLE, FENCE, 0, 0, claims, frozenset(), b"", b"") for name in NAMES)
    return [refitted(it, CHAIN) for it in made]


async def test_a_fence_is_only_a_record(place: Place) -> None:
    """No row shows under which fence it was written; a file's name does."""
    await fill(place, CHAIN)
    await place.records(lambda found: [replace(it, fence=it.fence + 1) for it in found])
    assert (await look(place)).complete is not isinstance(place, ParquetPlace)


CLAIMS = frozenset(
    {*checks_of(Level.SENDERS), Check.AGREED, Check.ANCHOR, Check.STATE_SYNC, "bogus"}
)


async def test_claims_that_rows_cannot_prove_are_named(place: Place) -> None:
    headers = {BLOCKS.name: with_column(CHAIN[BLOCKS.name], "log_count", None)}
    await fill(place, headers, Level.OFF)
    await place.records(lambda found: [replace(it, proven=CLAIMS) for it in found])
    report = await look(place)
    assert report.reproven is not None
    proven, not_again = report.reproven.proven, report.reproven.not_again
    assert {*proven} == {Check.HEIGHT, Check.PLACES, Check.HEADER_HASH}
    assert {*not_again} == CLAIMS - {*proven} - {Check.LINK}
    assert {*not_again.values()} == {RangeSet.of(WHOLE)}


async def test_a_claim_that_the_rows_contradict_is_detected(place: Place) -> None:
    """The signatures of a simulated chain are random."""
    place.chain_id = SIMULATED
    await fill(place, branches()[0], Level.OFF, SIMULATED)
    assert (await look(place, chain_id=SIMULATED)).complete
    await place.records(lambda found: [replace(it, proven=CLAIMS) for it in found])
    report = await look(place, chain_id=SIMULATED)
    assert not report.complete
    assert {it.check for it in report.findings} == {"proof"}
    assert "fails the check `senders`" in report.findings[0].message


async def test_a_claim_that_the_rows_could_prove_but_do_not_is_detected(place: Place) -> None:
    """Rows as from a node without receipts, and a record that claims more."""
    forged = Forged(CHAIN)
    block = forged.block(FIRST + 5)
    block["blocks"][0]["log_count"] = None
    for row in block["transactions"]:
        row.update(dict.fromkeys(RECEIPT_COLUMNS))
    await fill(place, CHAIN)
    await place.lay(forged.tables(), forged.homes())
    await refit(place)
    report = await look(place)
    assert {it.span for it in report.findings} == {Span(FIRST + 5, FIRST + 5)}
    assert "`receipts_root` is recorded as proven" in " ".join(it.message for it in report.findings)


async def test_a_widened_request_is_a_gap(place: Place) -> None:
    await fill(place, CHAIN)
    beyond = Request(Span(FIRST, FIRST + 20), EVERYTHING)
    await place.requests(lambda found: [*found, beyond])
    assert (await look(place)).gaps == RangeSet.of((FIRST + 12, FIRST + 20))


async def test_blocks_that_nobody_requests_are_not_missing(place: Place) -> None:
    """The only way to remove blocks: rows, records and the request that names them."""
    await fill(place, CHAIN)
    left = Span(FIRST, FIRST + 8)
    rows = {name: within(CHAIN[name], left) for name in NAMES}
    await place.records(lambda found: [refitted(replace(it, span=left), rows) for it in found])
    await place.lay(rows, {name: rows[name]["block_number"].to_pylist() for name in NAMES})
    assert (await look(place)).gaps == RangeSet.of((FIRST + 9, FIRST + 11))
    await place.requests(lambda found: [replace(it, span=left) for it in found])
    assert (await look(place)).complete
