"""A batch whose contents do not match its description is refused, and none of it is stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from gapless.core.errors import BrokenSeam
from gapless.core.ranges import Span
from gapless.schema.arrow import Tables
from gapless.sinks import Batch, Sink
from tests.conformance.sink.stage import CHAIN_ID, batch, rows_of, with_column

Change = Callable[[pa.Table], pa.Table]


def changed(name: str, change: Change) -> Batch:
    given = batch(3, 9)
    return replace(given, tables=Tables({**given.tables, name: change(given.tables[name])}))


def twice(rows: pa.Table) -> pa.Table:
    return pa.concat_tables([rows.slice(0, 2), rows.slice(1)])


def swapped(rows: pa.Table) -> pa.Table:
    return pa.concat_tables([rows.slice(1, 1), rows.slice(0, 1), rows.slice(2)])


def with_a_hole(rows: pa.Table) -> pa.Table:
    return pa.concat_tables([rows.slice(0, 3), rows.slice(4)])


BAD = {
    "a missing block": (changed("blocks", with_a_hole), "6 rows for 3-9"),
    "a block twice": (changed("blocks", twice), "an unsorted or duplicate key in block 4"),
    "a log twice": (changed("logs", twice), "`logs` has an unsorted or duplicate key"),
    "a wrong order": (
        changed("transactions", swapped),
        "`transactions` has an unsorted or duplicate key",
    ),
    "another chain": (replace(batch(3, 9), chain_id=1), "rows of a chain other than 1"),
    "another chain's logs": (
        changed("logs", lambda rows: with_column(rows, "chain_id", 1)),
        "`logs` has rows of a chain other than",
    ),
    "another range": (replace(batch(3, 9), span=Span(4, 9)), "rows outside 4-9"),
    "a longer range": (replace(batch(3, 9), span=Span(3, 10)), "7 rows for 3-10"),
    "no range": (replace(batch(3, 9), span=Span(9, 3)), "not a range of blocks"),
    "logs of no block": (
        changed("logs", lambda _: rows_of("logs", Span(3, 11))),
        "`logs` has rows outside 3-9",
    ),
    "no blocks": (
        replace(batch(3, 9), tables=Tables({"logs": rows_of("logs", Span(3, 9))})),
        "a batch must hold `blocks`",
    ),
    "a lost column": (
        changed("logs", lambda rows: rows.drop_columns(["data"])),
        "the columns of `logs` differ",
    ),
}


@pytest.mark.parametrize("case", BAD)
async def test_a_bad_batch_is_refused(sink: Sink, case: str) -> None:
    await sink.write(batch(0, 9), 1)
    before = await sink.stored(CHAIN_ID)
    given, complaint = BAD[case]
    with pytest.raises(ValueError, match=complaint):
        await sink.write(given, 2)
    assert await sink.stored(CHAIN_ID) == before
    assert await sink.highest_fence() == 1


async def test_blocks_that_do_not_link_are_refused(sink: Sink) -> None:
    one, other = rows_of("blocks", Span(20, 22)), rows_of("blocks", Span(23, 25), branch=1)
    given = replace(
        batch(20, 25, tables=["blocks"]), tables=Tables({"blocks": pa.concat_tables([one, other])})
    )
    with pytest.raises(BrokenSeam) as broken:
        await sink.write(given, 2)
    assert broken.value.height == 22
    assert await sink.stored(CHAIN_ID) == []
