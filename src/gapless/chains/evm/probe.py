"""Find out what an endpoint supports, before a fetch depends on it.

The probe sends the same requests as a fetch and guesses nothing: every finding was answered or
refused during the probe. It costs a few hundred calls and a few seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import msgspec
from msgspec import Struct

from gapless.chains.evm.decode.structs import UNREADABLE, is_given
from gapless.chains.evm.networks import CUSTOM, NETWORKS
from gapless.chains.evm.queries import QUERIES
from gapless.chains.evm.source import EvmSource
from gapless.chains.findings import Findings
from gapless.chains.identity import refuse_wrong_chain
from gapless.chains.network import Network
from gapless.chains.probing import PATIENCE, TIMEOUTS, WORKERS, find_earliest, measure_rate
from gapless.core.errors import BadAnswer, MissingHistory, SourceError
from gapless.providers import Call, EndpointSpec, Pool, Refused
from gapless.providers.endpoint import LARGEST_BATCH
from gapless.providers.provider_errors import Reaction

_BATCHES = (20, 40, 80, 100)  # a fetch grows them in the same steps
_RANGES = (10_000, 2000, 1000, 500, 100, 10, 1)
_NO_SUCH_TOPIC = f"0x{1:064x}"  # a filter that matches nothing: only the range is tested
_BLOCKS_SEARCHED = 50  # for a transaction to test with
NO_ANCHORS: Mapping[int, bytes] = MappingProxyType({})


class _Genesis(Struct, gc=False):
    hash: str


async def probe(
    spec: EndpointSpec, network: Network | None = None, anchors: Mapping[int, bytes] = NO_ANCHORS
) -> Findings:
    """Probe an endpoint; it must be on the network, if one is given."""
    wanted = None if network is None else network.chain_id
    async with Pool(
        [spec], QUERIES, workers=WORKERS, chain_id=wanted, patience=PATIENCE, timeouts=TIMEOUTS
    ) as pool:
        client = await _client(pool)
        assert pool.chain_id is not None
        chain = network or _network_of(pool.chain_id)
        source = EvmSource(pool, chain, receipts=True)
        head = await source.head()
        by_block = await _has(pool, Call("eth_getBlockReceipts", (hex(head),), head))
        earliest = await find_earliest(head, partial(_is_there, pool, receipts=by_block))
        by_transaction = await _by_transaction(pool, head, earliest)
        logs_range = await _logs_range(pool, head, earliest)
        return Findings(
            endpoint=spec.name,
            chain_id=pool.chain_id,
            network=chain.name,
            client=client,
            head=head,
            finalized=await source.finalized(),
            known_block=await refuse_wrong_chain(
                source, pool.names, {**dict(chain.anchors), **anchors}, head, chain.name, anchors
            ),
            genesis=await _genesis(pool),
            earliest_block=earliest,
            receipts_by_block=by_block,
            receipts_by_transaction=by_transaction,
            batch_calls=await _batch(pool),
            logs_range=logs_range,
            rate=await measure_rate(pool, source, head, earliest),
            calls=pool.calls.total(),
            cost=_cost(by_block=by_block, by_transaction=by_transaction, logs=bool(logs_range)),
        )


def _cost(*, by_block: bool, by_transaction: bool | None, logs: bool) -> str:
    if by_block:
        return "a block with its receipts costs 2 calls"
    if by_transaction:
        return "a block costs 1 call and 1 more for each of its transactions"
    if logs:
        return "receipts are not available: logs are fetched by range, and nothing proves them"
    return "neither receipts nor logs are available: only blocks can be fetched"


def _network_of(chain_id: int) -> Network:
    known = (it for it in NETWORKS if it.chain_id == chain_id)
    return next(known, None) or replace(CUSTOM, chain_id=chain_id)


async def _genesis(pool: Pool) -> str | None:
    call = Call("eth_getBlockByNumber", ("0x0", False), 0)
    try:
        (answer,) = (await pool.ask([call])).results
        return msgspec.json.decode(answer, type=_Genesis).hash if is_given(answer) else None
    except (SourceError, *UNREADABLE):
        return None


async def _client(pool: Pool) -> str | None:
    try:
        (answer,) = (await pool.ask([Call("web3_clientVersion")])).results
        return msgspec.json.decode(answer, type=str)
    except (Refused, *UNREADABLE):
        if pool.chain_id is None:  # it does not report a chain id: this is not an EVM node
            raise
        return None


async def _has(pool: Pool, call: Call) -> bool:
    """Whether a call is answered, even if with null."""
    try:
        await pool.ask([call])
    except MissingHistory:
        return True
    except Refused as refused:
        return refused.refusal.reaction is not Reaction.OTHER_METHOD
    return True


async def _is_there(pool: Pool, height: int, *, receipts: bool) -> bool:
    calls = [Call("eth_getBlockByNumber", (hex(height), False), height)]
    if receipts:
        calls.append(Call("eth_getBlockReceipts", (hex(height),), height))
    try:
        answers = await pool.ask(calls)
    except MissingHistory:
        return False
    return all(map(is_given, answers.results))


async def _by_transaction(pool: Pool, head: int, earliest: int) -> bool | None:
    for height in range(head, max(earliest, head - _BLOCKS_SEARCHED), -1):
        call = Call("eth_getBlockByNumber", (hex(height), False), height)
        (answer,) = (await pool.ask([call])).results
        if is_given(answer) and (hashes := _hashes(answer)):
            return await _has(pool, Call("eth_getTransactionReceipt", (hashes[0],), height))
    return None


class _Hashes(Struct, gc=False):
    transactions: list[str]


def _hashes(answer: msgspec.Raw) -> list[str]:
    try:
        return msgspec.json.decode(answer, type=_Hashes).transactions
    except UNREADABLE as error:
        raise BadAnswer(f"the returned block cannot be read: {error}") from error


async def _batch(pool: Pool) -> int:
    """Return the largest batch that is answered; the pool learns it as in any fetch."""
    for size in _BATCHES:
        await pool.ask([Call("eth_chainId")] * size)
    (profile,) = pool.profiles().values()
    return LARGEST_BATCH if profile.batch_calls is None else profile.batch_calls.value


async def _logs_range(pool: Pool, head: int, earliest: int) -> int | None:
    """Return the largest range of logs that is answered; the filter matches no logs."""
    most = head - earliest + 1
    for size in (min(most, each) for each in _RANGES):
        first = head - size + 1
        wanted = {"fromBlock": hex(first), "toBlock": hex(head), "topics": [_NO_SUCH_TOPIC]}
        try:
            await pool.ask([Call("eth_getLogs", (wanted,), first)])
        except Refused as refused:
            if refused.refusal.reaction is not Reaction.SMALLER_RANGE:
                return None
            most = min(size - 1, refused.refusal.most or size - 1)
            if most < 1:
                return None
        except MissingHistory:
            return None
        else:
            return size
    return None
