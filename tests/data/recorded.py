"""The recorded real blocks and chains, as raw JSON; absent on other machines."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parents[3] / "shared" / "data"
BLOCKS = DATA / "blocks"
CHAINS = DATA / "chains"

with_blocks = pytest.mark.skipif(not BLOCKS.exists(), reason="there are no recorded blocks")
with_chains = pytest.mark.skipif(not CHAINS.exists(), reason="there are no recorded chains")

# Where the index does not name it.
_CHAIN_IDS = {"stable": 988, "stable-testnet": 2201, "tempo": 4217, "tempo-moderato": 42_431}


class RealBlock:
    """An entry of the index, whose files are read when needed."""

    def __init__(self, entry: dict[str, Any]) -> None:
        self.chain: str = entry["chain"]
        self.height: int = entry["number"]
        self.chain_id: int = entry["chainId"] or _CHAIN_IDS[self.chain]
        self.tier: str = entry["tier"][0]
        self.verified: dict[str, Any] = entry["verify"]
        self.logs: int = entry["logs"] or 0

    def __str__(self) -> str:
        return f"{self.chain}-{self.height}"

    @property
    def block(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(self._file("block"))
        return read

    @property
    def receipts(self) -> list[dict[str, Any]] | None:
        read: list[dict[str, Any]] | None = json.loads(self._file("receipts") or "null")
        return read

    @property
    def peer_token_transfers(self) -> list[dict[str, Any]] | None:
        """What another indexer decoded from the same block."""
        text = self._file("peer_token_transfers")
        read: list[dict[str, Any]] | None = json.loads(text or "null")
        return read

    def _file(self, kind: str) -> str:
        path = BLOCKS / self.chain / f"{self.height}.{kind}.json.gz"
        return gzip.decompress(path.read_bytes()).decode() if path.exists() else ""


@cache
def real_blocks() -> tuple[RealBlock, ...]:
    index = BLOCKS / "index.json"
    return tuple(map(RealBlock, json.loads(index.read_text()))) if index.exists() else ()


def real_block(chain: str, height: int) -> RealBlock:
    return next(it for it in real_blocks() if (it.chain, it.height) == (chain, height))


def real_chain(name: str) -> Iterator[tuple[bytes, bytes]]:
    """Block and receipts of every height, from 0, as a node would return them."""
    folder = CHAINS / name
    with (
        gzip.open(folder / "blocks.jsonl.gz") as blocks,
        gzip.open(folder / "receipts.jsonl.gz") as receipts,
    ):
        yield from zip(blocks, receipts, strict=True)
