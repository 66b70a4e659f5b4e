"""Plans a fetch: where the chain stands, what is stored already, what is left to do.

The sink records what it holds in the same transaction as its rows. So fetching a finished range
again requests nothing, extending it requests the difference, and a sink that was deleted, restored
or replaced gets exactly what it lacks. Blocks stored with weaker checks than requested count as
missing.

The id of a fetch is derived from its content, so repeating a fetch resumes its backfill.
"""

from __future__ import annotations

import base64
import hashlib
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from gapless.blocks.job import NAME, VERSION
from gapless.blocks.spec import BlocksSpec
from gapless.chains import Level, Network, family_of
from gapless.chains.family import Source
from gapless.config import Fetch
from gapless.core.anchors import Anchor
from gapless.core.chunk import Order
from gapless.core.errors import NotFound, UsageError
from gapless.core.heights import Heights, Tip
from gapless.core.partitions import block_heights
from gapless.core.ranges import RangeSet, Span
from gapless.core.retry import RetryPolicy
from gapless.core.selector import Range, Selection, summary
from gapless.core.similar import known_names
from gapless.ledger import Ledger
from gapless.ledger.records import Backfill, BackfillRequest
from gapless.runtime.slots import FOREGROUND


def datasets_of(text: str | None, network: Network) -> tuple[str, ...]:
    """Parses datasets such as `blocks,logs`; the default is in `default_datasets`.

    The anchor is always included: it links, counts and proves the others.
    """
    known = [table.name for table in family_of(network).tables]
    usual = ",".join(default_datasets(network))
    names = {each.strip() for each in (text or usual).split(",") if each.strip()}
    if unknown := names - set(known):
        raise UsageError(
            f"there is no dataset `{min(unknown)}`", hint=known_names(min(unknown), known)
        )
    return tuple(name for name in known if name in names | {known[0]})


def default_datasets(network: Network) -> tuple[str, ...]:
    """All tables of a network except those that are derived from others."""
    return tuple(table.name for table in family_of(network).tables if not table.derived_from)


async def survey(source: Source, network: Network, confirmations: int | None = None) -> Tip:
    """Finds the head of the chain and its latest final block.

    The latest final block is the requested number of `confirmations` below the head; without that,
    the node's `finalized` block; if the node reports none, the network's default depth applies.
    """
    head = await source.head()
    if confirmations is not None:
        return Tip(head, max(0, head - confirmations), by_depth=True)
    finalized = await source.finalized()
    if finalized is None:
        return Tip(head, max(0, head - network.finality.depth), by_depth=True)
    return Tip(max(head, finalized), finalized, by_depth=False)


@dataclass(frozen=True)
class FetchRequest:
    """What the user requests, before contacting a node or sink; endpoints and sink by name."""

    network: Network
    heights: Heights
    datasets: tuple[str, ...]
    endpoints: tuple[str, ...]
    sink: str
    verify: Level
    numbers: Fetch
    anchors: tuple[Anchor, ...] = ()
    order: Order = Order.OLDEST
    retry: RetryPolicy = RetryPolicy()  # noqa: RUF009 - frozen
    queue: str = FOREGROUND
    confirmations: int | None = None
    lease_seconds: float = 60.0
    processes: int = 1
    refetch: bool = False
    only: RangeSet | None = None  # the heights to fetch again; None: fetch what is missing
    replace_branch: bool = False  # whether a branch that the chain abandoned may be removed

    def chunk_size(self, blocks: int) -> int:
        """The chunk size: small enough that every process gets chunks even of a short range."""
        if self.processes == 1:
            return self.numbers.chunk_size
        return min(self.numbers.chunk_size, -(-blocks // (2 * self.processes)))

    def spec(self, chain_id: int, sink_id: str) -> BlocksSpec:
        return BlocksSpec(
            network=self.network.name,
            chain_id=chain_id,
            endpoints=self.endpoints,
            sink=self.sink,
            sink_id=sink_id,
            datasets=self.datasets,
            verify=self.verify,
            checks=tuple(sorted(family_of(self.network).level(self.verify, self.datasets))),
            anchors=tuple(map(str, sorted(self.anchors))),
            batch_size=self.numbers.batch_size,
            refetch=self.refetch,
        )


def fetch_id(
    spec: BlocksSpec, span: Span, only: RangeSet | None = None, generation: int = 1
) -> str:
    """The id of the n-th backfill of this span, or of part of it, into this sink."""
    about = [spec.network, spec.chain_id, spec.sink_id, spec.datasets, spec.checks, span]
    about += [spec.anchors, spec.refetch, () if only is None else only.spans]
    digest = hashlib.sha256(msgspec.json.encode(about)).digest()
    name = f"bf_{base64.b32encode(digest).decode().lower()[:10]}"
    return name if generation == 1 else f"{name}-{generation}"


async def unfinished(
    ledger: Ledger, spec: BlocksSpec, span: Span, only: RangeSet | None = None
) -> tuple[Backfill | None, str]:
    """The unfinished backfill of this fetch, if there is one, and the next free id."""
    generation = 1
    found: Backfill | None = None
    with suppress(NotFound):
        while found is None or found.state.ended:
            found = await ledger.backfill(fetch_id(spec, span, only, generation))
            generation += 1
        return found, found.id
    return None, fetch_id(spec, span, only, generation)


def request_for_blocks(
    backfill_id: str, spec: BlocksSpec, span: Span, missing: RangeSet, request: FetchRequest
) -> BackfillRequest:
    """The request to the ledger for the missing blocks of the span."""
    return BackfillRequest(
        id=backfill_id,
        job=NAME,
        job_version=VERSION,
        selector=summary(Range(str(span.first), str(span.last))),
        selection=Selection(block_heights().kind, missing.spans),
        chunk_size=request.chunk_size(len(missing)),
        max_concurrent_runs=request.numbers.max_concurrent,
        queue=request.queue,
        order=request.order,
        retry=request.retry,
        lease_seconds=request.lease_seconds,
        spec=msgspec.json.decode(msgspec.json.encode(spec)),
    )
