"""How TRON nodes are asked: the methods of java-tron's HTTP API, and what a pool asks on its own.

Blocks are asked for one by one. The wire joins consecutive ones to a range, whose end is exclusive
and which has at most 100 blocks. `{}`, `[]` and `{"block":[]}` mean that there is no such block, or
that the node does not have it yet; `[]` also stands for the infos of a block without transactions.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Raw, Struct

from gapless.chains.family import BlockHeader
from gapless.chains.tron.networks import chain_id_of
from gapless.providers import Call, HttpApi, RangeMethod

BLOCK = "/wallet/getblockbynum"
BLOCKS = "/wallet/getblockbylimitnext"
INFOS = "/wallet/gettransactioninfobyblocknum"
NODE_INFO = Call("/wallet/getnodeinfo", ({},))
HEAD = Call("/wallet/getnowblock", ({},))
SOLID = Call("/walletsolidity/getnowblock", ({},))
MOST_BLOCKS = 100  # in one range


class _HeaderFields(Struct, gc=False):
    number: int = 0
    timestamp: int = 0  # in milliseconds
    parent: str = msgspec.field(default="", name="parentHash")


class _SignedHeader(Struct, gc=False):
    raw_data: _HeaderFields


class _HeaderOfBlock(Struct, gc=False):
    id: str = msgspec.field(name="blockID")
    header: _SignedHeader = msgspec.field(name="block_header")


class _Range(Struct, gc=False):
    block: list[Raw]


_header = msgspec.json.Decoder(_HeaderOfBlock).decode
_range = msgspec.json.Decoder(_Range).decode


def block_call(height: int) -> Call:
    return Call(BLOCK, ({"num": height},), height)


def infos_call(height: int) -> Call:
    return Call(INFOS, ({"num": height},), height)


def header_of(answer: Raw | bytes) -> BlockHeader | None:
    """Read the header of a block; None if there is none, or it cannot be read."""
    try:
        found = _header(answer)
        fields = found.header.raw_data
        own, parent = bytes.fromhex(found.id), bytes.fromhex(fields.parent)
        return BlockHeader(fields.number, own, parent, fields.timestamp / 1000)
    except (ValueError, msgspec.MsgspecError):
        return None


def calls_of(blocks: int, *, infos: bool) -> dict[str, int]:
    """Return the calls that some blocks take, if each of them has transactions."""
    found = {BLOCKS: -(-blocks // MOST_BLOCKS)}
    return found | {INFOS: blocks} if infos else found


def _by_height(answer: bytes) -> Mapping[int, Raw]:
    """Divide a range of blocks; one whose height cannot be read is left out."""
    found = ((header_of(block), block) for block in _range(answer).block)
    return {header.height: block for header, block in found if header is not None}


class TronQueries:
    chain = block_call(0)
    head = HEAD
    subscription = None
    wire = HttpApi(
        RangeMethod(
            BLOCKS,
            of=BLOCK,
            body=lambda first, last: {"startNum": first, "endNum": last + 1},
            divide=_by_height,
        ),
        absent=frozenset({b"{}", b"[]", b'{"block":[]}', b"null"}),
        not_a_node="Is this the base URL of a TRON full node's HTTP API?",
    )

    def chain_id(self, answer: Raw) -> int | None:
        genesis = header_of(answer)
        return None if genesis is None or genesis.height else chain_id_of(genesis.hash)

    def height(self, answer: Raw) -> int | None:
        found = header_of(answer)
        return None if found is None else found.height

    def about(self, call: Call, height: int) -> Call | None:
        return Call(call.method, ({"num": height},), height)


QUERIES = TronQueries()
