"""Searches heights for the movements of an address set, and stores what it finds.

    stored with all tables     -> read the rows of the addresses; no node is asked
    otherwise                  -> search for events, then fetch the blocks that have some; where
                                  accounts of the past are known, also those that changed coins
    otherwise, with `scan`     -> fetch every block
    with `traces`              -> trace every block, too, even if it is stored

Heights are searched in ascending order, in parts. The store records a part together with its
movements, and only then is progress reported. A run that continues after another one skips what the
store has recorded, so no part is searched twice.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import reduce
from operator import and_
from types import MappingProxyType

import msgspec
import pyarrow as pa

from gapless.chains.movements import Movement
from gapless.core.errors import (
    BrokenSeam,
    FencedOff,
    MissingHistory,
    PermanentError,
    TransientError,
)
from gapless.core.proof import AGREED, LINK, Proof
from gapless.core.ranges import RangeSet, Span
from gapless.ledger.syncs import AddressSet
from gapless.pipeline.ordering import in_order
from gapless.pipeline.stop import StopSignal
from gapless.pipeline.unit import Unit, check_units
from gapless.runtime.context import Context
from gapless.wallets.coins import FoundCoins, SpanEnds
from gapless.wallets.held import HeldTables, held_tables
from gapless.wallets.live import interpret
from gapless.wallets.opening import OpenNodes, OpenStore, shared_nodes
from gapless.wallets.records import Scan
from gapless.wallets.spec import WalletsSpec
from gapless.wallets.tracing import traced_movements
from gapless.wallets.ways import Evidence, Way, suffices

Also = Mapping[Scan, Collection[bytes]]
"""Scans of some of the addresses that are written together with that of all."""
_STORED_AT_ONCE = 100_000  # blocks that are searched in stored tables at once


class Search:
    """The search of one run."""

    def __init__(
        self,
        spec: WalletsSpec,
        addresses: frozenset[bytes],
        store: OpenStore,
        context: Context,
        stop: StopSignal,
    ) -> None:
        self._spec = spec
        self._addresses = addresses
        self._store = store
        self._context = context
        self._stop = stop
        self._linked = LINK in spec.checks
        self._traces = spec.way is Way.TRACES

    async def run(self, span: Span) -> None:
        """Searches a span; reports progress for each part that is stored."""
        chain_id, rules = self._spec.chain_id, self._spec.rules
        done = await self._done()
        held = await held_tables(self._store.sink, rules, chain_id, span)
        for part, is_done in _parts(span, done):
            if is_done:
                self._context.progress(part.last)
                continue
            for piece, is_held in _parts(part, held.heights):
                if is_held:
                    size = self._spec.batch_size if self._traces else _STORED_AT_ONCE
                    for window in piece.windows(size):
                        self._stop.check()
                        await self._search_tables(window, held)
                else:
                    await self._search_chain(piece)

    async def _done(self) -> RangeSet:
        """The heights that earlier runs have searched, in a way that suffices."""
        scans = await self._store.wallets.scans(
            self._spec.chain_id, self._spec.address_set, self._addresses
        )
        return RangeSet(it.span for it in scans if suffices(it.source, self._spec.way))

    async def _search_tables(self, span: Span, held: HeldTables) -> None:
        spec, store = self._spec, self._store
        rows = await store.wallets.find_rows(spec.rules, spec.chain, self._addresses, span)
        found = await store.compute(spec.rules.movements, rows, spec.chain, self._addresses)
        proof, source = held.proof(span), Evidence.TABLES
        if self._traces:
            nodes = await shared_nodes(self._context, spec)
            blocks = await self._stored_transactions(span)
            more, is_agreed = await self._trace(nodes, span, blocks, found)
            found, source, proof = [*found, *more], Evidence.TRACES, _and_agreed(proof, is_agreed)
        parent, last = await self._ends(span)
        still = await held_tables(store.sink, spec.rules, spec.chain_id, span)
        if still.heights != RangeSet.of(span) or parent is None or last is None:
            raise TransientError(f"stored blocks {span} were removed while they were searched")
        scan = self._scan(span, source, proof, parent, last)
        await self._write(scan, found)

    async def _ends(self, span: Span) -> tuple[bytes | None, bytes | None]:
        """The parent hash of the first stored block of a span, and the hash of the last one."""
        anchor = self._spec.family.tables[0]

        async def value(height: int, column: str) -> bytes | None:
            block = Span(height, height)
            rows = await self._store.sink.read(anchor, self._spec.chain_id, block, (column,))
            return rows[column][0].as_py() if rows.num_rows else None

        links = anchor.links
        return await value(span.first, links.parent), await value(span.last, links.hash)

    async def _search_chain(self, span: Span) -> None:
        nodes = await shared_nodes(self._context, self._spec)
        if self._spec.way.reads_all:
            source = Evidence.TRACES if self._traces else Evidence.BLOCKS
            await self._search_blocks(nodes, span, RangeSet.of(span), source, None)
            return
        if not nodes.accounts.finds_events:
            raise PermanentError(
                f"nodes of `{self._spec.network}` cannot search for events, and blocks {span}"
                " are not stored",
                hint="fetch the blocks, or scan every block",
            )
        found = await self._stop.limit(nodes.accounts.hits(span, sorted(self._addresses)))
        hits = RangeSet.from_members(found.heights)
        ends = await self._stop.limit(nodes.coins.ends(span, self._addresses, self._spec.until))
        if ends is None:
            await self._search_blocks(nodes, span, hits, Evidence.EVENTS, _agreed(found.is_agreed))
        else:
            await self._search_coins(nodes, ends, hits, found.is_agreed)

    async def _search_coins(
        self, nodes: OpenNodes, ends: SpanEnds, hits: RangeSet, is_agreed: bool
    ) -> None:
        """Searches a span for events and coins; only for events if accounts are forgotten."""
        found = FoundCoins()
        await self._collect(nodes, hits, found)
        bisected = await self._stop.limit(nodes.coins.bisect(ends, found.changes))
        events = self._scan(ends.span, Evidence.EVENTS, _agreed(is_agreed), b"", b"")
        if bisected is None:
            await self._write(events, found.movements)
            return
        await self._collect(nodes, RangeSet.from_members(bisected.heights) - hits, found)
        rest, proven = bisected.remainders(found.changes, found.places)
        proof = _agreed(is_agreed and bisected.is_agreed)
        coins = self._scan(ends.span, Evidence.ACCOUNTS, proof, b"", b"")
        movements = [*found.movements, *rest]
        if proven == self._addresses:
            await self._write(coins, movements)
        elif proven:
            some = AddressSet.of(self._spec.chain_id, map(self._spec.rules.format_address, proven))
            also = {msgspec.structs.replace(coins, address_set=some.id): proven}
            await self._write(events, movements, also)
        else:
            await self._write(events, movements)

    async def _collect(self, nodes: OpenNodes, wanted: RangeSet, found: FoundCoins) -> None:
        """Fetches blocks, and keeps what they say about the addresses."""
        rules, chain = self._spec.rules, self._spec.chain
        async with aclosing(self._fetched(nodes, wanted)) as fetched:
            async for unit in fetched:
                movements = await self._store.compute(
                    rules.movements, unit.tables, chain, self._addresses
                )
                found.add(rules, unit.tables, movements)
        self._stop.check()

    async def _search_blocks(
        self, nodes: OpenNodes, span: Span, wanted: RangeSet, source: str, proof: Proof | None
    ) -> None:
        """Fetches the wanted blocks of a span, and stores the span part by part."""
        first, units = span.first, list[Unit]()
        async with aclosing(self._fetched(nodes, wanted)) as fetched:
            async for unit in fetched:
                units.append(unit)
                if sum(it.span.size for it in units) >= self._spec.batch_size:
                    part = Span(first, unit.span.last)
                    await self._store_units(nodes, part, units, source, proof)
                    first, units = part.last + 1, []
        self._stop.check()
        if first <= span.last:
            await self._store_units(nodes, Span(first, span.last), units, source, proof)

    async def _fetched(self, nodes: OpenNodes, wanted: RangeSet) -> AsyncGenerator[Unit, None]:
        """Fetches and checks the wanted blocks, in order."""
        spans = _units(wanted, nodes)
        fetches = in_order(nodes.reader.fetch, spans, lambda: nodes.pool.slots, self._stop)
        try:
            async with aclosing(fetches) as fetched:
                async for unit in fetched:
                    yield unit
        except MissingHistory as error:
            raise PermanentError(f"{error}: {error.hint}", partition=error.height) from error

    async def _store_units(
        self,
        nodes: OpenNodes,
        span: Span,
        units: Sequence[Unit],
        source: str,
        proof: Proof | None,
    ) -> None:
        spec = self._spec
        if proof is None:  # every block was fetched
            proof = reduce(and_, (unit.proof for unit in units))
            if self._linked:
                proof = Proof(proof.proven | {LINK}, proof.unproven)
                try:
                    check_units(units, None)
                except BrokenSeam as seam:
                    raise TransientError(f"the chain changed while it was read: {seam}") from seam
        found = list[Movement]()
        if units:
            names = units[0].tables
            rows = {name: pa.concat_tables([it.tables[name] for it in units]) for name in names}
            found = await self._store.compute(
                spec.rules.movements, rows, spec.chain, self._addresses
            )
            if self._traces:
                more, is_agreed = await self._trace(nodes, span, rows, found)
                found, proof = [*found, *more], _and_agreed(proof, is_agreed)
        parent = last = b""
        if units and units[0].span.first == span.first:
            parent = units[0].parents[0]
        if units and units[-1].span.last == span.last:
            last = units[-1].hashes[-1]
        await self._write(self._scan(span, source, proof, parent, last), found)

    async def _trace(
        self,
        nodes: OpenNodes,
        span: Span,
        rows: Mapping[str, pa.Table],
        visible: Sequence[Movement],
    ) -> tuple[list[Movement], bool]:
        """Returns what traces show beyond blocks, and whether two endpoints agree on it."""
        heights = range(span.first, span.last + 1)
        traces = await self._stop.limit(nodes.accounts.traces(heights))
        if traces is None:
            raise PermanentError(
                f"no endpoint of `{self._spec.network}` can trace blocks {span}",
                hint="give an endpoint that offers `trace_block` or `debug_traceBlockByNumber`",
            )
        found = await self._store.compute(
            traced_movements, self._spec.rules, rows, traces.blocks, visible, self._addresses
        )
        return found, traces.is_agreed

    async def _stored_transactions(self, span: Span) -> dict[str, pa.Table]:
        """The stored blocks of a span, and who signed their transactions."""
        rules, chain_id = self._spec.rules, self._spec.chain_id
        wanted = {
            rules.tables[0]: ("chain_id", "block_number", "hash", "block_timestamp"),
            rules.transactions: ("block_number", "transaction_index", "hash", rules.signer),
        }
        tables = {table.name: table for table in self._spec.family.tables}
        return {
            name: await self._store.sink.read(tables[name], chain_id, span, columns)
            for name, columns in wanted.items()
        }

    def _scan(self, span: Span, source: str, proof: Proof, parent: bytes, last: bytes) -> Scan:
        return Scan(
            chain_id=self._spec.chain_id,
            address_set=self._spec.address_set,
            span=span,
            source=source,
            proven=proof.proven,
            unproven=proof.unproven,
            parent_hash=parent,
            last_hash=last,
            fence=self._context.fence,
        )

    async def _write(
        self, scan: Scan, found: Sequence[Movement], also: Also = MappingProxyType({})
    ) -> None:
        try:
            await self._store.wallets.write(scan, self._addresses, found, also, interpret)
        except (FencedOff, BrokenSeam) as error:
            raise TransientError(f"{error}; it will be retried") from error
        self._context.progress(scan.span.last)


def _agreed(is_agreed: bool) -> Proof:
    agreed = frozenset({AGREED})
    return Proof(proven=agreed) if is_agreed else Proof(unproven=agreed)


def _and_agreed(proof: Proof, is_agreed: bool) -> Proof:
    more = _agreed(is_agreed)
    return Proof(proof.proven | more.proven, proof.unproven | more.unproven)


def _parts(span: Span, marked: RangeSet) -> Iterator[tuple[Span, bool]]:
    """Cuts a span, in order, into parts that are marked and parts that are not."""
    whole = RangeSet.of(span)
    parts = [(it, True) for it in (marked & whole).spans]
    parts += [(it, False) for it in (whole - marked).spans]
    return iter(sorted(parts))


def _units(wanted: RangeSet, nodes: OpenNodes) -> Iterator[Span]:
    """Cuts heights into requests, as large as the nodes allow by then."""
    for span in wanted.spans:
        first = span.first
        while first <= span.last:
            last = min(span.last, first + max(1, nodes.reader.unit) - 1)
            yield Span(first, last)
            first = last + 1
