"""Find out what an endpoint supports, before a fetch depends on it.

The probe sends the same requests as a fetch and guesses nothing: every finding was answered or
refused during the probe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import msgspec
from msgspec import Struct

from gapless.chains.findings import Findings
from gapless.chains.identity import refuse_wrong_chain
from gapless.chains.network import Network
from gapless.chains.probing import PATIENCE, TIMEOUTS, WORKERS, find_earliest, measure_rate
from gapless.chains.tron.networks import TRON_CUSTOM, TRON_NETWORKS
from gapless.chains.tron.queries import (
    MOST_BLOCKS,
    NODE_INFO,
    QUERIES,
    SOLID,
    block_call,
    header_of,
    infos_call,
)
from gapless.chains.tron.source import TronSource
from gapless.core.errors import MissingHistory, SourceError
from gapless.core.ranges import Span
from gapless.providers import Call, EndpointSpec, Pool, Refused
from gapless.providers.calls import is_null
from gapless.providers.provider_errors import Reaction

_RANGES = (20, 40, 80, 100)  # blocks; a fetch grows them in the same steps


class _Settings(Struct, gc=False):
    version: str = msgspec.field(default="", name="codeVersion")


class _NodeInfo(Struct, gc=False):
    settings: _Settings = msgspec.field(default_factory=_Settings, name="configNodeInfo")


async def probe(
    spec: EndpointSpec, network: Network | None, anchors: Mapping[int, bytes]
) -> Findings:
    """Probe an endpoint; it must be on the network, if one is given."""
    wanted = None if network is None else network.chain_id
    async with Pool(
        [spec], QUERIES, workers=WORKERS, chain_id=wanted, patience=PATIENCE, timeouts=TIMEOUTS
    ) as pool:
        (genesis,) = (await pool.ask([QUERIES.chain])).results
        assert pool.chain_id is not None
        chain = network or _network_of(pool.chain_id)
        source = TronSource(pool, chain, infos=True)
        head = await source.head()
        infos = await _has(pool, infos_call(head))
        earliest = await find_earliest(head, partial(_is_there, pool))
        first = header_of(genesis)
        return Findings(
            endpoint=spec.name,
            chain_id=pool.chain_id,
            network=chain.name,
            client=await _client(pool),
            head=head,
            finalized=await source.finalized(),
            known_block=await refuse_wrong_chain(
                source, pool.names, {**dict(chain.anchors), **anchors}, head, chain.name, anchors
            ),
            genesis=None if first is None else first.hash.hex(),
            earliest_block=earliest,
            batch_calls=await _range(pool, head, earliest),
            offers={"transaction infos": infos, "solid head": await _has(pool, SOLID)},
            rate=await measure_rate(pool, source, head, earliest),
            calls=pool.calls.total(),
            cost=_cost(infos=infos),
        )


def _cost(*, infos: bool) -> str:
    if infos:
        return "a block with its infos costs 1 call, and a range of blocks 1 more"
    return "transaction infos are not available: only blocks can be fetched"


def _network_of(chain_id: int) -> Network:
    known = (it for it in TRON_NETWORKS if it.chain_id == chain_id)
    return next(known, None) or replace(TRON_CUSTOM, chain_id=chain_id)


async def _client(pool: Pool) -> str | None:
    try:
        (answer,) = (await pool.ask([NODE_INFO])).results
        version = msgspec.json.decode(answer, type=_NodeInfo).settings.version
    except (SourceError, msgspec.MsgspecError):
        return None
    return f"java-tron {version}" if version else None


async def _has(pool: Pool, call: Call) -> bool:
    """Whether a call is answered, even if with nothing."""
    try:
        await pool.ask([call])
    except MissingHistory:
        return True
    except Refused as refused:
        return refused.refusal.reaction is not Reaction.OTHER_METHOD
    return True


async def _is_there(pool: Pool, height: int) -> bool:
    try:
        (answer,) = (await pool.ask([block_call(height)])).results
    except MissingHistory:
        return False
    return not is_null(answer)


async def _range(pool: Pool, head: int, earliest: int) -> int:
    """Return the largest range that is answered; the pool learns it as in any fetch."""
    for size in _RANGES:
        span = Span(max(earliest, head - size + 1), head)
        await pool.ask([block_call(height) for height in range(span.first, span.last + 1)])
    (profile,) = pool.profiles().values()
    return MOST_BLOCKS if profile.batch_calls is None else profile.batch_calls.value
