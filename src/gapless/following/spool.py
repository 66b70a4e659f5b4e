"""The spool of a stream: the sink of a follow whose blocks are wanted only on a stream.

A stream can only be appended to: it cannot show what it is missing, and no block can be replaced in
it. So the blocks are stored in a SQLite file first, next to the ledger, and published from there.
The file stays small: final blocks expire once they are published.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from gapless.chains import Network, family_of, find_network
from gapless.config import Config, resolved
from gapless.core.errors import UsageError
from gapless.following.spec import FollowSpec
from gapless.publishers.entries import EntryTables
from gapless.publishers.publication import Publication, default_stream
from gapless.publishers.redis.url import StreamUrl, is_stream_url, require_client
from gapless.runtime.process import DEFAULT_LEDGER


@dataclass(frozen=True)
class Spool:
    """A stream, and the file that blocks go through on their way to it."""

    network: Network
    url: StreamUrl
    stream: str
    path: str

    @property
    def name(self) -> str:
        """The usual name of its follow."""
        return _plain(self.stream)[:40]

    def require_tables(self, datasets: Collection[str]) -> None:
        needed = [table.name for table in EntryTables.of(family_of(self.network).tables).all]
        if missing := [name for name in needed if name not in datasets]:
            raise UsageError(
                f"a stream needs the tables {', '.join(missing)} too",
                hint=f"store all of these tables: {', '.join(needed)}",
            )

    def publication(self, spec: FollowSpec, config: Config) -> Publication:
        """What is published of the follow."""
        return Publication(
            name=self.stream,
            sink=spec.sink,
            target=config.sink(spec.sink),
            network=spec.chain,
            url=self.url,
            stream=self.stream,
            start=spec.start,
            expires=True,
        )


def spool_of(network: str, target: str | None, ledger_url: str) -> Spool | None:
    """The spool of a target that is a stream; None if it is a sink."""
    text = resolved(target) if target and target.startswith("env:") else target
    if text is None or not is_stream_url(text):
        return None
    require_client()
    chain, url = find_network(network), StreamUrl.parse(text)
    stream = url.stream or default_stream(chain)
    place = _plain(url.shown.partition("://")[2])
    path = _folder(ledger_url) / f"spool-{place}-{_plain(stream)}.db"
    return Spool(chain, url, stream, str(path))


def _folder(ledger_url: str) -> Path:
    """The folder of the ledger; that of the usual one if it is not in a folder."""
    scheme, separator, rest = ledger_url.partition("://")
    if separator and scheme != "sqlite":
        rest = DEFAULT_LEDGER.partition("://")[2]
    return Path(rest.removeprefix("/") if rest else ledger_url).parent


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-")
