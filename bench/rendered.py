"""The answers of a simulated chain, rendered in advance, to be appended to the id of a call.

The node must not be what is measured. Everything that it would compute is in the chain's files in
the devnode's cache, one answer per line; here those files are mapped, and each answer is a view
into them: finding one is an index, sending one is a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct

from gapless.devnode import Parameters
from gapless.devnode.evm.blocks import EvmBuilder
from gapless.devnode.limits import FINALITY_DEPTH, SAFE_DEPTH
from gapless.devnode.store import StoredChain, stored


@dataclass(frozen=True)
class Workload:
    """Blocks 1 to `blocks` of a chain, which is long enough that they are all final."""

    name: str
    blocks: int
    transactions: int

    @property
    def parameters(self) -> Parameters:
        return Parameters(blocks=self.blocks + FINALITY_DEPTH, txs=self.transactions)


SMALL, LARGE = Workload("small", 5_000, 5), Workload("large", 500, 150)
LONG = Workload("long", 50_000, 1)
WORKLOADS = {each.name: each for each in (SMALL, LARGE, LONG)}


class _Receipt(Struct, gc=False):
    transactionHash: str  # noqa: N815 - as nodes write it
    logs: list[Raw]


_raws = msgspec.json.Decoder(list[Raw]).decode
_receipts = msgspec.json.Decoder(list[_Receipt]).decode
_members = msgspec.json.Decoder(dict[str, Raw]).decode
_named = msgspec.json.Decoder(list[dict[str, Any]]).decode


@dataclass(frozen=True)
class Rendered:
    """The results of the methods that fetch a chain, by height, and the heights of tags.

    Blocks and receipts are rendered; the others are derived from them on first use.
    """

    blocks: Sequence[memoryview]
    receipts: Sequence[memoryview]

    @cached_property
    def bare_blocks(self) -> list[bytes]:
        """Blocks with the hashes of their transactions."""
        return [_bare(block) for block in self.blocks]

    @cached_property
    def logs(self) -> list[bytes]:
        """The logs of each block, joined, without the brackets of a list."""
        return [
            b",".join(bytes(log) for receipt in _receipts(each) for log in receipt.logs)
            for each in self.receipts
        ]

    @cached_property
    def receipt_by_hash(self) -> dict[str, Raw]:
        return {
            named.transactionHash: whole
            for each in self.receipts
            for named, whole in zip(_receipts(each), _raws(each), strict=True)
        }

    @property
    def head(self) -> int:
        return len(self.blocks) - 1

    @property
    def tags(self) -> dict[str, int]:
        return {
            "earliest": 0,
            "finalized": max(0, self.head - FINALITY_DEPTH),
            "safe": max(0, self.head - SAFE_DEPTH),
            "latest": self.head,
            "pending": self.head,
        }


def rendered(parameters: Parameters, cache: Path | None = None) -> Rendered:
    """The chain with these parameters; building it the first time takes a while."""
    return rendered_from(stored(EvmBuilder(parameters), cache))


def rendered_from(found: StoredChain) -> Rendered:
    return Rendered(found.blocks.views(), found.receipts.views())


def _bare(block: memoryview) -> bytes:
    members = _members(block)
    hashes = [each["hash"] for each in _named(members["transactions"])]
    members["transactions"] = Raw(msgspec.json.encode(hashes))
    return msgspec.json.encode(members)
