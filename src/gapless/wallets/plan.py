"""Plans passes: which heights are searched for which wallets, in which segments.

Wallets that are added together and lack the same heights on a network share one pass. A wallet that
has been added before gets what it lacks: before its heights, after them, and all heights that were
not searched in the way that is requested now. Nothing is planned for what it has, except that
segments which wait for a retry become due, and abandoned ones are retried.

Where nodes cannot search for events, a pass without `scan` needs stored tables. So it ends where
they end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from gapless.core.errors import UsageError
from gapless.core.partitions import block_heights
from gapless.core.ranges import RangeSet, Span
from gapless.core.retry import RetryPolicy
from gapless.core.selector import Range, Selection, summary
from gapless.ledger.groups import Hook
from gapless.ledger.records import BackfillRequest
from gapless.ledger.syncs import (
    MOST_SEGMENTS,
    AddressSet,
    PassRequest,
    PlannedHeights,
    Planner,
    SyncKey,
    WalletPlan,
)
from gapless.runtime.slots import FOREGROUND
from gapless.wallets.request import NetworkWallets, WalletsRequest
from gapless.wallets.spec import GroupSpec, WalletsSpec
from gapless.wallets.ways import Way

NAME, VERSION = "wallets", 1
HOOK, HOOK_VERSION = "classify", 1
LEASE_SECONDS = 180.0
QUIET_SECONDS = 10.0
"""How long the hook of a group waits for more wallets, unless somebody waits for it."""
_RETRIES = 5  # of a pass with one segment
_FOREGROUND_DELAYS = {"base": 2.0, "max_delay": 60.0}


@dataclass(frozen=True)
class WalletChain:
    """A network as it is: how far it goes, and what the sink holds of it."""

    wallets: NetworkWallets
    chain_id: int
    sink_id: str
    start: int | None  # the first height; None: the first one of the chain, or as it was
    final: int
    stored: RangeSet  # with all tables that wallets need
    finds_events: bool

    def group(self, request: WalletsRequest) -> GroupSpec:
        return GroupSpec(
            group=request.group,
            network=self.wallets.network.name,
            chain_id=self.chain_id,
            sink=request.sink,
            sink_id=self.sink_id,
            endpoints=self.wallets.blocks.endpoints,
        )

    def queue(self, request: WalletsRequest, configured: str) -> str:
        """The queue of its passes.

        Only processes that were given a sink and endpoints of the chain serve a queue of passes
        whose names others cannot look up.
        """
        if request.shared:
            return configured
        return f"{FOREGROUND}-{self.chain_id}-{self.sink_id[:12]}"

    def keys(self, request: WalletsRequest) -> list[SyncKey]:
        return [
            SyncKey(request.group, address, self.chain_id, self.sink_id)
            for address in self.wallets.addresses
        ]


def planner(
    request: WalletsRequest,
    chains: Sequence[WalletChain],
    queue: str,
    new_id: Callable[[], str],
    *,
    detached: bool,
) -> Planner:
    """Returns what decides about the passes of a request, given the heights planned before."""

    def plan(planned: Mapping[SyncKey, PlannedHeights]) -> WalletPlan:
        passes: list[PassRequest] = []
        renewed: list[SyncKey] = []
        for chain in chains:
            keys = chain.keys(request)
            renewed += (key for key in keys if key in planned)
            lacking: defaultdict[Span, list[str]] = defaultdict(list)
            for key in keys:
                for span in _lacking(chain, planned.get(key), request.way):
                    lacking[span].append(key.address)
            for span, addresses in sorted(lacking.items()):
                found = AddressSet.of(chain.chain_id, addresses)
                terms = _terms(chain, span, detached=detached)
                on = chain.queue(request, queue)
                passes.append(_pass(request, chain, found, span, new_id(), on, terms))
        return WalletPlan(tuple(passes), tuple(renewed))

    return plan


def segment_size(blocks: int, smallest: int) -> int:
    """The heights of a segment: not too few, and so many that the plan is not too long."""
    return max(smallest, -(-blocks // MOST_SEGMENTS))


def _lacking(chain: WalletChain, planned: PlannedHeights | None, way: Way) -> list[Span]:
    """The heights to plan for a sync: what no pass has searched in this way."""
    if planned is None:
        first = chain.start or 0
        return [Span(first, _last(chain, first, way))]
    first, last = planned.heights
    if chain.start is not None and chain.start < first:
        before = Span(chain.start, first - 1)
        if before.last > chain.final:
            raise _not_final(chain, before.last)
        if _last(chain, before.first, way) < before.last:
            raise _not_stored(chain, before.first)
        first = before.first
    after = last + 1
    if after <= chain.final and (_finds_all(chain, way) or after in chain.stored):
        last = _last(chain, after, way)
    done = RangeSet(
        span
        for name, heights in planned.ways.items()
        if _way(name).includes(way)
        for span in heights.spans
    )
    return [*map(Span._make, (RangeSet.of((first, last)) - done).spans)]


def _way(name: str) -> Way:
    return Way(name) if name else Way.EVENTS


def _last(chain: WalletChain, first: int, way: Way) -> int:
    """The last height that can be searched from a first one on."""
    if first > chain.final:
        raise _not_final(chain, first)
    if _finds_all(chain, way):
        return chain.final
    run = next((it for it in chain.stored.spans if it.first <= first <= it.last), None)
    if run is None:
        raise _not_stored(chain, first)
    return min(run.last, chain.final)


def _finds_all(chain: WalletChain, way: Way) -> bool:
    """Whether blocks that are not stored can be searched."""
    return way.reads_all or chain.finds_events


def _not_final(chain: WalletChain, height: int) -> UsageError:
    return UsageError(
        f"block {height:,} of `{chain.wallets.network.name}` is not final yet; the latest final"
        f" block is {chain.final:,}",
        hint="start at an earlier block, or wait until the node has caught up",
    )


def _not_stored(chain: WalletChain, first: int) -> UsageError:
    network, tables = chain.wallets.network.name, ",".join(chain.wallets.rules.tables)
    return UsageError(
        f"nodes of `{network}` cannot search for events of an address, and the sink does not hold"
        f" {tables} from block {first:,} on",
        hint="fetch these tables first, start at a block that is stored, or scan every block",
    )


def _terms(chain: WalletChain, span: Span, *, detached: bool) -> tuple[int, RetryPolicy]:
    """The size of the segments of a pass, and how they are retried."""
    size = segment_size(span.size, chain.wallets.blocks.numbers.chunk_size)
    is_segmented = span.size > size
    policy = RetryPolicy.unbounded() if is_segmented else RetryPolicy.backoff(retries=_RETRIES)
    return size, policy if detached else policy.numbered(**_FOREGROUND_DELAYS)


def _pass(
    request: WalletsRequest,
    chain: WalletChain,
    addresses: AddressSet,
    span: Span,
    pass_id: str,
    queue: str,
    terms: tuple[int, RetryPolicy],
) -> PassRequest:
    size, retry = terms
    group = chain.group(request)
    hook = Hook(HOOK, HOOK_VERSION, queue, RetryPolicy(), msgspec.to_builtins(group))
    blocks = chain.wallets.blocks.spec(chain.chain_id, chain.sink_id)
    fields = {name: getattr(blocks, name) for name in type(blocks).__struct_fields__}
    spec = WalletsSpec(
        **fields,
        group=request.group,
        address_set=addresses.id,
        way=request.way,
        until=chain.final,
    )
    return PassRequest(
        backfill=BackfillRequest(
            id=pass_id,
            job=NAME,
            job_version=VERSION,
            selector=summary(Range(str(span.first), str(span.last))),
            selection=Selection(block_heights().kind, (span,)),
            chunk_size=size,
            max_concurrent_runs=chain.wallets.blocks.numbers.max_concurrent,
            queue=queue,
            retry=retry,
            lease_seconds=LEASE_SECONDS,
            group=group.name,
            hook=msgspec.json.encode(hook).decode(),
            quiet_seconds=QUIET_SECONDS,
            spec=msgspec.json.decode(msgspec.json.encode(spec)),
        ),
        group=request.group,
        addresses=addresses,
        network=chain.wallets.network.name,
        sink=request.sink,
        sink_id=chain.sink_id,
    )
