"""A toy block: its JSON, its seal, its checks and its rows."""

from collections.abc import Collection, Iterable, Mapping
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from msgspec.structs import asdict

from gapless.chains.network import Network
from gapless.core.errors import BadBlock
from gapless.core.proof import HEIGHT, LINK, Proof
from gapless.schema.arrow import Tables, arrow_schema
from tests.toychain.tables import BLOCKS, MOVES

CHECKS = (HEIGHT, LINK, "seal", "moves")
Seal = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]


class Move(msgspec.Struct, frozen=True):
    giver: bytes
    taker: bytes
    coins: int


class Block(msgspec.Struct, frozen=True):
    """In JSON, bytes are base64. Only restored blocks may lack their moves."""

    block_number: int
    block_timestamp: int
    previous: Seal
    moves_seal: Seal
    move_count: int
    seal: Seal
    moves: tuple[Move, ...] | None


def sealed(facts: Any) -> bytes:
    return blake2b(msgspec.json.encode(facts), digest_size=32).digest()


def own_seal(it: Block) -> bytes:
    return sealed([it.block_number, it.block_timestamp, it.previous, it.moves_seal, it.move_count])


def proof_of(block: Block, network: Network, checks: frozenset[str], height: int) -> Proof:
    """What a block proves by itself; `BadBlock` if a check fails."""
    holds = {HEIGHT: block.block_number == height, "seal": block.seal == own_seal(block)}
    if (moves := block.moves) is not None:
        holds["moves"] = (block.move_count, block.moves_seal) == (len(moves), sealed(moves))
    made = network.required(checks, height) & holds.keys()
    for check in sorted(it for it in made if not holds[it]):
        raise BadBlock(f"block {height} fails the check `{check}`", height=height, check=check)
    return Proof(made, checks - made - {LINK})


def rows_of(blocks: Iterable[Block], chain_id: int, datasets: Collection[str]) -> Tables:
    rows: dict[str, list[dict[str, Any]]] = {BLOCKS.name: [], MOVES.name: []}
    for block in blocks:
        rows[BLOCKS.name].append(row := {"chain_id": chain_id, **asdict(block)})
        for at, move in enumerate(block.moves or ()):
            rows[MOVES.name].append({**row, **asdict(move), "move_index": at})
    wanted = [it for it in (BLOCKS, MOVES) if it.name in datasets]
    return Tables({it.name: pa.Table.from_pylist(rows[it.name], arrow_schema(it)) for it in wanted})


def restored(rows: Mapping[str, pa.Table]) -> list[Block]:
    """The blocks that these rows came from."""
    moves = rows[MOVES.name].to_pylist() if MOVES.name in rows else None
    by_height = {key: [*group] for key, group in groupby(moves or (), itemgetter("block_number"))}
    return [
        msgspec.convert({**it, "moves": moves and by_height.get(it["block_number"], ())}, Block)
        for it in rows[BLOCKS.name].to_pylist()
    ]
