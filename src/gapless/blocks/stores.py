"""The stored chain that a question is about.

It is named by its sink (a path, a name or a variable) and a network, or by the backfill that has
filled it: then the blocks in question are those that the backfill was asked for.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from gapless.blocks.holding import datasets_of_chain
from gapless.blocks.spec import anchors_of, known_hashes
from gapless.blocks.targets import has_endpoint
from gapless.chains import Network, family_of, find_network, network_name, network_of_chain
from gapless.chains.opening import open_sink
from gapless.config import Config
from gapless.core.anchors import Anchor
from gapless.core.errors import BadSelector, Incomplete, Unreadable, UsageError
from gapless.core.heights import Heights
from gapless.core.ranges import Span
from gapless.core.redaction import redact
from gapless.core.remedies import ChooseNetwork, FetchBlocks, GiveBlocks, ResolveDates, ShowBackfill
from gapless.ledger import open_ledger
from gapless.ledger.records import Backfill
from gapless.runtime.process import actor
from gapless.schema import Table
from gapless.sinks import Access, Sink
from gapless.verification import Progress, Report, Verification

_BACKFILL = re.compile(r"bf_[a-z2-7]{10}(-\d+)?")


@dataclass(frozen=True)
class Store:
    """An open sink, and the chain in it that was asked for."""

    sink: Sink
    target: str = field(repr=False)  # the sink's name, or its path or URL, which may hold a secret
    shown: str  # the same, as it may be shown
    chain_id: int
    facts: Network
    span: Span | None  # the blocks in question; None: all that was asked for
    has_endpoint: bool  # whether the configuration names an endpoint of this chain

    @property
    def anchor(self) -> Table:
        """The table with one row for each block."""
        return family_of(self.facts).tables[0]

    @property
    def network(self) -> str:
        return network_name(self.facts)

    async def report(
        self,
        known_hashes: Mapping[int, bytes],
        *,
        deep: bool = False,
        progress: Progress = lambda _: None,
    ) -> Report:
        """What is wrong with the blocks in question."""
        looking = Verification(self.sink, self.chain_id, self.facts, known_hashes, deep, progress)
        found = await looking.report(self.span)
        if found is None:
            raise Incomplete(
                f"`{self.shown}` holds no block of {self.network}",
                remedy=FetchBlocks(self.network, self.shown, self.has_endpoint),
            )
        return found

    async def known_hashes(self, anchors: Sequence[str] = ()) -> dict[int, bytes]:
        """Hashes of the network, of the fetches into this sink, and of the person, by height."""
        recorded = await anchors_of(self.sink, self.chain_id)
        return known_hashes(self.facts, [*map(Anchor.parse, anchors), *recorded])


@asynccontextmanager
async def opened_store(
    config: Config,
    ledger_url: str,
    target: str,
    network_name: str | None,
    blocks_text: str | None,
) -> AsyncIterator[Store]:
    """The sink, which must be there; a name of `gapless.toml` comes before a path."""
    span = span_of(blocks_text)
    wanted = None if network_name is None else find_network(network_name)
    if target not in config.sinks and _BACKFILL.fullmatch(target):
        target, wanted, asked = _filled_by(await _backfill(ledger_url, target))
        span = span or asked
    async with await open_sink(target_of(config, target), Access.READ) as sink:
        shown = redact(target)
        facts = _chosen(shown, await _held(sink), wanted)
        assert facts.chain_id is not None
        yield Store(sink, target, shown, facts.chain_id, facts, span, has_endpoint(config, facts))


async def _backfill(ledger_url: str, backfill_id: str) -> Backfill:
    ledger = await open_ledger(ledger_url, actor=actor(), create=False)
    try:
        return await ledger.backfill(backfill_id)
    finally:
        await ledger.close()


async def _held(sink: Sink) -> dict[int, Network]:
    """The chains in a sink. What kind of chain an unlisted one is, its tables tell."""
    return {
        chain_id: network_of_chain(chain_id, await datasets_of_chain(sink, chain_id))
        for chain_id in await sink.chains()
    }


def target_of(config: Config, target: str) -> str:
    """Where a sink is that goes by its name, its variable or its path."""
    config.refuse_misspelled_sink(target)
    named = target in config.sinks or target.startswith("env:")
    return config.sink(target) if named else target


def _filled_by(backfill: Backfill) -> tuple[str, Network, Span]:
    """The sink, the network and the blocks of a backfill."""
    if backfill.job != "blocks":
        raise UsageError(
            f"backfill `{backfill.id}` runs `{backfill.job}`, and fills no sink",
            remedy=ShowBackfill(backfill.id),
        )
    if backfill.unreadable:
        raise Unreadable(backfill.unreadable, remedy=GiveBlocks())
    network = find_network(str(backfill.spec["network"]))
    network = replace(network, chain_id=int(backfill.spec["chain_id"]))
    asked = Span(int(backfill.selector["start"]), int(backfill.selector["end"]))
    return str(backfill.spec["sink"]), network, asked


def span_of(text: str | None) -> Span | None:
    """A range of blocks. There is no head here to count from, only what is stored."""
    if text is None:
        return None
    heights = Heights.parse(text)
    if heights.is_dated:
        raise BadSelector(
            f"`{text}` names dates, and only a fetch knows their heights",
            remedy=ResolveDates(),
        )
    first, last = heights.first, heights.last
    if not (isinstance(first, int) and isinstance(last, int)):
        raise BadSelector(f"`{text}` has no end", hint="write `18M:18.005M` or `18000000:+5000`")
    return Span(first, last)


def _chosen(shown: str, held: Mapping[int, Network], wanted: Network | None) -> Network:
    """What is known of the chain. A private one may have a public one's id: `custom` says so."""
    if wanted is not None and wanted.chain_id is not None:
        found = held.get(wanted.chain_id, wanted)
        return wanted if found.family == wanted.family else found
    if not held:
        raise UsageError(f"`{shown}` holds no blocks", hint="fetch some into it first")
    fitting = [it for it in held.values() if wanted is None or it.family == wanted.family]
    if len(fitting) == 1:
        return fitting[0] if wanted is None else replace(wanted, chain_id=fitting[0].chain_id)
    chains = ", ".join(map(network_name, fitting or held.values()))
    if not fitting:
        assert wanted is not None
        raise UsageError(
            f"`{shown}` holds no chain of the same kind as `{wanted.name}`, but {chains}",
            remedy=ChooseNetwork(),
        )
    raise UsageError(f"`{shown}` holds several chains: {chains}", remedy=ChooseNetwork())
