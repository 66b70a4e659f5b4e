"""The names of the keys beside a stream.

They share the prefix of the stream: `tron:events` has `tron:last_synced_block`. A cluster runs a
script only if all of its keys are in one slot, so there the prefix is in braces: `{tron}:events`.

    >>> StreamKeys("tron:events").head
    'tron:head'
    >>> StreamKeys("tron:events", cluster=True).stream
    '{tron}:events'
    >>> StreamKeys("events").head
    'events:head'
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StreamKeys:
    """The keys of one stream."""

    name: str
    cluster: bool = False

    @property
    def prefix(self) -> str:
        before, separator, _ = self.name.rpartition(":")
        found = before if separator else self.name
        return f"{{{found}}}" if self.cluster and "{" not in found else found

    @property
    def stream(self) -> str:
        _, separator, last = self.name.rpartition(":")
        return f"{self.prefix}:{last}" if separator else self.prefix

    @property
    def last_synced_block(self) -> str:
        return f"{self.prefix}:last_synced_block"

    @property
    def head(self) -> str:
        return f"{self.prefix}:head"

    @property
    def dlq(self) -> str:
        return f"{self.prefix}:dlq"

    @property
    def all(self) -> tuple[str, ...]:
        """In the order in which scripts expect them."""
        return (
            self.stream,
            f"{self.prefix}:publisher",
            f"{self.prefix}:published",
            f"{self.prefix}:links",
            self.last_synced_block,
            self.head,
            self.dlq,
        )
