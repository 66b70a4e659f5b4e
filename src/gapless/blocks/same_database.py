"""Writes rows and progress in one transaction if ledger and sink share a database.

Otherwise a batch becomes durable first and the ledger records it later; after a crash in between,
the next run asks the sink what it holds. Here the run's own transaction on the ledger, which locks
the chunk's row under its fence, also writes the rows: after a crash at any moment, the tables and
the chunk's progress agree.
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
    """The sink, if it can write in transactions of this ledger."""
    if isinstance(sink, JoiningSink):
        async with ledger.session() as tx:
            if isinstance(tx, Lending):
                with tx.lent() as connection:
                    if await sink.is_reached_by(connection):
                        return sink
    return None


class SameDatabaseWriter:
    """The sink of one run's flow: each write is a transaction of the run."""

    def __init__(self, sink: JoiningSink, context: Context, first: int) -> None:
        self.batch_blocks = sink.batch_blocks
        self.grid = sink.grid
        self._sink = sink
        self._context = context
        self._next = first  # everything below is done

    async def write(self, batch: Batch, fence: int) -> None:
        # Batches out of order (the repair of a branch, the rest of a batch that another run
        # wrote in part) do not count as progress yet.
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
