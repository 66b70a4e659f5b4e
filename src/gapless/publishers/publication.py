"""What is published where: the chain of a sink, and a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from gapless.chains import Network, family_of, find_network, network_name
from gapless.chains.opening import open_sink
from gapless.config import Config, PublishSettings, resolved
from gapless.core.errors import StreamUnusable, UsageError
from gapless.core.similar import known_names
from gapless.publishers.entries import EntryTables
from gapless.publishers.feeder import Feeder, FeederOptions
from gapless.publishers.publisher import Publisher
from gapless.publishers.redis.url import StreamUrl, require_client, require_stream_name
from gapless.publishers.rows import StoredBlocks
from gapless.sinks import Access, Sink
from gapless.sinks.location import is_shareable
from gapless.system import SYSTEM, System


@dataclass(frozen=True)
class Publication:
    """A chain of a sink that is published on a stream."""

    name: str
    sink: str  # its name, as it is shown
    target: str = field(repr=False)  # its path or URL, which may hold a secret
    network: Network
    url: StreamUrl
    stream: str
    start: int | None = None  # the first height
    trim: int | None = None  # how many entries to keep
    expires: bool = False  # whether the sink is a spool, which keeps only what may be needed again

    @property
    def tables(self) -> EntryTables:
        return EntryTables.of(family_of(self.network).tables)

    @property
    def depth(self) -> int:
        """How many blocks below the highest one may still be replaced."""
        return max(self.network.reorg_depth, self.network.finality.depth) + 1

    async def chain_id(self, sink: Sink) -> int:
        """The chain of the sink; a private network has the id that the sink knows."""
        if self.network.chain_id is not None:
            return self.network.chain_id
        found = await sink.chains()
        if len(found) != 1:
            held = ", ".join(map(str, found)) or "none"
            raise UsageError(
                f"`{self.sink}` must hold one chain to publish `{self.network.name}`, not {held}",
                hint="name the network by its chain id",
            )
        return found[0]

    @asynccontextmanager
    async def opened_sink(
        self, access: Access = Access.WRITE, system: System = SYSTEM
    ) -> AsyncIterator[StoredBlocks]:
        if not is_shareable(self.target):
            raise StreamUnusable(
                f"`{self.sink}` is a DuckDB file, which only one process can open",
                hint="publish from SQLite, PostgreSQL or Parquet",
            )
        async with await open_sink(self.target, access, system=system) as sink:
            yield StoredBlocks(sink, await self.chain_id(sink), self.tables)

    @asynccontextmanager
    async def connected(self, owner: str) -> AsyncIterator[Publisher]:
        """One connection to the stream; at the end, another one may lead."""
        from gapless.publishers.redis.publisher import RedisPublisher

        stream = await RedisPublisher.open(self.url, self.stream, owner)
        try:
            yield stream
        finally:
            await stream.close()

    @property
    def reader(self) -> str:
        """The name by which the sink knows the reader of its changes."""
        return f"publish:{self.name}"

    def feeder(self, blocks: StoredBlocks, stream: Publisher) -> Feeder:
        options = FeederOptions(self.name, self.reader, self.start, self.depth)
        return Feeder(blocks, stream, options)


def publication(config: Config, name: str) -> Publication:
    """A publisher that the configuration names, with all names resolved."""
    settings = config.publish.get(name)
    if settings is None:
        names = sorted(config.publish)
        hint = known_names(name, names) if names else "name it in `gapless.toml`: `[publish.NAME]`"
        raise UsageError(f"no publisher `{name}` in the configuration", hint=hint)
    return _resolved(config, name, settings)


def _resolved(config: Config, name: str, settings: PublishSettings) -> Publication:
    require_client()
    network, sink = find_network(settings.network), settings.sink
    if sink is None:
        if len(config.sinks) != 1:
            raise UsageError(f"`[publish.{name}]` needs a sink", hint='write `sink = "NAME"`')
        sink = next(iter(config.sinks))
    url = StreamUrl.parse(resolved(settings.url))
    stream = settings.stream or url.stream or default_stream(network)
    require_stream_name(stream)
    target = config.sink(sink)
    return Publication(name, sink, target, network, url, stream, settings.start, settings.trim)


def shown_name(network: Network) -> str:
    """The name of a network; a private one without a known chain id has only that of its kind."""
    return network.name if network.chain_id is None else network_name(network)


def default_stream(network: Network) -> str:
    return f"{shown_name(network)}:events"
