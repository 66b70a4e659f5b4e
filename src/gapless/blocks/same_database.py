"""One transaction for rows and progress, where ledger and sink are one database.

Elsewhere a batch is durable first and the ledger hears of it later: a crash in between makes the
next run ask the sink what it holds. Here the run's own transaction on the ledger, which holds the
chunk's row under its fence, also takes the rows: after a crash at any moment the tables and the
chunk's progress say the same.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from gapless.core.ranges import Span
from gapless.ledger import Ledger
from gapless.ledger.database import Lending
from gapless.runtime.context import Context
from gapless.schema import Table
from gapless.sinks import Batch, JoiningSink, Sink


async def same_database(sink: Sink, ledger: Ledger) -> JoiningSink | None:
    """The sink, if it can write within transactions of this ledger."""
    if isinstance(sink, JoiningSink):
        async with ledger.session() as tx:
            if isinstance(tx, Lending):
                with tx.lent() as connection:
                    if await sink.is_reached_by(connection):
                        return sink
    return None


class SameDatabaseWriter:
    """A sink as the flow of one run sees it: each write is a transaction of the run."""

    def __init__(self, sink: JoiningSink, context: Context, first: int) -> None:
        self.batch_blocks = sink.batch_blocks
        self.grid = sink.grid
        self._sink = sink
        self._context = context
        self._next = first  # all below it is done

    async def write(self, batch: Batch, fence: int) -> None:
        # What is written out of turn (a branch that is mended, the rest of a batch that others
        # wrote a part of) is no progress yet.
        in_turn = batch.span.first <= self._next <= batch.span.last
        done = batch.span.last if in_turn else None
        async with self._context.transaction(done, finishing=True) as tx:
            assert isinstance(tx, Lending)
            with tx.lent() as connection:
                await self._sink.write_within(connection, batch, fence)
        if in_turn:
            self._next = batch.span.last + 1

    async def read(
        self, table: Table, chain_id: int, span: Span, columns: Collection[str] | None = None
    ) -> pa.Table:
        return await self._sink.read(table, chain_id, span, columns)
