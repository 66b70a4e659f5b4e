"""A toy chain, and nodes that serve it honestly or with a lie."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from gapless.devnode.wire import ClientConnection, HttpRequest, Reply
from tests.toychain.blocks import Block, Move, own_seal, sealed


class ToyChain:
    """Blocks with no, one or two moves each."""

    def __init__(self, blocks: int, chain_id: int = 770_001) -> None:
        self.chain_id, self.blocks = chain_id, list[Block]()
        self.grow(blocks)

    def grow(self, blocks: int, giver: bytes = b"ann") -> None:
        for height in range(len(self.blocks), len(self.blocks) + blocks):
            moves = tuple(Move(giver, b"bob", height + at) for at in range(height % 3))
            before = self.blocks[-1].seal if self.blocks else bytes(32)
            time, count = 1_600_000_000 + 2 * height, len(moves)
            block = Block(height, time, before, sealed(moves), count, b"", moves)
            self.blocks.append(replace(block, seal=own_seal(block)))


class ToyNode:
    """A node at `url` while its context is open."""

    def __init__(self, chain: ToyChain, lie: Callable[[Block], Block] = lambda it: it) -> None:
        self.chain, self.lie = chain, lie
        self._connections = set[ClientConnection]()

    async def __aenter__(self) -> Self:
        connection = partial(ClientConnection, self._respond, self._connections, packing=False)
        self._server = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0)
        self.url = "http://{}:{}".format(*self._server.sockets[0].getsockname())
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        for connection in tuple(self._connections):
            connection.close()
        await self._server.wait_closed()

    def _respond(self, request: HttpRequest) -> Reply:
        asked = msgspec.json.decode(request.body)
        answer = [*map(self._answer, asked)] if type(asked) is list else self._answer(asked)
        return Reply(msgspec.json.encode(answer))

    def _answer(self, call: dict[str, Any]) -> dict[str, Any]:
        blocks, answer = self.chain.blocks, {"id": call["id"]}
        match call["method"], call["params"]:
            case ("toy_chain" | "toy_height") as asked, []:
                number = self.chain.chain_id if asked == "toy_chain" else len(blocks) - 1
                return {**answer, "result": number}
            case "toy_block", [height]:
                return {**answer, "result": self.lie(blocks[height]) if blocks[height:] else None}
        return {**answer, "error": {"code": -32601, "message": "method not found"}}
