"""A consumer that believes nothing: it replays a stream, and refuses what should not be in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from gapless.publishers.publisher import OutgoingBlock


class Seen(NamedTuple):
    """An entry of a stream."""

    kind: str
    height: int
    hash: bytes
    data: bytes


class Replay:
    """The blocks that a consumer has, after it has read some entries."""

    def __init__(self) -> None:
        self.blocks: dict[int, tuple[bytes, list[Any], Any]] = {}
        self._open: list[Seen] = []

    def read(self, entries: Iterable[Seen]) -> None:
        for entry in entries:
            match entry.kind:
                case "transaction":
                    self._open.append(entry)
                case "block":
                    self._close(entry)
                case "retract":
                    assert not self._open, "a block is incomplete"
                    assert entry.height in self.blocks, f"{entry.height} is not there"
                    known = self.blocks.pop(entry.height)[0]
                    assert entry.hash in (known, b""), f"{entry.height} has another hash"
        assert not self._open, "the last block is incomplete"

    def _close(self, entry: Seen) -> None:
        assert entry.height not in self.blocks, f"{entry.height} was published twice"
        assert {(it.height, it.hash) for it in self._open} <= {(entry.height, entry.hash)}
        summary = msgspec.json.decode(entry.data)
        assert summary["entries"] == len(self._open)
        data = [msgspec.json.decode(each.data) for each in self._open]
        self.blocks[entry.height] = entry.hash, data, summary
        self._open = []


def replayed(entries: Iterable[Seen]) -> dict[int, tuple[bytes, list[Any], Any]]:
    """What a consumer has after reading a whole stream."""
    consumer = Replay()
    consumer.read(entries)
    return consumer.blocks


def expected(blocks: Iterable[OutgoingBlock]) -> dict[int, tuple[bytes, list[Any], Any]]:
    """What a consumer must have, after reading these blocks."""
    return {
        it.height: (
            it.link.hash,
            [msgspec.json.decode(each) for each in it.transactions],
            msgspec.json.decode(it.summary),
        )
        for it in blocks
    }
