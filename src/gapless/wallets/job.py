"""The job `wallets`: finds the movements of an address set in a range of heights."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from gapless.core.errors import StopRequested
from gapless.core.partitions import block_heights
from gapless.core.retry import RetryPolicy
from gapless.pipeline.stop import stop_on
from gapless.runtime.context import Context
from gapless.runtime.job import Chunk, Job
from gapless.wallets.opening import shared_store
from gapless.wallets.plan import LEASE_SECONDS, NAME, VERSION
from gapless.wallets.search import Search
from gapless.wallets.spec import WalletsSpec


class Names(NamedTuple):
    """What a process calls the sink and the endpoints of a chain."""

    sink: str
    endpoints: tuple[str, ...]


Known = Mapping[tuple[int, str], Names]
"""By chain id and sink id, the names that a process was given; they may have changed since."""
NOTHING_KNOWN: Known = MappingProxyType({})


def job(known: Known = NOTHING_KNOWN) -> Job:
    """The job; names that are not known are looked up as they were when the pass was planned."""

    async def search_wallets(chunk: Chunk, context: Context) -> None:
        spec = msgspec.convert(context.spec, WalletsSpec)
        names = known.get((spec.chain_id, spec.sink_id), Names(spec.sink, spec.endpoints))
        spec = msgspec.structs.replace(spec, **names._asdict())
        wanted = await context.ledger.address_set(spec.address_set)
        addresses = frozenset(map(spec.rules.parse_address, wanted.addresses))
        store = await shared_store(context, spec.sink, spec.sink_id)
        with stop_on(context.stop_requested) as stop:
            try:
                for span in chunk.spans:
                    await Search(spec, addresses, store, context, stop).run(span)
            except Exception as error:
                if stop.requested:  # the chunk itself did not fail
                    raise StopRequested(str(error)) from error
                raise

    return Job(
        function=search_wallets,
        name=NAME,
        version=VERSION,
        partitions=block_heights(),
        retry=RetryPolicy.unbounded(),
        chunk_size=1000,
        lease_seconds=LEASE_SECONDS,
    )
