"""What a connection makes of the bytes of a provider, in whatever pieces they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.providers.connection import HttpConnection, Received
from gapless.providers.http import Http
from gapless.providers.transport import Response, Timeouts, TransportFailure

MOST = 1 << 20
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3;a=b\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: x\r\n\r\n"
)
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN
WHOLE = (PLAIN, CHUNKED, INTERIM)


class Wire(asyncio.Transport):
    """Delivers a response in pieces once the request was written, then perhaps ends."""

    def __init__(self, pieces: Sequence[bytes], *, ends: bool) -> None:
        super().__init__()
        self._pieces, self._ends = pieces, ends
        self.written = b""
        self.aborted = False

    def attach(self, connection: HttpConnection) -> None:
        self.connection = connection
        connection.connection_made(self)

    def writelines(self, list_of_data: object) -> None:
        assert isinstance(list_of_data, tuple)
        self.written += b"".join(list_of_data)
        loop = asyncio.get_running_loop()
        for piece in self._pieces:
            loop.call_soon(deliver, self.connection, piece)
        if self._ends:
            loop.call_soon(self.connection.eof_received)

    def abort(self) -> None:
        self.aborted = True


def deliver(connection: HttpConnection, data: bytes) -> None:
    """Feeds data as a loop does: as much at a time as the connection has room for."""
    while data:
        room = connection.get_buffer(-1)
        size = min(len(room), len(data))
        room[:size] = data[:size]
        connection.buffer_updated(size)
        data = data[size:]


async def exchanged(
    *pieces: bytes, ends: bool = False, most: int = MOST
) -> tuple[Received, HttpConnection, Wire]:
    wire, connection = Wire(pieces, ends=ends), HttpConnection()
    wire.attach(connection)
    async with asyncio.timeout(5):
        received = await connection.exchange(b"head", b"body", most)
    assert wire.written == b"headbody"
    return received, connection, wire


async def refused(*pieces: bytes, ends: bool = False, most: int = MOST) -> str:
    with pytest.raises(TransportFailure) as raised:
        await exchanged(*pieces, ends=ends, most=most)
    return str(raised.value)


@given(st.sampled_from(WHOLE), st.lists(st.integers(1, 120), max_size=8))
def test_the_pieces_in_which_a_response_arrives_do_not_matter(
    whole: bytes, edges: list[int]
) -> None:
    cuts = [0, *sorted(edges), len(whole)]
    pieces = [whole[start:end] for start, end in pairwise(cuts)]
    received, connection, _ = asyncio.run(exchanged(*pieces))
    assert (received.status, received.body) == (200, b"hello")
    assert connection.is_reusable


@given(st.integers(0, 300_000), st.lists(st.integers(1, 300_000), max_size=5), st.booleans())
def test_a_large_body_arrives_unchanged(size: int, edges: list[int], ends: bool) -> None:
    body = (b"0123456789" * 30_000)[:size]
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (size, body)
    cuts = [0, *sorted(edges), len(whole)]
    pieces = [whole[start:end] for start, end in pairwise(cuts)]
    received, connection, _ = asyncio.run(exchanged(*pieces, ends=ends))
    assert received.body == body
    assert connection.is_reusable is not ends


async def test_a_large_body_that_ends_early_is_an_error() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n"
    assert await refused(head, bytes(299_999), ends=True) == "the answer broke off"


@given(st.sampled_from(WHOLE), st.data())
def test_a_response_that_ends_early_is_an_error(whole: bytes, data: st.DataObject) -> None:
    size = data.draw(st.integers(0, len(whole) - 1))
    message = asyncio.run(refused(whole[:size], ends=True))
    inside = (
        size >= whole.index(b"\r\n\r\n", len(whole) - len(PLAIN) if whole is INTERIM else 0) + 4
    )
    assert message == ("the answer broke off" if inside else "the connection was lost")


@given(st.binary(max_size=80))
def test_no_bytes_raise_anything_else(garbage: bytes) -> None:
    for start in (b"", b"HTTP/1.1 200 OK\r\n", CHUNKED[: CHUNKED.index(b"3;")]):
        with suppress(TransportFailure):
            asyncio.run(exchanged(start + garbage, ends=True))


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/2 200 OK",
        b"HTTP/1.1 abc",
        b"SSH-2.0-OpenSSH",
        b"HTTP/1.1 101 Switching Protocols",
        b"HTTP/1.1 200 OK\r\nContent-Length: five",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6",
        b"HTTP/1.1 200 OK\r\nContent-Length : 5",
        b"HTTP/1.1 200 OK\r\nno colon",
    ],
)
async def test_a_malformed_head_is_an_error(head: bytes) -> None:
    assert await refused(head + b"\r\n\r\nhello") == "the connection was lost"


@pytest.mark.parametrize("chunk", [b"x\r\n", b"\r\n", b"-1\r\n", b"+1\r\n", b"1\r\nabc"])
async def test_a_malformed_chunk_is_an_error(chunk: bytes) -> None:
    head = CHUNKED[: CHUNKED.index(b"3;")]
    assert await refused(head + chunk + b"0\r\n\r\n") == "the connection was lost"


async def test_a_head_without_end_is_cut_off() -> None:
    assert await refused(b"HTTP/1.1 200 OK\r\nA: " + b"x" * (1 << 17)) == "the connection was lost"


@pytest.mark.parametrize("whole", [PLAIN, CHUNKED, b"HTTP/1.1 200 OK\r\n\r\nhello"])
async def test_a_body_that_is_too_large_is_cut_off(whole: bytes) -> None:
    assert "larger than" in await refused(whole, most=4)


async def test_a_body_without_a_size_is_not_whole_if_its_connection_was_reset() -> None:
    wire = Wire([b"HTTP/1.1 200 OK\r\n\r\nhel"], ends=False)
    connection = HttpConnection()
    wire.attach(connection)
    exchange = asyncio.create_task(connection.exchange(b"head", b"body", MOST))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(connection.connection_lost, ConnectionResetError())
    with pytest.raises(TransportFailure, match="the answer broke off"):
        await exchange


async def test_a_body_without_a_size_ends_with_its_connection() -> None:
    received, connection, _ = await exchanged(b"HTTP/1.1 200 OK\r\n\r\nhel", b"lo", ends=True)
    assert received.body == b"hello"
    assert not connection.is_reusable


@pytest.mark.parametrize(
    "whole",
    [
        PLAIN.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"),
        PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0"),
        PLAIN + b"surplus",
    ],
)
async def test_a_connection_that_cannot_be_trusted_is_not_reused(whole: bytes) -> None:
    received, connection, _ = await exchanged(whole)
    assert received.body == b"hello"
    assert not connection.is_reusable


async def test_an_old_server_may_keep_the_connection() -> None:
    whole = PLAIN.replace(b"1.1 200 OK", b"1.0 200 OK\r\nConnection: Keep-Alive")
    assert (await exchanged(whole))[1].is_reusable


@pytest.mark.parametrize("status", [204, 304])
async def test_some_responses_have_no_body(status: int) -> None:
    received, connection, _ = await exchanged(f"HTTP/1.1 {status} x\r\n\r\n".encode())
    assert received.body == b""
    assert connection.is_reusable


async def test_bytes_that_nobody_asked_for_close_an_idle_connection() -> None:
    _, connection, wire = await exchanged(PLAIN)
    deliver(connection, PLAIN)
    assert wire.aborted
    assert not connection.is_reusable


@asynccontextmanager
async def serving(*responses: bytes) -> AsyncIterator[tuple[str, list[bytes], list[int]]]:
    """A server that answers each request with the next response: URL, heads, connections."""
    heads: list[bytes] = []
    ports: list[int] = []
    closed: list[asyncio.Future[None]] = []
    waiting = iter(responses)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ports.append(writer.get_extra_info("peername")[1])
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        closed.append(done)
        with suppress(ConnectionError):
            while head := await reader.read(1 << 16):
                heads.append(head)
                writer.write(next(waiting))
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        done.set_result(None)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", heads, ports
        await asyncio.gather(*closed)


async def post(http: Http, url: str, *, fresh: bool = False, **headers: str) -> Response:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return await http.post(url, b"{}", headers=given, calls=1, fresh=fresh)


async def test_a_connection_is_used_again_unless_a_fresh_one_is_wanted() -> None:
    async with serving(*[PLAIN] * 4) as (address, heads, ports), Http(Timeouts()) as http:
        for fresh in (False, False, True, False):
            assert (await post(http, f"http://{address}", fresh=fresh)).body == b"hello"
        assert len(ports) == 2
        assert [b"Connection: close" in head for head in heads] == [False, False, True, False]


async def test_a_connection_that_the_server_closed_is_replaced() -> None:
    async with serving(PLAIN, PLAIN) as (address, _, ports), Http(Timeouts()) as http:
        await post(http, f"http://{address}")
        (kept,) = next(iter(http._idle.values()))
        kept.eof_received()
        await post(http, f"http://{address}")
        assert len(ports) == 2


async def test_the_head_of_a_request() -> None:
    async with serving(PLAIN) as (address, heads, _), Http(Timeouts()) as http:
        url = f"http://me:s%40crit@{address}/v2/kéy/a%20b?x=1&y=ä#part"
        await post(http, url, user_agent="mine", X_Key="1")
    first, *lines = heads[0].decode().split("\r\n")
    assert first == "POST /v2/k%C3%A9y/a%20b?x=1&y=%C3%A4 HTTP/1.1"
    assert lines[-2:] == ["", "{}"]
    assert dict(line.split(": ") for line in lines[:-2]) == {
        "Host": address,
        "Accept": "*/*",
        "Accept-Encoding": "gzip",
        "Content-Type": "application/json",
        "Authorization": "Basic bWU6c0Bjcml0",
        "user-agent": "mine",
        "X-Key": "1",
        "Content-Length": "2",
    }


@pytest.mark.parametrize("url", ["http://", "ftp://host", "http://host:port", "http://a..b/", "x"])
async def test_an_invalid_url_is_named_as_such(url: str) -> None:
    async with Http(Timeouts()) as http:
        with pytest.raises(TransportFailure, match="invalid URL"):
            await post(http, url)
