"""The job `classify`: decides what movements mean to the wallets of a group, and sums them.

It is the hook of a group of wallets on one chain and runs each time the group is drained. First it
registers the wallets, so that blocks which are stored from now on are watched for them, and so that
nothing is missed between the end of their passes and the first watched block. Then it classifies
all movements of all members, because a new wallet changes what earlier movements mean. In the end,
it asks what new tokens are called, if a node answers.

What it writes depends only on what is stored and on the overrides. So it changes nothing when it
runs again. If two of them run at once, the one that began first gives way. Another ledger may have
wallets in the same group of the same sink: what it has found about them is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

import msgspec

from gapless.chains.movements import Movement, MovementKey, MovementKind
from gapless.core.errors import FencedOff, TransientError
from gapless.core.heights import HIGHEST
from gapless.core.partitions import epochs
from gapless.core.ranges import RangeSet, Span
from gapless.core.retry import RetryPolicy
from gapless.ledger.syncs import Sync, SyncState
from gapless.runtime.context import Context
from gapless.runtime.job import Chunk, Job
from gapless.wallets.categories import Flag, Overrides, WalletEntry, overridden, parse_category
from gapless.wallets.classify import Classifier
from gapless.wallets.held import held_tables
from gapless.wallets.job import NOTHING_KNOWN, Known, Names
from gapless.wallets.naming import name_tokens_of_group
from gapless.wallets.opening import OpenStore, shared_store
from gapless.wallets.past import Past
from gapless.wallets.plan import HOOK, HOOK_VERSION
from gapless.wallets.reading import group_syncs
from gapless.wallets.records import HistoryFilter, Member, Page
from gapless.wallets.spec import GroupSpec
from gapless.wallets.store.members import Settled
from gapless.wallets.ways import knows_coins

_ALL = Page(limit=2**31)
_ATTEMPTS = 5  # to classify movements that change meanwhile


def job(known: Known = NOTHING_KNOWN) -> Job:
    """The job; a sink that is not known is looked up by the name it had when it was planned."""

    async def classify(_chunk: Chunk, context: Context) -> None:
        spec = msgspec.convert(context.spec, GroupSpec)
        names = known.get((spec.chain_id, spec.sink_id), Names(spec.sink, spec.endpoints))
        store = await shared_store(context, names.sink, spec.sink_id)
        try:
            await _Epoch(spec, store, context).run()
        except FencedOff:  # a later epoch has begun
            return
        await name_tokens_of_group(context, spec, store.wallets, names.endpoints)

    return Job(
        function=classify,
        name=HOOK,
        version=HOOK_VERSION,
        partitions=epochs(),
        retry=RetryPolicy(),
        chunk_size=1,
        lease_seconds=60.0,
    )


class _Epoch:
    """One run of the hook."""

    def __init__(self, spec: GroupSpec, store: OpenStore, context: Context) -> None:
        self._spec = spec
        self._store = store
        self._wallets = store.wallets
        self._context = context
        self._epoch = 0  # until it begins

    async def run(self) -> None:
        spec, parse = self._spec, self._spec.rules.parse_address
        syncs = {parse(each.key.address): each for each in await self._syncs()}
        await self._register(syncs)
        self._epoch = await self._wallets.begin_epoch(spec.group, spec.chain_id)
        members = {each.address: each for each in await self._members()}
        if not members:
            return
        wallets = frozenset(members)
        incomplete = frozenset(
            [it for it in members.keys() & syncs.keys() if not _is_whole(syncs[it])]
            + [it for it in members.keys() - syncs.keys() if not members[it].is_complete]
        )
        for _ in range(_ATTEMPTS):
            if await self._classify(wallets, incomplete, wallets - syncs.keys()):
                break
        else:
            raise TransientError("movements keep changing while they are classified")
        settled = {
            address: await self._settled(members[address], syncs[address])
            for address in wallets & syncs.keys()
        }
        await self._wallets.settle(spec.group, spec.chain_id, settled, self._epoch)

    async def _syncs(self) -> list[Sync]:
        found = await group_syncs(self._context.ledger, self._spec.group)
        return [each for each in found if self._spec.owns(each.key)]

    async def _members(self) -> list[Member]:
        return await self._wallets.members(self._spec.chain_id, self._spec.group)

    async def _register(self, syncs: dict[bytes, Sync]) -> None:
        """Lets new blocks be watched for all wallets of the ledger, from where their syncs end.

        Blocks that were retracted after a pass had searched them are watched, too.
        """
        spec = self._spec
        watched = {it.address: it.above for it in await self._members()}
        ends: dict[tuple[int, int | None], list[bytes]] = {}
        for address, sync in syncs.items():
            first, last = sync.heights
            start = first if sync.state is SyncState.COMPLETE else None
            end = last if start is None else await self._searched_to(address, sync.heights)
            if watched.get(address, HIGHEST) > end:
                ends.setdefault((last, start), []).append(address)
        for (above, start), some in ends.items():
            await self._wallets.add_members(
                spec.group, spec.chain, spec.rules, some, above, searched_from=start
            )
        left = {each.key for each in await self._syncs()}
        # Whoever has removed a wallet meanwhile may have been here before.
        if removed := [address for address, sync in syncs.items() if sync.key not in left]:
            await self._wallets.remove_members(spec.group, spec.chain_id, removed)

    async def _classify(
        self, wallets: frozenset[bytes], incomplete: frozenset[bytes], others: frozenset[bytes]
    ) -> bool:
        """Classifies all movements; returns False if some of them changed meanwhile."""
        spec, store = self._spec, self._store
        overrides = {**await self._overrides(), **await self._overrides_of(others)}
        past = Past(incomplete=incomplete)
        classifier = Classifier(wallets, past, spec.rules.format_address)
        first = 0
        async with aclosing(self._wallets.stream(spec.chain_id, wallets)) as stream:
            async for facts in stream:
                self._context.check()
                entries = await store.compute(_entries, classifier, facts, overrides)
                span = Span(first, facts[-1].block_number)
                if not await self._wallets.replace_entries(
                    spec.group, spec.chain_id, span, facts, entries, self._epoch
                ):
                    return False
                first = span.last + 1
        return True

    async def _searched_to(self, address: bytes, span: Span) -> int:
        """The last height up to which the scans of an address have no hole."""
        scans = await self._wallets.scans_of(self._spec.chain_id, address)
        holes = RangeSet.of(span) - RangeSet(it.span for it in scans)
        return holes.spans[0].first - 1 if holes else span.last

    async def _settled(self, member: Member, sync: Sync) -> Settled:
        """How far the history of a wallet goes: by its scans, and by blocks watched for it."""
        spec, heights = self._spec, RangeSet.of(sync.heights)
        scans = await self._wallets.scans_of(spec.chain_id, member.address)
        missing = heights - RangeSet(it.span for it in scans)
        coinless = heights - RangeSet(it.span for it in scans if knows_coins(it.source))
        if missing or coinless:
            held = await held_tables(self._store.sink, spec.rules, spec.chain_id, sync.heights)
            watched = held.heights & RangeSet.of((member.above + 1, HIGHEST))
            missing, coinless = missing - watched, coinless - watched
        if sync.state is SyncState.COMPLETE:
            last = missing.spans[0].first - 1 if missing else sync.heights.last
            return Settled(_is_whole(sync) and not missing, last, not coinless)
        reached = sync.progress.processed_to
        return Settled(False, -1 if reached is None else reached, not coinless)

    async def _overrides(self) -> Overrides:
        spec = self._spec
        found = await self._context.ledger.overrides(spec.group, chain_id=spec.chain_id)
        return {
            (_key(*each.movement), spec.rules.parse_address(each.address)): parse_category(
                each.category
            )
            for each in found
        }

    async def _overrides_of(self, others: frozenset[bytes]) -> Overrides:
        """The categories that were set in other ledgers: only their entries tell of them."""
        chain = HistoryFilter(chains=(self._spec.chain_id,))
        found = await self._wallets.entries(self._spec.group, others, chain, _ALL)
        return {
            (it.key, entry.wallet): entry.category
            for it, entry in found
            if Flag.MANUAL in entry.flags
        }


def _entries(
    classifier: Classifier, facts: Sequence[Movement], overrides: Overrides
) -> list[WalletEntry]:
    """The entries of whole blocks."""
    return [*overridden([*classifier.add(facts), *classifier.finish()], overrides)]


def _key(chain: int, block: int, kind: str, transaction: int, at: int, batch: int) -> MovementKey:
    return MovementKey(chain, block, MovementKind(kind), transaction, at, batch)


def _is_whole(sync: Sync) -> bool:
    """Whether the sums of a wallet's movements are its balances, as far as movements tell."""
    return sync.state is SyncState.COMPLETE and sync.heights.first == 0
