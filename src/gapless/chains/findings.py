"""What a probe found out about an endpoint, before a fetch depends on it."""

from __future__ import annotations

from msgspec import Struct


class Rate(Struct, frozen=True):
    """The speed of fetching complete blocks, measured for a short time."""

    calls_per_second: float
    blocks_per_second: float
    limited: bool  # whether the endpoint limited the rate


class Findings(Struct, frozen=True, kw_only=True):
    """What an endpoint is and supports; None where its kind of node has no such feature."""

    endpoint: str
    chain_id: int
    network: str
    client: str | None = None
    head: int
    finalized: int | None = None
    known_block: int | None = None  # the highest block with a known hash that matches
    genesis: str | None = None  # the hash of its first block, if it has that block
    earliest_block: int
    receipts_by_block: bool | None = None  # None: its blocks have no receipts
    receipts_by_transaction: bool | None = None  # None: there was no transaction to ask about
    batch_calls: int  # answered in one request; at most as many as a fetch would send
    offers: dict[str, bool] = {}  # whether it has what its kind of node may lack, by name
    logs_range: int | None = None  # the largest range of logs that worked; None: none did
    rate: Rate | None = None
    calls: int  # sent by the probe
    cost: str  # what a block costs in calls, as a sentence
