"""Whether the rows, records and progress in one database agree on every chunk.

For a backfill of blocks from height 0, where positions are heights.
"""

from __future__ import annotations

import asyncpg

from gapless.core.ranges import RangeSet

_CHUNKS = "SELECT backfill_id, chunk_index, first, last, last_processed FROM gapless.chunks"
_ROWS = 'SELECT block_number FROM "{schema}".blocks'
_RECORDS = 'SELECT first, last FROM "{schema}"._gapless_ranges WHERE dataset = $1'
_COUNTS = """
SELECT (SELECT count(*) FROM "{schema}".transactions), coalesce(sum(transaction_count), 0)::bigint,
       (SELECT count(*) FROM "{schema}".logs), coalesce(sum(log_count), 0)::bigint,
       (SELECT count(*) FROM "{schema}".withdrawals), coalesce(sum(withdrawal_count), 0)::bigint
FROM "{schema}".blocks
"""
_IS_THERE = "SELECT to_regclass($1) IS NOT NULL AND to_regclass('gapless.chunks') IS NOT NULL"
DATASETS = ("blocks", "transactions", "logs", "withdrawals")


async def disagreements(connection: asyncpg.Connection, schema: str) -> list[str]:
    """The disagreements; none, if all is well."""
    if not await connection.fetchval(_IS_THERE, f'"{schema}".withdrawals'):
        return []
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        rows = RangeSet.from_members(
            row[0] for row in await connection.fetch(_ROWS.format(schema=schema))
        )
        progress = RangeSet(
            (chunk["first"], chunk["last_processed"])
            for chunk in await connection.fetch(_CHUNKS)
            if chunk["last_processed"] is not None
        )
        found = [] if rows == progress else [f"rows of {rows}, progress of {progress}"]
        for dataset in DATASETS:
            query = _RECORDS.format(schema=schema)
            recorded = RangeSet(tuple(row) for row in await connection.fetch(query, dataset))
            if recorded != rows:
                found.append(f"rows of {rows}, records of {recorded} for {dataset}")
        counts = await connection.fetchrow(_COUNTS.format(schema=schema))
        assert counts is not None
        if counts[0::2] != counts[1::2]:
            found.append(f"rows that are there and that should be: {tuple(counts)}")
    return found
