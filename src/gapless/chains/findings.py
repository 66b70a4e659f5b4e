"""What was found out about an endpoint before a fetch depends on it."""

from __future__ import annotations

from msgspec import Struct


class Rate(Struct, frozen=True):
    """Blocks with all that belongs to them, fetched for a short while."""

    calls_per_second: float
    blocks_per_second: float
    limited: bool  # the endpoint asked for less


class Findings(Struct, frozen=True, kw_only=True):
    """What an endpoint is and can do; None stands for what its kind of node cannot have."""

    endpoint: str
    chain_id: int
    network: str
    client: str | None = None
    head: int
    finalized: int | None = None
    known_block: int | None = (
        None  # the highest one whose hash is known beforehand, and is the same here
    )
    genesis: str | None = None  # the hash of its first block, if it has it
    earliest_block: int
    receipts_by_block: bool | None = None  # None: its blocks have no receipts
    receipts_by_transaction: bool | None = None  # None: there was no transaction to ask about
    batch_calls: int  # answered in one request; no more than a fetch would put there
    logs_range: int | None = None  # blocks in one request for logs, of the sizes tried; None: none
    rate: Rate | None = None
    calls: int  # that it took to find out
    cost: str  # what a block costs in calls, in a sentence
