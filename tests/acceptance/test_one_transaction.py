"""Killed fetches and a crashing server: a transaction is stored as a whole, or not at all.

`python -m tests.soak.one_transaction --rounds 200` runs longer.
"""

from __future__ import annotations

import secrets

from tests.servers import PostgresServer
from tests.soak.one_transaction import Storm


async def test_rows_and_progress_agree_after_every_crash(postgres: PostgresServer) -> None:
    seed = secrets.randbelow(10**9)
    storm = Storm(postgres, seed)
    assert await storm.rage(rounds=3) == [], f"seed {seed}"
    assert storm.seen["crash"] + storm.seen["kill"] == 3
    assert storm.seen["midway"], "nothing was ever half done: the test proves nothing"
